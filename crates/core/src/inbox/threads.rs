//! The earlier comments of the threads that a message is about.

use std::collections::HashSet;

use super::earlier::{Doubt, EarlierComment};
use super::part::Part;
use crate::conversation::{HostThread, ThreadComment};

/// Gives the comments of a message the earlier comments of their threads. Comments that are part of the message
/// themselves are not repeated, and each earlier comment is given once. `doubt` says of which comments the text is data.
pub fn add_threads(parts: &mut [Part], threads: &[HostThread], doubt: impl Fn(&ThreadComment) -> Option<Doubt>) {
    let of_message: HashSet<String> =
        parts.iter().filter(|part| part.thread.is_some()).map(|part| part.id.clone()).collect();
    let (mut given, mut first): (HashSet<&str>, Vec<Option<usize>>) = (HashSet::new(), vec![None; threads.len()]);
    for (number, part) in (1..).zip(parts) {
        if part.thread.is_none() {
            continue;
        }
        let find = |thread: &HostThread| thread.comments.iter().position(|comment| comment.id == part.id);
        let Some((at, thread, end)) =
            threads.iter().enumerate().find_map(|(at, thread)| Some((at, thread, find(thread)?)))
        else {
            continue;
        };
        for comment in &thread.comments[..end] {
            let is_needed = !of_message.contains(&comment.id) && !comment.body.trim().is_empty();
            if is_needed && given.insert(&comment.id) {
                part.earlier.comments.push(EarlierComment {
                    kind: part.kind,
                    id: comment.id.clone(),
                    noun: None,
                    author: comment.author.name.clone(),
                    body: comment.body.clone(),
                    url: comment.url.clone(),
                    doubt: doubt(comment),
                });
            }
        }
        part.earlier.is_resolved = thread.is_resolved == Some(true);
        part.earlier.same_as = first[at];
        first[at] = first[at].or(Some(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{CommentKind, HostUser};
    use crate::inbox::earlier::Earlier;
    use crate::position::Thread;

    fn user(name: &str) -> HostUser {
        HostUser { id: name.to_owned(), name: name.to_owned(), is_bot: false }
    }

    fn part(id: &str, thread: Option<Thread>) -> Part {
        Part {
            kind: CommentKind::Line,
            id: id.to_owned(),
            version: "1".to_owned(),
            url: format!("https://h.example/{id}"),
            author: user("ada"),
            body: "x".to_owned(),
            position: None,
            hunk: None,
            replaces: crate::suggestion::Replaces::Range,
            thread,
            review: None,
            earlier: Earlier::default(),
        }
    }

    fn thread(ids: &[&str]) -> HostThread {
        let comment = |id: &&str| ThreadComment {
            id: (*id).to_owned(),
            author: user(if id.starts_with('m') { "mallory" } else { "bob" }),
            body: format!("text {id}"),
            url: String::new(),
            is_edited: false,
        };
        HostThread { id: ids[0].to_owned(), is_resolved: Some(false), comments: ids.iter().map(comment).collect() }
    }

    #[test]
    fn each_comment_gets_what_was_written_before_it_and_is_not_in_the_message() {
        let answer = || Some(Thread::answering("1".to_owned()));
        let mut parts =
            [part("3", answer()), part("6", answer()), part("9", answer()), part("1", None), part("99", answer())];
        let threads =
            [thread(&["1", "m2", "3", "4", "6", "7"]), HostThread { is_resolved: Some(true), ..thread(&["8", "9"]) }];
        add_threads(&mut parts, &threads, |comment| (comment.author.name != "bob").then_some(Doubt::NotPermitted));
        let found = parts.each_ref().map(|part| {
            let texts: Vec<_> =
                part.earlier.comments.iter().map(|one| (one.body.as_str(), one.doubt.is_none())).collect();
            (texts, part.earlier.same_as, part.earlier.is_resolved)
        });
        assert_eq!(found[0], (vec![("text 1", true), ("text m2", false)], None, false));
        assert_eq!(found[1], (vec![("text 4", true)], Some(1), false));
        assert_eq!(found[2], (vec![("text 8", true)], None, true));
        assert_eq!(found[3], (vec![], None, false), "it is not in a thread, but has the ID of a comment in one");
        assert_eq!(found[4], (vec![], None, false), "the host does not show its thread");
    }
}
