#!/bin/sh
# Calls the A2A server of the program that was built with the public clients for Python and JavaScript. Without Python or
# Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

subject="the clients of A2A" folder=a2a
. scripts/python.sh
cd tests/a2a
"$python" -m pip install --quiet --requirement requirements.txt --constraint constraints.txt
. ../../scripts/node.sh
installed "$@"
"$python" server.py "$python" client.py
"$python" server.py "$node" client.mjs
