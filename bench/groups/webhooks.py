"""Webhooks: one event for a thousand endpoints, many events for a few, and an endpoint that answers while another does not.

The receiver is one thread of Python on the same machine, so its cost is part of every figure.
"""

import json
import sys
import time
import urllib.request

from groups.accept import accept, follow_up_paths
from rig.figures import Figure
from rig.load import closed
from rig.processes import Failed, log_tail, start, stop
from rig.site import BENCH, JOBS, PROMPT

ENDPOINTS = 1000
FEW = 20
QUEUED = 10_000
PACE = 50  # jobs a second while latencies are measured
BEGIN = 1.5  # seconds after which a server without webhooks has noticed the first one
HOOKS = "/v2/projects/shop/webhooks"
SETTINGS = 'webhook-networks = ["127.0.0.0/8"]\n'
CREATE = {"agent": "idle", "prompt": PROMPT}

FIGURES = [
    Figure("fan-out", f"one event for {ENDPOINTS:,} endpoints: from the first delivery to the last", "ms"),
    Figure("rate", f"deliveries, {FEW} endpoints", "/s", more_is_better=True),
    Figure("alone-p50", "a job is created → delivered, p50", "ms"),
    Figure("alone-p99", "a job is created → delivered, p99", "ms"),
    Figure("queued-p99", f"the same, with {QUEUED:,} deliveries queued for another endpoint, which never answers, p99", "ms"),
    Figure("accept-without", "follow-ups accepted, 64 clients, no endpoint", "/s", more_is_better=True),
    Figure("accept-with", f"the same, {FEW} endpoints", "/s", more_is_better=True),
]


def measure(session, program, note) -> None:
    log = session.folder()
    receiver = start([sys.executable, BENCH / "receiver.py"], log)
    try:
        endpoint = Receiver(log)
        with session.site(program, workers=1, settings=SETTINGS) as site:
            with note.covering("accept"):
                _accepted(session, site, endpoint, note)
            with note.covering("fan-out"):
                note("fan-out", _fan_out(site, endpoint))
            with note.covering("rate"):
                note("rate", _rate(session, site, endpoint))
            with note.covering("alone"), note.covering("queued"):
                _remove_all(site)
                _hook(site, endpoint.url("/timed"))
                time.sleep(BEGIN)
                alone = _latencies(session, site, endpoint)
                note("alone-p50", _share(alone, 0.5))
                note("alone-p99", _share(alone, 0.99))
                _queue(site, endpoint)
                note("queued-p99", _share(_latencies(session, site, endpoint), 0.99))
        session.drop(site)
    finally:
        stop(receiver)


class Receiver:
    """The endpoint, in a process of its own."""

    def __init__(self, log):
        until = time.monotonic() + 30
        while not (log.exists() and log.read_text().strip()):
            if time.monotonic() > until:
                raise Failed(f"the receiver did not start: {log_tail(log)}")
            time.sleep(0.01)
        self.port = int(log.read_text().split()[0])

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def take(self) -> list:
        with urllib.request.urlopen(self.url("/received"), timeout=60) as answer:
            return json.load(answer)

    def wait_for(self, count: int, patience: float = 120) -> list:
        """Returns the requests after `count` of them have arrived."""
        found, until = [], time.monotonic() + patience
        while len(found) < count:
            if time.monotonic() > until:
                raise Failed(f"only {len(found)} of {count} deliveries have arrived")
            time.sleep(0.2)
            found += self.take()
        return found


def _hook(site, url: str) -> str:
    return site.call("POST", HOOKS, {"url": url, "events": ["job.created"]})["id"]


def _remove_all(site) -> None:
    while hooks := site.call("GET", HOOKS)["webhooks"]:
        for hook in hooks:
            site.call("DELETE", f"{HOOKS}/{hook['id']}")


def _accepted(session, site, endpoint, note) -> None:
    # All jobs are created before there are endpoints, so that only follow-ups are measured.
    loads = [follow_up_paths(session, site, 60_000 * session.seconds) for _ in range(3)]
    before = accept(session, site, loads[0], 64).rate
    for number in range(FEW):
        _hook(site, endpoint.url(f"/{number}"))
    time.sleep(BEGIN)
    note("accept-with", accept(session, site, loads[1], 64).rate)
    _remove_all(site)
    # Later loads are slower, because the store has grown.
    note("accept-without", (before + accept(session, site, loads[2], 64).rate) / 2)


def _fan_out(site, endpoint) -> float:
    for number in range(ENDPOINTS):
        _hook(site, endpoint.url(f"/{number}"))
    site.create(agent="idle")
    endpoint.wait_for(ENDPOINTS)  # opens the connections
    site.create(agent="idle")
    times = [at for _, at, _ in endpoint.wait_for(ENDPOINTS)]
    _remove_all(site)
    return (max(times) - min(times)) * 1000


def _rate(session, site, endpoint) -> float:
    for number in range(FEW):
        _hook(site, endpoint.url(f"/{number}"))
    made = closed(site.url, [f"{JOBS}/job"], 16, 1, session.work, CREATE, site.key).rate
    # The jobs that were created while the load ended count too.
    found = endpoint.wait_for(int(made * 0.9) * FEW)
    while more := _after(endpoint, 1):
        found += more
    times = [at for _, at, _ in found]
    return len(times) / (max(times) - min(times))


def _after(endpoint, seconds: float) -> list:
    time.sleep(seconds)
    return endpoint.take()


def _latencies(session, site, endpoint) -> list[float]:
    """Creates jobs at a steady pace, and returns the milliseconds until each event has arrived."""
    endpoint.take()
    count, begun = int(PACE * max(4, session.seconds)), time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / PACE - time.monotonic()))
        site.create(agent="idle")
    found, until = [], time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        time.sleep(0.2)
        found += [(at - event) * 1000 for path, at, event in endpoint.take() if path == "/timed"]
    if len(found) < count:
        raise Failed(f"only {len(found)} of {count} events have arrived")
    return found


def _queue(site, endpoint) -> None:
    """Queues deliveries for an endpoint that never answers."""
    dead = _hook(site, endpoint.url("/never"))
    queued = site.call("POST", f"{HOOKS}/{dead}/replay", {"since": "2020-01-01T00:00:00Z"})["deliveries"]
    if queued < QUEUED:
        raise Failed(f"only {queued} deliveries were queued")
    time.sleep(11)  # until the first requests have failed


def _share(times: list[float], share: float) -> float:
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]
