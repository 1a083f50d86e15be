/*
 * data/agentconfig.schema.json is what the tables of src/config say, as JSON Schema (draft 7, which
 * every editor reads): it completes and marks a document while it is written.
 *
 * It refuses nothing that `check --strict` takes. What a predicate checks, and rules between
 * fields, are `check`'s alone; the predicate's words are the field's description. With NC_UPDATE=1
 * in the environment the file is written instead of compared.
 */
#include "documents-test.h"
#include "groups.h"

#include "nc/file.h"
#include "schema.h"

#define DURATION "^(\\+?([0-9.]+[a-z\xc2\xb5\xce\xbc]+)+|\\+?0+)?$"

static struct nc_value *object_of(const struct nc_schema *schema);
static struct nc_value *value_of(const struct nc_field *f);

static void set_types(struct nc_value *to, const char *first, const char *second,
                      const char *third) {
    const char *const names[] = {first, second, third};
    struct nc_value *list = nc_value_new_list();

    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++)
        if (names[i])
            nc_value_push(list, nc_value_new_string(names[i]));
    nc_value_set(to, "type", list);
}

/* The values of a string that has a list of them. An empty one is as good as none. */
static struct nc_value *alternatives_of(const struct nc_field *f) {
    struct nc_value *list = nc_value_new_list();

    const char *allowed = nc_field_allowed(f);

    for (const char *name = allowed; name && *name; name = nc_next_name(name))
        nc_value_push(list, nc_value_new_string(name));
    if (nc_is_one_of("off", allowed)) /* what YAML makes of the bare word */
        nc_value_push(list, nc_value_new_bool(false));
    if (!(f->flags & (NC_FIELD_REQUIRED | NC_FIELD_MAY_BE_EMPTY)))
        nc_value_push(list, nc_value_new_string(""));
    return list;
}

static struct nc_value *string_of(const struct nc_field *f, bool may_be_null) {
    struct nc_value *v = nc_value_new_map();
    const char *null = may_be_null && !(f->flags & NC_FIELD_REQUIRED) ? "null" : NULL;

    if (nc_field_allowed(f)) {
        struct nc_value *list = alternatives_of(f);
        if (null)
            nc_value_push(list, nc_value_new(NC_VALUE_NULL));
        nc_value_set(v, "enum", list);
    } else if (f->flags & NC_FIELD_FORGIVING) {
        set_types(v, "string", "number", "boolean");
        if (null)
            nc_value_push(nc_value_get(v, "type"), nc_value_new_string(null));
    } else {
        set_types(v, "string", null, NULL);
    }
    if (f->flags & NC_FIELD_REQUIRED)
        nc_value_set_int(v, "minLength", 1);
    if (nc_field_is_checked(f))
        nc_value_set_string(v, "description", f->check->wanted);
    return v;
}

static struct nc_value *int_of(const struct nc_field *f, bool may_be_null) {
    struct nc_value *v = nc_value_new_map();
    int64_t min, max;

    (void)nc_field_in_range(f, 0, &min, &max);
    set_types(v, "integer", may_be_null ? "null" : NULL, NULL);
    nc_value_set_int(v, "minimum", min);
    if (max < INT64_MAX)
        nc_value_set_int(v, "maximum", max);
    return v;
}

static struct nc_value *list_of(struct nc_value *items) {
    struct nc_value *v = nc_value_new_map();

    set_types(v, "array", "null", NULL);
    nc_value_set(v, "items", items);
    return v;
}

static struct nc_value *map_of(const struct nc_field *f, struct nc_value *values) {
    struct nc_value *v = nc_value_new_map();

    set_types(v, "object", "null", NULL);
    const struct nc_field *key = f->entries ? f->entries->key : NULL;

    if (key && nc_field_allowed(key) && !(f->flags & NC_FIELD_OPEN_KEYS)) {
        struct nc_value *names = nc_value_new_map();
        struct nc_value *list = nc_value_new_list();
        for (const char *name = key->allowed; *name; name = nc_next_name(name))
            nc_value_push(list, nc_value_new_string(name));
        nc_value_set(names, "enum", list);
        nc_value_set(v, "propertyNames", names);
    }
    if (values)
        nc_value_set(v, "additionalProperties", values);
    return v;
}

static struct nc_value *types_of(const char *first, const char *second, const char *third) {
    struct nc_value *v = nc_value_new_map();

    set_types(v, first, second, third);
    return v;
}

/* Known, and without an effect: anything, with the reason. */
static struct nc_value *deprecated_of(const struct nc_field *f) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "description", f->check->wanted);
    nc_value_set_bool(v, "deprecated", true);
    return v;
}

static struct nc_value *value_of(const struct nc_field *f) {
    static const struct nc_field any_text = {.type = NC_FIELD_STRING};
    const struct nc_field *value;
    struct nc_value *v;

    if (f->flags & (NC_FIELD_IGNORED | NC_FIELD_UNSUPPORTED) && !nc_field_is_checked(f))
        return deprecated_of(f);
    switch (f->type) {
    case NC_FIELD_STRING:
        return string_of(f, true);
    case NC_FIELD_BOOL:
        return types_of("boolean", "null", NULL);
    case NC_FIELD_INT:
        return int_of(f, true);
    case NC_FIELD_NUMBER:
        return types_of("number", "null", NULL);
    case NC_FIELD_DURATION:
    case NC_FIELD_FREQUENCY:
        v = f->type == NC_FIELD_FREQUENCY ? types_of("string", "integer", "null")
                                          : types_of("string", "null", NULL);
        nc_value_set_string(v, "pattern", DURATION);
        nc_value_set_string(v, "description", "a duration such as 30s or 2m30s");
        return v;
    case NC_FIELD_QUANTITY:
        return types_of("string", "number", "null");
    case NC_FIELD_STRINGS:
        v = list_of(string_of(f, false));
        if (f->flags & NC_FIELD_LONE)
            nc_value_push(nc_value_get(v, "type"), nc_value_new_string("string"));
        return v;
    case NC_FIELD_INTS:
        return list_of(int_of(f, false));
    case NC_FIELD_STRING_MAP:
        value = f->entries ? f->entries->value : NULL;
        return map_of(f, string_of(value ? value : &any_text, true));
    case NC_FIELD_QUANTITY_MAP:
        return map_of(f, types_of("string", "number", "null"));
    case NC_FIELD_BOOL_MAP:
        return map_of(f, types_of("boolean", "null", NULL));
    case NC_FIELD_OBJECT:
        return object_of(f->object);
    case NC_FIELD_OBJECTS:
        v = object_of(f->object);
        nc_value_set_string(v, "type", "object"); /* an item is not null */
        return list_of(v);
    case NC_FIELD_MAP:
        value = f->entries ? f->entries->value : NULL;
        return map_of(f, value ? value_of(value) : NULL);
    case NC_FIELD_ANY:
        break;
    }
    return nc_value_new_map();
}

static struct nc_value *object_of(const struct nc_schema *schema) {
    struct nc_value *v = nc_value_new_map();
    struct nc_value *properties = nc_value_new_map();
    struct nc_value *required = nc_value_new_list();

    set_types(v, "object", "null", NULL);
    for (struct nc_field_at at = {0}; nc_schema_next(schema, &at);) {
        nc_value_set(properties, at.name, value_of(at.field));
        if (at.field->flags & NC_FIELD_REQUIRED)
            nc_value_push(required, nc_value_new_string(at.name));
    }
    nc_value_set(v, "properties", properties);
    if (required->n > 0)
        nc_value_set(v, "required", required);
    else
        nc_value_free(required);
    nc_value_set_bool(v, "additionalProperties", schema->is_open);
    return v;
}

/* What says that a document is one of these. */
static void set_constant(struct nc_value *schema, const char *field, const char *text) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "const", text);
    nc_value_set(nc_value_get(schema, "properties"), field, v);
    nc_value_push(nc_value_get(schema, "required"), nc_value_new_string(field));
}

static char *make_schema(void) {
    nc_auto_value struct nc_value *head = nc_value_new_map();
    struct nc_value *v = object_of(&nc_schema_agent_config);
    struct nc_buf text = NC_BUF_INIT;

    nc_value_set(v, "required", nc_value_new_list());
    nc_value_set_string(v, "type", "object");
    set_constant(v, "apiVersion", "nodeclaimd.io/v1alpha1");
    set_constant(v, "kind", "AgentConfig");
    nc_value_set_string(head, "$schema", "http://json-schema.org/draft-07/schema#");
    nc_value_set_string(head, "title", "AgentConfig of nodeclaimd, see nodeclaimd.yaml(5)");
    for (size_t i = 0; i < v->n; i++)
        nc_value_set(head, v->members[i].key, nc_value_copy(v->members[i].value));
    nc_value_free(v);
    nc_json_write(&text, head, 2);
    (void)nc_buf_putc(&text, '\n');
    return nc_buf_steal(&text);
}

static void test_file(void **state) {
    const char *top = getenv("NC_SRCDIR");
    nc_auto_free char *path = nc_asprintf("%s/data/agentconfig.schema.json", top ? top : ".");
    nc_auto_free char *schema = make_schema();
    nc_cleanup(nc_buf_done) struct nc_buf there = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    if (getenv("NC_UPDATE")) {
        assert_true(nc_file_write(path, schema, strlen(schema), 0644, &err) >= 0);
        return;
    }
    if (nc_file_read(path, (size_t)1 << 20, &there, &err) < 0)
        fail_msg("%s", err.msg);
    if (!nc_streq(there.data, schema))
        fail_msg("%s is not what the tables say: NC_UPDATE=1 tests/unit/config/tests json-schema",
                 path);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_file)};

    return run_group(tests, NULL, NULL);
}
