#!/bin/sh
# Checks the dependencies by the rules in deny.toml: which crate may use which, licenses, and sources. Checks them for
# known vulnerabilities if the database of https://rustsec.org can be fetched; otherwise this part is SKIPPED. Installs
# cargo-deny into target/tools, which takes about a minute, if no cargo-deny is installed.
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

if "$deny" --locked fetch db >target/deny-fetch.log 2>&1; then
    "$deny" --locked check --disable-fetch advisories
else
    echo "deny: the check for vulnerabilities was SKIPPED: the database cannot be fetched (target/deny-fetch.log)" >&2
fi
