#!/bin/sh
# Installs OpenHands' agent server into the folder $1, in the versions of requirements.txt.
set -eu
here=$(dirname "$0")
sh "$here/../venv.sh" "$1" "$here/requirements.txt" 12
