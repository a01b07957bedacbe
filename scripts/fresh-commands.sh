# Types the commands of README.md in a fresh system. scripts/fresh.sh runs this with bash, as root.
set -euo pipefail

# Prints the commands of the n-th block of shell commands in a section of README.md.
block() {
    awk -v section="## $1" -v n="$2" '
        /^## / { inside = ($0 == section) }
        inside && /^```/ { if (open) { open = 0 } else if ($0 == "```sh" && ++count == n) { open = 1 }; next }
        open' README.md
}

# The first block installs from the sources, and serves. The package has installed the program.
block "Run it" 1 | grep '^journeyman ' > first
grep -q '^journeyman doctor' first && grep -q '^journeyman serve' first
journeyman --version
journeyman doctor
journeyman serve > log 2>&1 &
service=$!
trap 'kill $service 2>/dev/null; wait $service 2>/dev/null || true' EXIT
for _ in $(seq 100); do
    curl -fs http://127.0.0.1:8080/readyz > ready && break
    kill -0 $service || { cat log; exit 1; }
    sleep 0.2
done
cat ready; echo

# "From a repository of yours."
git init --quiet --initial-branch=main mine
cd mine
git config user.name Me && git config user.email me@localhost
echo '# Shop' > README.md && git add . && git commit --quiet --message 'Begin'
cd ..
# At its prompt for a password, git gets the key that the commands have put into the environment.
printf '#!/bin/sh\necho "$JOURNEYMAN_KEY"\n' > askpass
chmod 755 askpass
export GIT_ASKPASS=$PWD/askpass

block "Run it" 2 > second
[ -s second ]
cat second
(cd mine && . ../second) | tee watched
grep -q '\bcompleted\b' watched

# The HTTP requests; JOB stands for the ID in the first answer.
block "Run it" 3 > third
[ "$(grep -c '^curl' third)" = 3 ]
JOURNEYMAN_KEY=$(journeyman key create --name http --project shop 2>/dev/null || journeyman key create --name http)
grep -v '^curl' third > setup && . ./setup
. <(grep '^curl' third | head -n 1) > answer
job=$(sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' answer | head -n 1)
[ -n "$job" ] || { cat answer; exit 1; }
. <(grep '^curl' third | sed -n "2s/JOB/$job/p") > answer
grep -q '"completed"' answer || { cat answer; exit 1; }
. <(grep '^curl' third | sed -n "3s/JOB/$job/p") > answer
. <(grep '^curl' third | sed -n "2s/JOB/$job/p") > answer
grep -q '"completed"' answer || { cat answer; exit 1; }
git clone --quiet http://me:"$JOURNEYMAN_KEY"@127.0.0.1:8080/git/shop.git shop
branch=$(git -C shop for-each-ref --format='%(refname)' 'refs/remotes/origin/journeyman/say-*')
[ "$(git -C shop show "$branch:bye.txt")" = BYE ]
echo "the follow-up is on $branch"

kill $service && wait $service
trap - EXIT
journeyman demo --exit | tail -n 1 | grep -o '"status": *"completed"'
