"""Runs the public conformance suite against the server, and compares its failures with those that are expected.

The suite is made for a server with its own example tools, resources and prompts. A check that needs one of them fails
here; not-applicable.json lists these checks by reason. A failure that is not listed is an error, and so is a listed
check that does not fail in any run, so that the list stays true.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from program import SUITE_WAIT
from proxy import proxied

HERE = Path(__file__).resolve().parent

# The package, and its options. The first one has the checks of the newest version of the protocol.
RUNS = [
    ("@modelcontextprotocol/conformance", []),
    ("@modelcontextprotocol/conformance", ["--spec-version", "2025-11-25"]),
    ("conformance-stable", []),
]

# The least number of checks that pass. It fails if the suite could not run its scenarios at all.
PASSES = 150


def run(node: str, package: str, options: list[str], url: str) -> list[tuple[str, dict]]:
    """Returns each check with the name of its scenario."""
    program = HERE / "node_modules" / package / "dist/index.js"
    with tempfile.TemporaryDirectory() as folder:
        command = [node, program, "server", "--url", f"{url}/mcp", "--suite", "all", "--output-dir", folder, *options]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, timeout=SUITE_WAIT, **output)
        checks = []
        for file in Path(folder).glob("server-*/checks.json"):
            scenario = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]
            checks += [(scenario, check) for check in json.loads(file.read_text())]
    assert checks, done.stdout
    return checks


def check(node: str, server: str, key: str) -> None:
    listed = {name for names in json.loads((HERE / "not-applicable.json").read_text()).values() for name in names}
    passes, failures = 0, {}
    with proxied(server, key) as url:
        for package, options in RUNS:
            for scenario, found in run(node, package, options, url):
                passes += found["status"] == "SUCCESS"
                if found["status"] in ("FAILURE", "WARNING"):
                    failures[f"{scenario}/{found['id']}"] = found.get("errorMessage", "")
    for name in sorted(failures.keys() - listed):
        print(f"mcp: the check {name} fails: {failures[name]}")
    for name in sorted(listed - failures.keys()):
        print(f"mcp: the check {name} does not fail any more; remove it from not-applicable.json")
    assert failures.keys() == listed, "the conformance suite has failed"
    assert passes >= PASSES, f"only {passes} checks have passed"
    print(f"mcp: the conformance suite passed: {passes} checks; {len(listed)} do not apply")
