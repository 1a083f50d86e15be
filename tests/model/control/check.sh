#!/bin/sh
# Each rule broken on purpose, then some hundred random clusters. TAP. MODEL_SEED and MODEL_CONTROL_WORLDS choose others.
exec ${NC_EMULATOR-} "${NC_BUILDDIR:-.}/tests/model/control/control-model" --self-test --seed "${MODEL_SEED:-1}" --worlds "${MODEL_CONTROL_WORLDS:-100}"
