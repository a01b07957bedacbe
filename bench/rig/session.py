"""A run of the benchmark: its programs, folders and settings, and the data that groups share between rounds."""

import itertools
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .figures import Results
from .machine import Skip
from .postgres import Postgres
from .processes import Failed, end_all, run
from .site import Site


@dataclass(frozen=True)
class Program:
    """A build that is measured."""

    label: str
    path: Path

    @property
    def version(self) -> str:
        return run([self.path, "--version"]).strip()


class Session:
    """The context of every group. `shared` holds what is expensive to create, such as a store with a million jobs."""

    def __init__(self, programs: list[Program], seconds: float, rounds: int, jobs: int, cache: Path, parent: Path):
        self.programs, self.seconds, self.rounds, self.jobs, self.cache = programs, seconds, rounds, jobs, cache
        cache.mkdir(parents=True, exist_ok=True)
        parent.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="journeyman-bench-", dir=parent))
        # As root, this process runs PostgreSQL as another user, who must be able to access its folder.
        self.work.chmod(0o711)
        self.results = Results()
        self.shared: dict = {}
        self.calm = 0.0  # the maximum seconds that a round waits for an idle machine
        self.code_host: Path | None = None  # the stand-in for a code host; None means that the group builds it
        self._postgres: Postgres | Skip | None = None
        self._count = itertools.count(1)

    def folder(self) -> Path:
        """Returns a path that does not exist yet."""
        return self.work / f"{next(self._count):03}"

    def postgres(self) -> Postgres:
        """Returns the private PostgreSQL server, started by the first call; every call raises Skip if that failed."""
        if self._postgres is None:
            try:
                self._postgres = Postgres(self.folder())
            except (Skip, Failed) as error:
                self._postgres = Skip(f"no PostgreSQL: {error}")
        if isinstance(self._postgres, Skip):
            raise self._postgres
        return self._postgres

    def site(self, program: Program, store: str = "sqlite", has_commit: bool = True, **more) -> Site:
        """Returns a new installation; if `has_commit` is true, its repository has one small commit."""
        url = self.postgres().new_database() if store == "postgresql" else None
        site = Site(program.path, self.folder(), url, **more)
        if has_commit:
            site.push_commit()
        return site

    def drop(self, site: Site) -> None:
        """Ends a site's server and deletes its database; its many small files stay until the end of the run.

        Deleting them here would slow down the next measurement: for minutes, ext4 without a journal examines each freed
        inode before it reuses it, and takes 9 s instead of 0.3 s to create 20,000 files.
        """
        site.stop()
        for file in site.folder.glob("data/journeyman.db*"):
            file.unlink()

    def end(self) -> None:
        """Ends all processes of the run and deletes its folder."""
        if isinstance(self._postgres, Postgres):
            self._postgres.stop()
        end_all()
        shutil.rmtree(self.work, ignore_errors=True)
