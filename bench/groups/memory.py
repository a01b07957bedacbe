"""Memory of the idle server, and of each idle job."""

import time

from rig.figures import Figure
from rig.fill import fill
from rig.load import closed
from rig.processes import resident_kib
from rig.site import JOBS

COUNTS = (1_000, 100_000)

FIGURES = [
    Figure("idle", "resident, a second after start, one job stored", "MiB", ("peers.restate-memory",)),
    Figure("used-0", "the same after a second of polls and lists", "MiB"),
    *(Figure(f"used-{count}", f"the same with {count:,} idle jobs", "MiB") for count in COUNTS),
    Figure("per-job", f"for each idle job, between {COUNTS[0]:,} and {COUNTS[1]:,} of them", "bytes"),
]


def measure(session, program, note) -> None:
    site = session.site(program)
    with site:
        site.finish(site.create("[[say x]]"))
    with site:
        time.sleep(1)
        note("idle", resident_kib(site.server.pid) / 1024)
        note("used-0", _used(session, site) / 1024)
    filled, used = 0, []
    for count in COUNTS:
        fill(site, None, count - filled, filled)
        filled = count
        with site:
            used.append(_used(session, site))
        note(f"used-{count}", used[-1] / 1024)
    # Not compared with the store of one job, because the requests there are for one job, and here for a thousand.
    note("per-job", max(0, used[1] - used[0]) * 1024 / (COUNTS[1] - COUNTS[0]))
    session.drop(site)


def _used(session, site) -> int:
    """Returns the resident memory after some requests, so that it always includes what first requests allocate."""
    paths = [f"{JOBS}/job/{job}" for job in site.newest(1000)]
    closed(site.url, [f"{JOBS}/jobs?limit=100", *paths], 16, 1, session.work, key=site.key)
    time.sleep(0.5)
    return resident_kib(site.server.pid)
