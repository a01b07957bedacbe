# Tests a service that systemd has started, and prints "passed". scripts/test-units.sh runs this as root, in namespaces.
set -eu

fail() {
    echo "units-commands: $*"
    systemctl status --no-pager --full journeyman || true
    exit 1
}
url=http://127.0.0.1:8080
api() {
    path=$1
    shift
    curl --fail --silent --show-error --max-time 60 -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
        "$url/v2/agent/shop/$path" "$@"
}
# Waits until the service has tested its sandbox.
ready() {
    for _ in $(seq 200); do
        if curl --fail --silent --max-time 5 $url/readyz > /tmp/ready && grep -q '"enough":' /tmp/ready; then
            grep -q '"sandbox":null' /tmp/ready || return 0
        fi
        sleep 0.1
    done
    fail "the service is not ready"
}
# Waits for the end of the job, and checks a file on its branch.
finished() {
    api "job/$job?wait=60" > /tmp/job
    grep -q '"status": *"completed"' /tmp/job || fail "the job has not completed: $(cat /tmp/job)"
    git -C /tmp/mine fetch --quiet origin
    branch=$(git -C /tmp/mine for-each-ref --format='%(refname)' 'refs/remotes/origin/journeyman/*')
    [ "$(git -C /tmp/mine show "$branch:hello.txt")" = "$1" ] || fail "hello.txt is not $1"
}

ready
cat /tmp/ready && echo
# Without the controllers of version 1, a nested systemd may have none.
[ ! -d /sys/fs/cgroup/memory ] || grep -q '"lost":\[\]' /tmp/ready || fail "guarantees of the sandbox are missing"
pid=$(systemctl show --property MainPID --value journeyman)
grep -E '^(CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
grep -q '^NoNewPrivs:.*1$' "/proc/$pid/status" || fail "the service can gain privileges"
grep -q '^Max core file size *0 *0 ' "/proc/$pid/limits" || fail "the service can leave core dumps"

journeyman project create shop --repository local:shop >/dev/null
key=$(journeyman key create --name test 2>/dev/null)
git init --quiet --initial-branch=main /tmp/mine
# What compilers, interpreters, debuggers and test suites do; each line of the result is a failure.
cat > /tmp/mine/probe.sh <<'END'
t() {
    command -v "$1" >/dev/null 2>&1 || return 0
    "$@" > /tmp/output 2>&1 || { echo "$*:"; cat /tmp/output; }
}
{
    t setarch -R true
    t nice -n 3 true
    t taskset -c 0 true
    t ionice -c 3 true
    t chrt -b 0 true
    t script -qc tty /dev/null
    t strace -o /dev/null true
    t git log -1
    t node -e 'for (let i = 0; i < 1e6; i++) Math.sqrt(i)'
    t python3 -c 'import ctypes, socket; socket.socket(); socket.socket(socket.AF_INET6); socket.socket(socket.AF_UNIX)'
    t python3 -c 'import multiprocessing as m; m.Pool(2).map(abs, [1, 2])'
    t perl -e 'print 1'

} > failures.txt
END
git -C /tmp/mine add . && git -C /tmp/mine -c user.name=Me -c user.email=me@localhost commit --quiet --message Begin
git -C /tmp/mine remote add origin "http://me:$key@127.0.0.1:8080/git/shop.git"
git -C /tmp/mine push --quiet origin HEAD:main
api job -d '{"prompt": "Greet [[run sh probe.sh]] [[write hello.txt|Hello]]"}' > /tmp/job
job=$(sed -n 's/.*"id": *"\(job_[^"]*\)".*/\1/p' /tmp/job | head -n 1)
finished Hello
git -C /tmp/mine show "$branch:failures.txt" > /tmp/failures
[ ! -s /tmp/failures ] || fail "programs in the sandbox fail: $(cat /tmp/failures)"

# The folder of the data exists at the second start, with the group of sandboxes.
systemctl restart journeyman
ready
api "job/$job/message" -d '{"prompt": "Louder [[write hello.txt|HELLO]]"}' >/dev/null
finished HELLO
systemctl stop journeyman
[ "$(systemctl show --property Result --value journeyman)" = success ] || fail "the service did not end well"
# The error of a folder that the unit does not permit says what to do.
mkdir -p /run/systemd/system/journeyman.service.d
printf '[Service]\nRestart=no\nEnvironment=JOURNEYMAN_DATA_DIR=/srv/other\n' > /run/systemd/system/journeyman.service.d/other.conf
systemctl daemon-reload
systemctl start journeyman
for _ in $(seq 100); do
    [ "$(systemctl show --property ActiveState --value journeyman)" = failed ] && break
    sleep 0.1
done
grep 'ReadWritePaths=.*/srv/other' /out/service || fail "the error of a folder that is read-only does not say what to do"
systemctl --version | head -n 1
echo passed
