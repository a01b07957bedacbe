"""The targets, as numbers in one file, so that a change of a target is visible.

A target is a bound on a figure, or on its ratio to another figure (`of`) of the same run. Ratios differ less
than figures between machines.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A bound, `figure >= value` or `figure <= value`; if `of` names a figure, `value` is a multiple of it."""

    least: bool
    value: float
    of: str = ""

    def met(self, found: float, other: float | None) -> bool | None:
        if self.of and other is None:
            return None
        bound = self.value * (other if self.of else 1)
        return found >= bound if self.least else found <= bound

    def __str__(self) -> str:
        sign = "≥" if self.least else "≤"
        return f"{sign} {self.value:g} × {self.of}" if self.of else f"{sign} {self.value:,g}"


def at_least(value: float, of: str = "") -> Target:
    return Target(True, value, of)


def at_most(value: float, of: str = "") -> Target:
    return Target(False, value, of)


TARGETS: dict[str, list[Target]] = {
    "pages.job-p99": [at_most(200)],
    "accept.sqlite-64": [at_least(15_000), at_least(3, of="peers.restate-accepts-64")],
    "accept.sqlite-1-p50": [at_most(3, of="floor.fsync-p50")],
    "accept.postgresql-32": [at_least(0.8, of="floor.pgbench-32")],
    "poll.rate-64": [at_least(0.5, of="floor.http-64")],
    "poll.mcp-rate-64": [at_least(0.5, of="poll.rate-64")],
    "poll.mcp-p50-1": [at_most(2, of="poll.p50-1")],
    "poll.postgresql-mcp-p50-1": [at_most(2, of="poll.postgresql-p50-1")],
    "streams.agent-last-p99": [at_most(100)],
    "streams.message-last-p99": [at_most(100)],
    "dispatch.warm-p50": [at_most(5)],
    "dispatch.builtin-cold-p50": [at_most(120)],
    "turns.nothing-rate": [at_least(60)],
    "turns.nothing-cpu": [at_most(30)],
    "turns.pull-rate": [at_least(20)],
    "turns.pull-cpu": [at_most(80)],
    "hosts.published-p50": [at_most(150)],
    "hosts.hook-p50": [at_most(5)],
    "hosts.message-p50": [at_most(100)],
    "webhooks.fan-out": [at_most(1000)],
    "webhooks.rate": [at_least(2000)],
    "webhooks.queued-p99": [at_most(1.1, of="webhooks.alone-p99")],
    "webhooks.accept-with": [at_least(0.97, of="webhooks.accept-without")],
    "sandbox.start": [at_most(40)],
    "sandbox.end": [at_most(20)],
    "sandbox.added": [at_most(1)],
    "sandbox.added-first": [at_most(1)],
    "sandbox.printed": [at_most(16)],
    "memory.idle": [at_most(40)],
    # The goal is 0. A measurement of resident memory cannot distinguish this value from 0.
    "memory.per-job": [at_most(16)],
    "start.ready": [at_most(50)],
    "workspace.second": [at_most(0.2, of="workspace.clone")],
    "workspace.tenth": [at_most(0.2, of="workspace.clone")],
    "git.mirror-after": [at_most(20)],
    "git.repository-after": [at_most(20)],
    "growth.sqlite-accept-ratio": [at_most(1.2)],
    "growth.sqlite-poll-ratio": [at_most(1.2)],
    "growth.sqlite-walk-ratio": [at_most(1.2)],
    "growth.sqlite-list-ratio": [at_most(1.2)],
    "growth.sqlite-agent-ratio": [at_most(1.2)],
    "growth.sqlite-usage": [at_most(100)],
    "growth.sqlite-usage-authors": [at_most(100)],
    "growth.sqlite-turn-ratio": [at_most(1.2)],
    "growth.postgresql-accept-ratio": [at_most(1.2)],
    "growth.postgresql-poll-ratio": [at_most(1.2)],
    "growth.postgresql-walk-ratio": [at_most(1.2)],
    "growth.postgresql-list-ratio": [at_most(1.2)],
    "growth.postgresql-agent-ratio": [at_most(1.2)],
    "growth.postgresql-usage": [at_most(100)],
    "growth.postgresql-usage-authors": [at_most(100)],
    "growth.postgresql-turn-ratio": [at_most(1.2)],
}
