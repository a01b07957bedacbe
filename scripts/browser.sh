#!/bin/sh
# Runs the tests of the pages in real browsers, with the program that was built: all of them in Chromium, and those of a
# new user also in Firefox. Without Chromium, it skips the tests and prints a conspicuous notice; without Firefox, it
# skips those in Firefox. Screenshots of all pages are in target/screenshots, with index.html to view them.
set -eu
cd "$(dirname "$0")/.."

notice() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the tests of the pages in $1" >&2
    echo "=======================================================================" >&2
}
skip() {
    notice "a browser: $1"
    exit 0
}

[ -n "${CHROMIUM:-}" ] || CHROMIUM=$(command -v chromium || command -v chromium-browser || true)
[ -n "$CHROMIUM" ] || skip "Chromium is missing (Debian: apt-get install chromium; or set CHROMIUM)"
[ -n "${FIREFOX:-}" ] || FIREFOX=$(command -v firefox-esr || command -v firefox || true)
[ -n "$FIREFOX" ] || notice "Firefox: it is missing (Debian: apt-get install firefox-esr; or set FIREFOX)"
export CHROMIUM FIREFOX

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=$(cd "$target" && pwd)/debug/journeyman
[ -x "$JOURNEYMAN" ] || { echo "browser: build the program first: cargo build --locked" >&2; exit 1; }
SHOTS=$(cd "$target" && pwd)/screenshots
rm -rf "$SHOTS"
export JOURNEYMAN SHOTS

cd tests/browser
. ../../scripts/node.sh
# The files run in alphabetical order, the longest first.
exec "$node" --test --test-concurrency=2 ./*.test.mjs
