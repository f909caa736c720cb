/* What each board can be cut into. The table itself is generated from the catalog by boards.py. */
#ifndef BOARDS_H
#define BOARDS_H

#include "nvml.h"

#define MAX_PLACEMENTS 8

struct profile {
    unsigned int nvml_index; /* NVML_GPU_INSTANCE_PROFILE_… */
    unsigned int id;         /* the number of `nvidia-smi mig -lgip` and of the create call */
    const char *name;
    unsigned int slices, memory_mib, instances, multiprocessors;
    unsigned int copy_engines, decoders, encoders, jpeg, ofa;
    unsigned int placement_count;
    nvmlPlacement_t placements[MAX_PLACEMENTS]; /* in memory slices */
};

struct board {
    const char *catalog_name, *product_name;
    unsigned int memory_mib, major, minor; /* compute capability */
    unsigned int architecture;             /* NVML_DEVICE_ARCH_… */
    unsigned int slices;                   /* compute slices of the whole GPU; 0 = no MIG */
    int mode_survives_reboot, needs_reset_for_mode;
    unsigned int pci_device_id;
    unsigned int power_default_mw, power_min_mw; /* 0 = the board does not say */
    unsigned int profile_count;
    const struct profile *profiles;
};

extern const struct board BOARDS[];
extern const unsigned int BOARD_COUNT;

const struct board *board_by_name(const char *catalog_name);
const struct profile *profile_by_index(const struct board *board, unsigned int nvml_index);
const struct profile *profile_by_id(const struct board *board, unsigned int id);

#endif
