#!/bin/sh
# Installs graphile-worker into the folder $1, as package-lock.json pins it.
set -eu
here=$(dirname "$0")
sh "$here/../npm.sh" "$1" "$here" "$here/queue-graphile-worker.mjs" "$here/../queue.mjs"
