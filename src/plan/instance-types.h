/*
 * One row of an instance table file: what nc_instance_type_find() hides from everybody but the
 * plan, which warns of a row that cannot be read.
 */
#ifndef NC_PLAN_INSTANCE_TYPES_H
#define NC_PLAN_INSTANCE_TYPES_H

#include "nc/plan.h"

enum nc_type_row {
    NC_TYPE_ROW_NONE = 0, /* the file has no row of that name */
    NC_TYPE_ROW_FOUND,
    NC_TYPE_ROW_BAD, /* it has one, but not in the TSV's form: *ret is untouched */
};

/* Looks `name` up in the text of a table file (may be NULL with n_types 0). */
enum nc_type_row nc_instance_type_row(const char *types, size_t n_types, const char *name,
                                      struct nc_instance_type *ret);

#endif
