/* Where instances fit.
 *
 * GPU instances stand on memory slices, at the placements of their profile, and share the compute slices of the GPU.
 * A profile with the media engines (+me) exists at most once on a GPU, since there is one set of them to give away.
 */
#include "geometry.h"

#include <string.h>

static int overlap(nvmlPlacement_t a, nvmlPlacement_t b) { return a.start < b.start + b.size && b.start < a.start + a.size; }

static int has_media_engines(const struct profile *profile) { return strstr(profile->name, "+me") != NULL; }

int placement_is_possible(const struct profile *profile, nvmlPlacement_t placement)
{
    for (unsigned int i = 0; i < profile->placement_count; i++)
        if (profile->placements[i].start == placement.start && profile->placements[i].size == placement.size)
            return 1;
    return 0;
}

int placement_is_free(struct state *state, const struct gpu *gpu, const struct profile *profile,
                      nvmlPlacement_t placement)
{
    unsigned int slices = profile->slices, same = 0, media = 0;
    for (unsigned int i = 0; i < state->gpu_instance_count; i++) {
        const struct gpu_instance *other = &state->gpu_instances[i];
        if (other->gpu != gpu->index)
            continue;
        if (overlap(placement, (nvmlPlacement_t){other->start, other->size}))
            return 0;
        const struct profile *theirs = profile_by_id(gpu->board, other->profile_id);
        slices += theirs->slices;
        same += theirs == profile;
        media += has_media_engines(theirs);
    }
    return slices <= gpu->board->slices && same < profile->instances && !(media && has_media_engines(profile));
}

unsigned int remaining_capacity(struct state *state, const struct gpu *gpu, const struct profile *profile)
{
    unsigned int free = 0, same = 0, slices = 0;
    for (unsigned int i = 0; i < profile->placement_count; i++)
        free += placement_is_free(state, gpu, profile, profile->placements[i]);
    for (unsigned int i = 0; i < state->gpu_instance_count; i++) {
        const struct gpu_instance *other = &state->gpu_instances[i];
        if (other->gpu != gpu->index)
            continue;
        same += other->profile_id == profile->id;
        slices += profile_by_id(gpu->board, other->profile_id)->slices;
    }
    unsigned int by_count = profile->instances - same, by_slices = (gpu->board->slices - slices) / profile->slices;
    unsigned int least = free < by_count ? free : by_count;
    return least < by_slices ? least : by_slices;
}

/* The driver numbers the places of a GPU like a binary tree from the root: the whole is 0, its halves are 1 and 2, … */
unsigned int gpu_instance_id(const struct board *board, nvmlPlacement_t placement)
{
    unsigned int memory_slices = 0;
    for (unsigned int i = 0; i < board->profile_count; i++)
        for (unsigned int k = 0; k < board->profiles[i].placement_count; k++) {
            nvmlPlacement_t place = board->profiles[i].placements[k];
            memory_slices = place.start + place.size > memory_slices ? place.start + place.size : memory_slices;
        }
    unsigned int places = memory_slices / placement.size;
    return places - 1 + placement.start / placement.size;
}

unsigned int compute_profile_slices(unsigned int profile, unsigned int instance_slices)
{
    /* NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE, 2, 3, 4, 7, 8, 6, then two revisions that no board here has */
    static const unsigned int SLICES[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {1, 2, 3, 4, 7, 8, 6, 0, 0};
    if (profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || SLICES[profile] > instance_slices)
        return 0;
    return SLICES[profile] == 6 ? 0 : SLICES[profile];
}

int compute_placement_is_free(struct state *state, const struct gpu_instance *instance, nvmlPlacement_t placement)
{
    for (unsigned int i = 0; i < state->compute_instance_count; i++) {
        const struct compute_instance *other = &state->compute_instances[i];
        if (other->gpu == instance->gpu && other->gpu_instance == instance->id &&
            overlap(placement, (nvmlPlacement_t){other->start, other->size}))
            return 0;
    }
    return 1;
}

unsigned int compute_remaining_capacity(struct state *state, const struct gpu_instance *instance,
                                        unsigned int instance_slices, unsigned int slices)
{
    unsigned int fits = 0;
    for (unsigned int start = 0; start + slices <= instance_slices;) {
        int is_free = compute_placement_is_free(state, instance, (nvmlPlacement_t){start, slices});
        fits += (unsigned int)is_free;
        start += is_free ? slices : 1;
    }
    return fits;
}
