//! Checks of the server's durability settings.

use deadpool_postgres::Pool;

use super::error::PgError;
use super::pipeline::{Query, call};
use super::session::Session;

/// Server settings that can lose acknowledged commits, in a crash or because a commit is on one machine's disk only:
/// the name, the harmful values, and what this program does and an operator can do about them.
const HARMFUL: [(&str, &[&str], &str); 3] = [
    (
        "synchronous_commit",
        &["off", "local"],
        "connections of this program use `on`; set it to `on`, `remote_write` or `remote_apply` for the server, the \
         database and the role",
    ),
    (
        "fsync",
        &["off"],
        "a crash of the database's machine may lose accepted messages or damage the database; turn it on",
    ),
    ("full_page_writes", &["off"], "a crash of the database's machine may damage the database; turn it on"),
];

/// Logs a warning for each setting of the server that endangers commits.
pub(super) async fn warn(pool: &Pool) -> Result<(), PgError> {
    for (name, value, advice) in find(pool).await? {
        tracing::warn!("PostgreSQL's setting {name} is {value}: {advice}");
    }
    Ok(())
}

/// Returns the harmful settings: name, value, advice.
async fn find(pool: &Pool) -> Result<Vec<(&'static str, String, &'static str)>, PgError> {
    let session = Session::open(pool).await?;
    let mut found = Vec::new();
    for (name, harmful, advice) in HARMFUL {
        // Reads the value for new connections, not the value for this connection.
        let text: Query = call!("SELECT reset_val FROM pg_settings WHERE name = $1", name.to_owned());
        let rows = session.run(&[text]).await?;
        let value: Option<String> = rows.iter().flatten().next().map(|row| row.try_get("reset_val")).transpose()?;
        found.extend(value.filter(|value| harmful.contains(&value.as_str())).map(|value| (name, value, advice)));
    }
    session.release();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use journeyman_testkit::Postgres;

    use super::super::connect::Connector;
    use super::*;

    #[tokio::test]
    async fn commits_are_durable_with_any_server_default_and_harmful_defaults_are_found() {
        let server = Postgres::shared();
        let url = server.database();
        let database = url.rsplit('/').next().unwrap();
        for (set, used, harmful) in [
            ("off", "on", true),
            ("local", "on", true),
            ("on", "on", false),
            ("remote_write", "remote_write", false),
            ("remote_apply", "remote_apply", false),
        ] {
            server.sql("postgres", &format!("ALTER DATABASE {database} SET synchronous_commit = {set}"));
            let pool = Connector::new(&url).unwrap().pool(2, None).unwrap();
            let shown = pool.get().await.unwrap().query_one("SHOW synchronous_commit", &[]).await.unwrap();
            assert_eq!(shown.get::<_, String>(0), used, "{set}");
            let found = find(&pool).await.unwrap();
            assert_eq!(
                found.iter().any(|(name, value, _)| (*name, value.as_str()) == ("synchronous_commit", set)),
                harmful
            );
            assert!(found.iter().any(|(name, ..)| *name == "fsync"), "the shared test server runs without fsync");
        }
    }
}
