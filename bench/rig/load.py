"""Load: closed-loop with wrk for what can be done in a second, open-loop with oha for how long one waits.

Closed loop: each client sends when it has its answer, so a stall makes it send less, and hides itself. Open loop: requests
are due at a steady rate, and each is timed from when it was due.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from .machine import need
from .processes import Failed, run
from .site import BENCH

KEPT_BACK = 0.5  # the open loop asks for this part of what the closed loop got through


@dataclass
class Load:
    """Answers in a second, and times in milliseconds."""

    rate: float
    p50: float
    p99: float
    p999: float


def closed(url: str, paths: list[str], clients: int, seconds: float, work: Path, body=None, key=None) -> Load:
    """wrk on `paths` in turn, posting `body` where there is one. An answer that is not 2xx is an error of ours."""
    ids = work / "paths"
    ids.write_text("\n".join(paths) + "\n")
    environment = os.environ | {"IDS": str(ids)} | ({"KEY": key} if key else {})
    if body is not None:
        environment["BODY"] = json.dumps(body)
    script = "get.lua" if body is None else "post.lua"
    # wrk takes whole seconds only.
    options = ["--threads", min(2, clients), "--connections", clients, "--duration", f"{max(1, round(seconds))}s"]
    printed = run(
        [need("wrk"), *options, "--timeout", "30s", "--script", script, url], env=environment, cwd=BENCH / "load"
    )
    told = json.loads(printed.strip().splitlines()[-1])
    if told["bad"]:
        raise Failed(f"{told['bad']} of {told['requests']} requests were not answered well")
    return Load(told["rate"], told["p50"], told["p99"], told["p999"])


def opened(oha: str, url: str, paths: list[str], rate: float, seconds: float, work: Path, body=None, key=None) -> Load:
    """oha at `rate`, over 64 connections that are kept, on `paths` at random."""
    urls = work / "urls"
    urls.write_text("".join(f"{url}{path}\n" for path in paths))
    options = ["-z", f"{seconds}s", "-c", 64, "-q", max(1, round(rate)), "--latency-correction", "--no-tui"]
    options += ["--output-format", "json", "--urls-from-file", "-w"]
    if key:
        options += ["-H", f"Authorization: Bearer {key}"]
    if body is not None:
        options += ["-m", "POST", "-T", "application/json", "-d", json.dumps(body)]
    told = json.loads(run([oha, *options, urls]))
    bad = {status: count for status, count in told["statusCodeDistribution"].items() if not status.startswith("2")}
    bad |= {what: count for what, count in told["errorDistribution"].items() if "deadline" not in what}
    if bad:
        raise Failed(f"requests were not answered well: {bad}")
    times = told["latencyPercentiles"]
    return Load(told["summary"]["requestsPerSec"], *(times[name] * 1000 for name in ("p50", "p99", "p99.9")))
