#!/bin/sh
# Checks the direction of dependencies (ARCHITECTURE.md): core depends on no other crate of the project, the crates
# around it depend on core (and git), and only the program depends on adapters. SQL is only in store; axum is only in
# http, in dashboard and in the program. Tests may have more dependencies.
set -eu

bad=0
# allowed CRATE DEPENDENCY...: reports each unlisted crate of the project that CRATE uses outside its tests.
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

# only DEPENDENCY CRATE...: reports each unlisted crate that uses DEPENDENCY.
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
allowed net core
allowed trace core
allowed store core
allowed blobs core net
allowed sandbox core
allowed gateway core net
allowed forge core git
allowed repository core git
allowed worker core git repository trace
allowed agent core
allowed app core
allowed identity core net
allowed dashboard app core
allowed http app core dashboard trace

only rusqlite store
only tokio-postgres store
only object_store blobs
only axum http dashboard journeyman
# Requests of the service go through net, which limits addresses, redirects, time and size. The gateway streams its
# answers, identity has it for tests, the agent runs in the sandbox, and the program has a client of its own interface.
only reqwest net gateway identity agent journeyman
only agent-client-protocol worker agent
only genai agent
only opentelemetry trace journeyman
only tracing-opentelemetry trace journeyman
only argon2 identity
only openidconnect identity

if grep -Eq '^(tokio|axum|reqwest|rusqlite)[. ]' crates/core/Cargo.toml; then
    echo "layering: core must not depend on tokio, axum, reqwest or rusqlite" >&2
    bad=1
fi
exit $bad
