#!/bin/sh
# Packages the program that is built, and tries the packages: the install script, the Debian package in a fresh Debian with
# the commands of README.md, and the container image with the demo and a job. Takes three minutes.
set -eu
cd "$(dirname "$0")/.."

# Symbols are removed, and compression is fast: these packages are only tried.
LEVEL=0 sh scripts/package.sh
dpkg-deb --info "${OUT:-${CARGO_TARGET_DIR:-target}/packages}"/journeyman_*_"$(dpkg --print-architecture)".deb
sh scripts/test-install.sh
sh scripts/base-system.sh debian bookworm

# The image is built while the commands run in the fresh system.
log=$(mktemp)
tag=localhost/journeyman-test:packages
trap 'rm -f "$log"; podman image rm --force $tag >/dev/null 2>&1 || true' EXIT
{ sh scripts/image.sh $tag && sh scripts/test-container.sh $tag; } > "$log" 2>&1 &
image=$!
failed=0
sh scripts/fresh.sh debian || failed=1
wait $image || failed=1
cat "$log"
exit $failed
