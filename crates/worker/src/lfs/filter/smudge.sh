# Prints the content of the pointer on stdin, if the repository has it, and otherwise what is on stdin.
set -e
t=$(mktemp .git/lfs-XXXXXX)
cat >"$t"
oid=$(head -c 1023 "$t" | sed -n 's/^oid sha256:\([0-9a-f]\{64\}\)$/\1/p')
content=.git/lfs/objects/$(printf %.2s "$oid")/$(printf %.2s "${oid#??}")/$oid
if [ -n "$oid" ] && [ -f "$content" ]; then cat "$content"; else cat "$t"; fi
rm -f "$t"
