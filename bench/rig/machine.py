"""The machine: its description, its tools, and the installation of missing tools."""

import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from .processes import TICKS, Failed, our_seconds, run


class Skip(Exception):
    """A figure cannot be measured here; the text is the reason in the report."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_updated = False


def need(program: str, package: str | None = None) -> str:
    """Returns the path of a program, and installs it with apt-get if it is missing; raises Skip if that fails."""
    global _updated
    if found := shutil.which(program):
        return found
    package = package or program
    if not shutil.which("apt-get"):
        raise Skip(f"{program} is missing, and there is no apt-get to install {package}")
    say(f"bench: installing {package} with apt-get")
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        if not _updated:
            run([*sudo, "apt-get", "update", "-qq"], env=environment)
            _updated = True
        run([*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends", package], env=environment)
    except (Failed, OSError, subprocess.TimeoutExpired) as error:
        raise Skip(f"{package} could not be installed: {error}") from error
    if found := shutil.which(program):
        return found
    raise Skip(f"{program} is still missing after {package} was installed")


def oha(cache: Path) -> str:
    """Returns the path of the open-loop load generator, which is built once into the cache."""
    if found := shutil.which("oha"):
        return found
    built = cache / "bin/oha"
    if not built.exists():
        if not shutil.which("cargo"):
            raise Skip("oha is missing, and so is cargo, which would build it")
        say(f"bench: building oha into {cache} with cargo, once; this takes minutes")
        try:
            run(["nice", "cargo", "install", "oha", "--locked", "--root", cache], timeout=3600)
        except Failed as error:
            raise Skip(f"oha could not be built: {error}") from error
    return str(built)


def postgres_bin() -> Path:
    """Returns the folder of the programs of the newest installed PostgreSQL."""

    def installed():
        return sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))

    if not installed():
        need("pg_lsclusters", "postgresql")
    if not installed():
        raise Skip("PostgreSQL is missing: no /usr/lib/postgresql/*/bin/initdb")
    return installed()[-1].parent


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Others:
    """The share of the processors that others use from now on: other builds, other guests of the host."""

    def __init__(self):
        self.before = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float]:
        # user, nice, system, idle, iowait, irq, softirq, steal; the last is the time that the host gave to other guests
        fields = [int(field) / TICKS for field in open("/proc/stat").readline().split()[1:9]]
        idle = fields[3] + fields[4]
        return sum(fields), sum(fields) - idle, our_seconds()

    def percent(self) -> float:
        everything, used, ours = (now - then for now, then in zip(self._now(), self.before))
        return max(0.0, 100 * (used - ours) / max(everything, 1e-9))


def _first_line(argv) -> str:
    try:
        done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return "not installed"
    # wrk prints its version with an exit status of 1, among its usage.
    return ((done.stdout or done.stderr).strip().splitlines() or ["not installed"])[0]


def describe(work: Path, cache: Path) -> dict[str, str]:
    """Returns the facts about the machine and the tools at the top of the report."""
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    ram = int(next(line for line in open("/proc/meminfo") if line.startswith("MemTotal")).split()[1]) / 1048576
    disk = _first_line(["stat", "--file-system", "--format=%T", work])
    pg = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    oha_path = shutil.which("oha") or cache / "bin/oha"
    return {
        "machine": f"{os.cpu_count()} cores, {cpu}, {ram:.0f} GiB, {platform.system()} {platform.release()}",
        "disk": f"{disk}" + (" — in memory: an fsync costs nothing here" if disk == "tmpfs" else ""),
        "load average at the start": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "PostgreSQL": _first_line([pg[-1], "--version"]) if pg else "not installed",
        "wrk": " ".join(_first_line(["wrk", "--version"]).split()[:2]),
        "oha": _first_line([oha_path, "--version"]),
        "node": _first_line(["node", "--version"]),
        "git": _first_line(["git", "--version"]),
        "Python": platform.python_version(),
    }
