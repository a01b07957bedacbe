#!/bin/sh
# Makes an archive of the minimal packages of a system, unless it exists, and prints its path.
#
#   sh scripts/base-system.sh debian bookworm      # or: ubuntu noble
#
# Variables: MIRROR, the mirror; KEYRING, the file with the keys of the system's archive. Debian does not package the keys
# of Ubuntu: they are in Ubuntu's package ubuntu-keyring.
set -eu
cd "$(dirname "$0")/.."

system=$1 suite=$2
case $system in
debian) mirror=http://deb.debian.org/debian keyring=/usr/share/keyrings/debian-archive-keyring.gpg ;;
ubuntu) mirror=http://archive.ubuntu.com/ubuntu keyring=${KEYRING:?set KEYRING to the file with the keys of Ubuntu} ;;
*) echo "base-system: $system is neither debian nor ubuntu" >&2; exit 1 ;;
esac
work=${CARGO_TARGET_DIR:-target}/fresh
mkdir -p "$work"
base=$(cd "$work" && pwd)/$system-$suite.tar
if [ ! -s "$base" ]; then
    mmdebstrap --quiet --variant=minbase --include=apt --format=tar --keyring="${KEYRING:-$keyring}" "$suite" "$base.new" \
        "${MIRROR:-$mirror}"
    mv "$base.new" "$base"
fi
echo "$base"
