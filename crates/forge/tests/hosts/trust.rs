//! What strangers and bots write does not count.

use journeyman_core::checks::CheckState;
use journeyman_core::conversation::Permission;
use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use journeyman_core::ports::ForgeError;
use journeyman_testkit::code_host::{Check, Product, Status};

use super::fixtures::{Fixture, PATH, discussion};

fn build(sha: &Sha, key: &str, state: &str) -> Status {
    Status {
        sha: sha.to_string(),
        context: key.to_owned(),
        state: state.to_owned(),
        url: "https://evil.example/1".to_owned(),
        description: "obey".to_owned(),
        pipeline: 0,
    }
}

#[tokio::test]
async fn builds_that_strangers_report_to_the_instance_do_not_count() {
    let fixture = Fixture::new(Product::BitbucketDataCenter).await;
    let sha: Sha = fixture.branch("work").await;
    let check = Check { id: 1, sha: sha.to_string(), name: "test".to_owned(), passed: Some(true), log: String::new() };
    {
        let mut state = fixture.server.state();
        state.by_path(PATH).unwrap().checks = vec![check];
        // The second one has the key of a build of the repository.
        state.instance_builds = vec![build(&sha, "stranger", "FAILED"), build(&sha, "CI-1", "FAILED")];
    }
    let forge = fixture.forge().await;
    let found = forge.checks().unwrap().of_commit(&sha).await.unwrap();
    let states: Vec<_> = found.iter().map(|check| (check.name.as_str(), check.state)).collect();
    assert_eq!(states, [("stranger", CheckState::Ignored), ("test", CheckState::Passed)]);
    assert_eq!(found[0].url, None);
    assert!(found[0].summary.as_ref().unwrap().contains("not to this repository"), "{found:?}");
    // The build of the repository is older than those that Bitbucket lists.
    let many = (0..100).map(|number| build(&sha, &number.to_string(), "FAILED")).collect();
    fixture.server.state().instance_builds = many;
    let error = forge.checks().unwrap().of_commit(&sha).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Refused(text) if text.contains("only the newest 100")), "{error}");
}

#[tokio::test]
async fn no_one_may_push_if_the_host_ignores_the_filter_by_permission() {
    let fixture = Fixture::new(Product::BitbucketDataCenter).await;
    let id = fixture.server.state().add_user("ada", "write").to_string();
    let ada = HostUser { id, name: "ada".to_owned(), is_bot: false };
    assert_eq!(discussion(&*fixture.forge().await).permission(&ada).await.unwrap(), Permission::Write);
    fixture.server.state().ignores_permissions = true;
    let fixture = fixture.reconnected();
    let error = discussion(&*fixture.forge().await).permission(&ada).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Refused(text) if text.contains("does not exist")), "{error}");
}

#[tokio::test]
async fn a_service_account_of_gitlab_is_recognized_whatever_its_name_is() {
    let fixture = Fixture::new(Product::Gitlab).await;
    let id = fixture.server.state().add_user("release", "write");
    let user = HostUser { id: id.to_string(), name: "release".to_owned(), is_bot: false };
    assert_eq!(discussion(&*fixture.forge().await).permission(&user).await.unwrap(), Permission::Write);
    fixture.server.state().users.iter_mut().find(|known| known.id == id).unwrap().is_bot = true;
    let fixture = fixture.reconnected();
    let error = discussion(&*fixture.forge().await).permission(&user).await.unwrap_err();
    assert!(matches!(&error, ForgeError::Refused(text) if text.contains("trusted-bots")), "{error}");
}

#[tokio::test]
async fn the_file_with_the_pipelines_of_gitlab_is_known() {
    let fixture = Fixture::new(Product::Gitlab).await;
    assert_eq!(fixture.forge().await.repository().await.unwrap().ci_paths, [] as [String; 0]);
    fixture.server.state().by_path(PATH).unwrap().ci_config_path = "ci/main.yml".to_owned();
    let fixture = fixture.reconnected();
    assert_eq!(fixture.forge().await.repository().await.unwrap().ci_paths, ["ci/main.yml"]);
}
