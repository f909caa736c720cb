/* MIG mode of a GPU: current, pending, and what stands in the way of a change. */
#include "call.h"

#define ENABLED 1u

static int supports_mig(const struct gpu *gpu) { return gpu->board->slices > 0; }

NVML_API nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!supports_mig(gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    *current = gpu->mode;
    *pending = gpu->pending_mode;
    return NVML_SUCCESS;
}

static int has_instances(const struct state *state, unsigned int gpu)
{
    for (unsigned int i = 0; i < state->gpu_instance_count; i++)
        if (state->gpu_instances[i].gpu == gpu)
            return 1;
    return 0;
}

/* Who holds the GPU leaves the change pending: the call succeeds, `activation` says IN_USE, and it is to be made again.
 * Where a hypervisor keeps the GPU from being reset it pends as well, and nothing says so. */
NVML_API nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    CALL(WRITE, device);
    struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu || mode > ENABLED)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!supports_mig(gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    if (mode != ENABLED && has_instances(&state, gpu->index))
        return NVML_ERROR_IN_USE;
    gpu->pending_mode = mode;
    *activation = NVML_SUCCESS;
    int resets = gpu->mode != mode && gpu->board->needs_reset_for_mode;
    if (gpu->mode != mode && state_gpu_held(&state, gpu->index))
        *activation = NVML_ERROR_IN_USE;
    else if (!resets)
        gpu->mode = mode;
    else if (state_resettable(&state))
        state_reset_gpu(&state, gpu);
    return state_save(&state);
}
