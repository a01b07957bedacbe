#!/bin/sh
# Installs the requirements in the file $2 into a virtual environment in the folder $1, with a Python of at least 3.$3.
set -eu
if cmp -s "$2" "$1/requirements.txt"; then
    exit 0
fi
for python in python3 python3.13 python3.12 python3.11 "$HOME"/.pyenv/versions/3.1[1-9]*/bin/python3; do
    if "$python" -c "import sys, venv; sys.exit(sys.version_info < (3, $3))" 2>/dev/null; then
        mkdir -p "$1"
        "$python" -m venv --clear "$1/venv"
        "$1/venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$2" >&2
        # Copied last, so that an interrupted installation is repeated.
        cp "$2" "$1/requirements.txt"
        exit 0
    fi
done
echo "Python 3.$3 or later with venv is missing" >&2
exit 1
