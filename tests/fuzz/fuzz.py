"""Sends generated requests for every operation of docs/openapi.json to the program that was built.

No answer may have a server error, or a status, content type, header or body that the document does not allow.
"""

import os
import subprocess
import sys
from pathlib import Path

from program import ENVIRONMENT, ROOT, UNLIMITED, WAIT, Server, serving

# The number of random requests for each operation, in addition to those at the bounds of its parameters.
EXAMPLES = int(os.environ.get("EXAMPLES", "5"))

# The settings of single operations.
CONFIGURATION = Path(__file__).with_name("schemathesis.toml")

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


def fuzz(server: Server, key: str, *selection: str) -> bool:
    """Runs schemathesis on a selection of operations; returns True if every answer obeyed the document."""
    options = ["--phases=examples,coverage,fuzzing", f"--max-examples={EXAMPLES}", "--seed=1", "--generation-database=none"]
    options += ["--continue-on-failure", f"--request-timeout={WAIT}", "--no-color", "--warnings=off"]
    options += [f"--checks={','.join(CHECKS)}", f"--url={server.url}", *selection]
    program = Path(sys.executable).parent / "schemathesis"
    command = [program, f"--config-file={CONFIGURATION}", "run", ROOT / "docs/openapi.json", *options]
    command += ["--header", f"Authorization: Bearer {key}"]
    done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, cwd=server.data)
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
    return done.returncode == 0


with serving("--log=warn", "--webhook-networks=127.0.0.0/8", *UNLIMITED) as server:
    key = server.key("fuzz")
    for path, body in [
        ("/v2/projects", {"id": "shop", "repository": "local:shop"}),
        ("/v2/agent/shop/job", {"prompt": "[[say hi]]"}),
        ("/v2/projects/shop/webhooks", {"url": "http://127.0.0.1:9/", "events": ["job.failed"]}),
        ("/v2/projects/shop/templates", {"name": "Fix a bug", "prompt": "Fix this:"}),
    ]:
        status, answer = server.call("POST", path, key, body)
        assert status == 201, answer
    excluded = [f"--exclude-operation-id={name}" for name in STREAMS + KEY_ENDS]
    included = [f"--include-operation-id={name}" for name in KEY_ENDS]
    passed = [fuzz(server, key, *excluded), fuzz(server, server.key("ends"), *included)]
    assert all(passed), "an answer does not obey the document"
