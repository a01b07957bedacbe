# Writes the files of the commit "$HEAD_COMMIT" to the tree "$1", in a separate sandbox, without network and secrets: the
# content of a repository never passes through git on the host, where the service runs. The git directory is the service's
# ("$2"). With REFRESH=yes, only records again when the files were written.
set -eu
tree=$1 dir=$2
service_git() { GIT_DIR="$dir/git" GIT_WORK_TREE="$tree" GIT_INDEX_FILE="$dir/index" git "$@"; }
if [ "$REFRESH" = yes ]; then
	service_git update-index -q --refresh --force-write-index
else
	service_git -c checkout.workers=0 -c core.logAllRefUpdates=false reset --quiet --hard "$HEAD_COMMIT"
fi
cp "$dir/index" "$tree/.git/index"
