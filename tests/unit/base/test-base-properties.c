/*
 * Properties of the base layer over seeded random input. NC_SEED chooses the seed, NC_ROUNDS how
 * many rounds; the seed is printed, and a failure names it.
 */
#include "base-test.h"
#include "groups.h"

#include <inttypes.h>
#include <zlib.h>

#include "nc/encode.h"
#include "nc/str.h"
#include "nc/time.h"
#include "nc/value.h"

static uint64_t seed;
static unsigned rounds;

static uint64_t number_from_env(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    uint64_t v;

    return text && nc_parse_u64(text, &v) == 0 ? v : otherwise;
}

#define check(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("NC_SEED=%" PRIu64 ": ", seed);                                            \
            fail_msg(__VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)

static void random_bytes(uint64_t *rng, struct nc_buf *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        nc_buf_putc(b, (char)prng_next(rng));
}

/* Characters that stress escaping: controls, quotes, two to four byte sequences, what YAML gives a
 * meaning. */
static char *random_text(uint64_t *rng) {
    static const char *const pieces[] = {
        "a",
        "b",
        "Z",
        "0",
        "9",
        " ",
        "\"",
        "\\",
        "/",
        "\n",
        "\t",
        "\x01",
        "\x1f",
        "\x7f",
        "\xc3\xbc",
        "\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "#",
        ":",
        "- ",
        "yes",
        "null",
        "~",
        "{",
        "]",
        ",",
        "&",
        "*",
        "!",
        "%",
        "'",
        "<<",
        "\xe2\x80\xa8",
        "\xc2\x85",
    };
    struct nc_buf b = NC_BUF_INIT;

    for (size_t n = prng_below(rng, 8); n; n--)
        nc_buf_puts(&b, pieces[prng_below(rng, NC_ARRAY_SIZE(pieces))]);
    return nc_buf_steal(&b);
}

static struct nc_value *random_number(uint64_t *rng) {
    const int64_t max = (int64_t)1 << 53;

    if (prng_below(rng, 2))
        return nc_value_new_int((int64_t)(prng_next(rng) >> 11 >> prng_below(rng, 53))
                                * (prng_below(rng, 2) ? 1 : -1));
    if (prng_below(rng, 8) == 0)
        return nc_value_new_int(prng_below(rng, 2) ? max : -max);
    struct nc_value *v = nc_value_new(NC_VALUE_FLOAT);
    v->text = nc_asprintf("%s%zu.%zue%d", prng_below(rng, 2) ? "-" : "", prng_below(rng, 1000),
                          prng_below(rng, 100000), (int)prng_below(rng, 40) - 20);
    return v;
}

static struct nc_value *random_value(uint64_t *rng, unsigned depth) {
    const size_t kind = prng_below(rng, depth ? 7 : 5);

    if (kind == 0)
        return nc_value_new(NC_VALUE_NULL);
    if (kind == 1)
        return nc_value_new_bool(prng_below(rng, 2));
    if (kind == 2)
        return random_number(rng);
    if (kind < 5) {
        nc_auto_free char *text = random_text(rng);
        return nc_value_new_string(text);
    }
    struct nc_value *v = nc_value_new(kind == 5 ? NC_VALUE_MAP : NC_VALUE_LIST);
    for (size_t n = prng_below(rng, 5); n; n--) {
        nc_auto_free char *key = random_text(rng);
        if (kind == 5)
            nc_value_set(v, key, random_value(rng, depth - 1));
        else
            nc_value_push(v, random_value(rng, depth - 1));
    }
    return v;
}

static struct nc_value *random_map(uint64_t *rng) {
    struct nc_value *v = nc_value_new_map();
    static const char *const keys[] = {"a", "b", "c", "d"};

    for (size_t n = prng_below(rng, 5); n; n--)
        nc_value_set(v, keys[prng_below(rng, NC_ARRAY_SIZE(keys))],
                     prng_below(rng, 3) ? random_value(rng, 2) : random_map(rng));
    return v;
}

static char *written(const struct nc_value *v, unsigned indent) {
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, v, indent);
    return nc_buf_steal(&b);
}

static void base64_there_and_back(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        struct nc_buf data = NC_BUF_INIT;
        struct nc_buf text = NC_BUF_INIT;
        struct nc_buf back = NC_BUF_INIT;
        random_bytes(&rng, &data, prng_below(&rng, 200));
        nc_base64_encode(data.data, data.len, &text);
        check(nc_base64_decode(text.data, text.len, &back) == 0, "round %u: \"%s\"", i, text.data);
        check(back.len == data.len && (!data.len || memcmp(back.data, data.data, data.len) == 0),
              "round %u", i);
        while (text.len && text.data[text.len - 1] == '=')
            text.data[--text.len] = '\0';
        nc_buf_clear(&back);
        check(nc_base64_decode(text.data, text.len, &back) == 0 && back.len == data.len,
              "round %u: without padding", i);
        nc_buf_clear(&back);
        nc_base64url_encode(data.data, data.len, &back);
        check(back.len == text.len, "round %u: URL alphabet", i);
        for (size_t at = 0; at < text.len; at++)
            check(text.data[at]
                      == (back.data[at] == '-'   ? '+'
                          : back.data[at] == '_' ? '/'
                                                 : back.data[at]),
                  "round %u", i);
        nc_buf_done(&data);
        nc_buf_done(&text);
        nc_buf_done(&back);
    }
}

static void json_written_and_parsed_is_the_same(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        nc_auto_value struct nc_value *v = random_value(&rng, 5);
        nc_auto_value struct nc_value *back = NULL;
        nc_auto_free char *text = written(v, (unsigned)prng_below(&rng, 4));
        struct nc_err err = NC_ERR_INIT;
        check(nc_json_parse(text, strlen(text), &back, &err) == 0, "%s: %s", text, err.msg);
        check(nc_value_equal(v, back), "%s", text);
        nc_auto_free char *once = written(v, 0);
        nc_auto_free char *twice = written(back, 0);
        check(strcmp(once, twice) == 0, "%s, then %s", once, twice);
    }
}

static void yaml_of_json_is_json(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        nc_auto_value struct nc_value *v = random_value(&rng, 4);
        nc_auto_free char *text = written(v, prng_below(&rng, 2) ? 2 : 0);
        nc_auto_value struct nc_value *as_json = NULL;
        struct nc_values as_yaml = {0};
        struct nc_err err = NC_ERR_INIT;
        check(nc_json_parse(text, strlen(text), &as_json, &err) == 0, "%s: %s", text, err.msg);
        check(nc_yaml_parse(nc_text(text), 0, &as_yaml, &err) == 0, "%s: %s", text, err.msg);
        check(as_yaml.n == 1 && nc_value_equal(as_json, as_yaml.v[0]), "%s", text);
        nc_values_done(&as_yaml);
    }
}

/* Whatever the bytes: an answer or a clean error, and never both. */
static void noise_never_hurts(void **state) {
    static const char alphabet[] = "{}[]\",:\\ue0123456789.-+tfn \n\t'&*!|>#%@`~ab\x00\xc3\xff";
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        struct nc_buf b = NC_BUF_INIT;
        struct nc_value *v = NULL;
        struct nc_values documents = {0};
        for (size_t left = prng_below(&rng, 60); left; left--)
            nc_buf_putc(&b, alphabet[prng_below(&rng, sizeof(alphabet))]);
        struct nc_err err = NC_ERR_INIT;
        const int r = nc_json_parse(b.data, b.len, &v, &err);
        check((r == 0) == (v != NULL) && (r == 0) == (err.class == NC_ERR_NONE), "JSON, round %u",
              i);
        nc_value_free(v);
        err = (struct nc_err)NC_ERR_INIT;
        if (nc_yaml_parse((struct nc_text){.data = b.data, .n = b.len}, 0, &documents, &err) == 0)
            nc_values_done(&documents);
        else
            check(nc_starts_with(err.msg, "line ") && !documents.v, "YAML, round %u: %s", i,
                  err.msg);
        nc_buf_done(&b);
    }
}

/* A patch is idempotent, removes its nulls, sets its values, and touches nothing else. */
static void merge_patch_laws(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        nc_auto_value struct nc_value *base = random_map(&rng);
        nc_auto_value struct nc_value *patch = random_map(&rng);
        nc_auto_value struct nc_value *once = nc_value_copy(base);
        nc_auto_value struct nc_value *none = nc_value_new_map();
        nc_value_merge_patch(once, patch);
        nc_auto_value struct nc_value *twice = nc_value_copy(once);
        nc_value_merge_patch(twice, patch);
        nc_auto_free char *text = written(patch, 0);
        check(nc_value_equal(once, twice), "applied twice: %s", text);
        nc_value_merge_patch(twice, none);
        check(nc_value_equal(once, twice), "the empty patch changes something: %s", text);
        for (size_t m = 0; m < patch->n; m++) {
            const struct nc_value *wanted = patch->members[m].value;
            const struct nc_value *got = nc_value_get(once, patch->members[m].key);
            if (wanted->type == NC_VALUE_NULL)
                check(!got, "a null does not remove: %s", text);
            else if (wanted->type != NC_VALUE_MAP)
                check(nc_value_equal(wanted, got), "a value does not arrive: %s", text);
        }
        for (size_t m = 0; m < base->n; m++)
            if (!nc_value_get(patch, base->members[m].key))
                check(nc_value_equal(base->members[m].value,
                                     nc_value_get(once, base->members[m].key)),
                      "touched: %s", text);
    }
}

/* Deep merge: idempotent, a document over itself changes nothing, and it never loses a key. */
static void merge_laws(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        nc_auto_value struct nc_value *a = random_map(&rng);
        nc_auto_value struct nc_value *b = random_map(&rng);
        nc_auto_value struct nc_value *once = nc_value_copy(a);
        nc_value_merge(once, nc_value_copy(b));
        nc_auto_value struct nc_value *twice = nc_value_copy(once);
        nc_value_merge(twice, nc_value_copy(b));
        check(nc_value_equal(once, twice), "round %u: not idempotent", i);
        nc_value_merge(twice, nc_value_copy(once));
        check(nc_value_equal(once, twice), "round %u: a document over itself", i);
        for (size_t m = 0; m < a->n; m++)
            check(nc_value_get(once, a->members[m].key), "round %u: key %s is lost", i,
                  a->members[m].key);
        for (size_t m = 0; m < b->n; m++)
            if (b->members[m].value->type != NC_VALUE_MAP)
                check(nc_value_equal(b->members[m].value, nc_value_get(once, b->members[m].key)),
                      "round %u: lost", i);
    }
}

static void times_there_and_back(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        char text[32];
        uint64_t back;
        const uint64_t usec = prng_below(&rng, 253402300800) * 1000000;
        nc_time_format(usec, text);
        check(nc_time_parse(text, &back) == 0 && back == usec, "%s", text);
        const uint64_t duration = prng_next(&rng) >> 11 >> prng_below(&rng, 53);
        nc_duration_format(duration, text);
        check(nc_duration_parse(text, &back) == 0 && back == duration, "%s is not %" PRIu64 " µs",
              text, duration);
    }
}

static void quoted_text_is_always_printable(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds; i++) {
        struct nc_buf b = NC_BUF_INIT;
        random_bytes(&rng, &b, prng_below(&rng, 120));
        nc_auto_free char *quoted = nc_quote(b.data, b.len);
        check(nc_is_text(quoted, strlen(quoted)) && !strpbrk(quoted, "\r\n\t"), "round %u: %s", i,
              quoted);
        nc_auto_value struct nc_value *v = NULL;
        nc_buf_putc(&b, '\0');
        nc_auto_value struct nc_value *hostile = nc_value_new_string(b.data);
        nc_auto_free char *text = written(hostile, 0);
        check(nc_json_parse(text, strlen(text), &v, NULL) == 0, "round %u: %s", i, text);
        nc_buf_done(&b);
    }
}

/* Every prefix of a gzip stream, and every stream with one byte changed, is an error or the same
 * text: never other text. */
static void damaged_gzip_is_never_text(void **state) {
    uint64_t rng = seed;
    (void)state;

    for (unsigned i = 0; i < rounds / 50 + 1; i++) {
        struct nc_buf text = NC_BUF_INIT;
        Bytef packed[1024];
        z_stream z = {0};
        random_bytes(&rng, &text, 1 + prng_below(&rng, 100));
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
                         Z_OK);
        z.next_in = (Bytef *)text.data;
        z.avail_in = (uInt)text.len;
        z.next_out = packed;
        z.avail_out = sizeof(packed);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        const size_t n = sizeof(packed) - z.avail_out;
        deflateEnd(&z);
        for (size_t cut = 0; cut < n; cut++) {
            struct nc_buf out = NC_BUF_INIT;
            check(nc_gunzip((char *)packed, cut, &out, NULL) < 0 && out.len == 0,
                  "round %u: %zu of %zu bytes", i, cut, n);
            const Bytef right = packed[cut];
            packed[cut] ^= (Bytef)(1u << prng_below(&rng, 8));
            if (nc_gunzip((char *)packed, n, &out, NULL) == 0)
                check(out.len == text.len && memcmp(out.data, text.data, out.len) == 0,
                      "round %u: byte %zu", i, cut);
            packed[cut] = right;
            nc_buf_done(&out);
        }
        nc_buf_done(&text);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_there_and_back),
        cmocka_unit_test(json_written_and_parsed_is_the_same),
        cmocka_unit_test(yaml_of_json_is_json),
        cmocka_unit_test(noise_never_hurts),
        cmocka_unit_test(merge_patch_laws),
        cmocka_unit_test(merge_laws),
        cmocka_unit_test(times_there_and_back),
        cmocka_unit_test(quoted_text_is_always_printable),
        cmocka_unit_test(damaged_gzip_is_never_text),
    };
    seed = number_from_env("NC_SEED", 20240501);
    rounds = (unsigned)number_from_env("NC_ROUNDS", 2000);
    fprintf(stderr, "# NC_SEED=%" PRIu64 " NC_ROUNDS=%u\n", seed, rounds);
    return run_group(tests, NULL, NULL);
}
