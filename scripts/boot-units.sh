#!/bin/sh
# Starts systemd with the units of a folder, in namespaces: boot-units.sh SYSTEM UNITS OUT PROGRAM. scripts/test-units.sh
# runs it as root.
#
# SYSTEM is the root directory of a system with systemd, which stays unchanged; UNITS has `test.target`, which a unit ends;
# OUT is /out there, and PROGRAM /usr/local/bin/journeyman. Unlike chroot, this changes the root of the mount namespace,
# as sandboxes need it. There is no network.
set -eu

# systemd makes its control groups below a new one in each hierarchy: "CONTROLLER FOLDER" of the present ones. Services
# remove groups whose names begin with "journeyman-".
groups=$(awk -F: '{ name = $2; sub("^name=", "", name); print (name == "" ? "unified" : name), $3 }' /proc/self/cgroup)
new=test-units-$$
# Prints the folder of a new group: group CONTROLLER FOLDER.
group() {
    [ -d "/sys/fs/cgroup/$1" ] && top=/sys/fs/cgroup/$1 || top=/sys/fs/cgroup
    echo "${top}${2%/}/$new"
}
# shellcheck disable=SC2317
end() {
    echo "$groups" | while read -r name folder; do
        find "$(group "$name" "$folder")" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}
trap end EXIT
echo "$groups" | while read -r name folder; do
    at=$(group "$name" "$folder")
    mkdir "$at"
    for file in cpuset.cpus cpuset.mems; do
        [ "$name" != cpuset ] || cat "${at%/*}/$file" > "$at/$file"
    done
done

# The groups are entered here, so that this script can remove them later.
entries=$(echo "$groups" | while read -r name folder; do echo "$(group "$name" "$folder")/cgroup.procs"; done)
# shellcheck disable=SC2016
enter='for entry in $1; do echo $$ > "$entry"; done; shift; exec "$@"'
# shellcheck disable=SC2016
sh -euc "$enter" enter "$entries" timeout --kill-after=5 180 unshare --mount --pid --fork --kill-child --ipc --uts \
    --cgroup --net --propagation private sh -euc '
    system=$1 units=$2 out=$3 program=$4 groups=$5
    top=$(mktemp -d)
    mount -t tmpfs -o mode=755 top "$top"
    mkdir "$top/root" "$top/changes" "$top/work"
    root=$top/root
    mount -t overlay -o "lowerdir=$system,upperdir=$top/changes,workdir=$top/work" overlay "$root"
    # The data of a service that this system has.
    rm -rf "$root/var/lib/journeyman"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount -t tmpfs -o mode=755 run "$root/run"
    mount -t tmpfs -o mode=1777 tmp "$root/tmp"
    mount -t tmpfs -o mode=755 dev "$root/dev"
    for name in null zero full random urandom tty; do
        touch "$root/dev/$name"
        mount --bind "/dev/$name" "$root/dev/$name"
    done
    mkdir "$root/dev/pts" "$root/dev/shm" "$root/old"
    mount -t devpts -o newinstance,ptmxmode=666 pts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    # A cgroup namespace shows only the groups below this one.
    if [ -d /sys/fs/cgroup/systemd ]; then
        mount -t tmpfs -o mode=755 groups "$root/sys/fs/cgroup"
        echo "$groups" | while read -r name _; do
            at=$root/sys/fs/cgroup/$name
            mkdir "$at"
            case $name in
            unified) mount -t cgroup2 cgroup2 "$at" ;;
            systemd) mount -t cgroup -o none,name=systemd cgroup "$at" ;;
            *) mount -t cgroup -o "$name" cgroup "$at" ;;
            esac
        done
    else
        mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    fi
    rm -rf "$root/etc/systemd/system"
    mkdir -p "$root/etc/systemd/system" "$root/out" "$root/usr/local/bin" "$root/etc/journeyman"
    cp -R "$units/." "$root/etc/systemd/system/"
    mount --bind "$out" "$root/out"
    install -m 755 "$program" "$root/usr/local/bin/journeyman"
    ip link set lo up
    cd "$root"
    pivot_root . old
    umount --lazy /old
    cd /
    # Version 256 and later refuse control groups of version 1 otherwise.
    SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
    container=test
    export SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE container
    exec /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no \
        SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
' boot "$(realpath "$1")" "$(realpath "$2")" "$(realpath "$3")" "$(realpath "$4")" "$groups"
