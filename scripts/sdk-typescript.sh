#!/bin/sh
# Checks the TypeScript client: its generated types, lint, types, the tests with the program that was built, and the
# package. Without Node.js, it skips them and prints a conspicuous notice.
set -eu
cd "$(dirname "$0")/.."

subject="the tests of the TypeScript client"
. scripts/program.sh

cd sdk/typescript
. ../../scripts/node.sh
installed "$@"
rm -rf build dist

mkdir -p build/generated
"$node" scripts/generate.mjs build/generated
diff -r src/generated build/generated >build/generated.diff || {
    head -40 build/generated.diff >&2
    echo "sdk-typescript: src/generated differs from docs/openapi.json; run npm run generate in sdk/typescript" >&2
    exit 1
}

"$node" node_modules/@biomejs/biome/bin/biome check --error-on-warnings .
"$node" node_modules/typescript/bin/tsc -p tsconfig.build.json
"$node" node_modules/typescript/bin/tsc -p tsconfig.json
"$node" --test build/tests/main.test.js
npm pack --ignore-scripts --loglevel=error --pack-destination build
