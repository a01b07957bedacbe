#!/bin/sh
# Generates clients of the OpenAPI document with public generators, and calls the program that was built with them.
# Without Python or Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the generated clients: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=${JOURNEYMAN:-$target/debug/journeyman}
[ -x "$JOURNEYMAN" ] || { echo "clients: build the program first: cargo build --locked" >&2; exit 1; }
JOURNEYMAN=$(cd "$(dirname "$JOURNEYMAN")" && pwd)/$(basename "$JOURNEYMAN")
export JOURNEYMAN

command -v python3 >/dev/null 2>&1 || skip "Python is missing (Debian: apt-get install python3 python3-venv)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$(python3 --version) is too old; 3.11 or later is needed"
mkdir -p "$target/clients"
work=$(cd "$target/clients" && pwd)
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
    skip "Python cannot create virtual environments (Debian: apt-get install python3-venv)"
python=$work/venv/bin/python

export PYTHONPATH="$PWD/tests/support" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
tests=$PWD/tests/clients
"$python" -m pip install --quiet --requirement "$tests/requirements.txt" --constraint "$tests/constraints.txt"
# Node.js looks for packages in the folders above a file, so the sources are copied to the generated clients.
mkdir -p "$work/node"
cp "$tests"/*.json "$tests"/*.mjs "$tests"/*.ts "$work/node"
scripts=$PWD/scripts
cd "$work/node"
# The generators need this version.
node_needed=22.18
. "$scripts/node.sh"
"$python" "$tests/run.py" "$work/node" "$node"
