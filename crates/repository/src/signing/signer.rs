//! The key with which the server signs commits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::run::ReasonCode;
use journeyman_git::{Git, GitCommand, GitError};

use super::commit::Commit;
use crate::RepositoryError;

/// The namespace of git's signatures.
const NAMESPACE: &str = "git";

/// The name of the committer.
const NAME: &str = "Journeyman";

/// The default email address of the committer.
pub const DEFAULT_EMAIL: &str = "journeyman@localhost";

/// The time limit of `ssh-keygen`.
const TIME: Duration = Duration::from_secs(30);

/// An error for a private key that cannot sign commits. It does not contain the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// The program is missing.
    #[error("ssh-keygen cannot be started ({0}); install it (Debian: apt-get install openssh-client)")]
    NoProgram(String),
    /// The key is protected by a passphrase.
    #[error("the key {0} has a passphrase, which no one can enter; remove it with: ssh-keygen -p -f {0}")]
    Passphrase(PathBuf),
    /// The file cannot be read, or contains no private key that can sign.
    #[error(
        "{file} is not a private key that can sign ({detail}); create one with: ssh-keygen -t ed25519 -N '' -f {file}"
    )]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The error of `ssh-keygen`.
        detail: String,
    },
    /// The committer's address would not be valid in a commit.
    #[error("{0:?} is not a valid email address of a committer")]
    Email(String),
}

/// Signs commits with a private key in a file. Only `ssh-keygen` reads the file, so every kind of key that git supports
/// works, and the key is never in the memory of the service.
#[derive(Debug)]
pub struct Signer {
    keygen: Git,
    key: PathBuf,
    public_key: String,
    email: String,
}

impl Signer {
    /// Checks that the private key in the file `key` can sign. `git` determines where `ssh-keygen` is searched for, and
    /// `email` is the address of the committer.
    ///
    /// # Errors
    /// `ssh-keygen` is missing, or the file is not a private key without a passphrase.
    pub async fn open(git: &Git, key: &Path, email: &str) -> Result<Self, SignerError> {
        if email.is_empty() || email.chars().any(|c| c.is_control() || c.is_whitespace() || "<>".contains(c)) {
            return Err(SignerError::Email(email.to_owned()));
        }
        let keygen = git.with_program("ssh-keygen");
        let public = run(keygen.command(["-y", "-P", "", "-f"]).argument(key)).await;
        let public_key = public.map_err(|error| error.about(key))?;
        let public_key = String::from_utf8_lossy(&public_key).trim().to_owned();
        let signer = Self { keygen, key: key.to_owned(), public_key, email: email.to_owned() };
        signer.signature(b"test").await.map_err(|error| error.about(key))?;
        Ok(signer)
    }

    /// Returns the public key, in the form in which code hosts take it.
    #[must_use]
    pub fn public_key(&self) -> &str {
        &self.public_key
    }

    /// Returns the email address of the committer.
    pub(crate) fn email(&self) -> &str {
        &self.email
    }

    async fn signature(&self, text: &[u8]) -> Result<String, Failed> {
        let command = self.keygen.command(["-Y", "sign", "-n", NAMESPACE, "-f"]).argument(&self.key);
        let signature = run(command.stdin(text)).await?;
        String::from_utf8(signature).map_err(|error| Failed::Refused(error.to_string()))
    }

    /// Returns the commit with the service as its committer, with a signature.
    pub(super) async fn sign(&self, mut commit: Commit<'_>) -> Result<Vec<u8>, RepositoryError> {
        commit.remove_signatures();
        commit.set_committer(&format!("{NAME} <{}>", self.email));
        let signature = self.signature(&commit.to_bytes()).await.map_err(|error| {
            let text =
                format!("the commits cannot be signed: {}; run journeyman doctor for details", error.about(&self.key));
            RepositoryError::may_pass(ReasonCode::Internal, text)
        })?;
        commit.set_signature(&signature);
        Ok(commit.to_bytes())
    }
}

/// A failure of `ssh-keygen`.
enum Failed {
    NotStarted(String),
    Refused(String),
}

impl Failed {
    fn about(self, key: &Path) -> SignerError {
        match self {
            Self::NotStarted(error) => SignerError::NoProgram(error),
            Self::Refused(error) if error.contains("incorrect passphrase") => SignerError::Passphrase(key.to_owned()),
            Self::Refused(error) => SignerError::Unusable { file: key.to_owned(), detail: error },
        }
    }
}

/// Runs `ssh-keygen`, which must ask no one for a passphrase.
async fn run(command: GitCommand) -> Result<Vec<u8>, Failed> {
    let command = command.env("SSH_ASKPASS", "/bin/false").env("SSH_ASKPASS_REQUIRE", "force").timeout(TIME);
    match command.run().await {
        Ok(output) => Ok(output.stdout),
        Err(GitError::NotStarted(error)) => Err(Failed::NotStarted(error)),
        Err(GitError::Failed { stderr, .. }) => {
            let lines = stderr.lines().map(str::trim).filter(|line| !line.chars().all(|c| "@ ".contains(c)));
            Err(Failed::Refused(lines.collect::<Vec<_>>().join("; ")))
        }
        Err(error) => Err(Failed::Refused(error.to_string())),
    }
}
