#!/usr/bin/env bash
# ctest.sh PRESET [CTEST-ARGUMENT...]: runs the tests of a built preset, at most two at a time,
# since many of them use several threads themselves.
set -euo pipefail
. "$(dirname "$0")/../setup/common.sh"

preset=$1
shift
cd "$root_dir"
jobs=${BULKHEAD_JOBS:-2}
[ "$jobs" -le 2 ] || jobs=2
if ! ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@"; then
  fail "tests failed in build/$preset" \
    "run one again with: ctest --test-dir build/$preset --output-on-failure -R NAME"
fi
