"""What it costs that git's work is on the disk: turns with a commit and a pull request, beside the same with a git that syncs
nothing. Both gits are started through a script of one line, so that only the syncs differ."""

import shutil
import threading
import time

from rig.figures import Figure
from rig.machine import Skip
from rig.processes import Failed

WORKERS = 4
CLIENTS = (1, 8)
PROMPT = "[[write a.txt|a]]"
GITS = {"synced": "", "unsynced": "-c core.fsync=none "}

FIGURES = [
    figure
    for clients in CLIENTS
    for figure in (
        Figure(f"unsynced-{clients}", f"a turn with a pull request, {clients} at a time, git without syncs", "ms"),
        Figure(f"synced-{clients}", "the same, synced", "ms", beside=(f"durability.unsynced-{clients}",)),
    )
]


def measure(session, program, note) -> None:
    git = shutil.which("git")
    if git is None:
        raise Skip("git is not installed")
    folder = session.folder()
    folder.mkdir()
    for name, options in GITS.items():
        script = folder / f"git-{name}"
        script.write_text(f'#!/bin/sh\nexec {git} {options}"$@"\n')
        script.chmod(0o755)
        with session.site(program, workers=WORKERS, settings=f'git = "{script}"\n') as site:
            site.finish(site.create(PROMPT))
            for clients in CLIENTS:
                with note.covering(f"{name}-{clients}"):
                    note(f"{name}-{clients}", _milliseconds(site, clients, session.seconds))
        session.drop(site)


def _milliseconds(site, clients: int, seconds: float) -> float:
    """The time of a turn as one of so many clients sees it."""
    took: list[float] = []
    errors: list[Exception] = []
    end = time.monotonic() + seconds

    def client() -> None:
        try:
            while time.monotonic() < end:
                begun = time.monotonic()
                site.finish(site.create(PROMPT))
                took.append(time.monotonic() - begun)
        except Exception as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    threads = [threading.Thread(target=client, daemon=True) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 150)
    if errors:
        raise errors[0]
    if not took:
        raise Failed("no turn ended")
    return sorted(took)[len(took) // 2] * 1000
