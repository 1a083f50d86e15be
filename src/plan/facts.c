/*
 * Facts from IMDS: the table of questions, and one strict reader for each answer.
 *
 * An answer becomes a fact only if it has the shape that EC2 documents for it; anything else is a
 * protocol error that names the path, and changes nothing. Who asks, and when, is not known here.
 */
#include "nc/facts.h"

#include <errno.h>
#include <stdio.h>

#include "nc/facts.h"
#include "nc/str.h"
#include "nc/userdata.h"
#include "shapes.h"

/* User data may be twice EC2's limit here, so that too much of it is reported in words by the
 * decoder.
 */
const struct nc_imds_question nc_imds_questions[_NC_IMDS_ITEM_MAX] = {
    [NC_IMDS_IDENTITY] = {"/latest/dynamic/instance-identity/document", true, 16 << 10},
    [NC_IMDS_MAC] = {"/latest/meta-data/mac", true, 64},
    [NC_IMDS_LOCAL_IPV4] = {"/latest/meta-data/local-ipv4", false, 64},
    [NC_IMDS_LOCAL_HOSTNAME] = {"/latest/meta-data/local-hostname", false, 2048},
    [NC_IMDS_AZ_ID] = {"/latest/meta-data/placement/availability-zone-id", false, 64},
    [NC_IMDS_PURCHASE_OPTION] = {"/latest/meta-data/instance-life-cycle", false, 64},
    [NC_IMDS_DOMAIN] = {"/latest/meta-data/services/domain", false, 256},
    [NC_IMDS_TARGET_STATE] = {"/latest/meta-data/autoscaling/target-lifecycle-state", false, 256},
    [NC_IMDS_USER_DATA] = {"/latest/user-data", false, 2 * NC_USERDATA_MAX_RAW},
    [NC_IMDS_ROLE] = {"/latest/meta-data/iam/security-credentials/", false, 256},
    [NC_IMDS_IPV6S] = {"/latest/meta-data/network/interfaces/macs/%s/ipv6s", false, 4096},
    [NC_IMDS_CREDENTIALS] = {"/latest/meta-data/iam/security-credentials/%s", false, 16 << 10},
    [NC_IMDS_METADATA] = {"/latest/meta-data/%s", false, 1024},
};

#define AT(member) offsetof(struct nc_facts, member)

void nc_facts_done(struct nc_facts *f) {
    static const unsigned short texts[] = {AT(instance_id),
                                           AT(instance_type),
                                           AT(region),
                                           AT(az),
                                           AT(az_id),
                                           AT(architecture),
                                           AT(mac),
                                           AT(local_ipv4),
                                           AT(ipv6),
                                           AT(local_hostname),
                                           AT(domain),
                                           AT(target_state),
                                           AT(role),
                                           AT(private_dns_name),
                                           AT(kubelet_version),
                                           AT(boot_id),
                                           AT(hostname),
                                           AT(ecr_credential_provider_dir),
                                           AT(containerd_version)};

    nc_free_texts(f, texts, NC_ARRAY_SIZE(texts));
    for (size_t i = 0; i < f->n_metadata; i++) {
        free(f->metadata[i].path);
        free(f->metadata[i].text);
    }
    free(f->metadata);
    nc_facts_free_sysctls(f);
    nc_strv_done(&f->environment_services);
    nc_strv_done(&f->unusual);
    *f = (struct nc_facts)NC_FACTS_INIT;
}

const char *nc_purchase_option_name(enum nc_purchase_option l) {
    return nc_name_at("unknown\0on-demand\0spot\0scheduled\0capacity-block\0", l);
}

/* The text of an answer without the white space around it, cut to its first word where only that
 * one counts. NULL: not text, or nothing left. */
static char *answer_text(const char *body, size_t n, bool first_token) {
    nc_auto_free char *text = NULL;

    if (!nc_is_text(body, n) || memchr(body, '\0', n))
        return NULL;
    text = nc_strndup(body, n);
    nc_trim(text);
    if (first_token)
        text[strcspn(text, " \t\r\n")] = '\0';
    return text[0] ? nc_steal(&text) : NULL;
}

static int refuse(enum nc_imds_item item, const char *body, size_t n, const char *wanted,
                  struct nc_err *err) {
    nc_auto_free char *quoted = nc_quote(body, n);

    return nc_err_protocol(err, "%s: %s is not %s", nc_imds_questions[item].path, quoted, wanted);
}

int nc_facts_add_metadata(struct nc_facts *f, const char *path, const char *body, size_t n,
                          struct nc_err *err) {
    nc_auto_free char *text = body ? answer_text(body, n, false) : NULL;
    struct nc_metadata *m;

    if (body && !text && n > 0)
        return nc_err_protocol(err, "/latest/meta-data/%s: not text", path);
    m = nc_append(&f->metadata, &f->n_metadata);
    m->path = nc_strdup(path);
    m->text = text || !body ? nc_steal(&text) : nc_strdup("");
    return 0;
}

const struct nc_metadata *nc_facts_find_metadata(const struct nc_facts *f, const char *path) {
    for (size_t i = 0; i < f->n_metadata; i++)
        if (nc_streq(f->metadata[i].path, path))
            return &f->metadata[i];
    return NULL;
}

static bool is_purchase_option(const char *s) {
    return nc_shape_token(s, 48);
}

static bool is_target_state(const char *s) {
    return nc_is_alnum_or(s, ":", 48);
}

/* Answers of one line, and the member of struct nc_facts that is such a line as it came. */
static const struct {
    bool (*shape)(const char *);
    const char *wanted;
    bool is_first_word;
    unsigned short member;
} lines[_NC_IMDS_ITEM_MAX] = {
    [NC_IMDS_MAC] = {nc_shape_mac, "a MAC address", false, AT(mac)},
    [NC_IMDS_LOCAL_IPV4] = {nc_shape_ipv4, "an IPv4 address", false, AT(local_ipv4)},
    [NC_IMDS_LOCAL_HOSTNAME] = {nc_shape_instance_hostname, "a host name", true,
                                AT(local_hostname)},
    [NC_IMDS_AZ_ID] = {nc_shape_zone_id, "an availability zone id such as usw2-az1", false,
                       AT(az_id)},
    [NC_IMDS_PURCHASE_OPTION] = {is_purchase_option, "an instance life cycle", false, 0},
    [NC_IMDS_DOMAIN] = {nc_shape_domain, "a domain such as amazonaws.com", false, AT(domain)},
    [NC_IMDS_TARGET_STATE] = {is_target_state, "a state such as InService", false, 0},
    [NC_IMDS_ROLE] = {nc_shape_role_name, "the name of an IAM role", true, AT(role)},
    [NC_IMDS_IPV6S] = {nc_shape_ipv6, "a list of IPv6 addresses", true, AT(ipv6)},
};

/* Takes a one-line answer into *field if it has its shape. */
static int set_fact(enum nc_imds_item item, const char *body, size_t n, char **field,
                    struct nc_err *err) {
    nc_auto_free char *text = answer_text(body, n, lines[item].is_first_word);

    if (!text || !lines[item].shape(text))
        return refuse(item, body, n, lines[item].wanted, err);
    free(*field);
    *field = nc_steal(&text);
    return 0;
}

/* A life cycle that is newer than this program is well-formed, and unknown. */
static int set_purchase_option(struct nc_facts *f, const char *body, size_t n, struct nc_err *err) {
    nc_auto_free char *text = NULL;
    const int r = set_fact(NC_IMDS_PURCHASE_OPTION, body, n, &text, err);

    if (r < 0)
        return r;
    f->purchase_option = NC_PURCHASE_UNKNOWN;
    for (int l = NC_PURCHASE_ON_DEMAND; l <= NC_PURCHASE_CAPACITY_BLOCK; l++)
        if (nc_streq(text, nc_purchase_option_name((enum nc_purchase_option)l)))
            f->purchase_option = (enum nc_purchase_option)l;
    return 0;
}

/* A node can do without. */
static int set_target_state(struct nc_facts *f, const char *body, size_t n) {
    struct nc_err err = NC_ERR_INIT;

    if (set_fact(NC_IMDS_TARGET_STATE, body, n, &f->target_state, &err) < 0)
        nc_strv_add_once(&f->unusual, err.msg);
    return 0;
}

struct identity_field {
    char key[20];
    bool required;
    bool (*shape)(const char *);
    const char *wanted;
};

static bool is_architecture(const char *s) {
    return nc_is_one_of(s, "x86_64\0arm64\0i386\0x86_64_mac\0arm64_mac\0");
}

enum { ID, TYPE, REGION, ZONE, ARCHITECTURE, IDENTITY_MAX };

static const struct identity_field identity_fields[IDENTITY_MAX] = {
    [ID] = {"instanceId", true, nc_shape_instance_id, "an instance id such as i-0123456789abcdef0"},
    [TYPE] = {"instanceType", true, nc_shape_instance_type, "an instance type such as m5.large"},
    [REGION] = {"region", true, nc_shape_region, "a region such as us-west-2"},
    [ZONE] = {"availabilityZone", true, nc_shape_zone, "an availability zone such as us-west-2a"},
    [ARCHITECTURE] = {"architecture", false, is_architecture, "an architecture such as x86_64"},
};

/* One field of the identity document; EC2 writes null where it has nothing to say. One that a node
 * can do without is taken for absent where it has another shape, and that is noted. */
static int identity_text(struct nc_facts *f, const struct nc_value *document,
                         const struct identity_field *field, char **ret, struct nc_err *err) {
    const char *path = nc_imds_questions[NC_IMDS_IDENTITY].path;
    const struct nc_value *v = nc_value_get(document, field->key);
    const char *text = nc_value_string(v);

    if ((!v || v->type == NC_VALUE_NULL) && !field->required)
        return 0;
    if (!v)
        return nc_err_protocol(err, "%s: no \"%s\" in it", path, field->key);
    if (!text || !field->shape(text)) {
        nc_auto_free char *quoted =
            text ? nc_quote_string(text) : nc_strdup("invalid value: not a string");
        nc_auto_free char *sentence = nc_asprintf("imds: %s: %s: %s is not %s, ignored", path,
                                                  field->key, quoted, field->wanted);

        if (!field->required) {
            nc_strv_add_once(&f->unusual, sentence);
            return 0;
        }
        return nc_err_protocol(err, "%s: %s: %s is not %s", path, field->key, quoted,
                               field->wanted);
    }
    *ret = nc_strdup(text);
    return 0;
}

static int read_identity_document(struct nc_facts *f, const char *body, size_t n,
                                  struct nc_err *err) {
    char **facts[IDENTITY_MAX] = {&f->instance_id, &f->instance_type, &f->region, &f->az,
                                  &f->architecture};
    const char *path = nc_imds_questions[NC_IMDS_IDENTITY].path;
    char *texts[IDENTITY_MAX] = {NULL};
    nc_auto_value struct nc_value *document = NULL;
    int r = nc_json_parse(body, n, &document, err);

    if (r < 0) {
        nc_err_wrap(err, "%s", path);
        return r;
    }
    if (document->type != NC_VALUE_MAP)
        return nc_err_protocol(err, "%s: JSON, but not an object", path);
    for (size_t i = 0; r >= 0 && i < IDENTITY_MAX; i++)
        r = identity_text(f, document, &identity_fields[i], &texts[i], err);
    if (r >= 0 && !nc_starts_with(texts[ZONE], texts[REGION]))
        r = nc_err_protocol(err, "%s: zone %s is not in region %s", path, texts[ZONE],
                            texts[REGION]);
    for (size_t i = 0; i < IDENTITY_MAX; i++) {
        if (r < 0) {
            free(texts[i]);
            continue;
        }
        free(*facts[i]);
        *facts[i] = texts[i];
    }
    return r < 0 ? r : 0;
}

int nc_facts_parse_imds(struct nc_facts *f, enum nc_imds_item item, const char *body, size_t n,
                        struct nc_err *err) {
    if (item >= _NC_IMDS_ITEM_MAX)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "no such question to IMDS: %d", (int)item);
    if (n > nc_imds_questions[item].max_bytes)
        return nc_err_set(err, NC_ERR_PROTOCOL, EFBIG, "%s: %zu bytes, at most %u are expected",
                          nc_imds_questions[item].path, n, nc_imds_questions[item].max_bytes);
    if (item == NC_IMDS_IDENTITY)
        return read_identity_document(f, body, n, err);
    if (item == NC_IMDS_PURCHASE_OPTION)
        return set_purchase_option(f, body, n, err);
    if (item == NC_IMDS_TARGET_STATE)
        return set_target_state(f, body, n);
    if (lines[item].shape)
        return set_fact(item, body, n, (char **)((char *)f + lines[item].member), err);
    return nc_err_set(err, NC_ERR_BUG, EINVAL, "%s: this answer is not a fact",
                      nc_imds_questions[item].path);
}
