/*
 * From bytes to a fileset, step by step: the same steps for bootstrap, render and explain.
 *
 * Each step can be called again after a failure and goes on where it stopped: what IMDS has
 * answered is not asked twice.
 */
#ifndef NC_BOOTSTRAP_GATHER_H
#define NC_BOOTSTRAP_GATHER_H

#include "app.h"
#include "nc/config.h"
#include "nc/facts.h"
#include "nc/fileset.h"
#include "nc/host.h"
#include "nc/imds.h"
#include "nc/plan.h"

struct nc_gather {
    struct nc_app *app;
    struct nc_http *http; /* for EC2; made when it is needed */
    struct nc_imds *imds; /* NULL with a folder of recorded facts */
    const char *folder;   /* of recorded facts; NULL = live */
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX];
    struct nc_credentials credentials; /* of the role; access_key_id NULL = not fetched */

    struct nc_facts facts;
    struct nc_documents documents;
    struct nc_config config;
    struct nc_buf types;        /* the table that overrides the built-in one; empty = none */
    struct nc_buf gates, flags; /* what each kubelet knows; empty = not installed */
    struct nc_buf keys;         /* what each containerd knows, likewise */
    struct nc_plan plan;
    struct nc_fileset files;
    struct nc_strv warnings; /* of the steps themselves */
    struct nc_strv ignored;  /* files beside the documents that are none, and why */
    bool has_config;
    bool is_type_requested; /* from EC2, with or without success */
};

void nc_gather_done(struct nc_gather *g);

/* Opens the source of facts: --facts DIR, --facts URL, or IMDS. */
int nc_gather_open(struct nc_gather *g, struct nc_app *app, struct nc_err *err);
/* Asks IMDS for everything that needs no other answer. `user_data` too where a source wants it. */
int nc_gather_imds(struct nc_gather *g, struct nc_err *err);
/* The two halves of it, for who does not wait: what is requested; and what becomes of the answers,
 * r and err being what the asking came to. */
unsigned nc_gather_items(const struct nc_app *app);
int nc_gather_facts(struct nc_gather *g, int r, struct nc_err *err);
/* Decodes the sources into documents. */
int nc_gather_documents(struct nc_gather *g, struct nc_err *err);
/* Documents into one configuration. */
int nc_gather_config(struct nc_gather *g, struct nc_err *err);
/* For who asks what else is refused: tries this until nothing is that can be set aside
 * (nc_documents_set_aside), and gives what it came to in the end. */
int nc_gather_aside(struct nc_gather *g, int (*attempt)(struct nc_gather *g, struct nc_err *err),
                    struct nc_err *err);
/* The installed tables of instance types and of what each kubelet knows. What cannot be read is a
 * warning. */
void nc_gather_tables(struct nc_gather *g);
/* The host is probed anew for what is kept otherwise: versions, and the tables on it. */
void nc_gather_forget_host(struct nc_gather *g);
/* The host's facts alone. */
int nc_gather_host(struct nc_gather *g, struct nc_err *err);
/* What is gathered so far, as the planner's input. */
struct nc_plan_input nc_gather_input(const struct nc_gather *g, const struct nc_claim *claim);
/* Plans with what is gathered, in the place of the plan that *ret has. */
int nc_gather_plan_again(const struct nc_gather *g, const struct nc_claim *claim,
                         struct nc_plan *ret, struct nc_err *err);
/* The host's facts, what must be requested after the configuration is known (IPv6 addresses, EC2),
 * and the plan. `claim`: planned with in place of a document's; NULL = there is none. */
int nc_gather_plan(struct nc_gather *g, const struct nc_claim *claim, struct nc_err *err);
/* NC_ERR_CONFIG where no plan can be made of what is known so far, before the rest is requested
 * from anybody; nothing is kept of it. */
int nc_gather_try_plan(struct nc_gather *g, struct nc_err *err);
/* Who the node is, without the rest of a plan: plan.node_name and plan.provider_id. */
int nc_gather_name(struct nc_gather *g, struct nc_err *err);
int nc_gather_render(struct nc_gather *g, struct nc_err *err);

/* Requests those items that have no answer yet: IMDS, or the recorded folder. args: what fills an
 * item's %s; may be NULL. */
int nc_gather_answers(struct nc_gather *g, unsigned items,
                      const char *const args[_NC_IMDS_ITEM_MAX], struct nc_err *err);
/* Is user data among the sources? */
bool nc_gather_wants_user_data(const struct nc_app *app);
/* What only EC2 can answer: where the configuration wants it, the private DNS name under a custom
 * DHCP domain; where the table does not know it, the sizes of the instance type. A type that is not
 * learned is a warning (110 pods are planned then), a name that is not learned is an error. */
int nc_gather_ec2(struct nc_gather *g, bool needs_type, struct nc_err *err);
char *nc_gather_ec2_endpoint(const struct nc_gather *g); /* owned */

/* The path that a source is, by itself or as file:///PATH; else NULL. Points into it. */
const char *nc_source_path(const char *source);
/* Has it a form that a source has? */
bool nc_is_source(const char *text);

/* Adds what a person names on the command line: a source's URL, a file, a folder. */
int nc_gather_add(struct nc_gather *g, const char *what, struct nc_err *err);
/* The same of what was read already: documents, or user data. */
int nc_gather_add_text(struct nc_gather *g, const char *name, const struct nc_buf *text,
                       struct nc_err *err);
/* The documents of an image, which is not trusted (nc/image.h), in place of the sources; whether it
 * has a pause image, and its table of instance types. What is wrong is among the diagnostics. */
int nc_gather_image(struct nc_gather *g, const char *root, struct nc_err *err);
/* "PLACE: path: message". Owned. */
char *nc_diagnostic_text(const struct nc_documents *d, const struct nc_diagnostic *g);
/* The same of a warning; NULL of what is an error, or unsupported, which the configuration's rules
 * tell. */
char *nc_gather_warning(const struct nc_documents *d, const struct nc_diagnostic *g);

/* The role's credentials, from IMDS; kept until shortly before they expire. NC_ERR_TRANSIENT while
 * IMDS has none yet (404: up to some seconds after boot). */
int nc_gather_credentials(struct nc_imds *imds, struct nc_credentials *c, struct nc_err *err);

/* Records the facts below a folder, for a bug report: no credentials. */
int nc_gather_save(const struct nc_gather *g, const char *folder, struct nc_err *err);

#endif
