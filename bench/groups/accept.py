"""Accepting follow-ups, which are stored before the answer, on SQLite and on PostgreSQL. The agent never answers."""

import time

from rig.figures import Figure
from rig.load import OPEN_SHARE, closed, opened
from rig.machine import oha
from rig.processes import Failed
from rig.site import JOBS, PROMPT

CLIENTS = {"sqlite": (1, 16, 64, 256), "postgresql": (1, 16, 32, 64, 256)}
QUEUE = 99  # the maximum number of queued messages of a job, after the one that created it
MOST, MOST_OF_ONE = 60_000, 15_000  # more per second than any build accepts, so that no queue overflows
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
BODY = {"prompt": PROMPT}


def _figures(store: str) -> list[Figure]:
    name, figures = NAMES[store], []
    for clients in CLIENTS[store]:
        compared = ("floor.http-64",) if store == "sqlite" and clients >= 64 else ()
        if clients == 64:
            compared += ("peers.restate-accepts-64",)
        if store == "postgresql" and clients in (1, 16, 32, 64):
            compared += (f"floor.pgbench-{clients}",)
        if clients == 1:
            compared += ("peers.restate-accepts-1",)
        title = f"{name}: accepted and on disk, {clients} client{'s' * (clients > 1)}"
        figures.append(Figure(f"{store}-{clients}", title, "/s", compared, more_is_better=True))
        if clients == 1:
            figures.append(Figure(f"{store}-1-p50", f"{name}: 1 client, p50", "ms", ("floor.fsync-p50",)))
    for key, words in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9")):
        title = f"{name}: open loop at half the rate of 64 clients, {words}"
        figures.append(Figure(f"{store}-open-{key}", title, "ms"))
    return figures


FIGURES = [figure for store in CLIENTS for figure in _figures(store)]


def measure(session, program, note) -> None:
    for store, clients in CLIENTS.items():
        with note.covering(store):
            with session.site(program, store, workers=1) as site:
                _one_store(session, site, store, clients, note)
            session.drop(site)


def _one_store(session, site, store, clients, note) -> None:
    at_64 = None
    for count in clients:
        with note.covering(f"{store}-{count}"):
            expected = (MOST_OF_ONE if count == 1 else MOST) * session.seconds
            load = accept(session, site, follow_up_paths(session, site, expected), count)
            note(f"{store}-{count}", load.rate)
            if count == 1:
                note(f"{store}-1-p50", load.p50)
            if count == 64:
                at_64 = load.rate
    with note.covering(f"{store}-open"):
        if at_64 is None:
            raise Failed("the rate of the closed loop with 64 clients is unknown")
        rate = at_64 * OPEN_SHARE
        # oha chooses jobs at random: twice the capacity, so that no queue overflows.
        paths = follow_up_paths(session, site, 2 * rate * session.seconds)
        load = opened(oha(session.cache), site.url, paths, rate, session.seconds, session.work, BODY, site.key)
        for key in ("p50", "p99", "p999"):
            note(f"{store}-open-{key}", getattr(load, key))
        if load.rate < 0.95 * rate:
            sent = f"only {load.rate:,.0f} of the intended {rate:,.0f} requests per second were sent"
            note.remark(f"{NAMES[store]}, open loop: {sent}.")


def accept(session, site, paths, clients):
    """Posts follow-ups to the jobs behind `paths`."""
    return closed(site.url, paths, clients, session.seconds, session.work, BODY, site.key)


def follow_up_paths(session, site, messages: float) -> list[str]:
    """Creates jobs that can queue `messages` in total; returns their paths for follow-ups."""
    wanted = int(messages / QUEUE) + 1
    made, create = 0.0, {"agent": "idle", "prompt": PROMPT}
    while made < wanted:
        # A second of wrk creates thousands of jobs, which is the fastest way.
        made += closed(site.url, [f"{JOBS}/job"], 64, 1, session.work, create, site.key).rate * 0.9
    paths = [f"{JOBS}/job/{job}/message" for job in site.newest(wanted)]
    time.sleep(0.2)  # let the database finish writing its log
    return paths
