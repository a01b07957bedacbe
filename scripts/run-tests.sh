#!/usr/bin/env bash
# Runs test scripts of this folder at the same time, by default two; the environment variable PARALLEL sets another number.
# Prints the output of each script when it has ended. If scripts have failed, the last line names them, and the status is 1.
#
#     bash scripts/run-tests.sh browser fuzz openapi
#
# Each script has its own servers, ports and folders. target/test-output has the output of scripts that still run.
set -euo pipefail
cd "$(dirname "$0")/.."

parallel=${PARALLEL:-2}
outputs=${CARGO_TARGET_DIR:-target}/test-output
mkdir -p "$outputs"
begin=$SECONDS

declare -A names=() begins=()
failed=()

# Each script gets a process group, so that a signal also ends its servers.
set -m
stop() {
    for group in "${!names[@]}"; do kill -INT -- "-$group" || true; done
    wait
    exit 130
}
trap stop INT TERM

# Waits until a script has ended, and prints its output.
finish_one() {
    local group="" status=0
    wait -n -p group "${!names[@]}" || status=$?
    local name=${names[$group]}
    unset "names[$group]"
    local result=passed
    if [ "$status" != 0 ]; then
        result="FAILED with status $status"
        failed+=("$name")
    fi
    echo
    echo "===== $name $result after $((SECONDS - begins[$group])) s; its output:"
    cat "$outputs/$name.log"
}

for name in "$@"; do
    while [ "${#names[@]}" -ge "$parallel" ]; do finish_one; done
    echo "===== $name begins"
    sh "scripts/$name.sh" </dev/null >"$outputs/$name.log" 2>&1 &
    names[$!]=$name begins[$!]=$SECONDS
done
while [ "${#names[@]}" -gt 0 ]; do finish_one; done

echo
if [ "${#failed[@]}" -gt 0 ]; then
    echo "FAILED: ${failed[*]}; their output is above, and in $outputs" >&2
    exit 1
fi
echo "all scripts passed after $((SECONDS - begin)) s: $*"
