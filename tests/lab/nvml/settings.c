/* Compute mode, ECC, and what the GPU is to a hypervisor. */
#include "call.h"

#define EXCLUSIVE_THREAD 1u /* no longer to be had */
#define EXCLUSIVE_PROCESS 3u

NVML_API nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *mode = gpu->compute_mode;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
    CALL(WRITE, device);
    struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu || mode > EXCLUSIVE_PROCESS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (mode == EXCLUSIVE_THREAD)
        return NVML_ERROR_NOT_SUPPORTED;
    gpu->compute_mode = mode;
    return state_save(&state);
}

NVML_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = gpu->ecc;
    *pending = gpu->pending_ecc;
    return NVML_SUCCESS;
}

/* Takes effect with the next reset. */
NVML_API nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, unsigned int mode)
{
    CALL(WRITE, device);
    struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu || mode > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    gpu->pending_ecc = mode;
    return state_save(&state);
}

NVML_API nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned int *mode)
{
    CALL(READ, device);
    if (!whole_gpu(&state, device))
        return NVML_ERROR_INVALID_ARGUMENT;
    *mode = state.virtualization;
    return NVML_SUCCESS;
}
