#!/usr/bin/env bash
# Makes a Python environment from the system's python3 and keeps it equal to its list of packages.
# Does nothing when the list has not changed since the last run.
#
#   tools/setup/venv.sh          requirements.txt, to .venv: tests, tools, benchmarks
#   tools/setup/venv.sh peers    requirements-peers.txt, to build/peers-venv: other engines to be
#                                compared with; 6 GB
set -euo pipefail
. "$(dirname "$0")/common.sh"

case "${1:-}" in
  '') list=requirements.txt venv="$root_dir/.venv" ;;
  peers) list=requirements-peers.txt venv="$root_dir/build/peers-venv" ;;
  *) fail "unknown environment '$1'" "use 'peers' or no argument" ;;
esac
name=${venv#"$root_dir/"}
list="tools/setup/$list"
stamp="$venv/requirements.sha256"

# The distribution's interpreter, not whatever a version manager put first on PATH: the packages
# below are pinned for it.
python=/usr/bin/python3
[ -x "$python" ] ||
  fail "$python is missing" "install the package python3 (tools/setup/apt.sh does)"

wanted=$(sha256sum <"$root_dir/$list")
if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] &&
  "$venv/bin/python" -c '' 2>/dev/null; then
  exit 0
fi

# Two runs at once would both write the same folder; the second waits and then finds it done.
mkdir -p "$root_dir/build"
exec 9>"$root_dir/build/.${name##*/}.lock"
flock 9
[ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || exit 0

if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
  say "Making the Python environment $name"
  rm -rf "$venv"
  "$python" -m venv "$venv" ||
    fail "python3 -m venv failed" "install the package python3-venv (tools/setup/apt.sh does)"
fi
say "Installing the Python packages of $list"
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off \
  -q -r "$root_dir/$list"; then
  fail "pip could not install $list" \
    "check the network (or PIP_INDEX_URL), then run the same command again"
fi
echo "$wanted" >"$stamp"
