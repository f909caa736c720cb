/* Compute instances: what a process uses of a GPU instance. */
#include "call.h"
#include "geometry.h"

#include <stdint.h>
#include <stdio.h>

static const struct profile *profile_of(struct state *state, const struct gpu_instance *instance)
{
    return profile_by_id(state_gpu(state, instance->gpu)->board, instance->profile_id);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned int index,
                                                                    unsigned int engine,
                                                                    nvmlComputeInstanceProfileInfo_v2_t *info)
{
    CALL(READ, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    if (!instance || index >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engine != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != NVML_VERSIONED(nvmlComputeInstanceProfileInfo_v2_t, 2u))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const struct profile *whole = profile_of(&state, instance);
    unsigned int slices = compute_profile_slices(index, whole->slices);
    if (!slices)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlComputeInstanceProfileInfo_v2_t){
        .version = info->version,
        .id = index,
        .sliceCount = slices,
        .instanceCount = whole->slices / slices,
        .multiprocessorCount = whole->multiprocessors * slices / whole->slices,
        .sharedCopyEngineCount = whole->copy_engines,
        .sharedDecoderCount = whole->decoders,
        .sharedEncoderCount = whole->encoders,
        .sharedJpegCount = whole->jpeg,
        .sharedOfaCount = whole->ofa,
    };
    if (slices == whole->slices)
        snprintf(info->name, sizeof info->name, "MIG %s", whole->name);
    else
        snprintf(info->name, sizeof info->name, "MIG %uc.%s", slices, whole->name);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned int index,
                                                                   unsigned int engine,
                                                                   nvmlComputeInstanceProfileInfo_t *info)
{
    nvmlComputeInstanceProfileInfo_v2_t full = {.version = NVML_VERSIONED(nvmlComputeInstanceProfileInfo_v2_t, 2u)};
    nvmlReturn_t refused = nvmlGpuInstanceGetComputeInstanceProfileInfoV(handle, index, engine, &full);
    if (refused == NVML_SUCCESS)
        *info = (nvmlComputeInstanceProfileInfo_t){
            full.id,                    full.sliceCount,         full.instanceCount,
            full.multiprocessorCount,   full.sharedCopyEngineCount, full.sharedDecoderCount,
            full.sharedEncoderCount,    full.sharedJpegCount,    full.sharedOfaCount};
    return refused;
}

/* The compute slices of a profile in this instance, or why there are none. */
static nvmlReturn_t slices_of(struct state *state, const struct gpu_instance *instance, unsigned int profile,
                              unsigned int *slices)
{
    if (!instance || profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    *slices = compute_profile_slices(profile, profile_of(state, instance)->slices);
    return *slices ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle, unsigned int profile,
                                                                         unsigned int *count)
{
    CALL(READ, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    unsigned int slices;
    nvmlReturn_t refused = slices_of(&state, instance, profile, &slices);
    if (refused == NVML_SUCCESS)
        *count = compute_remaining_capacity(&state, instance, profile_of(&state, instance)->slices, slices);
    return refused;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t handle,
                                                                          unsigned int profile,
                                                                          nvmlPlacement_t *placements,
                                                                          unsigned int *count)
{
    CALL(READ, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    unsigned int slices, room = *count;
    nvmlReturn_t refused = slices_of(&state, instance, profile, &slices);
    if (refused != NVML_SUCCESS)
        return refused;
    unsigned int possible = profile_of(&state, instance)->slices - slices + 1;
    *count = possible;
    if (!placements)
        return NVML_SUCCESS;
    if (room < possible)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int start = 0; start < possible; start++)
        placements[start] = (nvmlPlacement_t){start, slices};
    return NVML_SUCCESS;
}

static uint64_t hash(const char *text, uint64_t seed)
{
    uint64_t value = 14695981039346656037ull ^ seed; /* FNV-1a */
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 1099511628211ull;
    return value;
}

/* As with the real driver no UUID comes twice, though the same instance is made again. */
static void new_uuid(struct state *state, struct compute_instance *instance)
{
    char origin[128];
    snprintf(origin, sizeof origin, "%s/%u/%u/%lu", state_gpu(state, instance->gpu)->uuid, instance->gpu_instance,
             instance->id, ++state->nonce);
    uint64_t a = hash(origin, 0), b = hash(origin, a);
    snprintf(instance->uuid, sizeof instance->uuid, "MIG-%08x-%04x-5%03x-8%03x-%012llx", (unsigned int)(a >> 32),
             (unsigned int)(a >> 16 & 0xFFFF), (unsigned int)(a & 0xFFF), (unsigned int)(b >> 52),
             (unsigned long long)(b & 0xFFFFFFFFFFFFull));
}

static nvmlReturn_t create(struct state *state, const struct gpu_instance *instance, unsigned int profile,
                           nvmlPlacement_t placement, nvmlComputeInstance_t *created)
{
    if (state->compute_instance_count == MAX_INSTANCES || !compute_placement_is_free(state, instance, placement))
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    unsigned int id = 0;
    while (state_compute_instance(state, instance->gpu, instance->id, id))
        id++;
    struct compute_instance *made = &state->compute_instances[state->compute_instance_count++];
    *made = (struct compute_instance){instance->gpu, instance->id, id, profile, placement.start, placement.size, ""};
    new_uuid(state, made);
    *created = make_handle(COMPUTE_INSTANCE, instance->gpu, instance->id, id);
    return state_save(state);
}

NVML_API nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t handle, unsigned int profile,
                                                           nvmlComputeInstance_t *created)
{
    CALL(WRITE, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    unsigned int slices;
    nvmlReturn_t refused = slices_of(&state, instance, profile, &slices);
    if (refused != NVML_SUCCESS)
        return refused;
    for (unsigned int start = 0; start + slices <= profile_of(&state, instance)->slices; start++)
        if (compute_placement_is_free(&state, instance, (nvmlPlacement_t){start, slices}))
            return create(&state, instance, profile, (nvmlPlacement_t){start, slices}, created);
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

NVML_API nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t handle, unsigned int profile,
                                                                        const nvmlPlacement_t *placement,
                                                                        nvmlComputeInstance_t *created)
{
    CALL(WRITE, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    unsigned int slices;
    nvmlReturn_t refused = slices_of(&state, instance, profile, &slices);
    if (refused != NVML_SUCCESS)
        return refused;
    if (!placement || placement->size != slices || placement->start + slices > profile_of(&state, instance)->slices)
        return NVML_ERROR_INVALID_ARGUMENT;
    return create(&state, instance, profile, *placement, created);
}

NVML_API nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    CALL(WRITE, handle);
    struct compute_instance *instance = compute_instance_of(&state, handle);
    if (!instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (state_instance_busy(&state, instance->gpu, instance->gpu_instance, instance->id))
        return NVML_ERROR_IN_USE;
    *instance = state.compute_instances[--state.compute_instance_count];
    return state_save(&state);
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t handle, unsigned int profile,
                                                         nvmlComputeInstance_t *instances, unsigned int *count)
{
    CALL(READ, handle);
    const struct gpu_instance *instance = gpu_instance_of(&state, handle);
    unsigned int slices;
    nvmlReturn_t refused = slices_of(&state, instance, profile, &slices);
    if (refused != NVML_SUCCESS)
        return refused;
    *count = 0;
    for (unsigned int i = 0; i < state.compute_instance_count; i++) {
        const struct compute_instance *found = &state.compute_instances[i];
        if (found->gpu == instance->gpu && found->gpu_instance == instance->id && found->profile == profile)
            instances[(*count)++] = make_handle(COMPUTE_INSTANCE, found->gpu, found->gpu_instance, found->id);
    }
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t handle, unsigned int id,
                                                            nvmlComputeInstance_t *instance)
{
    CALL(READ, handle);
    const struct gpu_instance *parent = gpu_instance_of(&state, handle);
    if (!parent)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!state_compute_instance(&state, parent->gpu, parent->id, id))
        return NVML_ERROR_NOT_FOUND;
    *instance = make_handle(COMPUTE_INSTANCE, parent->gpu, parent->id, id);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    CALL(READ, handle);
    const struct compute_instance *instance = compute_instance_of(&state, handle);
    if (!instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    *info = (nvmlComputeInstanceInfo_t){
        make_handle(MIG_DEVICE, instance->gpu, instance->gpu_instance, instance->id),
        make_handle(GPU_INSTANCE, instance->gpu, instance->gpu_instance, 0),
        instance->id,
        instance->profile,
        {instance->start, instance->size},
    };
    return NVML_SUCCESS;
}
