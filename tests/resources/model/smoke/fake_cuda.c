/* A driver that records every call in $FAKE_LOG, where that is set, and fails the one named by $FAKE_FAILS. Its one allocation is a buffer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTER 0x7f0000000000ULL
#define CONTEXT ((void *)0x1234567890L)
#define DEVICE 5

static unsigned char *memory;
static size_t size;

static int code(const char *name)
{
    const char *path = getenv("FAKE_LOG");
    const char *bad = getenv("FAKE_FAILS");
    if (path) {
        FILE *log = fopen(path, "a");
        fprintf(log, "%s\n", name);
        fclose(log);
    }
    return bad && !strcmp(bad, name) ? 2 : 0;
}

int cuGetErrorName(int number, const char **name)
{
    *name = number == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
    return 0;
}

int cuInit(unsigned flags) { return code("cuInit"); }

int cuDeviceGet(int *device, int number)
{
    *device = DEVICE;
    return code("cuDeviceGet");
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = device == DEVICE ? CONTEXT : 0;
    return code("cuDevicePrimaryCtxRetain");
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    return device == DEVICE ? code("cuDevicePrimaryCtxRelease_v2") : 1;
}

int cuCtxSetCurrent(void *context) { return context == CONTEXT ? code("cuCtxSetCurrent") : 201; }

int cuCtxSynchronize(void) { return code("cuCtxSynchronize"); }

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes)
{
    memory = malloc(bytes);
    size = bytes;
    *pointer = POINTER;
    return code("cuMemAlloc_v2");
}

int cuMemFree_v2(unsigned long long pointer) { return pointer == POINTER ? code("cuMemFree_v2") : 1; }

int cuMemcpyHtoD_v2(unsigned long long pointer, const void *source, size_t bytes)
{
    if (pointer != POINTER || bytes != size)
        return 1;
    memcpy(memory, source, bytes);
    return code("cuMemcpyHtoD_v2");
}

/* The first byte comes back changed, as if somebody else had written to the memory meanwhile. */
int cuMemcpyDtoH_v2(void *target, unsigned long long pointer, size_t bytes)
{
    if (pointer != POINTER || bytes != size)
        return 1;
    memory[0] ^= 0xff;
    memcpy(target, memory, bytes);
    return code("cuMemcpyDtoH_v2");
}

int cuIpcGetMemHandle(unsigned char *handle, unsigned long long pointer)
{
    for (int i = 0; i < 64; i++)
        handle[i] = i;
    return pointer == POINTER ? code("cuIpcGetMemHandle") : 1;
}
