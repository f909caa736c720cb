/* nvidia-smi, as far as NVML does not go: the reset of one GPU; and the list of devices. */
#include "state.h"

#include <stdio.h>
#include <string.h>

#define REFUSED 255

static int refuse(const struct gpu *gpu, const char *why)
{
    printf("The following GPUs could not be reset:\n  GPU %s: %s\n\n", gpu->pci, why);
    return REFUSED;
}

static int reset(struct state *state, struct gpu *gpu)
{
    nvmlReturn_t ordered = state_fault(state, "gpu-reset", (int)gpu->index);
    if (ordered != NVML_SUCCESS && ordered != DONE_WITHOUT_EFFECT)
        return refuse(gpu, "Unknown Error");
    if (!state_resettable(state))
        return refuse(gpu, "Not Supported");
    if (gpu->persistence || state_gpu_held(state, gpu->index)) {
        refuse(gpu, "In use by another client");
        printf("1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA "
               "application, graphics application such as an X server, or a monitoring application such as another "
               "instance of nvidia-smi). Please first kill all processes using this device and all compute "
               "applications running in the system.\n");
        return REFUSED;
    }
    if (ordered != DONE_WITHOUT_EFFECT)
        state_reset_gpu(state, gpu);
    printf("GPU %s was successfully reset.\nAll done.\n", gpu->pci);
    return state_save(state) == NVML_SUCCESS ? 0 : REFUSED;
}

static int list(void)
{
    struct state state;
    if (state_load(&state, READ) != NVML_SUCCESS)
        return puts("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."), 9;
    for (unsigned int i = 0; i < state.gpu_count; i++) {
        printf("GPU %u: %s (UUID: %s)\n", state.gpus[i].index, state.gpus[i].board->catalog_name, state.gpus[i].uuid);
        unsigned int place = 0;
        for (unsigned int c = 0; c < state.compute_instance_count; c++)
            if (state.compute_instances[c].gpu == state.gpus[i].index)
                printf("  MIG Device %u: (UUID: %s)\n", place++, state.compute_instances[c].uuid);
    }
    state_close(&state);
    return 0;
}

int main(int argc, char **argv)
{
    struct state state;
    if (argc == 2 && strcmp(argv[1], "-L") == 0)
        return list();
    if (argc != 4 || strcmp(argv[1], "--gpu-reset") != 0 || strcmp(argv[2], "-i") != 0) {
        fputs("usage: nvidia-smi -L | nvidia-smi --gpu-reset -i UUID\n", stderr);
        return 2;
    }
    nvmlReturn_t refused = state_load(&state, WRITE);
    if (refused != NVML_SUCCESS) {
        puts(refused == NVML_ERROR_NO_PERMISSION ? "Insufficient Permissions" : "Driver Not Loaded");
        return refused == NVML_ERROR_NO_PERMISSION ? 4 : 9;
    }
    int code = 6; /* no such device */
    struct gpu *found = NULL;
    for (unsigned int i = 0; i < state.gpu_count; i++)
        if (strcmp(state.gpus[i].uuid, argv[3]) == 0)
            found = &state.gpus[i];
    if (found)
        code = reset(&state, found);
    else
        puts("No devices were found");
    state_close(&state);
    return code;
}
