#!/usr/bin/env bash
# stage.sh NAME COMMAND...: runs one stage of the gate under a heading and notes how long it took
# in build/stages.tsv (which .ci/run prints at the end).
set -uo pipefail

name=$1
shift
root_dir=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$root_dir/build"

printf '\n==> %s\n' "$name"
started=$SECONDS
"$@"
status=$?
took=$((SECONDS - started))
verdict=passed
[ $status -eq 0 ] || verdict="FAILED ($status)"
printf '%s\t%d\t%s\n' "$name" "$took" "$verdict" >>"$root_dir/build/stages.tsv"
printf '==> %s: %s in %d s\n' "$name" "$verdict" "$took"
exit $status
