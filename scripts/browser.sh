#!/bin/sh
# Runs the tests of the pages in a real browser, with the program that was built. Without a browser, it skips the tests
# and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the tests of the pages in a browser: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

[ -n "${CHROMIUM:-}" ] || CHROMIUM=$(command -v chromium || command -v chromium-browser || true)
[ -n "$CHROMIUM" ] || skip "Chromium is missing (Debian: apt-get install chromium; or set CHROMIUM)"
export CHROMIUM

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=$(cd "$target" && pwd)/debug/journeyman
[ -x "$JOURNEYMAN" ] || { echo "browser: build the program first: cargo build --locked" >&2; exit 1; }
export JOURNEYMAN

cd tests/browser
. ../../scripts/node.sh
exec "$node" --test --test-concurrency=1 ./*.test.mjs
