/* GPU instances: the slices of a GPU. */
#include "call.h"
#include "geometry.h"

#include <stdio.h>
#include <string.h>

static void describe(const struct profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    unsigned int version = info->version;
    *info = (nvmlGpuInstanceProfileInfo_v2_t){
        .version = version,
        .id = profile->id,
        .sliceCount = profile->slices,
        .instanceCount = profile->instances,
        .multiprocessorCount = profile->multiprocessors,
        .copyEngineCount = profile->copy_engines,
        .decoderCount = profile->decoders,
        .encoderCount = profile->encoders,
        .jpegCount = profile->jpeg,
        .ofaCount = profile->ofa,
        .memorySizeMB = profile->memory_mib,
    };
    snprintf(info->name, sizeof info->name, "MIG %s", profile->name);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int index,
                                                           nvmlGpuInstanceProfileInfo_v2_t *info)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu || index >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != NVML_VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2u))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct profile *profile = profile_by_index(gpu->board, index);
    if (!profile)
        return NVML_ERROR_NOT_SUPPORTED;
    describe(profile, info);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int index,
                                                          nvmlGpuInstanceProfileInfo_t *info)
{
    nvmlGpuInstanceProfileInfo_v2_t full = {.version = NVML_VERSIONED(nvmlGpuInstanceProfileInfo_v2_t, 2u)};
    nvmlReturn_t refused = nvmlDeviceGetGpuInstanceProfileInfoV(device, index, &full);
    if (refused == NVML_SUCCESS)
        *info = (nvmlGpuInstanceProfileInfo_t){full.id,           full.isP2pSupported,      full.sliceCount,
                                               full.instanceCount, full.multiprocessorCount, full.copyEngineCount,
                                               full.decoderCount, full.encoderCount,        full.jpegCount,
                                               full.ofaCount,     full.memorySizeMB};
    return refused;
}

/* What every call about instances of a profile checks first; NVML says nothing of them while MIG mode is off. */
static nvmlReturn_t check(const struct gpu *gpu, const struct profile *profile)
{
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->mode)
        return NVML_ERROR_NOT_SUPPORTED;
    return profile ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int profile_id,
                                                                    nvmlPlacement_t *placements, unsigned int *count)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    const struct profile *profile = gpu ? profile_by_id(gpu->board, profile_id) : NULL;
    nvmlReturn_t refused = check(gpu, profile);
    if (refused != NVML_SUCCESS)
        return refused;
    unsigned int room = *count;
    *count = profile->placement_count;
    if (!placements)
        return NVML_SUCCESS;
    if (room < profile->placement_count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(placements, profile->placements, profile->placement_count * sizeof *placements);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int profile_id,
                                                                unsigned int *count)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    const struct profile *profile = gpu ? profile_by_id(gpu->board, profile_id) : NULL;
    nvmlReturn_t refused = check(gpu, profile);
    if (refused == NVML_SUCCESS)
        *count = remaining_capacity(&state, gpu, profile);
    return refused;
}

static nvmlReturn_t create(struct state *state, const struct gpu *gpu, const struct profile *profile,
                           nvmlPlacement_t placement, nvmlGpuInstance_t *created)
{
    if (!placement_is_free(state, gpu, profile, placement) || state->gpu_instance_count == MAX_INSTANCES)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    unsigned int id = gpu_instance_id(gpu->board, placement);
    state->gpu_instances[state->gpu_instance_count++] =
        (struct gpu_instance){gpu->index, id, profile->id, placement.start, placement.size};
    *created = make_handle(GPU_INSTANCE, gpu->index, id, 0);
    return state_save(state);
}

NVML_API nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int profile_id,
                                                  nvmlGpuInstance_t *created)
{
    CALL(WRITE, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    const struct profile *profile = gpu ? profile_by_id(gpu->board, profile_id) : NULL;
    nvmlReturn_t refused = check(gpu, profile);
    if (refused != NVML_SUCCESS)
        return refused;
    for (unsigned int i = 0; i < profile->placement_count; i++)
        if (placement_is_free(&state, gpu, profile, profile->placements[i]))
            return create(&state, gpu, profile, profile->placements[i], created);
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

NVML_API nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile_id,
                                                               const nvmlPlacement_t *placement,
                                                               nvmlGpuInstance_t *created)
{
    CALL(WRITE, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    const struct profile *profile = gpu ? profile_by_id(gpu->board, profile_id) : NULL;
    nvmlReturn_t refused = check(gpu, profile);
    if (refused != NVML_SUCCESS)
        return refused;
    if (!placement || !placement_is_possible(profile, *placement))
        return NVML_ERROR_INVALID_ARGUMENT;
    return create(&state, gpu, profile, *placement, created);
}

NVML_API nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    CALL(WRITE, handle);
    struct gpu_instance *instance = gpu_instance_of(&state, handle);
    if (!instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < state.compute_instance_count; i++)
        if (state.compute_instances[i].gpu == instance->gpu && state.compute_instances[i].gpu_instance == instance->id)
            return NVML_ERROR_IN_USE;
    *instance = state.gpu_instances[--state.gpu_instance_count];
    return state_save(&state);
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile_id,
                                                nvmlGpuInstance_t *instances, unsigned int *count)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    const struct profile *profile = gpu ? profile_by_id(gpu->board, profile_id) : NULL;
    nvmlReturn_t refused = check(gpu, profile);
    if (refused != NVML_SUCCESS)
        return refused;
    *count = 0;
    for (unsigned int i = 0; i < state.gpu_instance_count; i++)
        if (state.gpu_instances[i].gpu == gpu->index && state.gpu_instances[i].profile_id == profile_id)
            instances[(*count)++] = make_handle(GPU_INSTANCE, gpu->index, state.gpu_instances[i].id, 0);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu->mode)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!state_gpu_instance(&state, gpu->index, id))
        return NVML_ERROR_NOT_FOUND;
    *instance = make_handle(GPU_INSTANCE, gpu->index, id, 0);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    CALL(READ, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    if (!instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlGpuInstanceInfo_t){make_handle(GPU, instance->gpu, 0, 0), instance->id, instance->profile_id,
                                    {instance->start, instance->size}};
    return NVML_SUCCESS;
}
