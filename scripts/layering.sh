#!/bin/sh
# The direction of dependencies (ARCHITECTURE.md): core stands alone, the crates around it know core (and git), only the
# program knows adapters; SQL only in store, axum only in http and dashboard. Tests may reach further.
set -eu

bad=0
# allowed CRATE DEPENDENCY...: the crate's own crates beside its tests' are among these.
allowed() {
    crate=$1
    shift
    for found in $(cargo tree --quiet --locked --package "journeyman-$crate" --edges normal --depth 1 --prefix none |
        tail -n +2 | sed -n 's/^journeyman-\([a-z]*\) .*/\1/p'); do
        case " $* " in
        *" $found "*) ;;
        *)
            echo "layering: $crate must not depend on $found" >&2
            bad=1
            ;;
        esac
    done
}

# only DEPENDENCY CRATE...: nobody else names it.
only() {
    dependency=$1
    shift
    for manifest in crates/*/Cargo.toml; do
        crate=$(basename "$(dirname "$manifest")")
        if grep -q "^$dependency[. ]" "$manifest"; then
            case " $* " in
            *" $crate "*) ;;
            *)
                echo "layering: $crate must not use $dependency" >&2
                bad=1
                ;;
            esac
        fi
    done
}

allowed core
allowed git core
allowed store core
allowed blobs core
allowed sandbox core
allowed gateway core
allowed forge core git
allowed worker core git
allowed agent core
allowed dashboard core
allowed identity core
allowed http core dashboard

only rusqlite store
only tokio-postgres store
only object_store blobs
only axum http dashboard journeyman
only agent-client-protocol worker agent
only genai agent
only argon2 identity
only openidconnect identity

if grep -Eq '^(tokio|axum|reqwest|rusqlite)[. ]' crates/core/Cargo.toml; then
    echo "layering: core must stay pure" >&2
    bad=1
fi
exit $bad
