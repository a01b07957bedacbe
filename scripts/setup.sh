#!/bin/sh
# Installs the missing prerequisites of building and running: git, bubblewrap (the sandbox of agents) and a C compiler
# (SQLite, the TLS library). With the argument "test" also a PostgreSQL server, which the tests start for themselves,
# the tools that set clocks wrong and cut networks in the storm, the tool that makes disks for power cuts, ssh-keygen for
# signatures, the browsers Chromium and Firefox, Python with virtual environments, curl, jq and openssl for the clients in CI
# services, and what code hosts publish about their interfaces; with "python" Python; with "package" what packages are made
# with; with "test-packages" also what they are tried with; with "test-release" also what runs programs for arm64; with
# "test-agents" npm; with "test-containers" Podman and Docker, and a user who runs rootless Podman. The script knows only
# Debian and its derivatives; elsewhere it prints what to install by hand.
set -eu

missing=""
command -v git >/dev/null 2>&1 || missing="$missing git"
command -v bwrap >/dev/null 2>&1 || missing="$missing bubblewrap"
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v make >/dev/null 2>&1 || missing="$missing make"

if [ "${1:-}" = test ]; then
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
    ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"
    [ -x /usr/sbin/mkfs.ext4 ] || [ -x /sbin/mkfs.ext4 ] || missing="$missing e2fsprogs"
    command -v ssh-keygen >/dev/null 2>&1 || missing="$missing openssh-client"
    command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
    # Chromium without windows takes two thirds of the processor time of the whole browser. Not all versions have it.
    command -v chromium-headless-shell >/dev/null 2>&1 || command -v chromium >/dev/null 2>&1 ||
        missing="$missing chromium-headless-shell|chromium fonts-dejavu-core"
    command -v firefox-esr >/dev/null 2>&1 || missing="$missing firefox-esr"
    command -v node >/dev/null 2>&1 || missing="$missing nodejs"
    command -v npm >/dev/null 2>&1 || missing="$missing npm"
    command -v curl >/dev/null 2>&1 || missing="$missing curl ca-certificates"
    command -v jq >/dev/null 2>&1 || missing="$missing jq"
    command -v openssl >/dev/null 2>&1 || missing="$missing openssl"
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3 python3-venv"
fi
if [ "${1:-}" = python ]; then
    command -v python3 >/dev/null 2>&1 || missing="$missing python3"
fi
if [ "${1:-}" = package ] || [ "${1:-}" = test-packages ] || [ "${1:-}" = test-release ]; then
    command -v python3 >/dev/null 2>&1 || missing="$missing python3"
    command -v readelf >/dev/null 2>&1 || missing="$missing binutils"
fi
if [ "${1:-}" = test-packages ]; then
    command -v mmdebstrap >/dev/null 2>&1 || missing="$missing mmdebstrap"
    command -v buildah >/dev/null 2>&1 || missing="$missing buildah"
    command -v podman >/dev/null 2>&1 || missing="$missing podman"
    [ -x /usr/bin/crun ] || missing="$missing crun"
    [ -x /usr/sbin/runc ] || [ -x /usr/bin/runc ] || missing="$missing runc"
    command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
    command -v curl >/dev/null 2>&1 || missing="$missing curl ca-certificates"
fi
if [ "${1:-}" = test-release ]; then
    command -v cmake >/dev/null 2>&1 || missing="$missing cmake"
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3 python3-venv"
    command -v qemu-aarch64 >/dev/null 2>&1 || missing="$missing qemu-user"
    [ -d /usr/aarch64-linux-gnu/lib ] || missing="$missing libc6-arm64-cross"
fi
if [ "${1:-}" = test-containers ]; then
    command -v podman >/dev/null 2>&1 || missing="$missing podman"
    # Podman runs containers with either; the control groups of some machines work with only one of them.
    [ -x /usr/bin/crun ] || missing="$missing crun"
    [ -x /usr/sbin/runc ] || [ -x /usr/bin/runc ] || missing="$missing runc"
    command -v newuidmap >/dev/null 2>&1 || missing="$missing uidmap"
    [ -x /usr/sbin/dockerd ] || [ -x /usr/bin/dockerd ] || missing="$missing docker.io"
fi
if [ "${1:-}" = test-agents ]; then
    command -v npm >/dev/null 2>&1 || missing="$missing npm"
fi

if [ -n "$missing" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "setup: please install:$missing" >&2
        exit 1
    fi
    sudo=""
    [ "$(id -u)" = 0 ] || sudo="sudo"
    echo "setup: installing$missing" >&2
    $sudo apt-get update -qq
    case $missing in
    *postgresql*)
        # By default, the package also creates and starts a database server, which the tests do not need.
        if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
            $sudo mkdir -p /etc/postgresql-common
            echo "create_main_cluster = false" | $sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
        fi
        ;;
    esac
    # Of alternatives, take the first one that this version of the distribution has.
    packages=""
    for names in $missing; do
        while [ "${names#*|}" != "$names" ] && ! apt-cache show "${names%%|*}" >/dev/null 2>&1; do names=${names#*|}; done
        packages="$packages ${names%%|*}"
    done
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $packages
fi

# A user with subordinate IDs runs rootless Podman; useradd gives such IDs to each new user.
if [ "${1:-}" = test-containers ] && [ "$(id -u)" = 0 ] && ! grep -q '^journeyman-test:' /etc/subuid 2>/dev/null; then
    echo "setup: creating the user journeyman-test, who runs rootless Podman in the tests" >&2
    /usr/sbin/useradd --no-create-home --shell /usr/sbin/nologin journeyman-test
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "setup: Rust is missing; install it with https://rustup.rs" >&2
    exit 1
fi

# Downloads a crate and writes one of its files to the folder of descriptions.
described_by_crate() { # name version sha256 file target
    curl -fsSL --retry 3 -o descriptions.crate "https://static.crates.io/crates/$1/$1-$2.crate"
    if ! echo "$3  descriptions.crate" | sha256sum --check --status; then
        echo "setup: the crate $1 $2 does not have the expected checksum $3" >&2
        exit 1
    fi
    tar -xzOf descriptions.crate "$1-$2/$4" > "node_modules/descriptions/$5"
    rm descriptions.crate
}

# The tests of crates/forge compare requests and webhooks with what the code hosts publish. GitHub's expanded
# descriptions (280 MB) are not needed.
if [ "${1:-}" = test ]; then
    cd "$(dirname "$0")/../tests/github"
    if ! cmp -s package-lock.json node_modules/installed-lock.json; then
        echo "setup: installing GitHub's descriptions and examples into tests/github" >&2
        npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
        rm -f node_modules/@octokit/openapi/generated/*.deref.json
        cp package-lock.json node_modules/installed-lock.json
    fi
    # The last step of the installation writes the file that says what is installed: this script, the packages and the
    # program that converts them.
    cd ../descriptions
    if ! cat ../../scripts/setup.sh package-lock.json convert.mjs | cmp -s - node_modules/installed; then
        echo "setup: installing the descriptions of Bitbucket, Gitea and Forgejo into tests/descriptions" >&2
        npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
        mkdir node_modules/descriptions
        described_by_crate gitea-sdk 0.6.3 8ce9fedc7c320ce6a2cd71d4dd3f9b71c641ed3733e34a12fef5fffa2a65c377 \
            swagger.json gitea.swagger.json
        described_by_crate forgejo-api 0.12.0 1597f08c98eed3f55fedcfeee8b005f9e617dab3c61393a2d8ce437181ad5d0b \
            swagger.v1.json forgejo.swagger.json
        node convert.mjs node_modules/descriptions
        cat ../../scripts/setup.sh package-lock.json convert.mjs > node_modules/installed
    fi
fi
