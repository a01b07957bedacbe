#!/bin/sh
# Generates clients of the OpenAPI document with public generators, and calls the program that was built with them.
# Without Python or Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

subject="the generated clients" folder=clients
. scripts/python.sh
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
installed "$@"
"$python" "$tests/run.py" "$work/node" "$node"
