#!/bin/sh
# Prints a tar of an image for tests without a registry: a shell, git and a few tools, copied from this machine. With
# the argument "link", /home/agent in the image is a link to /workspace; with "no-git", the image has no git.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
: > "$dir/list"
for program in sh cat ls env git mkdir rm cp mv sed grep head id sleep dirname tr wc chmod touch ln perl readlink; do
    path=$(command -v "$program")
    { echo "$path"; ldd "$(readlink -f "$path")" 2>/dev/null | grep -o '/[^ ]*' || true; } >> "$dir/list"
done
find /usr/lib/git-core /usr/share/git-core -type f -o -type l >> "$dir/list"
mkdir -p "$dir/root/tmp" "$dir/root/etc" "$dir/root/proc" "$dir/root/dev" "$dir/root/root"
for name in bin sbin lib lib64; do
    if [ -L "/$name" ]; then
        mkdir -p "$dir/root/usr/$name" && ln -s "usr/$name" "$dir/root/$name"
    fi
done
# Copy the targets of links in place of the links.
sort -u "$dir/list" | tar -C / -chf - --no-recursion -T - 2>/dev/null | tar -C "$dir/root" -xf -
echo "secret of the image" > "$dir/root/root/file"
if [ "${1:-}" = link ]; then
    mkdir -p "$dir/root/home" "$dir/root/workspace" && ln -s /workspace "$dir/root/home/agent"
fi
if [ "${1:-}" = no-git ]; then
    rm "$dir/root$(command -v git)"
fi
tar -C "$dir/root" -cf - .
