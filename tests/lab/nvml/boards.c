/* Looking up boards and their profiles. */
#include "boards.h"

#include <stddef.h>
#include <string.h>

const struct board *board_by_name(const char *catalog_name)
{
    for (unsigned int i = 0; i < BOARD_COUNT; i++)
        if (strcmp(BOARDS[i].catalog_name, catalog_name) == 0)
            return &BOARDS[i];
    return NULL;
}

const struct profile *profile_by_index(const struct board *board, unsigned int nvml_index)
{
    for (unsigned int i = 0; i < board->profile_count; i++)
        if (board->profiles[i].nvml_index == nvml_index)
            return &board->profiles[i];
    return NULL;
}

const struct profile *profile_by_id(const struct board *board, unsigned int id)
{
    for (unsigned int i = 0; i < board->profile_count; i++)
        if (board->profiles[i].id == id)
            return &board->profiles[i];
    return NULL;
}
