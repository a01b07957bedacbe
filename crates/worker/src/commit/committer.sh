# Runs git on the tree for the service, in a separate sandbox, with the git directory that the service has created in the
# committer's folder ("$2"), so no configuration of the agent applies. The service decides what is committed: it writes
# lists of paths, which end with NUL, to its own folder ("$3"), and sends requests, each as a line.
#
# The first line of the output is "own <commit>": the agent's newest commit, which a further commit follows. If it does not
# continue the branch, or cannot be read, this is the last commit of the branch, and the agent's is after it, with "rewritten"
# or "unreadable". The answer to
# a request is "out <bytes>" or "refused <bytes>", and that many bytes: a list of paths, or the error of git. The answer
# to "commit" is "head <commit>", and that to "settle" is "settled".
# Processes are the most expensive part of this script, so it starts few.
set -eu
tree=$1 dir=$2 lists=$3
# Calls redirect stdin, so that git does not read the service's next line.
service_git() { GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" git "$@"; }

# The objects of earlier turns are in the service's mirror by now.
for leftover in "$dir/own" "$dir/old" "$dir/out" "$dir/pack" "$dir/git/info" "$dir/git/objects/"[0-9a-f][0-9a-f] "$dir/git/objects/pack/"* "$dir/git/objects/"tmp_*; do
	[ ! -e "$leftover" ] || rm -rf "$leftover"
done
# Programs of the agent may have changed the configuration since it was last used.
printf '%s' "$CONFIG" > "$dir/git/config"

# The branch usually is a file. Otherwise git finds it, unless something blocks git.
own=
if [ "$COMMITS" = yes ] && [ -f .git/HEAD ] && read -r at < .git/HEAD; then
	case $at in
	"ref: refs/heads/"*) [ ! -f ".git/${at#ref: }" ] || read -r own < ".git/${at#ref: }" || own= ;;
	esac
fi
case $own in
*[!0-9a-f]* | "")
	own=
	[ "$COMMITS" = no ] || own=$(timeout -k 1 10 git rev-parse --verify --quiet HEAD 2>/dev/null </dev/null) || own=
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
# Whether the commit $2 is, or follows on, the commit $1.
follows() { service_git merge-base --is-ancestor "$1" "$2" 2>/dev/null </dev/null; }
# Rewritten history cannot be pushed without force, so all changes become one commit. If the agent has moved its work onto
# the branch that the work is merged into, this commit joins the two, as a merge does.
joined= replaced=
if [ "$own" != "$BASE" ] && ! follows "$BASE" "$own"; then
	replaced="$own unreadable"
	! service_git cat-file -e "$own^{tree}" 2>/dev/null </dev/null || replaced="$own rewritten"
	if [ -n "$UPSTREAM" ] && follows "$UPSTREAM" "$own" && ! follows "$UPSTREAM" "$BASE"; then joined=$UPSTREAM; fi
	own=$BASE
fi
if [ "$NORMALIZE" = yes ] && [ "$own" != "$BASE" ]; then
	# Rewrite each of the agent's commits, oldest first, with the file modes that git writes itself. An index that is
	# built from a listing has no cached tree to reuse.
	mkdir "$dir/own/new"
	for commit in $(service_git rev-list --reverse --topo-order "$own" "^$BASE" ${UPSTREAM:+"^$UPSTREAM"} </dev/null); do
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
[ "$SNAPSHOT" = no ] || {
	# Start from the index of the agent's newest commit, so that files which it removed from the repository, or added
	# despite .gitignore, stay so.
	read -r indexed < "$dir/git/HEAD" || indexed=
	# The objects of an index whose files were not committed are gone.
	[ ! -e "$dir/pending" ] || indexed=
	[ "$indexed" = "$own" ] || service_git read-tree --reset "$own" </dev/null
	rm -f "$dir/pending"
	printf '%s\n' "$own" > "$dir/git/HEAD"
}
printf 'own %s %s\n' "$own" "$replaced"

# Runs git in the agent's repository, with the objects of the service.
agent_git() {
	GIT_ALTERNATE_OBJECT_DIRECTORIES="${GIT_ALTERNATE_OBJECT_DIRECTORIES:+$GIT_ALTERNATE_OBJECT_DIRECTORIES:}$dir/git/objects" \
		timeout -k 1 10 git -c core.fsmonitor=false "$@" 2>/dev/null
}

# Sends the file "$dir/out" as the answer $1.
answer() {
	if [ -s "$dir/out" ]; then
		printf '%s %s\n' "$1" "$(wc -c < "$dir/out")"
		cat "$dir/out"
	else
		printf '%s 0\n' "$1"
	fi
}

head=$own
while read -r request argument; do
	case $request in
	marks)
		# The files that the agent's index has in another state than usual: "S" (not in the working tree), "M" (not
		# merged), or a small letter (assumed to be unchanged).
		{ timeout -k 1 10 git -c core.fsmonitor=false ls-files -v -z 2>/dev/null </dev/null || :; } |
			{ LC_ALL=C grep -azv '^H ' || :; } > "$dir/out"
		answer out
		;;
	submodules)
		service_git ls-files --stage -z </dev/null | { LC_ALL=C grep -az '^160000 ' || :; } > "$dir/out"
		answer out
		;;
	clean)
		# Whether the folder of a submodule has exactly the files of a commit. The git directory is the service's, so no
		# configuration of the agent applies, and the objects are those of the submodule.
		{ read -r commit && IFS= read -r path; } < "$lists/paths"
		objects=$(cd "$tree/$path" && timeout -k 1 10 git rev-parse --git-path objects 2>/dev/null </dev/null) || objects=
		case $objects in /* | "") ;; *) objects="$tree/$path/$objects" ;; esac
		if [ -n "$objects" ] && GIT_DIR="$dir/git" GIT_WORK_TREE="$tree/$path" GIT_INDEX_FILE="$dir/submodule" \
			GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" timeout -k 1 60 sh -c '
			cd "$1" && rm -f "$GIT_INDEX_FILE" && git read-tree "$2" && git update-index -q --refresh &&
				git diff-files --quiet && [ -z "$(git ls-files --others --exclude-standard | head -c 1)" ]
			' clean "$tree/$path" "$commit" </dev/null >/dev/null 2>&1; then
			printf 'out 0\n'
		else
			printf 'refused 0\n'
		fi
		;;
	sparse)
		# The files of the list that belong to the agent's part of the tree. Git before 2.41 cannot tell: then all do.
		mkdir -p "$dir/git/info"
		cp .git/info/sparse-checkout "$dir/git/info/sparse-checkout"
		cone=$(timeout -k 1 10 git config --type=bool --default=true --get core.sparseCheckoutCone 2>/dev/null </dev/null) || cone=true
		enabled=$(timeout -k 1 10 git config --type=bool --default=false --get core.sparseCheckout 2>/dev/null </dev/null) || enabled=false
		[ "$enabled" = true ] && service_git -c core.sparseCheckout=true -c core.sparseCheckoutCone="$cone" \
			sparse-checkout check-rules -z < "$lists/paths" > "$dir/out" 2>/dev/null || cat "$lists/paths" > "$dir/out"
		answer out
		;;
	differences)
		# How the agent's index differs from the commit: files that were added, removed and moved. A repository that has
		# no history in common with the branch was created again, and says nothing.
		: > "$dir/out"
		objects="${GIT_ALTERNATE_OBJECT_DIRECTORIES:+$GIT_ALTERNATE_OBJECT_DIRECTORIES:}$dir/git/objects"
		if GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" timeout -k 1 10 git merge-base "$BASE" HEAD >/dev/null 2>&1 </dev/null; then
			GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" timeout -k 1 10 git -c core.fsmonitor=false diff-index --cached --raw -z --no-abbrev --ita-visible-in-index \
				--find-renames -l200 --diff-filter=ADR "$own" -- > "$dir/out" 2>/dev/null </dev/null || : > "$dir/out"
		fi
		answer out
		;;
	ignored)
		# With the argument --no-index, also those files of the list that the index has.
		code=0
		service_git check-ignore ${argument:+"$argument"} -z --stdin < "$lists/paths" > "$dir/out" 2>"$dir/err" || code=$?
		if [ "$code" -le 1 ]; then answer out; else mv "$dir/err" "$dir/out"; answer refused; fi
		;;
	filters)
		# The attribute "filter" of the files of the list.
		service_git check-attr -z --stdin filter < "$lists/paths" > "$dir/out"
		answer out
		;;
	checkout)
		# The files of the list as a checkout of their committed content writes them. Files that have none are left out.
		rm -rf "$dir/old"
		mkdir "$dir/old"
		service_git checkout-index --quiet -z --stdin --prefix="$dir/old/" < "$lists/paths" 2>/dev/null || :
		printf 'out 0\n'
		;;
	executable | plain)
		# With --chmod, git would read the content of the files again, and convert it.
		mode=100644
		[ "$request" = plain ] || mode=100755
		: > "$dir/pending"
		code=0
		GIT_LITERAL_PATHSPECS=1 GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" \
			xargs -0 git ls-files --stage -z -- < "$lists/paths" | LC_ALL=C sed -z "s/^100[0-7]* /$mode /" |
			service_git update-index -z --index-info > "$dir/out" 2>&1 || code=$?
		if [ "$code" = 0 ]; then printf 'out 0\n'; else answer refused; fi
		;;
	refs)
		# The branches, tags and the newest stash of the agent's repository that are not checked out, with their objects.
		agent_git for-each-ref --format='%(HEAD)%(objectname) %(refname)' refs/heads refs/stash refs/tags </dev/null |
			LC_ALL=C sed -n 's/^ //p' > "$dir/out"
		answer out
		;;
	missing)
		# For each line of the list, which begins with a commit: how many commits it leads to that the published ones do not
		# have, or "-". If merging them would change no file, they are there in another form. The untracked files of a stash
		# are in its third parent, so it is never merged here.
		files=$(service_git rev-parse "$head^{tree}" </dev/null)
		while read -r commit name; do
			# Commits with the same changes as published ones do not count.
			count=$(agent_git rev-list --count --cherry-pick --right-only "$head...$commit" ${UPSTREAM:+"^$UPSTREAM"} \
				-- </dev/null) || count=-
			[ "$count" = - ] || [ "$count" = 0 ] || [ "$name" = refs/stash ] ||
				[ "$(agent_git merge-tree --write-tree "$head" "$commit" </dev/null)" != "$files" ] || count=0
			printf '%s\n' "$count"
		done < "$lists/paths" > "$dir/out"
		answer out
		;;
	pack)
		# Packs what each commit of the list leads to and the code host does not have, in the agent's repository. Prints the
		# hashes in the names of the packs, or "-".
		while read -r commit name; do
			printf '%s\n^%s\n%s' "$commit" "$BASE" "${UPSTREAM:+^$UPSTREAM
}" | agent_git pack-objects --quiet --revs .git/objects/pack/pack || printf '%s\n' -
		done < "$lists/paths" > "$dir/out"
		answer out
		;;
	added)
		# The files that the agent's commits have added.
		service_git diff-tree -r -z --raw --no-renames --diff-filter=A "$BASE" "$own" -- </dev/null > "$dir/out"
		answer out
		;;
	entries)
		# The entries of the index for the files of the list.
		GIT_LITERAL_PATHSPECS=1 GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" \
			xargs -0 git ls-files --stage -z -- < "$lists/paths" > "$dir/out"
		answer out
		;;
	objects)
		# The entries of a commit whose objects are in the list.
		service_git ls-tree -r -t -z --full-tree "$argument" </dev/null |
			{ LC_ALL=C grep -azF -f "$lists/paths" || :; } > "$dir/out"
		answer out
		;;
	remove | add)
		how=--add
		[ "$request" = add ] || how=--force-remove
		: > "$dir/pending"
		code=0
		# Code hosts refuse names that are .git on any system.
		service_git -c core.protectHFS=true -c core.protectNTFS=true update-index "$how" -z --stdin < "$lists/paths" > "$dir/out" 2>&1 || code=$?
		# Git skips some names, such as .GIT, and does not fail.
		if [ "$code" = 0 ] && ! { [ -s "$dir/out" ] && grep -q '^Ignoring path ' "$dir/out"; }; then
			printf 'out 0\n'
		else
			answer refused
		fi
		;;
	pointers)
		# Writes the files of the list, which are pointers of Git LFS, as objects, and returns their IDs.
		service_git hash-object -w --no-filters --stdin-paths < "$lists/paths" > "$dir/out"
		answer out
		;;
	index)
		# Sets entries of the index: the list has modes, IDs and paths.
		: > "$dir/pending"
		code=0
		service_git update-index -z --index-info < "$lists/paths" > "$dir/out" 2>&1 || code=$?
		if [ "$code" = 0 ] && ! { [ -s "$dir/out" ] && grep -q '^Ignoring path ' "$dir/out"; }; then
			printf 'out 0\n'
		else
			answer refused
		fi
		;;
	changes)
		# How the index differs from the last commit: files, each after the letter A, D, M or T.
		service_git diff-index --cached --name-status --no-renames -z "$own" -- </dev/null > "$dir/out"
		answer out
		;;
	commit)
		if [ "$SNAPSHOT" = yes ] && { [ -n "$joined" ] || ! service_git diff-index --cached --quiet "$own" -- </dev/null; }; then
			files=$(service_git write-tree </dev/null)
			head=$(service_git commit-tree -p "$own" ${joined:+-p "$joined"} "$files" < "$lists/message")
			printf '%s\n' "$head" > "$dir/git/HEAD"
		elif [ "$own" != "$BASE" ] && [ -n "$UPSTREAM" ] && follows "$own" "$UPSTREAM"; then
			# The agent has only followed the branch that the work is merged into: there is no work yet.
			head=$BASE
		elif [ "$own" != "$BASE" ] && [ "$SNAPSHOT" = yes ]; then
			# The last commit of a turn names its message, even if the agent made all of the commits.
			service_git commit --quiet --no-verify --amend --no-edit --allow-empty --cleanup=verbatim \
				${CO_AUTHOR:+--trailer "$CO_AUTHOR"} --trailer "$TRAILER" >&2 </dev/null
			read -r head < "$dir/git/HEAD"
		fi
		if [ "$head" != "$BASE" ]; then
			printf '%s\n^%s\n%s' "$head" "$BASE" "${UPSTREAM:+^$UPSTREAM
}" | service_git pack-objects --quiet --revs --thin --stdout > "$dir/pack"
		fi
		printf 'head %s\n' "$head"
		;;
	settle)
		rm -f "$dir/pending"
		[ "$REPOSITORY" = yes ] || exit 0
		# A git process of the agent that was killed may have left this lock.
		rm -f .git/index.lock
		git reset --quiet "$argument" </dev/null && echo settled
		exit 0
		;;
	esac
done
