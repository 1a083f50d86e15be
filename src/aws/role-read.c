/*
 * What STS answers, and whom a container may ask. Pure.
 *
 * The answer is a secret: no message quotes a byte of it but the service's own words for a refusal.
 */
#include <errno.h>

#include "nc/role.h"
#include "nc/str.h"
#include "nc/time.h"
#include "xml.h"

#define RESULT "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/"
#define MAX_SECRET 8192

/* The first of them, where it is printable ASCII. */
static void read_role_token(const struct nc_xml *element, const char *path, char **ret) {
    const char *text = element->text;

    if (!*ret && nc_streq(element->path, path) && *text && strlen(text) <= MAX_SECRET
        && nc_is_visible(text, strlen(text)))
        *ret = nc_strdup(text);
}

struct answer {
    struct nc_credentials c;
    char *expiration, *code, *message;
};

static void answer_done(struct answer *a) {
    nc_credentials_done(&a->c);
    free(a->expiration);
    free(a->code);
    free(a->message);
}

static int read_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct answer *a = user;

    read_role_token(element, RESULT "AccessKeyId", &a->c.access_key_id);
    read_role_token(element, RESULT "SecretAccessKey", &a->c.secret_access_key);
    read_role_token(element, RESULT "SessionToken", &a->c.session_token);
    read_role_token(element, RESULT "Expiration", &a->expiration);
    read_role_token(element, "ErrorResponse/Error/Code", &a->code);
    if (!a->message && nc_streq(element->path, "ErrorResponse/Error/Message"))
        a->message = nc_strdup(element->text);
    return 0;
}

static int refused(const struct nc_http_result *result, const struct answer *a,
                   struct nc_err *err) {
    const char *code_text = a->code ? a->code : "", *message_text = a->message ? a->message : "";
    nc_auto_free char *code = nc_quote_string(code_text);
    nc_auto_free char *message = nc_quote_string(message_text);
    const bool is_unavailable = result->status >= 500 || result->status == 429
                                || nc_streq(code_text, "Throttling")
                                || nc_streq(code_text, "IDPCommunicationError");
    const int r = nc_err_set(err, is_unavailable ? NC_ERR_TRANSIENT : NC_ERR_AUTH, result->status,
                             "sts: AssumeRoleWithWebIdentity: HTTP %d, %s: %s", result->status,
                             code, message);

    if (!is_unavailable)
        nc_err_remedy(err, "check that the role exists and that its trust policy lets this "
                           "ServiceAccount assume it");
    return r;
}

int nc_role_read_sts(const struct nc_http_result *result, struct nc_credentials *ret,
                     struct nc_err *err) {
    nc_cleanup(answer_done) struct answer a = {0};
    int r =
        nc_xml_read(result->body, result->n, read_element, &a, result->status == 200 ? err : NULL);

    if (result->status != 200)
        return refused(result, &a, err);
    if (r < 0) {
        nc_err_wrap(err, "sts");
        return r;
    }
    if (!a.c.access_key_id || !a.c.secret_access_key || !a.c.session_token || !a.expiration
        || nc_time_parse(a.expiration, &a.c.expiration_usec) < 0)
        return nc_err_protocol(err, "sts: the answer lacks a key, the token or its end");
    *ret = a.c;
    a.c = (struct nc_credentials){0};
    return 0;
}

bool nc_role_is_container_uri(const char *uri) {
    static const char hosts[][16] = {"127.0.0.1",     "[::1]",          "localhost",
                                     "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};

    if (!nc_is_visible(uri, strlen(uri)) || strpbrk(uri, "@\\"))
        return false;
    if (nc_starts_with(uri, "https://"))
        return true;
    if (!nc_starts_with(uri, "http://"))
        return false;
    uri += strlen("http://");
    for (size_t i = 0; i < NC_ARRAY_SIZE(hosts); i++)
        if (nc_starts_with(uri, hosts[i]) && strchr("/:", uri[strlen(hosts[i])]))
            return true;
    return false;
}
