"""Whole turns, from a message to its end, with four workers and eight clients that each wait for theirs."""

import threading
import time

from rig.figures import Figure
from rig.processes import Failed, cpu_seconds

WORKERS = 4
CLIENTS = 8

PROMPTS = {"nothing": "[[say x]]", "again": "[[say x]]", "pull": "[[write a.txt|a]]"}
RATE = {"unit": "/s", "more_is_better": True}

FIGURES = [
    Figure("nothing-rate", "new jobs, nothing changed (`[[say x]]`)", beside=("peers.restate-turns",), **RATE),
    Figure("nothing-cpu", "the same: processor time of a turn, the agent's and git's included", "ms"),
    Figure("again-rate", "follow-ups on jobs that are there, nothing changed", **RATE),
    Figure("again-cpu", "the same: processor time of a turn", "ms"),
    Figure("pull-rate", "new jobs with a commit and a pull request (`[[write a.txt|a]]`)", **RATE),
    Figure("pull-cpu", "the same: processor time of a turn", "ms"),
]


def measure(session, program, note) -> None:
    for name, prompt in PROMPTS.items():
        with note.covering(name):
            with session.site(program, workers=WORKERS) as site:
                site.finish(site.create("[[say x]]"))
                rate, cpu = _turns(site, prompt, name == "again", session.seconds)
            session.drop(site)
            note(f"{name}-rate", rate)
            note(f"{name}-cpu", cpu)


def _turns(site, prompt: str, again: bool, seconds: float) -> tuple[float, float]:
    """Turns in a second, and milliseconds of processor for each."""
    ends: list[float] = []
    errors: list[Exception] = []
    jobs = []
    if again:
        jobs = [site.create(prompt) for _ in range(CLIENTS)]
        for job in jobs:
            site.finish(job)
    before, begun = cpu_seconds(site.server.pid), time.monotonic()

    def client(mine: str | None) -> None:
        try:
            while time.monotonic() < begun + seconds:
                if mine:
                    site.message(mine, prompt)
                site.finish(mine or site.create(prompt))
                ends.append(time.monotonic())
        except Exception as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    mine = jobs or [None] * CLIENTS
    threads = [threading.Thread(target=client, args=(job,), daemon=True) for job in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 150)
    if errors:
        raise errors[0]
    if not ends:
        raise Failed("no turn ended")
    # To the last end, not to the last begin: no turn counts for less than its time.
    took = max(ends) - begun
    return len(ends) / took, (cpu_seconds(site.server.pid) - before) / len(ends) * 1000
