#!/bin/sh
# Checks, tests and builds the Python SDK in sdk/python: that the generated files are up to date, the lints, the types,
# the tests against the program that was built, and the packages. Without Python, it skips them and prints a conspicuous
# notice.
set -eu
cd "$(dirname "$0")/.."

skip() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: the Python SDK: $1" >&2
    echo "=======================================================================" >&2
    exit 0
}

target=${CARGO_TARGET_DIR:-target}
JOURNEYMAN=${JOURNEYMAN:-$target/debug/journeyman}
[ -x "$JOURNEYMAN" ] || { echo "sdk-python: build the program first: cargo build --locked" >&2; exit 1; }
JOURNEYMAN=$(cd "$(dirname "$JOURNEYMAN")" && pwd)/$(basename "$JOURNEYMAN")
export JOURNEYMAN

command -v python3 >/dev/null 2>&1 || skip "Python is missing (Debian: apt-get install python3 python3-venv)"
# The package supports Python 3.10, but the versions of the tools in constraints.txt do not.
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "$(python3 --version) is too old; 3.11 or later is needed"
mkdir -p "$target/sdk-python"
work=$(cd "$target/sdk-python" && pwd)
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
    skip "Python cannot create virtual environments (Debian: apt-get install python3-venv)"
python=$work/venv/bin/python

# Keep caches out of the source folder.
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
cd sdk/python
"$python" -m pip install --quiet --requirement requirements.txt --constraint constraints.txt
"$python" generate.py --check
"$python" -m ruff check --quiet --no-cache
"$python" -m ruff format --quiet --no-cache --check
"$python" -m mypy --cache-dir "$work/mypy" generate.py src tests examples

rm -rf "$work/dist"
"$python" -m build --no-isolation --outdir "$work/dist" . >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
"$python" -m twine check --strict "$work"/dist/*

# The tests use the package as it is published.
"$python" -m pip install --quiet --force-reinstall --no-deps "$work"/dist/*.whl
"$python" -m pytest --quiet -p no:cacheprovider
