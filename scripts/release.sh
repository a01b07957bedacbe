#!/bin/sh
# Builds the program for x86_64 and arm64 so that it runs with glibc 2.28 and later (Debian 10, RHEL 8), and packages both.
# Takes a quarter of an hour on two cores. Needs the targets of Rust (rustup target add aarch64-unknown-linux-gnu), cmake,
# and Python with venv; Zig, the C compiler and linker for both targets, and cargo-zigbuild come from PyPI.
#
#   sh scripts/release.sh
#   TARGETS=x86_64-unknown-linux-gnu sh scripts/release.sh
#
# Variables:
#   TARGETS   the targets (x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu)
#   PROFILE   the profile of cargo (dist)
#   TOOL      as for scripts/package.sh (the program for this machine, which must then be one of the targets)
#   OUT       as for scripts/package.sh
#
# The C code in crates (SQLite, zstd, jemalloc, aws-lc) is compiled by Zig too.
set -eu
cd "$(dirname "$0")/.."

target_dir=${CARGO_TARGET_DIR:-target}
targets=${TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu}
profile=${PROFILE:-dist}
case $profile in
dev) folder=debug ;;
*) folder=$profile ;;
esac
glibc=2.28
libraries=$(rustc --print target-libdir)
for target in $targets; do
    [ -d "$libraries/../../$target" ] ||
        { echo "release: Rust has no standard library for $target; run: rustup target add $target" >&2; exit 1; }
done
mkdir -p "$target_dir/zig"
venv=$(cd "$target_dir/zig" && pwd)/venv
[ -x "$venv/bin/cargo-zigbuild" ] || {
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check cargo-zigbuild==0.24.1 ziglang==0.17.0
}
export PATH="$venv/bin:$PATH"
for target in $targets; do
    # Kernels for arm64 have pages of 4, 16 or 64 KiB; jemalloc must be built for the largest.
    case $target in
    aarch64-*) export JEMALLOC_SYS_WITH_LG_PAGE=16 ;;
    *) unset JEMALLOC_SYS_WITH_LG_PAGE ;;
    esac
    cargo zigbuild --locked --profile "$profile" --package journeyman --features jemalloc --target "$target.$glibc"
done
[ -s "$target_dir/THIRD-PARTY-NOTICES.txt" ] || make notices
# Completions and manual pages come from the program that runs here.
tool=${TOOL:-$target_dir/$(uname -m)-unknown-linux-gnu/$folder/journeyman}
for target in $targets; do
    PROGRAM=$target_dir/$target/$folder/journeyman TARGET=$target TOOL=$tool sh scripts/package.sh
done
