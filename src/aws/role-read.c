/*
 * What STS answers, and whom a container may ask. Pure.
 *
 * The answer is a secret: no message quotes a byte of it but the service's own words for a refusal.
 */
#include <errno.h>

#include "nc/role.h"
#include "nc/str.h"
#include "xml.h"

#define RESULT "AssumeRoleWithWebIdentityResponse/AssumeRoleWithWebIdentityResult/Credentials/"
#define MAX_SECRET 8192

static void take(struct nc_xml *x, const char *path, char **ret) {
    const char *text = x->text.data ? x->text.data : "";

    if (*ret || !nc_streq(x->path.data, path) || !*text || strlen(text) > MAX_SECRET)
        return;
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~')
            return;
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

static void take_message(struct nc_xml *x, char **ret) {
    if (!*ret && nc_streq(x->path.data, "ErrorResponse/Error/Message"))
        *ret = nc_strdup(x->text.data ? x->text.data : "");
}

static int read_answer(const struct nc_http_result *result, struct answer *a, struct nc_err *err) {
    struct nc_xml x;
    int k;

    nc_xml_init(&x, result->body, result->n);
    while ((k = nc_xml_next(&x, err)) > 0 && k != NC_XML_END) {
        if (k != NC_XML_CLOSE)
            continue;
        take(&x, RESULT "AccessKeyId", &a->c.access_key_id);
        take(&x, RESULT "SecretAccessKey", &a->c.secret_access_key);
        take(&x, RESULT "SessionToken", &a->c.session_token);
        take(&x, RESULT "Expiration", &a->expiration);
        take(&x, "ErrorResponse/Error/Code", &a->code);
        take_message(&x, &a->message);
    }
    if (x.text.data)
        explicit_bzero(x.text.data, x.text.room);
    nc_xml_done(&x);
    return k < 0 ? k : 0;
}

static int refused(const struct nc_http_result *result, const struct answer *a,
                   struct nc_err *err) {
    const char *code_text = a->code ? a->code : "", *message_text = a->message ? a->message : "";
    nc_auto_free char *code = nc_quote(code_text, strlen(code_text));
    nc_auto_free char *message = nc_quote(message_text, strlen(message_text));
    const bool is_away = result->status >= 500 || result->status == 429
                         || nc_streq(code_text, "Throttling")
                         || nc_streq(code_text, "IDPCommunicationError");
    const int r = nc_err_set(err, is_away ? NC_ERR_TRANSIENT : NC_ERR_AUTH, result->status,
                             "sts: AssumeRoleWithWebIdentity: HTTP %d, %s: %s", result->status,
                             code, message);

    if (!is_away)
        nc_err_remedy(err, "check that the role exists and that its trust policy lets this "
                           "ServiceAccount assume it");
    return r;
}

int nc_role_read_sts(const struct nc_http_result *result, struct nc_credentials *ret,
                     struct nc_err *err) {
    nc_cleanup(answer_done) struct answer a = {0};
    int r = read_answer(result, &a, result->status == 200 ? err : NULL);

    if (result->status != 200)
        return refused(result, &a, err);
    if (r < 0) {
        nc_err_wrap(err, "sts");
        return r;
    }
    if (!a.c.access_key_id || !a.c.secret_access_key || !a.c.session_token || !a.expiration
        || nc_time_parse(a.expiration, &a.c.expiration_usec) < 0)
        return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG,
                          "sts: the answer lacks a key, the token or its end");
    *ret = a.c;
    a.c = (struct nc_credentials){0};
    return 0;
}

bool nc_role_is_container_uri(const char *uri) {
    static const char *const hosts[] = {"127.0.0.1",     "[::1]",          "localhost",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};

    for (const char *p = uri; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '@' || *p == '\\')
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
