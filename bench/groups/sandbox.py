"""The sandbox: its start and its end, calls of models, and the output of agents.

The start is the difference between two installations, one with `sandbox = "none"`, in the time from the answer to a
job's first message until its agent is prompted. The end is the time from an agent's last message until the control
group of its sandbox is empty, including all that the service does in between.
"""

import http.server
import json
import statistics
import threading
import time
from pathlib import Path

from rig.figures import Figure
from rig.machine import Skip
from rig.processes import Failed, resident_kib
from rig.site import BENCH, PROBE_AGENT

from .dispatch import prompted

JOB_COUNT = 12
CALLS = 300
PRINTED = 200  # MB

FIGURES = [
    Figure("start", "a sandbox, until its agent is prompted, minus a bare process, p50", "ms"),
    Figure("bare", "the same for a bare process, from the answer to the message, p50", "ms"),
    Figure("end", "an agent's last message → its control group is empty, p50", "ms"),
    Figure("direct", "a direct call of a model on loopback, to its end, p50", "ms"),
    Figure("added", "what the service adds to it, p50", "ms"),
    Figure("added-first", "what it adds to the first byte of the answer, p50", "ms"),
    Figure("printed", f"additional memory of the service after an agent has printed {PRINTED} MB", "MiB"),
]

NONE = 'sandbox = "none"\n'
COLD = "warm-agents = 0\n"
# The small agent writes no session, for which the service would give it time.
NO_FLUSH_AGENT = PROBE_AGENT.replace("[agents.probe]", "[agents.noflush]\nflush-millis = 0")


def measure(session, program, note) -> None:
    with note.covering("start"), note.covering("bare"):
        bare, contained = (_cold(session, program, settings) for settings in (NONE, ""))
        note("bare", bare)
        note("start", contained - bare)
    with note.covering("end"):
        note("end", _end(session, program))
    with note.covering("direct"), note.covering("added"):
        _calls(session, program, note)
    with note.covering("printed"):
        note("printed", _printed(session, program))


def _cold(session, program, settings) -> float:
    with session.site(program, settings=settings) as site:
        site.finish(site.create("[[say x]]"))
        delays = []
        for _ in range(JOB_COUNT):
            job = site.create(agent="probe")
            answered = time.time()
            site.finish(job)
            delays.append((prompted(site, job)[0][0] - answered) * 1000)
    session.drop(site)
    return statistics.median(delays)


def _end(session, program) -> float:
    with session.site(program, settings=COLD, tables=NO_FLUSH_AGENT) as site:
        site.finish(site.create("[[say x]]"))
        folder = _groups(site.server.pid)
        delays = []
        for _ in range(JOB_COUNT):
            job = site.create(agent="noflush")
            _wait(folder, True)
            # Its message is stored later, so watch its control group instead.
            _wait(folder, False)
            ended = time.time()
            site.finish(job)
            delays.append((ended - prompted(site, job)[0][0]) * 1000)
    session.drop(site)
    return statistics.median(delays)


def _groups(pid: int) -> Path:
    """Returns the folder of the service's control groups for processes."""
    roots = [Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")]
    found = [path for root in roots if root.is_dir() for path in root.rglob(f"journeyman-*-{pid}") if path.is_dir()]
    if not found:
        raise Skip("the service has no control groups here")
    return found[0]


def _wait(folder: Path, has_members: bool) -> None:
    """Waits until the control groups have members, or none."""
    until = time.monotonic() + 60
    while _members(folder) != has_members:
        if time.monotonic() > until:
            raise Failed("the agent did not begin or end within 60 s")
        time.sleep(0.0002)


def _members(folder: Path) -> bool:
    return any(path.read_text() for path in folder.glob("*/cgroup.procs"))


class Model(http.server.BaseHTTPRequestHandler):
    """A model that answers at once, in several pieces."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):  # noqa: N802 (the name is the library's)
        self.rfile.read(int(self.headers["content-length"]))
        begun = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}
        events = [begun, {"type": "message_delta", "usage": {"output_tokens": 9}}, {"type": "message_stop"}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            piece = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


def _agent(direct: str) -> str:
    text = (BENCH / "model_agent.py").read_text()
    environment = {"MODEL_URL": "{model_url}", "MODEL_TOKEN": "{model_token}", "DIRECT_URL": direct}
    pairs = ", ".join(f'{name} = "{value}"' for name, value in environment.items())
    return f"[agents.caller]\ncommand = [\"python3\", \"-c\", '''\n{text}''']\nenvironment = {{ {pairs} }}\n"


def _calls(session, program, note) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    key = session.folder()
    key.write_text("sk-x\n")
    tables = f'[models.anthropic]\nbase-url = "{url}"\nkey-file = "{key}"\n'
    try:
        with session.site(program, settings=NONE, tables=_agent(url) + tables) as site:
            job = site.create(f"compare {CALLS}", agent="caller", model="anthropic/m")
            site.finish(job)
            text = "".join(event["data"]["text"] for event in site.events(job) if event["type"] == "agent.message")
        session.drop(site)
    finally:
        server.shutdown()
    found = json.loads(text.removeprefix("measured "))
    (first_through, through), (first_direct, direct) = found["through"], found["direct"]
    note("direct", direct)
    note("added", through - direct)
    note("added-first", first_through - first_direct)


def _printed(session, program) -> float:
    with session.site(program, tables=_agent("")) as site:
        small = site.create("print 10 1000", agent="caller", model="test/scripted")
        site.finish(small)
        before = resident_kib(site.server.pid)
        site.finish(site.create(f"print {PRINTED * 10} 100000", agent="caller", model="test/scripted"))
        after = resident_kib(site.server.pid)
    session.drop(site)
    return (after - before) / 1024
