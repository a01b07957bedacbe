#!/bin/sh
# Checks, tests and builds the Python SDK in sdk/python: that the generated files are up to date, the lints, the types,
# the tests against the program that was built, and the packages. Without Python, it skips them and prints a conspicuous
# notice.
set -eu
cd "$(dirname "$0")/.."

subject="the Python SDK" folder=sdk-python
. scripts/python.sh
cd sdk/python
"$python" -m pip install --quiet --requirement requirements.txt --constraint constraints.txt
installed "$@"
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
