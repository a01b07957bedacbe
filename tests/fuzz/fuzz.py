"""Sends generated requests for every operation of docs/openapi.json to the program that was built.

No answer may have a server error, or a status, content type, header or body that the document does not allow.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("JOURNEYMAN", ROOT / "target/debug/journeyman")).resolve()

# Settings in the environment must not affect the server.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "JOURNEYMAN" not in name}

# The number of random requests for each operation, in addition to those at the bounds of its parameters.
EXAMPLES = int(os.environ.get("EXAMPLES", "5"))

# These streams do not end.
STREAMS = ["streamEvents", "streamProjectEvents", "streamAllEvents"]

# These operations can end the key that they are sent with.
KEY_ENDS = ["revokeKey", "rotateKey"]

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]


class Server:
    def __init__(self, folder: Path):
        self.data = folder / "data"
        self.log = folder / "log"
        flags = ["--listen=127.0.0.1:0", "--log=warn", "--grace=1s", "--webhook-networks=127.0.0.0/8"]
        flags += ["--create-per-hour=0", "--message-per-hour=0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", f"--data-dir={self.data}", *flags],
                env=ENVIRONMENT,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+)/setup\?link=", line):
                self.url = found[1]
                return
        sys.exit(f"the server did not start:\n{self.log.read_text()}")

    def key(self, name: str) -> str:
        command = [PROGRAM, "key", "create", f"--name={name}", "--expires=1day", f"--data-dir={self.data}"]
        done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.split()[-1]

    def post(self, path: str, key: str, body: dict) -> dict:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def fuzz(server: Server, key: str, *selection: str) -> bool:
    """Runs schemathesis on a selection of operations; returns True if every answer obeyed the document."""
    options = ["--phases=examples,coverage,fuzzing", f"--max-examples={EXAMPLES}", "--seed=1", "--generation-database=none"]
    options += ["--continue-on-failure", "--request-timeout=20", "--no-color", "--warnings=off"]
    options += [f"--checks={','.join(CHECKS)}", f"--url={server.url}", *selection]
    program = Path(sys.executable).parent / "schemathesis"
    command = [program, "run", ROOT / "docs/openapi.json", *options, "--header", f"Authorization: Bearer {key}"]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, cwd=server.data)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
    return done.returncode == 0


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="journeyman-fuzz-", ignore_cleanup_errors=True) as folder:
        # Sandboxes need a folder that other users can pass through.
        Path(folder).chmod(0o755)
        server = Server(Path(folder))
        try:
            key = server.key("fuzz")
            server.post("/v2/projects", key, {"id": "shop", "repository": "local:shop"})
            server.post("/v2/agent/shop/job", key, {"prompt": "[[say hi]]"})
            server.post("/v2/projects/shop/webhooks", key, {"url": "http://127.0.0.1:9/", "events": ["job.failed"]})
            excluded = [f"--exclude-operation-id={name}" for name in STREAMS + KEY_ENDS]
            included = [f"--include-operation-id={name}" for name in KEY_ENDS]
            passed = [fuzz(server, key, *excluded), fuzz(server, server.key("ends"), *included)]
        finally:
            status = server.stop()
        if not all(passed) or status != 0:
            sys.exit(f"fuzz: the server's status is {status}; its log:\n{server.log.read_text()[-10_000:]}")


main()
