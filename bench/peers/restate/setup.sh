#!/bin/sh
# Installs Restate's server and SDK into the folder $1, as package-lock.json pins them.
set -eu
here=$(dirname "$0")
sh "$here/../npm.sh" "$1" "$here" "$here/service.mjs"
