/* Memory, and the processes that use a GPU or a slice. */
#include "call.h"

#include <string.h>

#define RESERVED_MIB 600 /* what the driver keeps of a whole GPU for itself */

/* A process belongs to a whole GPU, or to a MIG device when it runs on exactly that one. */
static int belongs(const struct process *process, nvmlDevice_t device)
{
    if (process->gpu != handle_gpu(device))
        return 0;
    return handle_kind(device) == GPU || (process->gpu_instance == (int)handle_gi(device) &&
                                          process->compute_instance == (int)handle_ci(device));
}

static nvmlReturn_t memory_of(struct state *state, nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    const struct gpu *gpu = gpu_of(state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned long long total = gpu->board->memory_mib, reserved = RESERVED_MIB, used = 0;
    if (handle_kind(device) == MIG_DEVICE) {
        const struct gpu_instance *instance = state_gpu_instance(state, gpu->index, handle_gi(device));
        total = profile_by_id(gpu->board, instance->profile_id)->memory_mib;
        reserved = 0;
    }
    for (unsigned int i = 0; i < state->process_count; i++)
        if (belongs(&state->processes[i], device))
            used += state->processes[i].memory_mib;
    used = used + reserved > total ? total - reserved : used;
    memory->total = total << 20;
    memory->reserved = reserved << 20;
    memory->used = used << 20;
    memory->free = (total - reserved - used) << 20;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    CALL(READ, device);
    nvmlMemory_v2_t found;
    nvmlReturn_t refused = memory_of(&state, device, &found);
    if (refused != NVML_SUCCESS)
        return refused;
    *memory = (nvmlMemory_t){found.total, found.free, found.used + found.reserved};
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    CALL(READ, device);
    if (memory->version != NVML_VERSIONED(nvmlMemory_v2_t, 2u))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return memory_of(&state, device, memory);
}

NVML_API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                              nvmlProcessInfo_t *processes)
{
    CALL(READ, device);
    if (!gpu_of(&state, device))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = processes ? *count : 0, found = 0;
    for (unsigned int i = 0; i < state.process_count; i++) {
        const struct process *process = &state.processes[i];
        if (!belongs(process, device))
            continue;
        if (found < room)
            processes[found] = (nvmlProcessInfo_t){process->pid, (unsigned long long)process->memory_mib << 20,
                                                   (unsigned int)process->gpu_instance,
                                                   (unsigned int)process->compute_instance};
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* Nothing in the lab draws, and no MPS server runs. */
static nvmlReturn_t no_processes(struct state *state, nvmlDevice_t device, unsigned int *count)
{
    if (!gpu_of(state, device))
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                               nvmlProcessInfo_t *processes)
{
    (void)processes;
    CALL(READ, device);
    return no_processes(&state, device, count);
}

NVML_API nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                                 nvmlProcessInfo_t *processes)
{
    (void)processes;
    CALL(READ, device);
    return no_processes(&state, device, count);
}
