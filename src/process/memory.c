/*
 * Memory that only the start of a long life has needed.
 *
 * Loading forty libraries and making the first connections touches megabytes of their code, symbols
 * and constants that idle work never comes by again. These are mapped from files and never written,
 * so their pages can be given back at any moment: what is needed after all comes from the page
 * cache. Data is left alone, and so is what the loader has relocated: it stands in segments that
 * were writable.
 */
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"

static size_t give(uintptr_t from, size_t n) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = from & ~(page - 1), end = (from + n + page - 1) & ~(page - 1);

    return madvise((void *)begin, end - begin, MADV_DONTNEED) == 0 ? end - begin : 0;
}

/* The program itself has no name, the kernel's part no path. The list of segments stands in the
 * first of them: from the last one on, it is not needed any more when that goes. */
static int look(struct dl_phdr_info *info, size_t size, void *userdata) {
    size_t *given = userdata;

    (void)size;
    if (info->dlpi_name[0] && info->dlpi_name[0] != '/')
        return 0;
    for (size_t i = info->dlpi_phnum; i > 0; i--) {
        const ElfW(Phdr) p = info->dlpi_phdr[i - 1];
        if (p.p_type == PT_LOAD && !(p.p_flags & PF_W))
            *given += give(info->dlpi_addr + p.p_vaddr, p.p_filesz);
    }
    return 0;
}

size_t nc_memory_give_back(void) {
    size_t given = 0;

    (void)malloc_trim(0);
    (void)dl_iterate_phdr(look, &given);
    return given;
}
