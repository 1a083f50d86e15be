/*
 * spec.fit as a struct: names were checked document by document.
 */
#include "config-priv.h"
#include "nc/str.h"
#include "nc/time.h"
#include "schema.h"

const char nc_fit_timeout_names[] = "open\0hold\0";

/* One name, or a list of them. */
static void read_names(const struct nc_value *v, struct nc_strv *ret) {
    const struct nc_value *item = v;

    for (size_t i = 0; item; item = nc_value_item(v, i++))
        if (nc_value_string(item) && *nc_value_string(item))
            nc_strv_add_once(ret, nc_value_string(item));
}

void nc_fit_config_fill(struct nc_config *c) {
    const char *name = "daemonSets\0csiDrivers\0resources\0conditions\0";
    const struct nc_value *fit = nc_value_path(c->tree, "spec.fit");
    const char *timeout = nc_value_get_string(fit, "timeout");

    if (!fit || fit->type != NC_VALUE_MAP)
        return;
    c->fit.is_set = true;
    for (size_t i = 0; i < _NC_FIT_KIND_MAX; i++, name = nc_next_name(name))
        read_names(nc_value_get(fit, name), &c->fit.wanted[i]);
    c->fit.timeout_usec = NC_FIT_TIMEOUT_USEC;
    if (timeout)
        (void)nc_duration_parse(timeout, &c->fit.timeout_usec);
    c->fit.holds = nc_value_says(fit, "onTimeout", "hold");
}

void nc_fit_settings_done(struct nc_fit_settings *f) {
    for (size_t i = 0; i < _NC_FIT_KIND_MAX; i++)
        nc_strv_done(&f->wanted[i]);
    *f = (struct nc_fit_settings){0};
}
