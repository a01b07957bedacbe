//! Classifies failures of git by its messages (in the C locale).
//!
//! Messages of a command that connects to a remote may have text of its server, or of a server that answers in its place.
//! Such text is only in the log of the service: [`GitError::Remote`] describes the failure in words of our own.

mod summary;

use journeyman_net::Error as NetError;

pub(crate) use summary::summary;

/// An error from a git command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    /// The program could not be started.
    #[error("git could not be started: {0}")]
    NotStarted(String),
    /// The command exceeded its time limit and was killed.
    #[error("git {command} took longer than {seconds} seconds and was stopped")]
    TimedOut {
        /// The subcommand.
        command: String,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The command printed more than its limit allows.
    #[error("git {command} printed more than {bytes} bytes and was stopped")]
    TooMuch {
        /// The subcommand.
        command: String,
        /// The limit in bytes.
        bytes: usize,
    },
    /// The command ended with an error.
    #[error("git {command} failed: {stderr}")]
    Failed {
        /// The subcommand.
        command: String,
        /// The exit code; `None` if a signal ended the process.
        code: Option<i32>,
        /// The error output of git, without credentials.
        stderr: String,
    },
    /// The command connects to a remote, and ended with an error.
    #[error("git {command} failed: {summary}")]
    Remote {
        /// The subcommand.
        command: String,
        /// The exit code; `None` if a signal ended the process.
        code: Option<i32>,
        /// The error output of git, without credentials. It may have text of the server, so it is not shown.
        stderr: String,
        /// The failure in our own words.
        summary: String,
    },
    /// The server of the remote was not reached.
    #[error("{}", not_reached(host, error))]
    NotReached {
        /// The host of the remote.
        host: String,
        /// The error of the connection.
        error: NetError,
    },
    /// The service does not use the repository at a path.
    #[error("{0}")]
    NotUsed(String),
    /// The command printed output that cannot be parsed.
    #[error("git {command} printed something unexpected: {detail}")]
    Unexpected {
        /// The subcommand.
        command: String,
        /// The reason why the output cannot be parsed.
        detail: String,
    },
}

/// Describes why a server was not reached.
fn not_reached(host: &str, error: &NetError) -> String {
    match error {
        NetError::NotPermitted(_) => format!(
            "{host} has no address that the service may connect to: its name leads to a private or link-local address. For \
             a code host in a private network, add the code host on the page System, enter its IP address in place of its \
             name, or allow its network with code-host-networks"
        ),
        NetError::NotFound { .. } => error.to_string(),
        _ => format!("{host} cannot be reached: {error}"),
    }
}

/// The kinds of failures that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// No repository exists at the address.
    NotFound,
    /// The credential is missing or wrong.
    CredentialRefused,
    /// The host does not answer.
    Unreachable,
    /// The host has only addresses that the service does not connect to.
    AddressRefused,
    /// The server redirects to another address, which is not followed.
    Redirected,
    /// The remote branch holds commits that the local branch does not.
    NonFastForward,
    /// The remote refused the push, by a hook or a rule.
    Refused,
    /// The remote repository is archived.
    Archived,
    /// The credential may read, but not push.
    PermissionMissing,
    /// The credential may push, but not change files of CI pipelines.
    CiFilesRefused,
    /// Objects or refs of the repository at hand are missing or damaged.
    Damaged,
    /// Objects or refs of the remote are missing or damaged.
    RemoteDamaged,
    /// The remote does not have a commit that it has just named: it was replaced meanwhile, or the remote is damaged.
    NotOurRef,
    /// The machine of the remote may not write to its repository.
    ReadOnly,
    /// The disk is full.
    DiskFull,
    /// Another process holds a lock, or left one behind.
    LockHeld,
    /// git could not write to the local repository, because the disk failed or another attempt replaced the
    /// repository.
    NotWritten,
    /// Git needed more memory or processor time than its limits allow.
    TooLarge,
    /// Git does not check out a path of the commit, such as a folder `.git` or a path that is too long.
    PathRefused,
    /// The service does not use this repository.
    NotUsed,
    /// Anything else.
    Other,
}

/// The message about a redirect, with the first two digits of its status.
const REDIRECTED: &str = "The requested URL returned error: 30";

/// The messages of git with their kinds; the first entry that occurs in a message counts.
const SIGNS: &[(&str, Failure)] = &[
    ("Out of memory", Failure::TooLarge),
    ("seconds of processor time", Failure::TooLarge),
    // A child process of git used up its processor time.
    ("died of signal 24", Failure::TooLarge),
    ("No space left on device", Failure::DiskFull),
    ("Disk quota exceeded", Failure::DiskFull),
    (".lock': File exists", Failure::LockHeld),
    ("unable to write file", Failure::NotWritten),
    ("unable to create temporary", Failure::NotWritten),
    ("unable to migrate objects", Failure::NotWritten),
    ("failed to write object", Failure::NotWritten),
    ("Input/output error", Failure::NotWritten),
    ("Read-only file system", Failure::NotWritten),
    // GitHub, Gitea and GitLab.
    ("repository was archived", Failure::Archived),
    ("is archived", Failure::Archived),
    ("archived project", Failure::Archived),
    // Gitea and Forgejo.
    ("User permission denied for writing", Failure::PermissionMissing),
    // GitHub.
    ("Write access to repository not granted", Failure::PermissionMissing),
    // GitLab.
    ("You are not allowed to push code to this project", Failure::PermissionMissing),
    // GitHub, about files in .github/workflows.
    ("without `workflow` scope", Failure::CiFilesRefused),
    ("without `workflows` permission", Failure::CiFilesRefused),
    ("non-fast-forward", Failure::NonFastForward),
    ("fetch first", Failure::NonFastForward),
    ("stale info", Failure::NonFastForward),
    // The remote's ref moved between its announcement and the push.
    ("cannot lock ref", Failure::NonFastForward),
    ("failed to update ref", Failure::NonFastForward),
    ("[remote rejected]", Failure::Refused),
    ("pre-receive hook declined", Failure::Refused),
    ("Authentication failed", Failure::CredentialRefused),
    ("could not read Username", Failure::CredentialRefused),
    ("could not read Password", Failure::CredentialRefused),
    ("terminal prompts disabled", Failure::CredentialRefused),
    // From ssh, with the methods that it tried; without the parenthesis, the message is about a local file.
    ("Permission denied (", Failure::CredentialRefused),
    ("Host key verification failed", Failure::CredentialRefused),
    ("error: 401", Failure::CredentialRefused),
    ("error: 403", Failure::CredentialRefused),
    ("epository not found", Failure::NotFound),
    ("does not appear to be a git repository", Failure::NotFound),
    ("does not exist", Failure::NotFound),
    ("error: 404", Failure::NotFound),
    (REDIRECTED, Failure::Redirected),
    ("not found", Failure::NotFound),
    ("Could not resolve host", Failure::Unreachable),
    ("Couldn't connect to server", Failure::Unreachable),
    ("Failed to connect", Failure::Unreachable),
    ("Connection refused", Failure::Unreachable),
    ("timed out", Failure::Unreachable),
    ("Timeout was reached", Failure::Unreachable),
    ("Operation too slow", Failure::Unreachable),
    ("Connection reset", Failure::Unreachable),
    ("Network is unreachable", Failure::Unreachable),
    ("No route to host", Failure::Unreachable),
    ("The requested URL returned error: 5", Failure::Unreachable),
    ("early EOF", Failure::Unreachable),
    ("the remote end hung up unexpectedly", Failure::Unreachable),
];

/// Git's messages about missing or damaged objects, packs or refs.
const DAMAGE: &[&str] = &[
    "object file ",
    "loose object ",
    "inflate: data stream error",
    "unable to unpack ",
    "bad object ",
    "bad tree object ",
    "missing blob object",
    "unable to read tree",
    // Of a tree; "fatal: Could not read from remote repository" is about the network.
    "error: Could not read ",
    "unable to read sha1 file",
    "unable to read blob object",
    "unable to parse object",
    "could not parse object",
    "is far too short to be a packfile",
    "is not a GIT packfile",
    "index file ",
    "packfile ",
    "has neither a valid OID nor a target",
    "invalid sha1 pointer",
    "bad ref ",
    "broken ref",
    "reference broken",
    "not a git repository",
    "unable to normalize alternate object path",
    "bad config ",
];

/// Git's messages about damage in a remote.
const REMOTE_DAMAGE: &[&str] =
    &["possible repository corruption on the remote side", "upload-pack: bad object", "remote error: bad object"];

/// The message of the client if the server ended without an answer.
const NO_ANSWER: &str = "Could not read from remote repository.";

/// Returns whether a message reports that the remote is damaged. A server on this machine writes without a mark, and
/// before the client notices its end.
fn is_remote_damaged(stderr: &str) -> bool {
    REMOTE_DAMAGE.iter().any(|sign| stderr.contains(sign)) || stderr.contains(NO_ANSWER) && is_damaged(stderr)
}

/// Returns whether a push failed because the server may not write to its repository.
fn is_read_only(stderr: &str) -> bool {
    const SIGNS: [&str; 3] = ["Permission denied", "Read-only file system", "insufficient permission for adding"];
    stderr.contains("remote unpack failed: unable to create temporary object directory")
        || stderr.lines().any(|line| line.starts_with("remote:") && SIGNS.iter().any(|sign| line.contains(sign)))
}

/// Returns a message without the paths of machines: each is replaced by an ellipsis. URLs stay.
fn without_paths(text: &str) -> String {
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    let is_end = |c: char| c.is_whitespace() || "'\"`:,;()<>".contains(c);
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        let is_begin = before.chars().next_back().or_else(|| result.chars().next_back()).is_none_or(is_path_begin);
        let end = if is_begin { path.find(is_end).unwrap_or(path.len()) } else { 1 };
        let (path, after) = path.split_at(end);
        result.push_str(before);
        result.push_str(if is_begin && path.len() > 1 { "…" } else { path });
        rest = after;
    }
    result + rest
}

/// Returns whether an absolute path may follow a character. In a URL, a slash or a colon and a slash precede it.
fn is_path_begin(before: char) -> bool {
    before.is_whitespace() || "'\"`=(<".contains(before)
}

/// Returns whether git does not check out a path of a commit, because the path could overwrite files of git, or because
/// it is longer than a path on this machine can be. In the first case, git also reports that it "could not reset index
/// file", which does not mean damage.
fn is_path_refused(stderr: &str) -> bool {
    let is_refused = |line: &str| line.starts_with("error: invalid path '") || line.ends_with(": File name too long");
    stderr.lines().any(is_refused)
}

/// Returns whether a message reports damage in this repository, and not in the remote, whose messages git marks.
fn is_damaged(stderr: &str) -> bool {
    stderr.lines().filter(|line| !line.starts_with("remote:")).any(|line| DAMAGE.iter().any(|sign| line.contains(sign)))
}

/// Returns the kind of a failure with this error output.
fn failure_of(stderr: &str) -> Failure {
    if is_remote_damaged(stderr) {
        return Failure::RemoteDamaged;
    }
    if stderr.contains("upload-pack: not our ref") {
        return Failure::NotOurRef;
    }
    if is_read_only(stderr) {
        return Failure::ReadOnly;
    }
    if is_path_refused(stderr) {
        return Failure::PathRefused;
    }
    if is_damaged(stderr) {
        return Failure::Damaged;
    }
    SIGNS.iter().find(|(sign, _)| stderr.contains(sign)).map_or(Failure::Other, |(_, failure)| *failure)
}

impl GitError {
    /// Returns whether a signal killed the process, for example from an operator or because the machine ran out of
    /// memory.
    #[must_use]
    pub const fn is_killed(&self) -> bool {
        matches!(self, Self::Failed { code: None, .. } | Self::Remote { code: None, .. })
    }

    /// Returns whether git refused objects with file modes that it never writes itself (`badFilemode` of git-fsck(1)).
    #[must_use]
    pub fn has_odd_modes(&self) -> bool {
        matches!(self, Self::Failed { stderr, .. } if stderr.to_ascii_lowercase().contains("badfilemode"))
    }

    /// Returns the error without paths in the messages of git, which may be those of a server.
    #[must_use]
    pub fn without_paths(&self) -> Self {
        match self {
            Self::Failed { command, code, stderr } => {
                Self::Failed { command: command.clone(), code: *code, stderr: without_paths(stderr) }
            }
            other => other.clone(),
        }
    }

    /// Returns whether the server of the remote redirects to another address.
    #[must_use]
    pub fn is_redirect(&self) -> bool {
        self.says(REDIRECTED)
    }

    /// Returns whether the error output of git contains a text. The output itself is not shown.
    #[must_use]
    pub fn says(&self, text: &str) -> bool {
        matches!(self, Self::Failed { stderr, .. } | Self::Remote { stderr, .. } if stderr.contains(text))
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Failed { stderr, .. } | Self::Remote { stderr, .. } => failure_of(stderr),
            Self::NotReached { error: NetError::NotPermitted(_), .. } => Failure::AddressRefused,
            Self::NotReached { .. } => Failure::Unreachable,
            Self::TimedOut { .. } => Failure::Unreachable,
            Self::NotUsed(_) => Failure::NotUsed,
            Self::NotStarted(_) | Self::TooMuch { .. } | Self::Unexpected { .. } => Failure::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_classified() {
        for (stderr, failure) in [
            ("fatal: '/srv/x' does not appear to be a git repository", Failure::NotFound),
            ("fatal: repository 'http://127.0.0.1:1/x/' not found", Failure::NotFound),
            ("fatal: Authentication failed for 'http://127.0.0.1/'", Failure::CredentialRefused),
            ("fatal: could not read Username for 'http://h': terminal prompts disabled", Failure::CredentialRefused),
            ("fatal: unable to access 'http://127.0.0.1:1/': Failed to connect to 127.0.0.1", Failure::Unreachable),
            (" ! [rejected]        x -> x (fetch first)", Failure::NonFastForward),
            (" ! [remote rejected] x -> x (pre-receive hook declined)", Failure::Refused),
            ("remote: This repository was archived so it is read-only.\nerror: 403", Failure::Archived),
            (
                " ! [remote rejected] x -> x (refusing to allow a GitHub App to create or update workflow \
                 `.github/workflows/a.yml` without `workflows` permission)",
                Failure::CiFilesRefused,
            ),
            (
                " ! [remote rejected] x -> x (refusing to allow a Personal Access Token to create or update workflow \
                 `.github/workflows/a.yml` without `workflow` scope)",
                Failure::CiFilesRefused,
            ),
            ("error: unable to write file: No space left on device", Failure::DiskFull),
            ("fatal: write error: Disk quota exceeded", Failure::DiskFull),
            ("fatal: Unable to create '/m/packed-refs.lock': File exists.", Failure::LockHeld),
            ("error: unable to write file /m/objects/00/7: No such file or directory", Failure::NotWritten),
            ("fatal: unable to create temporary object directory", Failure::NotWritten),
            ("git@h: Permission denied (publickey).", Failure::CredentialRefused),
            ("error: cannot open 'FETCH_HEAD': Permission denied", Failure::Other),
            ("fatal: unable to access 'http://h/': Operation too slow. Less than 1 bytes/sec", Failure::Unreachable),
            ("error: object file ./objects/ab/cd is empty\nfatal: loose object abcd is corrupt", Failure::Damaged),
            ("error: refs/heads/main does not point to a valid object!\nfatal: bad object HEAD", Failure::Damaged),
            ("fatal: not a git repository: '/data/mirrors/x.git'", Failure::Damaged),
            (
                "error: invalid path '.GIT/HEAD'\nfatal: Could not reset index file to revision 'abcd'.",
                Failure::PathRefused,
            ),
            ("fatal: cannot create directory at 'a/b': File name too long", Failure::PathRefused),
            ("remote: fatal: bad object abcd\nerror: remote unpack failed", Failure::Other),
            ("fatal: ambiguous argument", Failure::Other),
            (
                "remote: fatal: bad tree object abcd\nremote: aborting due to possible repository corruption on the remote \
                 side.\nfatal: protocol error: bad pack header",
                Failure::RemoteDamaged,
            ),
            (
                "fatal: bad config line 7 in file ./config\nfatal: Could not read from remote repository.\n",
                Failure::RemoteDamaged,
            ),
            ("fatal: remote error: upload-pack: not our ref abcd", Failure::NotOurRef),
            (
                "error: remote unpack failed: unable to create temporary object directory\n ! [remote rejected] x -> x \
                 (unpacker error)",
                Failure::ReadOnly,
            ),
            (
                "remote: error: cannot lock ref 'refs/heads/x': Unable to create '/srv/x.lock': Permission denied",
                Failure::ReadOnly,
            ),
            ("fatal: Unable to create '/m/refs/x.lock': Read-only file system", Failure::NotWritten),
        ] {
            let error = GitError::Failed { command: "x".into(), code: Some(128), stderr: stderr.into() };
            assert_eq!(error.failure(), failure, "{stderr}");
        }
    }

    #[test]
    fn paths_are_hidden_and_addresses_stay() {
        for (text, shown) in [
            ("error: failed to push some refs to '/srv/git/shop.git'", "error: failed to push some refs to '…'"),
            (
                "remote: Unable to create '/srv/a b.lock': File exists.",
                "remote: Unable to create '… b.lock': File exists.",
            ),
            ("To https://example.com/acme/shop.git", "To https://example.com/acme/shop.git"),
            (
                "To ssh://git@example.com:22/~a/x and git@example.com:/srv/x",
                "To ssh://git@example.com:22/~a/x and git@example.com:/srv/x",
            ),
            ("refs/heads/main and/or / alone /", "refs/heads/main and/or / alone /"),
            ("/a /b (/c) file=/d", "… … (…) file=…"),
        ] {
            assert_eq!(without_paths(text), shown);
        }
        let error = GitError::Failed { command: "push".into(), code: Some(1), stderr: "no '/srv/x'".into() };
        assert_eq!(error.without_paths().to_string(), "git push failed: no '…'");
        assert_eq!(GitError::NotUsed("The repository /x.".into()).without_paths().to_string(), "The repository /x.");
    }
}
