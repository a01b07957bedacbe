#!/bin/sh
# Installs bullmq into the folder $1, as package-lock.json pins it.
set -eu
here=$(dirname "$0")
sh "$here/../npm.sh" "$1" "$here" "$here/queue-bullmq.mjs" "$here/../queue.mjs"
