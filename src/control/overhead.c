/*
 * Memory that Nodes offer less than their NodeClaims count on, by instance type and image: for that
 * Karpenter launched them, and a pod that fits by its estimate alone is never bound.
 *
 * Type and image are the NodeClaim's, which no node can write, and of so many at most; a node
 * states what it offers itself, and nothing else follows from that than these numbers.
 */
#include "nc/names.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "parse.h"
#include "step.h"

#define SHAPES_MAX 100u
#define BOOTSTRAP_MAX ((size_t)2048) /* as the agent has it */

struct control_shape {
    char *type, *image;
    size_t n_claims; /* 0: nobody's, to be another's */
};

/* 0: not known. */
static int64_t memory_of(const struct nc_value *v) {
    int64_t bytes = 0;

    return v && nc_quantity_of(v, NULL, &bytes) == 0 && bytes > 0 ? bytes : 0;
}

void nc_control_read_offer(struct control_node *node, const struct nc_value *object) {
    const struct nc_value *written =
        nc_control_at(object, "metadata.annotations", NC_ANNOTATION_BOOTSTRAP);
    const char *text = nc_value_string(written);
    nc_auto_value struct nc_value *v = NULL;

    node->has_agent = written != NULL;
    node->memory_bytes = 0;
    if (text && strlen(text) <= BOOTSTRAP_MAX && nc_json_parse(text, strlen(text), &v, NULL) == 0)
        node->memory_bytes = memory_of(nc_value_get(v, "memory"));
}

/* Its number, from 1; 0 where there is no more room. */
static uint8_t number_of(struct nc_control *c, const char *type, const char *image) {
    struct control_shape *unused = NULL;

    for (size_t i = 0; i < c->n_shapes; i++) {
        struct control_shape *s = &c->shapes[i];
        if (s->n_claims > 0 && nc_streq(s->type, type) && nc_streq(s->image, image))
            return (uint8_t)(i + 1);
        if (s->n_claims == 0)
            unused = s;
    }
    if (!unused && c->n_shapes >= SHAPES_MAX)
        return 0;
    if (!unused)
        unused = nc_append(&c->shapes, &c->n_shapes);
    free(unused->type);
    free(unused->image);
    *unused = (struct control_shape){.type = nc_strdup(type), .image = nc_strdup(image)};
    return (uint8_t)(unused - c->shapes + 1);
}

void nc_control_drop_promise(struct nc_control *c, struct control_claim *claim) {
    if (claim->shape > 0)
        c->shapes[claim->shape - 1].n_claims--;
    claim->shape = 0;
    claim->memory_bytes = 0;
}

void nc_control_read_promise(struct nc_control *c, struct control_claim *claim,
                             const struct nc_value *object) {
    nc_auto_free char *type = NULL, *image = NULL;

    nc_control_drop_promise(c, claim);
    claim->memory_bytes = memory_of(nc_control_at(object, "status.allocatable.memory", NULL));
    if (claim->memory_bytes == 0
        || nc_control_parse_token(nc_control_at(object, "metadata.labels", NC_LABEL_INSTANCE_TYPE),
                                  CONTROL_ZONE_MAX, &type)
               < 0
        || nc_control_parse_token(nc_control_at(object, "status.imageID", NULL), CONTROL_ZONE_MAX,
                                  &image)
               < 0
        || !type || !image)
        return;
    claim->shape = number_of(c, type, image);
    if (claim->shape > 0)
        c->shapes[claim->shape - 1].n_claims++;
}

void nc_control_drop_shapes(struct nc_control *c) {
    for (size_t i = 0; i < c->n_shapes; i++) {
        free(c->shapes[i].type);
        free(c->shapes[i].image);
    }
    free(c->shapes);
    c->shapes = NULL;
    c->n_shapes = 0;
}

/* ---- all of them: this walks every Node */

struct sum {
    size_t nodes, n_short;
    int64_t short_bytes; /* the most of one; 0 where all keep what was promised */
};

/* Owned: one for each number, and first that of those for which there is none. */
static struct sum *sums_of(const struct nc_control *c) {
    const struct control_table *t = &c->names[NC_CONTROL_NODE];
    struct sum *sums = nc_calloc(c->n_shapes + 1, sizeof(*sums));

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next) {
            const struct control_node *node = nc_control_object_of(l);
            const struct control_claim *claim =
                node->memory_bytes > 0 ? nc_control_claim_of(c, node) : NULL;
            if (!claim || claim->memory_bytes == 0)
                continue;
            struct sum *s = &sums[claim->shape];
            const int64_t short_bytes = claim->memory_bytes - node->memory_bytes;
            s->nodes++;
            s->n_short += short_bytes > 0;
            if (short_bytes > s->short_bytes)
                s->short_bytes = short_bytes;
        }
    return sums;
}

static const char *type_of(const struct nc_control *c, size_t i) {
    return i > 0 ? c->shapes[i - 1].type : "other";
}

static const char *image_of(const struct nc_control *c, size_t i) {
    return i > 0 ? c->shapes[i - 1].image : "other";
}

static void add_samples(struct nc_metrics *m, const struct nc_control *c, const struct sum *sums,
                        bool is_count) {
    for (size_t i = 0; i <= c->n_shapes; i++)
        if (sums[i].nodes > 0)
            nc_metric_count(m, NC_LABELS("instance_type", type_of(c, i), "image", image_of(c, i)),
                            is_count ? sums[i].n_short : (uint64_t)sums[i].short_bytes);
}

void nc_control_metrics_overhead(struct nc_metrics *m, const struct nc_control *c) {
    nc_auto_free struct sum *sums = sums_of(c);

    nc_metric_family(m, "memory_short_nodes", NC_GAUGE,
                     "Nodes with less allocatable memory than their NodeClaims count on.");
    add_samples(m, c, sums, true);
    nc_metric_family(m, "memory_short_bytes", NC_GAUGE,
                     "What the Node that has least lacks of the allocatable memory of its "
                     "NodeClaim.");
    add_samples(m, c, sums, false);
}

struct nc_value *nc_control_report_overhead(const struct nc_control *c) {
    nc_auto_free struct sum *sums = sums_of(c);
    struct nc_value *list = nc_value_new_list();

    for (size_t i = 0; i <= c->n_shapes; i++) {
        struct nc_value *v = sums[i].n_short > 0 ? nc_value_new_map() : NULL;
        char text[32];
        if (!v)
            continue;
        nc_quantity_format_bytes(sums[i].short_bytes, text);
        nc_value_set_string(v, "type", type_of(c, i));
        nc_value_set_string(v, "image", image_of(c, i));
        nc_value_set_int(v, "nodes", (int64_t)sums[i].nodes);
        nc_value_set_int(v, "short", (int64_t)sums[i].n_short);
        nc_value_set_string(v, "lacks", text);
        nc_value_push(list, v);
    }
    return list;
}
