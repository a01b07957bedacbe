"""A thousand event streams on one busy job: the time until an event has arrived on the first and on the last of them.

Two kinds of events are measured: accepted follow-ups, timed from their answer, and tool calls of an agent, timed from
when the agent sent them. The service may hold the output of an agent back briefly, to save writes.
"""

import os
import re
import signal
import socket
import statistics
import threading
import time

from rig.epoll import Connections
from rig.figures import Figure
from rig.processes import Failed, resident_kib
from rig.site import JOBS

STREAMS = 1000
EVENTS = 50
PAUSE = 0.1

FIGURES = [
    Figure("message-first-p50", "a follow-up is accepted: first stream, p50", "ms"),
    Figure("message-last-p50", "a follow-up is accepted: last stream, p50", "ms"),
    Figure("message-last-p99", "a follow-up is accepted: last stream, p99", "ms"),
    Figure("agent-first-p50", "a tool call of the agent: first stream, p50", "ms"),
    Figure("agent-last-p50", "a tool call of the agent: last stream, p50", "ms"),
    Figure("agent-last-p99", "a tool call of the agent: last stream, p99", "ms"),
    Figure("memory", "memory of the server for each stream", "KiB"),
    Figure("bare-last-p50", "for comparison, a plain loop that writes to as many sockets: last socket, p50", "ms"),
]


def measure(session, program, note) -> None:
    note.remark(
        f"{STREAMS:,} streams, {EVENTS} events, one every {PAUSE} s. The client is one thread of Python: its cost is "
        "part of every time, and most of the last line of the table."
    )
    with note.covering("bare"):
        _bare(note)
    with session.site(program) as site:
        with note.covering("message"):
            _messages(site, note)
        site.stop()
        site.start()
        with note.covering("agent"), note.covering("memory"):
            _agent(site, note)
    session.drop(site)


def _streams(site, job: str) -> tuple[Connections, int]:
    """Opens the streams; returns them when they have all earlier events, with the number of these."""
    was = len(site.events(job))
    head = f"GET {JOBS}/job/{job}/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {site.key}\r\n"
    # Two line feeds in a row end an event; the brace excludes the comments that keep a stream open.
    connections = Connections(site.port, f"{head}Accept: text/event-stream\r\n\r\n".encode(), STREAMS, b"}\n\n")
    if not connections.read_until(was, 30):
        raise Failed(f"not all streams have the earlier events: {connections.arrived} of {STREAMS}")
    return connections, was


def _bare(note) -> None:
    """Measures the cost of the client: another process writes as much as an event to each socket, one after another."""
    with socket.create_server(("127.0.0.1", 0), backlog=STREAMS) as listener:
        child = os.fork()
        if child == 0:
            try:
                _write_to_all(listener)
            finally:
                os._exit(0)
        connections = Connections(listener.getsockname()[1], b"x", STREAMS, b"}\n\n")
    whole = connections.read_until(EVENTS, 30 + EVENTS * PAUSE)
    connections.close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not whole:
        raise Failed("not all pieces of the plain loop arrived")
    times = [float(at) for at in re.findall(r"at ([\d.]+)", connections.text.decode())]
    note("bare-last-p50", statistics.median((last - at) * 1000 for last, at in zip(connections.last, times)))


def _write_to_all(listener: socket.socket) -> None:
    clients = [listener.accept()[0] for _ in range(STREAMS)]
    for _ in range(EVENTS):
        time.sleep(PAUSE)
        piece = f"data: {'x' * 200} at {time.time()} {{}}\n\n".encode()
        for client in clients:
            client.sendall(piece)
    time.sleep(60)


def _note(note, name: str, connections: Connections, pairs: list[tuple[int, float]]) -> None:
    """Notes the figures of events; `pairs` has the position of each event in the streams, and its time."""
    first = [(connections.first[place] - at) * 1000 for place, at in pairs]
    last = sorted((connections.last[place] - at) * 1000 for place, at in pairs)
    note(f"{name}-first-p50", statistics.median(first))
    note(f"{name}-last-p50", statistics.median(last))
    note(f"{name}-last-p99", last[min(len(last) - 1, round(0.99 * len(last)))])


def _messages(site, note) -> None:
    job = site.create(agent="idle")
    time.sleep(0.5)  # let its agent start
    connections, was = _streams(site, job)
    answered: list[float] = []

    def send() -> None:
        for _ in range(EVENTS):
            site.message(job)
            answered.append(time.time())
            time.sleep(PAUSE)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    whole = connections.read_until(was + EVENTS, EVENTS * PAUSE + 30)
    sender.join(10)
    connections.close()
    if not whole:
        raise Failed(f"only {len(connections.arrived) - was} of {EVENTS} events arrived on all streams")
    _note(note, "message", connections, [(was + place, at) for place, at in enumerate(answered)])


def _agent(site, note) -> None:
    job = site.create("hello", agent="probe")
    site.finish(job)
    before = resident_kib(site.server.pid)
    connections, was = _streams(site, job)
    note("memory", (resident_kib(site.server.pid) - before) / STREAMS)
    site.message(job, f"emit {EVENTS} {PAUSE}")
    # In addition to the agent's tool calls, there are events of the message, the run and the job.
    connections.read_until(was + EVENTS + 4, EVENTS * PAUSE + 30)
    connections.close()
    everything = re.findall(r'^data: \{"seq":(\d+),"type":"([^"]+)".*$', connections.text.decode(), re.M)
    calls = re.findall(r'"seq":(\d+),"type":"agent.tool_call".*?"title":"at ([\d.]+)"', connections.text.decode())
    if len(calls) < EVENTS or not connections.have(int(calls[-1][0])):
        raise Failed(f"{len(calls)} of {EVENTS} events of the agent arrived, and {len(everything)} events in total")
    _note(note, "agent", connections, [(int(seq) - 1, float(at)) for seq, at in calls])
