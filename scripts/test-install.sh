#!/bin/sh
# Installs with deploy/install.sh from the packages in target/packages, over HTTP from this machine, and checks that
# damaged and missing files are refused.
set -eu
cd "$(dirname "$0")/.."

out=$(realpath "${OUT:-${CARGO_TARGET_DIR:-target}/packages}")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
archive=journeyman-$version-$(uname -m)-unknown-linux-gnu.tar.gz
work=$(mktemp -d)
server=""
# shellcheck disable=SC2317
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
mkdir "$work/good" "$work/damaged" "$work/empty" "$work/home"
ln "$out/$archive" "$work/good/" 2>/dev/null || cp "$out/$archive" "$work/good/"
cp "$out/SHA256SUMS" "$work/good/"
cp "$out/SHA256SUMS" "$work/damaged/"
head -c 1000000 "$out/$archive" > "$work/damaged/$archive"
: > "$work/empty/SHA256SUMS"
python3 -u -m http.server --bind 127.0.0.1 --directory "$work" 0 > "$work/log" 2>&1 &
server=$!
url=""
for _ in $(seq 100); do
    url=$(sed -n 's/.*(\(http:[^)]*\)).*/\1/p' "$work/log")
    [ -z "$url" ] || break
    sleep 0.1
done
url=${url%/}

install() {
    HOME=$work/home sh deploy/install.sh --to "$work/bin" "$@" > "$work/answer" 2>&1
}
refused() {
    words=$1
    shift
    if install "$@" || ! grep -q -- "$words" "$work/answer"; then
        echo "test-install: expected a refusal with \"$words\" of: $*" >&2
        cat "$work/answer" >&2
        exit 1
    fi
    [ ! -e "$work/bin/journeyman" ]
}

refused "is not that in SHA256SUMS; nothing was installed" --from "$url/damaged"
refused "names no archive for" --from "$url/empty"
refused "names no archive for .* of version 99.0.0" --from "$url/good" --version 99.0.0
refused "cannot be downloaded" --from "$url/nowhere"
refused "nothing was installed" --from "$url/good" --sha256 "$(printf '%064d' 0)"
refused "unknown option" --force
refused "needs a value" --version
install --from "$url/good/" || { cat "$work/answer" >&2; exit 1; }
cat "$work/answer"
"$work/bin/journeyman" --version | grep -q "^journeyman $version"
# An update replaces the program also while it runs.
"$work/bin/journeyman" serve --data-dir "$work/data" --listen 127.0.0.1:0 >/dev/null 2>&1 &
service=$!
install --from "$url/good" --version "v$version" || { kill "$service"; cat "$work/answer" >&2; exit 1; }
kill "$service" && wait "$service" || true
echo "test-install: passed"
