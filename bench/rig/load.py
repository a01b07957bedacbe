"""Load: closed-loop with wrk for rates, open-loop with oha for latencies.

Closed loop: each client sends a request when it has the answer to the one before, so that a stall reduces the number of
requests and hides itself. Open loop: requests are due at a steady rate, and each is timed from when it was due.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from .machine import need
from .processes import Failed, run
from .site import BENCH

OPEN_SHARE = 0.5  # the rate of the open loop, as a share of the rate that the closed loop reached


@dataclass
class Load:
    """The answers per second, and latencies in milliseconds."""

    rate: float
    p50: float
    p99: float
    p999: float


def closed(
    url: str, paths: list[str], clients: int, seconds: float, work: Path, body=None, key=None, accept=None
) -> Load:
    """Runs wrk on `paths` in turn, with POST if there is a `body`. Raises Failed if an answer is not 2xx."""
    ids = work / "paths"
    ids.write_text("\n".join(paths) + "\n")
    environment = os.environ | {"IDS": str(ids)} | ({"KEY": key} if key else {})
    if accept is not None:
        environment["ACCEPT"] = accept
    if body is not None:
        environment["BODY"] = json.dumps(body)
    script = "get.lua" if body is None else "post.lua"
    # wrk accepts only whole seconds.
    options = ["--threads", min(2, clients), "--connections", clients, "--duration", f"{max(1, round(seconds))}s"]
    printed = run(
        [need("wrk"), *options, "--timeout", "30s", "--script", script, url], env=environment, cwd=BENCH / "load"
    )
    result = json.loads(printed.strip().splitlines()[-1])
    if result["bad"]:
        raise Failed(f"{result['bad']} of {result['requests']} requests failed")
    return Load(result["rate"], result["p50"], result["p99"], result["p999"])


def opened(oha: str, url: str, paths: list[str], rate: float, seconds: float, work: Path, body=None, key=None) -> Load:
    """Runs oha at `rate` over 64 persistent connections, on random ones of `paths`."""
    urls = work / "urls"
    urls.write_text("".join(f"{url}{path}\n" for path in paths))
    options = ["-z", f"{seconds}s", "-c", 64, "-q", max(1, round(rate)), "--latency-correction", "--no-tui"]
    options += ["--output-format", "json", "--urls-from-file", "-w"]
    if key:
        options += ["-H", f"Authorization: Bearer {key}"]
    if body is not None:
        options += ["-m", "POST", "-T", "application/json", "-d", json.dumps(body)]
    result = json.loads(run([oha, *options, urls]))
    bad = {status: count for status, count in result["statusCodeDistribution"].items() if not status.startswith("2")}
    bad |= {what: count for what, count in result["errorDistribution"].items() if "deadline" not in what}
    if bad:
        raise Failed(f"requests failed: {bad}")
    times = result["latencyPercentiles"]
    return Load(result["summary"]["requestsPerSec"], *(times[name] * 1000 for name in ("p50", "p99", "p99.9")))
