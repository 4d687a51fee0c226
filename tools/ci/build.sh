#!/usr/bin/env bash
# build.sh PRESET [TARGET...]: configures when needed and builds one preset.
set -euo pipefail
. "$(dirname "$0")/../setup/common.sh"

preset=$1
shift
build="$root_dir/build/$preset"
cd "$root_dir"

if [ ! -f "$build/build.ninja" ]; then
  say "Configuring build/$preset"
  mkdir -p "$build"
  if ! cmake --preset "$preset" >"$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    fail "cmake could not configure the preset $preset" \
      "read the lines above; if a package is missing: tools/setup/apt.sh"
  fi
  say "Building build/$preset (the first time takes minutes)"
fi
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
# Ninja prints one rewriting line on a terminal; elsewhere one line a command would drown the log.
quiet=()
[ -t 1 ] || quiet=(-- --quiet)
cmake --build "$build" -j "${BULKHEAD_JOBS:-$(nproc)}" "${targets[@]}" "${quiet[@]}" ||
  fail "the build of the preset $preset failed" \
    "read the first error above (out of memory shows as 'Killed': run again with JOBS=1)"
