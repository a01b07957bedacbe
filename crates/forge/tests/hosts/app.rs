//! GitHub Apps: tokens for one repository, made when they are needed.

use journeyman_core::checks::CheckState;
use journeyman_core::code_host::{Access, HostSecrets};
use journeyman_core::open_pull::Ensured;
use journeyman_core::ports::{ForgeError, Forges as _};
use journeyman_core::run::ReasonCode;
use journeyman_core::secret::SecretValue;
use journeyman_testkit::code_host::{App, Check, Product, State, User, rsa_key};

use super::fixtures::{Fixture, PATH, discussion};

/// Starts a stand-in with an app, which is installed on the repository.
pub(crate) async fn fixture() -> Fixture {
    let access = Access::App { app_id: 4242, slug: "acme-journeyman".to_owned() };
    let private_key = Some(SecretValue(rsa_key()));
    let fixture = Fixture::with(Product::Github, access, HostSecrets { private_key, ..HostSecrets::default() }).await;
    let app = App { id: 4242, slug: "acme-journeyman".to_owned(), ..App::default() };
    let mut state = fixture.server.state();
    state.app = Some(app);
    state.tokens.clear();
    state.users.push(User { id: 90, name: "acme-journeyman[bot]".to_owned(), is_bot: true });
    drop(state);
    fixture
}

#[tokio::test]
async fn an_app_gets_a_token_for_one_repository() {
    let fixture = fixture().await;
    fixture.server.repository("acme/other").await;
    let head = fixture.branch("work").await;
    let ensured = fixture.ensure("work", &head).await.unwrap();
    assert!(matches!(ensured, Ensured::Opened { .. }), "{ensured:?}");
    let forge = fixture.forge().await;
    let remote = forge.remote().await.unwrap();
    let credential = remote.credential.unwrap();
    assert_eq!(credential.username, "x-access-token");
    assert!(credential.password.len() > 480, "the length of a token is not limited");
    let me = discussion(&*forge).me().await.unwrap();
    assert_eq!((me.id.as_str(), me.is_bot), ("90", true));
    let mut state = fixture.server.state();
    let shop = state.by_path(PATH).unwrap().id;
    assert!(state.tokens.values().all(|token| token.repository == Some(shop)), "{:?}", state.tokens);
    assert_eq!(state.app.as_ref().unwrap().issued, 1, "a token is used again while it is valid");
}

#[tokio::test]
async fn an_app_follows_a_renamed_repository_whose_name_another_one_has() {
    let mut fixture = fixture().await;
    let id = fixture.seen().await;
    fixture.server.state().rename(PATH, "acme/store");
    fixture.server.repository(PATH).await;
    // The process has started again, and has no token.
    let fixture = fixture.reconnected();
    let forge = fixture.forge().await;
    assert_eq!(forge.repository().await.unwrap().id, id);
    assert_eq!(forge.remote().await.unwrap().url, fixture.server.clone_url("acme/store"));
    // The app is not installed on the repository any more.
    fixture.server.state().repositories.retain(|repository| repository.path == PATH);
    let error = fixture.reconnected().forge().await.remote().await.unwrap_err();
    assert!(matches!(&error, ForgeError::NotFound(text) if text.contains("another one has its address")), "{error}");
}

#[tokio::test]
async fn a_token_may_change_workflows_if_the_installation_has_the_permission() {
    for has_workflows in [false, true] {
        let fixture = fixture().await;
        fixture.server.state().app.as_mut().unwrap().has_workflows = has_workflows;
        fixture.forge().await.remote().await.unwrap();
        let requests = fixture.server.requests();
        let minted = requests.iter().find(|call| call.target.ends_with("/access_tokens")).unwrap();
        let granted = minted.body["permissions"]["workflows"].as_str();
        assert_eq!(granted, has_workflows.then_some("write"), "{}", minted.body);
    }
}

#[tokio::test]
async fn an_installation_that_lacks_a_permission_is_refused_before_any_token() {
    for (lacking, named) in [("contents", "contents: write"), ("pull_requests", "pull_requests: write")] {
        let fixture = fixture().await;
        fixture.server.state().app.as_mut().unwrap().only_read.push(lacking);
        let error = fixture.forge().await.repository().await.unwrap_err();
        let ForgeError::Denied(text) = &error else { panic!("{error}") };
        assert!(text.contains(&format!("lacks the permissions {named}; accept")), "{text}");
        let minted = |call: &&journeyman_testkit::code_host::ApiRequest| call.target.ends_with("/access_tokens");
        assert_eq!(fixture.server.requests().iter().filter(minted).count(), 0, "{lacking}");
        let findings = fixture.hosts.check(&fixture.project, &[].into()).await;
        let Err(reason) = findings else { panic!("{findings:?}") };
        assert_eq!(reason.code, ReasonCode::PermissionMissing, "{lacking}: {reason:?}");
    }
}

#[tokio::test]
async fn what_a_token_may_do_is_known_from_the_answer_that_made_it() {
    for (only_read, expected) in [(vec![], Some(true)), (vec!["contents"], Some(false))] {
        let fixture = fixture().await;
        {
            let mut state = fixture.server.state();
            let app = state.app.as_mut().unwrap();
            (app.only_read, app.grants_less) = (only_read, true);
        }
        let forge = fixture.forge().await;
        let repository = forge.repository().await.unwrap();
        assert_eq!(repository.can_push, expected);
        assert_eq!(
            repository.read_only().map(|reason| reason.code),
            match expected {
                Some(false) => Some(ReasonCode::PermissionMissing),
                _ => None,
            }
        );
        let known: Vec<String> = fixture.server.requests().into_iter().map(|call| call.target).collect();
        assert_eq!(known.len(), 3, "the installation, the token and the repository: {known:?}");
    }
}

#[tokio::test]
async fn all_checks_are_read_also_with_a_token_that_may_only_read_jobs() {
    for is_fine_grained in [false, true] {
        let fixture = Fixture::new(Product::Github).await;
        let sha = fixture.branch("work").await;
        let check = |id: u64| Check {
            id,
            sha: sha.to_string(),
            name: format!("test {id}"),
            passed: Some(true),
            log: String::new(),
        };
        {
            let mut state = fixture.server.state();
            state.tokens.get_mut(State::TOKEN).unwrap().is_fine_grained = is_fine_grained;
            state.by_path(PATH).unwrap().checks = (1..=150).map(check).collect();
        }
        let forge = fixture.forge().await;
        let found = forge.checks().unwrap().of_commit(&sha).await.unwrap();
        assert_eq!(found.len(), 150, "{is_fine_grained}");
        assert!(found.iter().all(|check| check.state == CheckState::Passed && check.log.is_some()), "{found:?}");
    }
}

#[tokio::test]
async fn an_app_that_is_not_installed_is_reported_with_the_remedy() {
    let fixture = fixture().await;
    fixture.server.state().app.as_mut().unwrap().missing.push("acme".to_owned());
    let error = fixture.forge().await.repository().await.unwrap_err();
    assert!(matches!(&error, ForgeError::NotFound(text) if text.contains("is not installed on acme/shop")), "{error}");
}

#[tokio::test]
async fn a_key_that_cannot_sign_is_reported() {
    let access = Access::App { app_id: 1, slug: "x".to_owned() };
    let private_key = Some(SecretValue("no key".to_owned()));
    let fixture = Fixture::with(Product::Github, access, HostSecrets { private_key, ..HostSecrets::default() }).await;
    let error = fixture.hosts.of(&fixture.project).await.err().unwrap();
    assert!(matches!(&error, ForgeError::Credential(text) if text.contains("PEM")), "{error}");
    let _ = State::TOKEN;
}
