#!/usr/bin/env bash
# format.sh [--check]: clang-format on every C++ file, in place or only reporting.
set -euo pipefail
. "$(dirname "$0")/../setup/common.sh"

command -v clang-format-19 >/dev/null ||
  fail "clang-format-19 is missing" "tools/setup/apt.sh"
cd "$root_dir"
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run --Werror)
find src apps tests bench -name '*.h' -o -name '*.cc' | sort |
  xargs -r -n 64 -P 2 clang-format-19 "${mode[@]}" ||
  fail "some files are not formatted" "make format"
