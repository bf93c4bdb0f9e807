#!/bin/sh
# Runs a test under memsight and fails it when it leaks; what the test prints and its own failure
# stay as they are. For meson: meson test --wrapper examples/ci/memsight-test.sh; for ctest: set
# CMAKE_CROSSCOMPILING_EMULATOR to it. Limits: MEMSIGHT_LIMITS="--max-leaked 0 --max-peak 500M".
# MEMSIGHT_TRACES is a folder that keeps the traces, such as for artifacts.
if [ -n "$MEMSIGHT_TRACES" ]; then
	mkdir -p "$MEMSIGHT_TRACES" || exit 1
	trace=$MEMSIGHT_TRACES/${1##*/}.$$.mst
else
	folder=$(mktemp -d) || exit 1
	trap 'rm -rf "$folder"' EXIT
	trace=$folder/test.mst
fi
memsight record -q --source none -o "$trace" -- "$@" || exit
memsight check "$trace" ${MEMSIGHT_LIMITS:---max-leaked 0} >&2
