//! The artifacts of a task: the answer of the agent, the commits with their pull request, and the diff.

use journeyman_core::job::Job;
use journeyman_core::message::Message;
use journeyman_core::ports::beginning;
use serde_json::{Value, json};

use super::RpcCall;
use super::wire::{Artifact, Content, Part};
use crate::limits;
use crate::mcp::text::{MAX_CHARS, NOTICE};

/// The artifacts that a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Nothing,
    /// The artifacts of the store. The diff, which is read from the repository, is left out.
    Stored,
    Everything,
}

/// The number of bytes that are read of a diff. It has more than [`MAX_CHARS`] characters, so that a longer diff is known
/// to be cut off.
const MOST_BYTES: usize = 4 * (MAX_CHARS + 1);

/// Returns the artifacts of a task. There are none until the turn of its message has ended.
pub(super) async fn of(call: &RpcCall, message: &Message, job: &Job, wanted: Wanted) -> Vec<Artifact> {
    let mut artifacts = Vec::new();
    if wanted == Wanted::Nothing || !message.status.is_final() {
        return artifacts;
    }
    if let Some(answer) = &message.answer {
        let description = "The final text of the agent.";
        artifacts.push(artifact(message, "answer", description, text(answer, "text/plain", true)));
    }
    if !message.commits.is_empty() || message.pr_link.is_some() {
        let description = "The commits of the task, and the pull request that contains them.";
        artifacts.push(artifact(message, "result", description, result(message, job)));
    }
    if wanted == Wanted::Everything
        && !message.commits.is_empty()
        && let Some(diff) = diff(call, job).await
    {
        let description = "The changes of the whole context relative to its base.";
        artifacts.push(artifact(message, "diff", description, text(&diff, "text/x-diff", true)));
    }
    artifacts
}

/// Returns a part with a text, which is cut off if it is long. A text that an agent wrote, or that comes from a
/// repository, has a notice.
pub(super) fn text(text: &str, media_type: &'static str, is_untrusted: bool) -> Part {
    let mut rest = text.chars();
    let part: String = rest.by_ref().take(MAX_CHARS).collect();
    let is_cut = rest.next().is_some();
    let mut metadata = serde_json::Map::new();
    if is_untrusted {
        metadata.insert("notice".to_owned(), NOTICE.into());
    }
    if is_cut {
        metadata.insert("truncated".to_owned(), true.into());
    }
    let metadata = Some(metadata).filter(|metadata| !metadata.is_empty()).map(Value::Object);
    Part { content: Content::Text(part), media_type, metadata }
}

fn artifact(message: &Message, name: &'static str, description: &'static str, part: Part) -> Artifact {
    Artifact { artifact_id: format!("{}-{name}", message.id), name, description, parts: vec![part] }
}

fn result(message: &Message, job: &Job) -> Part {
    let commits: Vec<String> = message.commits.iter().map(ToString::to_string).collect();
    let data = json!({ "branch": job.branch_name(), "commits": commits, "pullRequest": message.pr_link });
    Part { content: Content::Data(data), media_type: "application/json", metadata: Some(json!({ "notice": NOTICE })) }
}

/// Returns the diff of a job; `None` if it has none, or if the repository cannot be read at the moment.
async fn diff(call: &RpcCall, job: &Job) -> Option<String> {
    let project = call.app.cases.known_project(&call.caller, &job.project).await.ok()?;
    let permit = limits::git(&call.app, &call.caller).await;
    let _permit = permit.inspect_err(|error| tracing::warn!(?error, job = %job.id, "a diff was left out")).ok()?;
    // The cause of a failure is in the log.
    let diff = crate::routes::diff::of(&call.app, &project, job).await.ok()?;
    let (shown, _) = beginning(diff, MOST_BYTES).await.ok()?;
    Some(String::from_utf8_lossy(&shown).into_owned()).filter(|diff| !diff.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_off_between_characters_and_says_so() {
        let long = text(&"é".repeat(MAX_CHARS + 1), "text/plain", true);
        let Content::Text(cut) = &long.content else { unreachable!("a text") };
        assert_eq!(cut.chars().count(), MAX_CHARS);
        assert_eq!(long.metadata, Some(json!({ "notice": NOTICE, "truncated": true })));
        assert_eq!(text("x", "text/plain", false).metadata, None);
    }
}
