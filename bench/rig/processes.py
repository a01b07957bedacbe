"""Child processes: started in one place, so that they and all their descendants end with the benchmark."""

import ctypes
import os
import pwd
import resource
import signal
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
TICKS = os.sysconf("SC_CLK_TCK")


class Failed(RuntimeError):
    """A program failed; the text has the end of its output."""


def adopt_orphans() -> None:
    """Adopts processes that lose their parent, such as the agents of a killed server, so that they can be ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A thousand streams need a thousand descriptors, here and in the server, which inherits the limit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def unprivileged() -> str | None:
    """Returns a user for programs that refuse to run as root; None if this process is not root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def start(argv, log: Path, user: str | None = None, **options) -> subprocess.Popen:
    """Starts a server in a new session; its output goes to `log`."""
    with open(log, "ab") as out:
        options.setdefault("stdout", out)
        if user:
            options |= {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        return subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stderr=out, start_new_session=True, **options
        )


def run(argv, timeout: float = 600, **options) -> str:
    """Runs a program to its end and returns its output; raises Failed if it does not succeed."""
    argv = [str(word) for word in argv]
    # In the same session, so that Ctrl-C in the terminal reaches the program too.
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **options)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{Path(argv[0]).name} {' '.join(argv[1:3])}: exit {done.returncode}: {words}")
    return done.stdout


def log_tail(log: Path, count: int = 400) -> str:
    return " ".join(log.read_text(errors="replace").split())[-count:] if log.exists() else ""


def _stat(pid: int) -> list[str]:
    # The name is in parentheses and may have blanks: count the fields after it. Index 0 is field 3, the state.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def descendants(root: int) -> list[int]:
    """Returns all descendants of a process, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                children.setdefault(int(_stat(int(entry))[1]), []).append(int(entry))
            except (OSError, IndexError):
                continue
    found, ahead = [], [root]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += below
        ahead += below
    return found


def _kill(pids) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def stop(server: subprocess.Popen | None, how: int = signal.SIGKILL) -> None:
    """Ends a server and its descendants; after a signal other than SIGKILL, the server has ten seconds to stop."""
    if server is None or server.poll() is not None:
        return
    family = descendants(server.pid)
    server.send_signal(how)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    _kill(family)


def end_all() -> None:
    """Ends all descendants of this process, also those that are started in the meantime."""
    for _ in range(50):
        left = descendants(os.getpid())
        if not left:
            return
        _kill(left)
        reap()
        time.sleep(0.02)


def our_seconds() -> float:
    """Returns the processor time of this process and all its descendants, also of those that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    total = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    for pid in descendants(os.getpid()):
        try:
            total += cpu_seconds(pid)
        except (OSError, IndexError):
            continue
    return total


def reap() -> None:
    """Reaps adopted processes that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def resident_kib(pid: int, family: bool = False) -> int:
    """Returns the resident KiB (with `family`, of all descendants too); shared pages count once per process."""
    total = 0
    for one in [pid, *(descendants(pid) if family else [])]:
        try:
            text = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))
    return total


def cpu_seconds(pid: int) -> float:
    """Returns the processor time of a process and of the children that it has waited for."""
    fields = _stat(pid)  # utime, stime, cutime, cstime are fields 14 to 17
    return sum(int(field) for field in fields[11:15]) / TICKS
