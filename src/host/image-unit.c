/*
 * Units from the files of a root: systemd's search path, drop-ins in the order of their names,
 * empty values that reset, symbolic links of *.wants and *.requires (systemd.unit(5)).
 */
#include "image-tree.h"

#include "nc/host.h"
#include "nc/str.h"

/* Highest first. /lib is /usr/lib, but on images that have not merged them. */
const char nc_unit_folders[] = "/etc/systemd/system\0/run/systemd/system\0"
                               "/usr/local/lib/systemd/system\0/usr/lib/systemd/system\0"
                               "/lib/systemd/system\0";

void nc_image_text_lines(char *text, void (*line)(void *userdata, char *text), void *userdata) {
    nc_cleanup(nc_buf_done) struct nc_buf joined = NC_BUF_INIT;
    char *rest = text, *one;

    while ((one = strsep(&rest, "\n"))) {
        one = nc_trim(one);
        if (*one == '#' || *one == ';')
            continue;
        const size_t n = strlen(one);
        const bool is_continued = n > 0 && one[n - 1] == '\\' && rest;
        /* Not longer than the text, whose size is capped. */
        (void)nc_buf_add(&joined, one, is_continued ? n - 1 : n);
        if (is_continued) {
            (void)nc_buf_putc(&joined, ' ');
            continue;
        }
        if (joined.len > 0)
            line(userdata, nc_trim(joined.data));
        nc_buf_clear(&joined);
    }
}

struct reading {
    struct nc_image_unit *unit;
    const char *path;
    bool is_service; /* inside of [Service] */
};

static void read_line(void *userdata, char *text) {
    struct reading *r = userdata;
    char *equals = strchr(text, '=');

    if (*text == '[') {
        r->is_service = nc_streq(text, "[Service]");
        return;
    }
    if (!r->is_service || !equals)
        return;
    *equals = '\0';
    *nc_append(&r->unit->lines, &r->unit->n_lines) =
        (struct nc_image_line){.key = nc_strdup(nc_trim(text)),
                               .value = nc_strdup(nc_trim(equals + 1)),
                               .path = nc_strdup(r->path)};
}

static void read_file(struct nc_image_tree *t, const char *path, struct nc_image_unit *ret) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct reading r = {.unit = ret, .path = path};

    if (nc_image_tree_read(t, path, &text))
        nc_image_text_lines(text.data, read_line, &r);
}

static void find_file(struct nc_image_tree *t, const char *unit, struct nc_image_unit *ret) {
    for (const char *folder = nc_unit_folders; *folder; folder = nc_next_name(folder)) {
        nc_auto_free char *path = nc_asprintf("%s/%s", folder, unit);
        nc_auto_free char *target = nc_image_tree_link(t, path);
        ret->is_masked = nc_streq(target, "/dev/null") || nc_image_tree_is_empty(t, path);
        if (!ret->is_masked && !nc_image_tree_has(t, path))
            continue;
        ret->path = nc_steal(&path);
        return;
    }
}

void nc_image_unit_read(struct nc_image_tree *t, const char *unit, struct nc_image_unit *ret) {
    nc_cleanup(nc_strv_done) struct nc_strv folders = NC_STRV_INIT, dropins = NC_STRV_INIT;

    find_file(t, unit, ret);
    if (!ret->path || ret->is_masked)
        return;
    read_file(t, ret->path, ret);
    for (const char *folder = nc_unit_folders; *folder; folder = nc_next_name(folder))
        nc_strv_addf(&folders, "%s/%s.d", folder, unit);
    for (const char *folder = nc_unit_folders; *folder; folder = nc_next_name(folder))
        nc_strv_addf(&folders, "%s/service.d", folder); /* of all services */
    nc_image_tree_confs(t, &folders, &dropins);
    for (size_t i = 0; i < dropins.n; i++)
        read_file(t, dropins.v[i], ret);
}

void nc_image_unit_done(struct nc_image_unit *u) {
    for (size_t i = 0; i < u->n_lines; i++) {
        free(u->lines[i].key);
        free(u->lines[i].value);
        free(u->lines[i].path);
    }
    free(u->lines);
    free(u->path);
    *u = (struct nc_image_unit)NC_IMAGE_UNIT_INIT;
}

const struct nc_image_line *nc_image_unit_next(const struct nc_image_unit *u, const char *key,
                                               size_t *at) {
    for (size_t i = u->n_lines; *at == 0 && i > 0; i--) /* begin after the last reset */
        if (nc_streq(u->lines[i - 1].key, key) && !*u->lines[i - 1].value)
            *at = i;
    for (; *at < u->n_lines; (*at)++)
        if (nc_streq(u->lines[*at].key, key))
            return &u->lines[(*at)++];
    return NULL;
}

/* In a folder of units: is it in TARGET.wants or TARGET.requires? */
static bool is_wanted(struct nc_image_tree *t, const char *folder, const char *unit) {
    nc_cleanup(nc_strv_done) struct nc_strv names = NC_STRV_INIT;

    nc_image_tree_names(t, folder, &names);
    for (size_t i = 0; i < names.n; i++) {
        const bool is_list =
            nc_ends_with(names.v[i], ".wants") || nc_ends_with(names.v[i], ".requires");
        nc_auto_free char *path = nc_asprintf("%s/%s/%s", folder, names.v[i], unit);
        nc_auto_free char *target = is_list ? nc_image_tree_link(t, path) : NULL;
        if (target)
            return true;
    }
    return false;
}

bool nc_image_unit_is_enabled(struct nc_image_tree *t, const char *unit) {
    struct nc_image_unit found = NC_IMAGE_UNIT_INIT;
    bool is_there;

    find_file(t, unit, &found);
    is_there = found.path && !found.is_masked;
    nc_image_unit_done(&found);
    for (const char *folder = nc_unit_folders; is_there && *folder; folder = nc_next_name(folder))
        if (is_wanted(t, folder, unit))
            return true;
    return false;
}
