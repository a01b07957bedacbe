"""Sends generated requests for every operation of docs/openapi.json to the program that was built.

No answer may have a server error, or a status, content type, header or body that the document does not allow.
"""

import os
import subprocess
import sys
from pathlib import Path

from service import ENVIRONMENT, ROOT, Service, folder

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


def fuzz(server: Service, key: str, *selection: str) -> bool:
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
    with folder("fuzz") as path:
        server = Service(path, "--log=warn", "--webhook-networks=127.0.0.0/8")
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
            sys.exit(f"fuzz: the server's status is {status}; its log:\n{server.log()[-10_000:]}")


main()
