/*
 * Auto Scaling's answers: the group and the lifecycle state of one instance, and that an action was
 * accepted. Pure.
 *
 * An answer that is not about what was asked is refused.
 */
#include "ec2-priv.h"

#include <errno.h>

#include "nc/str.h"
#include "xml.h"

#define LIST                                                                                       \
    "DescribeAutoScalingInstancesResponse/DescribeAutoScalingInstancesResult/AutoScalingInstances"

bool nc_autoscaling_is_hook(const char *name) {
    return nc_is_alnum_or(name, "-_/", NC_AUTOSCALING_HOOK_BYTES);
}

void nc_autoscaling_instance_done(struct nc_autoscaling_instance *i) {
    free(i->group);
    free(i->state);
    *i = (struct nc_autoscaling_instance){0};
}

struct instance_reader {
    struct nc_autoscaling_instance instance;
    char *id;
    unsigned n;
    bool has_list;
};

static void reader_done(struct instance_reader *i) {
    nc_autoscaling_instance_done(&i->instance);
    free(i->id);
}

static int set_once(char **at, const char *text, struct nc_err *err) {
    if (*at)
        return nc_err_protocol(err, "more than one instance in the answer");
    *at = nc_strdup(text);
    return 0;
}

static int read_instance_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct instance_reader *i = user;

    if (nc_streq(element->path, LIST "/member/InstanceId"))
        return set_once(&i->id, element->text, err);
    if (nc_streq(element->path, LIST "/member/AutoScalingGroupName"))
        return set_once(&i->instance.group, element->text, err);
    if (nc_streq(element->path, LIST "/member/LifecycleState"))
        return set_once(&i->instance.state, element->text, err);
    i->n += nc_streq(element->path, LIST "/member");
    i->has_list |= nc_streq(element->path, LIST);
    return 0;
}

int nc_autoscaling_read_instance(const char *data, size_t n, const char *instance_id,
                                 struct nc_autoscaling_instance *ret, struct nc_err *err) {
    nc_cleanup(reader_done) struct instance_reader i = {0};
    const int r = nc_xml_read(data, n, read_instance_element, &i, err);

    if (r < 0)
        return r;
    if (!i.has_list)
        return nc_err_protocol(err, "the answer has no list of instances");
    if (i.n == 0) {
        *ret = (struct nc_autoscaling_instance){0};
        return 0;
    }
    if (i.n > 1 || !nc_streq(i.id, instance_id))
        return nc_err_protocol(err, "the answer is about another instance than %s", instance_id);
    if (!i.instance.group || !*i.instance.group
        || strlen(i.instance.group) > NC_AUTOSCALING_GROUP_BYTES)
        return nc_err_protocol(err, "invalid name of the group of %s", instance_id);
    if (!nc_is_alnum_or(i.instance.state, ":", NC_AUTOSCALING_STATE_BYTES))
        return nc_err_protocol(err, "invalid lifecycle state of %s", instance_id);
    *ret = i.instance;
    i.instance = (struct nc_autoscaling_instance){0};
    return 0;
}

struct action_reader {
    char *path;
    bool is_found;
};

static int read_action_element(void *user, const struct nc_xml *element, struct nc_err *err) {
    struct action_reader *a = user;

    a->is_found |= nc_streq(element->path, a->path);
    return 0;
}

int nc_autoscaling_read_action(const char *data, size_t n, const char *action, struct nc_err *err) {
    nc_auto_free char *path = nc_asprintf("%sResponse/%sResult", action, action);
    struct action_reader a = {.path = path};
    const int r = nc_xml_read(data, n, read_action_element, &a, err);

    if (r < 0)
        return r;
    return a.is_found ? 0 : nc_err_protocol(err, "the answer is not one to %s", action);
}
