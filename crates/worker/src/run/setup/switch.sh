# Moves a tree in which a setup command has run from the commit that it was built at to "$HEAD_COMMIT". Runs in a
# separate sandbox, without network and secrets. Files of the commit get its content; other files that the setup command
# has created stay. The git directory is the service's ("$2"), so no configuration of the tree applies.
set -eu
tree=$1 dir=$2
GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" \
	git -c checkout.workers=0 -c core.logAllRefUpdates=false reset --quiet --hard "$HEAD_COMMIT"

# Move the agent's own repository as well.
rm -f .git/index.lock
own_git() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.logAllRefUpdates=false "$@"; }
own_git symbolic-ref HEAD "refs/heads/$BRANCH"
own_git reset --quiet "$HEAD_COMMIT"
