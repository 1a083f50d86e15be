/*
 * The one object that is of a commit: all else names what is here, and is not compiled anew where
 * nothing but the commit is another.
 */
#include "nc/version.h"

#include "build-version.h"

const char nc_version[] = NC_VERSION;
const char nc_commit[] = NC_COMMIT;
