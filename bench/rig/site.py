"""The service under test: a data directory with a key and a project, a server on it, and calls to its interface."""

import http.client
import json
import secrets
import subprocess
import threading
import time
from pathlib import Path

from .machine import Skip, free_port
from .processes import Failed, log_tail, run, start, stop

MCP_ACCEPT = "application/json, text/event-stream"  # the header that clients of MCP must send

# The settings of every server: no hourly limits, and a log level that costs little.
SETTINGS = 'create-per-hour = 0\nmessage-per-hour = 0\nlog = "warn"\n'

# An agent that never answers: messages stay queued, so that only their acceptance is measured.
IDLE_AGENT = '[agents.idle]\ncommand = ["sleep", "100000"]\n'

BENCH = Path(__file__).resolve().parent.parent

# The agent that reports when it was prompted. It is passed as text, because a sandbox may not contain its file.
PROBE_AGENT = f'[agents.probe]\ncommand = ["bash", "-c", \'\'\'\n{(BENCH / "agent.sh").read_text()}\'\'\']\n'

PROMPT = "Add a test for the parser. " * 18  # about 500 bytes


class Site:
    """A data directory, and at most one server on it; `settings` and `tables` are added to its configuration."""

    def __init__(self, program: Path, folder: Path, database_url: str | None = None, workers: int = 4,
                 settings: str = "", tables: str = ""):
        self.program, self.folder, self.database_url, self.workers = program, folder, database_url, workers
        self.server: subprocess.Popen | None = None
        self.port = 0
        self._connections = threading.local()
        folder.mkdir(parents=True)
        self.log = folder / "log"
        self.data = folder / "data"
        # The service does not create a master key itself if it uses PostgreSQL.
        master_key = folder / "master.key"
        master_key.touch(0o600)
        master_key.write_text(secrets.token_hex(32) + "\n")
        whole = SETTINGS + settings + f'master-key-file = "{master_key}"\n'
        whole += f'database-url = "{database_url}"\n' if database_url else ""
        (folder / "config.toml").write_text(whole + IDLE_AGENT + PROBE_AGENT + tables)
        try:
            self.key = self.command("key", "create", "--name", "bench").strip().splitlines()[-1]
        except Failed as error:
            if database_url:
                raise Skip(f"this build does not run on PostgreSQL: {error}") from error
            raise
        self.command("project", "create", "shop", "--repository", "local:shop")
        self.repository = self.data / "repositories/shop.git"

    def command(self, *words: str) -> str:
        here = ["--config", self.folder / "config.toml", "--data-dir", self.data]
        return run([self.program, *words, *here], timeout=120)

    def push(self, clone: Path) -> None:
        """Pushes the branch main of `clone` to the project's repository."""
        run(["git", "-C", clone, "push", "--quiet", self.repository, "main"])

    def push_commit(self) -> None:
        """Pushes a commit with one file to the project's repository."""
        clone = self.folder / "clone"
        run(["git", "init", "--quiet", "--initial-branch=main", clone])
        (clone / "README.md").write_text("# Shop\n")
        run(["git", "-C", clone, "add", "--all"])
        run(["git", "-C", clone, *IDENTITY, "commit", "--quiet", "--message", "Begin"])
        self.push(clone)

    def start(self, patience: float = 60) -> float:
        """Starts the server; returns the seconds from its exec to its first successful answer."""
        self.port = free_port()
        self._connections = threading.local()
        begun = time.monotonic()
        here = ["--config", self.folder / "config.toml", "--data-dir", self.data]
        listen = ["--listen", f"127.0.0.1:{self.port}", "--workers", self.workers]
        self.server = start([self.program, "serve", *here, *listen], self.log)
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience)
                connection.request("GET", "/readyz")
                status = connection.getresponse().status
                connection.close()
                if status == 200:
                    return time.monotonic() - begun
            except OSError:
                pass
            if self.server.poll() is not None:
                raise Failed(f"the server ended: {log_tail(self.log)}")
            if time.monotonic() - begun > patience:
                raise Failed(f"the server was not ready after {patience} s: {log_tail(self.log)}")
            time.sleep(0.0005)

    def stop(self) -> None:
        # Kill the server, because a graceful stop waits for agents that never answer.
        stop(self.server)
        self.server = None

    def __enter__(self) -> "Site":
        if not self.server:
            self.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def call(self, method: str, path: str, body=None, timeout: float = 90, accept: str = "application/json"):
        """Sends a request on this thread's connection; returns the JSON, and raises Failed if the status is not 2xx."""
        connection = getattr(self._connections, "one", None)
        if connection is None:
            connection = self._connections.one = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Authorization": f"Bearer {self.key}", "Accept": accept}
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body), "application/json"
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connections.one = None
            raise Failed(f"{method} {path}: {error}; the server's log: {log_tail(self.log)}") from error
        if answer.status // 100 != 2:
            raise Failed(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text) if text else None

    # Calls about jobs.

    def create(self, prompt: str = PROMPT, **more) -> str:
        return self.call("POST", f"{JOBS}/job", {"prompt": prompt, **more})["id"]

    def message(self, job: str, prompt: str = PROMPT) -> None:
        self.call("POST", f"{JOBS}/job/{job}/message", {"prompt": prompt})

    def wait(self, job: str, patience: float = 120) -> str:
        """Waits until the job is not active; returns its status."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            status = self.call("GET", f"{JOBS}/job/{job}?wait=30")["status"]
            if status != "active":
                return status
        raise Failed(f"{job} was still active after {patience} s")

    def finish(self, job: str) -> None:
        if (status := self.wait(job)) != "completed":
            reason = self.call("GET", f"{JOBS}/job/{job}/runs")["runs"][-1].get("reason")
            raise Failed(f"{job} is {status}: {reason}")

    def events(self, job: str, after: int = 0) -> list[dict]:
        return self.call("GET", f"{JOBS}/job/{job}/events?after={after}&limit=1000")["events"]

    def newest(self, count: int) -> list[str]:
        """Returns the IDs of the newest jobs."""
        ids, cursor = [], ""
        while len(ids) < count:
            page = self.call("GET", f"{JOBS}/jobs?limit=100{cursor}")
            ids += [job["id"] for job in page["jobs"]]
            if not page["nextCursor"]:
                break
            cursor = f"&cursor={page['nextCursor']}"
        return ids[:count]


    def active(self) -> list[str]:
        """Returns the paths of all active jobs."""
        paths = []
        while True:
            more = f"&cursor={cursor}" if paths else ""
            page = self.call("GET", f"{JOBS}/jobs?status=active&limit=100{more}")
            paths += [f"{JOBS}/job/{job['id']}" for job in page["jobs"]]
            if not (cursor := page["nextCursor"]):
                return paths


JOBS = "/v2/agent/shop"
IDENTITY = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"]
