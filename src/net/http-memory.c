/*
 * libcurl's memory: what a token, a key or an answer came through is wiped before it is free.
 *
 * libcurl wipes nothing of its own. Without this a role's keys stand in the heap until somebody
 * happens to write over them.
 */
#include <string.h>

#include "http-priv.h"

bool nc_http_start_libcurl(void) {
    return curl_global_init_mem(CURL_GLOBAL_DEFAULT, malloc, nc_free_wiped, nc_realloc_wiped,
                                strdup, calloc)
           == CURLE_OK;
}
