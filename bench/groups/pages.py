"""Pages: the server's time for a job with ten thousand events, the list of jobs, and the head of a page's stream; the
longest task of a browser."""

import http.client
import json
import os
import statistics
import time
from pathlib import Path
from urllib.parse import urlencode

from rig.figures import Figure
from rig.machine import Skip
from rig.processes import Failed, run

EVENTS = 10_000
REQUESTS = 30

FIGURES = [
    Figure("job-p50", f"the page of a job with {EVENTS:,} events, p50", "ms"),
    Figure("job-p99", "the same, the slowest of " + str(REQUESTS), "ms"),
    Figure("events-p50", "the tab with its events", "ms"),
    Figure("jobs-p50", "the list of 25 jobs", "ms"),
    Figure("live-p50", "the stream of that job's page: its head", "ms"),
    Figure("task-longest", "the longest task of a browser while 511 events arrive on a job's page", "ms"),
    Figure("task-ratio", "the same, compared with sorting 50,000 numbers in the same page", "times"),
]


def measure(session, program, note) -> None:
    note.remark(f"Signed in as a viewer, one browser, {REQUESTS} times each. Targets: 200 ms for a job (issue 5).")
    with session.site(program) as site:
        with note.covering("jobs"), note.covering("job"), note.covering("events"), note.covering("live"):
            _pages(site, note)
    session.drop(site)
    with note.covering("task"):
        _longest_task(program, note)


def _longest_task(program, note) -> None:
    """Measures the page in Chromium, with the program of the tests for it."""
    folder = Path(__file__).resolve().parent.parent.parent / "tests/browser"
    if not (folder / "node_modules").is_dir():
        raise Skip("the tools of the tests in a browser are missing; run: make setup-test; sh scripts/browser.sh install")
    environment = {**os.environ, "JOURNEYMAN": str(program.path)}
    measured = json.loads(run(["node", "longest-task.mjs"], cwd=folder, env=environment).splitlines()[-1])
    note("task-longest", measured["longestTaskMs"])
    note("task-ratio", measured["longestTaskMs"] / measured["referenceMs"])


def _pages(site, note) -> None:
    large = site.create(f"emit {EVENTS} 0.0001", agent="probe")
    for _ in range(24):
        site.finish(site.create("hello", agent="probe"))
    site.finish(large)
    browser = Browser(site)
    page = f"/projects/shop/jobs/{large}"
    browser.get(page)
    job = sorted(browser.get(page) for _ in range(REQUESTS))
    note("job-p50", statistics.median(job))
    note("job-p99", job[-1])
    note("events-p50", statistics.median(browser.get(f"{page}/events") for _ in range(REQUESTS)))
    note("jobs-p50", statistics.median(browser.get("/projects/shop/jobs") for _ in range(REQUESTS)))
    live = f"{page}/live?from={EVENTS - 400}&after={EVENTS}"
    note("live-p50", statistics.median(browser.get(live, whole=False) for _ in range(REQUESTS)))


class Browser:
    """A user who has signed in through a link of the command line."""

    def __init__(self, site):
        self.port = site.port
        link = site.command("user", "add", "bench", "--role", "viewer").strip().splitlines()[-1]
        form = urlencode({"link": link.rsplit("=", 1)[1], "password": "lantern orbit walnut"})
        head = {"Content-Type": "application/x-www-form-urlencoded", "Origin": site.url}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/setup", form, head)
        answer = connection.getresponse()
        if answer.status != 303:
            raise Failed(f"the link was refused: {answer.status}")
        self.cookie = answer.getheader("Set-Cookie").split(";")[0]

    def get(self, path: str, whole: bool = True) -> float:
        """Returns the milliseconds until a page, or only its head, has arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        begun = time.monotonic()
        connection.request("GET", path, headers={"Cookie": self.cookie})
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(f"{path}: {answer.status}")
        if whole:
            answer.read()
        took = (time.monotonic() - begun) * 1000
        connection.close()
        return took
