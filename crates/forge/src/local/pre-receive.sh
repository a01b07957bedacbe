#!/bin/sh
# Refuses a push that removes commits from the default branch, or deletes it. git passes a line for each ref: its commit
# before, its commit after, and its name. A commit of zeros means that the ref does not exist.
head=$(git symbolic-ref --quiet HEAD) || exit 0
while read -r old new ref; do
	[ "$ref" = "$head" ] || continue
	case $old in *[!0]*) ;; *) continue ;; esac
	branch=${ref#refs/heads/}
	case $new in
	*[!0]*)
		if git merge-base --is-ancestor "$old" "$new"; then continue; fi
		echo "$branch is the default branch, and this push would remove commits from it. Merge them first." >&2
		echo "An administrator can allow such pushes in the settings of the project (codeHost.allowForcePush)." >&2
		;;
	*) echo "$branch is the default branch, and cannot be deleted." >&2 ;;
	esac
	echo "Nothing was pushed." >&2
	exit 1
done
