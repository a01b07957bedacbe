"""Child processes: started in one place, so that all of them, and all that they start, end with the benchmark."""

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
    """A program did not do what it was started for; the text has its last words."""


def adopt_orphans() -> None:
    """What loses its parent (the agents of a server that was killed) becomes our child, so that we find and end it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A thousand streams need a thousand descriptors, here and in the server, which inherits the limit.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)


def unprivileged() -> str | None:
    """A user for programs that refuse to run as root; None if we are not root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def start(argv, log: Path, user: str | None = None, **options) -> subprocess.Popen:
    """Starts a server in a process group of its own; what it prints goes to `log`."""
    with open(log, "ab") as out:
        options.setdefault("stdout", out)
        if user:
            options |= {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        return subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stderr=out, start_new_session=True, **options
        )


def run(argv, timeout: float = 600, **options) -> str:
    """Runs a program to its end and returns what it printed; Failed if it did not succeed."""
    argv = [str(word) for word in argv]
    # Not a session of its own: Ctrl-C at the terminal reaches it too.
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **options)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{Path(argv[0]).name} {' '.join(argv[1:3])}: exit {done.returncode}: {words}")
    return done.stdout


def last_words(log: Path, count: int = 400) -> str:
    return " ".join(log.read_text(errors="replace").split())[-count:] if log.exists() else ""


def _stat(pid: int) -> list[str]:
    # The name is in parentheses and may have blanks: count from behind it. Index 0 is field 3, the state.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def descendants(root: int) -> list[int]:
    """Every process below `root`, parents before children."""
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
    """Ends a server and all that it has started; for other signals than KILL it gets ten seconds."""
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
    """Ends every process that came from us, also those that meanwhile begot others."""
    for _ in range(50):
        left = descendants(os.getpid())
        if not left:
            return
        _kill(left)
        reap()
        time.sleep(0.02)


def our_seconds() -> float:
    """Processor time of this process and of all that ever came from it, also of what has ended since."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    total = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    for pid in descendants(os.getpid()):
        try:
            total += cpu_seconds(pid)
        except (OSError, IndexError):
            continue
    return total


def reap() -> None:
    """Buries orphans that have ended, of which nobody else asks how."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def resident_kib(pid: int, family: bool = False) -> int:
    """Resident memory; of the whole family each page that is shared counts once for each process, as `ps` has it."""
    total = 0
    for one in [pid, *(descendants(pid) if family else [])]:
        try:
            text = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS:"))
    return total


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of the children that it has waited for."""
    fields = _stat(pid)  # utime, stime, cutime, cstime are fields 14 to 17
    return sum(int(field) for field in fields[11:15]) / TICKS
