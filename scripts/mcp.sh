#!/bin/sh
# Calls the MCP server of the program that was built with the public conformance suite, inspector and client for Python.
# Without Python or Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

subject="the clients of MCP" folder=mcp
. scripts/python.sh
cd tests/mcp
"$python" -m pip install --quiet --requirement requirements.txt --constraint constraints.txt
# The conformance suite and the inspector need this version.
node_needed=22.19
. ../../scripts/node.sh
installed "$@"
"$python" run.py "$node"
