/* Where instances fit: pure questions about the state. */
#ifndef GEOMETRY_H
#define GEOMETRY_H

#include "state.h"

int placement_is_possible(const struct profile *profile, nvmlPlacement_t placement);
int placement_is_free(struct state *state, const struct gpu *gpu, const struct profile *profile,
                      nvmlPlacement_t placement);
unsigned int remaining_capacity(struct state *state, const struct gpu *gpu, const struct profile *profile);
unsigned int gpu_instance_id(const struct board *board, nvmlPlacement_t placement);

/* Compute slices of a compute instance profile; 0 where a GPU instance of that many slices does not have it. */
unsigned int compute_profile_slices(unsigned int profile, unsigned int instance_slices);
int compute_placement_is_free(struct state *state, const struct gpu_instance *instance, nvmlPlacement_t placement);
unsigned int compute_remaining_capacity(struct state *state, const struct gpu_instance *instance,
                                        unsigned int instance_slices, unsigned int slices);

#endif
