# Moves a tree in which a setup command has run from the commit that it was made at to "$HEAD_COMMIT": run in a sandbox of
# its own, without network and secrets. Files that the commit has become what they are there; what else the setup command
# has made stays. The git directory is the service's ("$2"), so no configuration of the tree counts.
set -eu
tree=$1 desk=$2
GIT_DIR="$desk/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$desk/index" \
	git -c checkout.workers=0 -c core.logAllRefUpdates=false reset --quiet --hard "$HEAD_COMMIT"

# The agent's own repository follows.
rm -f .git/index.lock
own_git() { git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.logAllRefUpdates=false "$@"; }
own_git symbolic-ref HEAD "refs/heads/$BRANCH"
own_git reset --quiet "$HEAD_COMMIT"
