/*
 * What only the mode without Karpenter needs of the program: its half of the step.
 */
#include "nc/standalone.h"

#include "controller.h"

const struct nc_standalone_mode nc_standalone_mode = {.step = &nc_standalone};
