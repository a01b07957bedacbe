"""Whole turns, from a message to its end, with four workers and eight clients, each of which waits for its turn."""

from rig.clients import turns
from rig.figures import Figure
from rig.processes import cpu_seconds

WORKERS = 4
CLIENTS = 8

PROMPTS = {"nothing": "[[say x]]", "again": "[[say x]]", "pull": "[[write a.txt|a]]"}
RATE = {"unit": "/s", "more_is_better": True}

FIGURES = [
    Figure("nothing-rate", "new jobs, nothing changed (`[[say x]]`)", compared=("peers.restate-turns",), **RATE),
    Figure("nothing-cpu", "the same: processor time of a turn, the agent's and git's included", "ms"),
    Figure("again-rate", "follow-ups on existing jobs, nothing changed", **RATE),
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
    """Returns the turns per second, and the milliseconds of processor time of each."""
    jobs = [site.create(prompt) for _ in range(CLIENTS)] if again else []
    for job in jobs:
        site.finish(job)

    def once(client: int) -> None:
        if jobs:
            site.message(jobs[client], prompt)
        site.finish(jobs[client] if jobs else site.create(prompt))

    before = cpu_seconds(site.server.pid)
    done = turns(CLIENTS, seconds, once)
    return done.rate, (cpu_seconds(site.server.pid) - before) / len(done.ends) * 1000
