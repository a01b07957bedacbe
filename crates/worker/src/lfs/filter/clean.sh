# Prints the pointer of the content on stdin, and keeps the content, unless the index has this pointer. Empty content and
# pointers are printed unchanged. git puts the quoted path of the file in the place of the first word of the list below.
set -e
# In a submodule, .git is a file.
g=.git
[ -d "$g" ] || g=$(git rev-parse --git-dir)
t=$(mktemp "$g/lfs-XXXXXX")
cat >"$t"
n=$(($(wc -c <"$t")))
if [ "$n" = 0 ] || { [ "$n" -lt 1024 ] && [ "$(head -c 42 "$t")" = "version https://git-lfs.github.com/spec/v1" ]; }; then
	cat "$t"
	rm -f "$t"
	exit
fi
set -- %f $(sha256sum <"$t")
pointer=$(printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s' "$2" "$n")
if [ "$(git cat-file blob ":$1" 2>/dev/null)" = "$pointer" ]; then
	rm -f "$t"
else
	folder=$g/lfs/objects/$(printf %.2s "$2")/$(printf %.2s "${2#??}")
	mkdir -p "$folder"
	chmod 644 "$t"
	mv -f "$t" "$folder/$2"
fi
printf '%s\n' "$pointer"
