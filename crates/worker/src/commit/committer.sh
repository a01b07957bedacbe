# Packs the agent's changes as one pack of objects. Runs in a separate sandbox, in the tree, with the git directory that
# the service has created in the committer's folder ("$2"), so no configuration of the agent applies.
#
# Prints "head <commit>" with the commit that contains everything, or "large <path>" for a file that is too large to
# commit. Then waits for "settle <commit>", moves the agent's own repository to that commit, and prints "settled".
# Processes are the most expensive part of this script, so it starts few.
set -eu
tree=$1 dir=$2
# Calls redirect stdin, so that git does not read the service's next line.
service_git() { GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" git "$@"; }

# The objects of earlier turns are in the service's mirror by now.
for leftover in "$dir/own" "$dir/pack" "$dir/git/info" "$dir/git/objects/"[0-9a-f][0-9a-f] "$dir/git/objects/pack/"* "$dir/git/objects/"tmp_*; do
	[ ! -e "$leftover" ] || rm -rf "$leftover"
done
# Programs of the agent may have changed the configuration since it was last used.
printf '%s' "$CONFIG" > "$dir/git/config"

# The branch usually is a file. Otherwise git finds it, unless something blocks git.
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
	mkdir "$dir/own"
	set --
	for part in "$tree/.git/objects/"[0-9a-f][0-9a-f] "$tree/.git/objects/pack"; do
		[ ! -d "$part" ] || set -- "$@" "$part"
	done
	[ $# = 0 ] || ln -s "$@" "$dir/own"
	export GIT_ALTERNATE_OBJECT_DIRECTORIES="$dir/own"
fi
# Rewritten history cannot be pushed without force, so all changes become one commit.
[ "$own" = "$BASE" ] || service_git merge-base --is-ancestor "$BASE" "$own" 2>/dev/null </dev/null || own=$BASE
if [ "$NORMALIZE" = yes ] && [ "$own" != "$BASE" ]; then
	# Rewrite each of the agent's commits, oldest first, with the file modes that git writes itself. An index that is
	# built from a listing has no cached tree to reuse.
	mkdir "$dir/own/new"
	for commit in $(service_git rev-list --reverse --topo-order "$own" "^$BASE" </dev/null); do
		set --
		for parent in $(service_git rev-parse "$commit^@" </dev/null); do
			[ ! -f "$dir/own/new/$parent" ] || read -r parent < "$dir/own/new/$parent"
			set -- "$@" -p "$parent"
		done
		rm -f "$dir/index"
		service_git ls-tree -r -z --full-tree "$commit" </dev/null | service_git update-index -z --index-info
		files=$(service_git write-tree </dev/null)
		show() { service_git show --no-patch --format="$1" "$commit" </dev/null; }
		show %B | GIT_AUTHOR_NAME=$(show %an) GIT_AUTHOR_EMAIL=$(show %ae) GIT_AUTHOR_DATE=$(show %ad) \
			service_git commit-tree "$files" "$@" > "$dir/own/new/$commit"
	done
	read -r own < "$dir/own/new/$own"
fi
head=$own

if [ "$SNAPSHOT" = yes ]; then
	if [ -n "$LARGE_FROM" ]; then
		large=$(find . -path ./.git -prune -o -type f -size "+${LARGE_FROM}c" -print0 |
			GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" GIT_LITERAL_PATHSPECS=1 \
				xargs -0 -r git ls-files -z --modified --others --exclude-standard -- | tr '\n\0' '?\n' | head -n 1)
		[ -z "$large" ] || { printf 'large %s\n' "$large"; exit 0; }
	fi
	# Start from the index of the agent's newest commit, so that files which it removed from the repository, or added
	# despite .gitignore, stay so.
	read -r indexed < "$dir/git/HEAD" || indexed=
	[ "$indexed" = "$own" ] || service_git read-tree --reset "$own" </dev/null
	printf '%s\n' "$own" > "$dir/git/HEAD"
	service_git add --all </dev/null
	# If there is nothing to commit, git says so on stdout, and fails.
	printf '%s' "$MESSAGE" | service_git commit --quiet --no-verify --cleanup=verbatim --file=- >&2 || service_git diff-index --cached --quiet "$own" -- </dev/null
	read -r head < "$dir/git/HEAD"
	# The last commit of a turn names its message, even if the agent made all of the commits.
	if [ "$head" = "$own" ] && [ "$head" != "$BASE" ]; then
		service_git commit --quiet --no-verify --amend --no-edit --allow-empty --cleanup=verbatim --trailer "$TRAILER" >&2
		read -r head < "$dir/git/HEAD"
	fi
fi
if [ "$head" != "$BASE" ]; then
	printf '%s\n^%s\n' "$head" "$BASE" | service_git pack-objects --quiet --revs --thin --stdout > "$dir/pack"
fi
printf 'head %s\n' "$head"

read -r _ head || exit 0
[ "$REPOSITORY" = yes ] || exit 0
# A git process of the agent that was killed may have left this lock.
rm -f .git/index.lock
git reset --quiet "$head" </dev/null && echo settled
