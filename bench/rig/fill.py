"""Fills a store with finished jobs: copies of a real one with new IDs and times, made in the database.

No server may run in the meantime. The code does not name the columns: it copies each row of the real job, replaces IDs
and the time of creation in all texts, moves all times, and lets the database assign its numbers. A later schema needs
no change here, as long as tables name their job in a column `job`.
"""

import sqlite3
import time

from .processes import Failed
from .site import Site

STEP = 1_000_000  # microseconds between the creations of two jobs
SERIES = {"sqlite": "series", "postgresql": "generate_series(1, {count}) as series(i)"}


def fill(site: Site, postgres, count: int, more: int = 0) -> None:
    """Runs a job and makes `count` copies of it, in addition to `more` earlier ones. Stops the server."""
    with site:
        template = site.create("[[say x]]")
        site.finish(template)
    store = _Postgres(postgres, site.database_url) if site.database_url else _Sqlite(site)
    try:
        _copy(store, template, count, more)
    finally:
        store.close()


def fill_usage(site: Site, postgres, count: int) -> None:
    """Adds the sums of `count` runs of the last year, of 20 projects, 3 models and 10 authors. No server may run."""
    store = _Postgres(postgres, site.database_url) if site.database_url else _Sqlite(site)
    # Each combination of a day, a project, a model and an author has one row with 5 runs.
    rows = min(count // 5, 365 * 20 * 3 * 10)
    today = int(time.time()) // 86400
    source = SERIES[store.kind].format(count=rows)
    values = f"{today} - i % 365, 'p' || ((i / 365) % 20), 'm' || ((i / 7300) % 3), 'a' || ((i / 21900) % 10), ''"
    try:
        store.run(
            "insert into usage_days (day, project, model, author, key, runs, unpriced, input_tokens, output_tokens, "
            f"cached_tokens, cost_micros) select {values}, 5, 0, 100000, 5000, 80000, 900000 from {source}",
            rows,
        )
    finally:
        store.close()


def sample(site: Site, postgres, count: int) -> list[str]:
    """Returns the IDs of random jobs of a site."""
    store = _Postgres(postgres, site.database_url) if site.database_url else _Sqlite(site)
    return store.values(f"select id from jobs order by random() limit {count}")


def _copy(store, template: str, count: int, more: int) -> None:
    created = store.value(f"select created_at from jobs where id = '{template}'")
    ids = [template, *store.values(f"select id from messages where job = '{template}'")]
    ids += store.values(f"select id from runs where job = '{template}'")
    for table in store.tables():
        columns = store.columns(table)
        key = "id" if table == "jobs" else "job"
        if key not in [name for name, *_ in columns]:
            continue
        given = [(name, kind) for name, kind, automatic in columns if not automatic]
        chosen = ", ".join(_expression(store, name, kind, ids, created, more) for name, kind in given)
        names = ", ".join(name for name, _ in given)
        # The template's few rows are the inner loop, so the copies are inserted one after another, like real jobs.
        source = f"{SERIES[store.kind].format(count=count)} cross join {table} where {table}.{key} = '{template}'"
        store.run(f"insert into {table} ({names}) select {chosen} from {source}", count)


def _expression(store, name: str, kind: str, ids: list[str], created: str, more: int) -> str:
    """Returns the expression for a column of the i-th copy, which is i steps older; the template stays the newest."""
    i = f"cast(i + {more} as bigint)"
    moved = f"({created} - {STEP} * {i})"
    if kind in ("integer", "bigint") and (name == "at" or name.endswith("_at")):
        return f"{name} - {STEP} * {i}"
    if name == "position":
        # The places in the feed are unique. A job has fewer than 100 events there.
        return f"{name} - 100 * {i}"
    if kind not in ("text", "json", "jsonb"):
        return name
    value = name if kind == "text" else f"{name}::text"
    for identity in ids:
        # The form of the program's IDs, which are UUIDs by time (version 7): `job_` and 32 digits.
        prefix = identity.split("_")[0]
        digits = f"{store.hex(f'{moved} / 1000')} || '70008000' || {store.hex(i)}"
        value = f"replace({value}, '{identity}', '{prefix}_' || {digits})"
    value = f"replace({value}, '{created}', cast({moved} as text))"
    return value if kind == "text" else f"{value}::{kind}"


class _Sqlite:
    kind = "sqlite"

    def __init__(self, site: Site):
        self.db = sqlite3.connect(site.data / "journeyman.db", isolation_level=None)
        # Do not sync while filling; the file is complete when it is closed.
        self.db.executescript("pragma synchronous = off; pragma cache_size = -400000; pragma foreign_keys = off")

    def values(self, sql: str) -> list:
        return [row[0] for row in self.db.execute(sql)]

    def value(self, sql: str):
        return self.values(sql)[0]

    def tables(self) -> list[str]:
        return self.values("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")

    def columns(self, table: str) -> list[tuple[str, str, bool]]:
        rows = self.db.execute(f"select name, lower(type), pk from pragma_table_info('{table}')").fetchall()
        # The database assigns the number of a row, an INTEGER PRIMARY KEY.
        return [(name, kind, bool(key) and kind == "integer" and name == "number") for name, kind, key in rows]

    def hex(self, number: str) -> str:
        return f"printf('%012x', {number})"

    def run(self, sql: str, count: int) -> None:
        # Insert in pieces: one transaction of a million rows would write the whole log twice.
        piece = 50_000
        for begun in range(0, count, piece):
            end = min(count, begun + piece)
            series = f"select {begun + 1} union all select i + 1 from series where i < {end}"
            self.db.execute(f"with recursive series(i) as ({series}) {sql}")

    def close(self) -> None:
        self.db.execute("pragma wal_checkpoint(truncate)")
        self.db.close()


class _Postgres:
    kind = "postgresql"

    def __init__(self, postgres, url: str):
        self.postgres, self.database, self.path = postgres, url.rsplit("/", 1)[1], ""
        # A service may keep its tables in a separate schema.
        self.schema = self.value("select table_schema from information_schema.tables where table_name = 'jobs'")
        self.path = f"set search_path = {self.schema}; "

    def values(self, sql: str) -> list[str]:
        return self.postgres.psql(self.path + sql, self.database).splitlines()

    def value(self, sql: str) -> str:
        values = self.values(sql)
        if not values:
            raise Failed(f"nothing found by: {sql}")
        return values[0]

    def tables(self) -> list[str]:
        return self.values(f"select tablename from pg_tables where schemaname = '{self.schema}'")

    def columns(self, table: str) -> list[tuple[str, str, bool]]:
        automatic = "is_identity = 'YES' or is_generated = 'ALWAYS' or coalesce(column_default, '') like 'nextval%'"
        where = f"table_schema = '{self.schema}' and table_name = '{table}' order by ordinal_position"
        rows = self.values(f"select column_name, data_type, {automatic} from information_schema.columns where {where}")
        return [(name, kind, is_automatic == "t") for name, kind, is_automatic in (row.split("|") for row in rows)]

    def hex(self, number: str) -> str:
        return f"lpad(to_hex(({number})::bigint), 12, '0')"

    def run(self, sql: str, count: int) -> None:
        # Use one statement: psql would need a file for each piece, and no log is written twice here.
        self.postgres.psql(f"{self.path}set synchronous_commit = off; {sql}", self.database, timeout=3600)

    def close(self) -> None:
        self.postgres.psql("vacuum analyze", self.database, timeout=3600)
        self.postgres.psql("checkpoint", self.database)
