/*
 * Memory that only the start of a long life has needed.
 *
 * Loading forty libraries and making the first connections touches megabytes of their code that
 * idle work never comes by again. Code is mapped from files and never written, so its pages can be
 * given back at any moment: what is needed after all comes from the page cache. Data is left alone.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "process.h"

#define MAPS_MAX_LINES 4096

/* Mapped from a file, executable and not writable: nothing of it can differ from the file. */
static bool is_code(const char *permissions, const char *path) {
    return strcmp(permissions, "r-xp") == 0 && path[0] == '/';
}

size_t nc_memory_give_back(void) {
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096 + 128];
    size_t given = 0;

    (void)malloc_trim(0);
    for (int i = 0; maps && i < MAPS_MAX_LINES && fgets(line, sizeof(line), maps); i++) {
        uintptr_t from, to;
        char permissions[5], path[2];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %1s", &from, &to, permissions,
                   path)
                == 4
            && is_code(permissions, path) && madvise((void *)from, to - from, MADV_DONTNEED) == 0)
            given += to - from;
    }
    if (maps)
        (void)fclose(maps);
    return given;
}
