/*
 * nodeclaim-controller: what a node may not do itself, for all nodes of a cluster.
 */
#include <malloc.h>

#include "config.h"
#include "controller.h"
#include "log.h"
#include "nc/http.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "process.h"

/* One arena, and big buffers of lists go back to the system as soon as they are freed. */
static void keep_memory_small(void) {
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

#ifdef NC_STANDALONE
static const struct nc_standalone *const standalone = &nc_standalone;
#else
static const struct nc_standalone *const standalone = NULL;
#endif

int main(int argc, char **argv) {
    struct nc_settings settings;
    int code = 0;

    nc_program_set(NC_CONTROLLER);
    if (nc_settings_read(argc, argv, standalone, &settings, &code) != 0)
        return nc_process_flush("help", code);
    nc_process_be_no_core();
    nc_http_set_program(NC_CONTROLLER, settings.command);
    keep_memory_small();
    code = nc_streq(settings.command, "run")      ? nc_controller_run(&settings)
           : nc_streq(settings.command, "status") ? nc_controller_status(&settings)
                                                  : nc_controller_version(&settings);
    return nc_process_flush(settings.command, code);
}
