"""A code host: from the end of a turn to its pull request, webhooks that are answered, and comments that become messages.

The code host is the stand-in of the tests, which says when it has begun and ended each answer. Its time is subtracted.
"""

import hashlib
import hmac
import json
import re
import socket
import statistics
import threading
import time
import urllib.request
from datetime import datetime

from rig.figures import Figure
from rig.machine import Skip
from rig.processes import Failed, log_tail, run, start, stop
from rig.site import BENCH

JOB_COUNT = 10
RATE = 500  # webhooks a second
CLIENTS = 8
COMMENTS = 10
SETTLE = 1  # seconds
SECRET = "webhook-secret-of-the-benchmark"
WEB = "/v2/agent/web"

# The agent is passed as text, because a sandbox may not contain its file. It needs no time to write its session after
# its answer, for which others may run 200 ms longer.
AGENT = f'[agents.author]\nflush-millis = 0\ncommand = ["bash", "-c", \'\'\'\n{(BENCH / "author.sh").read_text()}\'\'\']\n'

FIGURES = [
    Figure("published-p50", "end of the turn → pull request open, without the code host and the push, p50", "ms"),
    Figure("published-max", "the same, longest", "ms"),
    Figure("published-whole", "the same with them, p50", "ms"),
    Figure("hook-p50", f"a webhook stored and answered, {RATE} a second, p50", "ms", ("floor.fsync-p50",)),
    Figure("hook-p99", "the same, p99", "ms"),
    Figure("message-p50", "settled → message queued, p50", "ms"),
    Figure("message-max", "settled → message queued, longest", "ms"),
]


def measure(session, program, note) -> None:
    host, told = _stand_in(session)
    folder = session.folder()
    folder.mkdir()
    files = {"token": told["token"], "webhook": SECRET}
    for name, text in files.items():
        (folder / name).write_text(text)
    tables = f'{AGENT}[code-hosts.github]\nkind = "github"\nurl = "{told["url"]}"\n'
    tables += f'token-file = "{folder / "token"}"\nwebhook-secret-file = "{folder / "webhook"}"\n'
    try:
        with session.site(program, tables=tables) as site:
            site.call("POST", "/v2/projects", {"id": "web", "repository": told["clone"]})
            site.call("PATCH", "/v2/projects/web", {"comments": {"settleSeconds": SETTLE}})
            with note.covering("published"):
                pull = _published(site, told, note)
            with note.covering("message"):
                _messages(site, told, pull, note)
            with note.covering("hook"):
                _hooks(session, site, told, pull, note)
        session.drop(site)
    finally:
        stop(host)


def _stand_in(session):
    """Starts the stand-in; returns its process and what it says about itself."""
    program = session.code_host
    if program is None:
        words = ["cargo", "build", "--release", "--locked", "--package", "journeyman-testkit", "--example", "code_host"]
        try:
            run(words, timeout=3600, cwd=BENCH.parent)
        except (Failed, OSError) as error:
            raise Skip(f"the stand-in for a code host could not be built: {error}") from error
        program = BENCH.parent / "target/release/examples/code_host"
    log = session.folder()
    process = start([program], log)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if log.exists() and (lines := log.read_text().splitlines()):
            return process, json.loads(lines[0])
        time.sleep(0.01)
    raise Failed(f"the stand-in for a code host did not start: {log_tail(log)}")


def _finish(site, job: str) -> dict:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        record = site.call("GET", f"{WEB}/job/{job}?wait=30")
        if record["status"] == "completed":
            return record
        if record["status"] != "active":
            raise Failed(f"{job} is {record['status']}: {site.call('GET', f'{WEB}/job/{job}/runs')}")
    raise Failed(f"{job} is still active")


def _published(site, told, note) -> int:
    """Measures the opening of pull requests; returns the number of the last one."""
    own, whole, number = [], [], 0
    for place in range(JOB_COUNT + 1):
        _answered(told)
        job = site.call("POST", f"{WEB}/job", {"prompt": f"Work {place}", "agent": "author"})["id"]
        number = int(_finish(site, job)["prLink"].rsplit("/", 1)[1])
        events = site.call("GET", f"{WEB}/job/{job}/events?limit=1000")["events"]
        text = "".join(event["data"]["text"] for event in events if event["type"] == "agent.message")
        ended = float(re.search(r"ended ([\d.]+)", text)[1])
        answers = _answered(told)
        opened = next(one["ended"] for one in answers if re.fullmatch(r"POST \S+/pulls", one["request"]))
        # The first job of a server creates the mirror, which is not measured here.
        if place > 0:
            whole.append((opened - ended) * 1000)
            own.append(whole[-1] - _of_others(answers, ended, opened) * 1000)
    note("published-p50", statistics.median(own))
    note("published-max", max(own))
    note("published-whole", statistics.median(whole))
    return number


def _answered(told) -> list[dict]:
    """Returns the answers of the stand-in since the last call."""
    with urllib.request.urlopen(f"{told['url']}/answered", timeout=10) as answer:
        return json.load(answer)


def _of_others(answers: list[dict], begin: float, end: float) -> float:
    """Returns the seconds in which the code host answered or git pushed."""
    spans = [(one["begun"], one["ended"]) for one in answers]
    push = [one for one in answers if "git-receive-pack" in one["request"]]
    if push:
        spans.append((min(one["begun"] for one in push), max(one["ended"] for one in push)))
    total, until = 0.0, begin
    for start_, end_ in sorted(spans):
        start_, end_ = max(start_, until), min(end_, end)
        if end_ > start_:
            total, until = total + end_ - start_, end_
    return total


def _comment(told, pull: int, number: int, text: str) -> bytes:
    """Returns the body of the webhook of a comment."""
    user = {"id": told["user"], "login": "maria", "type": "User"}
    url = f"{told['url']}/acme/shop/pull/{pull}#issuecomment-{number}"
    comment = {"id": number, "html_url": url, "body": text, "user": user, "updated_at": "2026-11-23T08:00:00Z"}
    return json.dumps({
        "action": "created", "comment": comment, "issue": {"number": pull, "pull_request": {}}, "sender": user,
        "repository": {"id": told["repository"], "full_name": "acme/shop"},
    }).encode()


def _request(site, delivery: str, body: bytes) -> bytes:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    head = f"POST /hooks/github HTTP/1.1\r\nhost: 127.0.0.1:{site.port}\r\ncontent-type: application/json\r\n"
    head += f"x-github-event: issue_comment\r\nx-github-delivery: {delivery}\r\n"
    head += f"x-hub-signature-256: sha256={signature}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _send(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    answer = b""
    while b"\r\n\r\n" not in answer or b"}" not in answer.split(b"\r\n\r\n", 1)[1]:
        more = connection.recv(4096)
        if not more:
            raise Failed("the service closed the connection")
        answer += more
    if not answer.startswith(b"HTTP/1.1 202"):
        raise Failed(f"a webhook was refused: {answer[:300]!r}")


def _messages(site, told, pull: int, note) -> None:
    delays = []
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        for number in range(COMMENTS):
            body = _comment(told, pull, 1_000_000 + number, f"@journeyman-bot do {number}")
            _send(connection, _request(site, f"message-{number}", body))
            message = None
            until = time.monotonic() + 30
            while message is None and time.monotonic() < until:
                event = site.call("GET", "/v2/inbox?limit=1")["events"][0]
                message = event["message"]
            if message is None:
                raise Failed(f"no message was made of a comment: {event}")
            job = event["job"]
            _finish(site, job)
            made = next(one for one in site.call("GET", f"{WEB}/job/{job}/messages")["messages"] if one["id"] == message)
            between = datetime.fromisoformat(made["createdAt"]) - datetime.fromisoformat(event["receivedAt"])
            delays.append((between.total_seconds() - SETTLE) * 1000)
    note("message-p50", statistics.median(delays))
    note("message-max", max(delays))


def _hooks(session, site, told, pull: int, note) -> None:
    """Sends webhooks at a steady rate. Each is timed from when it was due, so that a stall counts for all it delays."""
    count = int(RATE * session.seconds)
    bodies = [_comment(told, pull, 2_000_000 + number, "Looks good.") for number in range(count)]
    requests = [_request(site, f"hook-{number}", body) for number, body in enumerate(bodies)]
    times, errors, begun = [], [], time.monotonic() + 0.1

    def client(first: int) -> None:
        try:
            with socket.create_connection(("127.0.0.1", site.port)) as connection:
                for number in range(first, count, CLIENTS):
                    due = begun + number / RATE
                    time.sleep(max(0.0, due - time.monotonic()))
                    _send(connection, requests[number])
                    times.append((time.monotonic() - due) * 1000)
        except Exception as error:  # noqa: BLE001 - raised by the main thread
            errors.append(error)

    threads = [threading.Thread(target=client, args=(first,), daemon=True) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(session.seconds + 60)
    if errors:
        raise errors[0]
    if len(times) < count:
        raise Failed(f"only {len(times)} of {count} webhooks were answered")
    times.sort()
    note("hook-p50", times[len(times) // 2])
    note("hook-p99", times[int(len(times) * 0.99)])
