/* What the simulated driver remembers, in a flat text file that every call reads afresh.
 *
 * The file is $NVMLSIM_STATE or /var/lib/nvmlsim/state; its directory decides who may write (on a node only root).
 * Writers hold a lock and replace the file in one rename, so readers need no lock and always see a whole state.
 */
#ifndef STATE_H
#define STATE_H

#include "boards.h"
#include "handle.h"
#include "nvml.h"

#define MAX_GPUS 16
#define MAX_INSTANCES 128
#define MAX_PROCESSES 256
#define MAX_FAULTS 64
#define UUID_SIZE 48
#define NO_INSTANCE (-1)
#define VIRTUALIZATION_PASSTHROUGH 1
#define VIRTUALIZATION_VGPU 2

struct gpu {
    unsigned int index;
    const struct board *board;
    char uuid[UUID_SIZE], pci[20];
    unsigned int mode, pending_mode, persistence, power_limit_mw;
    unsigned int compute_mode, ecc, pending_ecc;
};

struct gpu_instance {
    unsigned int gpu, id, profile_id, start, size;
};

struct compute_instance {
    unsigned int gpu, gpu_instance, id, profile, start, size;
    char uuid[UUID_SIZE];
};

struct process {
    unsigned int gpu;
    int gpu_instance, compute_instance; /* NO_INSTANCE on a GPU without MIG */
    unsigned int pid, memory_mib;
    unsigned long long started; /* of /proc/PID/stat; the entry goes with its process. 0 = stays until it is cleared */
};

struct fault {
    char function[64];
    int code;              /* what the function answers; 0 = success without effect, -1 = nothing but the delay */
    unsigned int delay_ms; /* before it goes on */
    int gpu;               /* -1 = any */
};

struct state {
    char driver[80];
    unsigned int cuda;
    unsigned int virtualization; /* NVML_GPU_VIRTUALIZATION_MODE_… */
    unsigned long nonce; /* counts compute instances ever made, so that no UUID comes twice */
    unsigned int gpu_count, gpu_instance_count, compute_instance_count, process_count, fault_count;
    struct gpu gpus[MAX_GPUS];
    struct gpu_instance gpu_instances[MAX_INSTANCES];
    struct compute_instance compute_instances[MAX_INSTANCES];
    struct process processes[MAX_PROCESSES];
    struct fault faults[MAX_FAULTS];
    int lock; /* descriptor, -1 = none held */
};

enum access { READ, WRITE };

nvmlReturn_t state_load(struct state *state, enum access access);
nvmlReturn_t state_save(const struct state *state);
void state_close(struct state *state);

/* What the faults say about this call: NVML_SUCCESS = go on. */
#define DONE_WITHOUT_EFFECT ((nvmlReturn_t)1000)
nvmlReturn_t state_fault(const struct state *state, const char *function, int gpu);

struct gpu *state_gpu(struct state *state, unsigned int index);
struct gpu_instance *state_gpu_instance(struct state *state, unsigned int gpu, unsigned int id);
struct compute_instance *state_compute_instance(struct state *state, unsigned int gpu, unsigned int gi, unsigned int id);
int state_gpu_held(const struct state *state, unsigned int gpu);
int state_resettable(const struct state *state);
void state_reset_gpu(struct state *state, struct gpu *gpu);
int state_gpu_busy(const struct state *state, unsigned int gpu);
int state_instance_busy(const struct state *state, unsigned int gpu, unsigned int gi, unsigned int ci);
unsigned long long process_start_time(unsigned int pid); /* 0 = no such process */

#endif
