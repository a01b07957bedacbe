//! Use cases about pull requests of the built-in code host.

use std::sync::Arc;

use journeyman_core::code_host::{PullRepository, PullState};
use journeyman_core::decision::pull::{PullLines, PullOfBranch, PullPage, PullToChange};
use journeyman_core::decision::{self, Once};
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::ids::ProjectId;
use journeyman_core::inbox::route::{Identity, Request, Review};
use journeyman_core::job::decide::Rejected;
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::key::Scope;
use journeyman_core::ports::{AdminError, PullPagesError, UpdateError};
use journeyman_core::project::{Address, Project, parse_address};
use journeyman_core::pull::comment::{check, check_summary};
use journeyman_core::pull::{
    Comment, LinePosition, LocalPull, MergeMethod, NewComment, NewMerge, NewPull, PullEnding, Resolution, Verdict,
    check_pull,
};
use journeyman_core::refusal;

use crate::{Caller, Error, Idempotency, RefusalKind, UseCases, claim};

/// A comment to add with [`UseCases::comment_on_pull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullComment {
    /// The text, in Markdown.
    pub body: String,
    /// The line that the comment is about.
    pub line: Option<LinePosition>,
    /// `true` if the comment waits for a review.
    pub is_draft: bool,
}

impl PullComment {
    /// Returns a comment in the conversation.
    #[must_use]
    pub const fn new(body: String) -> Self {
        Self { body, line: None, is_draft: false }
    }

    /// Returns the text of the comment in the fingerprint of the request. The store keeps fingerprints of earlier
    /// requests, so the text must not change.
    fn fingerprint_text(&self) -> String {
        let Self { body, line, .. } = self;
        match line {
            Some(line) => format!("Some({}) {body}", line.fingerprint_text()),
            None => format!("None {body}"),
        }
    }
}

/// The result of [`UseCases::open_pull`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The pull request.
    pub pull: LocalPull,
    /// `false` if it was open before.
    pub is_new: bool,
}

/// The result of [`UseCases::comment_on_pull`] and [`UseCases::review_pull`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commented {
    /// The comment was added.
    Added,
    /// The comment was added, and the inbox sends it to the job.
    Sent,
    /// The comment was added to the caller's drafts.
    Drafted,
}

impl UseCases {
    /// Merges a pull request, and records that it is merged. If the merge succeeded but could not be recorded, repeating
    /// the call only records it.
    ///
    /// # Errors
    /// The caller may only read, the pull request does not exist or is not open, its branches conflict, or the
    /// repository or the store failed.
    pub async fn merge_pull(
        &self,
        caller: &Caller,
        project: &ProjectId,
        number: u64,
        method: MergeMethod,
    ) -> Result<(), Error> {
        caller.needs(Scope::Write)?;
        let project = self.known_project(caller, project).await?;
        let at = self.parts().engine.now();
        let new = NewMerge { method, by: caller.name().to_owned(), at };
        let merge = self.parts().pulls.merge(&project, number, &new).await?;
        let by = merge.is_new.then(|| caller.name().to_owned());
        let (between, commit) = (Some(merge.between), merge.commit);
        self.end_pull(caller, &project, number, PullEnding { state: PullState::Merged, by, at, between, commit }).await
    }

    /// Opens a pull request for a branch that people have pushed. If the branch has an open pull request with the same
    /// values, this changes nothing, and returns that one.
    ///
    /// # Errors
    /// The caller may only read, a value is not valid, a branch does not exist, the branch has no commits that the base
    /// does not have, the branch has another open pull request, or the repository or the store failed.
    pub async fn open_pull(&self, caller: &Caller, project: &ProjectId, new: NewPull) -> Result<Opened, Error> {
        caller.needs(Scope::Write)?;
        let project = self.known_project(caller, project).await?;
        let repository = repository(&project)?;
        check_pull(&new).map_err(Error::invalid)?;
        let (base, commits) = self.parts().pulls.ahead(&project, new.base.as_deref(), &new.head).await?;
        if commits == 0 {
            let text = format!("the branch {:?} has no commits that {base:?} does not have", new.head);
            return Err(Error::invalid(text));
        }
        let opened = LocalPull {
            repository: repository.clone(),
            number: 0,
            title: new.title,
            body: new.body,
            state: PullState::Open,
            draft: new.draft,
            head: new.head.clone(),
            base,
            labels: new.labels,
            created_at: self.parts().engine.now(),
            ended_at: None,
            ended_by: None,
            ended_between: None,
            merge_commit: None,
        };
        let audit = self.audit(caller, "pull.opened", String::new());
        let (wanted, of) = (opened.clone(), project.id.clone());
        let decide = move |state: &_| decision::pull::open(state, wanted.clone(), &of, audit.clone());
        let refusal = match self.administer(PullOfBranch(repository.clone(), new.head.clone()), None, decide).await {
            Ok(_) => None,
            Err(AdminError::Refused(refusal)) if refusal.kind == refusal::RefusalKind::Exists => Some(refusal),
            Err(error) => return Err(error.into()),
        };
        let known = self.parts().store.pulls_of_branch(repository, new.head).await?;
        let pull = known.into_iter().find(|pull| pull.state == PullState::Open);
        match (pull, refusal) {
            (Some(pull), None) => {
                self.wake_local_comparisons(&pull.repository).await;
                Ok(Opened { pull, is_new: true })
            }
            (Some(pull), Some(_)) if is_same(&pull, &opened) => Ok(Opened { pull, is_new: false }),
            (_, Some(refusal)) => Err(AdminError::Refused(refusal).into()),
            (None, None) => Err(PullPagesError::NotOpen.into()),
        }
    }

    /// Closes a pull request, even if its branches no longer exist.
    ///
    /// # Errors
    /// The caller may only read, the pull request does not exist or is not open, or the store failed.
    pub async fn close_pull(&self, caller: &Caller, project: &ProjectId, number: u64) -> Result<(), Error> {
        caller.needs(Scope::Write)?;
        let project = self.known_project(caller, project).await?;
        let between = match self.parts().pulls.ends(&project, number).await {
            Err(PullPagesError::NotFound) => return Err(PullPagesError::NotFound.into()),
            ends => ends.ok().flatten(),
        };
        let (by, at) = (Some(caller.name().to_owned()), self.parts().engine.now());
        let ending = PullEnding { state: PullState::Closed, by, at, between, commit: None };
        self.end_pull(caller, &project, number, ending).await
    }

    async fn end_pull(&self, caller: &Caller, project: &Project, number: u64, ending: PullEnding) -> Result<(), Error> {
        let audit = self.audit(caller, &format!("pull.{}", ending.state.name()), audited(project, number));
        let subject = PullToChange(repository(project)?, number);
        let decide = move |state: &_| decision::pull::end(state, ending.clone(), audit.clone());
        self.administer(subject, None, decide).await?;
        self.wake_inbox();
        self.wake_local_comparisons(&repository(project)?).await;
        Ok(())
    }

    /// Adds a comment to a pull request. The inbox sends a comment that mentions the service to the job that opened the
    /// pull request. A draft is visible to its author only, until [`UseCases::review_pull`] submits it. `once` is an
    /// idempotency key: a repeated call neither sends nor adds anything.
    ///
    /// # Errors
    /// The caller may only read, the text is not valid, the pull request does not exist, the comment mentions the
    /// service but no job opened the pull request or the job is archived, or the store failed.
    pub async fn comment_on_pull(
        &self,
        caller: &Caller,
        project: &ProjectId,
        number: u64,
        new: PullComment,
        once: Option<String>,
    ) -> Result<Commented, Error> {
        let at = self.commented(caller, project, number).await?;
        check(&new.body).map_err(Error::invalid)?;
        let request = Identity::local().comment_request(&at.project.settings.comments, &new.body);
        let done = match request {
            _ if new.is_draft => Commented::Drafted,
            Request::None => Commented::Added,
            Request::Message | Request::Stop | Request::Help => Commented::Sent,
        };
        let what = if new.is_draft { "draft" } else { "comment" };
        let once = at.once(caller, once, what, &new.fingerprint_text());
        if self.replay(once.as_ref().map(|once| &once.claim)).await?.is_some() {
            return Ok(done);
        }
        if done == Commented::Sent {
            self.needs_open_job(caller, &at).await?;
        }
        let audit = self.audit(caller, "pull.commented", audited(&at.project, number));
        let comment = NewComment { line: new.line, is_draft: new.is_draft, ..self.new_comment(caller, new.body) };
        let page = self.page(&at);
        let decide = move |state: &_| decision::pull::comment(state, comment.clone(), &page, audit.clone());
        self.administer(PullToChange(at.pull.repository, number), once, decide).await?;
        self.wake_inbox();
        Ok(done)
    }

    /// Deletes a draft of the caller. Repeating the call changes nothing.
    ///
    /// # Errors
    /// The caller may only read, the pull request does not exist, or the store failed.
    pub async fn remove_draft(
        &self,
        caller: &Caller,
        project: &ProjectId,
        number: u64,
        comment: u64,
    ) -> Result<(), Error> {
        let at = self.commented(caller, project, number).await?;
        let author = caller.id();
        let decide = move |state: &_| decision::pull::remove_draft(state, &author, comment);
        self.administer(PullToChange(at.pull.repository, number), None, decide).await?;
        Ok(())
    }

    /// Resolves the thread of comments on a line, or reopens it. A thread consists of the submitted comments on the
    /// same line with the same text. Repeating the call changes nothing.
    ///
    /// # Errors
    /// The caller may only read, the pull request or the comment does not exist, or the store failed.
    pub async fn resolve_comments(
        &self,
        caller: &Caller,
        project: &ProjectId,
        number: u64,
        comment: u64,
        is_resolved: bool,
    ) -> Result<(), Error> {
        let at = self.commented(caller, project, number).await?;
        let resolution = Resolution { by: caller.name().to_owned(), at: self.parts().engine.now() };
        let resolution = is_resolved.then_some(resolution);
        let action = if is_resolved { "pull.comments_resolved" } else { "pull.comments_reopened" };
        let audit = self.audit(caller, action, audited(&at.project, number));
        let decide = move |state: &_| decision::pull::resolve(state, comment, resolution.as_ref(), audit.clone());
        self.administer(PullLines(at.pull.repository, number), None, decide).await?;
        Ok(())
    }

    /// Submits a review with the caller's drafts. The inbox makes one message to the job of it, unless it is an approval
    /// without comments on lines, or the project only wants reviews that mention the service. Without a job, or if the
    /// job is archived, the review is for people.
    ///
    /// # Errors
    /// The caller may only read, the text is not valid, the review has neither a text nor drafts and is no approval, the
    /// pull request does not exist, the review mentions the service but the pull request has ended without a job, or its job is
    /// archived, or the store failed.
    pub async fn review_pull(
        &self,
        caller: &Caller,
        project: &ProjectId,
        number: u64,
        (body, verdict): (String, Verdict),
        once: Option<String>,
    ) -> Result<Commented, Error> {
        let at = self.commented(caller, project, number).await?;
        check_summary(&body).map_err(Error::invalid)?;
        let comments = self.comments_of_pull(caller, &at.pull).await?;
        let drafts = comments.iter().filter(|one| one.comment.is_draft).map(|one| one.comment.body.as_str());
        let review = Review { text: &body, lines: drafts.collect(), approves: verdict == Verdict::Approve };
        let settings = &at.project.settings.comments;
        let request = Identity::local().review_request(settings, &review);
        let mentions = |text: &&str| Identity::local().request(settings, text) != Request::None;
        let is_mentioned = mentions(&review.text) || review.lines.iter().any(mentions);
        let job = self.job_of_pull(caller, project, &at.pull).await?;
        let has_open_job = job.is_some_and(|job| job.status() != JobStatus::Archived);
        // Without a job that takes messages, a review is for people.
        let is_sent = request != Request::None && (has_open_job || is_mentioned);
        let done = if is_sent { Commented::Sent } else { Commented::Added };
        let once = at.once(caller, once, "review", &format!("{} {body}", verdict.name()));
        if self.replay(once.as_ref().map(|once| &once.claim)).await?.is_some() {
            return Ok(done);
        }
        if is_sent {
            self.needs_open_job(caller, &at).await?;
        }
        let audit = self.audit(caller, "pull.reviewed", audited(&at.project, number));
        let text = NewComment { verdict, ..self.new_comment(caller, body) };
        let page = self.page(&at);
        let decide = move |state: &_| decision::pull::review(state, text.clone(), &page, audit.clone());
        self.administer(PullToChange(at.pull.repository, number), once, decide).await?;
        self.wake_inbox();
        Ok(done)
    }

    /// Returns the comments on a pull request that the caller may see: those that were submitted, and the caller's
    /// drafts.
    ///
    /// # Errors
    /// The store failed.
    pub async fn comments_of_pull(&self, caller: &Caller, pull: &LocalPull) -> Result<Vec<Comment>, Error> {
        let author = Some(caller.id());
        let all = self.parts().store.comments(pull.repository.clone(), pull.number).await?;
        Ok(all.into_iter().filter(|one| !one.comment.is_draft || one.comment.author_id == author).collect())
    }

    /// Finds the pull request of a request that may change its comments.
    async fn commented(&self, caller: &Caller, project: &ProjectId, number: u64) -> Result<Target, Error> {
        caller.needs(Scope::Write)?;
        let project = self.known_project(caller, project).await?;
        let pull = self.parts().store.pull(repository(&project)?, number).await?.ok_or(PullPagesError::NotFound)?;
        Ok(Target { project, pull })
    }

    fn new_comment(&self, caller: &Caller, body: String) -> NewComment {
        NewComment {
            author: caller.name().to_owned(),
            author_id: Some(caller.id()),
            body,
            at: self.parts().engine.now(),
            ..NewComment::default()
        }
    }

    fn page(&self, at: &Target) -> PullPage {
        let (project, number) = (at.project.id.clone(), at.pull.number);
        let url = format!("{}/projects/{project}/pulls/{number}", self.parts().public_url);
        PullPage { project, url }
    }

    /// Checks that the inbox can send a comment to the job of the pull request, or make one.
    async fn needs_open_job(&self, caller: &Caller, at: &Target) -> Result<(), Error> {
        let Some(job) = self.job_of_pull(caller, &at.project.id, &at.pull).await? else {
            if at.pull.state == PullState::Open {
                // A mention makes a job that works on it.
                return Ok(());
            }
            let text = format!(
                "no job has opened this pull request, which is {}, so the comment cannot start one; remove @journeyman \
                 from it to add it as an ordinary comment",
                at.pull.state.name()
            );
            return Err(Error::refused(RefusalKind::JobNotFound, text));
        };
        if job.status() == JobStatus::Archived {
            return Err(UpdateError::Rejected(Rejected::Archived).into());
        }
        Ok(())
    }

    /// Returns the job that opened a pull request.
    ///
    /// # Errors
    /// The caller cannot see the project, or the store failed.
    pub async fn job_of_pull(
        &self,
        caller: &Caller,
        project: &ProjectId,
        pull: &LocalPull,
    ) -> Result<Option<Job>, Error> {
        caller.needs_project(project)?;
        let (store, repository) = (&self.parts().store, PullRepository::local(&pull.repository));
        let Some(known) = store.indexed_pull(repository, pull.number).await? else { return Ok(None) };
        let job = store.job(known.job).await?;
        Ok(job.filter(|job| job.project == *project))
    }
}

/// Returns whether a request to open a pull request has the values of an open one.
fn is_same(open: &LocalPull, wanted: &LocalPull) -> bool {
    let values = |pull: &LocalPull| (pull.base.clone(), pull.title.clone(), pull.body.clone(), pull.draft);
    values(open) == values(wanted)
}

/// A pull request, and the project on whose page it is.
struct Target {
    project: Arc<Project>,
    pull: LocalPull,
}

impl Target {
    fn once(&self, caller: &Caller, key: Option<String>, what: &str, text: &str) -> Option<Once> {
        let fingerprint = Fingerprint::of(what, format!("{} {text}", self.pull.number).as_bytes());
        let once = key.map(|key| Idempotency { key, fingerprint });
        claim(caller, Some(self.project.id.clone()), once).map(|claim| Once { claim, answer: String::new() })
    }
}

/// Returns the name of the project's repository on the built-in code host.
fn repository(project: &Project) -> Result<String, Error> {
    match parse_address(&project.repository) {
        Ok(Address::Local(name)) => Ok(name),
        _ => Err(PullPagesError::NotFound.into()),
    }
}

/// Returns the pull request as the subject of an audit entry.
fn audited(project: &Project, number: u64) -> String {
    format!("{}#{number}", project.id)
}

#[cfg(test)]
mod tests {
    use journeyman_core::position::DiffSide;

    use super::*;

    #[test]
    fn the_text_of_a_comment_in_fingerprints_does_not_change() {
        let mut comment = PullComment::new("Why?".to_owned());
        assert_eq!(comment.fingerprint_text(), "None Why?");
        let hunk = "@@ -1 +3 @@\n+b".to_owned();
        comment.line = Some(LinePosition { path: "a.rs".to_owned(), side: DiffSide::New, line: 3, hunk });
        let text = r#"Some(LinePlace { path: "a.rs", side: New, line: 3, hunk: "@@ -1 +3 @@\n+b" }) Why?"#;
        assert_eq!(comment.fingerprint_text(), text);
    }
}
