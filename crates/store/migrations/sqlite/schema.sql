-- The schema that all migrations together make, for new databases. Written by: make schema

CREATE TABLE projects (
    id         TEXT PRIMARY KEY,
    repository TEXT NOT NULL,
    ref        TEXT,
    agent      TEXT NOT NULL,
    model      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    settings   TEXT NOT NULL
, concurrent_runs INTEGER, version INTEGER NOT NULL DEFAULT 1, identity TEXT) WITHOUT ROWID, STRICT;

CREATE TABLE project_secrets (
    project TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name    TEXT NOT NULL,
    value   BLOB NOT NULL, -- sealed
    PRIMARY KEY (project, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE messages (
    number       INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    job          TEXT NOT NULL,
    prompt       TEXT NOT NULL,
    origin       TEXT NOT NULL,
    author       TEXT,
    delivery     TEXT NOT NULL,
    status       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    delivered_at INTEGER,
    finished_at  INTEGER,
    run          TEXT,
    commits      TEXT NOT NULL, -- JSON array
    pr_link      TEXT
, seq INTEGER NOT NULL DEFAULT 0, published_with TEXT, answer TEXT, traceparent TEXT, source TEXT, key TEXT, via TEXT, diff TEXT) STRICT;

CREATE TABLE runs (
    number        INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    job           TEXT NOT NULL,
    message       TEXT NOT NULL,
    attempt       INTEGER NOT NULL,
    status        TEXT NOT NULL,
    reason        TEXT, -- JSON {code, text}
    worker        TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    finished_at   INTEGER,
    usage         TEXT NOT NULL, -- JSON
    commits       TEXT NOT NULL  -- JSON array
) STRICT;

CREATE INDEX runs_of_job ON runs (job, number);

CREATE TABLE log (
    job  TEXT NOT NULL,
    seq  INTEGER NOT NULL,
    type TEXT NOT NULL,
    at   INTEGER NOT NULL,
    run  TEXT,
    data TEXT NOT NULL, -- JSON object
    PRIMARY KEY (job, seq)
) WITHOUT ROWID, STRICT;

CREATE TABLE idempotency_keys (
    project     TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    at          INTEGER NOT NULL,
    record      TEXT NOT NULL, -- JSON
    PRIMARY KEY (project, key)
) WITHOUT ROWID, STRICT;

CREATE INDEX idempotency_keys_at ON idempotency_keys (at);

CREATE TABLE rate_windows (
    project    TEXT NOT NULL,
    kind       TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    used       INTEGER NOT NULL,
    PRIMARY KEY (project, kind)
) WITHOUT ROWID, STRICT;

CREATE TABLE keys (
    id           TEXT PRIMARY KEY,
    hash         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    prefix       TEXT NOT NULL,
    scopes       TEXT NOT NULL, -- JSON array
    projects     TEXT,          -- JSON array; null: all
    expires_at   INTEGER,
    allowed_ips  TEXT,          -- JSON array; null: all
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER
, creator TEXT, owner TEXT, version INTEGER NOT NULL DEFAULT 1, grants TEXT, old_hash BLOB, old_until INTEGER) WITHOUT ROWID, STRICT;

CREATE TABLE audit (
    number  INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL
, address TEXT) STRICT;

CREATE TABLE pulls (
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    state      TEXT NOT NULL,
    draft      INTEGER NOT NULL,
    head       TEXT NOT NULL,
    base       TEXT NOT NULL,
    labels     TEXT NOT NULL, -- JSON array
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    ended_base TEXT,
    ended_head TEXT, ended_by TEXT, merge_commit TEXT,
    PRIMARY KEY (repository, number)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX pulls_open ON pulls (repository, head) WHERE state = 'open';

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE "jobs" (
    number     INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    project    TEXT NOT NULL,
    status     TEXT NOT NULL,
    title      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at     INTEGER, -- when a worker should look at it; null: never
    worker     TEXT,    -- who has the lease; null: nobody
    prefers    TEXT,    -- the worker that it waits for a little; null: none
    state      TEXT NOT NULL
, rests_since INTEGER, trimmed INTEGER NOT NULL DEFAULT 0, avoids TEXT, waiting TEXT, branch TEXT, diff TEXT, effort TEXT) STRICT;

CREATE INDEX jobs_due ON jobs (project, due_at, id) WHERE due_at IS NOT NULL;

CREATE INDEX jobs_of_status ON jobs (project, status, created_at DESC, id DESC);

CREATE INDEX messages_of_job ON messages (job, seq);

CREATE INDEX jobs_at_rest ON jobs (trimmed, rests_since) WHERE rests_since IS NOT NULL;

CREATE INDEX audit_at ON audit (at);

CREATE TABLE spending (
    project TEXT NOT NULL,
    kind    TEXT NOT NULL, -- job, day, project
    subject TEXT NOT NULL,
    micros  INTEGER NOT NULL,
    PRIMARY KEY (project, kind, subject)
) WITHOUT ROWID, STRICT;

CREATE TABLE users (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    role         TEXT NOT NULL, -- administrator, member, viewer
    password     TEXT,          -- PHC string
    issuer       TEXT,
    subject      TEXT,
    created_at   INTEGER NOT NULL,
    signed_in_at INTEGER,
    disabled_at  INTEGER, version INTEGER NOT NULL DEFAULT 1, second_factor TEXT, passkeys TEXT,
    UNIQUE (issuer, subject)
) WITHOUT ROWID, STRICT;

CREATE TABLE sessions (
    hash       BLOB PRIMARY KEY,
    owner      TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    address    TEXT,
    browser    TEXT
, proven_at INTEGER) WITHOUT ROWID, STRICT;

CREATE INDEX sessions_owner ON sessions (owner);

CREATE TABLE links (
    hash       BLOB PRIMARY KEY,
    owner      TEXT REFERENCES users (id) ON DELETE CASCADE, -- null: the first administrator
    expires_at INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE comments (
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    author     TEXT NOT NULL,
    body       TEXT NOT NULL,
    at         INTEGER NOT NULL,
    message    TEXT, author_id TEXT, path TEXT, side TEXT, line INTEGER, hunk TEXT, review INTEGER, draft INTEGER NOT NULL DEFAULT 0, marker TEXT, verdict TEXT, resolved_by TEXT, resolved_at INTEGER, -- the message to the job that it became
    PRIMARY KEY (repository, number, place)
) WITHOUT ROWID, STRICT;

CREATE TABLE project_holds (
    project       TEXT PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    next_probe_at INTEGER NOT NULL,
    hold          TEXT NOT NULL -- JSON
) WITHOUT ROWID, STRICT;

CREATE INDEX jobs_waiting ON jobs (waiting) WHERE waiting IS NOT NULL;

CREATE INDEX jobs_of_project ON jobs (project, created_at DESC, id DESC, title);

CREATE INDEX jobs_by_branch ON jobs (project, branch);

CREATE TABLE tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    -- The effect as JSON.
    effect TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX tasks_due ON tasks (due_at, number);

CREATE TABLE duties (
    name TEXT PRIMARY KEY,
    due_at INTEGER NOT NULL,
    token INTEGER NOT NULL
);

CREATE TABLE code_hosts (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE, -- the host and the path of its URL
    settings   TEXT NOT NULL,        -- JSON
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE code_host_secrets (
    code_host TEXT NOT NULL REFERENCES code_hosts (id) ON DELETE CASCADE,
    name      TEXT NOT NULL,
    value     BLOB NOT NULL, -- encrypted
    PRIMARY KEY (code_host, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE locks (
    name   TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE job_pulls (
    host       TEXT NOT NULL,
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    job        TEXT NOT NULL,
    project    TEXT NOT NULL,
    url        TEXT NOT NULL,
    head       TEXT NOT NULL,
    head_sha   TEXT,
    state      TEXT NOT NULL, -- open, merged, closed
    created_at INTEGER NOT NULL, title TEXT, draft INTEGER NOT NULL DEFAULT 0, ended_at INTEGER,
    PRIMARY KEY (host, repository, number)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX job_pulls_open ON job_pulls (host, repository, head) WHERE state = 'open';

CREATE INDEX job_pulls_of_job ON job_pulls (job, created_at);

CREATE INDEX pulls_of_branch ON pulls (repository, head);

CREATE TABLE inbox (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    host        TEXT NOT NULL,
    code_host   TEXT,             -- null: the built-in one
    project     TEXT,
    delivery    TEXT NOT NULL,
    event       TEXT NOT NULL,    -- the name at the host
    received_at INTEGER NOT NULL,
    state       TEXT NOT NULL,
    outcome     TEXT,
    detail      TEXT,
    body        BLOB,             -- as it arrived; null once it was read
    content     TEXT,             -- JSON; null until it was read
    subject     TEXT,             -- the comment or review in its version
    job         TEXT,
    message     TEXT,
    due_at      INTEGER,          -- null: final
    attempts    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (host, delivery)
) STRICT;

CREATE INDEX inbox_due ON inbox (due_at, number) WHERE due_at IS NOT NULL;

CREATE INDEX inbox_of_project ON inbox (project, number);

CREATE INDEX inbox_of_job ON inbox (job, number) WHERE job IS NOT NULL;

CREATE INDEX inbox_of_subject ON inbox (host, subject) WHERE subject IS NOT NULL;

CREATE INDEX inbox_of_message ON inbox (message) WHERE message IS NOT NULL;

CREATE INDEX inbox_at ON inbox (received_at);

CREATE TABLE job_issues (
    host       TEXT NOT NULL,
    repository TEXT NOT NULL,
    number     INTEGER NOT NULL,
    job        TEXT NOT NULL,
    project    TEXT NOT NULL,
    PRIMARY KEY (host, repository, number)
) WITHOUT ROWID, STRICT;

CREATE INDEX job_issues_of_job ON job_issues (job);

CREATE TABLE check_watches (
    job      TEXT PRIMARY KEY,
    project  TEXT NOT NULL,
    sha      TEXT NOT NULL,
    since    INTEGER NOT NULL,
    due_at   INTEGER,             -- null: only a webhook causes a look
    looks    INTEGER NOT NULL DEFAULT 0,
    checks   TEXT NOT NULL        -- JSON
) STRICT;

CREATE INDEX check_watches_due ON check_watches (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX check_watches_of_sha ON check_watches (sha);

CREATE UNIQUE INDEX comments_by_marker ON comments (repository, number, marker) WHERE marker IS NOT NULL;

CREATE TABLE polls (
    project  TEXT PRIMARY KEY,
    host     TEXT NOT NULL,
    cursor   TEXT,             -- in the form of the client of the host
    next_at  INTEGER NOT NULL,
    pulls    INTEGER NOT NULL, -- open at the last poll
    quiet    INTEGER NOT NULL, -- polls in a row that found nothing
    failures INTEGER NOT NULL, -- polls in a row that failed
    version  INTEGER NOT NULL
, problem TEXT, failing_since INTEGER) WITHOUT ROWID, STRICT;

CREATE INDEX polls_due ON polls (host, next_at);

CREATE INDEX job_pulls_in ON job_pulls (project, state);

CREATE INDEX job_pulls_listed ON job_pulls (project, state, created_at, number);

CREATE UNIQUE INDEX keys_by_old_hash ON keys (old_hash) WHERE old_hash IS NOT NULL;

CREATE TABLE job_attributes (
    project    TEXT NOT NULL,
    attribute  TEXT NOT NULL,
    created_at INTEGER NOT NULL, -- of the job
    job        TEXT NOT NULL,
    PRIMARY KEY (project, attribute, created_at, job)
) WITHOUT ROWID, STRICT;

CREATE INDEX job_attributes_of_job ON job_attributes (job);

CREATE INDEX job_pulls_by_number ON job_pulls (project, number);

CREATE INDEX keys_by_time ON keys (created_at DESC, id DESC);

CREATE TABLE deleted (
    subject TEXT PRIMARY KEY, -- such as job/ID or project/ID
    at      INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX deleted_at ON deleted (at);

CREATE TABLE usage_days (
    day            INTEGER NOT NULL, -- of the end of the run, in UTC, counted from 1970-01-01
    project        TEXT NOT NULL,
    model          TEXT NOT NULL,
    author         TEXT NOT NULL, -- empty: not known
    key            TEXT NOT NULL, -- empty: not sent with a key
    runs           INTEGER NOT NULL,
    unpriced       INTEGER NOT NULL, -- runs and late calls whose cost is not known
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    cached_tokens  INTEGER NOT NULL,
    cost_micros    INTEGER NOT NULL, estimated_micros INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, project, model, author, key)
) WITHOUT ROWID, STRICT;

CREATE TABLE feed (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    position INTEGER,          -- null: not read yet
    project  TEXT NOT NULL,
    job      TEXT NOT NULL,
    type     TEXT NOT NULL,
    at       INTEGER NOT NULL,
    data     TEXT NOT NULL  -- JSON
) STRICT;

CREATE UNIQUE INDEX feed_by_position ON feed (position) WHERE position IS NOT NULL;

CREATE INDEX feed_of_project ON feed (project, position) WHERE position IS NOT NULL;

CREATE INDEX feed_without_position ON feed (number) WHERE position IS NULL;

CREATE INDEX feed_at ON feed (at);

CREATE TABLE feed_position (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
, made INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE webhooks (
    id               TEXT PRIMARY KEY,
    project          TEXT NOT NULL,
    settings         TEXT NOT NULL,   -- JSON
    disabled         TEXT,            -- on_request, gone, failing; null: enabled
    failing_since    INTEGER,
    created_at       INTEGER NOT NULL,
    old_secret_until INTEGER,
    cursor           INTEGER NOT NULL,    -- the position in the feed up to which there are deliveries
    version          INTEGER NOT NULL
) STRICT;

CREATE INDEX webhooks_of_project ON webhooks (project, created_at, id);

CREATE INDEX webhooks_by_cursor ON webhooks (cursor) WHERE disabled IS NULL;

CREATE TABLE webhook_secrets (
    webhook TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
    name    TEXT NOT NULL, -- current, old
    value   BLOB NOT NULL, -- encrypted
    PRIMARY KEY (webhook, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE deliveries (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook      TEXT NOT NULL,
    position     INTEGER NOT NULL, -- of the event
    type         TEXT NOT NULL,
    job          TEXT NOT NULL,
    state        TEXT NOT NULL,    -- pending, delivered, failed
    attempts     INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL,
    due_at       INTEGER,          -- null: no attempt follows
    leased_until INTEGER,          -- while a process attempts it
    attempted_at INTEGER,
    duration     INTEGER,          -- of the last attempt, in microseconds
    status       INTEGER,          -- of the last answer
    detail       TEXT              -- the beginning of the last answer, or why there was none
, claims INTEGER NOT NULL DEFAULT 0, again INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE UNIQUE INDEX deliveries_of_event ON deliveries (webhook, position);

CREATE INDEX deliveries_due ON deliveries (webhook, due_at) WHERE state = 'pending';

CREATE INDEX deliveries_of_job ON deliveries (webhook, job, position) WHERE state = 'pending';

CREATE INDEX deliveries_listed ON deliveries (webhook, number);

CREATE INDEX deliveries_at ON deliveries (created_at);

CREATE INDEX deliveries_pending ON deliveries (webhook, position) WHERE state = 'pending';

CREATE INDEX deliveries_failed ON deliveries (webhook, number) WHERE state = 'failed';

CREATE INDEX deliveries_leased ON deliveries (webhook, leased_until) WHERE state = 'pending' AND leased_until IS NOT NULL;

CREATE TABLE usage_models (
    day            INTEGER NOT NULL,
    project        TEXT NOT NULL,
    model          TEXT NOT NULL,
    runs           INTEGER NOT NULL,
    unpriced       INTEGER NOT NULL,
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    cached_tokens  INTEGER NOT NULL,
    cost_micros    INTEGER NOT NULL, estimated_micros INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, project, model)
) WITHOUT ROWID, STRICT;

CREATE INDEX messages_updated ON messages (coalesce(finished_at, delivered_at, created_at) DESC, id DESC);

CREATE TABLE trusts (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    settings     TEXT NOT NULL, -- JSON
    creator      TEXT NOT NULL,
    owner        TEXT,          -- the user whose rights the keys have
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    version      INTEGER NOT NULL
);

CREATE INDEX keys_by_creator ON keys (creator) WHERE revoked_at IS NULL;

CREATE TABLE slack_workspaces (
    id         TEXT PRIMARY KEY,
    team       TEXT NOT NULL UNIQUE, -- the ID at Slack
    settings   TEXT NOT NULL,        -- JSON
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) STRICT;

CREATE TABLE slack_secrets (
    workspace TEXT NOT NULL REFERENCES slack_workspaces (id) ON DELETE CASCADE,
    name      TEXT NOT NULL,  -- bot_token, signing_secret, app_token
    value     BLOB NOT NULL, -- encrypted
    PRIMARY KEY (workspace, name)
) WITHOUT ROWID, STRICT;

CREATE TABLE slack_codes (
    hash       BLOB PRIMARY KEY,
    owner      TEXT NOT NULL UNIQUE, -- a user has one code
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE slack_events (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace   TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    channel     TEXT NOT NULL,
    thread      TEXT NOT NULL,
    ts          TEXT NOT NULL, -- of the message; texts of the same length, which sort like the times
    content     TEXT NOT NULL, -- JSON
    received_at INTEGER NOT NULL,
    state       TEXT NOT NULL, -- received, done, ignored, failed
    outcome     TEXT,
    detail      TEXT,
    job         TEXT,
    message     TEXT,
    due_at      INTEGER,          -- null: final
    attempts    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX slack_events_once ON slack_events (workspace, event_id);

CREATE INDEX slack_events_due ON slack_events (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX slack_events_open ON slack_events (workspace, channel, thread, ts) WHERE due_at IS NOT NULL;

CREATE INDEX slack_events_of_thread ON slack_events (workspace, channel, thread, number);

CREATE INDEX slack_events_listed ON slack_events (workspace, number);

CREATE INDEX slack_events_at ON slack_events (received_at);

CREATE TABLE slack_threads (
    workspace TEXT NOT NULL,
    channel   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    project   TEXT NOT NULL,
    job       TEXT NOT NULL,
    PRIMARY KEY (workspace, channel, thread)
) WITHOUT ROWID, STRICT;

CREATE TABLE slack_posts (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace  TEXT NOT NULL,
    channel    TEXT NOT NULL,
    thread     TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    content    TEXT NOT NULL, -- JSON
    ts         TEXT,          -- the time stamp that Slack has given it
    shown      TEXT,          -- the text that Slack shows
    state      TEXT NOT NULL, -- open, done, failed
    detail     TEXT,
    created_at INTEGER NOT NULL,
    due_at     INTEGER,          -- null: final
    busy_until INTEGER,          -- until then, the channel gets no other post
    claims     INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX slack_posts_once ON slack_posts (workspace, channel, thread, purpose);

CREATE INDEX slack_posts_due ON slack_posts (due_at) WHERE due_at IS NOT NULL;

CREATE INDEX slack_posts_busy ON slack_posts (workspace, channel, busy_until) WHERE busy_until IS NOT NULL;

CREATE INDEX slack_posts_listed ON slack_posts (workspace, number);

CREATE INDEX slack_posts_at ON slack_posts (created_at);

CREATE INDEX slack_threads_of_job ON slack_threads (job);

CREATE INDEX slack_events_of_job ON slack_events (job) WHERE job IS NOT NULL;

CREATE INDEX log_plans ON log (job, seq) WHERE type = 'agent.plan';

CREATE TABLE workers (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    state   TEXT NOT NULL -- JSON
, stored_at INTEGER) WITHOUT ROWID, STRICT;

CREATE TABLE imports (
    project TEXT PRIMARY KEY REFERENCES projects (id) ON DELETE CASCADE,
    state   TEXT NOT NULL, -- JSON
    version INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE TABLE templates (
    id         TEXT PRIMARY KEY,
    project    TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name_key   TEXT NOT NULL,
    settings   TEXT NOT NULL, -- JSON
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX templates_of_project ON templates (project, name_key);

CREATE INDEX keys_of_owner ON keys (owner, name) WHERE substr(coalesce(creator, ''), 1, 6) <> 'trust_';

CREATE TABLE reservations (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    project    TEXT NOT NULL,
    job        TEXT NOT NULL,
    day        INTEGER NOT NULL, -- of the budget, days since 1970 in UTC
    micros     INTEGER NOT NULL, -- the most that the call can cost
    estimate   INTEGER NOT NULL, -- what is counted as spent if the service that made the call stops
    expires_at INTEGER NOT NULL
) STRICT;

CREATE INDEX reservations_of_project ON reservations (project);

CREATE TRIGGER usage_added AFTER INSERT ON usage_days BEGIN
    INSERT INTO usage_models (day, project, model, runs, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros,
                              estimated_micros)
    VALUES (NEW.day, NEW.project, NEW.model, NEW.runs, NEW.unpriced, NEW.input_tokens, NEW.output_tokens,
            NEW.cached_tokens, NEW.cost_micros, NEW.estimated_micros)
    ON CONFLICT (day, project, model) DO UPDATE
    SET runs = runs + excluded.runs, unpriced = unpriced + excluded.unpriced,
        input_tokens = min(input_tokens + excluded.input_tokens, 9007199254740992),
        output_tokens = min(output_tokens + excluded.output_tokens, 9007199254740992),
        cached_tokens = min(cached_tokens + excluded.cached_tokens, 9007199254740992),
        cost_micros = min(cost_micros + excluded.cost_micros, 9007199254740992),
        estimated_micros = min(estimated_micros + excluded.estimated_micros, 9007199254740992);
END;

CREATE TRIGGER usage_changed AFTER UPDATE ON usage_days BEGIN
    UPDATE usage_models
    SET runs = runs + NEW.runs - OLD.runs, unpriced = unpriced + NEW.unpriced - OLD.unpriced,
        input_tokens = min(input_tokens + NEW.input_tokens - OLD.input_tokens, 9007199254740992),
        output_tokens = min(output_tokens + NEW.output_tokens - OLD.output_tokens, 9007199254740992),
        cached_tokens = min(cached_tokens + NEW.cached_tokens - OLD.cached_tokens, 9007199254740992),
        cost_micros = min(cost_micros + NEW.cost_micros - OLD.cost_micros, 9007199254740992),
        estimated_micros = min(estimated_micros + NEW.estimated_micros - OLD.estimated_micros, 9007199254740992)
    WHERE day = NEW.day AND project = NEW.project AND model = NEW.model;
END;

CREATE TABLE base_comparisons (
    host        TEXT NOT NULL,
    repository  TEXT NOT NULL,
    number      INTEGER NOT NULL,
    project     TEXT NOT NULL,
    base        TEXT,             -- the branch to merge into; null: not compared
    result      TEXT NOT NULL,    -- JSON
    compared_at INTEGER NOT NULL,
    PRIMARY KEY (host, repository, number)
) WITHOUT ROWID, STRICT;

CREATE INDEX base_comparisons_in ON base_comparisons (project);

CREATE TABLE comparison_schedule (
    project    TEXT PRIMARY KEY,
    due_at     INTEGER NOT NULL, -- 0: at once
    held_until INTEGER NOT NULL, -- the end of the lease, or of the pause after a comparison
    claims     INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

CREATE INDEX comparison_schedule_due ON comparison_schedule (due_at);

CREATE TABLE retired_secrets (
    project TEXT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    key     TEXT NOT NULL, -- the name of the secret, a slash, and random digits
    value   BLOB NOT NULL, -- encrypted
    at      INTEGER NOT NULL, -- when the value was changed or removed
    PRIMARY KEY (project, key)
) WITHOUT ROWID, STRICT;
