//! What Bitbucket Cloud tells about the merge of pull requests.

use journeyman_core::checks::Check;
use journeyman_core::code_host::HostRepository;
use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use serde::Deserialize;

use super::wire::{Page, User};
use super::{Bitbucket, at};
use crate::http::encoded;
use crate::json::or_default;
use crate::merge::{MergeNote, if_read};

/// The fields that are read. Lists of pull requests lack the participants otherwise.
const FIELDS: &str = "values.id,values.draft,values.source.branch.name,values.source.commit.hash,\
                      values.destination.branch.name,values.participants";

/// An open pull request.
#[derive(Deserialize)]
struct Open {
    id: u64,
    #[serde(default, deserialize_with = "or_default")]
    draft: bool,
    #[serde(default)]
    source: End,
    #[serde(default)]
    destination: End,
    #[serde(default, deserialize_with = "or_default")]
    participants: Vec<Participant>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    #[serde(deserialize_with = "or_default")]
    branch: Branch,
    #[serde(deserialize_with = "or_default")]
    commit: Commit,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Branch {
    name: String,
}

/// The first 12 characters of a hash.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Commit {
    hash: String,
}

#[derive(Deserialize)]
struct Participant {
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    /// `REVIEWER` or `PARTICIPANT`.
    #[serde(default)]
    role: String,
    /// `approved`, `changes_requested`, or `null`.
    #[serde(default, deserialize_with = "or_default")]
    state: String,
}

/// Returns what Bitbucket tells about the merges of the open pull requests whose newest commit this is. Its merge checks
/// are not told by its interface.
pub(super) async fn notes(client: &Bitbucket, repository: &HostRepository, sha: &Sha) -> Vec<Check> {
    let path = at(repository, &format!("/pullrequests?state=OPEN&pagelen=50&fields={}", encoded(FIELDS)));
    let read = async {
        let page: Page<Open> = client.call(http::Method::GET, &path, None).await?.ok()?.json()?;
        Ok(page.values)
    };
    let all = if_read(&repository.path, read.await);
    let is_it =
        |pull: &&Open| !pull.source.commit.hash.is_empty() && sha.as_str().starts_with(&pull.source.commit.hash);
    all.iter().filter(is_it).filter_map(|pull| described(pull, &all)).collect()
}

fn described(pull: &Open, all: &[Open]) -> Option<Check> {
    let mut note = MergeNote::default();
    if pull.draft {
        note.wait("it is a draft");
    }
    let of = |is_it: fn(&Participant) -> bool| {
        let found = pull.participants.iter().filter(|one| is_it(one));
        found.map(|one| HostUser::from(one.user.clone()).name).collect::<Vec<_>>()
    };
    note.changes_by(&of(|one| one.state == "changes_requested"));
    note.reviews_of(&of(|one| one.role == "REVIEWER" && one.state.is_empty()));
    if let Some(other) = all.iter().find(|other| other.source.branch.name == pull.destination.branch.name) {
        note.stacked_on('#', other.id);
    }
    note.into_check("Pull request", &format!("#{}", pull.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reviewers_and_requested_changes_are_told() {
        let user = |name: &str| json!({"uuid": "{1}", "nickname": name});
        let pull: Open = serde_json::from_value(json!({
            "id": 7, "source": {"branch": {"name": "work"}, "commit": {"hash": "0123456789ab"}},
            "destination": {"branch": {"name": "main"}}, "participants": [
                {"user": user("ada"), "role": "REVIEWER", "state": "approved"},
                {"user": user("bob"), "role": "PARTICIPANT", "state": "changes_requested"},
                {"user": user("cy"), "role": "REVIEWER", "state": null},
                {"user": user("dan"), "role": "PARTICIPANT", "state": null},
            ],
        }))
        .unwrap();
        let summary = described(&pull, &[]).unwrap().summary.unwrap();
        let expected = "The pull request #7 waits: changes are requested by bob; a review is requested from cy.";
        assert_eq!(summary, expected);
    }
}
