/* What all NVML functions share. */
#include "call.h"

#include <stddef.h>
#include <string.h>

int nvml_initialized;

nvmlReturn_t call_begin(struct state *state, enum access access, const char *function, const void *handle)
{
    state->lock = -1;
    if (!nvml_initialized)
        return NVML_ERROR_UNINITIALIZED;
    nvmlReturn_t refused = state_load(state, READ);
    if (refused == NVML_SUCCESS) /* before the lock: a call that hangs must not keep those for other GPUs */
        refused = state_fault(state, function, handle ? (int)handle_gpu(handle) : -1);
    return refused != NVML_SUCCESS || access == READ ? refused : state_load(state, WRITE);
}

struct gpu *gpu_of(struct state *state, const void *device)
{
    if (handle_kind(device) == MIG_DEVICE)
        return mig_device_of(state, device) ? state_gpu(state, handle_gpu(device)) : NULL;
    return whole_gpu(state, device);
}

struct gpu *whole_gpu(struct state *state, const void *device)
{
    return handle_kind(device) == GPU ? state_gpu(state, handle_gpu(device)) : NULL;
}

struct gpu_instance *gpu_instance_of(struct state *state, const void *handle)
{
    if (handle_kind(handle) != GPU_INSTANCE)
        return NULL;
    return state_gpu_instance(state, handle_gpu(handle), handle_gi(handle));
}

struct compute_instance *compute_instance_of(struct state *state, const void *handle)
{
    if (handle_kind(handle) != COMPUTE_INSTANCE)
        return NULL;
    return state_compute_instance(state, handle_gpu(handle), handle_gi(handle), handle_ci(handle));
}

struct compute_instance *mig_device_of(struct state *state, const void *device)
{
    if (handle_kind(device) != MIG_DEVICE)
        return NULL;
    return state_compute_instance(state, handle_gpu(device), handle_gi(device), handle_ci(device));
}

nvmlReturn_t answer_text(char *buffer, unsigned int length, const char *text)
{
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) + 1 > length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}
