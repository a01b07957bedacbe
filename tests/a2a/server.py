"""Starts the program that was built with one project, and runs a command with the address and keys of the server.

The variables of the command: A2A_URL, A2A_KEY, and A2A_READ_KEY, a key that only reads.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ.get("JOURNEYMAN", ROOT / "target/debug/journeyman")).resolve()

# Settings in the environment must not affect the server.
ENVIRONMENT = {name: value for name, value in os.environ.items() if "JOURNEYMAN" not in name}


class Server:
    def __init__(self, folder: Path):
        self.data = folder / "data"
        self.log = folder / "log"
        flags = ["--listen=127.0.0.1:0", "--log=info", "--grace=1s", "--create-per-hour=0", "--message-per-hour=0"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", f"--data-dir={self.data}", *flags],
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

    def key(self, name: str, *options: str) -> str:
        command = [PROGRAM, "key", "create", f"--name={name}", "--expires=1day", f"--data-dir={self.data}", *options]
        done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.split()[-1]

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
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="journeyman-a2a-", ignore_cleanup_errors=True) as folder:
        # Sandboxes need a folder that other users can pass through.
        Path(folder).chmod(0o755)
        server = Server(Path(folder))
        try:
            key = server.key("a2a")
            server.post("/v2/projects", key, {"id": "shop", "repository": "local:shop"})
            server.push("shop", key)
            read = server.post("/v2/keys", key, {"name": "read", "scopes": ["read"]})["secret"]
            variables = {"A2A_URL": server.url, "A2A_KEY": key, "A2A_READ_KEY": read}
            done = subprocess.run(sys.argv[1:], env={**ENVIRONMENT, **variables})
        finally:
            status = server.stop()
        if done.returncode != 0 or status != 0:
            sys.exit(f"a2a: the server's status is {status}; its log:\n{server.log.read_text()[-10_000:]}")


main()
