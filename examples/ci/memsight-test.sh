#!/bin/sh
# Runs a test under memsight and fails it when it leaks; what the test prints and its own failure
# stay as they are. For meson: meson test --wrapper examples/ci/memsight-test.sh; for ctest: set
# CMAKE_CROSSCOMPILING_EMULATOR to it. Limits: MEMSIGHT_LIMITS="--max-leaked 0 --max-peak 500M".
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
memsight record -q --source none -o "$folder/test.mst" -- "$@" || exit
memsight check "$folder/test.mst" ${MEMSIGHT_LIMITS:---max-leaked 0} >&2
