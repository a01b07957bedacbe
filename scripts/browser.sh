#!/bin/sh
# Runs the tests of the pages in real browsers, with the program that was built: all of them in Chromium, and those of a
# new user also in Firefox. Without Chromium, it skips the tests and prints a conspicuous notice; without Firefox, it
# skips those in Firefox. Screenshots of all pages are in target/screenshots, with index.html to view them. With
# ALL_PAGES=0, it skips the checks of all pages, which take longest.
set -eu
cd "$(dirname "$0")/.."

subject="the tests of the pages in a browser"
. scripts/program.sh

[ -n "${CHROMIUM:-}" ] ||
    CHROMIUM=$(command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || true)
[ -n "$CHROMIUM" ] || skip "Chromium is missing (Debian: apt-get install chromium-headless-shell; or set CHROMIUM)"
[ -n "${FIREFOX:-}" ] || FIREFOX=$(command -v firefox-esr || command -v firefox || true)
[ -n "$FIREFOX" ] ||
    notice "the tests of the pages in Firefox: it is missing (Debian: apt-get install firefox-esr; or set FIREFOX)"
SHOTS=$target/screenshots
export CHROMIUM FIREFOX SHOTS

cd tests/browser
. ../../scripts/node.sh
installed "$@"
# The files run in alphabetical order, the longest first.
set -- ./*.test.mjs
if [ "${ALL_PAGES:-1}" = 0 ]; then
    [ "$1" = ./all-pages.test.mjs ]
    shift
else
    rm -rf "$SHOTS"
fi
exec "$node" --test --test-concurrency=2 "$@"
