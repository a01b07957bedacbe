//! The pull request of a job.

use std::time::Duration;

use journeyman_core::code_host::{PullRepository, PullState};
use journeyman_core::commit::subject::subject_of_request;
use journeyman_core::commit::summary::subject_of_answer;
use journeyman_core::job::command::Published;
use journeyman_core::job::turn::Ending;
use journeyman_core::job::{Branch, Ended, Job};
use journeyman_core::left_out::LeftOut;
use journeyman_core::message::{Message, Origin};
use journeyman_core::open_pull::{Ensure, Ensured};
use journeyman_core::ports::{Forge, ForgeError, WorkStore};
use journeyman_core::project::Project;
use journeyman_core::prompt::title_of;
use journeyman_core::pull::body::{Content, Done, of_pull};
use journeyman_core::pull::{HostPull, NewPull, Pull, PullChange};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::{Clock, IdGen};
use journeyman_repository::History;
use journeyman_repository::branch::base_of;

use crate::error::RunError;

/// The longest wait for the lock of a branch, which expires after 45 s.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The pause between two attempts to lock a branch.
const PAUSE: Duration = Duration::from_secs(2);

/// The parts of the machine and of the run that publishing needs.
pub(crate) struct Publishing<'a> {
    pub(crate) forge: &'a dyn Forge,
    pub(crate) store: &'a dyn WorkStore,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) ids: &'a dyn IdGen,
    pub(crate) project: &'a Project,
    pub(crate) history: &'a dyn History,
    /// The message whose turn has ended.
    pub(crate) message: &'a Message,
    /// What the turn changed, but its commits do not have.
    pub(crate) left_out: &'a [LeftOut],
    /// The URL of the service, without a slash at its end.
    pub(crate) public_url: &'a str,
}

impl Publishing<'_> {
    /// Ensures that the branch has a pull request, and that its description is up to date.
    pub(crate) async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, RunError> {
        let existing = self.existing(job).await?;
        let content = self.content(job, existing.as_ref()).await?;
        let settings = &self.project.settings.pull_request;
        if let Some(pull) = existing {
            // Whether it is a draft is up to the people who opened it.
            let body = content.updated(settings.body.as_deref(), &pull.body);
            self.update(job, &pull, PullChange { body, ..PullChange::default() }).await;
            return Ok(Published::Updated(self.pull(&pull).await?));
        }
        let new = self.new_pull(job, branch, &content).await?;
        let ensure = Ensure { forge: self.forge, locks: self.store, clock: self.clock, ids: self.ids };
        match self.ensured(&ensure, &new, branch).await {
            Ok(Ensured::Opened { pull, incomplete }) => {
                let notice = (!incomplete.is_empty()).then(|| {
                    let text = format!("the pull request was opened, but {}", incomplete.join("; "));
                    Reason::new(ReasonCode::PullRequestIncomplete, text)
                });
                Ok(Published::Opened(self.pull(&pull).await?, notice))
            }
            Ok(Ensured::Found(pull)) => {
                if pull.state == PullState::Open {
                    let body = content.updated(settings.body.as_deref(), &pull.body);
                    let draft = is_made_ready(job, &pull, new.draft).then_some(false);
                    self.update(job, &pull, PullChange { body, draft, ..PullChange::default() }).await;
                }
                Ok(Published::Updated(self.pull(&pull).await?))
            }
            Ok(Ensured::NoChanges) => Ok(Published::Nothing),
            Ok(Ensured::Locked) => {
                let text = "another process has been opening the pull request of this branch for a minute";
                Err(RunError::may_pass(ReasonCode::PullRequestFailed, text))
            }
            Err(ForgeError::NoPulls(reason)) => Ok(Published::NotPossible(reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ensures that the branch has a pull request. Waits if another process opens it now: a process that was killed
    /// meanwhile leaves its lock behind.
    async fn ensured(&self, ensure: &Ensure<'_>, new: &NewPull, branch: &Branch) -> Result<Ensured, ForgeError> {
        let (until, mut is_logged) = (self.clock.now() + LONGEST_WAIT, false);
        loop {
            let ensured = ensure.run(new, &branch.head).await?;
            if ensured != Ensured::Locked || self.clock.now() > until {
                return Ok(ensured);
            }
            if !is_logged {
                is_logged = true;
                tracing::info!(branch = new.head, "waiting for the process that opens the pull request of the branch");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the existing pull request that the job works on, if it is still open. After its end, the branch gets
    /// another one, so that the commits do not go unnoticed.
    async fn existing(&self, job: &Job) -> Result<Option<HostPull>, RunError> {
        let Some(existing) = job.existing_pull() else { return Ok(None) };
        Ok(self.forge.pull(existing.pull.number).await?.filter(|pull| pull.state == PullState::Open))
    }

    /// Returns the pull request as the job records it.
    async fn pull(&self, pull: &HostPull) -> Result<Pull, RunError> {
        let repository = PullRepository { host: self.forge.host(), id: self.forge.repository().await?.id };
        let (title, draft) = (Some(pull.title.clone()), pull.draft);
        let known = Pull::new(pull.number, &pull.url);
        Ok(Pull { repository: Some(repository), title, draft, state: pull.state, ..known })
    }

    async fn content(&self, job: &Job, existing: Option<&HostPull>) -> Result<Content, RunError> {
        let messages = self.store.messages(job.id).await?;
        let open = job.pull.as_ref().filter(|pull| pull.state == PullState::Open).map(|pull| pull.number);
        let current = existing.map(|pull| pull.number).or(open);
        let done = |message: &Message| Done::new(message, message.answer.clone());
        let mut done: Vec<Done> = of_pull(&messages, current).into_iter().map(done).collect();
        let answer = job.in_flight().and_then(|in_flight| in_flight.answer.as_deref()).map(str::to_owned);
        done.push(Done::new(self.message, answer));
        let recorded = job.lease().and_then(|lease| lease.usage.as_deref()).map(|usage| usage.cost_micros);
        let runs = self.store.runs(job.id).await?;
        let costs = runs.iter().map(|run| run.usage.cost_micros).chain(recorded);
        let cost_micros = costs.flatten().fold(None, |sum: Option<u64>, cost| Some(sum.unwrap_or_default() + cost));
        // The title of an issue is that of the job, but no one asked for it as the title of the pull request.
        let is_of_issue = messages.first().and_then(|first| first.source.as_ref());
        let is_of_issue = is_of_issue.is_some_and(|source| source.origin == Origin::Issue);
        let has_template = self.project.settings.pull_request.title.is_some();
        // After a merge, the next pull request has the title of what was asked for since.
        let is_next = messages.iter().any(|message| message.pr_link.is_some()) && current.is_none();
        let title = match done.first() {
            Some(first) if is_next => {
                let asking = of_pull(&messages, current).first().copied().unwrap_or(self.message);
                subject_of_request(asking, &job.title)
                    .or_else(|| first.answer.as_deref().and_then(subject_of_answer))
                    .unwrap_or_else(|| title_of(&first.prompt))
            }
            _ => job.title.clone(),
        };
        Ok(Content {
            title,
            given_title: job.options.title.clone().filter(|_| !(is_next || is_of_issue && has_template)),
            done,
            job: job.id.to_string(),
            branch: job.branch_name(),
            url: format!("{}/projects/{}/jobs/{}", self.public_url, job.project, job.id),
            cost_micros,
            left_out: self.left_out.to_vec(),
        })
    }

    async fn new_pull(&self, job: &Job, branch: &Branch, content: &Content) -> Result<NewPull, RunError> {
        let settings = &self.project.settings.pull_request;
        // The template of the project replaces that of the repository.
        let of_repository = match &settings.body {
            Some(_) => None,
            None if job.pull.is_some() => None,
            None => self.history.pull_template(&branch.base).await?,
        };
        // Unfinished work must not be merged by mistake.
        let ending = job.in_flight().and_then(|message| message.progress.ending());
        let is_cut_short = matches!(ending, Some(Ending::CutShort(_)));
        Ok(NewPull {
            title: content.title(settings.title.as_deref()),
            body: content.body(settings.body.as_deref(), of_repository.as_deref()),
            head: branch.name.clone(),
            base: Some(base_of(job, self.project, self.history)?),
            draft: is_cut_short || job.options.draft.unwrap_or(settings.draft),
            labels: settings.labels.clone(),
            reviewers: settings.reviewers.clone(),
            assignees: settings.assignees.clone(),
            auto_merge: job.options.auto_merge.unwrap_or(settings.auto_merge),
        })
    }

    /// Updates the pull request. It has the commits in any case, so a failure is only logged.
    async fn update(&self, job: &Job, pull: &HostPull, change: PullChange) {
        if change.is_empty() {
            return;
        }
        if let Err(error) = self.forge.update_pull(pull.number, &change).await {
            tracing::warn!(job = %job.id, url = %pull.url, %error, "the pull request could not be updated");
        }
    }
}

/// Returns whether a draft is made ready: its turn was cut short before, and has finished now. `draft` is the wanted
/// state.
fn is_made_ready(job: &Job, pull: &HostPull, draft: bool) -> bool {
    let was_cut_short = matches!(&job.last, Some(Ended::Failed(reason)) if reason.code == ReasonCode::TurnCutShort);
    pull.draft && !draft && was_cut_short
}
