/*
 * The table of EC2 instance types.
 *
 * It ships as data (data/instance-types.tsv), and the build puts the same rows into the program,
 * compressed: a bootstrap asks for one or two of them. A file on the AMI in the same form comes
 * first, row by row: it can add a type or correct one.
 */
#include "planner.h"

#include <string.h>

#include "nc/encode.h"
#include "nc/mem.h"
#include "nc/str.h"

static const unsigned char built_in[] = {
#include "instance-table.h"
};

static const char arch_names[][8] = {"", "amd64", "arm64", ""};
static const char hypervisor_names[][8] = {"", "nitro", "xen", "metal"};

/* One field of a row, "-" or "" = -1. */
static bool parse_column(const char *text, int64_t *ret) {
    uint64_t v;

    *ret = -1;
    if (*text == '\0' || nc_streq(text, "-"))
        return true;
    if (nc_parse_u64(text, &v) < 0 || v > UINT32_MAX)
        return false;
    *ret = (int64_t)v;
    return true;
}

static bool parse_name_column(const char *text, char *ret, size_t size, const char (*allowed)[8],
                              size_t n) {
    if (nc_streq(text, "-"))
        text = "";
    for (size_t i = 0; i < n; i++) {
        if (nc_streq(text, allowed[i]) && strlen(text) < size) {
            memcpy(ret, text, strlen(text) + 1);
            return true;
        }
    }
    return false;
}

/* A row whose first column is the name that is sought. */
static enum nc_type_row parse_row(char *row, struct nc_instance_type *ret) {
    char *fields[8] = {NULL}, none[] = "";
    struct nc_instance_type t = {0};
    size_t n = 0;

    for (char *p = row; p && n < NC_ARRAY_SIZE(fields); n++)
        fields[n] = strsep(&p, "\t");
    while (n < NC_ARRAY_SIZE(fields))
        fields[n++] = none;
    if (strlen(fields[0]) >= sizeof(t.name) || !parse_column(fields[1], &t.vcpus)
        || !parse_column(fields[2], &t.memory_mib)
        || !parse_name_column(fields[3], t.arch, sizeof(t.arch), arch_names,
                              NC_ARRAY_SIZE(arch_names))
        || !parse_column(fields[4], &t.enis) || !parse_column(fields[5], &t.ipv4_per_eni)
        || !parse_column(fields[6], &t.branch_enis)
        || !parse_name_column(fields[7], t.hypervisor, sizeof(t.hypervisor), hypervisor_names,
                              NC_ARRAY_SIZE(hypervisor_names)))
        return NC_TYPE_ROW_BAD;
    memcpy(t.name, fields[0], strlen(fields[0]) + 1);
    *ret = t;
    return NC_TYPE_ROW_FOUND;
}

enum nc_type_row nc_instance_type_row(const char *types, size_t n_types, const char *name,
                                      struct nc_instance_type *ret) {
    size_t n = strlen(name);

    for (const char *p = types, *end = types ? types + n_types : NULL; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((stop ? stop : end) - p);
        if (length > n && p[n] == '\t' && memcmp(p, name, n) == 0) {
            nc_auto_free char *row = nc_strndup(p, length);
            return parse_row(nc_trim(row), ret);
        }
        p += length + 1;
    }
    return NC_TYPE_ROW_NONE;
}

static bool find_built_in(const char *name, struct nc_instance_type *ret) {
    nc_cleanup(nc_buf_done) struct nc_buf types = NC_BUF_INIT;

    return nc_gunzip((const char *)built_in, sizeof(built_in), &types, NULL) == 0
           && nc_instance_type_row(types.data, types.len, name, ret) == NC_TYPE_ROW_FOUND;
}

bool nc_instance_type_find(const char *types, size_t n_types, const char *name,
                           struct nc_instance_type *ret) {
    if (!name || !*name)
        return false;
    if (nc_instance_type_row(types, n_types, name, ret) == NC_TYPE_ROW_FOUND)
        return true;
    return find_built_in(name, ret);
}
