//! Tests of code hosts and repositories, as administrators run them.

use http::Method;
use journeyman_core::code_host::{Access, CodeHost, HostKind, HostSecrets};
use journeyman_core::finding::{Finding, Health};
use journeyman_core::ports::{Forges as _, HostAdmin as _};
use journeyman_core::run::ReasonCode;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::{Clock as _, Timestamp};
use journeyman_forge::{Outbound, check_code_host};
use journeyman_testkit::World;
use journeyman_testkit::code_host::{CodeHostServer, Fault, Product, State, rsa_key};

use super::fixtures::{Fixture, PATH, PRODUCTS, kind};

fn host(url: &str, kind: HostKind, access: Option<Access>) -> CodeHost {
    CodeHost { access, ..CodeHost::of_address("host".parse().unwrap(), kind, url.to_owned()) }
}

fn token(text: &str) -> HostSecrets {
    HostSecrets { token: Some(SecretValue(text.to_owned())), ..HostSecrets::default() }
}

/// Returns the finding of a test.
fn of<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("{check} is not in {findings:?}"))
}

#[tokio::test]
async fn a_valid_token_passes_on_every_host() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let findings = fixture.hosts.check_host(&"host".parse().unwrap()).await.unwrap().unwrap();
        assert!(findings.iter().all(|finding| finding.health == Health::Ok), "{product:?}: {findings:?}");
        assert!(of(&findings, "credential").text.contains("@journeyman-bot"), "{product:?}: {findings:?}");
        assert!(!format!("{findings:?}").contains(State::TOKEN), "{product:?}");
    }
}

#[tokio::test]
async fn a_refused_token_fails_on_every_host() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let username = match product {
            Product::BitbucketDataCenter => Some("journeyman-bot".to_owned()),
            Product::Bitbucket => Some("bot@example.com".to_owned()),
            _ => None,
        };
        let host = host(&fixture.server.url, kind(product), Some(Access::Token { username }));
        let findings = check_code_host(&host, &token("wrong"), &Outbound::default(), World::new()).await;
        assert_eq!(of(&findings, "address").health, Health::Ok, "{product:?}: {findings:?}");
        let credential = of(&findings, "credential");
        assert_eq!(credential.health, Health::Failure, "{product:?}: {findings:?}");
        assert!(credential.text.contains("replace the token"), "{product:?}: {credential:?}");
    }
}

#[tokio::test]
async fn an_address_without_a_server_fails() {
    // Port 1 is reserved, and nothing listens there.
    for access in [Some(Access::Token { username: None }), None] {
        let host = host("http://127.0.0.1:1", HostKind::Gitlab, access);
        let findings = check_code_host(&host, &token("t"), &Outbound::default(), World::new()).await;
        let address = of(&findings, "address");
        assert_eq!(address.health, Health::Failure, "{findings:?}");
        assert!(address.text.contains("check the URL"), "{address:?}");
    }
}

#[tokio::test]
async fn a_host_without_a_credential_is_a_warning() {
    let fixture = Fixture::new(Product::Gitea).await;
    let host = host(&fixture.server.url, HostKind::Gitea, None);
    let findings = check_code_host(&host, &HostSecrets::default(), &Outbound::default(), World::new()).await;
    let healths: Vec<Health> = findings.iter().map(|finding| finding.health).collect();
    assert_eq!(healths, [Health::Ok, Health::Warning], "{findings:?}");
}

#[tokio::test]
async fn the_wrong_product_is_reported_as_the_address() {
    let fixture = Fixture::new(Product::Gitea).await;
    let host = host(&fixture.server.url, HostKind::Gitlab, Some(Access::Token { username: None }));
    let findings = check_code_host(&host, &token(State::TOKEN), &Outbound::default(), World::new()).await;
    assert!(of(&findings, "address").text.contains("no interface of GitLab"), "{findings:?}");
}

#[tokio::test]
async fn an_app_that_is_installed_nowhere_is_reported_with_the_page_that_installs_it() {
    let fixture = Fixture::new(Product::Github).await;
    fixture.server.state().manifest_codes.insert("good".to_owned(), Some("hook".to_owned()));
    let github = host(&fixture.server.url, HostKind::Github, None);
    let app = fixture.hosts.created_app(&github, "good").await.unwrap();
    assert_eq!(app.webhook_secret, Some(SecretValue("hook".to_owned())));
    let again = fixture.hosts.created_app(&github, "good").await.unwrap_err();
    assert!(again.to_string().contains("valid once"), "{again}");
    let access = Some(Access::App { app_id: app.app_id, slug: app.slug });
    let secrets = HostSecrets { private_key: Some(app.private_key), ..HostSecrets::default() };
    let findings = check_code_host(
        &host(&fixture.server.url, HostKind::Github, access),
        &secrets,
        &Outbound::default(),
        World::new(),
    )
    .await;
    assert_eq!(of(&findings, "credential").health, Health::Ok, "{findings:?}");
    let installations = of(&findings, "installations");
    let page = format!("{}/github-apps/journeyman-test/installations/new", fixture.server.url);
    assert!(installations.health == Health::Warning && installations.text.contains(&page), "{installations:?}");
    fixture.server.state().app.as_mut().unwrap().missing.clear();
    let access = Some(Access::App { app_id: app.app_id, slug: String::new() });
    let findings = check_code_host(
        &host(&fixture.server.url, HostKind::Github, access),
        &secrets,
        &Outbound::default(),
        World::new(),
    )
    .await;
    assert!(of(&findings, "installations").text.contains("acme"), "{findings:?}");
}

#[tokio::test]
async fn a_key_of_another_app_fails() {
    let fixture = Fixture::new(Product::Github).await;
    let access = Some(Access::App { app_id: 9, slug: "other".to_owned() });
    let secrets = HostSecrets { private_key: Some(SecretValue(rsa_key())), ..HostSecrets::default() };
    let github = host(&fixture.server.url, HostKind::Github, access);
    let findings = check_code_host(&github, &secrets, &Outbound::default(), World::new()).await;
    assert_eq!(of(&findings, "credential").health, Health::Failure, "{findings:?}");
    let no_key = HostSecrets { private_key: Some(SecretValue("no key".to_owned())), ..HostSecrets::default() };
    let findings = check_code_host(&github, &no_key, &Outbound::default(), World::new()).await;
    assert!(of(&findings, "credential").text.contains("PEM"), "{findings:?}");
}

#[tokio::test]
async fn a_repository_of_every_host_passes() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let findings = fixture.hosts.check(&fixture.project, &[].into()).await.unwrap();
        let checks: Vec<&str> = findings.iter().map(|finding| finding.check.as_str()).collect();
        assert_eq!(checks, ["repository", "push", "pull requests", "account"], "{product:?}");
        assert!(findings.iter().all(|finding| finding.health == Health::Ok), "{product:?}: {findings:?}");
    }
}

#[tokio::test]
async fn a_repository_that_cannot_be_pushed_to_is_refused() {
    let fixture = Fixture::new(Product::Github).await;
    fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().can_write = false;
    let reason = fixture.hosts.check(&fixture.project, &[].into()).await.unwrap_err();
    assert_eq!(reason.code, ReasonCode::PermissionMissing, "{reason:?}");
}

#[tokio::test]
async fn a_repository_that_was_archived_just_now_is_refused() {
    let fixture = Fixture::new(Product::Gitea).await;
    fixture.hosts.check(&fixture.project, &[].into()).await.unwrap();
    fixture.server.state().by_path(PATH).unwrap().is_archived = true;
    let refused = fixture.hosts.check(&fixture.project, &[].into()).await.unwrap_err();
    assert_eq!(refused.code, ReasonCode::RepositoryArchived, "{refused:?}");
}

#[tokio::test]
async fn a_credential_that_may_not_read_pull_requests_fails_that_test() {
    let fixture = Fixture::new(Product::Github).await;
    fixture.server.fault(Fault::Unauthorized, Method::GET, "/pulls", 5);
    let findings = fixture.hosts.check(&fixture.project, &[].into()).await.unwrap();
    let pulls = of(&findings, "pull requests");
    assert!(pulls.health == Health::Failure && pulls.text.contains("permissions"), "{findings:?}");
}

#[tokio::test]
async fn a_plain_remote_opens_no_pull_requests() {
    let fixture = Fixture::new(Product::Gitea).await;
    let mut project = fixture.project.clone();
    project.settings.code_host.kind = Some(journeyman_core::project::CodeHostKind::Plain);
    let repository = fixture.server.git_dir(PATH);
    project.repository = repository.to_str().unwrap().to_owned();
    let findings = fixture.hosts.check(&project, &[].into()).await.unwrap();
    let pulls = of(&findings, "pull requests");
    assert!(pulls.health == Health::Warning && pulls.text.contains("open no pull requests"), "{findings:?}");
}

/// Returns the project with the stand-in's repository as a plain remote: at its path, or with a token.
fn plain(fixture: &Fixture, is_path: bool) -> journeyman_core::project::Project {
    let mut project = fixture.project.clone();
    project.settings.code_host.kind = Some(journeyman_core::project::CodeHostKind::Plain);
    if is_path {
        project.repository = fixture.server.git_dir(PATH).to_str().unwrap().to_owned();
    }
    project
}

fn tokens() -> journeyman_core::project::SecretChanges {
    let token = Some(SecretValue(State::TOKEN.to_owned()));
    [(journeyman_core::project::CODE_HOST_TOKEN.to_owned(), token)].into()
}

#[tokio::test]
async fn a_plain_remote_is_tested_for_pushes_and_nothing_is_pushed() {
    for is_path in [true, false] {
        let fixture = Fixture::new(Product::Gitea).await;
        let findings = fixture.hosts.check(&plain(&fixture, is_path), &tokens()).await.unwrap();
        assert_eq!(of(&findings, "push").health, Health::Ok, "{findings:?}");
        let mut list = std::process::Command::new("git");
        list.arg("-C").arg(fixture.server.git_dir(PATH)).args(["branch", "--list"]);
        let branches = list.output().unwrap().stdout;
        assert_eq!(String::from_utf8(branches).unwrap().trim(), "* main");
    }
}

#[tokio::test]
async fn a_plain_remote_that_receives_no_push_says_so() {
    for is_archived in [true, false] {
        let fixture = Fixture::new(Product::Gitea).await;
        match is_archived {
            true => fixture.server.state().by_path(PATH).unwrap().is_archived = true,
            false => fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().can_write = false,
        }
        let findings = fixture.hosts.check(&plain(&fixture, false), &tokens()).await.unwrap();
        let push = of(&findings, "push");
        assert!(push.health == Health::Failure && push.text.contains("may write"), "{push:?}");
    }
}

#[tokio::test]
async fn a_shallow_clone_is_refused() {
    for is_path in [true, false] {
        let fixture = Fixture::new(Product::Gitea).await;
        let repository = fixture.server.git_dir(PATH);
        fixture.server.commit(PATH, "main", "a", "a").await;
        let head = std::process::Command::new("git").arg("-C").arg(&repository).args(["rev-parse", "main"]).output();
        std::fs::write(repository.join("shallow"), head.unwrap().stdout).unwrap();
        let refused = fixture.hosts.check(&plain(&fixture, is_path), &tokens()).await.unwrap_err();
        assert_eq!(refused.code, ReasonCode::RepositoryUnsupported, "{refused:?}");
        assert!(refused.text.contains("--unshallow"), "{refused:?}");
    }
}

#[tokio::test]
async fn the_object_format_of_a_repository_is_a_finding() {
    for is_path in [true, false] {
        let fixture = Fixture::new(Product::Gitea).await;
        let repository = fixture.server.git_dir(PATH);
        std::fs::remove_dir_all(&repository).unwrap();
        let script = "git init -q --bare --object-format=sha256 -b main $1; export GIT_DIR=$1; t=$(git write-tree); \
                      git update-ref refs/heads/main $(git -c user.name=A -c user.email=a@b commit-tree -m x $t)";
        let run = std::process::Command::new("sh").args(["-ec", script, "sh"]).arg(&repository).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let findings = fixture.hosts.check(&plain(&fixture, is_path), &tokens()).await.unwrap();
        let branches = of(&findings, "branches");
        assert!(branches.health == Health::Failure && branches.text.contains("SHA-256"), "{findings:?}");
    }
}

#[tokio::test]
async fn a_damaged_repository_is_refused_on_every_host_and_as_a_plain_remote() {
    for product in PRODUCTS {
        let fixture = Fixture::new(product).await;
        let repository = fixture.server.git_dir(PATH);
        let ask =
            std::process::Command::new("git").arg("-C").arg(&repository).args(["rev-parse", "main^{tree}"]).output();
        let tree = String::from_utf8(ask.unwrap().stdout).unwrap();
        std::fs::remove_file(repository.join("objects").join(&tree[..2]).join(tree[2..].trim())).unwrap();
        for project in [fixture.project.clone(), plain(&fixture, true)] {
            let refused = fixture.hosts.check(&project, &[].into()).await.unwrap_err();
            assert_eq!(refused.code, ReasonCode::RepositoryUnsupported, "{product:?}: {refused:?}");
            assert!(refused.text.contains("is damaged"), "{refused:?}");
            assert!(!refused.text.contains(repository.to_str().unwrap()), "{refused:?}");
        }
    }
}

#[tokio::test]
async fn an_empty_repository_is_a_warning() {
    let fixture = Fixture::new(Product::Gitea).await;
    let repository = fixture.server.git_dir(PATH);
    std::process::Command::new("git")
        .arg("-C")
        .arg(&repository)
        .args(["update-ref", "-d", "refs/heads/main"])
        .output()
        .unwrap();
    for project in [fixture.project.clone(), plain(&fixture, true)] {
        let findings = fixture.hosts.check(&project, &[].into()).await.unwrap();
        let branches = of(&findings, "branches");
        assert!(branches.health == Health::Warning && branches.text.contains("no commit"), "{findings:?}");
    }
}

/// Sets the end of the token of the service.
fn ends(fixture: &Fixture, at: &str) {
    fixture.server.state().tokens.get_mut(State::TOKEN).unwrap().expires_at = Some(at.to_owned());
}

#[tokio::test]
async fn the_end_of_a_token_is_a_finding_where_the_host_tells_it() {
    for (product, soon, late) in [
        (Product::Github, "2030-01-10 08:15:54 UTC", "2030-06-01 00:00:00 -0700"),
        (Product::Gitlab, "2030-01-10", "2030-06-01"),
    ] {
        let fixture = Fixture::new(product).await;
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        fixture.world.advance(now.since(fixture.world.now()));
        for (at, health, text) in [
            (soon, Health::Warning, "within 9 days"),
            (late, Health::Ok, "the token expires"),
            ("2029-12-31", Health::Failure, "which expired"),
        ] {
            // The stand-in accepts the token, so that its clock need not be set.
            let at =
                if product == Product::Github && at.len() == 10 { format!("{at} 00:00:00 UTC") } else { at.to_owned() };
            ends(&fixture, &at);
            let of_host = fixture.hosts.check_host(&"host".parse().unwrap()).await.unwrap().unwrap();
            let of_project = fixture.hosts.check(&fixture.project, &[].into()).await.unwrap();
            for findings in [of_host, of_project] {
                let expiry = of(&findings, "expiry");
                assert!(expiry.health == health && expiry.text.contains(text), "{product:?}: {findings:?}");
                assert!(expiry.at.is_some_and(|found| found.to_string()[..10] == at[..10]), "{product:?}: {expiry:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_version_of_gitlab_that_does_not_tell_the_end_of_a_token_passes() {
    let fixture = Fixture::new(Product::Gitlab).await;
    ends(&fixture, "2000-01-01");
    fixture.server.fault(Fault::MovedTo("http://lab.internal"), Method::GET, "/personal_access_tokens/self", 1);
    let findings = fixture.hosts.check_host(&"host".parse().unwrap()).await.unwrap().unwrap();
    assert!(findings.iter().all(|finding| finding.health == Health::Ok), "{findings:?}");
}

#[tokio::test]
async fn an_installation_without_permissions_and_a_suspended_one_are_findings() {
    let fixture = super::app::fixture().await;
    fixture.server.repository("globex/site").await;
    fixture.server.state().app.as_mut().unwrap().only_read = vec!["contents", "issues"];
    let findings = fixture.hosts.check_host(&"host".parse().unwrap()).await.unwrap().unwrap();
    for owner in ["acme", "globex"] {
        let is_it = |finding: &&Finding| finding.check == "permissions" && finding.text.starts_with(owner);
        let lacking = findings.iter().find(is_it).unwrap_or_else(|| panic!("{owner}: {findings:?}"));
        assert_eq!(lacking.health, Health::Failure);
        assert!(lacking.text.contains("contents: write, issues: write"), "{lacking:?}");
        assert!(lacking.text.contains("/github-apps/acme-journeyman/installations/new"), "{lacking:?}");
    }
    {
        let mut state = fixture.server.state();
        let app = state.app.as_mut().unwrap();
        (app.only_read, app.suspended) = (Vec::new(), vec!["globex".to_owned()]);
    }
    let findings = fixture.hosts.check_host(&"host".parse().unwrap()).await.unwrap().unwrap();
    assert!(findings.iter().all(|finding| finding.check != "permissions"), "{findings:?}");
    let suspended = findings.iter().find(|finding| finding.health == Health::Warning).unwrap();
    assert!(suspended.text.contains("suspended by globex"), "{findings:?}");
}

#[tokio::test]
async fn a_rename_behind_a_proxy_is_followed_at_the_configured_address() {
    for product in [Product::Github, Product::Gitea, Product::Forgejo] {
        let mut fixture = Fixture::new(product).await;
        let id = fixture.seen().await;
        {
            let mut state = fixture.server.state();
            // No server listens there.
            "http://host.internal:3000".clone_into(&mut state.named);
            state.rename(PATH, "acme/store");
        }
        let fixture = fixture.reconnected();
        let forge = fixture.forge().await;
        let repository = forge.repository().await.unwrap();
        assert_eq!((repository.id, repository.path.as_str()), (id, "acme/store"), "{product:?}");
        // A change is repeated at the new path too.
        let head = fixture.server.commit("acme/store", "work", "a.txt", "a").await;
        fixture.ensure("work", &head.parse().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn a_host_that_has_moved_is_told_and_gets_no_credential() {
    for product in PRODUCTS {
        let other = CodeHostServer::start(product).await;
        let origin: &'static str = Box::leak(other.url.clone().into_boxed_str());
        let fixture = Fixture::new(product).await;
        fixture.server.fault(Fault::MovedTo(origin), Method::GET, "/", 100);
        let findings = fixture.hosts.check_host(&"host".parse().unwrap()).await.unwrap().unwrap();
        let told = of(&findings, "credential");
        assert_eq!(told.health, Health::Failure, "{product:?}: {findings:?}");
        assert!(told.text.contains(origin) && told.text.contains("change its URL here"), "{product:?}: {told:?}");
        let error = fixture.forge().await.repository().await.unwrap_err();
        assert!(!error.may_pass() && error.to_string().contains(origin), "{product:?}: {error}");
        assert!(other.requests().is_empty(), "{product:?}");
    }
}
