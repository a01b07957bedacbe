//! The statements that delete the threads, events and posts of jobs. Posts are found by the threads and events, so they are
//! deleted first.

use journeyman_core::ids::ProjectId;

use crate::sql::{Statement, Text, sql, text};

/// Deletes the posts in the threads of the jobs `$1`, except statuses of other jobs.
pub(super) const POSTS_OF_JOBS: Text = Text {
    sqlite: "DELETE FROM slack_posts WHERE number IN (
                 SELECT posts.number FROM (
                     SELECT workspace, channel, thread FROM slack_threads
                     WHERE job IN (SELECT value FROM json_each(?1))
                     UNION SELECT workspace, channel, thread FROM slack_events
                     WHERE job IN (SELECT value FROM json_each(?1))
                 ) AS places CROSS JOIN slack_posts AS posts USING (workspace, channel, thread)
                 WHERE coalesce(json_extract(posts.content, '$.status.job')
                                IN (SELECT value FROM json_each(?1)), true))",
    postgres: "DELETE FROM slack_posts
               WHERE (workspace, channel, thread) IN (
                   SELECT workspace, channel, thread FROM slack_threads WHERE job = ANY (($1))
                   UNION SELECT workspace, channel, thread FROM slack_events WHERE job = ANY (($1))
               ) AND coalesce(content::json #>> '{status,job}' = ANY (($1)), true)",
};

pub(super) const EVENTS_OF_JOBS: Text = text!("DELETE FROM slack_events WHERE job = ANY (($1))");

pub(super) const THREADS_OF_JOBS: Text = text!("DELETE FROM slack_threads WHERE job = ANY (($1))");

/// Returns the statements that delete what belongs to jobs.
pub(crate) fn remove_of_jobs(jobs: &[String]) -> [Statement; 3] {
    [POSTS_OF_JOBS, EVENTS_OF_JOBS, THREADS_OF_JOBS].map(|text| Statement { text, values: vec![jobs.to_vec().into()] })
}

/// Returns the statements that delete the threads, events and posts of the jobs of a project, whose rows still exist.
pub(crate) fn remove_of_project(project: &ProjectId) -> [Statement; 3] {
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
