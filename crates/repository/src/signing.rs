//! Signs commits with an SSH key of the server, in the format that `git verify-commit` and code hosts check
//! (gitformat-signature(5), and `PROTOCOL.sshsig` of OpenSSH).
//!
//! The committer in the sandbox makes commits without a signature, because no program of a job may use the key. The
//! host then writes each commit again with the signature, and with the service as its committer: a code host trusts a
//! signature only if the key belongs to the account with the committer's address.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journeyman_core::ids::Sha;
use journeyman_core::run::ReasonCode;
use journeyman_git::{Git, GitCommand, GitError};

use crate::{Mirror, RepositoryError};

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
    async fn sign(&self, mut commit: Commit<'_>) -> Result<Vec<u8>, RepositoryError> {
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

/// The content of a commit object: header fields, and the rest, which begins with an empty line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Commit<'a> {
    /// The fields as they are written, without the last line break. Further lines of a field begin with a space.
    fields: Vec<Vec<u8>>,
    rest: &'a [u8],
}

impl<'a> Commit<'a> {
    fn parse(bytes: &'a [u8]) -> Self {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n").map_or(bytes.len(), |end| end + 1);
        let (head, rest) = bytes.split_at(end);
        let mut fields: Vec<Vec<u8>> = Vec::new();
        for line in head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match fields.last_mut() {
                Some(field) if line.starts_with(b" ") => {
                    field.push(b'\n');
                    field.extend(line);
                }
                _ => fields.push(line.to_vec()),
            }
        }
        Self { fields, rest }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in &self.fields {
            bytes.extend(field);
            bytes.push(b'\n');
        }
        bytes.extend(self.rest);
        bytes
    }

    fn replace_parents(&mut self, replaced: &HashMap<Sha, Sha>) -> bool {
        let mut has_changed = false;
        for field in &mut self.fields {
            let parent = field.strip_prefix(b"parent ").and_then(|sha| std::str::from_utf8(sha).ok()?.parse().ok());
            if let Some(new) = parent.and_then(|parent: Sha| replaced.get(&parent)) {
                *field = format!("parent {new}").into_bytes();
                has_changed = true;
            }
        }
        has_changed
    }

    /// Replaces the committer's name and address, and keeps the time.
    fn set_committer(&mut self, who: &str) {
        for field in self.fields.iter_mut().filter(|field| field.starts_with(b"committer ")) {
            let time = field.iter().rposition(|byte| *byte == b'>').map_or(&[][..], |end| &field[end + 1..]);
            *field = [format!("committer {who}").as_bytes(), time].concat();
        }
    }

    fn is_signed(&self) -> bool {
        self.fields.iter().any(|field| is_signature(field))
    }

    fn remove_signatures(&mut self) {
        self.fields.retain(|field| !is_signature(field));
    }

    fn set_signature(&mut self, signature: &str) {
        self.fields.push(format!("gpgsig {}", signature.trim_end().replace('\n', "\n ")).into_bytes());
    }
}

fn is_signature(field: &[u8]) -> bool {
    field.starts_with(b"gpgsig ") || field.starts_with(b"gpgsig-sha256 ")
}

/// Commits, some of which were written again with a signature.
#[derive(Debug, Default)]
pub struct Signed {
    /// The new commits by those that they replace.
    pub replaced: HashMap<Sha, Sha>,
}

impl Signed {
    /// Returns the commit that replaces another, or that commit if nothing replaces it.
    #[must_use]
    pub fn commit(&self, commit: &Sha) -> Sha {
        self.replaced.get(commit).unwrap_or(commit).clone()
    }
}

impl Mirror {
    /// Writes the commits of an agent after `base` up to `head` again, with signatures, if the server signs commits.
    /// Commits of the code host stay. Signatures that the agent has made are removed.
    ///
    /// # Errors
    /// Git or `ssh-keygen` failed.
    pub async fn sign(&self, base: &Sha, head: &Sha) -> Result<Signed, RepositoryError> {
        self.sign_some(Some(base), head, |_| true).await
    }

    /// Writes the commits up to `head` again that have no signature and are not on the code host, with signatures, if
    /// the server signs commits: git has made them on this machine, or the server has not signed commits before.
    ///
    /// # Errors
    /// Git or `ssh-keygen` failed.
    pub async fn sign_rest(&self, head: &Sha) -> Result<Signed, RepositoryError> {
        self.sign_some(None, head, |commit| !commit.is_signed()).await
    }

    async fn sign_some(
        &self,
        base: Option<&Sha>,
        head: &Sha,
        is_wanted: impl Fn(&Commit<'_>) -> bool,
    ) -> Result<Signed, RepositoryError> {
        let mut signed = Signed::default();
        let Some(signer) = &self.signer else { return Ok(signed) };
        let list = ["rev-list", "--reverse", "--topo-order", head.as_str(), "--not", "--branches"];
        let commits = self.git.at(&self.path, list.into_iter().chain(base.map(Sha::as_str))).run().await?.shas()?;
        let names: String = commits.iter().map(|commit| format!("{commit}\n")).collect();
        let contents = self.git.at(&self.path, ["cat-file", "--batch"]).stdin(names).run().await?.stdout;
        let mut rest = contents.as_slice();
        for sha in &commits {
            let content = next_object(&mut rest).ok_or_else(|| unexpected(sha))?;
            let mut commit = Commit::parse(content);
            if !commit.replace_parents(&signed.replaced) && !is_wanted(&commit) {
                continue;
            }
            let write = self.git.at(&self.path, ["hash-object", "-t", "commit", "-w", "--stdin"]);
            let new = write.stdin(signer.sign(commit).await?).run().await?.sha()?;
            signed.replaced.insert(sha.clone(), new);
        }
        Ok(signed)
    }
}

/// Takes an object from the output of `git cat-file --batch`: a line with its name, kind and size, its content, and a
/// line break.
pub(crate) fn next_object<'a>(output: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = output.iter().position(|byte| *byte == b'\n')?;
    let size: usize = std::str::from_utf8(&output[..end]).ok()?.rsplit(' ').next()?.parse().ok()?;
    let content = output.get(end + 1..end + 1 + size)?;
    *output = output.get(end + 2 + size..)?;
    Some(content)
}

fn unexpected(sha: &Sha) -> RepositoryError {
    let detail = format!("the commit {sha} is missing in its output");
    GitError::Unexpected { command: "cat-file".to_owned(), detail }.into()
}

#[cfg(test)]
mod tests;
