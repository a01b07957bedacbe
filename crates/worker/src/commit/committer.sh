# What the agent has done, as one pack of objects: run in a sandbox of its own, in the tree, with the git directory that the
# service has made on the desk ("$2"), whose configuration is not the agent's.
#
# Prints "head <commit>" with the commit that contains everything, or "large <path>" for a file that is too large to
# commit. Then waits for "settle <commit>", moves the agent's own repository to that commit, and prints "settled".
# Processes are the most expensive part of this script, so it starts few.
set -eu
tree=$1 desk=$2
# Calls redirect stdin, so that git does not read the service's next line.
desk_git() { GIT_DIR="$desk/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$desk/index" git "$@"; }

# What was stored for the turn before is in the service's own repository since.
for left in "$desk/own" "$desk/pack" "$desk/git/info" "$desk/git/objects/"[0-9a-f][0-9a-f] "$desk/git/objects/pack/"* "$desk/git/objects/"tmp_*; do
	[ ! -e "$left" ] || rm -rf "$left"
done
# The agent's own git has run beside the desk since it was last used: its configuration is written anew.
printf '%s' "$CONFIG" > "$desk/git/config"

# Mostly the branch is a file. Where it is not, git finds it, if nothing keeps it waiting.
own=
if [ "$REPOSITORY" = yes ] && [ -f .git/HEAD ] && read -r at < .git/HEAD; then
	case $at in
	"ref: refs/heads/"*) [ ! -f ".git/${at#ref: }" ] || read -r own < ".git/${at#ref: }" || own= ;;
	esac
fi
case $own in
*[!0-9a-f]* | "")
	own=
	[ "$REPOSITORY" = no ] || own=$(timeout -k 1 10 git rev-parse --verify --quiet HEAD 2>/dev/null </dev/null) || own=
	;;
esac
[ -n "$own" ] || own=$BASE
# Read the agent's objects only if there are some to take. Leave out its `info`: the further object folders that it
# names may block git.
if [ "$own" != "$BASE" ]; then
	mkdir "$desk/own"
	set --
	for part in "$tree/.git/objects/"[0-9a-f][0-9a-f] "$tree/.git/objects/pack"; do
		[ ! -d "$part" ] || set -- "$@" "$part"
	done
	[ $# = 0 ] || ln -s "$@" "$desk/own"
	export GIT_ALTERNATE_OBJECT_DIRECTORIES="$desk/own"
fi
# History that was rewritten cannot be pushed without force: then the files count, and become one commit.
[ "$own" = "$BASE" ] || desk_git merge-base --is-ancestor "$BASE" "$own" 2>/dev/null </dev/null || own=$BASE
if [ "$NORMALIZE" = yes ] && [ "$own" != "$BASE" ]; then
	# Rewrite each of the agent's commits, oldest first, with the file modes that git writes itself. An index that is
	# built from a listing has no cached tree to reuse.
	mkdir "$desk/own/new"
	for commit in $(desk_git rev-list --reverse --topo-order "$own" "^$BASE" </dev/null); do
		set --
		for parent in $(desk_git rev-parse "$commit^@" </dev/null); do
			[ ! -f "$desk/own/new/$parent" ] || read -r parent < "$desk/own/new/$parent"
			set -- "$@" -p "$parent"
		done
		rm -f "$desk/index"
		desk_git ls-tree -r -z --full-tree "$commit" </dev/null | desk_git update-index -z --index-info
		files=$(desk_git write-tree </dev/null)
		said() { desk_git show --no-patch --format="$1" "$commit" </dev/null; }
		said %B | GIT_AUTHOR_NAME=$(said %an) GIT_AUTHOR_EMAIL=$(said %ae) GIT_AUTHOR_DATE=$(said %ad) \
			desk_git commit-tree "$files" "$@" > "$desk/own/new/$commit"
	done
	read -r own < "$desk/own/new/$own"
fi
head=$own

if [ "$SNAPSHOT" = yes ]; then
	if [ -n "$LARGE_FROM" ]; then
		large=$(find . -path ./.git -prune -o -type f -size "+${LARGE_FROM}c" -print0 |
			GIT_DIR="$desk/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$desk/index" GIT_LITERAL_PATHSPECS=1 \
				xargs -0 -r git ls-files -z --modified --others --exclude-standard -- | tr '\n\0' '?\n' | head -n 1)
		[ -z "$large" ] || { printf 'large %s\n' "$large"; exit 0; }
	fi
	# What the agent has taken out of the repository, or put in in spite of .gitignore, stays so: the index is that of
	# its newest commit.
	read -r indexed < "$desk/git/HEAD" || indexed=
	[ "$indexed" = "$own" ] || desk_git read-tree --reset "$own" </dev/null
	printf '%s\n' "$own" > "$desk/git/HEAD"
	desk_git add --all </dev/null
	# Where there is nothing to commit it says so on stdout, and fails.
	printf '%s' "$MESSAGE" | desk_git commit --quiet --no-verify --cleanup=verbatim --file=- >&2 || desk_git diff-index --cached --quiet "$own" -- </dev/null
	read -r head < "$desk/git/HEAD"
	# The last commit of a turn names its message, even if the agent made all of the commits.
	if [ "$head" = "$own" ] && [ "$head" != "$BASE" ]; then
		desk_git commit --quiet --no-verify --amend --no-edit --allow-empty --cleanup=verbatim --trailer "$TRAILER" >&2
		read -r head < "$desk/git/HEAD"
	fi
fi
if [ "$head" != "$BASE" ]; then
	printf '%s\n^%s\n' "$head" "$BASE" | desk_git pack-objects --quiet --revs --thin --stdout > "$desk/pack"
fi
printf 'head %s\n' "$head"

read -r _ head || exit 0
[ "$REPOSITORY" = yes ] || exit 0
# Left by a git of the agent's that was ended.
rm -f .git/index.lock
git reset --quiet "$head" </dev/null && echo settled
