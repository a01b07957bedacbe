#!/bin/sh
# Installs LangGraph's server and the graph that it serves into the folder $1, as requirements.txt pins them.
set -eu
here=$(dirname "$0")
sh "$here/../venv.sh" "$1" "$here/requirements.txt" 11
mkdir -p "$1/graph"
cp "$here/graph.py" "$here/langgraph.json" "$1/graph/"
