//! The statements that store and delete workspaces, and delete what belongs to the jobs of a project.

use journeyman_core::ids::{ProjectId, SlackWorkspaceId, UserId};
use journeyman_core::ports::StoreError;
use journeyman_core::slack::SlackWorkspace;
use journeyman_core::time::Timestamp;
use journeyman_core::user::TokenHash;

use crate::rows::to_json;
use crate::sql::{Statement, sql};
use crate::vault::Sealed;

/// Returns the statement that selects a workspace.
pub(crate) fn by_id(id: SlackWorkspaceId) -> Statement {
    sql!("SELECT * FROM slack_workspaces WHERE id = $1", id.to_string())
}

/// Returns the statements that store a workspace, and change its secrets.
pub(crate) fn put(workspace: &SlackWorkspace, secrets: Sealed) -> Result<Vec<Statement>, StoreError> {
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
    statements.extend(secrets.into_iter().map(|(name, value)| match value {
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

/// Returns the statements that delete a workspace with its secrets, events, threads and posts.
pub(crate) fn remove(id: SlackWorkspaceId) -> [Statement; 4] {
    [
        // The database deletes the secrets with the workspace.
        sql!("DELETE FROM slack_workspaces WHERE id = $1", id.to_string()),
        sql!("DELETE FROM slack_events WHERE workspace = $1", id.to_string()),
        sql!("DELETE FROM slack_threads WHERE workspace = $1", id.to_string()),
        sql!("DELETE FROM slack_posts WHERE workspace = $1", id.to_string()),
    ]
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

/// Returns the statements that delete the threads, events and posts of the jobs of a project, whose rows still exist.
pub(crate) fn remove_jobs_of(project: &ProjectId) -> [Statement; 3] {
    let project = project.as_str();
    [
        // The posts are found by the threads and events.
        sql!(
            sqlite:
                "DELETE FROM slack_posts WHERE number IN (
                     SELECT posts.number FROM (
                         SELECT workspace, channel, thread FROM slack_threads
                         WHERE job IN (SELECT id FROM jobs WHERE project = ?1)
                         UNION SELECT workspace, channel, thread FROM slack_events
                         WHERE job IN (SELECT id FROM jobs WHERE project = ?1)
                     ) AS places CROSS JOIN slack_posts AS posts USING (workspace, channel, thread)
                     WHERE coalesce(json_extract(posts.content, '$.status.project'), ?1) = ?1)",
            postgres:
                "DELETE FROM slack_posts
                 WHERE (workspace, channel, thread) IN (
                     SELECT workspace, channel, thread FROM slack_threads
                     WHERE job IN (SELECT id FROM jobs WHERE project = $1)
                     UNION SELECT workspace, channel, thread FROM slack_events
                     WHERE job IN (SELECT id FROM jobs WHERE project = $1)
                 ) AND coalesce(content::json #>> '{status,project}', $1) = $1";
            project,
        ),
        sql!("DELETE FROM slack_events WHERE job IN (SELECT id FROM jobs WHERE project = $1)", project),
        sql!("DELETE FROM slack_threads WHERE job IN (SELECT id FROM jobs WHERE project = $1)", project),
    ]
}
