/* Finding things in the state, and the faults that a test has ordered. */
#include "state.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct gpu *state_gpu(struct state *state, unsigned int index)
{
    for (unsigned int i = 0; i < state->gpu_count; i++)
        if (state->gpus[i].index == index)
            return &state->gpus[i];
    return NULL;
}

struct gpu_instance *state_gpu_instance(struct state *state, unsigned int gpu, unsigned int id)
{
    for (unsigned int i = 0; i < state->gpu_instance_count; i++)
        if (state->gpu_instances[i].gpu == gpu && state->gpu_instances[i].id == id)
            return &state->gpu_instances[i];
    return NULL;
}

struct compute_instance *state_compute_instance(struct state *state, unsigned int gpu, unsigned int gi, unsigned int id)
{
    for (unsigned int i = 0; i < state->compute_instance_count; i++) {
        struct compute_instance *found = &state->compute_instances[i];
        if (found->gpu == gpu && found->gpu_instance == gi && found->id == id)
            return found;
    }
    return NULL;
}

int state_gpu_busy(const struct state *state, unsigned int gpu)
{
    for (unsigned int i = 0; i < state->process_count; i++)
        if (state->processes[i].gpu == gpu)
            return 1;
    return 0;
}

int state_instance_busy(const struct state *state, unsigned int gpu, unsigned int gi, unsigned int ci)
{
    for (unsigned int i = 0; i < state->process_count; i++) {
        const struct process *process = &state->processes[i];
        if (process->gpu == gpu && process->gpu_instance == (int)gi && process->compute_instance == (int)ci)
            return 1;
    }
    return 0;
}

unsigned long long process_start_time(unsigned int pid)
{
    char path[32], line[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    unsigned long long started = 0;
    char status = 'Z';
    /* proc(5): field 3 is the status, field 22 the start time; the name before them may hold anything */
    if (name_end)
        sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &status,
               &started);
    return status == 'Z' ? 0 : started;
}

/* nvmlDeviceGetCount names nvmlDeviceGetCount_v2 as well, and nvmlInit names nvmlInitWithFlags, which it is. */
static int names(const char *stated, const char *function)
{
    size_t length = strlen(stated);
    if (strncmp(stated, function, length) != 0)
        return 0;
    const char *rest = function + length;
    return *rest == '\0' || strncmp(rest, "_v", 2) == 0 || strcmp(rest, "WithFlags") == 0;
}

nvmlReturn_t state_fault(const struct state *state, const char *function, int gpu)
{
    for (unsigned int i = 0; i < state->fault_count; i++) {
        const struct fault *fault = &state->faults[i];
        if (!names(fault->function, function) || (fault->gpu >= 0 && fault->gpu != gpu))
            continue;
        struct timespec delay = {fault->delay_ms / 1000, (long)(fault->delay_ms % 1000) * 1000000};
        nanosleep(&delay, NULL);
        if (fault->code >= 0)
            return fault->code == 0 ? DONE_WITHOUT_EFFECT : (nvmlReturn_t)fault->code;
    }
    return NVML_SUCCESS;
}
