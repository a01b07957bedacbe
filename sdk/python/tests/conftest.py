"""A server for the tests, and clients for it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from journeyman_client import Journeyman, _core

from .proxy import Proxy
from .stand_ins import StandIns

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).resolve().parent.parent
PROGRAM = Path(
    os.environ.get("JOURNEYMAN", PACKAGE.parent.parent / "target" / "debug" / "journeyman")
).resolve()

#: The time limit of a single wait, and that of an example, in seconds. Only a hang reaches them: a
#: slow or busy machine may take many times as long as usual.
WAIT = 600
EXAMPLE_WAIT = 1800

#: A prompt of a job that runs until it is canceled, archived or interrupted.
LONG = "[[sleep 3600]]"

#: Settings in the environment of the tests must not affect the server and the clients.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "JOURNEYMAN" not in name}


class Server:
    """A running server with the built-in code host and the test model."""

    def __init__(self, folder: Path) -> None:
        if not PROGRAM.is_file():
            pytest.exit(f"the program {PROGRAM} is missing: build it, or set JOURNEYMAN")
        self.data = folder / "data"
        self.log = folder / "log"
        self.stand_ins = StandIns()
        flags = [
            "--listen=127.0.0.1:0",
            "--log=info",
            "--grace=1s",
            "--webhook-networks=127.0.0.0/8",
            "--oidc-networks=127.0.0.0/8",
            f"--slack-api-url={self.stand_ins.slack}",
        ]
        flags += ["--create-per-hour=0", "--message-per-hour=0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", f"--data-dir={self.data}", *flags],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.url = self._read_url()
        self.key = self.command("key", "create", "--name=tests", "--expires=never")

    def _read_url(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.search(r"(http://\S+)/setup\?link=", line):
                return found[1]
        pytest.exit(f"the server did not start:\n{self.log.read_text()}")

    def command(self, *arguments: str) -> str:
        """Runs a command on the data of the server; returns the last word of its output."""
        command = [str(PROGRAM), *arguments, f"--data-dir={self.data}"]
        done = subprocess.run(
            command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout.split()[-1]

    def push(self, project: str) -> None:
        """Pushes a first commit to the repository of a project."""
        identity = {"NAME": "Grace", "EMAIL": "grace@example.com"}
        environment = {**ENVIRONMENT, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        for who in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{who}_{name}": value for name, value in identity.items()}
        remote = f"{self.url.replace('//', f'//git:{self.key}@')}/git/{project}.git"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "README.md").write_text("# Shop\n")
            for arguments in (
                ["init", "-q", "-b", "main"],
                ["add", "-A"],
                ["commit", "-qm", "Begin"],
                ["push", "-q", remote, "HEAD:main"],
            ):
                subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True)

    def release(self, job: str) -> None:
        """Waits until the test model carries out ``[[hold]]`` in a job, and ends it."""
        home = self.data / "workspaces" / job / "home"
        end = time.monotonic() + WAIT
        while not (home / "held").exists():
            assert time.monotonic() < end, f"no agent waits in {job}"
            time.sleep(0.05)
        (home / "released").touch()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(WAIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.stand_ins.stop()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    # Sandboxes need a folder that other users can pass through.
    folder = Path(tempfile.mkdtemp(prefix="journeyman-python-"))
    folder.chmod(0o755)
    server = Server(folder)
    with Journeyman(server.url, server.key) as client:
        client.projects.create(id="shop", repository="local:shop")
    server.push("shop")
    yield server
    server.stop()
    if server.process.returncode != 0:
        sys.stderr.write(server.log.read_text())
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def client(server: Server) -> Iterator[Journeyman]:
    with Journeyman(server.url, server.key, timeout=WAIT) as client:
        yield client


@pytest.fixture
def quiet_project(server: Server, client: Journeyman, request: pytest.FixtureRequest) -> str:
    """The ID of a project without the jobs of other tests."""
    module = request.module.__name__.rpartition(".")[2]
    project = f"{module}-{request.function.__name__}".replace("_", "-")
    client.projects.create(id=project, repository=f"local:{project}")
    server.push(project)
    return project


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A proxy in front of the server that can fail."""
    with Proxy(server.url) as proxy:
        yield proxy


@pytest.fixture
def unreliable(server: Server, proxy: Proxy) -> Iterator[Journeyman]:
    """A client behind the proxy."""
    with Journeyman(proxy.url, server.key, timeout=WAIT) as client:
        yield client


class Clock:
    """A clock that only its own ``sleep`` moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the synchronous client, whose delays then take no time."""
    clock = Clock()
    for module in ("_core", "_sync._jobs", "_sync._streams", "_sync._transport"):
        monkeypatch.setattr(f"journeyman_client.{module}.time", clock)
    return clock


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the delays between attempts, and removes the settings of the caller."""
    monkeypatch.setattr(_core, "_FIRST_DELAY", 0.02)
    for name in set(os.environ) - set(ENVIRONMENT):
        monkeypatch.delenv(name)
