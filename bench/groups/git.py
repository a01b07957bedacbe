"""Git: the files that turns leave in mirror and repository, before and after the duty `git_maintenance` packs them."""

import time
from pathlib import Path

from rig.figures import Figure
from rig.machine import Skip
from rig.processes import cpu_seconds

TURNS = 150
RECORD = "journeyman-upkeep"
# As if the last upkeep was long ago: everything is due.
LONG_AGO = "packed 1\nswept 1\nrepacked 1\nend\n"
PLACES = {"mirror": "the mirror", "repository": "the repository"}

FIGURES = [
    figure
    for place, name in PLACES.items()
    for figure in (
        Figure(f"{place}-before", f"files of objects and refs in {name} after {TURNS} new jobs with a commit", "files"),
        Figure(f"{place}-after", "the same, after the duty", "files"),
    )
] + [Figure("duty-cpu", "processor time of the service while it packs both", "ms")]

PATIENCE = 60


def measure(session, program, note) -> None:
    site = session.site(program, workers=4)
    with note.covering():
        with site:
            jobs = [site.create(f"[[write a.txt|{number}]]") for number in range(TURNS)]
            for job in jobs:
                site.finish(job)
        mirror = next((site.data / "mirrors").glob("*.git"))
        folders = {"mirror": mirror, "repository": site.repository}
        before = {place: files(folder) for place, folder in folders.items()}
        for place, count in before.items():
            note(f"{place}-before", count)
        if not any((folder / RECORD).exists() for folder in folders.values()):
            raise Skip("this build does not pack")
        for folder in folders.values():
            (folder / RECORD).write_text(LONG_AGO)
        with site:
            after, spent = _packed(site, folders)
        for place, count in after.items():
            note(f"{place}-after", count)
        note("duty-cpu", spent)
    session.drop(site)


def _packed(site, folders) -> tuple[dict[str, int], float]:
    """Waits until the files of all folders have not changed for a second; returns their numbers, and the milliseconds
    of processor time since the start."""
    begun, last, since = time.monotonic(), {}, 0.0
    while time.monotonic() - begun < PATIENCE:
        now = {place: files(folder) for place, folder in folders.items()}
        records = [(folder / RECORD).read_text() for folder in folders.values()]
        if now != last or LONG_AGO in records:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 1:
            return now, cpu_seconds(site.server.pid) * 1000
        time.sleep(0.05)
    raise RuntimeError(f"the repositories were not packed within {PATIENCE} s")


def files(repository: Path) -> int:
    """Returns the number of files of objects and refs."""
    return sum(sum(path.is_file() for path in (repository / part).rglob("*")) for part in ("objects", "refs"))
