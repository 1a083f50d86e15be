/*
 * What a program is made of, for people and for programs.
 */
#ifndef NC_PROCESS_VERSION_H
#define NC_PROCESS_VERSION_H

#include <stdbool.h>

/* Prints "PROGRAM VERSION" and the libraries' own words, or an object {version, libcurl, openssl,
 * cjson}
 * where `is_json`. Returns 0, the exit code. */
int nc_version_print(const char *program, bool is_json);

#endif
