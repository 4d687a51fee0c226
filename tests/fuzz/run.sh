#!/usr/bin/env bash
# run.sh BUILD SECONDS [NAME...]: runs each fuzz target of a build tree (presets asan-ubsan, fuzz)
# for SECONDS, two at a time, starting from its kept corpus.
#
# What it finds: BUILD/fuzz/NAME/corpus/ collects inputs that reached something new, and an input
# that crashed, hung or ate memory is kept in BUILD/fuzz/NAME/ with the log. Mend the fault, then
# add that input to tests/fuzz/corpus/NAME/, so that every later run starts with it.
set -uo pipefail
. "$(dirname "$0")/../../tools/setup/common.sh"

[ $# -ge 2 ] || fail "run.sh needs a build folder and a number of seconds" \
  "tests/fuzz/run.sh build/fuzz 20"
build=$(cd "$1" 2>/dev/null && pwd) ||
  fail "no folder $1" "cmake --preset fuzz && cmake --build build/fuzz"
seconds=$2
shift 2
names=("$@")
# schema is left to runs by hand: it also holds the grammar engine to the standard, so that what it
# finds may lie in there.
[ ${#names[@]} -gt 0 ] ||
  names=(safetensors gguf config_json tokenizer_json template output chat_json http handoff
         worker_message trace)
sources="$root_dir/tests/fuzz"
# UCX patches the memory functions that the sanitizers have replaced, and both fall over.
export UCX_MEM_MMAP_HOOK_MODE=none

run_one() {
  local name=$1
  local work="$build/fuzz/$name"
  mkdir -p "$work/corpus"
  rm -f "$work"/{crash,timeout,oom,leak}-*
  local corpora=("$work/corpus")
  [ ! -d "$sources/corpus/$name" ] || corpora+=("$sources/corpus/$name")
  local dictionary=()
  [ ! -f "$sources/$name.dict" ] || dictionary=("-dict=$sources/$name.dict")
  "$build/bin/${name}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix="$work/" "${dictionary[@]}" \
    "${corpora[@]}" >"$work/log" 2>&1
}

failed=()
report_one() {
  local name=$1 status=$2
  local work="$build/fuzz/$name"
  local runs rate
  runs=$(awk '/stat::number_of_executed_units/ { print $2 }' "$work/log")
  rate=$(awk '/stat::average_exec_per_sec/ { print $2 }' "$work/log")
  if [ "$status" -eq 0 ]; then
    printf '  %-16s %9s inputs, %6s a second, nothing found\n' "$name" "${runs:-?}" "${rate:-?}"
    return
  fi
  failed+=("$name")
  printf '  %-16s FAILED (exit %s)\n' "$name" "$status"
  tail -n 25 "$work/log"
  local input
  input=$(ls "$work"/{crash,timeout,oom,leak}-* 2>/dev/null | head -1)
  if [ -n "$input" ]; then
    printf '  the input is kept:  %s\n' "$input"
    printf '  run it again with:  %s\n' "$build/bin/${name}_fuzz $input"
    printf '  once it is mended:  %s\n' "cp $input tests/fuzz/corpus/$name/"
  fi
}

for name in "${names[@]}"; do
  [ -x "$build/bin/${name}_fuzz" ] || fail "the fuzz target $name is not built in $build" \
    "cmake --preset fuzz && cmake --build build/fuzz"
done

# Pairs: each target is one thread, and two is what the smallest machine has.
for ((first = 0; first < ${#names[@]}; first += 2)); do
  pair=("${names[@]:first:2}")
  pids=()
  for name in "${pair[@]}"; do
    run_one "$name" &
    pids+=($!)
  done
  for index in "${!pair[@]}"; do
    status=0
    wait "${pids[$index]}" || status=$?
    report_one "${pair[$index]}" "$status"
  done
done

[ ${#failed[@]} -eq 0 ] || fail "fuzzing found faults in: ${failed[*]}" "see the inputs kept above"
