/*
 * nodeclaimd: the node's own side of a NodeClaim.
 */
#include "commands.h"

int main(int argc, char **argv) {
    return nc_cli(argc, argv);
}
