/* nvmlsim: what a person, a test or the machine itself does to the simulated driver beside NVML. */
#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: nvmlsim show                                   the state\n"
    "       nvmlsim boot                                   what a reboot leaves of it\n"
    "       nvmlsim reset                                  MIG off everywhere, no faults, no processes\n"
    "       nvmlsim fault FUNCTION CODE [GPU]              that NVML function answers CODE; 0 = success without effect\n"
    "       nvmlsim delay FUNCTION MILLISECONDS [GPU]      that NVML function takes longer\n"
    "       nvmlsim clear-faults\n"
    "       nvmlsim virtualization MODE                    as NVML numbers it: 0 none, 1 passed through\n"
    "       nvmlsim process GPU GI CI PID MIB              a process that stays until it is cleared; GI CI -1 = no MIG\n"
    "       nvmlsim clear-processes\n"
    "       nvmlsim check DEVICE…                          fails for a device that is not there\n"
    "       nvmlsim attach PID MIB DEVICE…                 a running process that uses these devices\n";

static void drop_instances(struct state *state)
{
    state->gpu_instance_count = state->compute_instance_count = 0;
}

static void default_power(struct gpu *gpu)
{
    gpu->persistence = 0;
    gpu->power_limit_mw = gpu->board->power_default_mw;
}

static void boot(struct state *state)
{
    state->process_count = 0;
    for (unsigned int i = 0; i < state->gpu_count; i++) {
        state_reset_gpu(state, &state->gpus[i]);
        default_power(&state->gpus[i]);
    }
}

static void reset(struct state *state)
{
    drop_instances(state);
    state->process_count = state->fault_count = state->virtualization = 0;
    for (unsigned int i = 0; i < state->gpu_count; i++) {
        state->gpus[i].mode = state->gpus[i].pending_mode = state->gpus[i].compute_mode = 0;
        state->gpus[i].ecc = state->gpus[i].pending_ecc = 1;
        default_power(&state->gpus[i]);
    }
}

static int add_fault(struct state *state, const char *function, int code, unsigned int delay_ms, int gpu)
{
    if (state->fault_count == MAX_FAULTS)
        return 1;
    struct fault *fault = &state->faults[state->fault_count++];
    *fault = (struct fault){.code = code, .delay_ms = delay_ms, .gpu = gpu};
    snprintf(fault->function, sizeof fault->function, "%s", function);
    return 0;
}

static int add_process(struct state *state, struct process process)
{
    if (state->process_count == MAX_PROCESSES)
        return 1;
    state->processes[state->process_count++] = process;
    return 0;
}

/* A device is named as for a container: GPU-…, MIG-…, index, or index:MIG index. */
static int find_device(struct state *state, const char *name, struct process *place)
{
    unsigned int gpu, mig, seen[MAX_GPUS] = {0};
    int used = 0;
    int by_mig_index = sscanf(name, "%u:%u%n", &gpu, &mig, &used) == 2 && !name[used];
    int by_index = !by_mig_index && sscanf(name, "%u%n", &gpu, &used) == 1 && !name[used];
    for (unsigned int i = 0; i < state->gpu_count; i++)
        if (strcmp(state->gpus[i].uuid, name) == 0 || (by_index && state->gpus[i].index == gpu)) {
            *place = (struct process){state->gpus[i].index, NO_INSTANCE, NO_INSTANCE, 0, 0, 0};
            return 1;
        }
    for (unsigned int i = 0; i < state->compute_instance_count; i++) {
        const struct compute_instance *c = &state->compute_instances[i];
        unsigned int mig_index = seen[c->gpu % MAX_GPUS]++;
        if (strcmp(c->uuid, name) == 0 || (by_mig_index && c->gpu == gpu && mig_index == mig)) {
            *place = (struct process){c->gpu, (int)c->gpu_instance, (int)c->id, 0, 0, 0};
            return 1;
        }
    }
    return 0;
}

static int use_devices(struct state *state, char **devices, unsigned int pid, unsigned int memory_mib)
{
    for (; *devices; devices++) {
        struct process process;
        if (!find_device(state, *devices, &process)) {
            fprintf(stderr, "%s: unknown device\n", *devices);
            return 1;
        }
        process.pid = pid;
        process.memory_mib = memory_mib;
        process.started = pid ? process_start_time(pid) : 0;
        if (process.started && add_process(state, process))
            return 1;
    }
    return 0;
}

static int show(void)
{
    char line[512];
    const char *path = getenv("NVMLSIM_STATE");
    FILE *file = fopen(path ? path : "/var/lib/nvmlsim/state", "r");
    while (file && fgets(line, sizeof line, file))
        fputs(line, stdout);
    return file ? fclose(file) : 1;
}

static unsigned int number(const char *text) { return (unsigned int)strtoul(text, NULL, 10); }

/* 0 = done, 1 = failed, 2 = no such command */
static int run(struct state *state, int argc, char **argv)
{
    const char *verb = argv[1];
    int gpu = argc == 5 ? atoi(argv[4]) : -1;
    if (strcmp(verb, "boot") == 0 && argc == 2)
        return boot(state), 0;
    if (strcmp(verb, "reset") == 0 && argc == 2)
        return reset(state), 0;
    if (strcmp(verb, "clear-faults") == 0 && argc == 2)
        return state->fault_count = 0, 0;
    if (strcmp(verb, "virtualization") == 0 && argc == 3)
        return state->virtualization = number(argv[2]), 0;
    if (strcmp(verb, "clear-processes") == 0 && argc == 2)
        return state->process_count = 0, 0;
    if (strcmp(verb, "fault") == 0 && (argc == 4 || argc == 5))
        return add_fault(state, argv[2], atoi(argv[3]), 0, gpu);
    if (strcmp(verb, "delay") == 0 && (argc == 4 || argc == 5))
        return add_fault(state, argv[2], -1, number(argv[3]), gpu);
    if (strcmp(verb, "process") == 0 && argc == 7)
        return add_process(state, (struct process){number(argv[2]), atoi(argv[3]), atoi(argv[4]), number(argv[5]),
                                                   number(argv[6]), 0});
    if (strcmp(verb, "check") == 0 && argc > 2)
        return use_devices(state, argv + 2, 0, 0);
    if (strcmp(verb, "attach") == 0 && argc > 4)
        return use_devices(state, argv + 4, number(argv[2]), number(argv[3]));
    return 2;
}

int main(int argc, char **argv)
{
    struct state state;
    if (argc < 2)
        return fputs(USAGE, stderr), 2;
    if (strcmp(argv[1], "show") == 0)
        return show();
    nvmlReturn_t refused = state_load(&state, WRITE);
    if (refused != NVML_SUCCESS) {
        fprintf(stderr, "nvmlsim: the state cannot be changed (NVML code %d)\n", refused);
        return 1;
    }
    int failed = run(&state, argc, argv);
    if (failed == 2)
        fputs(USAGE, stderr);
    else if (failed == 0)
        failed = state_save(&state) != NVML_SUCCESS;
    state_close(&state);
    return failed;
}
