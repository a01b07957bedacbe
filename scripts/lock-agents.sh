#!/bin/sh
# Rewrites the lock files of agents after a version in agents/*.toml was changed on purpose: agents/locks/<id>/ holds a
# package-lock.json (npm) or a requirements.txt (PyPI) with the hashes of all packages. Needs node, npm 11 and uv.
#
#     sh scripts/lock-agents.sh [id …]
#
# The script runs no code of the packages. The files name no registry: packages come from the registry that the user has
# configured, and the hashes verify that they are the same. One file covers both architectures; check the output for
# packages that the registry lacked.
set -eu
cd "$(dirname "$0")/.."

command -v node >/dev/null 2>&1 || { echo "lock-agents: node is missing" >&2; exit 1; }
command -v npm >/dev/null 2>&1 || { echo "lock-agents: npm is missing" >&2; exit 1; }

# Prints the value of a key in the table [install], for example: value npm agents/pi.toml
value() {
    sed -n '/^\[install\]/,/^\[[^i]/s/^'"$1"' = //p' "$2"
}

lock_npm() {
    work=$(mktemp -d)
    node -e '
        const [packages, before] = process.argv.slice(1).map((text) => text && JSON.parse(text));
        const manifest = { name: "agent", private: true, dependencies: {}, optionalDependencies: {} };
        for (const one of packages) {
            const at = one.lastIndexOf("@");
            const [name, version] = [one.slice(0, at), one.slice(at + 1)];
            // One of the two packages is for another architecture; npm skips it if it is optional.
            const arches = name.includes("{arch}") ? ["arm64", "x64"] : [];
            for (const arch of arches) manifest.optionalDependencies[name.replace("{arch}", arch)] = version;
            if (arches.length === 0) manifest.dependencies[name] = version;
        }
        require("fs").writeFileSync("'"$work"'/package.json", JSON.stringify(manifest));
    ' "$2" "$3"
    day=$(printf %s "$3" | tr -d '"')
    (cd "$work" && npm install --package-lock-only --ignore-scripts --no-audit --no-fund --loglevel=error \
        --omit-lockfile-registry-resolved=true ${day:+"--before=$day"})
    node -e '
        const fs = require("fs");
        const lock = JSON.parse(fs.readFileSync(process.argv[1]));
        const is_there = (name) => Object.keys(lock.packages).some((place) => place.endsWith("node_modules/" + name));
        for (const [place, one] of Object.entries(lock.packages)) {
            if (place === "") continue;
            // npm skips an optional package whose engines exclude the node that runs npm here; the agents run on
            // another node.
            for (const field of ["engines", "funding", "license", "deprecated"]) delete one[field];
            // npm ci insists on every listed package, even on an optional one that the registry did not have.
            for (const name of Object.keys(one.optionalDependencies ?? {}).filter((name) => !is_there(name))) {
                console.error(`lock-agents: the registry does not have ${name}, an optional dependency of ${place}`);
                delete one.optionalDependencies[name];
            }
            if (one.resolved) throw new Error(`${place} names a registry`);
            if (!one.integrity && !one.inBundle) throw new Error(`${place} has no hash`);
        }
        fs.writeFileSync(process.argv[2], JSON.stringify(lock, null, 1) + "\n");
    ' "$work/package-lock.json" "$1"
    rm -r "$work"
}

lock_pip() {
    command -v uv >/dev/null 2>&1 || { echo "lock-agents: uv is missing (pip install uv)" >&2; exit 1; }
    node -e 'console.log(JSON.parse(process.argv[1]).join("\n"))' "$2" |
        uv pip compile - --quiet --universal --python-version "$(printf %s "$3" | tr -d '"')" --generate-hashes \
            --only-binary :all: --no-header --no-annotate --no-emit-index-url --output-file "$1" >/dev/null
}

for file in agents/*.toml; do
    id=$(basename "$file" .toml)
    [ $# = 0 ] || case " $* " in *" $id "*) ;; *) continue ;; esac
    npm=$(value npm "$file") pip=$(value pip "$file")
    [ -n "$npm$pip" ] || continue
    echo "lock-agents: $id" >&2
    mkdir -p "agents/locks/$id"
    [ -z "$npm" ] || lock_npm "$PWD/agents/locks/$id/package-lock.json" "$npm" "$(value before "$file")"
    [ -z "$pip" ] || lock_pip "agents/locks/$id/requirements.txt" "$pip" "$(value python "$file")"
done
