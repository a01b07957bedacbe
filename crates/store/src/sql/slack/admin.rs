//! The statements that store and delete workspaces and codes.

use journeyman_core::ids::UserId;
use journeyman_core::ports::StoreError;
use journeyman_core::resource::{Key, Put};
use journeyman_core::slack::SlackWorkspace;
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;

use crate::rows::{self, to_json};
use crate::sql::admin::Sealing;
use crate::sql::resource::{ResourceTable, statements};
use crate::sql::{Row, Statement, sql};
use crate::vault;

impl ResourceTable for SlackWorkspace {
    statements!("slack_workspaces", by "created_at, id", named "team");

    /// A workspace may have many events and posts.
    const HAS_MANY_ROWS: bool = true;

    fn read(row: &Row) -> Result<Self, StoreError> {
        rows::slack_workspace(row)
    }

    fn put(
        Put { resource: workspace, secrets }: &Put<Self>,
        sealing: Sealing<'_>,
    ) -> Result<Vec<Statement>, StoreError> {
        let sealed = vault::seal_slack(sealing.keys, sealing.ids, workspace.id, secrets.clone())?;
        let id = workspace.id.to_string();
        let mut statements = vec![sql!(
            "INSERT INTO slack_workspaces (id, team, settings, created_at, version) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (id) DO UPDATE SET team = $2, settings = $3, version = $5",
            &id,
            &workspace.settings.team,
            to_json(&workspace.settings)?,
            workspace.created_at,
            workspace.version,
        )];
        statements.extend(sealed.into_iter().map(|(name, value)| match value {
            Some(value) => sql!(
                "INSERT INTO slack_secrets (workspace, name, value) VALUES ($1, $2, $3)
                 ON CONFLICT (workspace, name) DO UPDATE SET value = excluded.value",
                &id,
                name,
                value,
            ),
            None => sql!("DELETE FROM slack_secrets WHERE workspace = $1 AND name = $2", &id, name),
        }));
        Ok(statements)
    }

    fn remove(key: &Key<Self>) -> Vec<Statement> {
        let id = || key.id.to_string();
        vec![
            // The database deletes the secrets with the workspace.
            Self::delete(key),
            sql!("DELETE FROM slack_events WHERE workspace = $1", id()),
            sql!("DELETE FROM slack_threads WHERE workspace = $1", id()),
            sql!("DELETE FROM slack_posts WHERE workspace = $1", id()),
        ]
    }
}

/// Returns the statements that store the code of a user instead of an earlier one.
pub(crate) fn put_code(hash: TokenHash, user: UserId, expires_at: Timestamp) -> [Statement; 2] {
    [
        sql!("DELETE FROM slack_codes WHERE owner = $1", user.to_string()),
        sql!(
            "INSERT INTO slack_codes (hash, owner, expires_at) VALUES ($1, $2, $3)",
            hash.0,
            user.to_string(),
            expires_at,
        ),
    ]
}

/// Returns the statement that deletes a code.
pub(crate) fn remove_code(hash: TokenHash) -> Statement {
    sql!("DELETE FROM slack_codes WHERE hash = $1", hash.0)
}
