"""Dispatch: the time from the answer to a message until the agent is prompted with it, on an idle service.

It is measured with a small agent that reports when it was prompted (`agent.sh`, which starts in 2 ms), and with the
built-in agent by the times of the service, from a message's `createdAt` to the agent's first message.
"""

import re
import statistics
import time
from datetime import datetime

from rig.figures import Figure
from rig.processes import Failed
from rig.site import JOBS

JOB_COUNT = 10
FOLLOW_UPS = 4

FIGURES = [
    Figure("cold-p50", "first message of a job, small agent: answered → prompted, p50", "ms"),
    Figure("warm-p50", "immediate follow-up: answered → prompted, p50", "ms", ("peers.restate-dispatch",)),
    Figure("warm-max", "immediate follow-up: answered → prompted, longest", "ms"),
    Figure("reused", "follow-ups that reused the agent's process", "%", more_is_better=True),
    Figure("builtin-cold-p50", "first message of a job, built-in agent: created → first output, p50", "ms"),
    Figure("builtin-warm-p50", "immediate follow-up, built-in agent: created → first output, p50", "ms"),
    Figure("claim-p50", "created → delivered to a run, p50, in whole ms", "ms"),
]


def measure(session, program, note) -> None:
    with session.site(program) as site:
        # The first job of a server creates the mirror, which is not measured here.
        site.finish(site.create("[[say x]]"))
        with note.covering("cold"), note.covering("warm"), note.covering("reused"):
            _probe(site, note)
        with note.covering("builtin"), note.covering("claim"):
            _builtin(site, note)
    session.drop(site)


def prompted(site, job: str) -> list[tuple[float, str]]:
    """Returns when the small agent was prompted, and its process, for each message of the job."""
    texts = "".join(event["data"]["text"] for event in site.events(job) if event["type"] == "agent.message")
    return [(float(at), process) for at, process in re.findall(r"prompted ([\d.]+) ([\d.]+)", texts)]


def _probe(site, note) -> None:
    cold, warm, reused = [], [], 0
    for _ in range(JOB_COUNT):
        job = site.create(agent="probe")
        answered = [time.time()]
        site.finish(job)
        for _ in range(FOLLOW_UPS):
            site.message(job)
            answered.append(time.time())
            site.finish(job)
        prompts = prompted(site, job)
        if len(prompts) != len(answered):
            raise Failed(f"the agent was prompted {len(prompts)} times for {len(answered)} messages")
        delays = [(at - then) * 1000 for (at, _), then in zip(prompts, answered)]
        cold.append(delays[0])
        warm += delays[1:]
        reused += sum(before[1] == after[1] for before, after in zip(prompts, prompts[1:]))
    note("cold-p50", statistics.median(cold))
    note("warm-p50", statistics.median(warm))
    note("warm-max", max(warm))
    note("reused", 100 * reused / len(warm))


def _builtin(site, note) -> None:
    words: dict[bool, list[float]] = {True: [], False: []}
    claims = []
    for _ in range(JOB_COUNT):
        job = site.create("[[say hi]]")
        site.finish(job)
        for _ in range(FOLLOW_UPS):
            site.message(job, "[[say hi]]")
            site.finish(job)
        events = site.events(job)
        for place, message in enumerate(site.call("GET", f"{JOBS}/job/{job}/messages")["messages"]):
            first = next(
                event
                for event in events
                if event["type"] == "agent.message" and event["runId"] == message["runId"]
            )
            words[place == 0].append(_between(message["createdAt"], first["at"]))
            claims.append(_between(message["createdAt"], message["deliveredAt"]))
    note("builtin-cold-p50", statistics.median(words[True]))
    note("builtin-warm-p50", statistics.median(words[False]))
    note("claim-p50", statistics.median(claims))


def _between(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() * 1000
