"""Workspaces: the time until the agent of a job on a repository of 20,000 files is prompted, and that of a clone."""

import os
import random
import time

from rig.figures import Figure
from rig.processes import run
from rig.site import IDENTITY

from .dispatch import prompted

FILES = 20_000
TENTH = 10

# The seconds before each job from the third on.
PAUSE = 5

FIGURES = [
    Figure("files", f"for comparison: making {FILES:,} empty files", "ms"),
    Figure("clone", f"`git clone` of the repository by its path ({FILES:,} files)", "ms"),
    Figure("clone-whole", "`git clone --no-local`, which copies the objects", "ms"),
    Figure("first", "first job: answered → agent prompted", "ms", ("workspace.clone", "workspace.clone-whole")),
    Figure("next", "second job, as the first ends: answered → agent prompted", "ms", ("workspace.clone-whole",)),
    Figure("second", f"third job, {PAUSE} s later, as after any turn of a real agent: answered → agent prompted", "ms", ("workspace.clone-whole",)),
    Figure("tenth", f"tenth job, {PAUSE} s after the ninth: answered → agent prompted", "ms", ("workspace.clone-whole",)),
    Figure("follow-up", "follow-up on it: answered → agent prompted", "ms"),
    Figure("turn", "tenth job: the whole trivial turn", "ms"),
]


def measure(session, program, note) -> None:
    with session.site(program, has_commit=False) as site:
        site.push(_repository(session))
        note("files", _make_files(site.folder / "files") * 1000)
        for name, how in (("clone", []), ("clone-whole", ["--no-local"])):
            target = site.folder / name
            os.sync()  # this measurement must not wait for earlier writes
            begun = time.monotonic()
            run(["git", "clone", "--quiet", *how, site.repository, target])
            note(name, (time.monotonic() - begun) * 1000)
        for number in range(1, TENTH + 1):
            os.sync()
            begun = time.monotonic()
            job = site.create(agent="probe")
            answered = time.time()
            site.finish(job)
            whole = (time.monotonic() - begun) * 1000
            if name := {1: "first", 2: "next", 3: "second", TENTH: "tenth"}.get(number):
                note(name, (prompted(site, job)[0][0] - answered) * 1000)
            if number >= 2:
                time.sleep(PAUSE)
        note("turn", whole)
        site.message(job)
        answered = time.time()
        site.finish(job)
        note("follow-up", (prompted(site, job)[-1][0] - answered) * 1000)
    session.drop(site)


def _make_files(folder) -> float:
    """Creates as many empty files; returns the seconds that the file system takes in its current state."""
    begun = time.monotonic()
    for number in range(FILES):
        if number % 100 == 0:
            (folder / str(number)).mkdir(parents=True)
        os.close(os.open(folder / str(number - number % 100) / str(number % 100), os.O_CREAT | os.O_WRONLY))
    return time.monotonic() - begun


def _repository(session):
    """Returns a clone with one commit of many small text files in folders of 100; it is created once."""
    if "repository" not in session.shared:
        clone = session.folder()
        run(["git", "init", "--quiet", "--initial-branch=main", clone])
        chance = random.Random(1)
        words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 10))) for _ in range(2000)]
        for number in range(FILES):
            path = clone / f"src/{number // 1000:02}/{number // 100 % 10}/{number:05}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(" ".join(chance.choices(words, k=10)) for _ in range(chance.randint(5, 60))))
        run(["git", "-C", clone, "add", "--all"])
        run(["git", "-C", clone, *IDENTITY, "commit", "--quiet", "--message", "Begin"])
        session.shared["repository"] = clone
    return session.shared["repository"]
