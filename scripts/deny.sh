#!/bin/sh
# Checks the dependencies by the rules in deny.toml: which crate may use which, licenses, and sources. Checks them for
# known vulnerabilities if the database of https://rustsec.org can be fetched; otherwise this part is SKIPPED. The
# variable ADVISORY_DB is the path of a clone of the database that is used instead, and must then be usable. Installs
# cargo-deny into target/tools, which takes about a minute, if no cargo-deny is installed.
#
#     git clone https://github.com/rustsec/advisory-db && ADVISORY_DB=advisory-db make check
set -eu
cd "$(dirname "$0")/.."

version=0.20.2
if command -v cargo-deny >/dev/null 2>&1; then
    deny=cargo-deny
else
    deny=target/tools/bin/cargo-deny
    if [ "$("$deny" --version 2>/dev/null)" != "cargo-deny $version" ]; then
        echo "deny: installing cargo-deny $version into target/tools" >&2
        cargo install --quiet --locked --debug --no-default-features --root target/tools "cargo-deny@$version"
    fi
fi

"$deny" --locked check --show-stats bans licenses sources

# Not even a library may bring a runtime into core, which cargo-deny has no rule for.
if cargo tree --quiet --locked --package journeyman-core --edges normal --prefix none | grep -q '^tokio '; then
    echo "deny: core must not depend on tokio" >&2
    exit 1
fi

if [ -n "${ADVISORY_DB:-}" ]; then
    # cargo-deny takes the database from its address only, so git gets the clone in place of that.
    clone=$(realpath "$ADVISORY_DB")
    config=target/deny-$$.toml
    trap 'rm -rf "$config" target/advisories-$$' EXIT
    sed "s|^\[advisories\]|&\ngit-fetch-with-cli = true\ndb-path = \"$PWD/target/advisories-$$\"|" deny.toml >"$config"
    GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0="url.file://$clone.insteadOf" \
        GIT_CONFIG_VALUE_0=https://github.com/RustSec/advisory-db \
        GIT_CONFIG_KEY_1=safe.directory GIT_CONFIG_VALUE_1='*' \
        "$deny" --locked --config "$config" check advisories
elif "$deny" --locked fetch db >target/deny-fetch.log 2>&1; then
    "$deny" --locked check --disable-fetch advisories
else
    echo "deny: the check for vulnerabilities was SKIPPED: the database cannot be fetched (target/deny-fetch.log)" >&2
fi
