#!/bin/sh
# Writes the digest of each image that deploy/ and sdk/gitlab name behind its tag, as name:tag@sha256:…, so that a tag
# that is moved changes nothing. A digest that is there is replaced by the present one of the tag.
#
#   sh scripts/pin-images.sh [FILE…]             # asks the registries; needs curl, jq and sha256sum
#   sh scripts/pin-images.sh --check [FILE…]     # asks nobody, and fails if an image has no digest
#
# The digest is computed from the manifest that the registry sends. Images are recognized by the names of their
# registries: docker.io, ghcr.io, quay.io, and 127.0.0.1 with a port, for tests. All are read without a credential.
set -eu
cd "$(dirname "$0")/.."

check=no
if [ "${1:-}" = --check ]; then
    check=yes
    shift
fi
is_default=no
if [ $# = 0 ]; then
    is_default=yes
    set -- deploy/compose.yaml deploy/container/Containerfile sdk/gitlab/template.yml
fi
image='(docker\.io|ghcr\.io|quay\.io|127\.0\.0\.1:[0-9]+)/[a-z0-9._/-]+:[A-Za-z0-9_][A-Za-z0-9._-]*'
digest='@sha256:[0-9a-f]{64}'
images=$(grep -Eho "$image($digest)?" "$@" | sort -u)
[ -n "$images" ] || { echo "pin-images: there is no image in $*" >&2; exit 1; }

if [ $check = yes ]; then
    if loose=$(echo "$images" | grep -Ev "$digest\$"); then
        echo "pin-images: these images have no digest; run sh scripts/pin-images.sh: $(echo "$loose" | tr '\n' ' ')" >&2
        exit 1
    fi
    echo "pin-images: all $(echo "$images" | wc -l) images have digests"
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Sends a request for a manifest, with the arguments: fetch URL [HEADER]. Prints the status.
fetch() {
    curl --silent --show-error --location --max-time 60 --dump-header "$work/head" --output "$work/manifest" \
        --write-out '%{http_code}' ${2:+--header "$2"} \
        --header 'Accept: application/vnd.oci.image.index.v1+json' \
        --header 'Accept: application/vnd.docker.distribution.manifest.list.v2+json' \
        --header 'Accept: application/vnd.oci.image.manifest.v1+json' \
        --header 'Accept: application/vnd.docker.distribution.manifest.v2+json' "$1"
}
# Prints a parameter of the challenge of a registry.
parameter() {
    sed -n 's/^[Ww][Ww][Ww]-[Aa]uthenticate: *[Bb]earer //p' "$work/head" | tr ',' '\n' | tr -d '\r' |
        sed -n "s/^ *$1=\"\(.*\)\"\$/\1/p"
}
# Prints the digest of an image: resolve HOST NAME TAG.
resolve() {
    case $1 in
    docker.io) base=https://registry-1.docker.io ;;
    127.0.0.1:*) base=http://$1 ;;
    *) base=https://$1 ;;
    esac
    url=$base/v2/$2/manifests/$3
    status=$(fetch "$url")
    if [ "$status" = 401 ]; then
        realm=$(parameter realm) service=$(parameter service)
        case $realm in
        https://*) ;;
        http://127.0.0.1:*) [ "${1%:*}" = 127.0.0.1 ] || return 1 ;;
        *) return 1 ;;
        esac
        token=$(curl --fail --silent --show-error --max-time 60 --get --data-urlencode "service=$service" \
            --data-urlencode "scope=repository:$2:pull" "$realm" | jq --raw-output '.token // .access_token')
        status=$(fetch "$url" "Authorization: Bearer $token")
    fi
    [ "$status" = 200 ] || { echo "pin-images: $1/$2:$3: the registry has answered $status" >&2; return 1; }
    computed=sha256:$(sha256sum < "$work/manifest" | cut -d ' ' -f 1)
    named=$(tr -d '\r' < "$work/head" | sed -n 's/^[Dd]ocker-[Cc]ontent-[Dd]igest: *//p' | tail -n 1)
    if [ -n "$named" ] && [ "$named" != "$computed" ]; then
        echo "pin-images: $1/$2:$3: the manifest has the digest $computed, and not $named as the registry says" >&2
        return 1
    fi
    echo "$computed"
}

echo "$images" | sed -E "s/$digest\$//" | sort -u > "$work/images"
: > "$work/edits"
while read -r one; do
    host=${one%%/*}
    path=${one#*/}
    found=$(resolve "$host" "${path%:*}" "${path##*:}")
    echo "$one@$found"
    quoted=$(echo "$one" | sed 's/[.]/\\./g')
    # The end of the tag is no part of a longer one.
    printf '%s\n' "s#$quoted($digest)?([^A-Za-z0-9._@-]|\$)#$one@$found\\2#g" >> "$work/edits"
done < "$work/images"
# Nothing is changed unless all images were found.
for file in "$@"; do
    sed -E -f "$work/edits" "$file" > "$work/new"
    cmp -s "$work/new" "$file" || cat "$work/new" > "$file"
done
if [ $is_default = yes ]; then
    python3 scripts/gitlab-template.py
fi
