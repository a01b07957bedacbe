"""The interface that an existing public service has too: its clients must work with another address and key.

The operations create, get and message answer as that service documents them, and need nothing that it does not
document.
"""

import re
import time
from typing import Any

import program

FIELDS = ["id", "status", "source", "model", "prLink", "createdAt", "archivedAt"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def record(answer: tuple[int, Any], status: int) -> dict[str, Any]:
    """Checks a record: these fields, in this order, and no others."""
    found, job = answer
    assert found == status, answer
    assert list(job) == FIELDS, job
    assert job["status"] in ("active", "completed", "archived", "failed"), job
    assert list(job["source"]) == ["repository", "ref"], job
    assert all(isinstance(text, str) for text in (job["id"], job["model"], *job["source"].values())), job
    assert job["prLink"] is None or job["prLink"].startswith("http"), job
    assert TIME.fullmatch(job["createdAt"]) and job["archivedAt"] is None, job
    if job["status"] == "active":
        assert job["prLink"] is None, job
    return job


def error(answer: tuple[int, Any], status: int) -> None:
    found, body = answer
    assert found == status, answer
    assert isinstance(body, dict) and isinstance(body["error"], str) and body["error"], answer


def check() -> None:
    # The documented limit is 100 an hour for each project; a lower one is reached faster.
    with program.serving("--create-per-hour=3", "--message-per-hour=2") as server:
        key = server.key("public")
        server.project(key, "docs")
        server.project(key, "other")
        jobs = "/v2/agent/docs/job"
        refusals(server, key, jobs)

        job = record(server.call("POST", jobs, key, {"prompt": "[[write a.txt|one]]"}), 201)
        path = f"{jobs}/{job['id']}"
        done = settled(server, key, path)
        assert done["status"] == "completed" and done["prLink"], done
        sent = record(server.call("POST", f"{path}/message", key, {"prompt": "[[append a.txt|two]]"}), 200)
        assert sent["id"] == job["id"] and sent["status"] == "active" and sent["prLink"] is None, sent
        assert settled(server, key, path)["prLink"] == done["prLink"]
        unchanged = record(server.call("POST", jobs, key, {"prompt": "[[say no files]]"}), 201)
        unchanged = settled(server, key, f"{jobs}/{unchanged['id']}")
        assert unchanged["status"] == "completed" and unchanged["prLink"] is None, unchanged

        extra = {"prompt": "[[say hi]]", "unknown": {"nested": [1, None]}, "messages": []}
        record(server.call("POST", f"{jobs}?unknown=1", key, extra), 201)
        record(server.call("POST", f"{path}/message", key, extra), 200)
        # Each of the two limits is its own, and that of one project.
        error(server.call("POST", jobs, key, {"prompt": "x"}), 429)
        error(server.call("POST", f"{path}/message", key, {"prompt": "x"}), 429)
        record(server.call("GET", path, key), 200)
        record(server.call("POST", "/v2/agent/other/job", key, {"prompt": "[[say hi]]"}), 201)
    print("clients: the public interface passed")


def refusals(server: program.Server, key: str, jobs: str) -> None:
    """Sends requests that are not valid. They do not count for the limits."""
    missing = f"{jobs}/job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7"
    for body in ({}, {"prompt": ""}, {"prompt": 1}, {"prompt": None}, [], "text"):
        error(server.call("POST", jobs, key, body), 400)
    for path in (missing, f"{jobs}/nonsense"):
        error(server.call("GET", path, key), 404)
        error(server.call("POST", f"{path}/message", key, {"prompt": "x"}), 404)
    error(server.call("POST", f"{missing}/message", "jmn_wrong", {"prompt": "x"}), 401)
    error(server.call("POST", "/v2/agent/none/job", key, {"prompt": "x"}), 404)


def settled(server: program.Server, key: str, path: str) -> dict[str, Any]:
    """Polls until the job is no longer active, as clients of that service do."""
    end = time.monotonic() + program.WAIT
    while (job := record(server.call("GET", path, key), 200))["status"] == "active":
        assert time.monotonic() < end, f"{path} stays active"
        time.sleep(0.1)
    return job
