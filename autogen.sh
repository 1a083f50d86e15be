#!/bin/sh
# Makes ./configure from configure.ac. Needs autoconf >= 2.71, automake >= 1.16 and pkg-config.
set -e
cd "$(dirname "$0")"
exec autoreconf --install --force --warnings=all
