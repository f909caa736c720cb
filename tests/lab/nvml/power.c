/* Power limits, in milliwatts. */
#include "call.h"

static nvmlReturn_t power_of(const struct gpu *gpu)
{
    if (!gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    return gpu->board->power_default_mw ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    nvmlReturn_t refused = power_of(gpu);
    if (refused != NVML_SUCCESS)
        return refused;
    *limit = gpu->power_limit_mw;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit)
{
    return nvmlDeviceGetPowerManagementLimit(device, limit);
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *limit)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    nvmlReturn_t refused = power_of(gpu);
    if (refused != NVML_SUCCESS)
        return refused;
    *limit = gpu->board->power_default_mw;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *lowest,
                                                                   unsigned int *highest)
{
    CALL(READ, device);
    const struct gpu *gpu = whole_gpu(&state, device);
    nvmlReturn_t refused = power_of(gpu);
    if (refused != NVML_SUCCESS)
        return refused;
    *lowest = gpu->board->power_min_mw;
    *highest = gpu->board->power_default_mw;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit)
{
    CALL(WRITE, device);
    struct gpu *gpu = whole_gpu(&state, device);
    nvmlReturn_t refused = power_of(gpu);
    if (refused != NVML_SUCCESS)
        return refused;
    if (limit < gpu->board->power_min_mw || limit > gpu->board->power_default_mw)
        return NVML_ERROR_INVALID_ARGUMENT;
    gpu->power_limit_mw = limit;
    return state_save(&state);
}
