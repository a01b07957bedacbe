#!/bin/sh
# Sends generated requests for every operation of the OpenAPI document to the program that was built. Without Python, it
# skips them and prints a conspicuous notice. The environment variable EXAMPLES sets the number of random requests for
# each operation.
set -eu
cd "$(dirname "$0")/.."

subject="the generated requests" folder=fuzz
. scripts/python.sh
"$python" -m pip install --quiet --requirement tests/fuzz/requirements.txt --constraint tests/fuzz/constraints.txt
installed "$@"
"$python" tests/fuzz/fuzz.py
