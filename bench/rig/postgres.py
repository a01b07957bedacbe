"""A private PostgreSQL server: default settings, fsync on, a free port of localhost. It ends with the benchmark."""

import os
import signal
import shutil
import time
from pathlib import Path

from .machine import free_port, postgres_bin
from .processes import Failed, log_tail, run, start, stop, unprivileged

USER = PASSWORD = "bench"


class Postgres:
    """A running PostgreSQL server."""

    def __init__(self, folder: Path):
        self.bin, self.port, self.user = postgres_bin(), free_port(), unprivileged()
        folder.mkdir()
        self.folder, self.log = folder, folder / "log"
        password = folder / "password"
        password.write_text(PASSWORD + "\n")
        if self.user:
            # PostgreSQL refuses to run as root.
            for path in (folder, password):
                shutil.chown(path, self.user)
        data, locale = folder / "data", ["--encoding=UTF8", "--locale=C.UTF-8"]
        login = ["--username", USER, "--pwfile", password, "--auth=scram-sha-256"]
        self._as_user([self.bin / "initdb", "--pgdata", data, *login, *locale])
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        server = [self.bin / "postgres", "-D", data, "-p", self.port, *options]
        self.server = start(server, self.log, user=self.user, cwd=folder)
        self._count = 0
        until = time.monotonic() + 30
        while True:
            try:
                self.psql("select 1")
                return
            except Failed as error:
                if self.server.poll() is not None or time.monotonic() > until:
                    raise Failed(f"PostgreSQL did not start: {log_tail(self.log)}") from error
                time.sleep(0.05)

    def _as_user(self, argv) -> str:
        options = {"user": self.user, "extra_groups": []} if self.user else {}
        return run(argv, cwd=self.folder, **options)

    def environment(self) -> dict[str, str]:
        where = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": USER, "PGPASSWORD": PASSWORD}
        return os.environ | where | {"PGDATABASE": "postgres"}

    def psql(self, sql: str, database: str = "postgres", timeout: float = 600) -> str:
        form = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1"]
        argv = [self.bin / "psql", *form, "--dbname", database, "--command", sql]
        return run(argv, env=self.environment(), timeout=timeout).strip()

    def url(self, database: str) -> str:
        return f"postgres://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """Creates an empty database; returns its URL."""
        self._count += 1
        name = f"bench{self._count}"
        self.psql(f"create database {name}")
        return self.url(name)

    def version(self) -> str:
        return self.psql("show server_version")

    def stop(self) -> None:
        # SIGINT is the fast shutdown: the server ends its children and removes its shared memory.
        stop(self.server, signal.SIGINT)
