"""Growth: the same operations on a store with a million finished jobs and on one with few; ratios of their times."""

import statistics
import time
from contextlib import ExitStack
from datetime import date, datetime, timedelta

from rig.figures import Figure
from rig.fill import fill, fill_usage, sample
from rig.load import closed
from rig.machine import say
from rig.site import JOBS

from .accept import MOST, accept, follow_up_paths

STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
WHAT = {
    "accept": ("follow-ups accepted, 64 clients", "/s", True),
    "poll": ("records read, 64 clients, of 20 jobs", "/s", True),
    "walk": ("records read, 64 clients, of 10,000 jobs in turn", "/s", True),
    "list": ("first page of the list, 1 client", "/s", True),
    "agent": ("first page of the list of an agent's jobs in all projects, 1 client", "/s", True),
    "turn": ("a trivial turn on an idle service, created → finished, p50", "ms", False),
}
TURNS = 20
REPORTS = 20
REPORTED = {
    "usage": ("project and model", "groupBy=project&groupBy=model"),
    "usage-authors": ("author", "groupBy=author"),
}
# The runs of the reports on usage, also if there are fewer jobs.
RUNS = 1_000_000
POLLED = 20
# More jobs than a service keeps in memory.
WALKED = 10_000
# The other store of a comparison is empty except for the jobs of this group, or has the jobs that are read.
FEW = {"walk": f"{WALKED:,} jobs"}

FIGURES = [
    figure
    for store, name in STORES.items()
    for what, (title, unit, more) in WHAT.items()
    for figure in (
        Figure(f"{store}-{what}-empty", f"{name}, {FEW.get(what, 'empty')}: {title}", unit, more_is_better=more),
        Figure(f"{store}-{what}-full", f"{name}, full: {title}", unit, more_is_better=more),
        Figure(f"{store}-{what}-ratio", "— time in the full store / time in the other", "×"),
    )
] + [
    Figure(f"{store}-{key}", f"{name}: report on a million runs of a year by {groups}, 1 client, p50", "ms")
    for store, name in STORES.items()
    for key, (groups, _) in REPORTED.items()
]


def measure(session, program, note) -> None:
    for store in STORES:
        with note.covering(store):
            full, jobs = _filled(session, program, store, session.jobs)
            few, few_jobs = _filled(session, program, store, WALKED)
            empty = session.site(program, store)
            # Reverse the order in every other round, because the first store warms the machine for the second.
            session.shared["reversed"] = not session.shared.get("reversed", False)
            order = 1 if session.shared["reversed"] else -1
            found = _both(session, [("empty", empty), ("full", full)][::order])
            found |= _walk(session, [("empty", few, few_jobs), ("full", full, jobs)][::order])
            for key in REPORTED:
                note(f"{store}-{key}", found[key, "full"])
            session.drop(empty)
            for what, (_, _, more) in WHAT.items():
                before, after = found[what, "empty"], found[what, "full"]
                note(f"{store}-{what}-empty", before)
                note(f"{store}-{what}-full", after)
                note(f"{store}-{what}-ratio", before / after if more else after / before)
    note.remark(f"Full: {session.jobs:,} finished jobs, copies of a real one in the database.")


def _filled(session, program, store: str, count: int):
    """Returns a site with `count` jobs, and the IDs of some of them; it is created once for each program."""
    name = ("filled", store, program.label, count)
    if name not in session.shared:
        site = session.site(program, store)
        begun = time.monotonic()
        postgres = session.postgres() if store == "postgresql" else None
        fill(site, postgres, count)
        fill_usage(site, postgres, RUNS)
        say(f"    filled with {count:,} jobs in {time.monotonic() - begun:.0f} s")
        session.shared[name] = site, sample(site, postgres, WALKED)
    return session.shared[name]


def _both(session, pair) -> dict[tuple[str, str], float]:
    """Measures each operation on one store and at once on the other, so that both run under the same conditions."""
    found = {}
    with ExitStack() as running:
        for _, site in pair:
            site.workers = 4
            running.enter_context(site)
            site.finish(site.create("[[say x]]"))
        for name, site in pair:
            found["turn", name] = statistics.median(_turn(site) for _ in range(TURNS))
        for name, site in pair:
            page = [f"{JOBS}/jobs?limit=20"]
            found["list", name] = closed(site.url, page, 1, session.seconds, session.work, key=site.key).rate
        for name, site in pair:
            page = ["/v2/jobs?limit=20&agent=journeyman"]
            found["agent", name] = closed(site.url, page, 1, session.seconds, session.work, key=site.key).rate
        for name, site in pair:
            first = (date.today() - timedelta(days=364)).isoformat()
            for key, (_, query) in REPORTED.items():
                report = f"/v2/usage?from={first}&{query}"
                found[key, name] = statistics.median(_timed(site, report) for _ in range(REPORTS))
        for name, site in pair:
            paths = [f"{JOBS}/job/{job}" for job in site.newest(POLLED)]
            found["poll", name] = closed(site.url, paths, 64, session.seconds, session.work, key=site.key).rate
    # One worker, for the agent that never answers. Its jobs are cancelled, because they would disturb the next round.
    with ExitStack() as running:
        paths = {}
        for name, site in pair:
            site.workers = 1
            running.enter_context(site)
            paths[name] = follow_up_paths(session, site, MOST * session.seconds)
        for name, site in pair:
            found["accept", name] = accept(session, site, paths[name], 64).rate
        for name, site in pair:
            # The empty store is not used again.
            for path in site.active() if name == "full" else []:
                site.call("POST", f"{path}/cancel")
    return found


def _walk(session, pair) -> dict[tuple[str, str], float]:
    """Measures reading many jobs in turn, which are not all in the service's memory."""
    found = {}
    with ExitStack() as running:
        for _, site, _ in pair:
            running.enter_context(site)
        for name, site, jobs in pair:
            paths = [f"{JOBS}/job/{job}" for job in jobs]
            found["walk", name] = closed(site.url, paths, 64, session.seconds, session.work, key=site.key).rate
    return found


def _timed(site, path: str) -> float:
    """Returns the milliseconds of a request."""
    begun = time.monotonic()
    site.call("GET", path)
    return (time.monotonic() - begun) * 1000


def _turn(site) -> float:
    """Returns the milliseconds of a trivial turn, by the times of the service."""
    job = site.create("[[say x]]")
    site.finish(job)
    message = site.call("GET", f"{JOBS}/job/{job}/messages")["messages"][0]
    begin, end = (datetime.fromisoformat(message[name]) for name in ("createdAt", "finishedAt"))
    return (end - begin).total_seconds() * 1000
