#!/bin/sh
# Builds the container image of the service with buildah, from Debian packages and the Debian package of the service, so
# that no image registry is needed. scripts/package.sh makes the package first.
#
#   sh scripts/image.sh [TAG]     # localhost/journeyman:VERSION
#
# Variables: OUT, the folder with the package (target/packages), and those of scripts/base-system.sh.
#
# The image runs as user 10001, and works with a read-only root. deploy/container/Containerfile builds the same image
# where Debian's image can be fetched.
set -eu
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=${OUT:-$target/packages}
package=$(ls "$out"/journeyman_*_"$(dpkg --print-architecture)".deb)
version=$(dpkg-deb --field "$package" Version)
tag=${1:-localhost/journeyman:$version}
base=$(sh scripts/base-system.sh debian bookworm)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log --max-count=1 --no-show-signature --format=%ct)}
# That of OCI has no health check.
BUILDAH_FORMAT=docker
export SOURCE_DATE_EPOCH BUILDAH_FORMAT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/root"
tar -C "$work/root" -xf "$base"
cp "$package" "$work/root/journeyman.deb"
cp deploy/container/prepare.sh "$work/root/prepare.sh"
cat /etc/resolv.conf > "$work/root/etc/resolv.conf"
unshare --mount --propagation private sh -euc '
    mount -t proc proc "$1/proc"
    mount -t devpts -o newinstance,ptmxmode=666 pts "$1/dev/pts"
    exec chroot "$1" sh /prepare.sh /journeyman.deb
' image "$work/root"
rm "$work/root/journeyman.deb" "$work/root/prepare.sh" "$work/root/etc/resolv.conf"
tar -C "$work/root" --sort=name --numeric-owner --clamp-mtime --mtime="@$SOURCE_DATE_EPOCH" -cf "$work/root.tar" .

container=$(buildah from scratch)
buildah add --quiet "$container" "$work/root.tar" / >/dev/null
buildah config \
    --user 10001:10001 \
    --workingdir /var/lib/journeyman \
    --volume /var/lib/journeyman \
    --port 8080 \
    --stop-signal SIGTERM \
    --env HOME=/var/lib/journeyman \
    --env JOURNEYMAN_DATA_DIR=/var/lib/journeyman \
    --env JOURNEYMAN_LISTEN=0.0.0.0:8080 \
    --healthcheck 'CMD curl --fail --silent --show-error http://127.0.0.1:8080/healthz' \
    --healthcheck-interval 30s \
    --healthcheck-start-period 60s \
    --entrypoint '["/usr/bin/journeyman"]' \
    --cmd serve \
    --label org.opencontainers.image.title=journeyman \
    --label "org.opencontainers.image.version=$version" \
    --label org.opencontainers.image.licenses=Apache-2.0 \
    --label org.opencontainers.image.source=https://github.com/journeyman-dev/journeyman \
    "$container"
buildah commit --quiet --rm --timestamp "$SOURCE_DATE_EPOCH" "$container" "$tag" >/dev/null
echo "$tag"
