//! Use cases about the changes of jobs.

use journeyman_core::decision::pull::MOST_DRAFTS;
use journeyman_core::hook::{CommentKind, HostUser};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::inbox::batch::prompt_about;
use journeyman_core::inbox::earlier::Earlier;
use journeyman_core::inbox::part::Part;
use journeyman_core::inbox::text::Dialect;
use journeyman_core::key::Scope;
use journeyman_core::message::DeliveryMode;
use journeyman_core::ports::Accepted;
use journeyman_core::pull::LinePosition;
use journeyman_core::pull::comment::check;
use journeyman_core::suggestion::Replaces;

use crate::{Caller, Error, Idempotency, MessageRequest, UseCases};

/// Comments on lines of a job's changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineComments {
    /// The changes that the lines are of, such as "the changes of this job".
    pub subject: String,
    /// The lines, which the caller has found in the diff, with the texts.
    pub comments: Vec<(LinePosition, String)>,
}

impl LineComments {
    /// Returns the text of the comments in the fingerprint of the request. The store keeps fingerprints of earlier
    /// requests, so the text must not change.
    #[must_use]
    pub fn fingerprint_text(&self) -> String {
        let Self { subject, comments } = self;
        let of_comment = |(line, body): &(LinePosition, String)| format!("({}, {body:?})", line.fingerprint_text());
        let comments: Vec<String> = comments.iter().map(of_comment).collect();
        format!("LineComments {{ subject: {subject:?}, comments: [{}] }}", comments.join(", "))
    }
}

impl UseCases {
    /// Sends comments on lines of a job's changes to the job, as one message.
    ///
    /// # Errors
    /// There are no comments or too many, a text is not valid, or as for [`UseCases::send_message`].
    pub async fn comment_on_changes(
        &self,
        caller: &Caller,
        project: &ProjectId,
        job: JobId,
        new: LineComments,
        idempotency: Option<Idempotency>,
    ) -> Result<Accepted, Error> {
        caller.needs(Scope::Jobs)?;
        if new.comments.is_empty() || new.comments.len() > MOST_DRAFTS {
            return Err(Error::invalid(format!("a message must have 1 to {MOST_DRAFTS} comments")));
        }
        let url = format!("{}/projects/{project}/jobs/{job}/changes", self.parts().public_url);
        let author = HostUser { id: caller.id(), name: caller.name().to_owned(), is_bot: false };
        let mut parts = Vec::with_capacity(new.comments.len());
        for (line, body) in new.comments {
            check(&body).map_err(Error::invalid)?;
            parts.push(Part {
                kind: CommentKind::Line,
                id: String::new(),
                version: String::new(),
                url: url.clone(),
                author: author.clone(),
                body,
                position: Some(line.position()),
                hunk: Some(line.hunk),
                replaces: Replaces::Range,
                thread: None,
                review: None,
                earlier: Earlier::default(),
            });
        }
        let prompt = prompt_about(&new.subject, &parts, Dialect::of(None), &self.boundary());
        let request = MessageRequest { prompt, delivery: DeliveryMode::Queue };
        self.send_message(caller, project, job, request, idempotency).await
    }
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::DiffSide;

    use super::*;

    #[test]
    fn the_text_of_comments_in_fingerprints_does_not_change() {
        let line =
            LinePosition { path: "a.rs".to_owned(), side: DiffSide::Old, line: 3, hunk: "@@ -3 +2 @@\n-b".to_owned() };
        let comments = vec![(line.clone(), "Why?".to_owned()), (line, "\"b\"".to_owned())];
        let line = r#"LinePlace { path: "a.rs", side: Old, line: 3, hunk: "@@ -3 +2 @@\n-b" }"#;
        let expected =
            format!(r#"LineComments {{ subject: "the changes", comments: [({line}, "Why?"), ({line}, "\"b\"")] }}"#);
        assert_eq!(LineComments { subject: "the changes".to_owned(), comments }.fingerprint_text(), expected);
    }
}
