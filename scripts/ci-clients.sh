#!/bin/sh
# Runs the GitHub Action and the GitLab CI component of sdk/ against the program that was built. Without Python, curl, jq
# or OpenSSL, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

subject="the GitHub Action and the GitLab CI component" folder=ci-clients
. scripts/python.sh
python3 scripts/gitlab-template.py --check
for tool in bash curl jq openssl; do
    command -v "$tool" >/dev/null 2>&1 || skip "$tool is missing (Debian: apt-get install $tool)"
done
"$python" -m pip install --quiet --requirement tests/ci/requirements.txt
installed "$@"
"$python" tests/ci/clients.py
