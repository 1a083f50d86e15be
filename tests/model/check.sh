#!/bin/sh
# The judge, then some hundred random worlds. TAP. MODEL_SEED and MODEL_WORLDS choose others.
exec ${NC_EMULATOR-} "${NC_BUILDDIR:-.}/tests/model/model" --self-test --seed "${MODEL_SEED:-1}" --worlds "${MODEL_WORLDS:-900}"
