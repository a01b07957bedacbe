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

/// A place, and the keys that act there.
struct Place {
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
const PLACES: [Place; 4] = [
    Place {
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
    Place {
        name: "Lists",
        keys: &[
            key(&["/"], "Filter"),
            key(&["j", "k"], "Next or previous row"),
            key(&["Enter"], "Open the row"),
            key(&["x"], "Choose the row"),
            key(&["e"], "Archive the row"),
        ],
    },
    Place {
        name: "Changed files",
        keys: &[
            key(&["t"], "Find a file"),
            key(&["n", "p"], "Next or previous file"),
            key(&["v"], "Mark the file as viewed"),
            key(&["i"], "Comment on the line"),
        ],
    },
    Place {
        name: "A job",
        keys: &[
            key(&["1", "2", "3"], "Conversation, changes, or runs"),
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
    fn places(&self) -> &'static [Place] {
        &PLACES
    }
}

async fn show(frame: Frame) -> Response {
    frame.answer(rendered(&KeyboardPage { frame: &frame }))
}
