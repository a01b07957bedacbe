//! The repository of the code host in memory.

use async_trait::async_trait;
use journeyman_core::checks::{Check, CommitStatus};
use journeyman_core::code_host::{HostName, HostRepository, PullState};
use journeyman_core::conversation::{
    CommentRef, CommentTarget, Conversation, HostThread, InThread, LineComment, NewReply, NewReview, Permission,
    Reaction, Replied, ThreadComment,
};
use journeyman_core::hook::{CommentKind, HostComment, HostIssue, HostReview, HostUser};
use journeyman_core::ids::Sha;
use journeyman_core::poll::{PollQuery, Polled};
use journeyman_core::ports::{Changes, Checks, CommentFile, CreatedPull, Discussion, Forge, ForgeError, Remote};
use journeyman_core::pull::{HostPull, NewPull, PullChange};
use journeyman_core::time::Timestamp;

use super::{HostCall, MemoryHost, Written, WrittenReply};

#[async_trait]
impl Forge for MemoryHost {
    fn host(&self) -> HostName {
        self.code_host().name()
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        Err(ForgeError::Refused("this code host has no git server".to_owned()))
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        let replacement = self.state().replacement.clone();
        let known = replacement.unwrap_or_else(Self::repository);
        let described = HostRepository {
            id: known.id,
            path: known.path,
            default_branch: Some("main".to_owned()),
            can_push: Some(true),
            is_archived: false,
            ci_paths: Vec::new(),
        };
        self.call(HostCall::Repository, |_| Ok(described)).await
    }

    fn pull_ref(&self, number: u64) -> Option<String> {
        self.code_host().kind.pull_ref(number)
    }

    async fn find_pulls(&self, head: &str) -> Result<Vec<HostPull>, ForgeError> {
        let of_head = |pull: &&HostPull| pull.head == head;
        self.call(HostCall::Pulls, |state| Ok(state.pulls.iter().rev().filter(of_head).cloned().collect())).await
    }

    async fn create_pull(&self, new: &NewPull) -> Result<CreatedPull, ForgeError> {
        let new = new.clone();
        let create = move |state: &mut super::State| {
            if state.pulls.iter().any(|pull| pull.head == new.head && pull.state == PullState::Open) {
                return Ok(CreatedPull::AlreadyExists);
            }
            let number = state.pulls.iter().map(|pull| pull.number).max().unwrap_or_default() + 1;
            let pull = HostPull {
                number,
                url: format!("https://host.example/acme/shop/pull/{number}"),
                state: PullState::Open,
                draft: new.draft,
                title: new.title,
                body: new.body,
                head: new.head,
                head_sha: None,
                base: new.base.unwrap_or_else(|| "main".to_owned()),
                is_from_fork: false,
            };
            state.pulls.push(pull.clone());
            Ok(CreatedPull::Created(pull))
        };
        self.call(HostCall::Pulls, create).await
    }

    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError> {
        let find = |state: &mut super::State| Ok(state.pulls.iter().find(|pull| pull.number == number).cloned());
        self.call(HostCall::Pulls, find).await
    }

    async fn update_pull(&self, number: u64, change: &PullChange) -> Result<(), ForgeError> {
        let change = change.clone();
        let update = move |state: &mut super::State| {
            let found = state.pulls.iter_mut().find(|pull| pull.number == number);
            let pull = found.ok_or_else(|| ForgeError::NotFound(format!("pull request {number}")))?;
            pull.title = change.title.unwrap_or_else(|| pull.title.clone());
            pull.body = change.body.unwrap_or_else(|| pull.body.clone());
            pull.draft = change.draft.unwrap_or(pull.draft);
            Ok(())
        };
        self.call(HostCall::Pulls, update).await
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        Some(self)
    }

    fn checks(&self) -> Option<&dyn Checks> {
        Some(self)
    }

    fn changes(&self) -> Option<&dyn Changes> {
        Some(self)
    }
}

#[async_trait]
impl Changes for MemoryHost {
    async fn poll(&self, _: &PollQuery) -> Result<Polled, ForgeError> {
        self.call(HostCall::Poll, |_| Ok(Polled::default())).await
    }
}

#[async_trait]
impl Discussion for MemoryHost {
    async fn me(&self) -> Result<HostUser, ForgeError> {
        self.call(HostCall::Me, |_| Ok(Self::me())).await
    }

    async fn comment(&self, target: CommentTarget, marker: &str, text: &str) -> Result<String, ForgeError> {
        let comment = Written { target, marker: marker.to_owned(), text: text.to_owned() };
        let write = move |state: &mut super::State| {
            let is_it = |known: &Written| (known.target, &known.marker) == (comment.target, &comment.marker);
            let position = state.written.iter().position(is_it).unwrap_or(state.written.len());
            if position == state.written.len() {
                state.written.push(comment);
            }
            Ok(format!("https://host.example/comment/{position}"))
        };
        self.call(HostCall::Comment, write).await
    }

    fn can_update(&self) -> bool {
        true
    }

    async fn show(
        &self,
        target: CommentTarget,
        marker: &str,
        text: &str,
        creates: bool,
    ) -> Result<Option<String>, ForgeError> {
        let comment = Written { target, marker: marker.to_owned(), text: text.to_owned() };
        let write = move |state: &mut super::State| {
            let is_it = |known: &Written| (known.target, &known.marker) == (comment.target, &comment.marker);
            let position = state.written.iter().position(is_it);
            let url = |position: usize| Ok(Some(format!("https://host.example/comment/{position}")));
            match position {
                Some(position) => {
                    let known = &mut state.written[position];
                    if *known != comment {
                        state.replaced.push(std::mem::replace(known, comment));
                    }
                    url(position)
                }
                None if creates => {
                    state.written.push(comment);
                    url(state.written.len() - 1)
                }
                None => Ok(None),
            }
        };
        self.call(HostCall::Comment, write).await
    }

    async fn reply(&self, _: CommentTarget, replies: &[NewReply]) -> Result<Vec<Replied>, ForgeError> {
        let mut results = Vec::new();
        for reply in replies {
            let NewReply { to, marker, text } = reply.clone();
            let write = move |state: &mut super::State| {
                if state.has_no_replies {
                    return Ok(Replied::Refused("this code host has no replies".to_owned()));
                }
                let position = state.replies.iter().position(|known| known.marker == marker);
                let position = position.unwrap_or(state.replies.len());
                if position == state.replies.len() {
                    state.replies.push(WrittenReply { to: to.id, marker, text });
                }
                Ok(Replied::Written(format!("https://host.example/reply/{position}")))
            };
            results.push(match self.call(HostCall::Reply, write).await {
                Err(ForgeError::NotFound(text) | ForgeError::Denied(text) | ForgeError::Refused(text)) => {
                    Replied::Refused(text)
                }
                result => result?,
            });
        }
        Ok(results)
    }

    async fn resolve(&self, _: CommentTarget, of: &[InThread]) -> Result<(), ForgeError> {
        let ids: Vec<String> = of.iter().filter_map(|one| one.thread.id.clone()).collect();
        let resolve = move |state: &mut super::State| {
            let new: Vec<String> = ids.into_iter().filter(|id| !state.resolved.contains(id)).collect();
            state.resolved.extend(new);
            Ok(())
        };
        self.call(HostCall::Resolve, resolve).await
    }

    async fn react(&self, comment: &CommentRef, reaction: Reaction) -> Result<(), ForgeError> {
        let new = (comment.clone(), reaction);
        let react = move |state: &mut super::State| {
            if !state.reactions.contains(&new) {
                state.reactions.push(new);
            }
            Ok(())
        };
        self.call(HostCall::React, react).await
    }

    async fn review(&self, pull: u64, review: &str) -> Result<Vec<LineComment>, ForgeError> {
        let find = |state: &mut super::State| {
            let found = state.reviews.iter().find(|(number, known, _)| *number == pull && known.id == review);
            found.map(|(.., lines)| lines.clone()).ok_or_else(|| ForgeError::NotFound(format!("review {review}")))
        };
        self.call(HostCall::Reviews, find).await
    }

    async fn reviews(&self, pull: u64) -> Result<Vec<HostReview>, ForgeError> {
        let list = |state: &mut super::State| {
            let of_pull = state.reviews.iter().filter(|(number, ..)| *number == pull);
            Ok(of_pull.map(|(_, review, _)| review.clone()).collect())
        };
        self.call(HostCall::Reviews, list).await
    }

    async fn find_reviews(&self, pull: u64, review: &HostReview) -> Result<Vec<HostReview>, ForgeError> {
        let is_it = |number: u64, known: &HostReview| {
            number == pull && known.author.id == review.author.id && known.version >= review.version
        };
        let list = |state: &mut super::State| {
            let found = state.reviews.iter().filter(|(number, known, _)| is_it(*number, known));
            Ok(found.map(|(_, known, _)| known.clone()).collect())
        };
        self.call(HostCall::Reviews, list).await
    }

    async fn complete_comment(&self, pull: u64, mut comment: HostComment) -> Result<HostComment, ForgeError> {
        let found = {
            let state = self.state();
            let reviews = state.reviews.iter().filter(|(number, ..)| *number == pull);
            let mut lines = reviews.flat_map(|(_, review, lines)| lines.iter().map(move |line| (review, line)));
            lines.find(|(_, line)| line.id == comment.id).map(|(review, line)| (review.id.clone(), line.clone()))
        };
        if let Some((review, line)) = found {
            comment.kind = CommentKind::Line;
            comment.review = self.code_host().kind.reports_reviews().then_some(review);
            (comment.position, comment.hunk, comment.thread) = (Some(line.position), line.hunk, line.thread);
        }
        Ok(comment)
    }

    async fn write_review(&self, pull: u64, review: &NewReview) -> Result<String, ForgeError> {
        let new = (pull, review.clone());
        let write = move |state: &mut super::State| {
            if !state.written_reviews.iter().any(|(_, known)| known.marker == new.1.marker) {
                state.written_reviews.push(new);
            }
            Ok("https://host.example/review/1".to_owned())
        };
        self.call(HostCall::Comment, write).await
    }

    async fn threads(&self, target: CommentTarget, of: &[InThread]) -> Result<Vec<HostThread>, ForgeError> {
        let of: Vec<String> = of.iter().map(|one| one.id.clone()).collect();
        let is_asked = |comment: &ThreadComment| of.contains(&comment.id);
        let find = |state: &mut super::State| {
            let of_target = state.threads.iter().filter(|(known, _)| *known == target).map(|(_, thread)| thread);
            of_target.filter(|thread| thread.comments.iter().any(is_asked)).cloned().collect()
        };
        self.call(HostCall::Threads, |state| Ok(find(state))).await
    }

    async fn issue(&self, number: u64) -> Result<Option<HostIssue>, ForgeError> {
        self.call(HostCall::Issue, |state| Ok(state.issues.get(&number).cloned())).await
    }

    async fn issue_requester(&self, issue: u64, _: Option<&str>) -> Result<Option<HostUser>, ForgeError> {
        self.call(HostCall::Issue, |state| Ok(state.requesters.get(&issue).cloned())).await
    }

    async fn issue_editors(&self, issue: u64) -> Result<Option<Vec<HostUser>>, ForgeError> {
        let find = |state: &mut super::State| state.editors.get(&issue).cloned().unwrap_or_else(|| Some(Vec::new()));
        self.call(HostCall::Issue, |state| Ok(find(state))).await
    }

    async fn lets_others_edit(&self) -> Result<bool, ForgeError> {
        self.call(HostCall::Issue, |state| Ok(state.lets_others_edit)).await
    }

    async fn permission(&self, user: &HostUser) -> Result<Permission, ForgeError> {
        let find = |state: &mut super::State| state.permissions.get(&user.id).cloned().unwrap_or(Ok(Permission::None));
        self.call(HostCall::Permission, find).await
    }

    async fn conversation(&self, target: CommentTarget, since: Option<Timestamp>) -> Result<Conversation, ForgeError> {
        let find = |state: &mut super::State| {
            let known = state.conversations.iter().find(|(known, _)| *known == target);
            known.map(|(_, conversation)| conversation.clone()).unwrap_or_default()
        };
        let Conversation { subject, comments, is_incomplete } =
            self.call(HostCall::Conversation, |state| Ok(find(state))).await?;
        Ok(Conversation::new(subject, comments, is_incomplete, since))
    }

    async fn linked_issues(&self, issue: u64) -> Result<Vec<u64>, ForgeError> {
        self.call(HostCall::Conversation, |state| Ok(state.linked.get(&issue).cloned().unwrap_or_default())).await
    }

    async fn file(&self, _: &CommentRef, url: &str, limit: usize) -> Result<CommentFile, ForgeError> {
        let find = |state: &mut super::State| match state.files.get(url) {
            Some(CommentFile::Content(content)) if content.len() > limit => Ok(CommentFile::TooLarge),
            found => found.cloned().ok_or_else(|| ForgeError::NotFound(url.to_owned())),
        };
        self.call(HostCall::File, find).await
    }
}

#[async_trait]
impl Checks for MemoryHost {
    async fn of_commit(&self, sha: &Sha) -> Result<Vec<Check>, ForgeError> {
        self.call(HostCall::Checks, |state| Ok(state.checks.get(sha).cloned().unwrap_or_default())).await
    }

    async fn log(&self, log: &str, limit: usize) -> Result<Option<Vec<u8>>, ForgeError> {
        let text: Vec<u8> = format!("the log of {log}").into_bytes().into_iter().take(limit).collect();
        self.call(HostCall::Checks, |_| Ok(Some(text))).await
    }

    async fn set_status(&self, sha: &Sha, status: &CommitStatus) -> Result<(), ForgeError> {
        let new = (sha.clone(), status.clone());
        let set = move |state: &mut super::State| {
            state.statuses.push(new);
            Ok(())
        };
        self.call(HostCall::SetStatus, set).await
    }
}
