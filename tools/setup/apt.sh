#!/usr/bin/env bash
# Installs the Debian packages of packages.txt that are missing, and nothing else.
#
#   tools/setup/apt.sh serve    what `make serve` needs
#   tools/setup/apt.sh          everything: build, test, lint
set -euo pipefail
. "$(dirname "$0")/common.sh"

list="$root_dir/tools/setup/packages.txt"
section="${1:-all}"

wanted=$(awk -v section="$section" '
  /^# section:/ { current = $3; next }
  /^#/ || NF == 0 { next }
  section == "all" || current == section { print $1 }' "$list")
[ -n "$wanted" ] ||
  fail "packages.txt has no section '$section'" "use 'serve' or no argument"

if ! command -v dpkg-query >/dev/null 2>&1; then
  fail "this is not a Debian system (no dpkg)" \
    "use Debian 12, or install what tools/setup/packages.txt names and run 'make SETUP=no ...'"
fi

missing=()
for package in $wanted; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

release=$(. /etc/os-release && echo "${ID:-}-${VERSION_ID:-}")
if [ "$release" != debian-12 ]; then
  fail "packages are missing (${missing[*]}) and this is $release, not debian-12" \
    "install their equivalents yourself, then run 'make SETUP=no ...'"
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    fail "${#missing[@]} Debian packages are missing and you are not root" \
      "run once as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  fi
fi

export DEBIAN_FRONTEND=noninteractive
# Waiting for the lock covers a machine that still runs its first unattended upgrade.
apt_options=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)

install_missing() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${apt_options[@]}" \
    install -y -q --no-install-recommends "${missing[@]}"
}

say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
if ! "${as_root[@]}" apt-get "${apt_options[@]}" update -q; then
  fail "apt-get update failed" \
    "check the network and /etc/apt/sources.list, then run the same command again"
fi
if ! install_missing; then
  fail "apt-get could not install the packages" \
    "read the lines above; 'apt-get -f install' mends half-installed packages. \
A conflict with libboost1.74-dev is cured by: apt-get remove libboost1.74-dev"
fi
