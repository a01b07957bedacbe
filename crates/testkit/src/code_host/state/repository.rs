//! What the state of a repository tells.

use super::{CommentReply, CommentedOn, Pull, Repository, Token};

impl Token {
    /// Returns whether the token is for a repository.
    #[must_use]
    pub fn reaches(&self, found: &Repository) -> bool {
        self.repository.is_none_or(|id| id == found.id)
            && self.installation.as_ref().is_none_or(|installation| {
                installation.owner.eq_ignore_ascii_case(found.owner())
                    && installation.repositories.as_ref().is_none_or(|ids| ids.contains(&found.id))
            })
    }
}

impl Repository {
    /// Returns the owner in the path.
    #[must_use]
    pub fn owner(&self) -> &str {
        self.path.split_once('/').map_or("", |(owner, _)| owner)
    }

    /// Returns the name in the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.split_once('/').map_or(&self.path, |(_, name)| name)
    }

    /// Returns the next number for a pull request or an issue.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        let pulls = self.pulls.iter().map(|pull| pull.number);
        pulls.chain(self.issues.iter().map(|issue| issue.number)).max().unwrap_or_default() + 1
    }

    /// Returns all replies below a comment on a line, oldest first.
    #[must_use]
    pub fn thread(&self, root: u64) -> Vec<&CommentReply> {
        let mut found: Vec<&CommentReply> = Vec::new();
        for reply in &self.replies {
            if reply.to == root || found.iter().any(|known| known.id == reply.to) {
                found.push(reply);
            }
        }
        found
    }

    /// Returns whether a pull request has a comment on a line with this ID.
    #[must_use]
    pub fn has_line(&self, pull: u64, comment: u64) -> bool {
        let mut reviews = self.reviews.iter().filter(|review| review.pull == pull);
        reviews.any(|review| review.comments.iter().any(|line| line.id == comment))
    }

    /// Returns whether a pull request has a comment or a reply with this ID.
    #[must_use]
    pub fn has_comment(&self, pull: u64, comment: u64) -> bool {
        let root = self.root(comment);
        self.has_line(pull, root)
            || self.comments.iter().any(|one| one.id == root && one.target == CommentedOn::Pull(pull))
    }

    /// Returns the comment on a line that begins the thread of a comment or a reply.
    #[must_use]
    pub fn root(&self, comment: u64) -> u64 {
        let parent = |id: &u64| self.replies.iter().find(|reply| reply.id == *id).map(|reply| reply.to);
        std::iter::successors(Some(comment), parent).last().unwrap_or(comment)
    }

    /// Adds a reply to a comment on a line or to a reply.
    pub fn add_reply(&mut self, id: u64, to: u64, author: u64, body: &str) {
        self.replies.push(CommentReply { id, to, author, body: body.to_owned() });
    }

    /// Changes the text of a comment, of a comment on a line, or of a reply of a user. Returns false if the user has not written it.
    pub fn edit(&mut self, comment: u64, author: u64, body: &str) -> bool {
        let comments = self.comments.iter_mut().map(|one| (one.id, one.author, &mut one.body));
        let replies = self.replies.iter_mut().map(|one| (one.id, one.author, &mut one.body));
        let lines = self.reviews.iter_mut().flat_map(|review| {
            let by = review.author;
            review.comments.iter_mut().map(move |line| (line.id, by, &mut line.body))
        });
        let found = comments.chain(replies).chain(lines).find(|(id, by, _)| (*id, *by) == (comment, author));
        let Some((.., text)) = found else { return false };
        body.clone_into(text);
        true
    }

    /// Returns the newest commit of a pull request.
    #[must_use]
    pub fn sha_of(&self, pull: &Pull) -> String {
        pull.ended_sha.clone().or_else(|| self.branches.get(&pull.head).cloned()).unwrap_or_default()
    }
}
