# What the agent has done, as one bundle: run in a sandbox of its own, in the tree ("$1"), with the git directory that
# the service has made on the desk ("$2"), whose configuration is not the agent's.
#
# Prints "own <commit>", the agent's newest commit, and "head <commit>", the one that holds everything; or "large <path>"
# for a file that is too large to be committed. Then waits for "settle <commit>", on which the agent's own repository is
# to stand, and prints "settled".
set -eu
tree=$1 desk=$2
desk_git() { GIT_DIR="$desk/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$desk/index" git "$@"; }
# What it has stored before is in the service's own repository since.
rm -rf "$desk/bundle" "$desk/git/objects/"[0-9a-f][0-9a-f] "$desk/git/objects/pack/"*

own=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || own=$BASE
# History that was rewritten cannot be pushed without force: then the files count, and become one commit.
[ "$own" = "$BASE" ] || desk_git merge-base --is-ancestor "$BASE" "$own" 2>/dev/null || own=$BASE
head=$own

if [ "$SNAPSHOT" = yes ]; then
	if [ -n "$LARGE_FROM" ]; then
		large=$(find . -path ./.git -prune -o -type f -size "+${LARGE_FROM}c" -print0 |
			GIT_DIR="$desk/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$desk/index" GIT_LITERAL_PATHSPECS=1 \
				xargs -0 -r git ls-files -z --modified --others --exclude-standard -- | tr '\n\0' '?\n' | head -n 1)
		[ -z "$large" ] || { printf 'large %s\n' "$large"; exit 0; }
	fi
	desk_git add --all
	if ! desk_git diff-index --cached --quiet "$own" --; then
		files=$(desk_git write-tree)
		head=$(printf '%s' "$MESSAGE" | desk_git commit-tree "$files" -p "$own" -F -)
	fi
fi
if [ "$head" != "$BASE" ]; then
	desk_git update-ref refs/journeyman/head "$head"
	desk_git bundle create --quiet "$desk/bundle" refs/journeyman/head "^$BASE"
fi
printf 'own %s\nhead %s\n' "$own" "$head"

read -r _ head || exit 0
git reset --quiet "$head" && echo settled
