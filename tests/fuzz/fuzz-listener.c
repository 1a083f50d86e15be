/*
 * What a peer says to the controller's listener: a request comes in pieces and is judged the same;
 * a path is a path. The text is an address to listen on, too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "listener.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static int read_so_far(const char *data, size_t n) {
    char path[NC_LISTENER_PATH_MAX] = "";
    nc_auto_free char *exact = nc_malloc(n ? n : 1);
    bool is_head = false;
    int r;

    memcpy(exact, data, n);
    r = nc_listener_read_request(exact, n, path, &is_head);
    must(r == 0 || r == 1 || (r <= -400 && r > -600));
    must(strnlen(path, sizeof(path)) < sizeof(path));
    if (r != 1)
        return r;
    must(path[0] == '/' && !strchr(path, '?'));
    for (const char *p = path; *p; p++)
        must(*p > ' ' && *p <= '~');
    return r;
}

static void address(const char *data, size_t n) {
    nc_auto_free char *text = nc_strndup(data, n);
    struct nc_err err = NC_ERR_INIT;
    struct nc_host host;
    union nc_address a;
    socklen_t size = 0;

    if (nc_host_parse(text, &host) == 0)
        must(strlen(text) >= 2 && strspn(text, "0123456789abcdefABCDEF:.") == strlen(text));
    if (nc_address_parse(text, &a, &size, &err) < 0)
        must(err.class == NC_ERR_CONFIG && err.msg[0] && size == 0);
    else
        must(size == (a.any.sa_family == AF_INET ? sizeof(a.v4) : sizeof(a.v6))
             && (!nc_address_is_loopback(&a) || strstr(text, "127.") || strchr(text, '[')));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *text = (const char *)data;
    const int whole = read_so_far(text, n);

    /* A verdict is not taken back by what comes after it; before it there is none. */
    for (size_t i = 0; i < n; i += 1 + n / 16) {
        const int r = read_so_far(text, i);
        must(r == 0 || r == whole);
    }
    address(text, n);
    return 0;
}
