//! The options of [`serve`](crate::serve): the model, its endpoint, the directory of the sessions, and two effects that
//! the caller provides (creating identifiers and ending the process).
//!
//! Invariant: the key never appears in the `Debug` output.

use std::fmt;
use std::path::PathBuf;

use journeyman_core::model::Effort;

/// The settings of one agent process.
pub struct Options {
    /// The model as `prefix/name`: `test/scripted`, `anthropic/…`, `openai/…`, `openai-responses/…`, `gemini/…`,
    /// `ollama/…` or `compatible/…` (any server with the chat-completions interface of OpenAI; needs `base_url`).
    pub model: String,
    /// The address of the model's server, `http://` or `https://`. If it has no path, the usual path of the dialect is
    /// added (`/v1`, `/v1beta` for Gemini, none for Ollama). Default: the provider's public address.
    pub base_url: Option<String>,
    /// The key of the model. Default: `JOURNEYMAN_AGENT_KEY`, or `ANTHROPIC_API_KEY`, `OPENAI_API_KEY` or
    /// `GEMINI_API_KEY`, by dialect.
    pub api_key: Option<String>,
    /// The effort of the model. `None`: nothing is sent, and the model uses its default.
    pub effort: Option<Effort>,
    /// The directory of the session files; it is created if it is missing.
    pub state_dir: PathBuf,
    /// The home directory of the user, in which the test model waits for a file on `[[hold]]`.
    pub home: PathBuf,
    /// The version that the agent reports to its clients.
    pub version: String,
    /// Creates the identifier of a new session: 1 to 64 of the characters `A-Z a-z 0-9 _ -`, never the same twice.
    pub new_session_id: Box<dyn Fn() -> String + Send + Sync>,
    /// The size of the model's context window in tokens. `None`: the usual size of the model family.
    pub context_tokens: Option<u64>,
    /// The maximum number of calls to the model in one turn; a turn that reaches it ends with `max_turn_requests`.
    pub model_calls: u32,
    /// Makes the agent ask the client for permission before it changes a file or runs a command.
    pub asks: bool,
    /// Ends the process at once with exit code 101. Only the scripted model calls it, on `[[die]]`. It is a hook so
    /// that tests can replace it.
    pub die: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("model", &self.model)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "[hidden]"))
            .field("effort", &self.effort)
            .field("state_dir", &self.state_dir)
            .field("home", &self.home)
            .field("version", &self.version)
            .field("context_tokens", &self.context_tokens)
            .field("model_calls", &self.model_calls)
            .field("asks", &self.asks)
            .finish_non_exhaustive()
    }
}
