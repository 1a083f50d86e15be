/*
 * TOML for toml-test: what was read, as the JSON with types of that suite, and the TOML that our
 * writer makes of it.
 */
#include "differ.h"
#include "nc/mem.h"
#include "nc/value.h"

static const char *type_of(const struct nc_value *v) {
    switch (v->type) {
    case NC_VALUE_BOOL:
        return "bool";
    case NC_VALUE_INT:
        return "integer";
    case NC_VALUE_FLOAT:
        return "float";
    case NC_VALUE_STRING:
        return "string";
    case NC_VALUE_TIME:
        return v->text[2] == ':'               ? "time-local"
               : strlen(v->text) == 10         ? "date-local"
               : strpbrk(v->text + 10, "Zz+-") ? "datetime"
                                               : "datetime-local";
    case NC_VALUE_NULL:
    case NC_VALUE_MAP:
    case NC_VALUE_LIST:
    case _NC_VALUE_TYPE_MAX:
        break;
    }
    abort();
}

static struct nc_value *with_types(const struct nc_value *v) {
    const bool is_map = v->type == NC_VALUE_MAP, is_list = v->type == NC_VALUE_LIST;
    struct nc_value *typed = nc_value_new(is_list ? NC_VALUE_LIST : NC_VALUE_MAP);
    char buf[32];

    for (size_t i = 0; i < v->n && is_map; i++)
        nc_value_set(typed, v->members[i].key, with_types(v->members[i].value));
    for (size_t i = 0; i < v->n && is_list; i++)
        nc_value_push(typed, with_types(v->items[i]));
    if (!is_map && !is_list) {
        nc_value_set_string(typed, "type", type_of(v));
        nc_value_set_string(typed, "value", nc_value_scalar_text(v, buf));
    }
    return typed;
}

void differ_toml(const struct differ_field *f, struct nc_buf *out) {
    nc_auto_value struct nc_value *v = NULL, *typed = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf json = NC_BUF_INIT, toml = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_toml_parse((struct nc_text){.data = f->text, .n = f->n}, &v, &err) < 0) {
        (void)nc_buf_printf(out, "refused line %u, column %u: %s", err.mark.line, err.mark.column,
                            err.msg);
        return;
    }
    typed = with_types(v);
    nc_json_write(&json, typed, 0);
    if (nc_toml_write(v, &toml) < 0)
        abort();
    (void)nc_buf_puts(out, "is ");
    differ_put_hex(out, json.data, json.len);
    (void)nc_buf_putc(out, ' ');
    differ_put_hex(out, toml.data, toml.len);
}
