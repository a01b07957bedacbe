//! What the working tree of a turn does not have, although the repository or an earlier turn has it.

use serde_json::{Value, json};

use crate::submodule::{SkipReason, Skipped};

/// The maximum number of entries of an event.
pub const MAX_MISSING: usize = 100;

/// The maximum number of lines of a note for the agent.
const NOTED: usize = 20;

/// Something that the working tree of a turn does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The path in the repository, or the branch as the agent's git names it. Bytes that are not UTF-8 are written as
    /// `\xNN`, with two hexadecimal digits.
    pub path: String,
    /// The reason.
    pub reason: MissingReason,
    /// The reason and what to do about it, as sentences.
    pub detail: String,
}

/// The reason why something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReason {
    /// A file in Git LFS is a pointer.
    Object(ObjectReason),
    /// A file or folder that was left out of an earlier commit is not in the tree any more.
    LeftOut(LossReason),
    /// A submodule was not filled.
    Submodule(SkipReason),
    /// The agent does not see the newest commit of the branch that the work is merged into.
    Base(BaseReason),
    /// The work of a turn that the agent had ended in an earlier attempt at the message.
    Turn,
    /// The agent's home of earlier turns.
    Home(HomeReason),
}

/// The reason why the content of a file in Git LFS was not fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectReason {
    /// The repository keeps its objects on a server that the service does not use.
    OtherServer,
    /// The content would exceed the disk space that the project allows.
    TooLarge,
    /// The worker's disk does not have enough free space.
    DiskFull,
    /// The code host does not have the object.
    ObjectMissing,
    /// The object could not be fetched for another reason.
    NotFetched,
}

/// The reason why something that was left out of an earlier commit is not in a rebuilt working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossReason {
    /// The tree has something else at the path, which was kept.
    InTheWay,
    /// It was not stored, or the stored content is gone.
    Lost,
    /// The last turn ended with work that was not finished, such as a merge with conflicts, and nothing of it was stored.
    Unfinished,
}

/// The reason why a home was not stored or restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeReason {
    /// It has more bytes than a stored home may have.
    TooLarge,
    /// It has more files than a stored home may have.
    TooManyFiles,
    /// Its folders are nested more deeply than those of a stored home may be.
    TooDeep,
    /// It could not be written or unpacked before the deadline.
    TooSlow,
    /// The archive cannot be read.
    Damaged,
    /// There is no archive: the home was not stored, or the archive is gone.
    NotStored,
}

impl HomeReason {
    /// Returns the stable name of the reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::TooManyFiles => "too_many_files",
            Self::TooDeep => "too_deep",
            Self::TooSlow => "too_slow",
            Self::Damaged => "damaged",
            Self::NotStored => "not_stored",
        }
    }
}

/// The path of the agent's home, as people see it.
const HOME: &str = "~";

/// The reason why the agent does not see the newest commit of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseReason {
    /// The code host does not have the branch.
    NotFound,
    /// The ref could not be written in the agent's repository.
    NotWritten,
}

impl MissingReason {
    /// Returns the stable name of the kind of thing that is missing.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Object(_) | Self::LeftOut(_) => "file",
            Self::Submodule(_) => "submodule",
            Self::Base(_) => "base",
            Self::Turn => "turn",
            Self::Home(_) => "home",
        }
    }

    /// Returns the stable name of the reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Object(ObjectReason::OtherServer) => "other_server",
            Self::Object(ObjectReason::TooLarge) => "too_large",
            Self::Object(ObjectReason::DiskFull) => "disk_full",
            Self::Object(ObjectReason::ObjectMissing) => "object_missing",
            Self::Object(ObjectReason::NotFetched) => "not_fetched",
            Self::LeftOut(LossReason::InTheWay) => "in_the_way",
            Self::LeftOut(LossReason::Lost) | Self::Turn => "lost",
            Self::LeftOut(LossReason::Unfinished) => "unfinished",
            Self::Submodule(reason) => reason.code(),
            Self::Base(BaseReason::NotFound) => "not_found",
            Self::Base(BaseReason::NotWritten) => "not_written",
            Self::Home(reason) => reason.code(),
        }
    }
}

impl Missing {
    /// Describes a file in Git LFS that is a pointer. `detail` has the reason and the remedy, as sentences.
    #[must_use]
    pub const fn object(path: String, reason: ObjectReason, detail: String) -> Self {
        Self { path, reason: MissingReason::Object(reason), detail }
    }

    /// Describes something that was left out of an earlier commit and is not in the tree any more.
    #[must_use]
    pub fn left_out(path: String, reason: LossReason) -> Self {
        let detail = match reason {
            LossReason::InTheWay => {
                "It was left out of an earlier commit, and the workspace was rebuilt. The branch has changed there since, \
                 or something else is in its place, which was kept. Ask the agent to make the change again."
            }
            LossReason::Lost => {
                "It was left out of an earlier commit, and was lost when the workspace was rebuilt. Ask the agent to \
                 make it again."
            }
            LossReason::Unfinished => {
                "The last message ended with conflicts that were not resolved. That work was lost when the workspace was \
                 rebuilt. Ask the agent to do it again."
            }
        };
        Self { path, reason: MissingReason::LeftOut(reason), detail: detail.to_owned() }
    }

    /// Describes a submodule that was not filled.
    #[must_use]
    pub fn submodule(Skipped { path, reason, address }: &Skipped) -> Self {
        let text = reason.text();
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        let address = address.as_ref().map(|address| format!(" ({address})")).unwrap_or_default();
        let detail = format!("{}{rest}{address}. {}", first.to_uppercase(), reason.remedy());
        Self { path: path.clone(), reason: MissingReason::Submodule(*reason), detail }
    }

    /// Describes a branch whose newest commit the agent does not see.
    #[must_use]
    pub fn base(branch: &str, reason: BaseReason) -> Self {
        let detail = match reason {
            BaseReason::NotFound => {
                "The code host does not have the branch that the work is merged into, so the agent cannot compare with \
                 it. Create the branch, or change pullRequest.base of the project."
            }
            BaseReason::NotWritten => {
                "The ref could not be written, because the agent's repository has something else in its place, so it \
                 may be missing or name an older commit. Ask the agent to remove what is below .git/refs/remotes/origin."
            }
        };
        Self { path: format!("origin/{branch}"), reason: MissingReason::Base(reason), detail: detail.to_owned() }
    }

    /// Describes the work of a turn that the agent had ended, and that was lost before it was recorded.
    #[must_use]
    pub fn turn() -> Self {
        let detail = "The agent had ended its turn, but only another machine, or this machine before a power failure, had \
                      its work, which was not recorded yet. The agent is prompted again, which costs another turn.";
        Self { path: ".".to_owned(), reason: MissingReason::Turn, detail: detail.to_owned() }
    }

    /// Describes the home of earlier turns, which a rebuilt workspace does not have. `cause` says what went wrong, as a
    /// sentence.
    #[must_use]
    pub fn home(reason: HomeReason, cause: &str) -> Self {
        let detail = format!(
            "{cause} The agent starts with a new home, and gets the earlier messages as text. What it had installed or \
             stored in its home is not there."
        );
        Self { path: HOME.to_owned(), reason: MissingReason::Home(reason), detail }
    }

    /// Returns whether the agent is told. Files and folders of the repository that are incomplete are visible to it.
    const fn is_for_agent(&self) -> bool {
        matches!(self.reason, MissingReason::LeftOut(_) | MissingReason::Base(_))
    }
}

/// Returns the data of the event that tells what is missing; `None` if nothing is.
#[must_use]
pub fn event_data(missing: &[Missing]) -> Option<Value> {
    let entry = |one: &Missing| json!({ "path": one.path, "kind": one.reason.kind(), "reason": one.reason.code(), "detail": one.detail });
    let entries: Vec<Value> = missing.iter().take(MAX_MISSING).map(entry).collect();
    (!entries.is_empty()).then(|| json!({ "entries": entries, "more": missing.len().saturating_sub(MAX_MISSING) }))
}

/// Returns the data of the event that tells that the home was not stored after a turn. `cause` says what went wrong, as a
/// sentence.
#[must_use]
pub fn home_not_stored(reason: HomeReason, cause: &str) -> Value {
    let detail = format!(
        "{cause} The agent keeps its home as long as this workspace exists. If the workspace is rebuilt, such as on \
         another machine, the agent starts with a new home, and gets the earlier messages as text. Ask the agent to \
         remove from its home what it does not need, such as caches."
    );
    json!({ "reason": reason.code(), "detail": detail })
}

/// Returns the note for the agent about what is missing and what it cannot see in the tree; `None` if there is nothing.
#[must_use]
pub fn note(missing: &[Missing]) -> Option<String> {
    let mut lines: Vec<String> = missing
        .iter()
        .filter(|one| one.is_for_agent())
        .map(|one| {
            let path: String = one.path.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            format!("- {path}: {}", one.detail)
        })
        .collect();
    let more = lines.len().saturating_sub(NOTED);
    lines.truncate(NOTED);
    if more > 0 {
        lines.push(format!("- and {more} more"));
    }
    (!lines.is_empty())
        .then(|| format!("(Note of the service: your working tree lacks the following:\n\n{})", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_has_the_kind_the_reason_and_the_remedy_of_each_entry() {
        let skipped = Skipped {
            path: "lib".to_owned(),
            reason: SkipReason::Unreachable,
            address: Some("https://a/b".to_owned()),
        };
        let object = Missing::object("m.bin".to_owned(), ObjectReason::ObjectMissing, "It is gone.".to_owned());
        let mut missing = vec![Missing::submodule(&skipped), object, Missing::base("main", BaseReason::NotFound)];
        missing.resize(MAX_MISSING + 2, Missing::left_out("x".to_owned(), LossReason::Lost));
        let data = event_data(&missing).unwrap();
        assert_eq!((&data["more"], data["entries"].as_array().unwrap().len()), (&json!(2), MAX_MISSING));
        assert_eq!(
            data["entries"][0],
            json!({
                "path": "lib", "kind": "submodule", "reason": "unreachable",
                "detail": "Its code host did not answer (https://a/b). Check its url. A new job tries again.",
            })
        );
        let expected =
            [("m.bin", "file", "object_missing"), ("origin/main", "base", "not_found"), ("x", "file", "lost")];
        for (entry, (path, kind, reason)) in data["entries"].as_array().unwrap()[1..].iter().zip(expected) {
            assert_eq!(
                (&entry["path"], &entry["kind"], &entry["reason"]),
                (&json!(path), &json!(kind), &json!(reason))
            );
        }
        assert_eq!(event_data(&[]), None);
    }

    #[test]
    fn a_home_that_is_not_kept_is_told_with_its_reason() {
        let missing = [Missing::home(HomeReason::TooSlow, "It took too long.")];
        let data = event_data(&missing).unwrap();
        let entry = &data["entries"][0];
        assert_eq!(
            (&entry["path"], &entry["kind"], &entry["reason"]),
            (&json!("~"), &json!("home"), &json!("too_slow"))
        );
        assert!(entry["detail"].as_str().unwrap().starts_with("It took too long. The agent starts with a new home"));
        let data = home_not_stored(HomeReason::TooLarge, "It is too large.");
        assert_eq!(data["reason"], "too_large");
        assert!(data["detail"].as_str().unwrap().starts_with("It is too large. The agent keeps its home"), "{data}");
    }

    #[test]
    fn the_agent_is_told_what_it_cannot_see_in_its_tree() {
        let object = Missing::object("m.bin".to_owned(), ObjectReason::TooLarge, String::new());
        assert_eq!(note(std::slice::from_ref(&object)), None);
        let lost = Missing::left_out("a\nb".to_owned(), LossReason::InTheWay);
        let text = note(&[object, lost.clone(), Missing::base("main", BaseReason::NotWritten)]).unwrap();
        assert!(text.contains("\n- a?b: It was left out") && text.contains("\n- origin/main: "), "{text}");
        assert!(!text.contains("m.bin"), "{text}");
        assert!(note(&vec![lost; NOTED + 3]).unwrap().contains("- and 3 more"));
    }
}
