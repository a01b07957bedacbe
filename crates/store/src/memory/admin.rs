//! Administrative changes: of projects, keys, users and pull requests.

use async_trait::async_trait;
use journeyman_core::admin::{
    AdminRow, AdminState, Exchange, LiveKeys, Once, Subject, deleted_code_host, deleted_job, deleted_project,
    deleted_slack_workspace, deleted_template, deleted_trust, deleted_webhook,
};
use journeyman_core::audit::AuditEntry;
use journeyman_core::code_host::PullState;
use journeyman_core::idempotency::{Claim, Remembered};
use journeyman_core::ids::{JobId, ProjectId, UserId};
use journeyman_core::job::effect::Effect;
use journeyman_core::key::ApiKey;
use journeyman_core::ports::{AdminError, AdminStore, Administered, DecideAdmin};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::{Comment, LocalPull};
use journeyman_core::secret::SecretValue;
use journeyman_core::slack::SlackWorkspace;
use journeyman_core::template::{Template, name_key};
use journeyman_core::time::Timestamp;
use journeyman_core::trust::Trust;
use journeyman_core::user::{Role, SessionsToEnd, User};
use journeyman_core::webhook::Webhook;

use super::{MemoryStore, RetiredSecret, Tables};
use crate::admin::{AdminTables, Answers, administer};
use crate::retired;

#[async_trait]
impl AdminStore for MemoryStore {
    async fn administer(
        &self,
        subject: Subject,
        once: Option<Once>,
        now: Timestamp,
        mut decide: DecideAdmin,
    ) -> Result<Administered, AdminError> {
        let mut tables = self.tables();
        tables.now = now;
        administer(&mut *tables, &Answers::Plain, &subject, once.as_ref(), now, &mut decide)
    }

    async fn answered(&self, claim: Claim, now: Timestamp) -> Result<Option<String>, AdminError> {
        let known = self.tables().remembered(&claim)?;
        Answers::Plain.replay(&claim, known, now)
    }
}

impl AdminTables for Tables {
    type Error = AdminError;

    fn remembered(&mut self, claim: &Claim) -> Result<Option<Remembered<String>>, AdminError> {
        Ok(self.answers.get(&(claim.scope().to_owned(), claim.stored_key())).cloned())
    }

    fn load(&mut self, subject: &Subject) -> Result<AdminState, AdminError> {
        let mut state = AdminState::default();
        match subject {
            Subject::Project(id) => state.project = self.projects.get(id).cloned(),
            Subject::ProjectWithJobs(id) => {
                state.project = self.projects.get(id).cloned();
                state.has_active_jobs = self.jobs.values().any(|job| job.project == *id && job.due_at().is_some());
            }
            Subject::Job(id, _) => state.job = self.jobs.get(id).cloned(),
            Subject::Webhook(id, project) => {
                state.project = self.projects.get(project).cloned();
                let own = |webhook: &&Webhook| webhook.project == *project;
                state.webhook = self.webhooks.get(id).map(|row| &row.webhook).filter(own).cloned();
                state.webhooks = self.webhooks.values().map(|row| &row.webhook).filter(own).count();
            }
            Subject::Template(id, project, name) => {
                state.project = self.projects.get(project).cloned();
                let own = |template: &&Template| template.project == *project;
                state.template = self.templates.get(id).filter(own).cloned();
                state.templates = self.templates.values().filter(own).count();
                let has_name = |other: &Template| other.id != *id && name_key(&other.settings.name) == name_key(name);
                state.name_is_taken = self.templates.values().filter(own).any(has_name);
            }
            Subject::Key(id) => state.key = self.keys.get(id).cloned(),
            Subject::User(id) => self.load_user(&mut state, *id),
            Subject::UserIdentity(id, identity) => {
                self.load_user(&mut state, *id);
                let has_identity = |user: &User| user.id != *id && user.identity.as_ref() == Some(identity);
                state.name_is_taken = self.users.values().any(has_identity);
            }
            Subject::NewUser(name, identity) => {
                let has_identity = |user: &User| identity.is_some() && user.identity == *identity;
                state.name_is_taken = self.users.values().any(|user| user.name == *name || has_identity(user));
            }
            Subject::Pull(repository, number) => {
                let key = (repository.clone(), *number);
                state.pull = self.pulls.get(&key).cloned();
                state.last_comment = self.last_comment(&key);
                let drafts = self.comments.iter().filter(|(of, known)| *of == key && known.comment.is_draft);
                state.drafts = drafts.map(|(_, draft)| draft.clone()).collect();
            }
            Subject::NewPull(repository, head) => {
                let own = || self.pulls.values().filter(|pull| pull.repository == *repository);
                let is_open = |pull: &&LocalPull| pull.head == *head && pull.state == PullState::Open;
                state.pull = own().find(is_open).cloned();
                state.last_pull = own().map(|pull| pull.number).max().unwrap_or(0);
            }
            Subject::PullLines(repository, number) => {
                let key = (repository.clone(), *number);
                state.pull = self.pulls.get(&key).cloned();
                let is_line = |known: &Comment| known.comment.line.is_some() && !known.comment.is_draft;
                let lines = self.comments.iter().filter(|(of, known)| *of == key && is_line(known));
                state.lines = lines.map(|(_, comment)| comment.clone()).collect();
                state.lines.sort_unstable_by_key(|comment| comment.place);
            }
            Subject::CodeHost(id, name) => {
                state.code_host = self.code_hosts.get(id).cloned();
                state.name_is_taken = self.code_hosts.values().any(|host| host.name() == *name && host.id != *id);
                let names = |project: &Project| project.settings.code_host.host.as_ref() == Some(id);
                state.code_host_is_used = self.projects.values().any(names);
            }
            Subject::Trust(id, name) => {
                state.trust = self.trusts.get(id).cloned();
                state.trusts = self.trusts.len();
                let is_other = |trust: &Trust| trust.settings.name == *name && trust.id != *id;
                state.name_is_taken = self.trusts.values().any(is_other);
                let creator = id.to_string();
                let own = |key: &&ApiKey| key.creator.as_deref() == Some(&creator) && key.revoked_at.is_none();
                state.keys = self.keys.values().filter(own).cloned().collect();
            }
            Subject::Exchange(Exchange { trust: id, key, name, at }) => {
                state.trust = self.trusts.get(id).cloned();
                state.key = self.keys.get(key).cloned();
                let creator = id.to_string();
                let is_live = |known: &&ApiKey| {
                    known.creator.as_deref() == Some(&creator) && known.id != *key && !known.has_ended(*at)
                };
                let live: Vec<&ApiKey> = self.keys.values().filter(is_live).collect();
                let of_subject = live.iter().filter(|known| known.name == *name).count();
                state.live_keys = LiveKeys { all: live.len(), of_subject };
                let owner = state.trust.as_ref().and_then(|trust| trust.owner);
                state.user = owner.and_then(|owner| self.users.get(&owner).cloned());
            }
            Subject::SlackWorkspace(id, team) => {
                state.slack = self.slack.workspaces.get(id).cloned();
                let has_team = |other: &SlackWorkspace| other.settings.team == *team && other.id != *id;
                state.name_is_taken = self.slack.workspaces.values().any(has_team);
            }
            Subject::SlackCode(id, hash) => {
                state.slack = self.slack.workspaces.get(id).cloned();
                state.slack_code = self.slack.code(*hash);
            }
            Subject::Link(hash, name) => {
                state.link = self.links.get(hash).cloned();
                match state.link.as_ref().and_then(|link| link.user) {
                    Some(id) => self.load_user(&mut state, id),
                    None => state.has_other_administrator = self.users.values().any(is_administrator),
                }
                state.name_is_taken = self.users.values().any(|user| user.name == *name);
            }
        }
        let name = subject.deleted_name().filter(|_| !state.has(subject));
        state.was_deleted = name.is_some_and(|name| self.deleted.contains_key(&name));
        Ok(state)
    }

    fn write(&mut self, row: &AdminRow) -> Result<(), AdminError> {
        match row.clone() {
            AdminRow::Project(project, secrets) => self.put_project(*project, secrets),
            AdminRow::ProjectDeleted { id, repository, at } => self.delete_project(&id, repository, at),
            AdminRow::JobDeleted { id, project, at } => {
                self.remove(&[id], at);
                self.deleted.insert(deleted_job(id, &project), at);
            }
            AdminRow::Webhook(webhook, secret) => self.put_webhook(*webhook, secret),
            AdminRow::WebhookRemoved { id, project, at } => {
                self.remove_webhooks(|webhook| webhook.id == id && webhook.project == project);
                self.deleted.insert(deleted_webhook(id, &project), at);
            }
            AdminRow::Template(template) => drop(self.templates.insert(template.id, *template)),
            AdminRow::TemplateRemoved { id, project, at } => {
                self.templates.remove(&id);
                self.deleted.insert(deleted_template(id, &project), at);
            }
            AdminRow::CodeHost(host, secrets) => self.put_code_host(*host, secrets),
            AdminRow::CodeHostRemoved { id, at } => {
                self.remove_code_host(&id);
                self.deleted.insert(deleted_code_host(&id), at);
            }
            AdminRow::Trust(trust) => self.put_trust(*trust),
            AdminRow::TrustUsed { id, at } => {
                if let Some(trust) = self.trusts.get_mut(&id) {
                    trust.last_used_at = trust.last_used_at.max(Some(at));
                }
            }
            AdminRow::TrustRemoved { id, at } => {
                self.trusts.remove(&id);
                self.deleted.insert(deleted_trust(id), at);
            }
            AdminRow::SlackWorkspace(workspace, secrets) => self.slack.put(*workspace, secrets),
            AdminRow::SlackWorkspaceRemoved { id, at } => {
                self.slack.remove(id);
                self.deleted.insert(deleted_slack_workspace(id), at);
            }
            AdminRow::SlackCode { hash, user, expires_at } => self.slack.put_code(hash, user, expires_at),
            AdminRow::SlackCodeRemoved(hash) => self.slack.remove_code(hash),
            AdminRow::Key(key) => self.put_key(key),
            AdminRow::User(user) => drop(self.users.insert(user.id, user)),
            AdminRow::Session(session) => drop(self.sessions.insert(session.hash, session)),
            AdminRow::SessionProven { hash, at } => {
                if let Some(session) = self.sessions.get_mut(&hash) {
                    session.proven_at = Some(at);
                }
            }
            AdminRow::SessionsEnded(which) => self.end_sessions(which),
            AdminRow::Link(link) => drop(self.links.insert(link.hash, link)),
            AdminRow::LinkDeleted(hash) => drop(self.links.remove(&hash)),
            AdminRow::LinksDeleted(user) => self.links.retain(|_, link| link.user != Some(user)),
            AdminRow::Pull(pull) | AdminRow::PullOpened(pull) => {
                drop(self.pulls.insert((pull.repository.clone(), pull.number), *pull))
            }
            AdminRow::Inbox(event) => drop(self.insert_event(*event)),
            AdminRow::Comment { repository, number, comment } => self.put_comment((repository, number), *comment),
            AdminRow::DraftRemoved { repository, number, place } => {
                let key = (repository, number);
                self.comments.retain(|(of, known)| *of != key || known.place != place || !known.comment.is_draft);
            }
        }
        Ok(())
    }

    fn note(&mut self, entry: &AuditEntry) -> Result<(), AdminError> {
        Self::note(self, entry.clone());
        Ok(())
    }

    fn remember(&mut self, claim: &Claim, answer: Remembered<String>) -> Result<(), AdminError> {
        self.answers.insert((claim.scope().to_owned(), claim.stored_key()), answer);
        Ok(())
    }
}

impl Tables {
    fn load_user(&self, state: &mut AdminState, id: UserId) {
        state.user = self.users.get(&id).cloned();
        state.has_other_administrator = self.users.values().any(|other| other.id != id && is_administrator(other));
        let own = |key: &&ApiKey| key.owner == Some(id) && key.revoked_at.is_none();
        state.keys = self.keys.values().filter(own).cloned().collect();
    }

    fn put_project(&mut self, mut project: Project, secrets: SecretChanges) {
        for (name, value) in secrets {
            self.retire(&project.id, &name, value.as_ref());
            match value {
                Some(value) => self.secrets.insert((project.id.clone(), name), value),
                None => self.secrets.remove(&(project.id.clone(), name)),
            };
        }
        let own = self.secrets.keys().filter(|(id, _)| *id == project.id);
        project.secret_names = own.map(|(_, name)| name.clone()).collect();
        self.projects.insert(project.id.clone(), project);
    }

    /// Keeps the value of a secret that is about to be changed or removed.
    fn retire(&mut self, project: &ProjectId, name: &str, next: Option<&SecretValue>) {
        let Some(value) = self.secrets.get(&(project.clone(), name.to_owned())) else { return };
        if next != Some(value) {
            let (value, at) = (value.clone(), self.now);
            self.retired.push(RetiredSecret { project: project.clone(), name: name.to_owned(), value, at });
        }
    }

    /// Removes the retired values that no job can have got.
    pub(super) fn remove_retired(&mut self, now: Timestamp) {
        let jobs: Vec<(ProjectId, Timestamp)> =
            self.jobs.values().map(|job| (job.project.clone(), job.created_at)).collect();
        self.retired.retain(|row| {
            let may_have_got = |(project, since): &(ProjectId, Timestamp)| {
                *project == row.project && retired::earliest(*since) <= row.at.as_micros()
            };
            row.at > now - retired::KEPT || jobs.iter().any(may_have_got)
        });
    }

    fn delete_project(&mut self, id: &ProjectId, repository: Option<String>, at: Timestamp) {
        let jobs: Vec<JobId> = self.jobs.values().filter(|job| job.project == *id).map(|job| job.id).collect();
        self.remove(&jobs, at);
        self.idempotency.retain(|(scope, _), _| scope != id.as_str());
        self.rates.retain(|(project, _), _| project != id);
        self.spending.retain(|(project, ..), _| project != id);
        self.reservations.retain(|held| held.sums.project != *id);
        self.secrets.retain(|(project, _), _| project != id);
        self.retired.retain(|row| row.project != *id);
        self.holds.remove(id);
        self.imports.remove(id);
        self.comparisons.retain(|(project, _)| project != id);
        self.comparison_schedule.remove(id);
        self.templates.retain(|_, template| template.project != *id);
        self.inbox.retain(|row| row.event.project.as_ref() != Some(id));
        self.feed.retain(|entry| entry.project != *id);
        self.remove_webhooks(|webhook| webhook.project == *id);
        self.projects.remove(id);
        self.deleted.insert(deleted_project(id), at);
        if let Some(repository) = repository {
            self.insert_task(Effect::RemoveRepository { repository }, at);
        }
    }

    fn put_key(&mut self, key: ApiKey) {
        let last_used_at = self.keys.get(&key.id).and_then(|known| known.last_used_at);
        self.keys.insert(key.id, ApiKey { last_used_at, ..key });
    }

    pub(super) fn last_comment(&self, pull: &(String, u64)) -> u64 {
        self.comments.iter().filter(|(of, _)| of == pull).map(|(_, known)| known.place).max().unwrap_or(0)
    }

    fn put_comment(&mut self, pull: (String, u64), comment: Comment) {
        match self.comments.iter_mut().find(|(of, known)| *of == pull && known.place == comment.place) {
            Some((_, known)) => *known = comment,
            None => self.comments.push((pull, comment)),
        }
    }

    pub(super) fn end_sessions(&mut self, which: SessionsToEnd) {
        self.sessions.retain(|hash, session| match which {
            SessionsToEnd::One(ended) => *hash != ended,
            SessionsToEnd::AllOf(user) => session.user != user,
            SessionsToEnd::OthersOf(user, kept) => session.user != user || *hash == kept,
        });
    }
}

fn is_administrator(user: &User) -> bool {
    user.role == Role::Administrator && user.disabled_at.is_none()
}
