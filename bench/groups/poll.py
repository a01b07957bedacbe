"""Polling: 64 clients that read a job's record, and a thousand clients for which the server holds the answer."""

import select
import socket
import time
from datetime import datetime

from rig.figures import Figure
from rig.load import OPEN_SHARE, closed, opened
from rig.machine import oha
from rig.processes import Failed, resident_kib
from rig.site import JOBS, MCP_ACCEPT

HELD = 1000

FIGURES = [
    Figure("rate-64", "records read, 64 clients", "/s", ("floor.http-64",), more_is_better=True),
    Figure("mcp-rate-64", "the same by `get_job` of MCP", "/s", ("poll.rate-64",), more_is_better=True),
    Figure("p50-1", "a record read, 1 client, p50", "ms"),
    Figure("mcp-p50-1", "the same by `get_job` of MCP", "ms", ("poll.p50-1",)),
    Figure("open-p50", "open loop at half that rate, p50", "ms"),
    Figure("open-p99", "open loop at half that rate, p99", "ms"),
    Figure("open-p999", "open loop at half that rate, p99.9", "ms"),
    Figure("held-kib", f"{HELD:,} clients held by `?wait=30`: server's memory for each", "KiB"),
    Figure("held-p50", "the job ends: half of them have the answer after", "ms"),
    Figure("held-last", "the job ends: the last has the answer after", "ms"),
    Figure("postgresql-rate-64", "PostgreSQL: records read, 64 clients", "/s", more_is_better=True),
    Figure(
        "postgresql-mcp-rate-64",
        "PostgreSQL: the same by `get_job` of MCP",
        "/s",
        ("poll.postgresql-rate-64",),
        more_is_better=True,
    ),
    Figure("postgresql-p50-1", "PostgreSQL: a record read, 1 client, p50", "ms"),
    Figure("postgresql-mcp-p50-1", "PostgreSQL: the same by `get_job` of MCP", "ms", ("poll.postgresql-p50-1",)),
]


def measure(session, program, note) -> None:
    site, rate = session.site(program), None
    with note.covering(), site:
        jobs = _jobs(site)
        paths = [f"{JOBS}/job/{job}" for job in jobs]
        rate = _reads(session, site, jobs, note, "")
        with note.covering("open"):
            if rate is None:
                raise Failed("the rate of the closed loop is unknown")
            half = rate * OPEN_SHARE
            load = opened(oha(session.cache), site.url, paths, half, session.seconds, session.work, key=site.key)
            for key in ("p50", "p99", "p999"):
                note(f"open-{key}", getattr(load, key))
            if load.rate < 0.95 * half:
                sent = f"only {load.rate:,.0f} of the intended {half:,.0f} requests per second were sent"
                note.remark(f"Open loop: {sent}.")
        with note.covering("held"):
            _held(site, note)
    session.drop(site)
    with note.covering("postgresql"):
        with session.site(program, "postgresql") as site:
            _reads(session, site, _jobs(site), note, "postgresql-")
        session.drop(site)


def _jobs(site) -> list[str]:
    jobs = [site.create("[[say x]]") for _ in range(100)]
    for job in jobs:
        site.finish(job)
    return jobs


def _reads(session, site, jobs, note, prefix) -> float | None:
    """Reads jobs by the HTTP interface and by MCP; returns the rate of the former at 64 clients."""
    call = {"name": "get_job", "arguments": {"project": "shop", "job": jobs[0]}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    paths, rate = [f"{JOBS}/job/{job}" for job in jobs], None
    for clients, figure in (64, "rate-64"), (1, "p50-1"):
        with note.covering(f"{prefix}{figure}"):
            load = closed(site.url, paths, clients, session.seconds, session.work, key=site.key)
            note(f"{prefix}{figure}", load.rate if clients > 1 else load.p50)
            rate = load.rate if clients > 1 else rate
        with note.covering(f"{prefix}mcp-{figure}"):
            answer = site.call("POST", "/mcp", call, accept=MCP_ACCEPT)
            if answer["result"].get("isError"):
                raise Failed(f"get_job of MCP failed: {answer}")
            load = closed(site.url, ["/mcp"], clients, session.seconds, session.work, call, site.key, MCP_ACCEPT)
            note(f"{prefix}mcp-{figure}", load.rate if clients > 1 else load.p50)
    return rate


def _held(site, note) -> None:
    job = site.create("[[sleep 4]]")
    time.sleep(0.5)  # let its agent start, whose memory must not be counted for the clients
    before = resident_kib(site.server.pid)
    head = f"GET {JOBS}/job/{job}?wait=30 HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {site.key}\r\n"
    request = f"{head}\r\n".encode()
    clients, poll = {}, select.epoll()
    for _ in range(HELD):
        client = socket.create_connection(("127.0.0.1", site.port))
        client.sendall(request)
        clients[client.fileno()] = client
        poll.register(client, select.EPOLLIN)
    time.sleep(0.5)
    note("held-kib", (resident_kib(site.server.pid) - before) / HELD)
    arrivals, until = [], time.monotonic() + 60
    while len(arrivals) < HELD and time.monotonic() < until:
        for descriptor, _ in poll.poll(1):
            poll.unregister(descriptor)
            arrivals.append(time.time())
            if not clients[descriptor].recv(4096).startswith(b"HTTP/1.1 200"):
                raise Failed("a held client was not answered with 200")
    for client in clients.values():
        client.close()
    if len(arrivals) < HELD:
        raise Failed(f"only {len(arrivals)} of {HELD} held clients were answered")
    ended = next(event["at"] for event in reversed(site.events(job)) if event["type"] == "job.completed")
    # The end by the server's time, which has whole milliseconds and comes from the same clock.
    end = datetime.fromisoformat(ended).timestamp()
    note("held-p50", (arrivals[HELD // 2] - end) * 1000)
    note("held-last", (arrivals[-1] - end) * 1000)
