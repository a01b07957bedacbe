#!/bin/sh
# Prints the Homebrew formula for the archives of a version: sh scripts/formula.sh VERSION SHA256-OF-X86_64 SHA256-OF-AARCH64
set -eu
cd "$(dirname "$0")/.."

formula=$(sed -e "s/@VERSION@/$1/g; s/@X86_64@/$2/g; s/@AARCH64@/$3/g" deploy/homebrew/journeyman.rb)
case $formula in
*@[A-Z]*@*) echo "formula: deploy/homebrew/journeyman.rb has a name that was not filled in" >&2; exit 1 ;;
esac
printf '%s\n' "$formula"
