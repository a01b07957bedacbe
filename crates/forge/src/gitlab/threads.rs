//! The threads of notes of GitLab, which are called discussions there.

use std::collections::BTreeSet;

use journeyman_core::code_host::HostRepository;
use journeyman_core::conversation::{CommentTarget, HostThread, InThread, ThreadComment};
use journeyman_core::ports::ForgeError;

use super::hooks::host_user;
use super::wire::{Discussion, Noteable};
use super::{Gitlab, path_of};
use crate::http::encoded;

/// The maximum number of discussions that are read one by one. For more, the list is read.
const SINGLE: usize = 5;

/// Returns the threads that contain these notes.
pub(super) async fn read(
    gitlab: &Gitlab,
    repository: &HostRepository,
    target: CommentTarget,
    of: &[InThread],
) -> Result<Vec<HostThread>, ForgeError> {
    let path = path_of(target);
    let known: Option<BTreeSet<&str>> = of.iter().map(|one| one.thread.id.as_deref()).collect();
    let found: Vec<Discussion> = match known.filter(|known| known.len() <= SINGLE) {
        Some(known) => {
            let mut found = Vec::new();
            for id in known {
                match gitlab.get(repository, &format!("{path}/discussions/{}", encoded(id))).await {
                    Err(ForgeError::NotFound(_)) => {}
                    discussion => found.push(discussion?),
                }
            }
            found
        }
        None => gitlab.list(repository, &format!("{path}/discussions?per_page=100")).await?,
    };
    let has = |discussion: &Discussion| discussion.notes.iter().any(|note| of.iter().any(|one| one.id == note.id.0));
    let found: Vec<Discussion> = found.into_iter().filter(has).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let noteable: Noteable = gitlab.get(repository, &path).await?;
    Ok(found.into_iter().map(|discussion| thread(discussion, &noteable)).collect())
}

fn thread(discussion: Discussion, noteable: &Noteable) -> HostThread {
    let mut resolvable = discussion.notes.iter().filter(|note| note.resolvable).peekable();
    let is_resolved = resolvable.peek().is_some().then(|| resolvable.all(|note| note.resolved));
    let public = discussion.notes.into_iter().filter(super::wire::Note::is_public);
    let comments = public.map(|note| ThreadComment {
        url: noteable.url_of(&note),
        id: note.id.0,
        author: host_user(note.author),
        body: note.body,
        is_edited: false,
    });
    HostThread { id: discussion.id, is_resolved, comments: comments.collect() }
}
