"""The cost of syncing what git writes: turns with a commit and a pull request, compared with a git that syncs nothing.
Both gits run through a script of one line, so that only the syncs differ."""

import shutil

from rig.clients import turns
from rig.figures import Figure
from rig.machine import Skip

WORKERS = 4
CLIENTS = (1, 8)
PROMPT = "[[write a.txt|a]]"
GITS = {"synced": "", "unsynced": "-c core.fsync=none "}

FIGURES = [
    figure
    for clients in CLIENTS
    for figure in (
        Figure(f"unsynced-{clients}", f"a turn with a pull request, {clients} at a time, git without syncs", "ms"),
        Figure(f"synced-{clients}", "the same, synced", "ms", compared=(f"durability.unsynced-{clients}",)),
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
                    done = turns(clients, session.seconds, lambda _, site=site: site.finish(site.create(PROMPT)))
                    note(f"{name}-{clients}", done.median * 1000)
        session.drop(site)
