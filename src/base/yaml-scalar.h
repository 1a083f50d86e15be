/*
 * What a plain YAML scalar means: private to this layer.
 */
#ifndef NC_BASE_YAML_SCALAR_H
#define NC_BASE_YAML_SCALAR_H

#include "nc/value.h"

/* Gives v (fresh, without a type) the type and content that sigs.k8s.io/yaml would read from an
 * unquoted scalar. Returns false where that would be no JSON: an infinity or a NaN. */
bool nc_yaml_resolve_plain(struct nc_value *v, const char *text);

#endif
