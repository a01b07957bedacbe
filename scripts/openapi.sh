#!/bin/sh
# Checks the OpenAPI document with two linters, which also compare its examples with its schemas.
set -eu
cd "$(dirname "$0")/.."

subject="the linters of docs/openapi.json"
. scripts/program.sh
cd tests/openapi
. ../../scripts/node.sh
[ "${1:-}" != install ] || exit 0
# Disables update checks and telemetry of the linters.
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$node" node_modules/@redocly/cli/bin/cli.js lint --config redocly.yaml --max-problems 50 ../../docs/openapi.json
"$node" node_modules/@stoplight/spectral-cli/dist/index.js lint --ruleset .spectral.yaml --fail-severity warn \
    ../../docs/openapi.json
