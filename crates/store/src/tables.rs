//! The tables of the databases: one list of facts, which deletion, retention, copy, backup and epochs read.
//!
//! A test compares it with the schemas of both databases.

use journeyman_core::ids::ProjectId;
use journeyman_core::job::effect::Effect;
use journeyman_core::time::Timestamp;

use crate::sql::{Statement, Text, Value, slack, sql, text};

/// What the rows of a table are deleted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nothing: they have their own end, or stay.
    None,
    /// The project in the column `project`.
    Project,
    /// The job in the column `job`, and so the project of the job.
    Job,
    /// The row that they refer to: the database deletes them with it.
    Reference,
    /// Their project or job, with statements that say more than its ID.
    Special,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    /// The name.
    pub(crate) name: &'static str,
    /// The columns of the primary key.
    pub(crate) key: &'static str,
    /// What the rows are deleted with.
    pub(crate) owner: Owner,
    /// `true` if the database numbers the rows, in the column `number`.
    pub(crate) is_numbered: bool,
    /// The column whose numbers clients compare with those of an earlier answer (versions, as entity tags), or that must
    /// never be given twice (fencing tokens). A new epoch continues them after its base.
    pub(crate) counted: Option<&'static str>,
    /// The statement that deletes the rows with some of their owners: of the jobs in the list `$1`, or of the project
    /// `$1`.
    delete: Text,
    /// The statement that deletes the rows of all jobs of the project `$1`.
    delete_of_project: Text,
}

/// Lists tables: name and primary key, then the owner (none by default), `numbered`, and `counted` with its column.
macro_rules! tables {
    ($($name:literal [$key:literal] $(of $owner:ident)? $(, $fact:ident $($column:literal)?)*;)*) => {
        [$(Table {
            name: $name,
            key: $key,
            owner: tables!(@owner $($owner)?),
            is_numbered: false $(|| tables!(@numbered $fact))*,
            counted: tables!(@counted $($fact $($column)?)*),
            delete: tables!(@delete $name $($owner)?),
            delete_of_project: tables!(@project $name $($owner)?),
        }),*]
    };
    (@owner) => { Owner::None };
    (@owner project) => { Owner::Project };
    (@owner job) => { Owner::Job };
    (@owner reference) => { Owner::Reference };
    (@owner special) => { Owner::Special };
    (@numbered numbered) => { true };
    (@numbered counted) => { false };
    (@counted) => { None };
    (@counted numbered $($rest:tt)*) => { tables!(@counted $($rest)*) };
    (@counted counted $column:literal $($rest:tt)*) => { Some($column) };
    (@delete $name:literal project) => { text!(concat!("DELETE FROM ", $name, " WHERE project = $1")) };
    (@delete $name:literal job) => { text!(concat!("DELETE FROM ", $name, " WHERE job = ANY (($1))")) };
    (@delete $name:literal $($other:ident)?) => { Text { postgres: "", sqlite: "" } };
    (@project $name:literal project) => { text!(concat!("DELETE FROM ", $name, " WHERE project = $1")) };
    (@project $name:literal job) => {
        text!(concat!("DELETE FROM ", $name, " WHERE job IN (SELECT id FROM jobs WHERE project = $1)"))
    };
    (@project $name:literal $($other:ident)?) => { Text { postgres: "", sqlite: "" } };
}

/// All tables. Referenced tables come before the tables that refer to them. The rows of a project in `usage_days` stay, so
/// that reports stay complete, and that in `polls` ends with the next poll.
pub(crate) const TABLES: &[Table] = &tables! {
    "meta" ["name"];
    "projects" ["id"] of special, counted "version";
    "project_secrets" ["project, name"] of reference;
    "retired_secrets" ["project, key"] of reference;
    "jobs" ["id"] of special;
    "messages" ["number"] of job, numbered;
    "runs" ["number"] of job, numbered;
    "log" ["job, seq"] of job;
    "idempotency_keys" ["project, key"] of project;
    "rate_windows" ["project, kind"] of project;
    "keys" ["id"], counted "version";
    "project_holds" ["project"] of reference;
    "audit" ["number"], numbered;
    "users" ["id"], counted "version";
    "sessions" ["hash"] of reference;
    "links" ["hash"] of reference;
    "pulls" ["repository, number"];
    "comments" ["repository, number, place"];
    "spending" ["project, kind, subject"] of project;
    "tasks" ["number"], numbered;
    "duties" ["name"], counted "token";
    "code_hosts" ["id"], counted "version";
    "code_host_secrets" ["code_host, name"] of reference;
    "locks" ["name"];
    "job_pulls" ["host, repository, number"] of job;
    "inbox" ["number"] of project, numbered;
    "job_issues" ["host, repository, number"] of job;
    "check_watches" ["job"] of job;
    "base_comparisons" ["host, repository, number"] of project;
    "comparison_schedule" ["project"] of project;
    "polls" ["project"], counted "version";
    "job_attributes" ["project, attribute, created_at, job"] of job;
    "deleted" ["subject"];
    "usage_days" ["day, project, model, author, key"];
    "feed" ["number"] of project, numbered;
    "feed_position" ["one"];
    "webhooks" ["id"] of special, counted "version";
    "webhook_secrets" ["webhook, name"] of reference;
    "deliveries" ["number"] of special, numbered;
    "trusts" ["id"], counted "version";
    "slack_workspaces" ["id"], counted "version";
    "slack_secrets" ["workspace, name"] of reference;
    "slack_codes" ["hash"];
    "slack_events" ["number"] of special, numbered;
    "slack_threads" ["workspace, channel, thread"] of special;
    "slack_posts" ["number"] of special, numbered;
    "workers" ["id"];
    "imports" ["project"] of reference, counted "version";
    "templates" ["id"] of reference, counted "version";
    "reservations" ["number"] of project, numbered;
};

/// The tables whose rows triggers write when the rows of other tables are copied.
pub(crate) const DERIVED: &[&str] = &["usage_models"];

/// Returns the names of the tables whose rows are numbered by the database.
pub(crate) fn numbered() -> impl Iterator<Item = &'static str> {
    TABLES.iter().filter(|table| table.is_numbered).map(|table| table.name)
}

/// Returns the tables with a counted column, and the column ([`Table::counted`]).
pub(crate) fn counted() -> impl Iterator<Item = (&'static str, &'static str)> {
    TABLES.iter().filter_map(|table| Some((table.name, table.counted?)))
}

/// Returns the table with a name.
pub(crate) fn named(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

/// Returns the statements that delete jobs with what belongs to them. The rows of the jobs must be locked.
pub(crate) fn delete_jobs(ids: &[String], at: Timestamp) -> Vec<Statement> {
    let jobs = || Value::from(ids.to_vec());
    let mut statements = Vec::from(slack::remove_of_jobs(ids));
    let of_jobs = TABLES.iter().filter(|table| table.owner == Owner::Job);
    statements.extend(of_jobs.map(|table| Statement { text: table.delete, values: vec![jobs()] }));
    statements.push(sql!(
        "DELETE FROM spending WHERE (project, kind, subject) IN
         (SELECT project, 'job', id FROM jobs WHERE id = ANY (($1)))",
        ids.to_vec(),
    ));
    statements.push(sql!(
        "INSERT INTO tasks (kind, effect, created_at, due_at)
         SELECT $2::text, json_build_object('kind', $2::text, 'job', id)::text, $3::bigint, $3::bigint
         FROM jobs WHERE id = ANY (($1))",
        ids.to_vec(),
        Effect::REMOVE_BLOBS,
        at,
    ));
    statements.push(sql!("DELETE FROM jobs WHERE id = ANY (($1))", ids.to_vec()));
    statements
}

/// Returns the statements that delete a project with what belongs to it, except its webhooks
/// ([`crate::sql::webhooks::remove`]). The rows of the project and its jobs must be locked.
pub(crate) fn delete_project(project: &ProjectId, at: Timestamp) -> Vec<Statement> {
    let delete = |table: &Table| Statement { text: table.delete_of_project, values: vec![project.as_str().into()] };
    let of = |owner| TABLES.iter().filter(move |table| table.owner == owner).map(delete);
    let mut statements = Vec::from(slack::remove_of_project(project));
    statements.push(sql!(
        "INSERT INTO tasks (kind, effect, created_at, due_at)
         SELECT $2::text, json_build_object('kind', $2::text, 'job', id)::text, $3::bigint, $3::bigint
         FROM jobs WHERE project = $1",
        project.as_str(),
        Effect::REMOVE_BLOBS,
        at,
    ));
    statements.extend(of(Owner::Job));
    statements.push(sql!("DELETE FROM jobs WHERE project = $1", project.as_str()));
    statements.extend(of(Owner::Project));
    statements.push(sql!("DELETE FROM projects WHERE id = $1", project.as_str()));
    statements
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use journeyman_testkit::Postgres;
    use rusqlite::Connection;

    use super::*;
    use crate::PostgresStore;

    /// A table of a schema.
    #[derive(Debug, Default)]
    struct SchemaTable {
        columns: BTreeSet<String>,
        key: Vec<String>,
        /// `true` if the rows are deleted with a row that they refer to.
        is_deleted_with_another: bool,
        is_numbered: bool,
    }

    /// The tables whose rows stay when their project is deleted.
    const STAY: [&str; 2] = ["polls", "usage_days"];

    fn compare(schema: &BTreeMap<String, SchemaTable>) {
        let known: BTreeSet<&str> = TABLES.iter().map(|table| table.name).chain(DERIVED.iter().copied()).collect();
        assert_eq!(known, schema.keys().map(String::as_str).collect());
        for table in TABLES {
            let (name, found) = (table.name, &schema[table.name]);
            assert_eq!(found.key.join(", "), table.key, "{name}");
            assert_eq!(found.is_numbered, table.is_numbered, "{name}");
            let counted = ["version", "token"].into_iter().find(|column| found.columns.contains(*column));
            assert_eq!(counted, table.counted, "{name}");
            assert_eq!(found.is_deleted_with_another, table.owner == Owner::Reference, "{name}");
            match table.owner {
                Owner::Job => assert!(found.columns.contains("job"), "{name}"),
                Owner::Project => assert!(found.columns.contains("project"), "{name}"),
                Owner::None => {
                    let is_of_project = found.columns.contains("project") || found.columns.contains("job");
                    assert_eq!(is_of_project, STAY.contains(&name), "{name}: with what are its rows deleted?");
                }
                Owner::Reference | Owner::Special => {}
            }
        }
    }

    #[test]
    fn the_list_has_the_facts_of_the_schema_of_sqlite() {
        let mut db = Connection::open_in_memory().unwrap();
        crate::sqlite::migrate(&mut db, Path::new(":memory:")).unwrap();
        let texts = |query: &str, table: &str| -> Vec<String> {
            let mut select = db.prepare(query).unwrap();
            let rows = select.query_map([table], |row| row.get(0)).unwrap();
            rows.map(Result::unwrap).collect()
        };
        let names = "SELECT name FROM sqlite_schema WHERE type = ?1 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
        let mut schema = BTreeMap::new();
        for name in texts(names, "table") {
            let key = texts("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk", &name);
            let number = texts(
                "SELECT name FROM pragma_table_info(?1) WHERE pk = 1 AND name = 'number' AND type = 'INTEGER'",
                &name,
            );
            let cascade = "SELECT \"from\" FROM pragma_foreign_key_list(?1) WHERE on_delete = 'CASCADE'";
            let found = SchemaTable {
                columns: texts("SELECT name FROM pragma_table_info(?1)", &name).into_iter().collect(),
                is_deleted_with_another: !texts(cascade, &name).is_empty(),
                is_numbered: !number.is_empty(),
                key,
            };
            schema.insert(name, found);
        }
        // SQLite numbers jobs too, and finds them by their IDs.
        let jobs = schema.get_mut("jobs").unwrap();
        (jobs.key, jobs.is_numbered) = (vec!["id".to_owned()], false);
        compare(&schema);
    }

    #[tokio::test]
    async fn the_list_has_the_facts_of_the_schema_of_postgresql() {
        let server = Postgres::shared();
        let url = server.migrated(async |url| assert!(PostgresStore::migrate(url).await.is_ok())).await;
        let database = url.rsplit('/').next().unwrap();
        let lines = |query: &str| -> Vec<Vec<String>> {
            let text = server.sql(database, query);
            text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect()
        };
        let mut schema: BTreeMap<String, SchemaTable> = BTreeMap::new();
        let columns = "SELECT table_name, column_name, coalesce(column_default, '') || is_identity
                       FROM information_schema.columns
                       WHERE table_schema = 'journeyman' AND table_name <> 'migrations' ORDER BY ordinal_position";
        for line in lines(columns) {
            let found = schema.entry(line[0].clone()).or_default();
            let is_generated = line[2].contains("nextval") || line[2].contains("YES");
            found.is_numbered |= line[1] == "number" && is_generated;
            found.columns.insert(line[1].clone());
        }
        let keys = "SELECT c.relname, a.attname, k.contype, k.confdeltype
                    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
                    CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS part (number, place)
                    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = part.number
                    WHERE k.connamespace = 'journeyman'::regnamespace AND c.relname <> 'migrations'
                    ORDER BY c.relname, part.place";
        for line in lines(keys) {
            let found = schema.get_mut(&line[0]).unwrap();
            match (line[2].as_str(), line[3].as_str()) {
                ("p", _) => found.key.push(line[1].clone()),
                ("f", "c") => found.is_deleted_with_another = true,
                _ => {}
            }
        }
        compare(&schema);
    }
}
