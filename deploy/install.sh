#!/bin/sh
# Installs the program journeyman from a release archive: downloads the archive and SHA256SUMS, compares the checksum, and
# copies the program. It changes nothing else and needs no rights but to write into the folder.
#
#   sh install.sh                              # the latest release, into /usr/local/bin as root, otherwise ~/.local/bin
#   sh install.sh --version 0.9.0 --to ~/bin
#   sh install.sh --from https://mirror.example.com/journeyman/0.9.0
#
# The checksum protects against damaged downloads. Whoever can change the archive on the server can change SHA256SUMS too;
# to compare the checksum with one from elsewhere, pass it: --sha256 SUM
set -eu

releases=https://github.com/journeyman-dev/journeyman/releases

fail() {
    echo "install: $*" >&2
    exit 1
}

main() {
    version="" from="" to="" expected=""
    while [ $# -gt 0 ]; do
        case $1 in
        --version | --from | --to | --sha256) [ $# -ge 2 ] || fail "$1 needs a value" ;;
        esac
        case $1 in
        --version) version=${2#v} && shift 2 ;;
        --from) from=${2%/} && shift 2 ;;
        --to) to=$2 && shift 2 ;;
        --sha256) expected=$2 && shift 2 ;;
        *) fail "unknown option $1; the options are --version, --from, --to and --sha256" ;;
        esac
    done

    [ "$(uname -s)" = Linux ] || fail "Journeyman runs on Linux only"
    case $(uname -m) in
    x86_64 | amd64) target=x86_64-unknown-linux-gnu ;;
    aarch64 | arm64) target=aarch64-unknown-linux-gnu ;;
    *) fail "there is no archive for $(uname -m); build from source (docs/install.md)" ;;
    esac
    case $(getconf GNU_LIBC_VERSION 2>/dev/null || echo none) in
    "glibc "*) ;;
    *) fail "the archives need glibc; on a system with another C library, build from source (docs/install.md)" ;;
    esac
    if [ -z "$from" ]; then
        from=$releases/latest/download
        [ -z "$version" ] || from=$releases/download/v$version
    fi
    if [ -z "$to" ]; then
        to=/usr/local/bin
        [ "$(id -u)" = 0 ] || to=${HOME:?}/.local/bin
    fi

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    download "$from/SHA256SUMS" "$work/SHA256SUMS"
    # The name of the archive has the version, so the list of checksums also says which version this is.
    line=$(grep "^[0-9a-f]\{64\}  journeyman-${version:-[0-9][^ ]*}-$target\.tar\.gz\$" "$work/SHA256SUMS" || true)
    [ -n "$line" ] || fail "$from/SHA256SUMS names no archive for $target${version:+ of version $version}"
    [ "$(echo "$line" | wc -l)" = 1 ] || fail "$from/SHA256SUMS names several archives for $target; set --version"
    sum=${line%% *} archive=${line##* }
    [ -z "$expected" ] || [ "$expected" = "$sum" ] || fail "SHA256SUMS has the checksum $sum, not $expected; nothing was installed"
    download "$from/$archive" "$work/$archive"
    (cd "$work" && echo "$line" | sha256sum -c --status -) ||
        fail "the checksum of $archive is not that in SHA256SUMS; nothing was installed"
    tar -C "$work" --no-same-owner -xzf "$work/$archive" || fail "$archive cannot be unpacked; nothing was installed"
    program=$work/${archive%.tar.gz}/journeyman
    named=$("$program" --version) || fail "the program does not run on this system: it may have an older glibc than the program needs"

    mkdir -p "$to" || fail "$to cannot be created; choose another folder with --to"
    # Replace the file, because a running program cannot be overwritten.
    cp "$program" "$to/.journeyman.new" || fail "$to cannot be written; choose another folder with --to"
    chmod 755 "$to/.journeyman.new"
    mv -f "$to/.journeyman.new" "$to/journeyman"
    echo "$named is installed in $to"
    case :$PATH: in
    *":$to:"*) ;;
    *) echo "$to is not on your search path; add it: export PATH=\"$to:\$PATH\"" ;;
    esac
    echo "Next: journeyman doctor    # what is missing, and how to fix it"
}

# Downloads a file. Redirects may not leave https unless the given address is http.
download() {
    if command -v curl >/dev/null 2>&1; then
        case $1 in
        https:*) set -- "$1" "$2" "=https" ;;
        *) set -- "$1" "$2" "=http,https,file" ;;
        esac
        curl --fail --silent --show-error --location --proto "$3" --retry 3 --output "$2" "$1" || fail "$1 cannot be downloaded"
    else
        fail "curl is needed"
    fi
}

main "$@"
