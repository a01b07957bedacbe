//! Finds the commits of a message on its branch that the database does not know, because it was restored from a backup,
//! or failed over to a replica that lacked the last writes. A turn whose commits exist is not repeated.

use journeyman_core::ids::{MessageId, Sha};
use journeyman_core::job::Job;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::left_out::path_text;

use crate::signing::DEFAULT_EMAIL;
use crate::{Mirror, RepositoryError};

/// The trailer that names the message that a turn's last commit belongs to (git-interpret-trailers(1)).
pub const TRAILER: &str = "Journeyman-Message";

/// Returns the branch's newest commit and the message's commits, oldest first, if the code host's branch already has
/// them.
///
/// # Errors
/// Git failed.
pub async fn published_before(
    mirror: &Mirror,
    job: &Job,
    message: MessageId,
    begun: &TurnBegun,
) -> Result<Option<(Sha, Vec<Sha>)>, RepositoryError> {
    let known = job.branch.as_ref().and_then(|branch| branch.pushed.as_ref());
    // Usually the head of the branch is the one that the database knows.
    let Some(pushed) = begun.pushed.as_ref().filter(|pushed| known != Some(*pushed)) else { return Ok(None) };
    let range = format!("{}..{pushed}", known.unwrap_or(&begun.base));
    let format = format!("--format=%H %ce %(trailers:key={TRAILER},valueonly,separator=%x20)");
    let log = ["log", "--reverse", "--topo-order", &format, &range, "--"];
    // A commit of people may have a committer that is not UTF-8.
    let output = path_text(&mirror.git.at(&mirror.path, log).run().await?.stdout);
    let signer = mirror.signer.as_ref().map(|signer| signer.email());
    let committers: Vec<&str> = [DEFAULT_EMAIL].into_iter().chain(signer).collect();
    let commits = commits_of(&output, &message.to_string(), &committers);
    Ok((!commits.is_empty()).then(|| (pushed.clone(), commits)))
}

/// Returns the commits of a message from a log whose lines have a commit's hash, committer and trailers: the commits
/// that end with the message's trailer, after the last commit from another message or a committer who is not one of
/// `committers`.
fn commits_of(log: &str, message: &str, committers: &[&str]) -> Vec<Sha> {
    let mut commits: Vec<Sha> = Vec::new();
    for line in log.lines() {
        let mut words = line.split(' ');
        let (Some(Ok(commit)), Some(committer)) = (words.next().map(str::parse), words.next()) else { continue };
        if !committers.contains(&committer) {
            commits.clear();
            continue;
        }
        commits.push(commit);
        let trailers: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        if trailers.contains(&message) {
            return commits;
        }
        if !trailers.is_empty() {
            commits.clear();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commits_up_to_a_messages_trailer_belong_to_the_message() {
        let name = |digit: &str| digit.repeat(40);
        let ours = "journeyman@localhost";
        let lines = [
            format!("{} {ours} msg_1", name("1")),
            format!("{} someone@example.com ", name("2")),
            format!("{} {ours} ", name("3")),
            format!("{} {ours} msg_2", name("4")),
            format!("{} {ours} msg_3", name("5")),
        ];
        let log = lines.join("\n");
        let commits = |message| {
            commits_of(&log, message, &[ours]).iter().map(|sha| sha.as_str()[..1].to_owned()).collect::<String>()
        };
        assert_eq!([commits("msg_1"), commits("msg_2"), commits("msg_3"), commits("msg_4")], ["1", "34", "5", ""]);
    }
}
