# Fills the folders of submodules. Runs in a separate sandbox, without network and secrets: the agent may have prepared the
# tree "$1". The service has written what is filled to the folder "$2": the file "list" has seven lines for each submodule,
# and the folder with its number has the files of a new git directory. The answer is a line for each: "filled", "changed"
# (the agent has changed it, and it stays as it is), "failed", or "inside" (it is in one of these).
set -eu
tree=$1 lists=$2
# The folder is given to git, so that git uses no other repository if that of the submodule is damaged.
own_git() {
	own=$1
	shift
	GIT_DIR="$tree/$own" git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c advice.detachedHead=false "$@" </dev/null
}
check_out() { GIT_WORK_TREE="$sub" own_git "$git" -c checkout.workers=0 checkout --quiet --detach "$commit"; }
is_empty() { [ -z "$(ls -A "$1" 2>/dev/null)" ]; }
create() {
	rm -rf "${tree:?}/$git"
	for folder in info objects/info objects/pack refs/heads refs/tags; do
		mkdir -p "$tree/$git/$folder"
	done
	cp "$from/config" "$from/packed-refs" "$tree/$git"
	cp "$from/alternates" "$tree/$git/objects/info/alternates"
	printf '%s\n' "$commit" > "$tree/$git/HEAD"
	cp "$from/gitfile" "$sub/.git"
	check_out
}
# The folders of submodules that are not filled, each with a slash and a line break after it.
stopped=
is_stopped() {
	printf '%s' "$stopped" | while IFS= read -r one; do
		case $path in "$one"*) echo yes ;; esac
	done
}
stop() {
	echo "$1"
	stopped="$stopped$path/
"
}
number=0
while IFS= read -r parent_git && IFS= read -r path && IFS= read -r git && IFS= read -r name && IFS= read -r url &&
	IFS= read -r before && IFS= read -r commit; do
	from="$lists/$number" sub="$tree/$path" number=$((number + 1))
	if [ -n "$stopped" ] && [ -n "$(is_stopped)" ]; then
		echo inside
		continue
	fi
	if [ -n "$before" ]; then
		# The submodule follows its pointer. Git refuses to overwrite changes.
		if cmp -s "$from/gitfile" "$sub/.git" && [ "$(own_git "$git" rev-parse HEAD 2>/dev/null)" = "$before" ]; then
			cp "$from/alternates" "$tree/$git/objects/info/alternates"
			cp "$from/packed-refs" "$tree/$git"
			if check_out 2>/dev/null; then echo filled; else stop changed; fi
		else
			stop changed
		fi
		continue
	fi
	if [ -L "$sub" ] || ! { mkdir -p "$sub" 2>/dev/null && is_empty "$sub"; }; then
		stop changed
	elif (create); then
		own_git "$parent_git" config "submodule.$name.active" true
		[ -z "$url" ] || own_git "$parent_git" config "submodule.$name.url" "$url"
		echo filled
	else
		rm -rf "$sub" "${tree:?}/$git"
		mkdir "$sub"
		stop failed
	fi
done < "$lists/list"
