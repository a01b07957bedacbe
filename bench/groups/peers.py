"""Peers: other programs that accept messages and process them, measured in the same run with the same load.

Each is a folder under `peers/` with `setup.sh FOLDER`, which installs pinned versions, and `measure.py FOLDER`, which
prints one line of JSON.
"""

import json
import os
import platform
import re
import subprocess
import sys

from rig.figures import Figure
from rig.machine import Skip, need, say
from rig.processes import Failed, run
from rig.site import BENCH

SHARED = True  # they belong to no build

ROWS = {
    "restate": "Restate",
    "bullmq": "BullMQ, Redis",
    "pg-boss": "pg-boss, PostgreSQL",
    "graphile-worker": "graphile-worker, PostgreSQL",
    "langgraph": "LangGraph server",
    "openhands": "OpenHands agent server",
}
# The packages whose pinned versions are in the report.
PACKAGES = {
    "restate": "@restatedev/restate-server",
    "bullmq": "bullmq",
    "pg-boss": "pg-boss",
    "graphile-worker": "graphile-worker",
    "langgraph": "langgraph-api",
    "openhands": "openhands-agent-server",
}
COLUMNS = {
    "accepts-1": ("accepts_per_second_1", "accepts, 1 client", "/s"),
    "accepts-64": ("accepts_per_second_64", "accepts, 64 clients", "/s"),
    "accept-p50": ("accept_p50_ms", "accept p50, 1 client", "ms"),
    "dispatch": ("dispatch_p50_ms", "dispatch p50", "ms"),
    "turns": ("turns_per_second", "trivial turns, 8 clients", "/s"),
    "turn-cpu": ("turn_cpu_ms", "processor time of a turn", "ms"),
    "start": ("start_ms", "start", "ms"),
    "memory": ("idle_memory_mb", "idle memory", "MiB"),
}
MATRIX = (ROWS, {key: f"{title}, {unit}" for key, (_, title, unit) in COLUMNS.items()})

FIGURES = [
    Figure(f"{row}-{key}", f"{name}: {title}", unit, more_is_better=unit == "/s")
    for row, name in ROWS.items()
    for key, (_, title, unit) in COLUMNS.items()
]

# What each peer does, and how it is used.
DOES = {
    "restate": "a durable virtual object for each job, with messages in order and journaled steps, over HTTP. Accepting "
    "is a one-way send, and a turn is a call. The memory is the server's; the processor time is that of server and "
    "service.",
    "bullmq": "a queue in Redis with `appendfsync always`, called in the Node.js process of its client and not over "
    "HTTP. There is no order within a job, and no record to poll except the queue's. A turn calls no model. Start and "
    "memory are those of Redis and the client.",
    "pg-boss": "a queue in PostgreSQL with its listener, called in the Node.js process of its client and not over "
    "HTTP. There is no order within a job. A turn calls no model. Start and memory are those of the client, without "
    "PostgreSQL.",
    "graphile-worker": "a queue in PostgreSQL with its listener, called in the Node.js process of its client and not "
    "over HTTP. There is no order within a job. A turn calls no model. Start and memory are those of the client, "
    "without PostgreSQL.",
    "langgraph": "a graph of one step in a thread for each job, over HTTP (`langgraph dev`); a message for a busy thread "
    "waits. The state is in memory: accepted messages are lost with the process.",
    "openhands": "a conversation for each job, with its real agent without tools, over HTTP; events are files that are "
    "not synced. Accepting adds a message without a run.",
}


def measure(session, program, note) -> None:
    note.remark(
        "None of them has git, a sandbox for each job, or pull requests: a turn runs in the peer's process, and is at "
        "most a call of a model on loopback that answers at once."
    )
    for name in ROWS:
        with note.covering(name):
            found = _measured(session, name)
            for key, (field, _, _) in COLUMNS.items():
                if found.get(field) is not None:
                    note(f"{name}-{key}", found[field])
            left = [f"{name}-{key}" for key, (field, *_) in COLUMNS.items() if found.get(field) is None]
            note.skip(left, "not measured for this peer")
            durable = "on disk before the answer" if found.get("durable") else "**not** on disk before the answer"
            note.remark(f"- {ROWS[name]} ({_version(name)}): {DOES[name]} Accepted: {durable}.")


def _version(name: str) -> str:
    """Returns the pinned version of a peer."""
    folder, package = BENCH / "peers" / name, PACKAGES[name]
    if (pinned := folder / "package.json").exists():
        return json.loads(pinned.read_text())["dependencies"][package]
    return re.search(rf"^{package}==(.+)$", (folder / "requirements.txt").read_text(), re.M)[1]


def _measured(session, name: str) -> dict:
    """Installs a peer if necessary, runs its script, and returns the figures."""
    folder, installed = BENCH / "peers" / name, session.cache / "peers" / name
    if isinstance(failure := session.shared.get(("installed", name)), Skip):
        raise failure
    if ("installed", name) not in session.shared:
        if (folder / "package.json").exists():
            if platform.machine() != "x86_64":
                raise Skip(f"its packages are pinned for x86-64, and this machine is {platform.machine()}")
            need("npm")
        say(f"    installing {name} into {installed}")
        try:
            run(["sh", folder / "setup.sh", installed], timeout=1800)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            session.shared["installed", name] = Skip(f"could not be installed: {error}")
            raise session.shared["installed", name] from error
        session.shared["installed", name] = True
    options = ["--seconds", session.seconds, "--work", session.work]
    if name in ("pg-boss", "graphile-worker"):
        options += ["--database-url", session.postgres().new_database()]
    environment = os.environ | {"PYTHONPATH": str(BENCH), "PYTHONDONTWRITEBYTECODE": "1"}
    printed = run([sys.executable, folder / "measure.py", installed, *options], env=environment, timeout=600)
    return json.loads(printed.strip().splitlines()[-1])
