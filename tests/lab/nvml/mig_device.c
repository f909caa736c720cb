/* MIG devices: a compute instance seen as a device of its own. */
#include "call.h"

#include <stddef.h>

NVML_API nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    CALL(READ, device);
    if (!gpu_of(&state, device))
        return NVML_ERROR_INVALID_ARGUMENT;
    *is_mig = handle_kind(device) == MIG_DEVICE;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = gpu->mode ? gpu->board->slices : 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->board->slices)
        return NVML_ERROR_NOT_SUPPORTED;
    for (unsigned int i = 0, seen = 0; i < state.compute_instance_count; i++) {
        const struct compute_instance *found = &state.compute_instances[i];
        if (found->gpu == gpu->index && seen++ == index) {
            *mig = make_handle(MIG_DEVICE, found->gpu, found->gpu_instance, found->id);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    CALL(READ, mig);
    if (!mig_device_of(&state, mig))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = make_handle(GPU, handle_gpu(mig), 0, 0);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    CALL(READ, device);
    if (!mig_device_of(&state, device))
        return handle_kind(device) == GPU ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    *id = handle_gi(device);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    CALL(READ, device);
    if (!mig_device_of(&state, device))
        return handle_kind(device) == GPU ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    *id = handle_ci(device);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    CALL(READ, device);
    const struct compute_instance *mig = mig_device_of(&state, device);
    if (!mig)
        return handle_kind(device) == GPU ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    const struct gpu_instance *instance = state_gpu_instance(&state, mig->gpu, mig->gpu_instance);
    const struct profile *profile = profile_by_id(state_gpu(&state, mig->gpu)->board, instance->profile_id);
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = profile->multiprocessors * mig->size / profile->slices,
        .sharedCopyEngineCount = profile->copy_engines,
        .sharedDecoderCount = profile->decoders,
        .sharedEncoderCount = profile->encoders,
        .sharedJpegCount = profile->jpeg,
        .sharedOfaCount = profile->ofa,
        .gpuInstanceSliceCount = profile->slices,
        .computeInstanceSliceCount = mig->size,
        .memorySizeMB = profile->memory_mib,
    };
    return NVML_SUCCESS;
}
