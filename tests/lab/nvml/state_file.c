/* The state as text: reading, writing, locking. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *state_path(void)
{
    const char *stated = getenv("NVMLSIM_STATE");
    return stated && *stated ? stated : "/var/lib/nvmlsim/state";
}

static nvmlReturn_t denied_or(nvmlReturn_t otherwise)
{
    return errno == EACCES || errno == EPERM || errno == EROFS ? NVML_ERROR_NO_PERMISSION : otherwise;
}

static int parse_gpu(struct state *state, const char *line)
{
    struct gpu *gpu = &state->gpus[state->gpu_count];
    char board[64];
    if (state->gpu_count == MAX_GPUS ||
        sscanf(line, "gpu %u %63s %47s %19s %u %u %u %u", &gpu->index, board, gpu->uuid, gpu->pci, &gpu->mode,
               &gpu->pending_mode, &gpu->persistence, &gpu->power_limit_mw) != 8)
        return 0;
    gpu->board = board_by_name(board);
    gpu->ecc = gpu->pending_ecc = 1;
    state->gpu_count += gpu->board != NULL;
    return gpu->board != NULL;
}

/* Of a GPU that was named before; without such a line its settings are as they leave the factory. */
static int parse_settings(struct state *state, const char *line)
{
    unsigned int index;
    struct gpu read, *gpu;
    if (sscanf(line, "settings %u %u %u %u", &index, &read.compute_mode, &read.ecc, &read.pending_ecc) != 4 ||
        !(gpu = state_gpu(state, index)))
        return 0;
    gpu->compute_mode = read.compute_mode;
    gpu->ecc = read.ecc;
    gpu->pending_ecc = read.pending_ecc;
    return 1;
}

static int parse_gpu_instance(struct state *state, const char *line)
{
    struct gpu_instance *instance = &state->gpu_instances[state->gpu_instance_count];
    if (state->gpu_instance_count == MAX_INSTANCES ||
        sscanf(line, "gi %u %u %u %u %u", &instance->gpu, &instance->id, &instance->profile_id,
               &instance->start, &instance->size) != 5)
        return 0;
    state->gpu_instance_count++;
    return 1;
}

static int parse_compute_instance(struct state *state, const char *line)
{
    struct compute_instance *instance = &state->compute_instances[state->compute_instance_count];
    if (state->compute_instance_count == MAX_INSTANCES ||
        sscanf(line, "ci %u %u %u %u %u %u %47s", &instance->gpu, &instance->gpu_instance, &instance->id,
               &instance->profile, &instance->start, &instance->size, instance->uuid) != 7)
        return 0;
    state->compute_instance_count++;
    return 1;
}

static int parse_process(struct state *state, const char *line)
{
    struct process *process = &state->processes[state->process_count];
    if (state->process_count == MAX_PROCESSES ||
        sscanf(line, "proc %u %d %d %u %u %llu", &process->gpu, &process->gpu_instance, &process->compute_instance,
               &process->pid, &process->memory_mib, &process->started) != 6)
        return 0;
    state->process_count += process->started == 0 || process_start_time(process->pid) == process->started;
    return 1;
}

static int parse_fault(struct state *state, const char *line)
{
    struct fault *fault = &state->faults[state->fault_count];
    if (state->fault_count == MAX_FAULTS ||
        sscanf(line, "fault %63s %d %u %d", fault->function, &fault->code, &fault->delay_ms, &fault->gpu) != 4)
        return 0;
    state->fault_count++;
    return 1;
}

static int parse_line(struct state *state, const char *line)
{
    return sscanf(line, "driver %79s", state->driver) == 1 || sscanf(line, "cuda %u", &state->cuda) == 1 ||
           sscanf(line, "nonce %lu", &state->nonce) == 1 ||
           sscanf(line, "virtualization %u", &state->virtualization) == 1 || parse_settings(state, line) ||
           parse_gpu(state, line) || parse_gpu_instance(state, line) ||
           parse_compute_instance(state, line) || parse_process(state, line) || parse_fault(state, line);
}

static nvmlReturn_t take_lock(struct state *state)
{
    char path[512];
    snprintf(path, sizeof path, "%s.lock", state_path());
    state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (state->lock < 0)
        return denied_or(NVML_ERROR_DRIVER_NOT_LOADED);
    while (flock(state->lock, LOCK_EX) < 0)
        if (errno != EINTR)
            return NVML_ERROR_UNKNOWN;
    return NVML_SUCCESS;
}

nvmlReturn_t state_load(struct state *state, enum access access)
{
    char line[512];
    memset(state, 0, sizeof *state);
    state->lock = -1;
    nvmlReturn_t locked = access == WRITE ? take_lock(state) : NVML_SUCCESS;
    if (locked != NVML_SUCCESS)
        return locked;
    FILE *file = fopen(state_path(), "re");
    if (!file)
        return denied_or(NVML_ERROR_DRIVER_NOT_LOADED);
    int understood = 1;
    while (understood && fgets(line, sizeof line, file))
        understood = parse_line(state, line);
    fclose(file);
    return understood ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static void write_state(const struct state *state, FILE *file)
{
    fprintf(file, "driver %s\ncuda %u\nnonce %lu\n", state->driver, state->cuda, state->nonce);
    fprintf(file, "virtualization %u\n", state->virtualization);
    for (const struct gpu *g = state->gpus; g < state->gpus + state->gpu_count; g++) {
        fprintf(file, "gpu %u %s %s %s %u %u %u %u\n", g->index, g->board->catalog_name, g->uuid, g->pci, g->mode,
                g->pending_mode, g->persistence, g->power_limit_mw);
        fprintf(file, "settings %u %u %u %u\n", g->index, g->compute_mode, g->ecc, g->pending_ecc);
    }
    for (const struct gpu_instance *i = state->gpu_instances; i < state->gpu_instances + state->gpu_instance_count; i++)
        fprintf(file, "gi %u %u %u %u %u\n", i->gpu, i->id, i->profile_id, i->start, i->size);
    for (unsigned int k = 0; k < state->compute_instance_count; k++) {
        const struct compute_instance *c = &state->compute_instances[k];
        fprintf(file, "ci %u %u %u %u %u %u %s\n", c->gpu, c->gpu_instance, c->id, c->profile, c->start,
                c->size, c->uuid);
    }
    for (const struct process *p = state->processes; p < state->processes + state->process_count; p++)
        fprintf(file, "proc %u %d %d %u %u %llu\n", p->gpu, p->gpu_instance, p->compute_instance, p->pid,
                p->memory_mib, p->started);
    for (const struct fault *f = state->faults; f < state->faults + state->fault_count; f++)
        fprintf(file, "fault %s %d %u %d\n", f->function, f->code, f->delay_ms, f->gpu);
}

nvmlReturn_t state_save(const struct state *state)
{
    char path[512];
    snprintf(path, sizeof path, "%s.new", state_path());
    FILE *file = fopen(path, "we");
    if (!file)
        return denied_or(NVML_ERROR_UNKNOWN);
    fchmod(fileno(file), 0644);
    write_state(state, file);
    if (fclose(file) != 0 || rename(path, state_path()) != 0)
        return NVML_ERROR_UNKNOWN;
    return NVML_SUCCESS;
}

void state_close(struct state *state)
{
    if (state->lock >= 0)
        close(state->lock);
    state->lock = -1;
}
