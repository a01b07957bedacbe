#!/bin/sh
# Calls the MCP server of the program that was built with the public conformance suite, inspector and client for Python.
# Without Python or Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the clients of MCP: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=${JOURNEYMAN:-$target/debug/journeyman}
[ -x "$JOURNEYMAN" ] || { echo "mcp: build the program first: cargo build --locked" >&2; exit 1; }
JOURNEYMAN=$(cd "$(dirname "$JOURNEYMAN")" && pwd)/$(basename "$JOURNEYMAN")
export JOURNEYMAN

command -v python3 >/dev/null 2>&1 || skip "Python is missing (Debian: apt-get install python3 python3-venv)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$(python3 --version) is too old; 3.11 or later is needed"
mkdir -p "$target/mcp"
work=$(cd "$target/mcp" && pwd)
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
    skip "Python cannot create virtual environments (Debian: apt-get install python3-venv)"
python=$work/venv/bin/python

export PYTHONPATH="$PWD/tests/support" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
cd tests/mcp
"$python" -m pip install --quiet --requirement requirements.txt --constraint constraints.txt
# The conformance suite and the inspector need this version.
node_needed=22.19
. ../../scripts/node.sh
"$python" run.py "$node"
