//! Tests of code hosts, and of the repositories of projects. A person waits for the result.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use journeyman_core::branch::{DAMAGED, READ_ONLY, SHALLOW, blocked, blocking_branch, default_branch, unsupported};
use journeyman_core::code_host::expiry::Expiry;
use journeyman_core::code_host::manifest::install_page;
use journeyman_core::code_host::{CodeHost, HostKind, HostRepository, HostSecrets};
use journeyman_core::finding::Finding;
use journeyman_core::hook::HostUser;
use journeyman_core::ports::{Forge, ForgeError, Remote};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::{Clock, Timestamp};
use journeyman_git::{Failure, Git, GitError, Route, Service, pairs};
use journeyman_net::Outbound;

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
/// read its own user. `page` is the page of the documentation about the code host. Git works in `scratch`, an empty
/// folder.
pub(crate) async fn repository(
    git: &Git,
    forge: &dyn Forge,
    page: &str,
    scratch: &Path,
    now: Timestamp,
) -> Result<Vec<Finding>, Reason> {
    forge.forget();
    let remote = forge.remote().await.map_err(reason)?;
    let remote = Tested { git, remote: &remote, scratch };
    // Code hosts do not store shallow clones, and their old protocol lists all refs.
    let is_plain = forge.known_repository().is_none();
    let branches = remote.branches(is_plain).await?;
    let contents = remote.newest_commit(&branches).await?;
    let described = match forge.repository().await {
        Err(ForgeError::NoPulls(reason)) => {
            let mut findings = vec![Finding::ok("repository", "git can read it")];
            findings.extend(contents.into_iter().chain(about_branches(&branches)));
            findings.extend(remote.push(&branches).await);
            findings.push(Finding::warning("pull requests", no_pulls(&reason)));
            return Ok(findings);
        }
        described => described.map_err(reason)?,
    };
    let mut findings = vec![Finding::ok("repository", format!("{} can be read", described.path))];
    findings.extend(forge.credential_expiry().await.unwrap_or(Expiry::Unknown).finding(now));
    findings.extend(contents.into_iter().chain(about_branches(&branches)));
    findings.push(push(&described)?);
    findings.push(pulls(forge, page).await);
    findings.extend(match forge.discussion() {
        Some(discussion) => Some(account(discussion.me().await)),
        None => None,
    });
    Ok(findings)
}

fn push(described: &HostRepository) -> Result<Finding, Reason> {
    if let Some(reason) = described.read_only() {
        return Err(reason);
    }
    Ok(Finding::ok(
        "push",
        match described.can_push {
            Some(_) => "the credential may push",
            None => "the code host does not say whether the credential may push",
        },
    ))
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
pub async fn check_code_host(
    host: &CodeHost,
    secrets: &HostSecrets,
    outbound: &Outbound,
    clock: Arc<dyn Clock>,
) -> Vec<Finding> {
    let now = clock.now();
    let test = async {
        match &host.access {
            Some(access) => match connect(host, access, secrets, outbound, clock) {
                Ok(api) => {
                    let account = api.account().await;
                    // What the account shows is true also if the end cannot be read.
                    let expiry = if account.is_ok() { api.expiry().await.ok() } else { None };
                    let mut findings = judged(host, account);
                    findings.extend(expiry.and_then(|expiry| expiry.finding(now)));
                    findings
                }
                Err(error) => vec![Finding::failure("credential", error.to_string())],
            },
            None => vec![answers(host, outbound, clock).await, no_credential()],
        }
    };
    let slow = || vec![unreachable(host, &format!("no answer within {} s", TIMEOUT.as_secs()))];
    tokio::time::timeout(TIMEOUT, test).await.unwrap_or_else(|_| slow())
}

fn no_credential() -> Finding {
    Finding::warning("credential", "there is none, so each project needs its own token; set a token or an app")
}

async fn answers(host: &CodeHost, outbound: &Outbound, clock: Arc<dyn Clock>) -> Finding {
    match client_of(host, outbound, clock).call(None, Method::GET, "/", None).await {
        // A redirect to a page of its documentation is an answer too.
        Ok(_) | Err(ForgeError::RateLimited(_) | ForgeError::Refused(_)) => reachable(host),
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
    let AppAccount { slug, missing, installed_by, granted_less, suspended_by } = app;
    let mut findings = vec![Finding::ok("credential", format!("valid; the service acts as the app {slug}"))];
    if !missing.is_empty() {
        let text = format!(
            "the app lacks the permissions {}; add them in its settings on GitHub, and accept them in each installation",
            missing.join(", ")
        );
        findings.push(Finding::failure("permissions", text));
    }
    let page = install_page(&host.url, slug);
    if missing.is_empty() {
        findings.extend(granted_less.iter().map(|(owner, missing)| {
            let text = format!(
                "{owner} has not accepted the permissions {} of the app, so jobs cannot use its repositories; accept \
                 them in the settings of the installation, which {page} leads to",
                missing.join(", ")
            );
            Finding::failure("permissions", text)
        }));
    }
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

/// A remote that is tested, with an empty folder in which git works.
struct Tested<'a> {
    git: &'a Git,
    remote: &'a Remote,
    scratch: &'a Path,
}

/// The ref of the scratch folder that has the newest commit of the remote.
const PROBE: &str = "refs/journeyman/probe";

impl Tested<'_> {
    /// Reads the branches of the remote, and returns their listing. With `is_plain`, also tests whether the remote is a
    /// shallow clone, which only the first version of git's protocol says.
    async fn branches(&self, is_plain: bool) -> Result<Vec<u8>, Reason> {
        let packets = self.scratch.join("packets");
        let ask = |route: &Route| {
            let settings: &[&str] = if is_plain { &["-c", "protocol.version=0"] } else { &[] };
            let arguments = settings.iter().chain(&["ls-remote", "--heads"]).map(|argument| (*argument).to_owned());
            let address = ["--", route.address()].map(str::to_owned);
            let ask = self.git.command(arguments.chain(route.reading()).chain(address));
            let ask = if is_plain { ask.env("GIT_TRACE_PACKET", &packets) } else { ask };
            ask.timeout(TIMEOUT)
        };
        let asked = self.git.ask(self.remote, Service::Read, ask).await;
        let listing = asked.map_err(|error| unreadable(&error))?.stdout;
        let packets = tokio::fs::read(&packets).await.unwrap_or_default();
        let mut lines = packets.split(|byte| *byte == b'\n');
        match lines.any(|line| line.windows(SHALLOW_PACKET.len()).any(|part| part == SHALLOW_PACKET)) {
            true => Err(Reason::new(ReasonCode::RepositoryUnsupported, SHALLOW)),
            false => Ok(listing),
        }
    }

    /// Fetches the newest commit of a branch, without the content of its files if the server can leave it out. Returns
    /// what could not be tested.
    async fn newest_commit(&self, listing: &[u8]) -> Result<Option<Finding>, Reason> {
        let Some(branch) = probed(listing) else { return Ok(None) };
        let fetched = async {
            self.git.at(self.scratch, ["init", "--quiet", "--bare", "--template="]).run().await?;
            let refspec = OsString::from_vec([b"+".as_slice(), &branch, b":", PROBE.as_bytes()].concat());
            let fetch = |route: &Route| {
                let fetch =
                    ["fetch", "--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "--no-write-fetch-head"];
                let arguments = fetch.map(str::to_owned).into_iter().chain(route.reading());
                let arguments = arguments.chain(["--", route.address()].map(str::to_owned));
                self.git.at(self.scratch, arguments).argument(&refspec).timeout(TIMEOUT)
            };
            self.git.ask(self.remote, Service::Read, fetch).await
        };
        match fetched.await {
            Ok(_) => Ok(None),
            // Not in an empty folder.
            Err(error) if matches!(error.failure(), Failure::Damaged | Failure::RemoteDamaged | Failure::NotOurRef) => {
                let text = format!("{DAMAGED}: {}", error.without_paths());
                Err(Reason::new(ReasonCode::RepositoryUnsupported, text))
            }
            Err(GitError::TimedOut { .. }) => {
                let text = format!(
                    "the newest commit was not read within {} s; the first job shows whether the repository is complete",
                    TIMEOUT.as_secs()
                );
                Ok(Some(Finding::warning("contents", text)))
            }
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Tests whether the remote receives a push, without pushing.
    async fn push(&self, listing: &[u8]) -> Option<Finding> {
        let check = "push";
        if self.remote.is_ours || probed(listing).is_none() {
            return None;
        }
        let pushed = async {
            let route = self.git.route(self.remote).await?;
            if route.is_read_only() {
                return Ok(Some(Finding::failure(check, READ_ONLY)));
            }
            let push = |route: &Route| {
                let arguments = ["push", "--dry-run", "--quiet", "--no-verify"].map(str::to_owned).into_iter();
                let refspec = format!("{PROBE}:refs/heads/{NO_BRANCH}");
                let address = ["--", route.address(), &refspec].map(str::to_owned);
                self.git.at(self.scratch, arguments.chain(route.pushing()).chain(address)).timeout(TIMEOUT)
            };
            self.git.ask(self.remote, Service::Write, push).await.map(|_| None)
        };
        Some(match pushed.await {
            Ok(None) => Finding::ok(check, "the remote receives pushes"),
            Ok(Some(finding)) => finding,
            Err(error) => {
                let text = "jobs cannot push; give the project a credential that may write";
                Finding::failure(check, format!("{text}: {}", error.without_paths()))
            }
        })
    }
}

/// The beginning of a line about a commit without parents, as git logs what it gets from a server.
const SHALLOW_PACKET: &[u8] = b"< shallow ";

/// Returns the name of the ref whose newest commit is fetched for a test: that of the default branch, if it can be
/// guessed. Nothing is fetched from a repository that jobs cannot use ([`about_branches`]).
fn probed(listing: &[u8]) -> Option<Vec<u8>> {
    if pairs(listing, b'\t').any(|(hash, _)| unsupported(&String::from_utf8_lossy(hash)).is_some()) {
        return None;
    }
    let branches: Vec<&[u8]> =
        pairs(listing, b'\t').filter_map(|(_, name)| name.strip_prefix(b"refs/heads/")).collect();
    let branch = default_branch(&[], &branches).or(branches.first().copied())?;
    Some([b"refs/heads/".as_slice(), branch].concat())
}

/// Returns the reason for a remote that git cannot read.
fn unreadable(error: &GitError) -> Reason {
    let (code, text) = match error.failure() {
        Failure::NotFound => {
            (ReasonCode::RepositoryNotFound, "there is no repository at this address, or access to it is denied")
        }
        Failure::CredentialRefused => (
            ReasonCode::CredentialRefused,
            "the repository refused the credential or requires one; set a valid token and its user name",
        ),
        Failure::NotUsed => return Reason::new(ReasonCode::RepositoryUnreachable, error.to_string()),
        Failure::RemoteDamaged | Failure::Damaged => (ReasonCode::RepositoryUnsupported, DAMAGED),
        _ => (ReasonCode::RepositoryUnreachable, "the repository could not be read"),
    };
    Reason::new(code, format!("{text}: {error}"))
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
