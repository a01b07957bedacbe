#!/bin/sh
# Prepares the file system of the container image: installs the package of the service in a minimal Debian, and removes
# what the image does not need. scripts/image.sh and the Containerfile run it.
set -eu
export DEBIAN_FRONTEND=noninteractive

apt-get update -qq
# curl is for the health check, openssh-client for repositories at ssh:// and for signed commits.
apt-get install -y -qq --no-install-recommends "$1" openssh-client curl >/dev/null
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/debconf/* /usr/share/doc/* /usr/share/man/*
# The notices of third-party code belong to the program.
dpkg-deb --fsys-tarfile "$1" | tar -C / -xf - ./usr/share/doc/journeyman

groupadd --gid 10001 journeyman
useradd --uid 10001 --gid 10001 --home-dir /var/lib/journeyman --shell /usr/sbin/nologin --no-log-init journeyman
install -d -m 700 -o 10001 -g 10001 /var/lib/journeyman
# The service runs as user 10001, and reads settings from the environment unless JOURNEYMAN_CONFIG names a file.
chmod 644 /etc/journeyman/journeyman.toml
# Nothing in the image gains rights.
find / -xdev -perm /6000 -type f -exec chmod a-s {} +
