"""The program that was built, as a server on the loopback interface, for the tests in Python."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("JOURNEYMAN", ROOT / "target/debug/journeyman")).resolve()

# Settings in the environment must not affect the server or its clients.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not re.search("JOURNEYMAN|GITHUB|ACTIONS|^CI", name)}


class Service:
    """A server with its own data directory in `folder`."""

    def __init__(self, folder: Path, *flags: str):
        self.data = folder / "data"
        self._log = folder / "log"
        limits = ["--create-per-hour=0", "--message-per-hour=0"]
        command = [PROGRAM, "serve", f"--data-dir={self.data}", "--listen=127.0.0.1:0", "--grace=1s", *limits, *flags]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(command, env=ENVIRONMENT, stderr=log, **pipes)
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+)/setup\?link=", line):
                self.url = found[1]
                return
        sys.exit(f"the server did not start:\n{self.log()}")

    def log(self) -> str:
        return self._log.read_text()

    def run(self, *arguments: str) -> str:
        """Runs a command on the data of the server, and returns what it prints."""
        command = [PROGRAM, *arguments, f"--data-dir={self.data}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run(command, env=ENVIRONMENT, **pipes)
        if done.returncode != 0:
            sys.exit(f"{arguments} failed:\n{done.stderr}")
        return done.stdout

    def key(self, name: str, *options: str) -> str:
        """Creates an API key, and returns its secret."""
        return self.run("key", "create", f"--name={name}", "--expires=1day", *options).split()[-1]

    def post(self, path: str, key: str, body: dict) -> dict:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def push(self, project: str, key: str) -> None:
        """Pushes a first commit to the repository of a project."""
        environment = {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        for who in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{who}_NAME": "Grace", f"GIT_{who}_EMAIL": "grace@example.com"}
        remote = f"{self.url.replace('//', f'//git:{key}@')}/git/{project}.git"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "README.md").write_text("# Shop\n")
            for arguments in (
                ["init", "-q", "-b", "main"],
                ["add", "-A"],
                ["commit", "-qm", "Begin"],
                ["push", "-q", remote, "HEAD:main"],
            ):
                subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True)

    def stop(self) -> int:
        """Stops the server, and returns its status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def folder(name: str):
    """A temporary folder that the users of sandboxes can pass through."""
    with tempfile.TemporaryDirectory(prefix=f"journeyman-{name}-", ignore_cleanup_errors=True) as path:
        Path(path).chmod(0o755)
        yield Path(path)
