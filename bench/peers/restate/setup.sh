#!/bin/sh
# Installs Restate's server and SDK, and a version of Node.js that the SDK supports, into the folder $1, as
# package-lock.json pins them.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
cp "$here/service.mjs" "$1/"
if ! cmp -s "$here/package-lock.json" "$1/package-lock.json" || [ ! -e "$1/node_modules/.package-lock.json" ]; then
    cp "$here/package.json" "$here/package-lock.json" "$1/"
    # The scripts of the packages only report the installation.
    (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund >&2)
fi
