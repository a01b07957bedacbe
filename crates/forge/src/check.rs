//! Tests of code hosts, and of the repositories of projects. A person waits for the result.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use journeyman_core::branch::{blocked, blocking_branch, unsupported};
use journeyman_core::code_host::manifest::install_page;
use journeyman_core::code_host::{CodeHost, HostKind, HostSecrets};
use journeyman_core::finding::Finding;
use journeyman_core::ports::{Forge, ForgeError, HostRepository, HostUser, Remote};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Clock;
use journeyman_git::{Failure, Git, GitError};

use crate::find::{client_of, connect};
use crate::hosted::{Account, AppAccount};

/// The time limit of a request to git, and of the test of a code host.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A branch that no job has, to test whether pull requests can be listed.
const NO_BRANCH: &str = "journeyman-check";

/// Returns the page of the documentation that lists the permissions of a credential.
pub(crate) const fn page_of(kind: HostKind) -> &'static str {
    match kind {
        HostKind::Github => "docs/code-hosts/github.md",
        HostKind::Gitlab => "docs/code-hosts/gitlab.md",
        HostKind::Gitea | HostKind::Forgejo => "docs/code-hosts/gitea.md",
        HostKind::Bitbucket | HostKind::BitbucketDataCenter => "docs/code-hosts/bitbucket.md",
    }
}

/// Tests whether git can read the repository, and, on a code host, whether the service may push, list pull requests, and
/// read its own user. `page` is the page of the documentation about the code host.
pub(crate) async fn repository(git: &Git, forge: &dyn Forge, page: &str) -> Result<Vec<Finding>, Reason> {
    forge.forget();
    let remote = forge.remote().await.map_err(reason)?;
    let branches = read(git, &remote).await?;
    let described = match forge.repository().await {
        Err(ForgeError::NoPulls(reason)) => {
            let text = "git can read it; whether jobs may push shows with the first job";
            let mut findings = vec![Finding::ok("repository", text)];
            findings.extend(about_branches(&branches));
            findings.push(Finding::warning("pull requests", no_pulls(&reason)));
            return Ok(findings);
        }
        described => described.map_err(reason)?,
    };
    let mut findings = vec![Finding::ok("repository", format!("{} can be read", described.path))];
    findings.extend(about_branches(&branches));
    findings.push(push(&described)?);
    findings.push(pulls(forge, page).await);
    findings.extend(match forge.discussion() {
        Some(discussion) => Some(account(discussion.me().await)),
        None => None,
    });
    Ok(findings)
}

fn push(described: &HostRepository) -> Result<Finding, Reason> {
    if described.is_archived {
        let text = format!("the repository {} is archived, so it is read-only; unarchive it", described.path);
        return Err(Reason::new(ReasonCode::RepositoryArchived, text));
    }
    match described.can_push {
        Some(true) => Ok(Finding::ok("push", "the credential may push")),
        Some(false) => {
            let text = format!("the credential may read {} but not push to it; give it write access", described.path);
            Err(Reason::new(ReasonCode::PermissionMissing, text))
        }
        None => Ok(Finding::ok("push", "the code host does not say whether the credential may push")),
    }
}

/// Explains that no pull requests will be opened. The reason is worded for a branch that was pushed.
fn no_pulls(reason: &Reason) -> String {
    let text = reason.text.strip_prefix("the branch was pushed, but ").unwrap_or(&reason.text);
    format!("jobs push branches and open no pull requests: {text}")
}

async fn pulls(forge: &dyn Forge, page: &str) -> Finding {
    let check = "pull requests";
    match forge.find_pulls(NO_BRANCH).await {
        Ok(_) => Finding::ok(check, "the credential may read them; the first job shows whether it may open them"),
        Err(error) if error.may_pass() => Finding::warning(check, error.to_string()),
        Err(error) => {
            let text = "jobs cannot open pull requests; permit them in the repository, and give the credential the \
                        permissions that";
            Finding::failure(check, format!("{text} {page} lists: {error}"))
        }
    }
}

fn account(me: Result<HostUser, ForgeError>) -> Finding {
    let check = "account";
    match me {
        Ok(user) => Finding::ok(check, format!("jobs act as @{}, which people can mention", user.name)),
        Err(error) => {
            let text = "the service cannot read its own user, so comments of people do not become messages";
            Finding::warning(check, format!("{text}: {error}"))
        }
    }
}

/// Tests whether a code host answers, and accepts the credential.
pub async fn check_code_host(host: &CodeHost, secrets: &HostSecrets, clock: Arc<dyn Clock>) -> Vec<Finding> {
    let test = async {
        match &host.access {
            Some(access) => match connect(host, access, secrets, clock) {
                Ok(api) => judged(host, api.account().await),
                Err(error) => vec![Finding::failure("credential", error.to_string())],
            },
            None => vec![answers(host, clock).await, no_credential()],
        }
    };
    let slow = || vec![unreachable(host, &format!("no answer within {} s", TIMEOUT.as_secs()))];
    tokio::time::timeout(TIMEOUT, test).await.unwrap_or_else(|_| slow())
}

fn no_credential() -> Finding {
    Finding::warning("credential", "there is none, so each project needs its own token; set a token or an app")
}

async fn answers(host: &CodeHost, clock: Arc<dyn Clock>) -> Finding {
    match client_of(host, clock).call(None, Method::GET, "/", None).await {
        Ok(_) | Err(ForgeError::RateLimited(_)) => reachable(host),
        Err(error) => unreachable(host, &error.to_string()),
    }
}

fn reachable(host: &CodeHost) -> Finding {
    Finding::ok("address", format!("{} answers", host.api()))
}

fn unreachable(host: &CodeHost, cause: &str) -> Finding {
    let text = "cannot be used; check the URL, and that this machine can connect to it";
    Finding::failure("address", format!("{} {text}: {cause}", host.api()))
}

fn judged(host: &CodeHost, account: Result<Account, ForgeError>) -> Vec<Finding> {
    let check = "credential";
    let credential = match account {
        Err(error @ ForgeError::Unclear(_)) => return vec![unreachable(host, &error.to_string())],
        Err(ForgeError::NotFound(text)) => {
            let product = host.kind.product();
            let cause = format!("there is no interface of {product} at this address, or the app was deleted: {text}");
            return vec![unreachable(host, &cause)];
        }
        Ok(Account::User(user)) => vec![Finding::ok(check, format!("valid; the service acts as @{}", user.name))],
        Ok(Account::Unnamed) => {
            let text = "access tokens have no user, so only the test of a project shows whether this one is valid";
            vec![Finding::warning(check, text)]
        }
        Ok(Account::App(app)) => app_findings(host, &app),
        Err(error @ ForgeError::RateLimited(_)) => vec![Finding::warning(check, error.to_string())],
        Err(error) => {
            let remedy = "replace the token, or the private key of the app";
            vec![Finding::failure(check, format!("{error}; {remedy}"))]
        }
    };
    [reachable(host)].into_iter().chain(credential).collect()
}

fn app_findings(host: &CodeHost, app: &AppAccount) -> Vec<Finding> {
    let AppAccount { slug, missing, installed_by, suspended_by } = app;
    let mut findings = vec![Finding::ok("credential", format!("valid; the service acts as the app {slug}"))];
    if !missing.is_empty() {
        let text = format!(
            "the app lacks the permissions {}; add them in its settings on GitHub, and accept them in each installation",
            missing.join(", ")
        );
        findings.push(Finding::failure("permissions", text));
    }
    let page = install_page(&host.url, slug);
    findings.push(match installed_by.as_slice() {
        [] => {
            let text = format!("the app is installed nowhere, so it has access to no repository; install it: {page}");
            Finding::warning("installations", text)
        }
        owners => Finding::ok("installations", format!("installed by {}", owners.join(", "))),
    });
    if !suspended_by.is_empty() {
        let text = format!("suspended by {}, who can resume it: {page}", suspended_by.join(", "));
        findings.push(Finding::warning("installations", text));
    }
    findings
}

/// Converts an error of the code host.
pub(crate) fn reason(error: ForgeError) -> Reason {
    let text = error.to_string();
    let code = match error {
        ForgeError::NoPulls(reason) => return reason,
        ForgeError::Credential(_) => ReasonCode::CredentialRefused,
        ForgeError::NotFound(_) | ForgeError::Refused(_) => ReasonCode::RepositoryNotFound,
        ForgeError::Denied(_) => ReasonCode::PermissionMissing,
        ForgeError::RateLimited(_) => ReasonCode::CodeHostRateLimited,
        ForgeError::Unclear(_) => ReasonCode::RepositoryUnreachable,
    };
    Reason::new(code, text)
}

/// Says what about the branches keeps jobs from working, if anything. `listing` is the output of `git ls-remote`.
fn about_branches(listing: &[u8]) -> Option<Finding> {
    let check = "branches";
    let listing = String::from_utf8_lossy(listing);
    let lines: Vec<(&str, &str)> = listing.lines().filter_map(|line| line.split_once('\t')).collect();
    if lines.is_empty() {
        return Some(Finding::warning(check, "there is no commit; jobs need one, and a README will do"));
    }
    if let Some(text) = lines.iter().find_map(|(hash, _)| unsupported(hash)) {
        return Some(Finding::failure(check, text));
    }
    let names = lines.iter().filter_map(|(_, name)| name.strip_prefix("refs/heads/"));
    let name = "journeyman/…";
    blocking_branch(names, name).map(|other| Finding::failure(check, blocked(name, other)))
}

/// Reads the branches of a remote, and returns their listing.
async fn read(git: &Git, remote: &Remote) -> Result<Vec<u8>, Reason> {
    let error = match ask(git, remote).await {
        Ok(listing) => return Ok(listing),
        Err(error) => error,
    };
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

async fn ask(git: &Git, remote: &Remote) -> Result<Vec<u8>, GitError> {
    let route = git.route(remote).await?;
    let arguments = ["ls-remote", "--heads"].map(str::to_owned).into_iter().chain(route.reading());
    let ask = git.command(arguments.chain(["--", route.address()].map(str::to_owned))).timeout(TIMEOUT);
    Ok(ask.credential_of(remote).run().await?.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_that_keep_jobs_from_working_are_named() {
        let (short, long) = ("a".repeat(40), "a".repeat(64));
        let text = |listing: String| about_branches(listing.as_bytes()).map(|finding| finding.text).unwrap_or_default();
        assert!(text(String::new()).contains("no commit"));
        assert!(text(format!("{long}\trefs/heads/main\n")).contains("SHA-256"));
        let blocking = text(format!("{short}\trefs/heads/main\n{short}\trefs/heads/journeyman\n"));
        assert!(blocking.contains("rename \"journeyman\""), "{blocking}");
        assert_eq!(text(format!("{short}\trefs/heads/main\n{short}\trefs/heads/journeyman/a-1\n")), "");
    }
}
