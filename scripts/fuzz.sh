#!/bin/sh
# Sends generated requests for every operation of the OpenAPI document to the program that was built. Without Python, it
# skips them and prints a conspicuous notice. The environment variable EXAMPLES sets the number of random requests for
# each operation.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the generated requests: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=${JOURNEYMAN:-$target/debug/journeyman}
[ -x "$JOURNEYMAN" ] || { echo "fuzz: build the program first: cargo build --locked" >&2; exit 1; }
export JOURNEYMAN

command -v python3 >/dev/null 2>&1 || skip "Python is missing (Debian: apt-get install python3 python3-venv)"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$(python3 --version) is too old; 3.11 or later is needed"
work=$target/fuzz
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
    skip "Python cannot create virtual environments (Debian: apt-get install python3-venv)"

export PYTHONPATH="$PWD/tests/support" PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
"$work/venv/bin/python" -m pip install --quiet --requirement tests/fuzz/requirements.txt --constraint tests/fuzz/constraints.txt
"$work/venv/bin/python" tests/fuzz/fuzz.py
