#!/bin/sh
# Installs the Debian package into a fresh system, and types the commands of README.md there.
#
#   sh scripts/fresh.sh debian             # Debian 12; needs root, mmdebstrap, iproute2, and a mirror
#   sh scripts/fresh.sh debian trixie
#   sh scripts/fresh.sh ubuntu noble
#
# Variables: OUT, the folder with the package (target/packages), and those of scripts/base-system.sh.
#
# The system is a directory with the minimal packages, in namespaces: the kernel is that of this
# machine, there is no systemd, and no network once the package is installed.
set -eu
cd "$(dirname "$0")/.."

system=${1:?usage: fresh.sh debian|ubuntu [SUITE]}
target=${CARGO_TARGET_DIR:-target}
out=${OUT:-$target/packages}
package=$(ls "$out"/journeyman_*_"$(dpkg --print-architecture)".deb)
case $system in
debian) suite=${2:-bookworm} ;;
ubuntu) suite=${2:-noble} ;;
*) echo "fresh: $system is neither debian nor ubuntu" >&2; exit 1 ;;
esac
base=$(sh scripts/base-system.sh "$system" "$suite")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

tar -C "$root" -xf "$base"
cp "$package" "$root/root/journeyman.deb"
cp README.md "$root/root/README.md"
cp scripts/fresh-commands.sh "$root/root/commands.sh"

# Runs a command in the system: inside host|none COMMAND..., with the network of this machine, or with none. Unlike
# chroot alone, this changes the root of a mount namespace, as the sandboxes in the system need it.
inside() {
    network=$1
    shift
    net=""
    [ "$network" = host ] || net=--net
    # shellcheck disable=SC2016,SC2086
    unshare --mount --pid --fork --kill-child --ipc --uts $net --propagation private sh -euc '
        root=$1 network=$2
        shift 2
        [ "$network" = host ] || ip link set lo up
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777 tmp "$root/tmp"
        mkdir -p "$root/old"
        cd "$root"
        pivot_root . old
        umount --lazy /old
        cd /root
        exec env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
    ' inside "$root" "$network" "$@"
}

echo "== $system $suite: apt-get install ./journeyman.deb"
cat /etc/resolv.conf > "$root/etc/resolv.conf"
inside host /bin/sh -ec '
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ./journeyman.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
    apt-get install -y -qq --no-install-recommends curl >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
    grep journeyman: /tmp/log || true'

echo "== the commands of README.md"
inside none /bin/bash commands.sh

echo "== apt-get purge journeyman"
inside none /bin/sh -ec '
    apt-get purge -y -qq journeyman >/dev/null
    test -f /var/lib/journeyman/master.key && test ! -e /etc/journeyman && test ! -e /usr/bin/journeyman
    apt-get install -y -qq --no-install-recommends ./journeyman.deb >/dev/null
    JOURNEYMAN_PURGE_DATA=yes apt-get purge -y -qq journeyman >/dev/null
    test ! -e /var/lib/journeyman'
echo "fresh: $system $suite passed"
