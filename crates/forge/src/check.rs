//! Checks whether the repository of a project can be read.

use std::time::Duration;

use journeyman_core::ports::Remote;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_git::{Failure, Git, GitError};

/// The time limit of the check: a person waits for the result.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Reads the branches of a remote.
pub(crate) async fn read(git: &Git, remote: &Remote) -> Result<(), Reason> {
    let Err(error) = ask(git, remote).await else { return Ok(()) };
    let (code, text) = match error.failure() {
        Failure::NotFound => {
            (ReasonCode::RepositoryNotFound, "there is no repository at this address, or access to it is denied")
        }
        Failure::CredentialRefused => (
            ReasonCode::CredentialRefused,
            "the repository refused the credential or requires one; set a valid token and its user name",
        ),
        Failure::NotUsed => return Err(Reason::new(ReasonCode::RepositoryUnreachable, error.to_string())),
        _ => (ReasonCode::RepositoryUnreachable, "the repository could not be read"),
    };
    Err(Reason::new(code, format!("{text}: {error}")))
}

async fn ask(git: &Git, remote: &Remote) -> Result<(), GitError> {
    let route = git.route(remote).await?;
    let arguments = ["ls-remote", "--heads"].map(str::to_owned).into_iter().chain(route.reading());
    let ask = git.command(arguments.chain(["--", route.address()].map(str::to_owned))).timeout(TIMEOUT);
    ask.credential(remote.credential.as_ref()).run().await.map(|_| ())
}
