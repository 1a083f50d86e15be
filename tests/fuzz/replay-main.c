/*
 * Runs a fuzz harness over a corpus without an engine: every seed and every crasher of the past
 * stays a test.
 *
 * Takes files or folders; without arguments tests/fuzz/corpus/NAME below NC_SRCDIR, where the
 * program is fuzz-NAME. Prints TAP: one line a file. An empty corpus is a failure.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nc/file.h"

#define INPUT_MAX_BYTES ((size_t)4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int failures;
static int files;

static void replay_file(const char *path) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_file_read(path, INPUT_MAX_BYTES, &b, &err);

    files++;
    if (r < 0) {
        failures++;
        printf("not ok %d - %s\n# %s\n", files, path, err.msg);
    } else {
        uint8_t *exact = nc_malloc(b.len); /* a read beyond the end is seen by the sanitizer */
        memcpy(exact, b.data, b.len);
        LLVMFuzzerTestOneInput(exact, b.len);
        free(exact);
        printf("ok %d - %s\n", files, path);
    }
    fflush(stdout);
    nc_buf_done(&b);
}

static void replay(const char *path) {
    struct dirent **entries;
    struct stat st;

    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
        replay_file(path);
        return;
    }
    const int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        nc_auto_free char *child = nc_asprintf("%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            replay(child);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

int main(int argc, char **argv) {
    const char *name = strstr(argv[0], "fuzz-");
    const char *source = getenv("NC_SRCDIR");

    for (const char *next = name; next; next = strstr(next + 1, "fuzz-"))
        name = next;
    nc_auto_free char *corpus =
        nc_asprintf("%s/tests/fuzz/corpus/%s", source ? source : ".", name ? name + 5 : "");
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (argc == 1)
        replay(corpus);
    printf("1..%d\n", files);
    return failures || !files ? EXIT_FAILURE : EXIT_SUCCESS;
}
