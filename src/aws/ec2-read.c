/*
 * EC2's answers: what it refused and why, and the fields that are read from its XML. Pure.
 *
 * An answer that is not about what was asked is refused. EC2's own words reach a message only
 * quoted and cut.
 */
#include "ec2-priv.h"

#include <errno.h>
#include <stddef.h>

#include "nc/str.h"
#include "xml.h"

#define MAX_FAILURE_BYTES 512

/* What EC2 states when it refuses. */
struct failure {
    char code[128];
    char message[MAX_FAILURE_BYTES];
};

/* EC2 writes the first, AWS' other services the second, what replaces EC2 the third. */
static bool is_failure(const struct nc_xml *element, const char *leaf) {
    static const char above[][28] = {"Response/Errors/Error/", "ErrorResponse/Error/",
                                     "ErrorResponse/Errors/Error/"};

    for (size_t k = 0; k < NC_ARRAY_SIZE(above); k++)
        if (nc_starts_with(element->path, above[k])
            && nc_streq(element->path + strlen(above[k]), leaf))
            return true;
    return false;
}

static int read_failure_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct failure *f = user;

    if (is_failure(element, "Code") && !f->code[0])
        nc_copy_text(f->code, sizeof(f->code), element->text);
    else if (is_failure(element, "Message") && !f->message[0])
        nc_copy_text(f->message, sizeof(f->message), element->text);
    return 0;
}

/* What was read before an answer breaks off counts. */
static void read_failure(const struct nc_http_result *result, struct failure *ret) {
    *ret = (struct failure){0};
    (void)nc_xml_read(result->body, result->n, read_failure_element, ret, NULL);
}

bool nc_aws_has_error(const struct nc_http_result *result, const char *code, const char *words) {
    struct failure f;

    read_failure(result, &f);
    return nc_streq(f.code, code) && strstr(f.message, words);
}

bool nc_ec2_has_error(const struct nc_http_result *result, const char *code) {
    return nc_aws_has_error(result, code, "");
}

enum meaning { DENIED = 1, REJECTED, THROTTLED, NOT_YET, WRONG };

/* Codes of EC2, STS and Auto Scaling. OperationNotPermitted: protected against termination;
 * ResourceContention: the group is just being changed. */
static enum meaning meaning_of(const char *code, int status) {
    if (nc_is_one_of(code, "UnauthorizedOperation\0AccessDenied\0OptInRequired\0"
                           "OperationNotPermitted\0"))
        return DENIED;
    if (nc_is_one_of(code, "AuthFailure\0ExpiredToken\0RequestExpired\0SignatureDoesNotMatch\0"
                           "InvalidClientTokenId\0UnrecognizedClientException\0"
                           "IncompleteSignature\0"))
        return REJECTED;
    if (nc_is_one_of(code, "RequestLimitExceeded\0Throttling\0ThrottlingException\0Unavailable\0"
                           "ServiceUnavailable\0InternalError\0InternalFailure\0"
                           "ResourceContention\0"))
        return THROTTLED;
    if (nc_streq(code, "InvalidInstanceID.NotFound"))
        return NOT_YET;
    if (nc_is_one_of(code, "InvalidInstanceType\0InvalidParameterValue\0"
                           "InvalidInstanceID.Malformed\0ValidationError\0"))
        return WRONG;
    if (status >= 500 || status == 429)
        return THROTTLED;
    if (!*code) /* somebody between EC2 and us */
        return 0;
    return status == 401 ? REJECTED : status == 403 ? DENIED : 0;
}

/* EC2's own words, quoted and cut: an UnauthorizedOperation carries a kilobyte of encoded nothing.
 */
int nc_aws_refused(const struct nc_http_result *result, const char *service, const char *action,
                   struct nc_err *err) {
    struct failure f;
    int r;

    read_failure(result, &f);
    nc_auto_free char *code = nc_quote_string(f.code);
    nc_auto_free char *message = nc_quote_string(f.message);
    const enum meaning meaning = meaning_of(f.code, result->status);
    if (!f.code[0] && !meaning)
        return nc_err_set(err, NC_ERR_PROTOCOL, result->status,
                          "%s: %s: HTTP %d without an error code", service, action, result->status);
    if (!f.code[0])
        return nc_err_set(err, NC_ERR_TRANSIENT, result->status, "%s: %s: HTTP %d", service, action,
                          result->status);
    r = nc_err_set(err,
                   meaning == DENIED || meaning == REJECTED     ? NC_ERR_AUTH
                   : meaning == THROTTLED || meaning == NOT_YET ? NC_ERR_TRANSIENT
                   : meaning == WRONG                           ? NC_ERR_CONFIG
                                                                : NC_ERR_PROTOCOL,
                   result->status, "%s: %s: HTTP %d, %s: %s", service, action, result->status, code,
                   message);
    if (meaning == DENIED)
        nc_err_remedy(err, "allow %s:%s to the role%s", service, action,
                      nc_streq(service, "ec2") && nc_starts_with(action, "Describe")
                          ? ", or set spec.aws.ec2: never and give the answer in AgentConfig"
                          : "");
    else if (meaning == REJECTED)
        nc_err_remedy(
            err,
            "check this host's clock and that the credentials belong to the endpoint's partition");
    else if (meaning == NOT_YET)
        nc_err_remedy(err, "EC2 learns of new instances with a delay: this is tried again");
    return r;
}

int nc_ec2_refused(const struct nc_http_result *result, const char *action, struct nc_err *err) {
    return nc_aws_refused(result, "ec2", action, err);
}

#define INSTANCE "DescribeInstancesResponse/reservationSet/item/instancesSet/item"

struct instance_reader {
    char *id, *name;
};

static void instance_reader_done(struct instance_reader *i) {
    free(i->id);
    free(i->name);
}

static int read_instance_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct instance_reader *i = user;

    if (!i->id && nc_streq(element->path, INSTANCE "/instanceId"))
        i->id = nc_strdup(element->text);
    else if (!i->name && nc_streq(element->path, INSTANCE "/privateDnsName"))
        i->name = nc_strdup(element->text);
    return 0;
}

int nc_ec2_read_instance(const char *data, size_t n, const char *instance_id, char **ret,
                         struct nc_err *err) {
    nc_cleanup(instance_reader_done) struct instance_reader i = {0};
    const int r = nc_xml_read(data, n, read_instance_element, &i, err);

    if (r < 0)
        return r;
    if (!i.id)
        return nc_err_set(err, NC_ERR_TRANSIENT, ENOENT, "it does not know %s yet", instance_id);
    if (!nc_streq(i.id, instance_id))
        return nc_err_protocol(err, "the answer is about another instance than %s", instance_id);
    if (!i.name || !*i.name) /* an instance that is just being made */
        return nc_err_set(err, NC_ERR_TRANSIENT, ENOENT, "%s has no private DNS name yet",
                          instance_id);
    if (!nc_is_alnum_or(i.name, "-.", 253))
        return nc_err_protocol(err, "invalid private DNS name of %s", instance_id);
    *ret = nc_steal(&i.name);
    return 0;
}

struct end_reader {
    const char *instance_id;
    bool found;
};

static int read_end_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct end_reader *e = user;

    if (nc_streq(element->path, "TerminateInstancesResponse/instancesSet/item/instanceId")
        && nc_streq(element->text, e->instance_id))
        e->found = true;
    return 0;
}

int nc_ec2_read_end(const char *data, size_t n, const char *instance_id, struct nc_err *err) {
    struct end_reader e = {.instance_id = instance_id};
    const int r = nc_xml_read(data, n, read_end_element, &e, err);

    if (r < 0)
        return r;
    return e.found ? 0 : nc_err_protocol(err, "the answer is not about %s", instance_id);
}

#define TYPE "DescribeInstanceTypesResponse/instanceTypeSet/item"
#define CARD "/networkInfo/networkCards/item"

#define MAX_CARDS 64

/* What is read on the way. A card's numbers are complete when it closes; which card is the default
 * one may be reported before or after it. */
struct type_reader {
    struct nc_instance_type type;
    int64_t default_card, all_enis;
    int64_t card_index, card_enis;
    struct card {
        int64_t index, enis;
    } cards[MAX_CARDS];
    size_t n_cards;
    unsigned n_types;
    bool bare_metal;
};

static int64_t number_of(const char *text) {
    int64_t n;

    return nc_parse_i64(text, &n) == 0 && n >= 0 ? n : -1;
}

/* Where they are kept, in the same order. */
static const char type_numbers[] =
    "/vCpuInfo/defaultVCpus\0/memoryInfo/sizeInMiB\0/networkInfo/maximumNetworkInterfaces\0"
    "/networkInfo/ipv4AddressesPerInterface\0/networkInfo/defaultNetworkCardIndex\0" CARD
    "/networkCardIndex\0" CARD "/maximumNetworkInterfaces\0";
static const unsigned short type_offsets[] = {
    offsetof(struct type_reader, type.vcpus),   offsetof(struct type_reader, type.memory_mib),
    offsetof(struct type_reader, all_enis),     offsetof(struct type_reader, type.ipv4_per_eni),
    offsetof(struct type_reader, default_card), offsetof(struct type_reader, card_index),
    offsetof(struct type_reader, card_enis),
};

static void read_architecture(struct nc_instance_type *t, const char *text) {
    if (t->arch[0] == '\0' && (nc_streq(text, "x86_64") || nc_streq(text, "arm64")))
        nc_copy_text(t->arch, sizeof(t->arch), nc_streq(text, "arm64") ? "arm64" : "amd64");
}

static void add_card(struct type_reader *t) {
    if (t->n_cards < MAX_CARDS)
        t->cards[t->n_cards++] = (struct card){t->card_index, t->card_enis};
    t->card_index = t->card_enis = -1;
}

static int read_type_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct type_reader *t = user;
    const char *text = element->text;
    const char *path = NULL;
    int number;

    if (!nc_starts_with(element->path, TYPE))
        return 0;
    path = element->path + strlen(TYPE);
    number = nc_which_of(path, type_numbers);
    if (number >= 0)
        *(int64_t *)((char *)t + type_offsets[number]) = number_of(text);
    else if (nc_streq(path, "/instanceType"))
        nc_copy_text(t->type.name, sizeof(t->type.name), text);
    else if (nc_streq(path, "/processorInfo/supportedArchitectures/item"))
        read_architecture(&t->type, text);
    else if (nc_streq(path, "/hypervisor"))
        nc_copy_text(t->type.hypervisor, sizeof(t->type.hypervisor), text);
    else if (nc_streq(path, "/bareMetal"))
        t->bare_metal = nc_streq(text, "true");
    else if (nc_streq(path, CARD))
        add_card(t);
    else if (nc_streq(path, "") && t->n_types++ > 0)
        return nc_err_protocol(err, "more than one type in the answer");
    return 0;
}

static void choose_enis(struct type_reader *t) {
    const int64_t wanted = t->default_card >= 0 ? t->default_card : 0;

    t->type.enis = t->all_enis;
    for (size_t k = 0; k < t->n_cards; k++)
        if (t->cards[k].index == wanted && t->cards[k].enis >= 0)
            t->type.enis = t->cards[k].enis;
}

int nc_ec2_read_type(const char *data, size_t n, const char *type, struct nc_instance_type *ret,
                     struct nc_err *err) {
    struct type_reader t = {
        .type = {.vcpus = -1, .memory_mib = -1, .enis = -1, .ipv4_per_eni = -1, .branch_enis = -1},
        .default_card = -1,
        .card_index = -1,
        .card_enis = -1,
        .all_enis = -1};
    const int r = nc_xml_read(data, n, read_type_element, &t, err);

    if (r < 0)
        return r;
    if (!nc_streq(t.type.name, type))
        return nc_err_protocol(err, "the answer is not about %s", type);
    choose_enis(&t);
    if (t.type.vcpus <= 0 || t.type.memory_mib <= 0 || t.type.enis <= 0 || t.type.ipv4_per_eni <= 0)
        return nc_err_protocol(err, "the description of %s lacks CPUs, memory or interfaces", type);
    if (t.bare_metal)
        nc_copy_text(t.type.hypervisor, sizeof(t.type.hypervisor), "metal");
    *ret = t.type;
    return 0;
}
