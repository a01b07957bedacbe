"""One run of the benchmark: its programs, folders, settings, and what the groups share between rounds."""

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
    """What every group gets. `kept` holds what is dear to make, such as a store with a million jobs, until the end."""

    def __init__(self, programs: list[Program], seconds: float, rounds: int, jobs: int, cache: Path, parent: Path):
        self.programs, self.seconds, self.rounds, self.jobs, self.cache = programs, seconds, rounds, jobs, cache
        cache.mkdir(parents=True, exist_ok=True)
        parent.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="journeyman-bench-", dir=parent))
        # PostgreSQL runs as another user where we are root, and must get through to its own folder.
        self.work.chmod(0o711)
        self.results = Results()
        self.kept: dict = {}
        self.calm = 0.0  # how long a round waits for the machine to be quiet
        self._postgres: Postgres | Skip | None = None
        self._count = itertools.count(1)

    def folder(self) -> Path:
        """A name that nothing has yet."""
        return self.work / f"{next(self._count):03}"

    def postgres(self) -> Postgres:
        """The private PostgreSQL, started when it is first asked for; Skip if it cannot be, each time."""
        if self._postgres is None:
            try:
                self._postgres = Postgres(self.folder())
            except (Skip, Failed) as error:
                self._postgres = Skip(f"no PostgreSQL: {error}")
        if isinstance(self._postgres, Skip):
            raise self._postgres
        return self._postgres

    def site(self, program: Program, store: str = "sqlite", little: bool = True, **more) -> Site:
        """A new installation; with `little`, its repository has one small commit."""
        url = self.postgres().new_database() if store == "postgresql" else None
        site = Site(program.path, self.folder(), url, **more)
        if little:
            site.push_little()
        return site

    def drop(self, site: Site) -> None:
        """Ends a site's server and frees its room; its many small files stay until the end of the run.

        Deleting them here would make what is measured next slow: ext4 without a journal looks for minutes at each inode
        that was freed before it gives it out again, and makes 20,000 files in 9 s instead of 0.3 s.
        """
        site.stop()
        for file in site.folder.glob("data/journeyman.db*"):
            file.unlink()

    def end(self) -> None:
        """Nothing of this run stays: no process, no folder."""
        if isinstance(self._postgres, Postgres):
            self._postgres.stop()
        end_all()
        shutil.rmtree(self.work, ignore_errors=True)
