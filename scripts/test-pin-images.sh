#!/bin/sh
# Tests scripts/pin-images.sh with a registry on this machine, which wants a token for some images, and checks that the
# images in deploy/ and sdk/gitlab have digests.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
server=""
# shellcheck disable=SC2317
end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT
cat > "$work/registry.py" <<'END'
"""A registry: the manifest of an image is its path, "lied" has a wrong digest, and "secret/" needs a token."""

import hashlib, http.server, json, urllib.parse


class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        host = f"http://127.0.0.1:{self.server.server_port}"
        if self.path.startswith("/token?"):
            asked = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
            granted = asked == {"service": "test", "scope": "repository:secret/one:pull"}
            return self.reply(200 if granted else 403, json.dumps({"token": "t"}).encode())
        if self.path.startswith("/v2/secret/") and self.headers["Authorization"] != "Bearer t":
            challenge = f'Bearer realm="{host}/token",service="test",scope="repository:secret/one:pull"'
            return self.reply(401, b"{}", {"WWW-Authenticate": challenge})
        if "index" not in "".join(self.headers.get_all("Accept", [])) or "missing" in self.path:
            return self.reply(404, b"{}")
        body = self.path.encode()
        named = hashlib.sha256(b"x" if "lied" in self.path else body).hexdigest()
        return self.reply(200, body, {"Docker-Content-Digest": f"sha256:{named}"})

    def reply(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(server.server_port, flush=True)
server.serve_forever()
END
mkfifo "$work/port"
python3 "$work/registry.py" > "$work/port" &
server=$!
read -r port < "$work/port"
at=127.0.0.1:$port
digest() {
    printf %s "/v2/$1/manifests/$2" | sha256sum | cut -d ' ' -f 1
}
old=$(printf old | sha256sum | cut -d ' ' -f 1)

printf 'image: %s/a/b:1\nFROM %s/a/b:1.2@sha256:%s AS x\nimage: "%s/secret/one:v1-x"\nlocalhost/c:1 ${D}\n' \
    "$at" "$at" "$old" "$at" > "$work/file"
if sh scripts/pin-images.sh --check "$work/file" 2> "$work/complaint"; then exit 1; fi
grep -q "$at/a/b:1 $at/secret/one:v1-x" "$work/complaint"
sh scripts/pin-images.sh "$work/file" > "$work/printed"
printf 'image: %s/a/b:1@sha256:%s\nFROM %s/a/b:1.2@sha256:%s AS x\nimage: "%s/secret/one:v1-x@sha256:%s"\nlocalhost/c:1 ${D}\n' \
    "$at" "$(digest a/b 1)" "$at" "$(digest a/b 1.2)" "$at" "$(digest secret/one v1-x)" > "$work/expected"
diff "$work/expected" "$work/file"
sh scripts/pin-images.sh --check "$work/file"
sh scripts/pin-images.sh "$work/file" > /dev/null
diff "$work/expected" "$work/file"

# A digest that does not fit, and a tag that does not exist, change nothing.
for bad in lied missing; do
    printf 'image: %s/a/b:1\nimage: %s/z/%s:1\n' "$at" "$at" "$bad" > "$work/file"
    cp "$work/file" "$work/expected"
    if sh scripts/pin-images.sh "$work/file" > /dev/null 2> "$work/complaint"; then exit 1; fi
    grep -q "z/$bad:1" "$work/complaint"
    diff "$work/expected" "$work/file"
done

# The images of this project.
sh scripts/pin-images.sh --check
echo "test-pin-images: passed"
