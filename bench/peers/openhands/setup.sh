#!/bin/sh
# Installs OpenHands' agent server into the folder $1, as requirements.txt pins them.
set -eu
here=$(dirname "$0")
sh "$here/../venv.sh" "$1" "$here/requirements.txt" 12
