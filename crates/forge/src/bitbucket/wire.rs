//! The answers of Bitbucket Cloud, as far as the service needs them.

use http::HeaderMap;
use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::PullState;
use journeyman_core::conversation::{Permission, ThreadComment};
use journeyman_core::hook::HostUser;
use journeyman_core::ids::Sha;
use journeyman_core::pull::HostPull;
use serde::Deserialize;
use serde_json::Value;

use super::position::Parent;
use crate::hosted::Written;
use crate::http::Answer;
use crate::json::{Id, or_default};

/// The beginning of our markers, which are HTML comments.
pub(super) const MARKER: &str = "<!-- journeyman:";

/// The end of an HTML comment.
const END: &str = "-->";

/// What is written before a marker to hide it, and what after it. Bitbucket shows HTML comments, but not the definition
/// of a link that nothing refers to. The marker is the title of the link.
const HIDING: (&str, &str) = ("[//]: # (", ")");

/// Returns a text whose markers are hidden.
pub(super) fn hidden(text: &str) -> String {
    let is_marker = |line: &str| {
        let inner = line.strip_prefix(MARKER).and_then(|rest| rest.strip_suffix(END));
        inner.is_some_and(|inner| !inner.contains(['(', ')', '>']))
    };
    let mut lines = Vec::new();
    for (number, line) in text.split('\n').enumerate() {
        let bare = line.trim_end_matches('\r');
        if !is_marker(bare) {
            lines.push(line.to_owned());
            continue;
        }
        // The definition of a link cannot follow a line of a paragraph.
        if number > 0 {
            lines.push(String::new());
        }
        lines.push(format!("{}{bare}{}{}", HIDING.0, HIDING.1, &line[bare.len()..]));
    }
    lines.join("\n")
}

/// Returns a text as it was before its markers were hidden.
pub(super) fn shown(text: &str) -> String {
    let (before, after) = (format!("{}{MARKER}", HIDING.0), format!("{END}{}", HIDING.1));
    let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(from) = rest.find(&before) {
        let Some(to) = rest[from..].find(&after).map(|length| from + length) else { break };
        shown.push_str(&rest[..from]);
        // Removes the empty line that was added before the marker.
        let added = [("\r\n\r\n", 2), ("\n\n", 1)].into_iter().find(|(lines, _)| shown.ends_with(lines));
        shown.truncate(shown.len() - added.map_or(0, |(_, length)| length));
        shown.push_str(&rest[from + HIDING.0.len()..to + END.len()]);
        rest = &rest[to + after.len()..];
    }
    shown + rest
}

/// A page of a list.
#[derive(Debug, Deserialize)]
pub(super) struct Page<T> {
    #[serde(default = "Vec::new")]
    pub(super) values: Vec<T>,
    /// The address of the next page.
    #[serde(default)]
    pub(super) next: Option<String>,
}

/// A user. There are no numeric IDs, and hardly any answer has the user name.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    /// The UUID, in braces.
    #[serde(deserialize_with = "or_default")]
    pub(super) uuid: String,
    nickname: Option<String>,
    display_name: Option<String>,
    username: Option<String>,
    account_id: Option<String>,
    /// `user`, or `app_user` for an access token.
    #[serde(rename = "type", deserialize_with = "or_default")]
    kind: String,
}

impl User {
    /// Returns a user of whom only the UUID, in braces, is known.
    pub(super) fn of_uuid(uuid: &str) -> Self {
        Self { uuid: uuid.to_owned(), ..Self::default() }
    }

    /// Returns the ID: the UUID without braces.
    pub(super) fn id(&self) -> &str {
        without_braces(&self.uuid)
    }

    /// Returns the names in mentions. The pages write the account ID in braces, and people may type another name.
    pub(super) fn aliases(&self) -> Vec<String> {
        let typed = [&self.nickname, &self.display_name, &self.username].into_iter().flatten().cloned();
        let written = [&self.account_id, &self.nickname].into_iter().flatten().map(|name| format!("{{{name}}}"));
        let mut aliases: Vec<String> = typed.chain(written).chain([format!("{{{}}}", self.id())]).collect();
        aliases.retain(|alias| !alias.trim_matches(['{', '}']).is_empty());
        aliases.sort_unstable();
        aliases.dedup();
        aliases
    }

    /// Returns whether the user is an access token or an app.
    pub(super) fn is_app(&self) -> bool {
        self.kind.starts_with("app")
    }

    /// Returns whether this is the name, or the account ID, of the user.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let names = [&self.nickname, &self.display_name, &self.username, &self.account_id];
        names.into_iter().flatten().any(|known| known == name)
    }

    /// Returns whether a fault of a list of reviewers, such as `Ada is not a member of …`, is about the user.
    pub(super) fn is_meant_by(&self, fault: &str) -> bool {
        let names = [&self.display_name, &self.nickname].into_iter().flatten().filter(|name| !name.is_empty());
        names.into_iter().any(|name| fault.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(" is ")))
    }
}

impl From<User> for HostUser {
    fn from(user: User) -> Self {
        let id = user.id().to_owned();
        let is_bot = !matches!(user.kind.as_str(), "" | "user");
        let name = user.nickname.or(user.username).or(user.display_name).unwrap_or_default();
        Self { id, name, is_bot }
    }
}

/// Returns a UUID without the braces.
pub(super) fn without_braces(uuid: &str) -> &str {
    uuid.trim_start_matches('{').trim_end_matches('}')
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Links {
    #[serde(deserialize_with = "or_default")]
    html: Link,
}

impl Links {
    /// Returns the page.
    pub(super) fn html(self) -> String {
        self.html.href
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Link {
    #[serde(deserialize_with = "or_default")]
    href: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub(super) uuid: String,
    pub(super) full_name: String,
    /// `null` if the repository is empty.
    #[serde(default)]
    pub(super) mainbranch: Option<Named>,
}

/// Returns whether the scopes of a token include pushing, as far as the header of an answer says so. The names depend
/// on the kind of the token.
pub(super) fn can_push(headers: &HeaderMap) -> Option<bool> {
    let scopes = headers.get("x-oauth-scopes")?.to_str().ok()?;
    let scopes: Vec<&str> = scopes.split([',', ' ']).filter(|scope| !scope.is_empty()).collect();
    // The scope to write pull requests includes that to push, except for an API token.
    let pushes =
        |scope: &&str| matches!(*scope, "repository:write" | "pullrequest:write" | "write:repository:bitbucket");
    if scopes.iter().any(pushes) {
        return Some(true);
    }
    // The scope to administer a repository does not include pushing.
    (!scopes.is_empty()).then_some(false)
}

/// The permission of a user on a repository.
#[derive(Debug, Deserialize)]
pub(super) struct Granted {
    #[serde(default, deserialize_with = "or_default")]
    permission: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
    #[serde(default)]
    pub(super) repository: Option<RepositoryRef>,
}

impl Granted {
    /// Converts the permission.
    pub(super) fn permission(&self) -> Permission {
        match self.permission.as_str() {
            "admin" => Permission::Admin,
            "write" => Permission::Write,
            "read" => Permission::Read,
            _ => Permission::None,
        }
    }
}

/// A member of a workspace, or a user of a repository.
#[derive(Debug, Deserialize)]
pub(super) struct Member {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) user: User,
}

/// The repository of a branch or of a permission.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct RepositoryRef {
    #[serde(deserialize_with = "or_default")]
    pub(super) uuid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Commit {
    #[serde(deserialize_with = "or_default")]
    pub(super) hash: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct PullRequest {
    pub(super) id: u64,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) title: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) description: String,
    state: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) draft: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) close_source_branch: bool,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) author: User,
    pub(super) source: End,
    destination: End,
    /// Lists of pull requests lack the reviewers.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) reviewers: Vec<User>,
    #[serde(default, deserialize_with = "or_default")]
    links: Links,
}

/// The source or the destination of a pull request.
#[derive(Debug, Deserialize)]
pub(super) struct End {
    #[serde(default, deserialize_with = "or_default")]
    branch: Named,
    /// Has the first 12 characters of the hash.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) commit: Commit,
    /// `null` if the fork was deleted.
    #[serde(default)]
    repository: Option<RepositoryRef>,
}

impl PullRequest {
    /// Returns whether the pull request is open.
    pub(super) fn is_open(&self) -> bool {
        self.state == "OPEN"
    }

    /// Returns whether the branch is in another repository.
    pub(super) fn is_from_fork(&self) -> bool {
        self.source.repository != self.destination.repository
    }

    /// Returns whether the pull request is from the branch `head` of the repository to the branch `base`.
    pub(super) fn is_between(&self, head: &str, base: &str) -> bool {
        self.source.branch.name == head && self.destination.branch.name == base && !self.is_from_fork()
    }

    /// Converts the pull request. `head_sha` is the full hash of its newest commit.
    pub(super) fn into_pull(self, head_sha: Option<Sha>) -> HostPull {
        let state = match self.state.as_str() {
            "OPEN" => PullState::Open,
            "MERGED" => PullState::Merged,
            // DECLINED or SUPERSEDED.
            _ => PullState::Closed,
        };
        HostPull {
            number: self.id,
            is_from_fork: self.is_from_fork(),
            url: self.links.html.href,
            state,
            draft: self.draft,
            title: self.title,
            body: shown(&self.description),
            head: self.source.branch.name,
            head_sha,
            base: self.destination.branch.name,
        }
    }
}

/// Returns the faults of the reviewers in a refused change, each of which names a user.
pub(super) fn reviewer_faults(answer: &Answer) -> Vec<String> {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let faults = body.pointer("/error/fields/reviewers").and_then(Value::as_array).cloned().unwrap_or_default();
    faults.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    #[serde(default)]
    pub(super) id: Id,
    #[serde(default, deserialize_with = "or_default")]
    content: Content,
    #[serde(default, deserialize_with = "or_default")]
    user: User,
    /// Deleted comments stay in the list.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) deleted: bool,
    /// `true` for a draft.
    #[serde(default, deserialize_with = "or_default")]
    pub(super) pending: bool,
    /// The comment that this one answers.
    #[serde(default)]
    pub(super) parent: Option<Parent>,
    /// Present if the comment is the first of a resolved thread.
    #[serde(default)]
    pub(super) resolution: Value,
    #[serde(default, deserialize_with = "or_default")]
    links: Links,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Content {
    #[serde(deserialize_with = "or_default")]
    pub(super) raw: String,
}

impl Comment {
    /// Returns the page of the comment.
    pub(super) fn into_url(self) -> String {
        self.links.html.href
    }

    /// Converts the comment as part of a thread.
    pub(super) fn into_threaded(self) -> ThreadComment {
        ThreadComment {
            id: self.id.0,
            author: self.user.into(),
            body: shown(&self.content.raw),
            url: self.links.html(),
            is_edited: false,
        }
    }

    /// Converts the comment.
    pub(super) fn into_written(self) -> Written {
        let (id, author) = (self.id.0.clone(), self.user.id().to_owned());
        Written { id, author, body: shown(&self.content.raw), url: self.into_url() }
    }
}

/// A build status of a commit.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) key: String,
    #[serde(default)]
    name: Option<String>,
    state: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    pub(super) url: Option<String>,
}

impl Status {
    /// Returns the number of the pipeline if Bitbucket Pipelines set the status. Its page ends with
    /// `/results/<number>`.
    pub(super) fn pipeline(&self) -> Option<u64> {
        let (page, number) = self.url.as_deref()?.rsplit_once("/results/")?;
        let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
        page.contains("/pipelines").then(|| digits.parse().ok())?
    }

    /// Converts the status.
    pub(super) fn into_check(self) -> Check {
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        let state = match self.state.as_str() {
            "SUCCESSFUL" => CheckState::Passed,
            "INPROGRESS" => CheckState::Pending,
            "STOPPED" => CheckState::Skipped,
            _ => CheckState::Failed,
        };
        let name = some(self.name).unwrap_or(self.key);
        Check { url: some(self.url), summary: some(self.description), ..Check::new(name, state) }
    }
}

/// A run of Bitbucket Pipelines.
#[derive(Debug, Deserialize)]
pub(super) struct Pipeline {
    /// The UUID, in braces.
    pub(super) uuid: String,
    pub(super) build_number: u64,
    #[serde(default, deserialize_with = "or_default")]
    state: RunState,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) target: Value,
}

impl Pipeline {
    /// Returns whether the pipeline ran for a commit.
    pub(super) fn is_of(&self, sha: &Sha) -> bool {
        let hash = self.target.pointer("/commit/hash").and_then(Value::as_str);
        hash.is_none_or(|hash| !hash.is_empty() && sha.as_str().starts_with(hash))
    }

    /// Returns what the pipeline ran for, without the commit. A later pipeline for the same replaces it.
    pub(super) fn purpose(&self) -> [Option<&Value>; 5] {
        let parts = ["/type", "/ref_name", "/selector/type", "/selector/pattern", "/pullrequest/id"];
        parts.map(|part| self.target.pointer(part))
    }

    /// Returns whether the remaining steps wait for a person.
    fn is_paused(&self) -> bool {
        matches!(self.state.stage.name.as_str(), "PAUSED" | "HALTED")
    }
}

/// The state of a pipeline or of a step.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RunState {
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    result: Named,
    #[serde(deserialize_with = "or_default")]
    stage: Named,
}

/// A step of a pipeline.
#[derive(Debug, Deserialize)]
pub(super) struct Step {
    /// The UUID, in braces.
    uuid: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    state: RunState,
}

impl Step {
    /// Converts the step; `url` is the page of the pipeline.
    pub(super) fn into_check(self, pipeline: &Pipeline, url: Option<String>) -> Check {
        let state = match (self.state.name.as_str(), self.state.result.name.as_str()) {
            ("COMPLETED", "SUCCESSFUL") => CheckState::Passed,
            ("COMPLETED", "STOPPED" | "NOT_RUN") => CheckState::Skipped,
            ("COMPLETED", _) => CheckState::Failed,
            ("PENDING", _) if pipeline.is_paused() => CheckState::Skipped,
            _ => CheckState::Pending,
        };
        let has_log = matches!(self.state.name.as_str(), "COMPLETED" | "IN_PROGRESS");
        let log = format!("{}/{}", without_braces(&pipeline.uuid), without_braces(&self.uuid));
        let name = if self.name.is_empty() { format!("Pipeline #{}", pipeline.build_number) } else { self.name };
        let is_paused = self.state.name == "PENDING" && pipeline.is_paused();
        let summary = is_paused.then(|| "A person can start this step on the page of the pipeline.".to_owned());
        Check { url, summary, log: has_log.then_some(log), ..Check::new(name, state) }
    }
}
