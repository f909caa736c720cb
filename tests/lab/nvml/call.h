/* How every NVML function begins: load the state, obey ordered faults, check the handle. */
#ifndef CALL_H
#define CALL_H

#include "state.h"

extern int nvml_initialized;

nvmlReturn_t call_begin(struct state *state, enum access access, const char *function, const void *handle);

/* Declares `state`, which is unlocked wherever the function returns, and returns at once when the call must fail. */
#define CALL(access, handle)                                                                   \
    __attribute__((cleanup(state_close))) struct state state;                                  \
    do {                                                                                       \
        nvmlReturn_t refused_ = call_begin(&state, access, __func__, handle);                  \
        if (refused_ != NVML_SUCCESS)                                                          \
            return refused_ == DONE_WITHOUT_EFFECT ? NVML_SUCCESS : refused_;                  \
    } while (0)

/* Each answers NULL for a handle of another kind or of something that is no more. */
struct gpu *gpu_of(struct state *state, const void *device); /* of a GPU or of a MIG device's parent */
struct gpu *whole_gpu(struct state *state, const void *device);
struct gpu_instance *gpu_instance_of(struct state *state, const void *handle);
struct compute_instance *compute_instance_of(struct state *state, const void *handle);
struct compute_instance *mig_device_of(struct state *state, const void *device);

nvmlReturn_t answer_text(char *buffer, unsigned int length, const char *text);

#endif
