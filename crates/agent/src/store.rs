//! Session files: `<state_dir>/<session id>.json`.
//!
//! Invariants: a file is replaced as a whole or not at all; an identifier from outside becomes part of a path only
//! after validation; a file with an unknown version is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use genai::chat::ChatRequest;
use serde::{Deserialize, Serialize};

/// The version of the session files that this program writes and reads.
const VERSION: u32 = 1;

/// The longest session identifier in characters.
const MAX_ID_CHARS: usize = 64;

/// An error from the session store.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The identifier is not 1 to 64 of `A-Z a-z 0-9 _ -`.
    #[error("the session id must be 1 to {max} of the characters A-Z a-z 0-9 _ -", max = MAX_ID_CHARS)]
    InvalidId,
    /// The session does not exist.
    #[error("there is no session `{0}`")]
    Unknown(String),
    /// The file was written by another version of this program.
    #[error("the session file `{path}` has version {found}, but only version {known} is supported", known = VERSION)]
    Version {
        /// The file.
        path: String,
        /// The version in it.
        found: u32,
    },
    /// The file could not be decoded, or the session could not be encoded.
    #[error("the session file `{path}` cannot be decoded or encoded: {source}")]
    Corrupt {
        /// The file.
        path: String,
        /// The error of the JSON library.
        source: serde_json::Error,
    },
    /// The file system failed.
    #[error("the session file `{path}` cannot be accessed: {source}")]
    Io {
        /// The file.
        path: String,
        /// The error of the file system.
        source: io::Error,
    },
}

/// A session identifier that is safe as a file name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey(String);

impl SessionKey {
    /// Validates an identifier that came from outside.
    pub(crate) fn parse(id: &str) -> Result<Self, StoreError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if id.is_empty() || id.len() > MAX_ID_CHARS || !id.bytes().all(allowed) {
            return Err(StoreError::InvalidId);
        }
        Ok(Self(id.to_owned()))
    }

    /// Returns the identifier as text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The speaker of a line of a scripted conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Speaker {
    /// The user.
    User,
    /// The agent.
    Agent,
}

/// A line of a scripted conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// The speaker of the line.
    pub(crate) role: Speaker,
    /// The text of the line.
    pub(crate) text: String,
}

/// The provider's measurement of the size of the conversation's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The number of tokens, input and output of the call together.
    pub(crate) tokens: u64,
    /// The number of messages, counted from the first, that these tokens cover.
    pub(crate) messages: usize,
}

/// The stored state of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SessionFile {
    version: u32,
    /// The model that the conversation was last held with, as `prefix/name`.
    pub(crate) model: String,
    /// The number of tool calls so far; the next call is numbered after it.
    #[serde(default)]
    pub(crate) calls: u64,
    /// The last measurement of the conversation in `chat`, if it is still valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
    /// The conversation with the scripted model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) lines: Vec<Line>,
    /// The conversation with a language model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chat: Option<ChatRequest>,
}

impl SessionFile {
    /// Creates a session without a conversation.
    pub(crate) fn new(model: &str) -> Self {
        Self { version: VERSION, model: model.to_owned(), calls: 0, measured: None, lines: Vec::new(), chat: None }
    }

    /// Returns the conversation with a language model; starts one if there is none.
    pub(crate) fn chat_mut(&mut self) -> &mut ChatRequest {
        self.chat.get_or_insert_default()
    }

    /// Appends a line to the scripted conversation.
    pub(crate) fn push_line(&mut self, role: Speaker, text: impl Into<String>) {
        self.lines.push(Line { role, text: text.into() });
    }

    /// Counts the next tool call and returns its identifier, which is unique in the session.
    pub(crate) fn next_call_id(&mut self) -> String {
        self.calls += 1;
        call_id(self.calls)
    }
}

/// Returns the ACP identifier of tool call number `number` of a session.
pub(crate) fn call_id(number: u64) -> String {
    format!("call-{number}")
}

/// The version of a session file; it is read first, because the rest may have a different structure.
#[derive(Deserialize)]
struct Header {
    version: u32,
}

/// The directory of the session files.
#[derive(Debug, Clone)]
pub(crate) struct SessionStore {
    directory: PathBuf,
}

impl SessionStore {
    /// Opens the directory; creates it if it is missing.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Reads a session.
    pub(crate) async fn load(&self, key: &SessionKey) -> Result<SessionFile, StoreError> {
        let path = self.path(key);
        let id = key.as_str().to_owned();
        let shown = path.display().to_string();
        let reading = tokio::task::spawn_blocking(move || fs::read_to_string(path));
        let text = match reading.await.map_err(io::Error::other).flatten() {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::Unknown(id)),
            Err(source) => return Err(StoreError::Io { path: shown, source }),
        };
        decode(&text, &shown)
    }

    /// Writes a session. When this returns, the session survives a power failure.
    pub(crate) async fn save(&self, key: &SessionKey, file: &SessionFile) -> Result<(), StoreError> {
        let path = self.path(key);
        let shown = path.display().to_string();
        let bytes = match serde_json::to_vec(file) {
            Ok(bytes) => bytes,
            Err(source) => return Err(StoreError::Corrupt { path: shown, source }),
        };
        let writing = tokio::task::spawn_blocking(move || replace(&path, &bytes));
        writing.await.map_err(io::Error::other).flatten().map_err(|source| StoreError::Io { path: shown, source })
    }

    fn path(&self, key: &SessionKey) -> PathBuf {
        self.directory.join(format!("{}.json", key.as_str()))
    }
}

fn decode(text: &str, path: &str) -> Result<SessionFile, StoreError> {
    let corrupt = |source| StoreError::Corrupt { path: path.to_owned(), source };
    let header: Header = serde_json::from_str(text).map_err(corrupt)?;
    if header.version != VERSION {
        return Err(StoreError::Version { path: path.to_owned(), found: header.version });
    }
    serde_json::from_str(text).map_err(corrupt)
}

/// Writes a temporary file, renames it, and syncs the folder: a crash leaves the old file or the new one, and the new
/// one survives a power failure. Only the owner may read the file, because a conversation can contain secrets.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("json.tmp");
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
