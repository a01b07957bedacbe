"""Calls the server with the command line of the public inspector, by HTTP and through `journeyman mcp`."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from program import SUITE_WAIT, WAIT

PACKAGE = Path(__file__).resolve().parent / "node_modules/@modelcontextprotocol/inspector"


class Inspector:
    def __init__(self, node: str, connection: list[str], environment: dict[str, str]):
        self.command = [node, PACKAGE / "clients/launcher/build/index.js", "--cli", *connection]
        self.environment = environment

    def run(self, *options: str) -> Any:
        command = [*self.command, *options]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=SUITE_WAIT)
        answer = json.loads(done.stdout) if done.stdout else None
        # The inspector also fails if the result of a tool is an error.
        assert answer and (done.returncode == 0 or answer.get("isError")), f"{done.returncode}: {done.stderr}"
        return answer

    def call(self, tool: str, *arguments: str) -> Any:
        options = [option for argument in arguments for option in ("--tool-arg", argument)]
        return self.run("--method", "tools/call", "--tool-name", tool, *options)


def ended(inspector: Inspector, job: str) -> Any:
    """Waits until a job is no longer active, and returns it. A call waits for less time than clients usually do."""
    end = time.monotonic() + WAIT
    while True:
        found = inspector.call("get_job", f"job={job}", "wait=20")["structuredContent"]
        if not found["stillActive"]:
            return found
        assert time.monotonic() < end, f"the job does not end: {found}"


def steps(inspector: Inspector) -> None:
    tools = inspector.run("--method", "tools/list", "--strict")["tools"]
    assert {"create_job", "send_message", "get_job"} <= {tool["name"] for tool in tools}, tools
    job = inspector.call("create_job", "prompt=[[write i.txt|one]] [[say inspected]]")["structuredContent"]["job"]["id"]
    done = ended(inspector, job)
    assert done["job"]["status"] == "completed" and "inspected" in done["answer"]["text"], done
    templates = inspector.run("--method", "resources/templates/list")["resourceTemplates"]
    assert templates[0]["uriTemplate"].startswith("journeyman://job/"), templates
    read = inspector.run("--method", "resources/read", "--uri", f"journeyman://job/{job}/transcript")
    assert "| inspected" in read["contents"][0]["text"], read
    refused = inspector.call("get_job", "job=job_0")
    assert refused["isError"] and "job_not_found" in refused["content"][0]["text"], refused


def check(node: str, program: str, url: str, key: str, environment: dict[str, str]) -> None:
    header = f"Authorization: Bearer {key}"
    steps(Inspector(node, [f"{url}/mcp", "--transport", "http", "--header", header], environment))
    variables = ["-e", f"JOURNEYMAN_URL={url}", "-e", f"JOURNEYMAN_KEY={key}"]
    steps(Inspector(node, [*variables, program, "mcp"], environment))
    print("mcp: the inspector passed (http, stdio)")
