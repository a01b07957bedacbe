//! `/keyboard`: the list of keys. The key `?` shows it as a dialog.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;

use crate::Shared;
use crate::failure::rendered;
use crate::frame::Frame;

pub(super) fn routes() -> Router<Shared> {
    Router::new().route("/keyboard", get(show))
}

/// Pages, or parts of them, and the keys that act there.
struct ShortcutScope {
    name: &'static str,
    keys: &'static [Key],
}

/// Keys with the same effect, or a pair with opposite effects.
struct Key {
    names: &'static [&'static str],
    text: &'static str,
}

const fn key(names: &'static [&'static str], text: &'static str) -> Key {
    Key { names, text }
}

/// The list of keys. `docs/dashboard.md` has the same list.
const SCOPES: [ShortcutScope; 5] = [
    ShortcutScope {
        name: "Everywhere",
        keys: &[
            key(&["Ctrl K", "⌘K"], "Search, jump, or act"),
            key(&["?"], "Show this list"),
            key(&["g h"], "Home"),
            key(&["g j"], "Jobs of the project"),
            key(&["g p"], "Pull requests of the project"),
            key(&["g s"], "System"),
            key(&["c"], "New job"),
        ],
    },
    ShortcutScope {
        name: "Lists",
        keys: &[
            key(&["/"], "Search in titles"),
            key(&["f"], "Open the first filter"),
            key(&["j", "k"], "Next or previous row"),
            key(&["Enter"], "Open the row"),
            key(&["x"], "Choose the row"),
            key(&["e"], "Archive the row"),
            key(&["Esc"], "Choose no row"),
        ],
    },
    ShortcutScope {
        name: "Changed files",
        keys: &[
            key(&["t"], "Find a file"),
            key(&["j", "k"], "Next or previous file"),
            key(&["n", "p"], "Next or previous file, too"),
            key(&["v"], "Mark the file as viewed"),
            key(&["i"], "Comment on the line"),
            key(&["Ctrl Enter"], "Add the comment to the review"),
        ],
    },
    ShortcutScope {
        name: "A pull request",
        keys: &[
            key(&["1", "2", "3"], "Conversation, commits, or changed files"),
            key(&["r"], "Open the review, in the changed files"),
            key(&["Ctrl Enter"], "Submit the review"),
        ],
    },
    ShortcutScope {
        name: "A job",
        keys: &[
            key(&["1", "2", "3"], "Conversation, changes, or runs"),
            key(&["j", "k"], "Job below or above in the list it was opened from"),
            key(&["m"], "Write a message"),
            key(&["Ctrl Enter"], "Send it"),
            key(&["Esc"], "Leave the field; the text stays"),
            key(&["."], "Go to the newest step"),
        ],
    },
];

#[derive(Template)]
#[template(path = "keyboard.html")]
struct KeyboardPage<'a> {
    frame: &'a Frame,
}

impl KeyboardPage<'_> {
    fn scopes(&self) -> &'static [ShortcutScope] {
        &SCOPES
    }
}

async fn show(frame: Frame) -> Response {
    frame.answer(rendered(&KeyboardPage { frame: &frame }))
}
