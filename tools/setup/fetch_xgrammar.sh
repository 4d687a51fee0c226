#!/usr/bin/env bash
# Fetches the source of XGrammar (2.8 MB, licence Apache-2.0), the grammar engine behind structured
# output, to third_party/, out of its source package on PyPI, and unpacks what the build needs. The
# package is checked against a pinned SHA-256 sum before anything in it is read.
set -euo pipefail
. "$(dirname "$0")/common.sh"

package=xgrammar==0.2.9
sdist_sha256=87b466bca2475e29bb0323abc62c6c33cbcbcff47e5fb800a3e2099ac9620b90
name=xgrammar-0.2.9

target="$root_dir/third_party/$name"
# Written last: its presence means the tree beside it is whole.
stamp="$target/.sdist.sha256"
[ "$(cat "$stamp" 2>/dev/null)" != "$sdist_sha256" ] || exit 0

python="$root_dir/.venv/bin/python"
if ! "$python" -c 'import pip' 2>/dev/null; then
  python=/usr/bin/python3
  if ! "$python" -c 'import pip' 2>/dev/null; then
    # A bare Debian python3 has no pip; an environment of its own brings one.
    "$python" -m venv "$root_dir/build/fetch-venv" ||
      fail "python3 -m venv failed" "install the package python3-venv (tools/setup/apt.sh does)"
    python="$root_dir/build/fetch-venv/bin/python"
  fi
fi

mkdir -p "$root_dir/third_party"
work=$(mktemp -d "$root_dir/third_party/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "Fetching the grammar engine XGrammar 0.2.9 (2.8 MB, Apache-2.0) from PyPI: $package"
# With the sum in a requirements file pip compares it before it opens the package.
echo "$package --hash=sha256:$sdist_sha256" >"$work/requirements.txt"
if ! "$python" -m pip download --disable-pip-version-check --progress-bar off -q \
  --no-deps --no-binary xgrammar --dest "$work" -r "$work/requirements.txt"; then
  fail "pip could not download $package with the pinned SHA-256 $sdist_sha256" \
    "check the network (or PIP_INDEX_URL; https://pypi.org/simple has the file) and run the same \
command again"
fi

say "Unpacking to third_party/$name"
tar -xzf "$work/$name.tar.gz" -C "$work" \
  "$name/LICENSE" "$name/NOTICE" "$name/cpp" "$name/include" \
  "$name/3rdparty/dlpack/LICENSE" "$name/3rdparty/dlpack/include" "$name/3rdparty/picojson" ||
  fail "the package could not be unpacked" \
    "check the free space on this disk (df -h $root_dir) and run the same command again"
rm -rf "$target"
mv "$work/$name" "$target"
echo "$sdist_sha256" >"$stamp"
