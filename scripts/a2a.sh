#!/bin/sh
# Calls the A2A server of the program that was built with the public clients for Python and JavaScript. Without Python or
# Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the clients of A2A: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=${JOURNEYMAN:-$target/debug/journeyman}
[ -x "$JOURNEYMAN" ] || { echo "a2a: build the program first: cargo build --locked" >&2; exit 1; }
JOURNEYMAN=$(cd "$(dirname "$JOURNEYMAN")" && pwd)/$(basename "$JOURNEYMAN")
export JOURNEYMAN

command -v python3 >/dev/null 2>&1 || skip "Python is missing (Debian: apt-get install python3 python3-venv)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$(python3 --version) is too old; 3.11 or later is needed"
mkdir -p "$target/a2a"
work=$(cd "$target/a2a" && pwd)
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
    skip "Python cannot create virtual environments (Debian: apt-get install python3-venv)"
python=$work/venv/bin/python

export PYTHONPATH="$PWD/tests/support" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
cd tests/a2a
"$python" -m pip install --quiet --requirement requirements.txt --constraint constraints.txt
"$python" server.py "$python" client.py

. ../../scripts/node.sh
"$python" server.py "$node" client.mjs
