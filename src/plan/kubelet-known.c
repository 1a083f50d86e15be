/*
 * The feature gates, flags and values of fields that a kubelet of some minor knows: one that it
 * does not know, or a gate that it has locked, keeps it from starting.
 *
 * The tables are data/kubelet-gates.tsv and data/kubelet-flags.tsv, lines of a name, its first and
 * its last minor ("-": it is in the newest), and of a gate the minors since which it is on, locked,
 * beta and stable, and the gates that it needs ("NAME:MINOR,"), each from a minor on, or, before
 * ";", in place of those that follow. The name of a value is "field=value". Nothing is
 * refused for a kubelet that is newer than the tables.
 */
#include <errno.h>
#include <stdlib.h>

#include "kubelet.h"
#include "nc/str.h"
#include "origin.h"
#include "planner.h"

#define NEVER 255

/* What is looked up, in place of what a gate is set to. */
enum { A_FLAG = -1, A_VALUE = -2 };

/* "27", or NEVER for "-" and where there is no such column. */
static unsigned column(const char **p) {
    char *end;

    if (**p != '\t')
        return NEVER;
    ++*p;
    if (**p == '-') {
        ++*p;
        return NEVER;
    }
    const unsigned long n = strtoul(*p, &end, 10);
    *p = end;
    return (unsigned)n;
}

static struct nc_known read_row(const char *p) {
    struct nc_known row;

    row.first = column(&p);
    row.last = column(&p);
    row.text = p + (*p == '\t');
    row.on = column(&p);
    row.locked = column(&p);
    row.beta = column(&p);
    row.stable = column(&p);
    row.needs = p + (*p == '\t');
    return row;
}

bool nc_known_row(const char *table, const char *name, struct nc_known *ret) {
    const size_t length = strlen(name);

    for (const char *line = table; *line; line = *line ? line + 1 : line) {
        const size_t n = strcspn(line, "\t\n");
        if (length == n && memcmp(line, name, n) == 0) {
            *ret = read_row(line + n);
            return true;
        }
        line += strcspn(line, "\n");
    }
    return false;
}

/* The plugin that a key of containerd's is of, with the space behind it: 0 where it has none. */
static size_t stem_of(const char *name, size_t n) {
    const char *space = memchr(name, ' ', n);

    return space ? (size_t)(space - name) + 1 : 0;
}

/* The names that kubelet 1.minor knows, each with its end: of those that begin with the stem what
 * follows it. Without a stem, those that have none. */
static void list_names(const char *table, unsigned minor, struct nc_text stem, struct nc_buf *ret) {
    for (const char *line = table; *line; line = *line ? line + 1 : line) {
        const size_t n = strcspn(line, "\t\n");
        const struct nc_known row = read_row(line + n);
        if (*line != '#' && row.first <= minor && minor <= row.last && stem_of(line, n) == stem.n
            && memcmp(line, stem.data, stem.n) == 0) {
            (void)nc_buf_add(ret, line + stem.n, n - stem.n);
            (void)nc_buf_putc(ret, '\0');
        }
        line += strcspn(line, "\n");
    }
}

char nc_known_path(const char *table, const char *path, unsigned version) {
    const size_t length = strlen(path);
    char found = 0;

    for (const char *line = table; *line; line = *line ? line + 1 : line) {
        const size_t n = strcspn(line, "\t\n");
        if (n >= length && memcmp(line, path, length) == 0
            && (n == length || line[length] == '.')) {
            const struct nc_known row = read_row(line + n);
            const bool is_in =
                version == NC_ANY_VERSION || (row.first <= version && version <= row.last);
            if (is_in && n == length)
                return *row.text;
            if (is_in)
                found = '.';
        }
        line += strcspn(line, "\n");
    }
    return found;
}

char *nc_known_suggestion(const char *table, const char *name, unsigned minor, const char *before) {
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;
    const size_t stem = stem_of(name, strlen(name));
    const char *near;

    list_names(table, minor, (struct nc_text){.data = name, .n = stem}, &names);
    near = nc_nearest(name + stem, names.data);
    return near ? nc_asprintf(", did you mean \"%s%.*s%s\"?", before, (int)stem, name, near)
                : nc_strdup("");
}

static int refuse(struct nc_planner *s, struct nc_mark mark, const char *path, char *message) {
    static const struct nc_documents none = NC_DOCUMENTS_INIT;
    const struct nc_diagnostic g = {.mark = mark, .path = (char *)path, .message = message};
    const size_t before = s->plan.unsupported.n;
    const int r = nc_config_unsupported(s->docs ? s->docs : &none, s->config, &g,
                                        &s->plan.unsupported, s->err);

    for (size_t i = before; i < s->plan.unsupported.n; i++)
        nc_strv_add(&s->plan.warnings, s->plan.unsupported.v[i]);
    if (r < 0)
        nc_err_remedy(s->err, "correct it; or set spec.bootstrap.unsupported: warn in an "
                              "AgentConfig, and kubelet is given it");
    return r;
}

/* As kubelet counts: AllAlpha and AllBeta set those that are not named themselves. */
static bool is_on(const struct nc_known *row, const struct nc_value *gates, const char *name,
                  unsigned minor) {
    const struct nc_value *own = nc_value_get(gates, name);
    const struct nc_value *all = nc_value_get(gates, minor >= row->beta ? "AllBeta" : "AllAlpha");
    const bool is_on = minor >= row->on;

    return nc_value_bool(own, minor < row->stable ? nc_value_bool(all, is_on) : is_on);
}

/* The first gate that `row` needs and that is off; NULL: there is none. Owned. */
static char *missing_need(const struct nc_planner *s, const struct nc_known *row) {
    const struct nc_value *gates = nc_value_get(s->plan.kubelet_effective, "featureGates");
    const unsigned minor = s->plan.kubelet_minor;
    size_t n;

    for (const char *p = row->needs; (n = strcspn(p, ":\n"), p[n] == ':'); p++) {
        nc_auto_free char *name = nc_strndup(p, n);
        char *end;
        struct nc_known other;
        const unsigned long since = strtoul(p + n + 1, &end, 10);
        if (minor >= since && nc_known_row(s->in->gates, name, &other)
            && !is_on(&other, gates, name, minor))
            return nc_steal(&name);
        p = end;
        if (*p != ',' && (*p != ';' || minor >= since))
            break;
    }
    return NULL;
}

static char *needs(const struct nc_planner *s, const char *gate) {
    return nc_asprintf("needs the feature gate %s, which is off in kubelet 1.%u", gate,
                       s->plan.kubelet_minor);
}

/* Why kubelet 1.minor does not start with it; NULL: it does. Owned. `on`: what a gate is set to,
 * A_FLAG or A_VALUE. */
static char *refusal(const struct nc_planner *s, const char *table, const char *name, int on) {
    const bool is_newer = s->plan.kubelet_minor > NC_KUBELET_LAST_MINOR;
    const unsigned minor = is_newer ? NC_KUBELET_LAST_MINOR : s->plan.kubelet_minor;
    nc_auto_free char *need = NULL;
    struct nc_known row;

    if (!nc_known_row(table, name, &row)) {
        nc_auto_free char *near = nc_known_suggestion(table, name, minor, on == A_FLAG ? "--" : "");
        return nc_asprintf("unknown %s%s",
                           on >= 0                              ? "feature gate"
                           : on == A_VALUE || strchr(name, '=') ? "value"
                                                                : "flag",
                           near);
    }
    if (minor > row.last || minor < row.first)
        return nc_asprintf("%s Kubernetes 1.%u: kubelet 1.%u does not start with it",
                           minor > row.last ? "removed in" : "comes with",
                           minor > row.last ? row.last + 1 : row.first, minor);
    if (on >= 0 && minor >= row.locked && on != (minor >= row.on))
        return nc_asprintf("is %s since Kubernetes 1.%u and cannot be changed",
                           on ? "false" : "true", row.locked);
    need = on == A_VALUE ? missing_need(s, &row) : NULL;
    return need ? needs(s, need) : NULL;
}

static int check_one(struct nc_planner *s, const char *table, const char *name, int on,
                     struct nc_mark mark) {
    nc_auto_free char *path =
        nc_asprintf(on == A_FLAG    ? "spec.kubelet.flags: --%.64s"
                    : on == A_VALUE ? "spec.kubelet.config.%.96s"
                                    : "spec.kubelet.config.featureGates.%.64s",
                    name);
    nc_auto_free char *why = refusal(s, table, name, on);

    if (!why)
        return 0;
    if (s->plan.kubelet_minor <= NC_KUBELET_LAST_MINOR)
        return refuse(s, mark, path, why);
    nc_strv_addf(&s->plan.warnings, "%s: not known, but kubelet 1.%u is newer than what is", path,
                 s->plan.kubelet_minor);
    return 0;
}

/* A value that kubelet knows by its name: of a field, or of a flag. */
static int check_value(struct nc_planner *s, const char *name, const char *value, int on,
                       struct nc_mark mark) {
    nc_auto_free char *row = nc_asprintf("%s=%s", name, value);

    return check_one(s, s->in->flags, row, on, mark);
}

static int check_values(struct nc_planner *s, const char *field) {
    const struct nc_value *flag = nc_value_get(s->flag_tree, field),
                          *v = flag ? flag : nc_value_get(s->user, field);
    int r = 0;

    for (size_t i = 0; v && i < v->n && r == 0; i++)
        r = v->type == NC_VALUE_MAP
                ? check_value(s, field, v->members[i].key, A_VALUE, v->members[i].mark)
                : check_value(s, field, v->items[i]->text, A_VALUE, v->items[i]->mark);
    return r;
}

/* kubelet reads any text, and starts with those alone that the table has. */
static int check_cloud_provider(struct nc_planner *s) {
    const struct nc_flag *f = nc_flags_find(&s->flags, "cloud-provider");
    const int r = f && f->value ? check_value(s, f->name, f->value, A_FLAG, f->mark) : 0;

    if (r < 0)
        nc_err_remedy(s->err, "remove it: nodeclaimd sets --cloud-provider=external");
    return r;
}

static int check_needs(struct nc_planner *s, const struct nc_value *gates) {
    const unsigned minor = s->plan.kubelet_minor;

    for (const char *line = s->in->gates; *line; line += strcspn(line, "\n"), line += *line != 0) {
        const size_t n = strcspn(line, "\t\n");
        nc_auto_free char *name = nc_strndup(line, n);
        const struct nc_known row = read_row(line + n);
        nc_auto_free char *need = *line != '#' && row.first <= minor && minor <= row.last
                                          && is_on(&row, gates, name, minor)
                                      ? missing_need(s, &row)
                                      : NULL;
        if (need) {
            const struct nc_value *own = nc_value_get(gates, name);
            nc_auto_free char *path = nc_asprintf("spec.kubelet.config.featureGates.%s", name);
            nc_auto_free char *why = needs(s, need);
            return refuse(s, (own ? own : gates)->mark, path, why);
        }
    }
    return 0;
}

int nc_plan_known(struct nc_planner *s) {
    static const char valued[] =
        "cpuManagerPolicyOptions\0topologyManagerPolicyOptions\0tlsCipherSuites\0";
    const char *flags = s->in->flags;
    const struct nc_value *gates =
        s->in->gates ? nc_value_get(s->plan.kubelet_effective, "featureGates") : NULL;
    const struct nc_value *unread = s->in->gates ? NULL : nc_value_get(s->user, "featureGates");
    const struct nc_mark *unchecked = unread ? &unread->mark : NULL;
    int r = 0;

    for (size_t i = 0; gates && i < gates->n && r == 0; i++)
        r = check_one(s, s->in->gates, gates->members[i].key, gates->members[i].value->boolean,
                      gates->members[i].value->mark);
    if (r == 0 && gates)
        r = check_needs(s, gates);
    for (size_t i = 0; i < s->flags.n && r == 0; i++) {
        const struct nc_flag *f = &s->flags.v[i];
        if (flags)
            r = check_one(s, flags, f->name, A_FLAG, f->mark);
        else if (!nc_streq(f->name, "node-labels")) /* Karpenter's, everywhere */
            unchecked = &f->mark;
    }
    if (r == 0 && flags)
        r = check_cloud_provider(s);
    for (const char *field = valued; flags && s->in->gates && *field && r == 0;
         field = nc_next_name(field))
        r = check_values(s, field);
    if (unchecked) {
        nc_strv_add(&s->plan.warnings, "gates and flags are not checked: kubelet-gates.tsv or "
                                       "kubelet-flags.tsv is not in " NC_DATADIR);
        nc_origin_certain(&s->plan, *unchecked,
                          unread && unchecked == &unread->mark ? "spec.kubelet.config.featureGates"
                                                               : "spec.kubelet.flags",
                          0);
    }
    return r;
}
