/*
 * What a watch has told so far, so that a fresh list tells what vanished while nobody watched.
 *
 * One small block for each object (names, uid as its sixteen bytes, a sum over the version), sorted
 * by name: some 90 bytes for a Node, of tens of thousands. Pure.
 */
#include <stddef.h>
#include <string.h>

#include "nc/str.h"

#include "watch-frame.h"
#include "wire.h"

#define UUID_BYTES 16
#define UUID_CHARS 36

struct nc_known_item {
    uint64_t version; /* sum over the resourceVersion; 0 = it had none */
    unsigned generation;
    bool is_uuid;
    char text[]; /* "namespace/name", then the uid: sixteen bytes, or a text */
};

void nc_known_done(struct nc_known *k) {
    for (size_t i = 0; i < k->n; i++)
        free(k->items[i]);
    free(k->items);
    memset(k, 0, sizeof(*k));
}

void nc_known_begin_list(struct nc_known *k) {
    k->generation++;
    k->swept = 0;
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_dash(size_t i) {
    return i == 8 || i == 13 || i == 18 || i == 23;
}

/* As every API server writes them, so that the same text comes out again. */
static bool pack_uuid(const char *uid, unsigned char ret[static UUID_BYTES]) {
    size_t digits = 0;

    if (strlen(uid) != UUID_CHARS)
        return false;
    memset(ret, 0, UUID_BYTES);
    for (size_t i = 0; i < UUID_CHARS; i++) {
        const int digit = hex_digit(uid[i]);
        if (is_dash(i) ? uid[i] != '-' : digit < 0)
            return false;
        if (is_dash(i))
            continue;
        ret[digits / 2] = (unsigned char)(ret[digits / 2] << 4 | digit);
        digits++;
    }
    return true;
}

static void unpack_uuid(const unsigned char *from, char ret[static UUID_CHARS + 1]) {
    size_t digits = 0;

    for (size_t i = 0; i < UUID_CHARS; i++) {
        ret[i] = '-';
        if (is_dash(i))
            continue;
        ret[i] = "0123456789abcdef"[from[digits / 2] >> (digits % 2 ? 0 : 4) & 15];
        digits++;
    }
    ret[UUID_CHARS] = '\0';
}

static const char *uid_of(const struct nc_known_item *item, char buf[static UUID_CHARS + 1]) {
    const char *stored = item->text + strlen(item->text) + 1;

    if (!item->is_uuid)
        return stored;
    unpack_uuid((const unsigned char *)stored, buf);
    return buf;
}

static struct nc_known_item *item_new(const char *key, const char *uid) {
    unsigned char uuid[UUID_BYTES];
    const bool is_uuid = pack_uuid(uid, uuid);
    const size_t key_n = strlen(key) + 1;
    const size_t uid_n = is_uuid ? UUID_BYTES : strlen(uid) + 1;
    struct nc_known_item *item = nc_calloc(1, offsetof(struct nc_known_item, text) + key_n + uid_n);

    item->is_uuid = is_uuid;
    memcpy(item->text, key, key_n);
    memcpy(item->text + key_n, is_uuid ? (const void *)uuid : (const void *)uid, uid_n);
    return item;
}

static char *key_of(const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const char *namespace = nc_value_get_string(metadata, "namespace");
    const char *name = nc_value_get_string(metadata, "name");

    return nc_asprintf("%s/%s", namespace ? namespace : "", name ? name : "");
}

static uint64_t version_of(const struct nc_value *object) {
    const char *version = nc_value_path_string(object, "metadata.resourceVersion");

    return version && *version ? nc_kube_hash(NC_KUBE_HASH_SEED, version) : 0;
}

/* The first place whose key is not less; *ret_found states whether it is the key itself. Lists come
 * sorted: the end is tried first. */
static size_t find(const struct nc_known *k, const char *key, bool *ret_found) {
    size_t low = 0;
    size_t high = k->n;

    *ret_found = false;
    if (k->n > 0 && strcmp(k->items[k->n - 1]->text, key) < 0)
        return k->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(k->items[middle]->text, key);
        *ret_found = *ret_found || order == 0;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct nc_value *stub(const struct nc_known_item *item) {
    struct nc_value *object = nc_value_new_map();
    struct nc_value *metadata = nc_value_add_map(object, "metadata");
    const char *slash = strchr(item->text, '/');
    nc_auto_free char *namespace = nc_strndup(item->text, slash ? (size_t)(slash - item->text) : 0);
    char buf[UUID_CHARS + 1];

    if (*namespace)
        nc_value_set_string(metadata, "namespace", namespace);
    nc_value_set_string(metadata, "name", slash ? slash + 1 : item->text);
    nc_value_set_string(metadata, "uid", uid_of(item, buf));
    return object;
}

static void insert(struct nc_known *k, size_t at, struct nc_known_item *item) {
    (void)nc_append(&k->items, &k->n);
    memmove(&k->items[at + 1], &k->items[at], (k->n - 1 - at) * sizeof(*k->items));
    k->items[at] = item;
}

enum nc_watch_event nc_known_add(struct nc_known *k, const struct nc_value *object,
                                 bool *ret_is_same, struct nc_value **ret_old) {
    nc_auto_free char *key = key_of(object);
    const char *uid = nc_value_path_string(object, "metadata.uid");
    const uint64_t version = version_of(object);
    enum nc_watch_event event = NC_WATCH_ADDED;
    char buf[UUID_CHARS + 1];
    bool found;
    const size_t at = find(k, key, &found);

    *ret_old = NULL;
    *ret_is_same = false;
    uid = uid ? uid : "";
    if (!found) {
        insert(k, at, item_new(key, uid));
    } else if (nc_streq(uid_of(k->items[at], buf), uid)) {
        *ret_is_same = version != 0 && version == k->items[at]->version;
        event = NC_WATCH_MODIFIED;
    } else {
        *ret_old = stub(k->items[at]);
        free(k->items[at]);
        k->items[at] = item_new(key, uid);
    }
    k->items[at]->generation = k->generation;
    k->items[at]->version = version;
    return event;
}

static void remove_at(struct nc_known *k, size_t at) {
    free(k->items[at]);
    memmove(&k->items[at], &k->items[at + 1], (k->n - 1 - at) * sizeof(*k->items));
    k->n--;
}

void nc_known_drop(struct nc_known *k, const struct nc_value *object) {
    nc_auto_free char *key = key_of(object);
    bool found;
    const size_t at = find(k, key, &found);

    if (found)
        remove_at(k, at);
}

struct nc_value *nc_known_sweep(struct nc_known *k) {
    while (k->swept < k->n) {
        const size_t at = k->n - 1 - k->swept;
        if (k->items[at]->generation == k->generation) {
            k->swept++;
            continue;
        }
        struct nc_value *gone = stub(k->items[at]);
        remove_at(k, at);
        return gone;
    }
    return NULL;
}
