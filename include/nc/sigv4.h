/*
 * AWS Signature Version 4, in the two forms that are needed: a presigned query and an Authorization
 * header. Pure.
 *
 * In three stages, because stages can be tested: canonical request, string to sign, signature.
 */
#ifndef NC_SIGV4_H
#define NC_SIGV4_H

#include <stdint.h>

#include "nc/imds.h"

struct nc_sigv4_request {
    const char *method;
    const char *host;
    const char *path;           /* "/", as it is sent: encoded, without dot segments */
    const char *const *query;   /* name, value, name, value, …, NULL: not encoded, any order */
    const char *const *headers; /* name (lower case), value, …, NULL: signed besides host */
    const char *body;           /* "" for none */
    size_t body_n;
    const char *region;
    const char *service;
    uint64_t time_usec;   /* signing time */
    uint64_t expires_sec; /* presigned form */
};

int nc_sigv4_canonical_request(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                               int presign, struct nc_buf *out, struct nc_err *err);
int nc_sigv4_string_to_sign(const struct nc_sigv4_request *r, const char *canonical, size_t n,
                            struct nc_buf *out, struct nc_err *err);
int nc_sigv4_signature(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                       const struct nc_buf *to_sign, char ret[static 65], struct nc_err *err);

/* "https://HOST/PATH?…&X-Amz-Signature=…": secret as long as it is valid. */
int nc_sigv4_presign(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                     struct nc_buf *out, struct nc_err *err);
/* Values of the headers Authorization, X-Amz-Date and X-Amz-Security-Token as "Name: value"
 * strings. */
int nc_sigv4_headers(const struct nc_sigv4_request *r, const struct nc_credentials *c,
                     struct nc_strv *ret, struct nc_err *err);

/* "sts.us-west-2.amazonaws.com" for a region: domain and partition decide (NULL: derived from the
 * region's prefix: cn-, us-gov-, us-iso-, …). */
char *nc_aws_host(const char *service, const char *region, const char *domain);

/* The EKS bearer token: "k8s-aws-v1." + base64url of a presigned GetCallerIdentity with the signed
 * header x-k8s-aws-id. Valid for 14 minutes from time_usec. */
struct nc_eks_token_request {
    const char *cluster, *region, *sts_host;
    uint64_t time_usec;
};
int nc_eks_token(const struct nc_credentials *c, const struct nc_eks_token_request *q,
                 struct nc_buf *ret, struct nc_err *err);
#define NC_EKS_TOKEN_LIFE_USEC (14ull * 60 * 1000000)

#endif
