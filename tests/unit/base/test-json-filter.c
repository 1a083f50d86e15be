/*
 * JSON thinned out while it streams in: by table, cut at every byte, and against a slow model over
 * seeded random documents (NC_SEED, NC_ROUNDS).
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <inttypes.h>

#include "nc/json-filter.h"
#include "nc/str.h"
#include "nc/value.h"

struct taken {
    struct nc_buf out; /* items, a line each */
    unsigned n;
    int refuse;
};

static int take(void *userdata, const char *data, size_t n) {
    struct taken *t = userdata;

    nc_buf_add(&t->out, data, n);
    nc_buf_putc(&t->out, '\n');
    t->n++;
    return t->refuse;
}

static char *unquote(const char *text) {
    char *s = nc_strdup(text);

    for (char *p = s; *p; p++)
        if (*p == '\'')
            *p = '"';
    return s;
}

/* Everything in chunks; 0 or what failed. The rest of a list goes to *ret_rest (owned). */
static int run(const struct nc_json_filter_options *o, bool is_stream, const char *text, size_t n,
               size_t chunk, char **ret_rest, struct nc_err *err) {
    struct nc_json_filter *f = NULL;
    const char *rest = "";
    size_t rest_n = 0;
    int r = is_stream ? nc_json_filter_new_stream(o, &f, err) : nc_json_filter_new(o, &f, err);

    assert_int_equal(r, 0);
    for (size_t at = 0; at < n && r == 0; at += chunk) {
        /* A copy of exactly this size: a byte too far is seen. */
        const size_t m = n - at < chunk ? n - at : chunk;
        char *piece = nc_malloc(m);
        memcpy(piece, text + at, m);
        r = nc_json_filter_add(f, piece, m, err);
        free(piece);
    }
    if (r == 0)
        r = nc_json_filter_end(f, &rest, &rest_n, err);
    assert_int_equal(r < 0, nc_json_filter_add(f, "", 0, NULL) < 0 || r < 0);
    *ret_rest = nc_strndup(rest, rest_n);
    nc_json_filter_free(f);
    return r;
}

static const char pod_paths[] =
    "metadata.name\0metadata.annotations.'karpenter.sh/do-not-disrupt'\0metadata.ownerReferences\0"
    "spec.volumes.persistentVolumeClaim.claimName\0status.phase\0'a.b'\0''\0";

static const struct {
    const char *in, *items, *rest;
} lists[] = {
    {"{'items':[]}", "", "{}"},
    {" { 'kind' : 'PodList' , 'items' : null , 'metadata' : { 'resourceVersion' : '5' } } ", "",
     "{'kind':'PodList','metadata':{'resourceVersion':'5'}}"},
    {"{'items':[{'metadata':{'name':'a','uid':'x'},'spec':{'nodeName':'n'}}],'x':[1,-2.5e+3,{},[]],"
     "'y':true}",
     "{'metadata':{'name':'a'},'spec':{}}\n", "{'x':[1,-2.5e+3,{},[]],'y':true}"},
    {"{'apiVersion':'v1','items':[{},{'status':{'phase':'Running','x':{'phase':1}}}],'z':null}",
     "{}\n{'status':{'phase':'Running'}}\n", "{'apiVersion':'v1','z':null}"},
    /* Keys: dots, escapes, an empty one, one that only begins alike. */
    {"{'items':[{'a.b':[ 1 , { 'c' : [ ] } ],'a':{'b':5},'':0,'metadat':1,'metadata2':1,"
     "'metadat\\u0061':{'n\\u0061me':'\\u00e9\\ud83d\\ude00 \\\\ \\/'}}]}",
     "{'a.b':[1,{'c':[]}],'':0,'metadata':{'name':'\\u00e9\\ud83d\\ude00 \\\\ \\/'}}\n", "{}"},
    {"{'items':[{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'5m','x.y/z':'1',"
     "'karpenter':{'sh/do-not-disrupt':1}}}}]}",
     "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'5m'}}}\n", "{}"},
    /* Below a path everything is kept, arrays on the way to one are gone through. */
    {"{'items':[{'metadata':{'ownerReferences':[{'kind':'Node','x':[[],[{}]]},null,7]},'spec':{"
     "'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'c','readOnly':true}},{'name':"
     "'w'},5,null,[{'persistentVolumeClaim':{'claimName':'d'}}],'s']}}]}",
     "{'metadata':{'ownerReferences':[{'kind':'Node','x':[[],[{}]]},null,7]},'spec':{'volumes':[{"
     "'persistentVolumeClaim':{'claimName':'c'}},{},[{'persistentVolumeClaim':{'claimName':'d'}}]]}"
     "}"
     "\n",
     "{}"},
    /* NUL is replaced, and only where it is one; a key is another key with it. */
    {"{'items':[{'status':{'phase':'a\\u0000b\\\\u0000\\\\\\u0000','x':'\\u0000'},'x':'\\u0000',"
     "'status\\u0000':{'phase':1}}],'y':'\\u0000'}",
     "{'status':{'phase':'a\\ufffdb\\\\u0000\\\\\\ufffd'}}\n", "{'y':'\\ufffd'}"},
    /* So is an integer beyond 2^53, and nothing else that has many digits. */
    {"{'items':[{'a.b':[9007199254740992,9007199254740993,-9223372036854775808,12345678901234567890"
     ",9007199254740991,0.90071992547409931,12345678901234567890.5,90071992547409931e-2,"
     "'12345678901234567890','\\\\12345678901234567890'],'12345678901234567890':1}],"
     "'x':12345678901234567890}",
     "{'a.b':[9007199254740992,9007199254740992,-9007199254740992,9007199254740992,"
     "9007199254740991,0.90071992547409931,12345678901234567890.5,90071992547409931e-2,"
     "'12345678901234567890','\\\\12345678901234567890']}\n",
     "{'x':9007199254740992}"},
    /* A scalar on the way to a path goes. */
    {"{'items':[{'metadata':'x','spec':[],'status':{'phase':{'a':[]}}},{'metadata':null,'spec':5}]"
     "}",
     "{'spec':[],'status':{'phase':{'a':[]}}}\n{}\n", "{}"},
};

static void test_lists(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(lists); i++) {
        nc_auto_free char *in = unquote(lists[i].in);
        nc_auto_free char *items = unquote(lists[i].items);
        nc_auto_free char *rest = unquote(lists[i].rest);
        print_message("# row %zu\n", i);
        for (size_t chunk = 1; chunk <= strlen(in); chunk++) {
            struct taken t = {.out = NC_BUF_INIT};
            const struct nc_json_filter_options o = {
                .keep = pod_paths, .max_item_bytes = 4096, .item = take, .userdata = &t};
            nc_auto_free char *got = NULL;
            struct nc_err err = NC_ERR_INIT;
            if (run(&o, false, in, strlen(in), chunk, &got, &err) < 0)
                fail_msg("%s", err.msg);
            assert_string_equal(t.out.data ? t.out.data : "", items);
            assert_string_equal(got, rest);
            nc_buf_done(&t.out);
        }
    }
}

static void test_stream(void **state) {
    static const char keep[] = "type\0object.metadata.name\0";
    const char *in = "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"x\":1}}}\n\r\n"
                     "{\"type\":\"BOOKMARK\",\"object\":{\"spec\":{}}}{\"x\":1}\n";
    struct taken t = {.out = NC_BUF_INIT};
    struct nc_json_filter_options o = {
        .keep = keep, .max_item_bytes = 100, .item = take, .userdata = &t};
    nc_auto_free char *rest = NULL, *all = NULL, *none = NULL;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(run(&o, true, in, strlen(in), 3, &rest, &err), 0);
    assert_string_equal(t.out.data,
                        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}"
                        "\n{\"type\":\"BOOKMARK\",\"object\":{}}\n{}\n");
    nc_buf_done(&t.out);
    /* Nothing is named: everything, without its spaces. */
    o.keep = NULL;
    assert_int_equal(run(&o, true, "{ \"a b\" : [ 1 , \" \" ] }", 23, 1, &all, &err), 0);
    assert_string_equal(t.out.data, "{\"a b\":[1,\" \"]}\n");
    nc_buf_done(&t.out);
    assert_true(run(&o, true, "{\"a\":1} {", 9, 1, &none, &err) < 0);
    assert_non_null(strstr(err.msg, "ends too early"));
    nc_buf_done(&t.out);
}

/* What is wrong with each, whatever the chunks are. */
static const struct {
    const char *in, *says;
} refused[] = {
    {"", "byte 0: the text ends too early"},
    {"{'items':[{}]", "ends too early"},
    {"{'items':[{'a':'", "ends too early"},
    {"[]", "byte 0: a list must be an object"},
    {"'x'", "a list must be an object"},
    {"5", "a list must be an object"},
    {"{'items':{}}", "items must be an array"},
    {"{'items':'x'}", "items must be an array"},
    {"{'items':5}", "items must be an array"},
    {"{'items':true}", "items must be an array"},
    {"{'items':[],'items':[]}", "items twice"},
    {"{'items':[5]}", "byte 10: invalid item: not an object"},
    {"{'items':[[]]}", "invalid item: not an object"},
    {"{'items':[null]}", "invalid item: not an object"},
    {"{'items':[{}]}x", "byte 14: more text after the value"},
    {"{'items':[{}]}{}", "more text after the value"},
    {"{'items':[{},]}", "a value was expected"},
    {"{'items':[,{}]}", "a value was expected"},
    {"{'items':[{}{}]}", "a comma or a closing bracket"},
    {"{'items':[{]}", "a key was expected"},
    {"{'items':[{'a':1,}]}", "a key was expected"},
    {"{'items':[{a:1}]}", "a key was expected"},
    {"{'items':[{'a' 1}]}", "a colon was expected"},
    {"{'items':[{'a':}]}", "a value was expected"},
    {"{'items':[{'a':[1}]}]}", "a comma or a closing bracket"},
    {"{'items':[{'a':1]]}", "a comma or a closing bracket"},
    {"{'items':[{'a':tru}]}", "a value was expected"},
    {"{'items':[{'a':nulll}]}", "a comma or"},
    {"{'items':[{'a':+1}]}", "a value was expected"},
    {"{'items':[{'a':01}]}", "byte 16: invalid number"},
    {"{'items':[{'a':-}]}", "invalid number"},
    {"{'items':[{'a':1.}]}", "invalid number"},
    {"{'items':[{'a':1e}]}", "invalid number"},
    {"{'items':[{'a':1e+}]}", "invalid number"},
    {"{'items':[{'a':1.5.5}]}", "invalid number"},
    {"{'items':[{'a':--1}]}", "invalid number"},
    {"{'items':[{'a':'\x01'}]}", "byte 16: control character"},
    {"{'items':[{'a':'\n'}]}", "control character"},
    {"{'items':[{'a':'\\x'}]}", "invalid escape"},
    {"{'items':[{'a':'\\u12g4'}]}", "invalid escape"},
    {"{'items':[{'a':'\\ud800'}]}", "half of a pair"},
    {"{'items':[{'a':'\\ud800\\n'}]}", "half of a pair"},
    {"{'items':[{'a':'\\ud800\\ud800'}]}", "half of a pair"},
    {"{'items':[{'a':'\\udc00'}]}", "half of a pair"},
    {"{'items':[{'a':'\x80'}]}", "invalid UTF-8"},
    {"{'items':[{'a':'\xc0\x80'}]}", "invalid UTF-8"},
    {"{'items':[{'a':'\xe0\x80\x80'}]}", "invalid UTF-8"},
    {"{'items':[{'a':'\xed\xa0\x80'}]}", "invalid UTF-8"},
    {"{'items':[{'a':'\xf4\x90\x80\x80'}]}", "invalid UTF-8"},
    {"{'items':[{'a':'\xc3'}]}", "invalid UTF-8"},
    {"\xef\xbb\xbf{'items':[]}", "a value was expected"},
    {"{'items':[{'metadata':{'name':'123456789012345678901234567890'}}]}", "of an item is too"},
};

static void test_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(refused); i++) {
        nc_auto_free char *in = unquote(refused[i].in);
        print_message("# row %zu\n", i);
        for (size_t chunk = 1; chunk <= strlen(in) + 1; chunk++) {
            struct taken t = {.out = NC_BUF_INIT};
            const struct nc_json_filter_options o = {
                .keep = pod_paths, .max_item_bytes = 40, .item = take, .userdata = &t};
            nc_auto_free char *rest = NULL;
            struct nc_err err = NC_ERR_INIT;
            assert_true(run(&o, false, in, strlen(in), chunk, &rest, &err) < 0);
            assert_int_equal(err.class, NC_ERR_PROTOCOL);
            if (!strstr(err.msg, refused[i].says))
                fail_msg("%s", err.msg);
            nc_buf_done(&t.out);
        }
    }
}

/* What is too large of one path does not make the item too large. */
static void test_large_values(void **state) {
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"{'status':{'phase':'0123456789'},'a.b':[12345678]}",
         "{'status':{'phase':null},'a.b':[12345678]}\n"},
        {"{'a.b':[123456789],'metadata':{'name':'12345678','x':1},'':-1234567890}",
         "{'a.b':null,'metadata':{'name':'12345678'},'':null}\n"},
        {"{'a.b':{'x':['y',{'z':'\\\"]}'}]},'':5}", "{'a.b':null,'':5}\n"},
        {"{'spec':{'volumes':[{},{'x':'long enough'},{}]}}", "{'spec':{'volumes':[{},{},{}]}}\n"},
        {"{'spec':{'volumes':[{},{},{},{}]},'':1}", "{'spec':{'volumes':null},'':1}\n"},
        {"{'spec':{'volumes':[{'persistentVolumeClaim':{'claimName':1}}]}}{'':''}",
         "{'spec':{'volumes':null}}\n{'':''}\n"},
        {"{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'123456789'}}}",
         "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':null}}}\n"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *in = unquote(rows[i].in), *out = unquote(rows[i].out);
        print_message("# row %zu\n", i);
        for (size_t chunk = 1; chunk <= strlen(in); chunk++) {
            struct taken t = {.out = NC_BUF_INIT};
            const struct nc_json_filter_options o = {.keep = pod_paths,
                                                     .max_item_bytes = 80,
                                                     .max_value_bytes = 10,
                                                     .item = take,
                                                     .userdata = &t};
            nc_auto_free char *rest = NULL;
            struct nc_err err = NC_ERR_INIT;
            if (run(&o, true, in, strlen(in), chunk, &rest, &err) < 0)
                fail_msg("%s", err.msg);
            assert_string_equal(t.out.data, out);
            nc_buf_done(&t.out);
        }
    }
}

static void test_limits(void **state) {
    struct taken t = {.out = NC_BUF_INIT};
    struct nc_json_filter_options o = {
        .keep = pod_paths, .max_item_bytes = 64, .item = take, .userdata = &t};
    struct nc_json_filter *f;
    struct nc_err err = NC_ERR_INIT, again = NC_ERR_INIT;
    struct nc_buf deep = NC_BUF_INIT;
    nc_auto_free char *rest = NULL, *none = NULL;

    (void)state;
    /* 64 brackets, the list's two and the item's included, and one more. */
    nc_buf_puts(&deep, "{\"items\":[{\"x\":");
    for (int i = 0; i < 61; i++)
        nc_buf_puts(&deep, "[");
    for (int i = 0; i < 61; i++)
        nc_buf_puts(&deep, "]");
    nc_buf_puts(&deep, "}]}");
    assert_int_equal(run(&o, false, deep.data, deep.len, 7, &rest, &err), 0);
    memmove(deep.data + 16, deep.data + 15, deep.len - 15);
    assert_true(run(&o, false, deep.data, deep.len, 7, &none, &err) < 0);
    assert_non_null(strstr(err.msg, "nested too deep"));
    nc_buf_done(&deep);

    /* The list's own members have a cap, its items none together. */
    assert_int_equal(nc_json_filter_new(&o, &f, NULL), 0);
    assert_int_equal(nc_json_filter_add(f, "{\"items\":[{}", 12, NULL), 0);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(nc_json_filter_add(f, ",{}", 3, NULL), 0);
    assert_int_equal(nc_json_filter_add(f, "],\"x\":\"", 7, NULL), 0);
    err = (struct nc_err)NC_ERR_INIT;
    for (int i = 0; i < 70000 && err.class == NC_ERR_NONE; i++)
        (void)nc_json_filter_add(f, "y", 1, &err);
    assert_non_null(strstr(err.msg, "too large without its items"));
    assert_true(nc_json_filter_add(f, "y", 1, &again) < 0);
    assert_string_equal(again.msg, err.msg);
    assert_true(nc_json_filter_end(f, NULL, NULL, &again) < 0);
    nc_json_filter_free(f);
    nc_buf_done(&t.out);

    /* A taker that says no ends it with its own word. */
    t = (struct taken){.refuse = -ENOSPC};
    assert_int_equal(nc_json_filter_new(&o, &f, NULL), 0);
    assert_int_equal(nc_json_filter_add(f, "{\"items\":[{},{}]}", 17, &err), -ENOSPC);
    assert_int_equal(t.n, 1);
    assert_int_equal(nc_json_filter_end(f, NULL, NULL, NULL), -ENOSPC);
    nc_json_filter_free(f);
    nc_buf_done(&t.out);
    o.item = NULL;
    assert_true(nc_json_filter_new(&o, &f, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    assert_null(nc_json_filter_free(NULL));
}

/* The model: the same thinning on a tree, written as plainly as possible. */
struct want {
    char *key;
    bool is_whole;
    struct want *below;
    size_t n;
};

static void want_done(struct want *w) {
    for (size_t i = 0; i < w->n; i++)
        want_done(&w->below[i]);
    free(w->below);
    free(w->key);
}

/* NULL: nothing of it is wanted. */
static struct nc_value *thin(const struct nc_value *v, const struct want *w, size_t max_bytes);

/* The value of a member: a limit counts for what is kept whole, and for an array with all in it. */
static struct nc_value *thin_member(const struct nc_value *v, const struct want *w,
                                    size_t max_bytes) {
    const bool is_limited = max_bytes > 0 && (w->is_whole || v->type == NC_VALUE_LIST);
    struct nc_value *kept = thin(v, w, is_limited ? 0 : max_bytes);
    struct nc_buf text = NC_BUF_INIT;

    if (!kept || !is_limited)
        return kept;
    nc_json_write(&text, kept, 0);
    if (text.len > max_bytes) {
        nc_value_free(kept);
        kept = nc_value_new(NC_VALUE_NULL);
    }
    nc_buf_done(&text);
    return kept;
}

static struct nc_value *thin(const struct nc_value *v, const struct want *w, size_t max_bytes) {
    struct nc_value *out;

    if (w->is_whole)
        return nc_value_copy(v);
    if (v->type != NC_VALUE_MAP && v->type != NC_VALUE_LIST)
        return NULL;
    out = nc_value_new(v->type);
    for (size_t i = 0; i < v->n; i++) {
        if (v->type == NC_VALUE_LIST) {
            struct nc_value *kept = thin(v->items[i], w, max_bytes);
            if (kept)
                nc_value_push(out, kept);
            continue;
        }
        for (size_t j = 0; j < w->n; j++) {
            struct nc_value *kept = strcmp(w->below[j].key, v->members[i].key) == 0
                                        ? thin_member(v->members[i].value, &w->below[j], max_bytes)
                                        : NULL;
            if (kept)
                nc_value_set(out, v->members[i].key, kept);
        }
    }
    return out;
}

static const char *const keys[] = {"a", "b", "items", "a.b", "", "\xc3\xa9", "q\"\\", "\n"};

static struct nc_value *random_value(uint64_t *rng, unsigned depth) {
    struct nc_value *v;

    switch (prng_below(rng, depth > 0 ? 8 : 5)) {
    case 0:
        return nc_value_new(NC_VALUE_NULL);
    case 1:
        return nc_value_new_bool(prng_below(rng, 2) == 1);
    case 2:
        return nc_value_new_int((int64_t)prng_below(rng, 2000000) - 1000000);
    case 3:
        v = nc_value_new(NC_VALUE_FLOAT);
        v->text = nc_strdup(prng_below(rng, 2) ? "-0.5e+10" : "1.25");
        return v;
    case 4:
        return nc_value_new_string(keys[prng_below(rng, NC_ARRAY_SIZE(keys))]);
    case 5:
        v = nc_value_new_list();
        for (size_t n = prng_below(rng, 5); n; n--)
            nc_value_push(v, random_value(rng, depth - 1));
        return v;
    default:
        v = nc_value_new_map();
        for (size_t n = prng_below(rng, 6); n; n--)
            nc_value_set(v, keys[prng_below(rng, NC_ARRAY_SIZE(keys))],
                         random_value(rng, depth - 1));
        return v;
    }
}

/* Adds one random path to the model and to the list. */
static void random_path(uint64_t *rng, struct want *root, struct nc_buf *paths) {
    struct want *w = root;

    for (size_t n = 1 + prng_below(rng, 3), i = 0; i < n; i++) {
        const char *key = keys[prng_below(rng, NC_ARRAY_SIZE(keys))];
        struct want *next = NULL;
        if (i > 0)
            nc_buf_putc(paths, '.');
        nc_buf_printf(paths, !*key || strchr(key, '.') || i % 2 ? "'%s'" : "%s", key);
        for (size_t j = 0; j < w->n; j++)
            next = strcmp(w->below[j].key, key) == 0 ? &w->below[j] : next;
        if (!next) {
            next = nc_append(&w->below, &w->n);
            next->key = nc_strdup(key);
        }
        w = next;
    }
    w->is_whole = true;
    nc_buf_putc(paths, '\0');
}

static void check_equal(const char *got, size_t n, const struct nc_value *wanted) {
    nc_auto_value struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse(got, n, &v, &err) < 0)
        fail_msg("%s: %.*s", err.msg, (int)n, got);
    if (!nc_value_equal(v, wanted)) {
        struct nc_buf b = NC_BUF_INIT;
        nc_json_write(&b, wanted, 0);
        fail_msg("got %.*s, not %s", (int)n, got, b.data);
    }
}

static void round_of(uint64_t *rng) {
    struct want want = {0};
    struct nc_buf paths = NC_BUF_INIT;
    struct taken t = {.out = NC_BUF_INIT};
    nc_auto_value struct nc_value *list = nc_value_new_map();
    struct nc_value *items = nc_value_new_list();
    struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *rest = NULL;

    for (size_t n = prng_below(rng, 5); n; n--)
        random_path(rng, &want, &paths);
    nc_value_set(list, "a", random_value(rng, 3));
    for (size_t n = prng_below(rng, 4); n; n--) {
        struct nc_value *item = nc_value_new_map();
        for (size_t m = prng_below(rng, 6); m; m--)
            nc_value_set(item, keys[prng_below(rng, NC_ARRAY_SIZE(keys))], random_value(rng, 5));
        nc_value_push(items, item);
    }
    nc_value_set(list, "items", items);
    nc_value_set(list, "b", random_value(rng, 3));
    nc_json_write(&text, list, prng_below(rng, 2) ? 2 : 0);

    const struct nc_json_filter_options o = {.keep = paths.len ? paths.data : "",
                                             .max_item_bytes = 1 << 20,
                                             .max_value_bytes = prng_below(rng, 40),
                                             .item = take,
                                             .userdata = &t};
    if (run(&o, false, text.data, text.len, 1 + prng_below(rng, 40), &rest, &err) < 0)
        fail_msg("%s: %s", err.msg, text.data);
    assert_int_equal(t.n, items->n);
    const char *line = t.out.data;
    for (size_t i = 0; i < items->n; i++) {
        nc_auto_value struct nc_value *wanted = thin(items->items[i], &want, o.max_value_bytes);
        const char *end = strchr(line, '\n');
        check_equal(line, (size_t)(end - line), wanted);
        line = end + 1;
    }
    nc_value_remove(list, "items");
    check_equal(rest, strlen(rest), list);
    want_done(&want);
    nc_buf_done(&paths);
    nc_buf_done(&t.out);
    nc_buf_done(&text);
}

static uint64_t number_from_env(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    uint64_t v;

    return text && nc_parse_u64(text, &v) == 0 ? v : otherwise;
}

static void test_against_model(void **state) {
    uint64_t rng = number_from_env("NC_SEED", 1);

    (void)state;
    print_message("# NC_SEED=%" PRIu64 "\n", rng);
    for (uint64_t n = number_from_env("NC_ROUNDS", 3000); n; n--)
        round_of(&rng);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),   cmocka_unit_test(test_stream),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_large_values),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_against_model),
    };

    return run_group(tests, NULL, NULL);
}
