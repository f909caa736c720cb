/* Handles name what they stand for; they are not pointers to anything. */
#ifndef HANDLE_H
#define HANDLE_H

#include <stdint.h>

enum kind { NOT_A_HANDLE, GPU, GPU_INSTANCE, COMPUTE_INSTANCE, MIG_DEVICE };

#define HANDLE_MARK 0xA0000000u

static inline void *make_handle(enum kind kind, unsigned int gpu, unsigned int gi, unsigned int ci)
{
    return (void *)(uintptr_t)(HANDLE_MARK | (unsigned int)kind << 24 | gpu << 16 | gi << 8 | ci);
}

static inline enum kind handle_kind(const void *handle)
{
    uintptr_t value = (uintptr_t)handle;
    return (value & ~(uintptr_t)0x0FFFFFFF) == HANDLE_MARK ? (enum kind)(value >> 24 & 15) : NOT_A_HANDLE;
}

static inline unsigned int handle_gpu(const void *handle) { return (uintptr_t)handle >> 16 & 255; }
static inline unsigned int handle_gi(const void *handle) { return (uintptr_t)handle >> 8 & 255; }
static inline unsigned int handle_ci(const void *handle) { return (uintptr_t)handle & 255; }

#endif
