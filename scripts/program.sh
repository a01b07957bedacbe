# For scripts that test the built program, to be sourced in the root of the project. `subject` says what the script tests.
# Sets JOURNEYMAN to the path of the program, and defines:
#
# - skip REASON: prints a conspicuous notice, and ends the script.
# - installed "$@": ends the script here if its first argument is "install", because it was only to install its tools;
#   otherwise, checks that the program was built.

notice() {
    echo "" >&2
    echo "=======================================================================" >&2
    echo "SKIPPED: $1" >&2
    echo "=======================================================================" >&2
}

skip() {
    notice "$subject: $1"
    exit 0
}

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
JOURNEYMAN=$(realpath -m "${JOURNEYMAN:-$target/debug/journeyman}")
export JOURNEYMAN

installed() {
    [ "${1:-}" != install ] || exit 0
    [ -x "$JOURNEYMAN" ] || {
        echo "$JOURNEYMAN is missing; build the program first: cargo build --locked" >&2
        exit 1
    }
}
