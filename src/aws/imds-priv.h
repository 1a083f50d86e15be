/*
 * What the files of IMDS share: the handle with its token, and a question in flight.
 */
#ifndef NC_IMDS_PRIV_H
#define NC_IMDS_PRIV_H

#include "nc/imds.h"

struct imds_get;

struct nc_imds {
    sd_event *event;
    struct nc_http *http;
    char *endpoint; /* without a slash at its end */

    /* The token. */
    char *token_header;               /* secret; NULL = none */
    uint64_t renew_usec, expire_usec; /* CLOCK_BOOTTIME: a suspended instance ages too */
    unsigned generation;              /* of the token, to see whether a 401 was about this one */
    struct nc_http_req *token_request;

    struct nc_imds_pace pace;
    uint64_t paced_usec; /* CLOCK_MONOTONIC: when a time-out was counted last */

    struct imds_get *gets;  /* in flight, in order */
    struct imds_get *polls; /* answered; each keeps its request for the next time */
    struct nc_imds_stats stats;
    int64_t skew_min_usec, skew_max_usec;
    bool busy, freed; /* freed in a callback while the list of gets is walked */
};

/* Forgets the question whose answer would go there. */
void nc_imds_forget(struct nc_imds *i, const void *userdata);

/* imds-check.c: judges one answer. 0 where it is usable (200 or 404), else negative with class,
 * message and remedy. */
int nc_imds_check(const struct nc_imds *i, const char *path, const struct nc_http_result *result,
                  struct nc_err *err);
int nc_imds_check_token(const struct nc_imds *i, const struct nc_http_result *result,
                        struct nc_err *err);
int nc_imds_check_endpoint(const char *endpoint, char **ret, struct nc_err *err);

#endif
