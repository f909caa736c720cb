/* What a reset of a GPU takes away, and who keeps it from happening. */
#include "state.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int has_open(const char *pid, const char *device)
{
    char directory[64], path[320], target[64];
    snprintf(directory, sizeof directory, "/proc/%.20s/fd", pid);
    DIR *descriptors = opendir(directory);
    int found = 0;
    for (struct dirent *each; descriptors && !found && (each = readdir(descriptors));) {
        snprintf(path, sizeof path, "%s/%.200s", directory, each->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        target[length < 0 ? 0 : length] = '\0';
        found = strcmp(target, device) == 0;
    }
    if (descriptors)
        closedir(descriptors);
    return found;
}

/* A process that computes on it, or another one than this that has its device file open, as a daemon has. */
int state_gpu_held(const struct state *state, unsigned int gpu)
{
    char device[32];
    snprintf(device, sizeof device, "/dev/nvidia%u", gpu);
    int held = state_gpu_busy(state, gpu);
    DIR *processes = opendir("/proc");
    for (struct dirent *each; processes && !held && (each = readdir(processes));)
        held = isdigit((unsigned char)each->d_name[0]) && atoi(each->d_name) != getpid() &&
               has_open(each->d_name, device);
    if (processes)
        closedir(processes);
    return held;
}

int state_resettable(const struct state *state)
{
    return state->virtualization != VIRTUALIZATION_PASSTHROUGH && state->virtualization != VIRTUALIZATION_VGPU;
}

static void drop_instances_of(struct state *state, unsigned int gpu)
{
    unsigned int kept = 0;
    for (unsigned int i = 0; i < state->gpu_instance_count; i++)
        if (state->gpu_instances[i].gpu != gpu)
            state->gpu_instances[kept++] = state->gpu_instances[i];
    state->gpu_instance_count = kept;
    kept = 0;
    for (unsigned int i = 0; i < state->compute_instance_count; i++)
        if (state->compute_instances[i].gpu != gpu)
            state->compute_instances[kept++] = state->compute_instances[i];
    state->compute_instance_count = kept;
}

/* Instances never survive. Ampere keeps its mode in the board's own memory; later boards forget it. */
void state_reset_gpu(struct state *state, struct gpu *gpu)
{
    drop_instances_of(state, gpu->index);
    gpu->mode = gpu->pending_mode = gpu->board->mode_survives_reboot ? gpu->pending_mode : 0;
    gpu->ecc = gpu->pending_ecc;
    gpu->compute_mode = 0;
    gpu->power_limit_mw = gpu->board->power_default_mw;
}
