"""Start: the time from the exec of `serve` to the first successful answer of `/readyz`, on an existing store."""

import statistics

from rig.figures import Figure

STARTS = 10

FIGURES = [
    Figure("ready", f"to the first answer, median of {STARTS} starts", "ms", ("peers.restate-start",)),
    Figure("ready-max", f"to the first answer, longest of {STARTS} starts", "ms"),
]


def measure(session, program, note) -> None:
    with session.site(program) as site:
        for _ in range(5):
            site.finish(site.create("[[say x]]"))
        times = []
        for _ in range(STARTS):
            site.stop()
            times.append(site.start() * 1000)
    session.drop(site)
    note("ready", statistics.median(times))
    note("ready-max", max(times))
