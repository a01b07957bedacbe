"""Measures builds of Journeyman, and compares them with what the machine and other programs can do (`make bench`).

    python3 bench/bench.py [--program PATH] [--against PATH] [--only GROUP,...] [--seconds 5] [--rounds 3] [--peers]

Uses only Python's standard library. Installs the tools that it needs with apt-get (git, wrk, postgresql) and cargo
(oha), and prints a line for each. At its end it removes everything that it has started and written, except
bench/RESULTS.md and the cache of tools.
"""

import argparse
import importlib
import os
import shutil
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

sys.dont_write_bytecode = True  # a run leaves nothing in the checkout except its report

from rig.figures import SHARED, Note
from rig.machine import Others, describe, need, say
from rig.processes import Failed, adopt_orphans, reap, run
from rig.report import Report
from rig.session import Program, Session
from rig.site import BENCH

# Groups that create many small files come first: see Session.drop.
GROUPS = ["floor", "workspace", "dispatch", "turns", "hosts", "durability", "sandbox", "start", "accept", "poll", "streams", "webhooks", "pages", "memory", "git", "growth", "peers"]


def main() -> int:
    asked = arguments()
    adopt_orphans()
    groups = {name: importlib.import_module(f"groups.{name}") for name in GROUPS}
    report = Report(groups, ["this", "against"][: 2 if asked.against else 1])
    programs = [Program("this", built(asked.program))]
    if asked.against:
        programs.append(Program("against", asked.against.resolve(strict=True)))
    session = Session(programs, asked.seconds, asked.rounds, asked.jobs, asked.cache, asked.work)
    session.calm, session.code_host = asked.calm, asked.code_host
    whole, begun, facts = False, time.monotonic(), {}
    try:
        need("git")
        need("wrk")
        facts |= {"date": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"} | describe(session.work, session.cache)
        facts |= {program.label: f"`{program.path.name}`, {program.version}" for program in programs}
        facts["rounds"] = f"{asked.rounds} of each figure, {asked.seconds:g} s for each load"
        for name in asked.only:
            for number in range(1, asked.rounds + 1):
                measure(session, name, groups[name], number)
        whole = True
    except KeyboardInterrupt:
        say("bench: stopped")
    finally:
        session.end()
    if not whole:
        facts["**incomplete**"] = "the run was stopped; figures that it did not reach are marked as skipped"
    facts["took"] = f"{(time.monotonic() - begun) / 60:.0f} min"
    text = report.text(session.results, facts, asked.only)
    asked.out.write_text(text)
    print(text)
    say(f"bench: written to {asked.out}")
    return 0 if whole else 130


def measure(session: Session, name: str, group, number: int) -> None:
    """Measures one round of a group, for each program in turn, so that both run under similar conditions."""
    keys = [figure.key for figure in group.FIGURES]
    shared = getattr(group, "SHARED", False)
    # Reverse the order in every other round, because the first program changes the conditions for the second.
    programs = session.programs[:1] if shared else session.programs[:: 1 if number % 2 else -1]
    for program in programs:
        label = SHARED if shared else program.label
        say(f"{name}, round {number} of {session.rounds}{'' if shared else ': ' + program.label}")
        calm(session.calm)
        others, note = Others(), Note(session.results, name, label, keys)
        with note.covering():
            group.measure(session, program, note)
        session.results.others.setdefault(name, []).append(others.percent())
        reap()


def calm(seconds: float) -> None:
    """Waits until no other process uses the machine, but at most `seconds`: a parallel build halves most figures."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        others = Others()
        time.sleep(0.3)
        if others.percent() < 15:
            return
        time.sleep(1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=Path, help="the build to measure (default: built with cargo)")
    parser.add_argument("--against", type=Path, help="another build, measured in turn with the first")
    parser.add_argument("--only", default="", help=f"groups to measure, separated by commas: {', '.join(GROUPS)}")
    parser.add_argument("--peers", action="store_true", help="measure the peers too (downloads them; takes minutes)")
    parser.add_argument("--seconds", type=float, default=5, help="the duration of each load (5)")
    parser.add_argument("--rounds", type=int, default=3, help="the number of rounds for each figure (3)")
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs in the full stores of the group growth")
    parser.add_argument("--calm", type=float, default=20, help="maximum seconds to wait for an idle machine (20)")
    parser.add_argument("--code-host", type=Path, help="the stand-in for a code host (default: built with cargo)")
    parser.add_argument("--out", type=Path, default=BENCH / "RESULTS.md", help="the file of the report")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "journeyman-bench"
    parser.add_argument("--cache", type=Path, default=cache, help="the folder of installed tools and peers")
    # Not /tmp, which is in memory on many machines, where an fsync costs nothing.
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), help="the parent of the run's temporary folder")
    asked = parser.parse_args()
    wanted = [name for name in asked.only.split(",") if name] or [name for name in GROUPS if name != "peers"]
    if unknown := sorted(set(wanted) - set(GROUPS)):
        parser.error(f"unknown groups: {', '.join(unknown)}; the groups are {', '.join(GROUPS)}")
    asked.only = [name for name in GROUPS if name in wanted or (name == "peers" and asked.peers)]
    return asked


def built(program: Path | None) -> Path:
    """Returns the given program, or a release build of this checkout."""
    if program:
        return program.resolve(strict=True)
    if not shutil.which("cargo"):
        raise SystemExit("bench: cargo is missing; install it, or name a build with --program")
    say("bench: building journeyman")
    try:
        features = ["--package", "journeyman", "--features", "jemalloc"]
        run(["cargo", "build", "--profile", "dist", "--locked", *features], timeout=3600, cwd=BENCH.parent)
    except Failed as error:
        raise SystemExit(f"bench: {error}") from error
    return BENCH.parent / "target/dist/journeyman"


if __name__ == "__main__":
    sys.exit(main())
