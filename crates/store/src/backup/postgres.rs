//! Exports all tables of a PostgreSQL database in one transaction, from one snapshot, and imports them in one
//! transaction.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use journeyman_core::ports::{SealedCensus, SealedKind};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Transaction};
use tokio_util::task::AbortOnDropHandle;

use super::{BackupError, EachJob, Exported, ExportedJob, ExportedTable, JOBS, PROOF, file_error, needed_keys};
use crate::copy::next_number;
use crate::postgres::{Connector, DURABLE, MARK, PgError, newest_migration};
use crate::rows::{self, Columns};
use crate::sealed::{Census, all_keys, page};
use crate::sql::Statement;
use crate::tables::{DERIVED, TABLES, named, numbered};
use crate::vault::{MasterKeys, VaultError};
use crate::{PostgresOpenError, PostgresStore};

/// Begins a read-only snapshot, without timeouts, because a backup can take long.
const BEGIN: &str = "
    SET search_path TO journeyman;
    SET statement_timeout = 0;
    SET idle_in_transaction_session_timeout = 0;
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The number of bytes to send to the server at a time.
const PIECE: usize = 1 << 16;

/// Writes each table of the database at `url`, which may be in use, to a file in the folder `to`, and passes each job
/// to `each`. The caller syncs the files.
///
/// # Errors
/// The server cannot be reached; the database is not a Journeyman database; none of `keys` is its master key; a file cannot
/// be written.
pub async fn export_postgres(
    url: &str,
    to: &Path,
    keys: &MasterKeys,
    each: EachJob<'_>,
) -> Result<Exported, BackupError> {
    let (client, _connection) = connect(url).await?;
    let Some((schema_version, _)) = newest_migration(&client).await? else {
        return Err(BackupError::Unused("the database".to_owned()));
    };
    let known = PostgresStore::schema_version();
    if schema_version > known {
        return Err(BackupError::Newer { found: schema_version, known });
    }
    client.batch_execute(BEGIN).await?;
    let proof = check_key(&client, keys).await?;
    let key_ids = if schema_version == known {
        needed_keys(&census(&client, keys, proof.as_deref()).await?)
    } else {
        // The tables of another version are not known, so each configured key may be needed.
        all_keys(keys)?
    };
    let mut tables = Vec::new();
    for name in existing_tables(&client).await? {
        tables.push(write_table(&client, name, to).await?);
    }
    let no_values: [&str; 0] = [];
    let mut jobs = std::pin::pin!(client.query_raw(JOBS, no_values).await?);
    while let Some(row) = jobs.try_next().await? {
        each(ExportedJob { job: rows::job_document(&row)?, repository: Columns::text(&row, "repository")? });
    }
    client.batch_execute("COMMIT").await?;
    Ok(Exported { schema_version, tables, key_ids })
}

/// Checks that a backup with this schema version can be restored into the database at `url`, without changing it.
///
/// # Errors
/// The database cannot be reached or is not empty; its schema is newer than the backup's.
pub async fn check_empty_postgres(url: &str, version: i64) -> Result<(), BackupError> {
    let known = PostgresStore::schema_version();
    if version > known {
        return Err(BackupError::Newer { found: version, known });
    }
    let (client, _connection) = connect(url).await?;
    match newest_migration(&client).await? {
        None => return Ok(()),
        Some((found, _)) if found > version => return Err(BackupError::Ahead { found, wanted: version }),
        Some(_) => {}
    }
    client.batch_execute("SET search_path TO journeyman").await?;
    for name in existing_tables(&client).await? {
        check_empty(&client, name).await?;
    }
    Ok(())
}

async fn check_empty(client: &impl GenericClient, table: &str) -> Result<(), BackupError> {
    match client.query_opt(&format!("SELECT 1 FROM {table} LIMIT 1"), &[]).await? {
        Some(_) => Err(BackupError::NotEmpty(table.to_owned())),
        None => Ok(()),
    }
}

/// Imports the tables in the folder `from` into the empty database at `url`, all or none, and migrates its schema to
/// the current version.
///
/// # Errors
/// The database is not empty, or its schema is newer than the backup's; a file cannot be read.
pub async fn import_postgres(url: &str, from: &Path, backup: &Exported) -> Result<(), BackupError> {
    let known = PostgresStore::schema_version();
    if backup.schema_version > known {
        return Err(BackupError::Newer { found: backup.schema_version, known });
    }
    check_names(&backup.tables)?;
    PostgresStore::migrate_to(url, backup.schema_version).await.map_err(|error| match error {
        PostgresOpenError::Newer { found, .. } => BackupError::Ahead { found, wanted: backup.schema_version },
        other => other.into(),
    })?;
    let (mut client, _connection) = connect(url).await?;
    client.batch_execute("SET search_path TO journeyman; SET statement_timeout = 0").await?;
    client.batch_execute(DURABLE).await?;
    let existing = existing_tables(&client).await?;
    let target = client.transaction().await?;
    for name in &existing {
        target.batch_execute(&format!("LOCK TABLE {name} IN SHARE ROW EXCLUSIVE MODE")).await?;
        check_empty(&target, name).await?;
    }
    // Referenced tables come before the tables that refer to them.
    for name in &existing {
        for table in backup.tables.iter().filter(|table| table.name == *name) {
            read_table(&target, table, from).await?;
        }
    }
    for table in numbered().filter(|name| existing.contains(name)) {
        target.query(&next_number(table), &[]).await?;
    }
    if existing.contains(&"meta") {
        target.batch_execute(MARK).await?;
    }
    target.commit().await?;
    PostgresStore::migrate(url).await?;
    Ok(())
}

async fn connect(url: &str) -> Result<(Client, AbortOnDropHandle<Result<(), tokio_postgres::Error>>), BackupError> {
    let connector = Connector::new(url).map_err(PostgresOpenError::from)?;
    let (client, connection) = connector.config.connect(connector.tls.clone()).await?;
    Ok((client, AbortOnDropHandle::new(tokio::spawn(connection))))
}

/// Checks that one of `keys` has encrypted the proof of the database, and returns the proof if there is one.
async fn check_key(client: &Client, keys: &MasterKeys) -> Result<Option<Vec<u8>>, BackupError> {
    let exists = "SELECT to_regclass('journeyman.meta') IS NOT NULL AS there";
    if !client.query_one(exists, &[]).await?.try_get::<_, bool>("there")? {
        return Ok(None);
    }
    let proof = client.query_opt(PROOF, &[]).await?;
    let proof = proof.map(|row| row.try_get::<_, Vec<u8>>("value")).transpose()?;
    match proof {
        Some(proof) if !keys.sealed_the_proof(&proof) => Err(VaultError::OtherKey.into()),
        proof => Ok(proof),
    }
}

/// Counts the encrypted values of the snapshot.
async fn census(client: &Client, keys: &MasterKeys, proof: Option<&[u8]>) -> Result<SealedCensus, BackupError> {
    let mut census = Census::new(keys, &SealedKind::ALL, proof)?;
    while let Some(next) = census.page() {
        let Statement { text, values } = page(&next);
        let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
        let values = client.query(text.postgres, &values).await?;
        census.add(values.iter().map(|row| rows::sealed(row, next.kind)).collect::<Result<_, PgError>>()?)?;
    }
    Ok(census.finish())
}

/// Returns the tables of the schema, in an order in which referenced tables come first.
async fn existing_tables(client: &Client) -> Result<Vec<&'static str>, BackupError> {
    let text = "SELECT tablename::text AS name FROM pg_tables \
                WHERE schemaname = 'journeyman' AND tablename <> 'migrations'";
    let mut found = Vec::new();
    for row in client.query(text, &[]).await? {
        found.push(row.try_get::<_, String>("name")?);
    }
    found.retain(|name| !DERIVED.contains(&name.as_str()));
    // An unknown table would be missing from the backup.
    match found.iter().find(|name| named(name).is_none()) {
        Some(unknown) => Err(BackupError::UnknownTable(unknown.clone())),
        None => {
            Ok(TABLES.iter().map(|table| table.name).filter(|table| found.iter().any(|name| name == table)).collect())
        }
    }
}

async fn write_table(client: &Client, name: &'static str, to: &Path) -> Result<ExportedTable, BackupError> {
    let shape = client.prepare(&format!("SELECT * FROM {name}")).await?;
    let columns: Vec<String> = shape.columns().iter().map(|column| column.name().to_owned()).collect();
    let mut table = ExportedTable { name: name.to_owned(), columns, rows: 0 };
    let path = table.file(to);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(file_error(&path))?;
    let mut file = BufWriter::new(file);
    let rows = client.copy_out(&format!("COPY {name} ({}) TO STDOUT", table.columns.join(", "))).await?;
    let mut rows = std::pin::pin!(rows);
    // The server sends one row at a time.
    while let Some(row) = rows.try_next().await? {
        file.write_all(&row).map_err(file_error(&path))?;
        table.rows += 1;
    }
    file.flush().map_err(file_error(&path))?;
    Ok(table)
}

async fn read_table(target: &Transaction<'_>, table: &ExportedTable, from: &Path) -> Result<(), BackupError> {
    let path = table.file(from);
    let mut file = File::open(&path).map_err(file_error(&path))?;
    let text = format!("COPY {} ({}) FROM STDIN", table.name, table.columns.join(", "));
    let mut sink = std::pin::pin!(target.copy_in::<_, Bytes>(&text).await?);
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece).map_err(file_error(&path))? {
            0 => break,
            read => sink.send(Bytes::copy_from_slice(&piece[..read])).await?,
        }
    }
    let found = sink.finish().await?;
    let (table, wanted) = (table.name.clone(), table.rows);
    if found == wanted { Ok(()) } else { Err(BackupError::Rows { table, found, wanted }) }
}

/// Checks the names of tables and columns, because they become part of SQL statements.
fn check_names(tables: &[ExportedTable]) -> Result<(), BackupError> {
    let plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    for table in tables {
        if named(&table.name).is_none() {
            return Err(BackupError::UnknownTable(table.name.clone()));
        }
        if let Some(column) = table.columns.iter().find(|column| !plain(column)) {
            return Err(BackupError::UnknownTable(column.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tables_and_malformed_column_names_are_rejected() {
        let table =
            |name: &str, column: &str| ExportedTable { name: name.into(), columns: vec![column.into()], rows: 0 };
        assert!(check_names(&[table("jobs", "created_at")]).is_ok());
        for bad in [table("jobs; DROP TABLE x", "id"), table("jobs", "id) FROM PROGRAM 'id'"), table("jobs", "")] {
            assert!(matches!(check_names(&[bad]), Err(BackupError::UnknownTable(_))));
        }
    }
}
