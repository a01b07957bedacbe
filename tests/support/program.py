"""Starts the program that was built, for the tests in Python."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("JOURNEYMAN", ROOT / "target/debug/journeyman")).resolve()

# Settings in the environment must not affect the server or its clients.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not re.search("JOURNEYMAN|GITHUB|ACTIONS|^CI", name)}

# The time limit of a single wait, and that of a whole suite of others, in seconds. Only a hang reaches them: a slow or
# busy machine may take many times as long as usual.
WAIT = 600
SUITE_WAIT = 1800

# Options of a server without limits of new jobs and messages.
UNLIMITED = ["--create-per-hour=0", "--message-per-hour=0"]


class Server:
    """A server with its own data directory, on the loopback interface."""

    def __init__(self, folder: Path, *options: str):
        self.data = folder / "data"
        self.log = folder / "log"
        self.options = options
        self.start("127.0.0.1:0")

    def start(self, listen: str) -> None:
        flags = ["--grace=1s", f"--listen={listen}", f"--data-dir={self.data}", *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", *flags],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+)/setup\?link=", line):
                self.url = found[1]
                return
        sys.exit(f"the server did not start:\n{self.log.read_text()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def restart(self) -> None:
        """Stops the server, and starts it again with the same data and address."""
        if (status := self.stop()) != 0:
            raise AssertionError(f"the server ended with {status}")
        self.start(self.url.removeprefix("http://"))

    def run(self, *arguments: str) -> str:
        """Runs a command on the data of the server, and returns what it prints."""
        command = [PROGRAM, *arguments, f"--data-dir={self.data}"]
        done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{arguments} failed:\n{done.stderr}")
        return done.stdout

    def key(self, name: str, *options: str) -> str:
        return self.run("key", "create", f"--name={name}", "--expires=1day", *options).split()[-1]

    def call(self, method: str, path: str, key: str, body: Any = None) -> tuple[int, Any]:
        """Sends a request, and returns the status and the JSON of the answer."""
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def release(self, job: str = "*") -> None:
        """Waits until the test model carries out `[[hold]]` in a job, by default in any, and ends it."""
        end = time.monotonic() + WAIT
        while not (held := [path for path in self.held(job) if not path.with_name("released").exists()]):
            assert time.monotonic() < end, f"no agent waits in {job}"
            time.sleep(0.1)
        for path in held:
            path.with_name("released").touch()

    def held(self, job: str) -> list[Path]:
        """Returns the files of agents that wait, or that have waited."""
        return list(self.data.glob(f"workspaces/{job}/home/held"))

    def project(self, key: str, name: str) -> None:
        """Creates a project on the built-in code host, and pushes a first commit to its repository."""
        status, answer = self.call("POST", "/v2/projects", key, {"id": name, "repository": f"local:{name}"})
        assert status == 201, answer
        push(self.url, key, name)


def push(url: str, key: str, project: str) -> None:
    """Pushes a first commit to the repository of a project."""
    environment = {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        environment |= {f"GIT_{who}_NAME": "Grace", f"GIT_{who}_EMAIL": "grace@example.com"}
    remote = f"{url.replace('//', f'//git:{key}@')}/git/{project}.git"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "README.md").write_text("# Shop\n")
        for arguments in (
            ["init", "-q", "-b", "main"],
            ["add", "-A"],
            ["commit", "-qm", "Begin"],
            ["push", "-q", remote, "HEAD:main"],
        ):
            subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True)


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """Starts a server, and stops it at the end. Exits with the log of the server if the tests or the server fail."""
    with tempfile.TemporaryDirectory(prefix="journeyman-clients-", ignore_cleanup_errors=True) as folder:
        # Sandboxes need a folder that other users can pass through.
        Path(folder).chmod(0o755)
        server = Server(Path(folder), *options)
        passed = False
        try:
            yield server
            passed = True
        finally:
            status = server.stop()
            if not passed or status != 0:
                log = server.log.read_text()[-10_000:]
                print(f"the server ended with {status}; its log:\n{log}", file=sys.stderr)
        if status != 0:
            sys.exit(1)
