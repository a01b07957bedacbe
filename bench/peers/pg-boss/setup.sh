#!/bin/sh
# Installs pg-boss and a version of Node.js that it supports into the folder $1, as package-lock.json pins them.
set -eu
here=$(dirname "$0")
mkdir -p "$1"
cp "$here/queue-pg-boss.mjs" "$here/../queue.mjs" "$1/"
if ! cmp -s "$here/package-lock.json" "$1/package-lock.json" || [ ! -e "$1/node_modules/.package-lock.json" ]; then
    cp "$here/package.json" "$here/package-lock.json" "$1/"
    (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund >&2)
fi
