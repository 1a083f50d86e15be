/*
 * libcurl's memory: what a token, a key or an answer came through is wiped before it is free.
 *
 * libcurl wipes nothing of its own. Without this a role's keys stand in the heap until somebody
 * happens to write over them.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "http-priv.h"

static void free_wiped(void *p) {
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

/* libc's own may move a block and leave the old one as it is. */
static void *realloc_wiped(void *p, size_t size) {
    const size_t old = p ? malloc_usable_size(p) : 0;
    void *q = malloc(size);

    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old < size ? old : size);
    free_wiped(p);
    return q;
}

bool nc_http_start_libcurl(void) {
    return curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, free_wiped, realloc_wiped, strdup,
                                calloc)
           == CURLE_OK;
}
