//! The threads of comments of Bitbucket Cloud.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use journeyman_core::conversation::{HostThread, InThread};

use super::wire::Comment;

/// The maximum depth of a thread. A comment whose parents do not end is in a thread of its own.
const DEPTH: usize = 1_000;

/// Returns the threads that contain some of the comments of a pull request, which are in the order of their creation.
/// Each comment names the one that it answers.
pub(super) fn of(listed: Vec<Comment>, of: &[InThread]) -> Vec<HostThread> {
    let parents: HashMap<String, String> = listed
        .iter()
        .filter_map(|comment| Some((comment.id.0.clone(), comment.parent.as_ref()?.id.0.clone())))
        .collect();
    let root = |id: &str| {
        let next = |id: &&str| parents.get(*id).map(String::as_str);
        std::iter::successors(Some(id), next).take(DEPTH).last().unwrap_or(id).to_owned()
    };
    let asked: BTreeSet<String> = of.iter().map(|one| root(&one.id)).collect();
    let mut threads: BTreeMap<String, HostThread> = BTreeMap::new();
    for comment in listed {
        let id = root(&comment.id.0);
        if !asked.contains(&id) {
            continue;
        }
        let thread = threads.entry(id.clone()).or_insert_with(|| HostThread {
            id: id.clone(),
            is_resolved: None,
            comments: Vec::new(),
        });
        if comment.id.0 == id {
            thread.is_resolved = Some(!comment.resolution.is_null());
        }
        if !comment.deleted && !comment.pending {
            thread.comments.push(comment.into_threaded());
        }
    }
    threads.into_values().collect()
}

#[cfg(test)]
mod tests {
    use journeyman_core::hook::CommentKind;
    use journeyman_core::position::Thread;
    use serde_json::{Value, json};

    use super::*;

    fn comment(id: u64, parent: Option<u64>, fields: Value) -> Comment {
        let mut comment = json!({
            "id": id,
            "type": "pullrequest_comment",
            "content": {"raw": format!("text {id}"), "markup": "markdown", "html": "<p>"},
            "user": {"uuid": "{145a94da-035e-42d6-bf85-296cea8005ba}", "nickname": "rutvij", "type": "user"},
            "deleted": false,
            "links": {"html": {"href": format!("https://b.example/#comment-{id}")}},
        });
        if let Some(parent) = parent {
            comment["parent"] = json!({"id": parent, "links": {}});
        }
        for (name, value) in fields.as_object().unwrap() {
            comment[name] = value.clone();
        }
        serde_json::from_value(comment).unwrap()
    }

    #[test]
    fn a_thread_has_the_answers_to_answers_and_no_deleted_comments() {
        let resolution = json!({"resolution": {"type": "comment_resolution"}});
        let listed = vec![
            comment(1, None, resolution),
            comment(2, None, json!({})),
            comment(3, Some(1), json!({})),
            comment(4, Some(3), json!({"deleted": true, "content": {"raw": ""}})),
            comment(5, Some(4), json!({})),
            comment(6, Some(5), json!({"pending": true})),
            // These two answer each other, which no host should say.
            comment(7, Some(8), json!({})),
            comment(8, Some(7), json!({})),
        ];
        let asked = |id: &str| InThread {
            kind: CommentKind::Line,
            id: id.to_owned(),
            thread: Thread::answering("1".to_owned()),
            review: None,
        };
        let found = of(listed, &[asked("5"), asked("3"), asked("99")]);
        let [thread] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((thread.id.as_str(), thread.is_resolved), ("1", Some(true)));
        let bodies: Vec<_> = thread.comments.iter().map(|comment| comment.body.as_str()).collect();
        assert_eq!(bodies, ["text 1", "text 3", "text 5"]);
        assert_eq!(thread.comments[0].url, "https://b.example/#comment-1");
    }
}
