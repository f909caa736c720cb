/* Where instances fit.
 *
 * GPU instances stand on memory slices, at the placements of their profile, and share the compute slices of the GPU
 * and its media engines: it has as many of each kind as all instances that it holds of any one profile take.
 */
#include "geometry.h"

#define SHARED 5 /* compute slices, decoders, encoders, JPEG engines, optical flow engines */

static int overlap(nvmlPlacement_t a, nvmlPlacement_t b) { return a.start < b.start + b.size && b.start < a.start + a.size; }

static unsigned int takes(const struct profile *profile, unsigned int kind)
{
    const unsigned int all[SHARED] = {profile->slices, profile->decoders, profile->encoders, profile->jpeg, profile->ofa};
    return all[kind];
}

static unsigned int whole(const struct board *board, unsigned int kind)
{
    unsigned int most = 0;
    for (unsigned int i = 0; kind && i < board->profile_count; i++) {
        unsigned int all = takes(&board->profiles[i], kind) * board->profiles[i].instances;
        most = all > most ? all : most;
    }
    return kind ? most : board->slices;
}

/* How many of a kind the instances of a GPU leave. */
static unsigned int left(struct state *state, const struct gpu *gpu, unsigned int kind)
{
    unsigned int used = 0;
    for (unsigned int i = 0; i < state->gpu_instance_count; i++)
        if (state->gpu_instances[i].gpu == gpu->index)
            used += takes(profile_by_id(gpu->board, state->gpu_instances[i].profile_id), kind);
    return whole(gpu->board, kind) - used;
}

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
    unsigned int same = 0;
    for (unsigned int i = 0; i < state->gpu_instance_count; i++) {
        const struct gpu_instance *other = &state->gpu_instances[i];
        if (other->gpu != gpu->index)
            continue;
        if (overlap(placement, (nvmlPlacement_t){other->start, other->size}))
            return 0;
        same += other->profile_id == profile->id;
    }
    for (unsigned int kind = 0; kind < SHARED; kind++)
        if (takes(profile, kind) > left(state, gpu, kind))
            return 0;
    return same < profile->instances;
}

unsigned int remaining_capacity(struct state *state, const struct gpu *gpu, const struct profile *profile)
{
    unsigned int free = 0, same = 0;
    for (unsigned int i = 0; i < profile->placement_count; i++)
        free += placement_is_free(state, gpu, profile, profile->placements[i]);
    for (unsigned int i = 0; i < state->gpu_instance_count; i++)
        same += state->gpu_instances[i].gpu == gpu->index && state->gpu_instances[i].profile_id == profile->id;
    unsigned int least = free < profile->instances - same ? free : profile->instances - same;
    for (unsigned int kind = 0; kind < SHARED; kind++) {
        unsigned int each = takes(profile, kind), by_kind = each ? left(state, gpu, kind) / each : least;
        least = by_kind < least ? by_kind : least;
    }
    return least;
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
