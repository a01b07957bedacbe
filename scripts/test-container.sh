#!/bin/sh
# Starts the image of the service as docs/install.md describes it: as an ordinary user, with a read-only root, without
# capabilities, and with the seccomp profile in deploy/container. Shows the demo in it, then serves, drives a job over
# HTTP, and continues the job in a second container with the same data. scripts/image.sh builds the image.
#
#   sh scripts/test-container.sh [IMAGE]      # needs root, Podman, git and curl
set -eu
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
image=${1:-localhost/journeyman:$version}
port=${PORT:-18080}
name=journeyman-test-$$
work=$(mktemp -d)

# The control groups of some machines work with only one of the runtimes.
runtime=crun
podman --cgroup-manager cgroupfs --runtime crun run --rm --pull never --network none --no-healthcheck \
    --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --entrypoint '["true"]' "$image" 2>/dev/null || runtime=runc
engine() {
    podman --cgroup-manager cgroupfs --runtime "$runtime" "$@"
}
# Creates a container: confined COMMAND OPTIONS... IMAGE ARGUMENTS...
confined() {
    command=$1
    shift
    engine "$command" --pull never --read-only --cap-drop all --security-opt no-new-privileges \
        --security-opt seccomp=deploy/container/seccomp.json --security-opt unmask=ALL --memory 4g --pids-limit 4096 \
        --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 \
        --env JOURNEYMAN_SANDBOX_ALLOW_DEGRADED=memory,process-count,cpu "$@"
}
# shellcheck disable=SC2317
end() {
    engine rm --force --time 0 "$name-1" "$name-2" >/dev/null 2>&1 || true
    engine volume rm --force "$name" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap end EXIT

echo "== demo"
confined run --rm --network none --no-healthcheck "$image" demo --exit > "$work/demo" 2> "$work/log" ||
    { cat "$work/log"; exit 1; }
tail -n 1 "$work/demo" | grep -o '"status":"completed"'

# Starts the service in a container, and waits until it is ready.
serve() {
    confined create --name "$1" --network host --volume "$name:/var/lib/journeyman" --no-healthcheck \
        --env "JOURNEYMAN_LISTEN=127.0.0.1:$port" "$image" >/dev/null
    engine start "$1" >/dev/null
    for _ in $(seq 100); do
        if curl --fail --silent --max-time 5 "http://127.0.0.1:$port/readyz" > "$work/ready"; then
            cat "$work/ready" && echo && return
        fi
        sleep 0.3
    done
    engine logs "$1" >&2
    exit 1
}
# Calls the HTTP interface.
api() {
    path=$1
    shift
    curl --fail --silent --show-error --max-time 60 -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
        "http://127.0.0.1:$port/v2/agent/shop/$path" "$@"
}
# Waits until the job is not active, and checks its status and the file on its branch.
finished() {
    api "job/$job?wait=60" > "$work/job"
    grep -q '"status": *"completed"' "$work/job" || { cat "$work/job"; engine logs "$1" >&2; exit 1; }
    git -C "$work/mine" fetch --quiet origin
    branch=$(git -C "$work/mine" for-each-ref --format='%(refname)' 'refs/remotes/origin/journeyman/*')
    [ "$(git -C "$work/mine" show "$branch:hello.txt")" = "$2" ]
    echo "hello.txt on ${branch##*/} is $2"
}

echo "== serve as user 10001 with a read-only root"
serve "$name-1"
[ "$(engine exec "$name-1" id -u)" = 10001 ]
if engine exec "$name-1" touch /usr/file 2>/dev/null; then
    echo "the root of the container can be written" >&2
    exit 1
fi
engine exec "$name-1" sh -c 'curl --fail --silent http://127.0.0.1:${JOURNEYMAN_LISTEN##*:}/healthz' && echo
engine exec "$name-1" journeyman project create shop --repository local:shop >/dev/null
key=$(engine exec "$name-1" journeyman key create --name test 2>/dev/null)
git init --quiet --initial-branch=main "$work/mine"
git -C "$work/mine" -c user.name=Me -c user.email=me@localhost commit --quiet --allow-empty --message Begin
git -C "$work/mine" remote add origin "http://me:$key@127.0.0.1:$port/git/shop.git"
git -C "$work/mine" push --quiet origin HEAD:main
api job -d '{"prompt": "Greet [[run id -u > uid.txt]] [[write hello.txt|Hello]]"}' > "$work/job"
job=$(sed -n 's/.*"id": *"\(job_[^"]*\)".*/\1/p' "$work/job" | head -n 1)
finished "$name-1" Hello

echo "== a second container continues the job"
engine stop --time 40 "$name-1" >/dev/null
[ "$(engine inspect --format '{{.State.ExitCode}}' "$name-1")" = 0 ]
serve "$name-2"
api "job/$job/message" -d '{"prompt": "Louder [[write hello.txt|HELLO]]"}' >/dev/null
finished "$name-2" HELLO
echo "test-container: $image passed with $runtime"
