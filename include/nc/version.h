/*
 * What this build calls itself, as its package does: release/version.
 */
#ifndef NC_VERSION_H
#define NC_VERSION_H

extern const char nc_version[]; /* "0.2.0"; before that release "0.2.0-dev.1633.g0123abcd" */
extern const char nc_commit[];  /* forty digits, or "unknown" */

#endif
