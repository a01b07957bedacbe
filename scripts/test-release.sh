#!/bin/sh
# Builds the program for arm64 with an old glibc by scripts/release.sh, but in the debug profile, and packages it beside the
# package for x86_64 (make test-packages). Then checks the program, which QEMU runs, and the Homebrew formula. Takes seven minutes.
set -eu
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-target}
out=${OUT:-$target_dir/packages}
target=aarch64-unknown-linux-gnu
program=$target_dir/$target/debug/journeyman
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
libraries=$(rustc --print target-libdir)
[ -d "$libraries/../../$target" ] || rustup target add $target

CARGO_PROFILE_DEV_DEBUG=false PROFILE=dev TARGETS=$target TOOL=$target_dir/debug/journeyman LEVEL=0 \
    sh scripts/release.sh

fail() {
    echo "test-release: $*" >&2
    exit 1
}
newest=$(readelf -W --version-info "$program" | grep -o 'GLIBC_2\.[0-9]*' | sort -uV | tail -n 1)
[ "$(printf '%s\nGLIBC_2.28\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.28 ] || fail "$program needs $newest"

data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
run() {
    qemu-aarch64 -L /usr/aarch64-linux-gnu "$program" "$@"
}
run --version | grep -q "^journeyman $version" || fail "$program does not print its version"
run key create --name arm --data-dir "$data" | grep -q 'jmn_' || fail "$program does not create a key"
run key list --data-dir "$data" | grep -q arm || fail "$program does not find the key again"

for architecture in x86_64 aarch64; do
    archive=journeyman-$version-$architecture-unknown-linux-gnu.tar.gz
    grep -q "/v$version/$archive\"\$" "$out/journeyman.rb" || fail "the formula has no URL of $archive"
    sum=$(sha256sum "$out/$archive" | cut -d ' ' -f 1)
    grep -q "sha256 \"$sum\"" "$out/journeyman.rb" || fail "the formula has not the checksum of $archive"
done
echo "test-release: passed"
