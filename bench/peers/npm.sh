#!/bin/sh
# Installs the packages that package-lock.json in the folder $2 pins, among them a version of Node.js that they support,
# into the folder $1, and copies the other files to it.
set -eu
to=$1 from=$2
shift 2
mkdir -p "$to"
cp "$@" "$to/"
if ! cmp -s "$from/package-lock.json" "$to/package-lock.json" || [ ! -e "$to/node_modules/.package-lock.json" ]; then
    cp "$from/package.json" "$from/package-lock.json" "$to/"
    # The scripts of the packages only report the installation.
    (cd "$to" && npm ci --ignore-scripts --no-audit --no-fund >&2)
fi
