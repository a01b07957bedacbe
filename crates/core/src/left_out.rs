//! What a turn changed or committed, but the published commits do not have.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::markdown::gfm_code;

/// The maximum number of paths of a message that are stored.
pub const MAX_LEFT_OUT: usize = 100;

/// A changed file or folder, or commits of the agent, that were not published.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeftOut {
    /// The path in the repository; for commits, the name of the ref that leads to them, or the ID of the last one. Bytes that
    /// are not UTF-8 are written as `\xNN`, with two hexadecimal digits.
    pub path: String,
    /// The reason.
    #[serde(flatten)]
    pub reason: LeftOutReason,
    /// True if it is stored, so that a rebuilt workspace has it too.
    #[serde(default, rename = "kept")]
    pub is_kept: bool,
}

impl LeftOut {
    /// Returns what a person or the agent can do about it, and whether it may be lost, as sentences.
    #[must_use]
    pub fn advice(&self) -> Cow<'static, str> {
        let remedy = self.reason.remedy();
        if self.is_kept || !self.reason.is_only_in_workspace() {
            return remedy.into();
        }
        format!("{remedy} It is lost if the workspace is rebuilt, such as after a restart of the service.").into()
    }
}

/// The reason why a change was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum LeftOutReason {
    /// The folder is a git repository or working tree of its own.
    RepositoryInside,
    /// The file is in a submodule, which is another repository.
    Submodule,
    /// The pointer of a submodule names a commit that the submodule's repository does not have, or that could not be found
    /// there.
    SubmoduleCommit,
    /// The file or folder cannot be read.
    Unreadable,
    /// It is a FIFO, a socket or a device, or git would block on one there.
    Special,
    /// The file is larger than the project's limit.
    TooLarge {
        /// Its size in bytes.
        bytes: u64,
    },
    /// The agent marked the file as local (`git update-index --skip-worktree` or `--assume-unchanged`).
    MarkedLocal,
    /// The file cannot be converted to the encoding that the repository's attributes name.
    NotEncodable,
    /// The path is longer than git can store.
    PathTooLong,
    /// The file names a submodule that the service could not check.
    SubmoduleSettings,
    /// The repository keeps the file in Git LFS, and its object cannot be stored on the code host.
    LfsContent,
    /// Git refuses the path or its content, as code hosts do (git-fsck(1)).
    RefusedByGit,
    /// The commits are on another branch or in a stash, or the agent had them checked out without a branch.
    OtherCommits {
        /// The number of commits that the published branch does not have; 0 if it is not known.
        commits: u64,
    },
    /// It is a tag. Only the branch of the job is pushed.
    Tag,
    /// Git cannot use the agent's commits, or refuses them. One commit of the service has their changes.
    ReplacedCommits,
    /// The agent's commits do not continue the branch, which is never pushed with force. One commit of the service on top of
    /// the branch has their changes.
    RewrittenHistory,
}

impl LeftOutReason {
    /// Returns the stable name of the reason.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::RepositoryInside => "repository_inside",
            Self::Submodule => "submodule",
            Self::SubmoduleCommit => "submodule_commit",
            Self::Unreadable => "unreadable",
            Self::Special => "special",
            Self::TooLarge { .. } => "too_large",
            Self::MarkedLocal => "marked_local",
            Self::NotEncodable => "not_encodable",
            Self::PathTooLong => "path_too_long",
            Self::SubmoduleSettings => "submodule_settings",
            Self::LfsContent => "lfs_content",
            Self::RefusedByGit => "refused_by_git",
            Self::OtherCommits { .. } => "other_commits",
            Self::Tag => "tag",
            Self::ReplacedCommits => "replaced_commits",
            Self::RewrittenHistory => "rewritten_history",
        }
    }

    /// Returns the reason in words, as the end of a sentence that begins with the path.
    #[must_use]
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Self::RepositoryInside => "is a git repository of its own".into(),
            Self::Submodule => "is a submodule, which is another repository".into(),
            Self::SubmoduleCommit => "points to a commit that was not found in the submodule's own repository".into(),
            Self::Unreadable => "cannot be read".into(),
            Self::Special => "is a FIFO, a socket or a device".into(),
            Self::TooLarge { bytes } => format!("has {bytes} bytes, more than limits.fileBytes of the project").into(),
            Self::MarkedLocal => "is marked as local in the agent's index".into(),
            Self::NotEncodable => "cannot be converted to the encoding in .gitattributes".into(),
            Self::PathTooLong => "has paths that are longer than git can store".into(),
            Self::SubmoduleSettings => "names a submodule that could not be checked".into(),
            Self::LfsContent => {
                "belongs in Git LFS by .gitattributes, and its object cannot be stored on the code host".into()
            }
            Self::RefusedByGit => "has a name or a content that git refuses".into(),
            Self::OtherCommits { commits: 0 } => "may have commits that the branch of the job does not have".into(),
            Self::OtherCommits { commits: 1 } => "has a commit that the branch of the job does not have".into(),
            Self::OtherCommits { commits } => {
                format!("has {commits} commits that the branch of the job does not have").into()
            }
            Self::Tag => "is a tag, and only the branch of the job is pushed".into(),
            Self::ReplacedCommits => {
                "leads to commits that git refuses or cannot read, so one commit of the service has their changes instead".into()
            }
            Self::RewrittenHistory => {
                "does not continue the commits of the branch, which is never pushed with force, so one commit on top of \
                 them has its changes"
                    .into()
            }
        }
    }

    /// Returns what a person or the agent can do about it, as a sentence.
    #[must_use]
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::RepositoryInside => "Move its files out of the repository, remove its .git, or ignore the folder.",
            Self::Submodule => "Change it in its own repository, and then move the pointer to the new commit.",
            Self::SubmoduleCommit => "Push the commit to the submodule's repository first, and then move the pointer.",
            Self::Unreadable => "Make it readable (chmod u+r).",
            Self::Special => "Replace it by a regular file, or ignore it.",
            Self::TooLarge { .. } => "Make it smaller, ignore it, or raise limits.fileBytes of the project.",
            Self::MarkedLocal => "Remove the mark (git update-index --no-skip-worktree --no-assume-unchanged).",
            Self::NotEncodable => "Save the file in the encoding in .gitattributes, or change that.",
            Self::PathTooLong => "Nest the folders less deeply.",
            Self::SubmoduleSettings => {
                "Give each submodule an https:// or relative url that can be read without a credential, and that is on the \
                 code host of the repository or in sandbox.egress; or add it by hand."
            }
            Self::LfsContent => {
                "Commit it by hand in a clone with git-lfs, or let the project use Git LFS: set checkout.lfs to fetch, and \
                 give it a credential for the LFS server of its repository."
            }
            Self::RefusedByGit => "Rename it, or change what `git fsck --strict` reports about it.",
            Self::OtherCommits { .. } => {
                "Merge or cherry-pick them into the branch that was checked out when the turn began (`git stash pop` for a \
                 stash), or delete them."
            }
            Self::Tag => "Create it on the code host once the work is merged, or delete it.",
            Self::ReplacedCommits => {
                "No change of a file is missing, but their authors and messages are; `git fsck --strict` says what git \
                 refuses."
            }
            Self::RewrittenHistory => {
                "No change of a file is missing, but its authors and messages are. Add commits instead of changing those \
                 that are published."
            }
        }
    }

    /// Returns true if this is about commits or tags, and not about a path of the tree.
    #[must_use]
    pub const fn is_about_commits(self) -> bool {
        match self {
            Self::OtherCommits { .. } | Self::Tag | Self::ReplacedCommits | Self::RewrittenHistory => true,
            Self::RepositoryInside
            | Self::Submodule
            | Self::SubmoduleCommit
            | Self::Unreadable
            | Self::Special
            | Self::TooLarge { .. }
            | Self::MarkedLocal
            | Self::NotEncodable
            | Self::PathTooLong
            | Self::SubmoduleSettings
            | Self::LfsContent
            | Self::RefusedByGit => false,
        }
    }

    /// Returns true if only the workspace has what was left out, unless it is stored.
    #[must_use]
    pub const fn is_only_in_workspace(self) -> bool {
        !matches!(self, Self::ReplacedCommits | Self::RewrittenHistory)
    }
}

/// Returns what was left out as a list in Markdown, with what to do about it; `None` if there is nothing. `more` is the
/// number of further paths.
#[must_use]
pub fn markdown(left_out: &[LeftOut], more: u64) -> Option<String> {
    let line = |one: &LeftOut| format!("- {} {}. {}", gfm_code(&one.path), one.reason.text(), one.advice());
    let mut lines: Vec<String> = left_out.iter().take(SHOWN).map(line).collect();
    let hidden = more.saturating_add(left_out.len().saturating_sub(SHOWN) as u64);
    if hidden > 0 {
        lines.push(format!("- and {hidden} more"));
    }
    (!lines.is_empty()).then(|| format!("⚠️ Not published:\n\n{}", lines.join("\n")))
}

/// Returns the first path that a text names, as the path of a file that was changed. Commits do not count. A path without a
/// folder and without an extension counts only in a code span, because it may be a word. Of a repository inside the repository, only the files
/// in it count: agents say where they have made one.
#[must_use]
pub fn named_in<'a>(left_out: &'a [LeftOut], text: &str) -> Option<&'a LeftOut> {
    let is_part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let names = |one: &LeftOut| {
        let path = &one.path;
        let is_repository = matches!(one.reason, LeftOutReason::RepositoryInside | LeftOutReason::Submodule);
        text.match_indices(path).any(|(at, _)| {
            let mut rest = text[at + path.len()..].chars();
            let (before, after) = (text[..at].chars().next_back(), rest.next());
            let is_begin = before.is_none_or(|c| !is_part(c) || c == '/');
            // A full stop may end the sentence, and a slash leads to a file in a folder.
            let is_inside = after == Some('/') && rest.next().is_some_and(is_part);
            let is_end = after.is_none_or(|c| !is_part(c) || c == '.') || is_inside;
            match is_repository {
                true => is_begin && is_inside,
                false => {
                    (before == Some('`') && after == Some('`')) || (is_begin && is_end && path.contains(['/', '.']))
                }
            }
        })
    };
    left_out.iter().filter(|one| !one.reason.is_about_commits()).find(|one| names(one))
}

/// The number of paths that people are shown in a list.
const SHOWN: usize = 20;

/// Returns a path as text. Bytes that are not UTF-8 are written as `\xNN`, with two hexadecimal digits.
#[must_use]
pub fn path_text(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_reason_has_its_name_next_to_the_path() {
        let large = LeftOut { path: "a".to_owned(), reason: LeftOutReason::TooLarge { bytes: 7 }, is_kept: true };
        let json = serde_json::to_string(&large).unwrap();
        assert_eq!(json, r#"{"path":"a","reason":"too_large","bytes":7,"kept":true}"#);
        assert_eq!(serde_json::from_str::<LeftOut>(&json).unwrap(), large);
        let inside = LeftOut { path: "b".to_owned(), reason: LeftOutReason::RepositoryInside, is_kept: false };
        assert_eq!(serde_json::to_value(&inside).unwrap()["reason"], inside.reason.code());
    }

    #[test]
    fn a_list_has_the_reasons_and_counts_what_it_does_not_show() {
        assert_eq!(markdown(&[], 0), None);
        let one = LeftOut { path: "a`\nb".to_owned(), reason: LeftOutReason::Special, is_kept: false };
        let text = markdown(std::slice::from_ref(&one), 0).unwrap();
        assert_eq!(
            text,
            "⚠️ Not published:\n\n- ``a`␊b`` is a FIFO, a socket or a device. Replace it by a regular file, or ignore it. It \
             is lost if the workspace is rebuilt, such as after a restart of the service."
        );
        let kept = markdown(&[LeftOut { is_kept: true, ..one.clone() }], 0).unwrap();
        assert!(kept.ends_with("or ignore it."), "{kept}");
        let replaced = LeftOut { reason: LeftOutReason::ReplacedCommits, ..one.clone() };
        assert!(!markdown(&[replaced], 0).unwrap().contains("lost"), "the changes of the files are published");
        let many = vec![one; 25];
        assert!(markdown(&many, 3).unwrap().ends_with("\n- and 8 more"));
    }

    #[test]
    fn a_path_is_named_as_a_whole() {
        let left_out = [
            ("vendor/lib", LeftOutReason::Submodule),
            ("new", LeftOutReason::Special),
            ("b.bin", LeftOutReason::Unreadable),
            ("refs/heads/fix", LeftOutReason::OtherCommits { commits: 1 }),
        ];
        let left_out = left_out.map(|(path, reason)| LeftOut { path: path.to_owned(), reason, is_kept: true });
        for (text, expected) in [
            ("I changed vendor/lib/fix.c.", Some("vendor/lib")),
            ("See vendor/library.", None),
            ("I cloned it into vendor/lib/ and vendor/lib.", None),
            ("I cloned it into `vendor/lib`.", None),
            ("I made a new file.", None),
            ("I made `new`.", Some("new")),
            ("Written: ./b.bin.", Some("b.bin")),
            ("Written: ab.bin", None),
            ("Committed to `refs/heads/fix`.", None),
            ("", None),
        ] {
            assert_eq!(named_in(&left_out, text).map(|one| one.path.as_str()), expected, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_escaped() {
        assert_eq!(path_text(b"caf\xe9/\xf0\x9f\x99\x82 \\x"), "caf\\xe9/🙂 \\x");
    }
}
