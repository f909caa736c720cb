/* GPUs: finding them, what they are, persistence mode, power limit. */
#include "call.h"

#include <stdio.h>
#include <string.h>

NVML_API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    CALL(READ, NULL);
    *count = state.gpu_count;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    CALL(READ, make_handle(GPU, index, 0, 0));
    if (!state_gpu(&state, index))
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = make_handle(GPU, index, 0, 0);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    CALL(READ, NULL);
    for (unsigned int i = 0; i < state.gpu_count; i++)
        if (strcmp(state.gpus[i].uuid, uuid) == 0) {
            *device = make_handle(GPU, state.gpus[i].index, 0, 0);
            return NVML_SUCCESS;
        }
    for (unsigned int i = 0; i < state.compute_instance_count; i++) {
        const struct compute_instance *instance = &state.compute_instances[i];
        if (strcmp(instance->uuid, uuid) == 0) {
            *device = make_handle(MIG_DEVICE, instance->gpu, instance->gpu_instance, instance->id);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci, nvmlDevice_t *device)
{
    CALL(READ, NULL);
    for (unsigned int i = 0; i < state.gpu_count; i++)
        if (strcasecmp(state.gpus[i].pci, pci) == 0) {
            *device = make_handle(GPU, state.gpus[i].index, 0, 0);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

NVML_API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    CALL(READ, device);
    const struct gpu *gpu = gpu_of(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct compute_instance *mig = mig_device_of(&state, device);
    return answer_text(uuid, length, mig ? mig->uuid : gpu->uuid);
}

NVML_API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    CALL(READ, device);
    const struct gpu *gpu = gpu_of(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!mig_device_of(&state, device))
        return answer_text(name, length, gpu->board->product_name);
    const struct gpu_instance *instance = state_gpu_instance(&state, gpu->index, handle_gi(device));
    char text[NVML_NAME_SIZE];
    snprintf(text, sizeof text, "%s MIG %s", gpu->board->product_name,
             profile_by_id(gpu->board, instance->profile_id)->name);
    return answer_text(name, length, text);
}

NVML_API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *index = gpu->index;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    return nvmlDeviceGetIndex(device, minor);
}

NVML_API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    sscanf(gpu->pci, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busId, sizeof pci->busId, "%s", gpu->pci);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04x:%02x:%02x.0", pci->domain & 0xFFFF, pci->bus & 0xFF,
             pci->device & 0xFF);
    pci->pciDeviceId = gpu->board->pci_device_id << 16 | 0x10DE; /* NVIDIA's vendor number */
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    CALL(READ, device);
    const struct gpu *gpu = gpu_of(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *major = (int)gpu->board->major;
    *minor = (int)gpu->board->minor;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    CALL(READ, device);
    const struct gpu *gpu = gpu_of(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *architecture = gpu->board->architecture;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    *mode = gpu->persistence;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, unsigned int mode)
{
    CALL(WRITE, device);
    struct gpu *gpu = whole_gpu(&state, device);
    if (!gpu || mode > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    gpu->persistence = mode;
    return state_save(&state);
}
