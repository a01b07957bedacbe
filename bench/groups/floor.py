"""The limits of the machine: an fsync, a minimal answer over HTTP, and comparable SQL with pgbench."""

import os
import re
import statistics
import time
from pathlib import Path

from rig.figures import Figure
from rig.load import closed
from rig.processes import run

PGBENCH_CLIENTS = (1, 16, 32, 64)
PGBENCH = "pgbench: update of a row of 1 kB, insert of 500 bytes, commit"
JOBS = 1000

FIGURES = [
    Figure("fsync-p50", "one record of 512 bytes, written and fdatasync'd, p50", "ms"),
    Figure("fsync-rate", "the same, one after another", "/s", more_is_better=True),
    Figure("fsync-64", "64 records sharing one fdatasync", "/s", more_is_better=True),
    Figure("http-64", "minimal answer of the server (`/healthz`), 64 clients", "/s", more_is_better=True),
    *(
        Figure(f"pgbench-{clients}", f"{PGBENCH}; {clients} client{'s' * (clients > 1)}", "/s", more_is_better=True)
        for clients in PGBENCH_CLIENTS
    ),
]

# The minimum work of a database for a follow-up: the job's row with its document, and the message.
TABLES = f"""
drop table if exists jobs, messages;
create table jobs (id bigint primary key, state text not null);
create table messages (number bigserial primary key, job bigint not null, prompt text not null);
insert into jobs select i, repeat('s', 1000) from generate_series(1, {JOBS}) i;
"""
SCRIPT = f"""\\set id random(1, {JOBS})
begin;
update jobs set state = repeat(chr(97 + :id % 26), 1000) where id = :id;
insert into messages (job, prompt) values (:id, repeat('m', 500));
commit;
"""


def measure(session, program, note) -> None:
    with note.covering("fsync"):
        _fsync(session.work / "fsync", min(session.seconds, 3), note)
    with note.covering("http"):
        with session.site(program) as site:
            note("http-64", closed(site.url, ["/healthz"], 64, session.seconds, session.work).rate)
        session.drop(site)
    with note.covering("pgbench"):
        postgres = session.postgres()
        script = session.work / "pgbench.sql"
        script.write_text(SCRIPT)
        for clients in PGBENCH_CLIENTS:
            postgres.psql(TABLES)
            # Otherwise its checkpoint would slow down the next measurement.
            postgres.psql("checkpoint")
            note(f"pgbench-{clients}", _pgbench(postgres, script, clients, session.seconds))


def _fsync(path: Path, seconds: float, note) -> None:
    """Measures appending to a file, as a log does."""
    record = b"x" * 512
    for count, half in ((1, seconds / 2), (64, seconds / 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        times, until = [], time.perf_counter() + half
        while (begun := time.perf_counter()) < until:
            for _ in range(count):
                os.write(file, record)
            os.fdatasync(file)
            times.append(time.perf_counter() - begun)
        os.close(file)
        path.unlink()
        rate = count * len(times) / sum(times)
        if count == 1:
            note("fsync-p50", statistics.median(times) * 1000)
            note("fsync-rate", rate)
        else:
            note("fsync-64", rate)


def _pgbench(postgres, script: Path, clients: int, seconds: float) -> float:
    options = ["--no-vacuum", "--protocol=prepared", "--client", clients, "--jobs", min(2, clients)]
    argv = [postgres.bin / "pgbench", *options, "--time", max(1, round(seconds)), "--file", script, "postgres"]
    printed = run(argv, env=postgres.environment())
    return float(re.search(r"tps = ([\d.]+)", printed)[1])
