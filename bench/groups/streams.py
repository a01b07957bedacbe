"""A thousand event streams on one busy job: how long after a thing happened the first and the last of them tell it.

Two things happen: follow-ups are accepted (timed from their answer), and an agent says something (timed from when it said
it; the service may keep that for a moment, so that a chatty agent costs few writes).
"""

import os
import re
import signal
import socket
import statistics
import threading
import time

from rig.epoll import Crowd
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
    Figure("agent-first-p50", "the agent says something: first stream, p50", "ms"),
    Figure("agent-last-p50", "the agent says something: last stream, p50", "ms"),
    Figure("agent-last-p99", "the agent says something: last stream, p99", "ms"),
    Figure("memory", "memory of the server for each stream", "KiB"),
    Figure("bare-last-p50", "for comparison, a bare loop that writes to as many sockets: last one, p50", "ms"),
]


def measure(session, program, note) -> None:
    note.remark(
        f"{STREAMS:,} streams, {EVENTS} events, one each {PAUSE} s. The client is one thread of Python: its own cost is in "
        "every time, and the last line of the table is little but that."
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


def _streams(site, job: str) -> tuple[Crowd, int]:
    """Streams that have told all that was."""
    was = len(site.events(job))
    head = f"GET {JOBS}/job/{job}/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {site.key}\r\n"
    # Two line feeds in a row end an event; the brace keeps the comments that hold a stream open out of the count.
    crowd = Crowd(site.port, f"{head}Accept: text/event-stream\r\n\r\n".encode(), STREAMS, b"}\n\n")
    if not crowd.read_until(was, 30):
        raise Failed(f"the streams did not all tell what was: {crowd.arrived} of {STREAMS}")
    return crowd, was


def _bare(note) -> None:
    """What the client takes by itself: another process writes an event's worth to each socket, one after the other."""
    with socket.create_server(("127.0.0.1", 0), backlog=STREAMS) as listener:
        child = os.fork()
        if child == 0:
            try:
                _write_to_all(listener)
            finally:
                os._exit(0)
        crowd = Crowd(listener.getsockname()[1], b"x", STREAMS, b"}\n\n")
    whole = crowd.read_until(EVENTS, 30 + EVENTS * PAUSE)
    crowd.close()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not whole:
        raise Failed("the bare loop's pieces did not all come")
    times = [float(at) for at in re.findall(r"at ([\d.]+)", crowd.text.decode())]
    note("bare-last-p50", statistics.median((last - at) * 1000 for last, at in zip(crowd.last, times)))


def _write_to_all(listener: socket.socket) -> None:
    clients = [listener.accept()[0] for _ in range(STREAMS)]
    for _ in range(EVENTS):
        time.sleep(PAUSE)
        piece = f"data: {'x' * 200} at {time.time()} {{}}\n\n".encode()
        for client in clients:
            client.sendall(piece)
    time.sleep(60)


def _note(note, name: str, crowd: Crowd, pairs: list[tuple[int, float]]) -> None:
    """`pairs`: the place of each event in the streams, and when it happened."""
    first = [(crowd.first[place] - at) * 1000 for place, at in pairs]
    last = sorted((crowd.last[place] - at) * 1000 for place, at in pairs)
    note(f"{name}-first-p50", statistics.median(first))
    note(f"{name}-last-p50", statistics.median(last))
    note(f"{name}-last-p99", last[min(len(last) - 1, round(0.99 * len(last)))])


def _messages(site, note) -> None:
    job = site.create(agent="idle")
    time.sleep(0.5)  # it has started
    crowd, was = _streams(site, job)
    answered: list[float] = []

    def send() -> None:
        for _ in range(EVENTS):
            site.message(job)
            answered.append(time.time())
            time.sleep(PAUSE)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    whole = crowd.read_until(was + EVENTS, EVENTS * PAUSE + 30)
    sender.join(10)
    crowd.close()
    if not whole:
        raise Failed(f"only {len(crowd.arrived) - was} of {EVENTS} events came to all streams")
    _note(note, "message", crowd, [(was + place, at) for place, at in enumerate(answered)])


def _agent(site, note) -> None:
    job = site.create("hello", agent="probe")
    site.finish(job)
    before = resident_kib(site.server.pid)
    crowd, was = _streams(site, job)
    note("memory", (resident_kib(site.server.pid) - before) / STREAMS)
    site.message(job, f"emit {EVENTS} {PAUSE}")
    # Beside what the agent says: the message, the run's begin and end, the prompt, the job's end.
    crowd.read_until(was + EVENTS + 4, EVENTS * PAUSE + 30)
    crowd.close()
    told = re.findall(r'^data: \{"seq":(\d+),"type":"([^"]+)".*$', crowd.text.decode(), re.M)
    said = re.findall(r'"seq":(\d+),"type":"agent.tool_call".*?"title":"at ([\d.]+)"', crowd.text.decode())
    if len(said) < EVENTS or not crowd.have(int(said[-1][0])):
        raise Failed(f"{len(said)} of {EVENTS} events of the agent came, of {len(told)} in all")
    _note(note, "agent", crowd, [(int(seq) - 1, float(at)) for seq, at in said])
