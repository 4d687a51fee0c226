# Shared by the setup scripts: messages and failures that say what to do about them. Sourced.

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }

# fail MESSAGE CURE: one line on what went wrong, one on what cures it.
fail() {
  printf '\033[1;31merror:\033[0m %s\n  cure: %s\n' "$1" "$2" >&2
  exit 1
}

if [ ! -t 1 ]; then
  say() { printf '==> %s\n' "$*"; }
fi
if [ ! -t 2 ]; then
  fail() { printf 'error: %s\n  cure: %s\n' "$1" "$2" >&2; exit 1; }
fi

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
