#!/usr/bin/env bash
# Measures a release build on this machine, each number beside one that says what the machine can do. Needs wrk, curl and
# git. Prints a table; nothing here is a test: machines differ, and so do hours on one of them. To compare two builds,
# run it for each within minutes, with PROGRAM=/path/to/journeyman; SECONDS_EACH (5) is how long each load lasts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_EACH:-5}

if ! command -v wrk >/dev/null; then
    echo "bench: installing wrk" >&2
    sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends wrk curl >/dev/null
fi
[ -n "${PROGRAM:-}" ] || cargo build --quiet --release --locked --package journeyman
program=${PROGRAM:-$PWD/target/release/journeyman}

work=$(mktemp -d)
server=""
stop() { [ -z "$server" ] || { kill -9 "$server" 2>/dev/null && wait "$server" 2>/dev/null; server=""; } || true; }
trap 'stop; rm -rf "$work"' EXIT
row() { printf '%-58s %12s  %s\n' "$1" "$2" "${3:-}"; }

# An agent that never answers: what is accepted stays queued, so that accepting is measured and nothing else.
cat >"$work/config.toml" <<'TOML'
create-per-hour = 0
message-per-hour = 0
log = "warn"
[agents.idle]
command = ["sleep", "100000"]
TOML
serve() { # DATA WORKERS
    "$program" serve --config "$work/config.toml" --data-dir "$1" --workers "$2" --listen 127.0.0.1:18080 2>>"$work/log" &
    server=$!
    until curl -sf -o /dev/null "$url/readyz"; do sleep 0.005; done
}
url=http://127.0.0.1:18080
new_site() { # DATA: sets key
    key=$("$program" key create --name bench --data-dir "$1" 2>/dev/null)
    "$program" project create shop --repository local:shop --data-dir "$1" >/dev/null
    git init --quiet --initial-branch=main "$1-clone"
    git -C "$1-clone" -c user.name=b -c user.email=b@b commit --quiet --allow-empty --message Begin
    git -C "$1-clone" push --quiet "$1/repositories/shop.git" main
}
api() { curl -sf -H "Authorization: Bearer $key" -H 'Content-Type: application/json' "$@"; }
# CLIENTS SCRIPT [ID-FILE]: requests answered well in a second, and the median time of one.
load() {
    KEY=$key IDS=${3:-} wrk --threads $(($1 < 2 ? 1 : 2)) --connections "$1" --duration "${seconds}s" --latency --script "bench/$2.lua" "$url" >"$work/wrk"
    if grep -q 'Non-2xx' "$work/wrk"; then grep 'Non-2xx' "$work/wrk" >&2; fi
    rate=$(sed -n 's/^Requests\/sec: *//p' "$work/wrk" | cut -d. -f1)
    median=$(sed -n 's/^ *50% *//p' "$work/wrk")
}

new_site "$work/a"
begun=$(date +%s%N)
serve "$work/a" 1
row "start to first answer, existing store" "$(( ($(date +%s%N) - begun) / 1000000 )) ms"
row "memory, idle" "$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$server/status") MiB"
load 64 health; bare=$rate
row "bare answer of the framework (/healthz), 64 clients" "$rate /s" "median $median"

load 64 create
row "jobs created and on disk, 64 clients" "$rate /s" "median $median"
cursor=""
for _ in $(seq 40); do
    page=$(api "$url/v2/agent/shop/jobs?limit=100${cursor:+&cursor=$cursor}")
    grep -o '"id":"job_[0-9a-f]*"' <<<"$page" | cut -d'"' -f4 >>"$work/ids"
    cursor=$(sed -n 's/.*"nextCursor":"\([^"]*\)".*/\1/p' <<<"$page")
    [ -n "$cursor" ] || break
done
for clients in 1 16 64; do
    load "$clients" message "$work/ids"
    row "follow-ups accepted and on disk, $clients clients" "$rate /s" "median $median"
done
load 64 poll "$work/ids"
row "polls, 64 clients" "$rate /s" "$((100 * rate / bare)) % of the bare answer"
dd if=/dev/zero of="$work/fsync" bs=512 count=500 oflag=dsync 2>"$work/dd"
row "one synchronous write of 512 bytes to this disk" "$(sed -n 's/.*copied, \([0-9.]*\) s.*/\1/p' "$work/dd" | awk '{printf "%.2f ms", $1 * 2}')"
stop

new_site "$work/b"
serve "$work/b" 4
turns() { # PROMPT COUNT
    local begun; begun=$(date +%s%N)
    seq "$2" | xargs -P 4 -I{} curl -sf -o /dev/null -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
        -d "{\"prompt\":\"$1\"}" "$url/v2/agent/shop/job"
    until [ "$(curl -sf "$url/metrics" | sed -n 's/^journeyman_jobs_active //p')" = 0 ]; do sleep 0.02; done
    rate=$(( $2 * 1000000000 / ($(date +%s%N) - begun) ))
}
turns '[[say nothing changed]]' 100
row "turns end to end, nothing changed, 4 at a time" "$rate /s"
turns '[[write a.txt|a]]' 60
row "turns end to end, with commit and pull request, 4 at a time" "$rate /s"
stop
