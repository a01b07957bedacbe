"""Runs the test binaries of the crates and the scripts of this folder that test the built program, several at a time.

    python3 scripts/test.py                        # all; clients only if what they test has changed
    python3 scripts/test.py --all                  # all
    python3 scripts/test.py store-tests browser    # by name; --list prints the names

Builds the tests first, while the scripts install their tools (`sh scripts/NAME.sh install`). Prints the output of what
fails, and the results of what passes; target/test-output has everything. A line at the end has the number of parts that
passed, failed and were skipped. The environment variables PARALLEL and RUST_TEST_THREADS set the number of parts at a time,
and of tests at a time in each.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
OUTPUTS = TARGET / "test-output"


def control_groups() -> list[Path]:
    """Returns the folders of the control groups (version 2) of this process, the innermost first."""
    found = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    root = Path("/sys/fs/cgroup")
    inner = root / found[1] if found else root
    return [inner, *(folder for folder in inner.parents if folder.is_relative_to(root))]


def limits(file: str) -> list[list[str]]:
    """Returns the words of a file in each control group that has it, without those that set no limit."""
    files = [folder / file for folder in control_groups()]
    found = [path.read_text().split() for path in files if path.is_file()]
    return [words for words in found if words[0] != "max"]


def processors() -> int:
    """Returns the number of processors that the tests may use: of this machine, or of the control group."""
    allowed = [int(quota) // int(period) for quota, period in limits("cpu.max")]
    return max(1, min([len(os.sched_getaffinity(0)), *allowed]))


def free_memory() -> int:
    """Returns the memory that the tests may still use, in bytes."""
    available = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    # What a control group uses now may be the cache of files, so its whole limit counts.
    return min([int(available[1]) << 10 if available else 0, *(int(limit) for [limit] in limits("memory.max"))])


CORES = processors()

# The scripts, and the parts of the tree whose changes they test. An empty tuple means that everything concerns them.
# Clients take long, and rarely fail: `make test` runs them only after a change of such a part.
SUPPORT = ("tests/support/*", "scripts/python.sh", "scripts/node.sh")
SCRIPTS = {
    "browser": (),
    "sdk-python": ("sdk/python/*", "scripts/sdk-python.sh", "docs/openapi.json", *SUPPORT),
    "mcp": ("tests/mcp/*", "scripts/mcp.sh", "crates/http/src/mcp*", "crates/journeyman/src/cli/mcp*", *SUPPORT),
    "clients": ("tests/clients/*", "scripts/clients.sh", "docs/openapi.json", *SUPPORT),
    "sdk-typescript": ("sdk/typescript/*", "scripts/sdk-typescript.sh", "docs/openapi.json", *SUPPORT),
    "fuzz": (),
    "openapi": (),
    "a2a": ("tests/a2a/*", "scripts/a2a.sh", "crates/http/src/a2a*", *SUPPORT),
    "ci-clients": ("tests/ci/*", "scripts/ci-clients.sh", "sdk/action/*", "sdk/gitlab/*", *SUPPORT),
}

# The files that pages are made of. After a change, the tests in the browser also check each page in all variants.
PAGES = ("crates/dashboard/*", "tests/browser/*", "scripts/browser.sh", *SUPPORT)

# The parts that take longest, which begin first.
LONGEST = [
    "journeyman-tests",
    "browser",
    "core-tests",
    "store-tests",
    "dashboard-unit",
    "forge-tests",
    "worker-unit",
    "sdk-python",
    "sdk-typescript",
    "fuzz",
    "http-tests",
    "app-tests",
]

# The tests of the whole program mostly wait for processes, so more of them run at a time than there are processors.
WAITING = {"journeyman-tests": max(CORES, 6)}

# A part whose output has not grown for this time hangs. The limits inside the parts are shorter, and say more.
QUIET_SECONDS = 3600

# The space that temporary files of the tests need at most, in bytes.
SPACE = 8 << 30


def temporary_folder() -> str | None:
    """Returns the folder for temporary files, if it should not be the usual one: files in memory save a third of the time of
    the whole-program tests, which make and remove many."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not memory.is_dir():
        return None
    # A run that was killed leaves its folder, whose name has the number of its process.
    for old in memory.glob("journeyman-tests-*-*"):
        if not Path("/proc", old.name.split("-")[2]).exists():
            shutil.rmtree(old, ignore_errors=True)
    found = os.statvfs(memory)
    has_space = found.f_bavail * found.f_frsize >= SPACE and free_memory() >= 2 * SPACE
    usable = has_space and not found.f_flag & os.ST_NOEXEC
    return tempfile.mkdtemp(prefix=f"journeyman-tests-{os.getpid()}-", dir=memory) if usable else None


@dataclass
class Part:
    """A test binary or a script."""

    name: str
    command: list[str]
    folder: Path = ROOT
    environment: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    # The processor time of the part and of the processes that it has waited for, in seconds.
    processor: float = 0.0
    # The size of the output, and the time at which it last grew.
    size: int = 0
    grown: float = 0.0

    def start(self) -> None:
        self.log = OUTPUTS / f"{self.name}.log"
        self.begin = self.grown = time.monotonic()
        with self.log.open("wb") as log:
            # A separate process group, so that a signal also ends the servers of the part.
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        size = self.log.stat().st_size
        if size != self.size:
            self.size, self.grown = size, time.monotonic()
        elif time.monotonic() - self.grown > QUIET_SECONDS:
            with self.log.open("ab") as log:
                log.write(f"\nended after {QUIET_SECONDS} s without output: it hangs\n".encode())
            self.kill()
        if self.status is None:
            ended, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if ended:
                self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
                self.processor = used.ru_utime + used.ru_stime
        return self.status is not None

    def kill(self) -> None:
        for number, pause in ((signal.SIGINT, 2), (signal.SIGKILL, 0)):
            try:
                os.killpg(self.process.pid, number)
                time.sleep(pause)
            except ProcessLookupError:
                return


def build() -> list[Part]:
    """Builds the program and all tests, and returns the test binaries."""
    command = ["cargo", "test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        sys.exit(built.returncode)
    parts = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if not message.get("executable") or not message.get("profile", {}).get("test"):
            continue
        folder = Path(message["manifest_path"]).parent
        name = f"{folder.name}-{'tests' if 'test' in message['target']['kind'] else 'unit'}"
        # One test binary of a crate can be the library, another one the program.
        if any(part.name == name for part in parts):
            name += f"-{message['target']['name']}"
        environment = {"CARGO_MANIFEST_DIR": str(folder)}
        if name in WAITING:
            environment["RUST_TEST_THREADS"] = os.environ.get("RUST_TEST_THREADS", str(WAITING[name]))
        parts.append(Part(name, [message["executable"]], folder, environment))
    parts.append(Part("documentation", ["cargo", "test", "--workspace", "--locked", "--doc"]))
    return parts


def changed_files() -> list[str] | None:
    """Returns the files that differ from the commit that this branch began with; None if that is not known."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    # The upstream of a branch may be the branch itself on the server.
    for upstream in ("origin/HEAD", "origin/main", "@{upstream}"):
        if base := git("merge-base", "HEAD", upstream):
            changed = git("diff", "--name-only", base.strip())
            new = git("ls-files", "--others", "--exclude-standard")
            return None if changed is None or new is None else (changed + new).splitlines()
    return None


def is_concerned(name: str, changed: list[str] | None) -> bool:
    """Returns whether a script tests something that has changed."""
    patterns = SCRIPTS[name]
    return not patterns or has_changed(patterns, changed)


def has_changed(patterns: tuple[str, ...], changed: list[str] | None) -> bool:
    """Returns whether a changed file matches one of the patterns, or the changes are not known."""
    return changed is None or any(fnmatch.fnmatch(path, pattern) for path in changed for pattern in patterns)


def installation(names: list[str]) -> Part:
    """Returns the part that installs what the tests need, which mostly waits for the network."""
    commands = [f"sh scripts/{name}.sh install" for name in names]
    setup = "sh scripts/setup.sh test"
    if os.geteuid() == 0:
        commands.insert(0, setup)
    elif subprocess.run(setup.split(), cwd=ROOT).returncode != 0:  # sudo may ask for a password
        sys.exit(1)
    return Part("install", ["sh", "-c", " && ".join(commands) or "true"])


def run(parts: list[Part], parallel: int) -> list[str]:
    """Runs the parts, and returns the names of those that failed."""
    waiting, running, failed = list(parts), [], []
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                part = waiting.pop(0)
                part.start()
                running.append(part)
            for part in [part for part in running if part.has_ended()]:
                running.remove(part)
                report(part)
                if part.status != 0:
                    failed.append(part.name)
            time.sleep(0.05)
    finally:
        for part in running:
            part.kill()
    return failed


def report(part: Part) -> None:
    seconds = time.monotonic() - part.begin
    result = "passed" if part.status == 0 else f"FAILED with status {part.status}"
    print(f"===== {part.name} {result} after {seconds:.0f} s, {part.processor:.0f} s of processor time", flush=True)
    text = part.log.read_text(errors="replace")
    if part.status == 0:
        text = "\n".join(line for line in text.splitlines() if re.search(r"^test result:|SKIPPED|^ℹ (pass|fail)", line))
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the tests of the crates and of the built program.")
    parser.add_argument("names", nargs="*", help="the parts to run; all by default")
    parser.add_argument("--all", action="store_true", help="also clients that test nothing that has changed")
    parser.add_argument("--list", action="store_true", help="build, and print the names of the parts")
    options = parser.parse_args()

    changed = None if options.all else changed_files()
    scripts = [name for name in SCRIPTS if name in options.names or (not options.names and is_concerned(name, changed))]
    skipped = [] if options.names else [name for name in SCRIPTS if name not in scripts]

    OUTPUTS.mkdir(parents=True, exist_ok=True)
    installing = installation(scripts)
    installing.start()
    try:
        parts = build()
    finally:
        # A package manager that is ended leaves packages half installed.
        installed = installing.process.wait() == 0
    if not installed:
        sys.exit(f"the tools of the tests could not be installed:\n{installing.log.read_text(errors='replace')}")
    all_pages = has_changed(PAGES, changed)
    environment = {"ALL_PAGES": "1" if all_pages else "0"}
    parts += [Part(name, ["sh", f"scripts/{name}.sh"], environment=environment) for name in scripts]
    if options.list:
        print("\n".join(part.name for part in parts))
        return
    unknown = set(options.names) - {part.name for part in parts}
    if unknown:
        sys.exit(f"test.py: there is no part {', '.join(sorted(unknown))}; --list prints the names")
    if options.names:
        parts = [part for part in parts if part.name in options.names]
    parts.sort(key=lambda part: LONGEST.index(part.name) if part.name in LONGEST else len(LONGEST))

    begin = time.monotonic()
    folder = temporary_folder()
    if folder:
        # As /tmp: sandboxes have other users, who must be able to pass through, and the user of PostgreSQL removes files.
        os.chmod(folder, 0o1777)
        os.environ["TMPDIR"] = folder
    try:
        failed = run(parts, int(os.environ.get("PARALLEL", CORES + 1)))
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"The tests took {time.monotonic() - begin:.0f} s.")
    for name in skipped:
        print(f"Not run: {name}, because nothing that it tests has changed since the merge base. Run: make test ALL=1")
    if "browser" in scripts and not all_pages:
        print("Not run: the checks of all pages, because none has changed since the merge base. Run: make test-browser")
    if folder:
        print(f"Temporary files were in memory, below {folder}; TMPDIR names another folder.")
    if failed:
        print(f"FAILED: {', '.join(failed)}; the output is above, and in {OUTPUTS}")
    ended = f"{len(parts) - len(failed)} passed, {len(failed)} failed"
    print(f"parts: {ended}, {len(skipped)} skipped" if skipped else f"parts: {ended}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
