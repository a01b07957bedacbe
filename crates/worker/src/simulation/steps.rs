//! The steps of a run on a machine of the simulation: what git, the sandbox, the agent and the code host would do.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::ids::{JobId, MessageId, Sha};
use journeyman_core::job::command::{Ending, Kept, Published, TurnBegun};
use journeyman_core::job::{Branch, Job, Pull, Token};
use journeyman_core::message::MessageStatus;
use journeyman_core::ports::{BlobError, Forge, ForgeError, FreeSpace, JobStore, Remote};
use journeyman_core::pull::{NewPull, PullState};
use journeyman_core::run::ReasonCode;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

use super::machine::{Disk, Life, Workspace};
use super::world::{Line, MAIN};
use crate::acp::Update;
use crate::agent::Turn;
use crate::answer::Answer;
use crate::branch::choose_branch;
use crate::doors::Doors;
use crate::executor::{Assignment, Collected, Execution, Executor};
use crate::failure::Stopped;
use crate::mirror::History;
use crate::publish::{Pushed, pull_request};
use crate::{archive, bundle, tidy, transcript};

pub(super) struct Workshop {
    life: Arc<Life>,
    doors: Doors,
}

impl Workshop {
    pub(super) fn new(life: Arc<Life>) -> Self {
        Self { life, doors: Doors::default() }
    }
}

#[async_trait]
impl Executor for Workshop {
    async fn enter(&self, job: JobId) -> OwnedMutexGuard<()> {
        self.doors.enter(job).await
    }

    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Execution + 'a>, Stopped> {
        let heads = fetch(&self.life).await?;
        let hands = Hands { life: &self.life, assignment, heads };
        Ok(Box::new(hands))
    }

    async fn repair(&self, _: &Assignment) -> Result<(), Stopped> {
        Err(Stopped::may_pass(ReasonCode::Internal, "no mirror is damaged here"))
    }

    fn low_space(&self) -> Option<FreeSpace> {
        None
    }

    async fn discard(&self, _job: JobId) {}

    async fn tidy(&self, job: &Job, token: Token) -> Result<(), BlobError> {
        self.life.moment("before old blobs are removed").await;
        let mut blobs = self.life.world.blobs();
        let of_job = format!("/{}/", job.id);
        let stays = |key: &str| !key.contains(&of_job) || !tidy::is_left_over(job, key, token);
        blobs.sessions.retain(|key, _| stays(key));
        blobs.bundles.retain(|key, _| stays(key));
        Ok(())
    }
}

struct Hands<'a> {
    life: &'a Life,
    assignment: &'a Assignment,
    /// The code host's branches when the run began.
    heads: BTreeMap<String, Sha>,
}

/// The code host's branches; their commits are on the machine then.
async fn fetch(life: &Life) -> Result<BTreeMap<String, Sha>, Stopped> {
    life.moment("before a fetch").await;
    if life.world.fails(60) {
        return Err(Stopped::may_pass(ReasonCode::RepositoryUnreachable, "no way"));
    }
    let host = life.world.host();
    let mut disk = life.disk.lock().unwrap();
    for head in host.branches.values() {
        disk.mirror.extend(host.history(head));
    }
    Ok(host.branches.clone())
}

impl Hands<'_> {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.life.disk.lock().unwrap()
    }

    const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    /// A blob is gone. That is as it should be where the run was taken over, and what it needs was tidied away since.
    async fn missing(&self, what: &str) {
        let (job, token) = (self.job().id, self.assignment.claimed.lease.token);
        if self.life.world.leased(job).await == Some(token) {
            self.life.world.breach(format!("{job}: {what} is gone"));
        }
    }

    async fn session(&self, key: &str) -> Vec<MessageId> {
        let kept = self.life.world.blobs().sessions.get(key).cloned();
        if kept.is_none() {
            self.missing(key).await;
        }
        kept.unwrap_or_default()
    }

    /// The workspace as the agent finds it.
    fn workspace(&self) -> Workspace {
        self.disk().workspaces[&self.job().id].clone()
    }

    fn change(&self, change: impl FnOnce(&mut Workspace)) {
        change(self.disk().workspaces.get_mut(&self.job().id).unwrap());
    }

    fn commit(&self, parent: &Sha, lines: Vec<Line>) -> Sha {
        let commit = self.life.world.host().commit(vec![parent.clone()], lines);
        self.disk().mirror.insert(commit.clone());
        commit
    }

    fn keep_bundle(&self, job: &Job, head: &Sha) -> Option<String> {
        let branch = job.branch.as_ref()?;
        let key = bundle::key(job.id, job.token, head);
        (branch.pushed.as_ref().unwrap_or(&branch.base) != head).then(|| {
            self.life.world.blobs().bundles.insert(key.clone(), head.clone());
            key
        })
    }

    /// The agent at work: line by line, sometimes with a commit of its own.
    async fn work(&self) -> Result<(), Stopped> {
        let message = &self.assignment.claimed.message;
        let steps: u32 = message.prompt.parse().unwrap();
        let world = &self.life.world;
        for step in 0..steps {
            tokio::time::sleep(world.up_to(Duration::from_secs(20))).await;
            self.life.moment("while the agent works").await;
            if world.fails(40) {
                return Err(Stopped::may_pass(ReasonCode::AgentExited, "it is gone"));
            }
            if world.fails(50) {
                return Err(Stopped::failed(ReasonCode::AgentRefused, "it will not"));
            }
            self.change(|workspace| workspace.tree.push(Line::Work(message.id, step)));
            if world.happens(4) {
                let Workspace { own, tree, .. } = self.workspace();
                let commit = self.commit(&own, tree);
                self.change(|workspace| workspace.own = commit);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Execution for Hands<'_> {
    async fn has_head(&self) -> Result<bool, Stopped> {
        let Some(branch) = &self.job().branch else { return Ok(false) };
        self.life.moment("before a bundle is fetched").await;
        if self.disk().mirror.contains(&branch.head) {
            return Ok(true);
        }
        let Some(key) = &self.job().bundle else { return Ok(false) };
        let kept = self.life.world.blobs().bundles.get(key).cloned();
        let Some(head) = kept else {
            self.missing(key).await;
            return Ok(false);
        };
        let history = self.life.world.host().history(&head);
        self.disk().mirror.extend(history);
        Ok(head == branch.head)
    }

    async fn prepare(&self) -> Result<TurnBegun, Stopped> {
        let seen = Seen { life: self.life, heads: &self.heads };
        let forge = Wire(self.life);
        let begun = choose_branch(self.job(), &self.assignment.project, &seen, &forge).await?;
        self.life.moment("before the workspace is prepared").await;
        let job = self.job();
        let usable = self.disk().workspaces.get(&job.id).is_some_and(|workspace| {
            workspace.is_marked && workspace.head == begun.head && workspace.archive == job.archive
        });
        if !usable {
            self.disk().workspaces.remove(&job.id);
            self.life.moment("while the workspace is prepared").await;
            let session = match &job.archive {
                None => Vec::new(),
                Some(key) => self.session(key).await,
            };
            let tree = self.life.world.host().lines(&begun.head).to_vec();
            let (head, own) = (begun.head.clone(), begun.head.clone());
            let archive = job.archive.clone();
            self.disk().workspaces.insert(job.id, Workspace { head, is_marked: false, archive, own, tree, session });
        }
        self.change(|workspace| workspace.is_marked = false);
        Ok(begun)
    }

    async fn published_before(&self, _: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, Stopped> {
        // The simulation does not restore databases.
        Ok(None)
    }

    async fn prompt(&self) -> Result<Turn, Stopped> {
        self.life.moment("before the agent is prompted").await;
        let message = self.assignment.claimed.message.id;
        if self.workspace().session.contains(&message) {
            self.life.world.breach(format!("{message}: the session remembers an attempt that was not finished"));
        }
        let earlier = self.life.world.store.messages(self.job().id).await.unwrap();
        for message in earlier.iter().filter(|message| message.status == MessageStatus::Finished) {
            if !self.workspace().session.contains(&message.id) {
                self.missing(&format!("{} in the session", message.id)).await;
            }
        }
        self.change(|workspace| workspace.session.push(message));
        let (sender, mut updates) = tokio::sync::mpsc::channel(16);
        let over = CancellationToken::new();
        let mut answer = Answer::default();
        let log = transcript::write(&self.assignment.reporter, &mut updates, &over, &mut answer);
        let signals = &self.assignment.signals;
        let talk = async {
            let _ = sender.send(Update::Message("I begin.".to_owned())).await;
            let worked = tokio::select! {
                biased;
                () = signals.lost.cancelled() => Err(Stopped::LeaseLost),
                () = signals.stop.cancelled() => Ok(true),
                () = signals.shutdown.cancelled() => Err(Stopped::HandedBack),
                worked = self.work() => worked.map(|()| false),
            };
            over.cancel();
            worked
        };
        let (logged, stopped) = tokio::join!(log, talk);
        let stopped = stopped?;
        logged?;
        let ending = if stopped { Ending::Stopped } else { Ending::Done };
        Ok(Turn { session: "one".to_owned(), ending, answer: None })
    }

    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, Stopped> {
        self.life.moment("before the turn is collected").await;
        let Workspace { own, tree, session, .. } = self.workspace();
        let differs = self.life.world.host().lines(&own) != tree;
        let head = if differs && !turn.is_stopped() { self.commit(&own, tree) } else { own };
        let commits = between(&self.life.world.host(), &begun.head, &head);
        let archive = archive::key(job.id, job.token);
        self.life.world.blobs().sessions.insert(archive.clone(), session);
        self.life.moment("while the turn is collected").await;
        let bundle = self.keep_bundle(job, &head);
        self.life.moment("after the turn was collected").await;
        let (session, answer) = (Some(turn.session.clone()), turn.answer.clone());
        let kept = Kept { session, archive: Some(archive), bundle, answer };
        Ok(Collected { head, commits, kept })
    }

    async fn release(&self, head: &Sha, archive: &str) {
        self.life.moment("before the workspace is released").await;
        self.change(|workspace| {
            workspace.head = head.clone();
            workspace.own = head.clone();
            workspace.archive = Some(archive.to_owned());
            workspace.is_marked = true;
        });
    }

    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, Stopped> {
        self.life.moment("before a push").await;
        let world = &self.life.world;
        if !self.disk().mirror.contains(head) {
            world.breach(format!("{}: {head} is pushed from where it is not", job.id));
        }
        let pushed = world.host().push(&branch.name, head);
        self.life.moment("after a push").await;
        if world.fails(40) {
            return Err(Stopped::may_pass(ReasonCode::RepositoryUnreachable, "lost on the way back"));
        }
        if pushed {
            return Ok(Pushed::Done);
        }
        let heads = fetch(self.life).await?;
        let theirs = &heads[&branch.name];
        let on_top = {
            let mut host = world.host();
            if host.contains(theirs, head) {
                return Ok(Pushed::Done);
            }
            let moved = match commits {
                [] => between(&host, &branch.base, head),
                commits => commits.to_vec(),
            };
            let mut on_top = theirs.clone();
            for commit in moved {
                let mut lines = host.lines(&on_top).to_vec();
                lines.extend(host.added(&commit).into_iter().filter(|line| !host.lines(&on_top).contains(line)));
                on_top = host.commit(vec![on_top], lines);
            }
            on_top
        };
        let commits = between(&world.host(), theirs, &on_top);
        self.disk().mirror.extend(commits.iter().cloned());
        let bundle = self.keep_bundle(job, &on_top);
        world.tell(format!("{} is put on top of what people pushed", job.id));
        self.life.rare_moment("after a rebase").await;
        Ok(Pushed::Rebased { head: on_top, commits, bundle })
    }

    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, Stopped> {
        let seen = Seen { life: self.life, heads: &self.heads };
        let Assignment { project, claimed, .. } = self.assignment;
        pull_request(&Wire(self.life), job, project, &seen, branch, &claimed.message.prompt).await
    }
}

/// The commits that lead from `base` to `head`, oldest first.
fn between(host: &super::world::CodeHost, base: &Sha, head: &Sha) -> Vec<Sha> {
    // Names count up.
    host.history(head).difference(&host.history(base)).cloned().collect()
}

/// The repository as the machine sees it.
struct Seen<'a> {
    life: &'a Life,
    heads: &'a BTreeMap<String, Sha>,
}

#[async_trait]
impl History for Seen<'_> {
    fn heads(&self) -> &BTreeMap<String, Sha> {
        self.heads
    }

    fn default_branch(&self) -> &str {
        MAIN
    }

    fn names_default_branch(&self) -> bool {
        true
    }

    async fn resolve(&self, _: &str) -> Result<Sha, Stopped> {
        Ok(self.heads[MAIN].clone())
    }

    async fn has(&self, commit: &Sha) -> bool {
        self.life.disk.lock().unwrap().mirror.contains(commit)
    }

    async fn contains(&self, commit: &Sha, ancestor: &Sha) -> bool {
        self.has(commit).await && self.life.world.host().contains(commit, ancestor)
    }
}

/// The code host's interface, as the machine reaches it.
struct Wire<'a>(&'a Life);

impl Wire<'_> {
    fn unclear(&self) -> Result<(), ForgeError> {
        if self.0.world.fails(40) { Err(ForgeError::Unclear("lost on the way back".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl Forge for Wire<'_> {
    async fn remote(&self) -> Result<Remote, ForgeError> {
        Err(ForgeError::Refused("git is not asked in a simulation".to_owned()))
    }

    async fn find_open_pull(&self, head: &str) -> Result<Option<Pull>, ForgeError> {
        self.0.moment("before a pull request is looked for").await;
        let found = self.0.world.host().open_pull_of(head);
        self.unclear()?;
        Ok(found)
    }

    async fn open_pull(&self, new: &NewPull) -> Result<Option<Pull>, ForgeError> {
        self.0.moment("before a pull request is opened").await;
        let opened = {
            let mut host = self.0.world.host();
            if host.open_pull_of(&new.head).is_some() {
                return Err(ForgeError::AlreadyExists);
            }
            host.open_pull(&new.head)
        };
        self.0.moment("after a pull request was opened").await;
        self.unclear()?;
        Ok(opened)
    }

    async fn pull_state(&self, number: u64) -> Result<Option<PullState>, ForgeError> {
        self.0.moment("before a pull request is read").await;
        self.unclear()?;
        let place = usize::try_from(number).unwrap() - 1;
        Ok(self.0.world.host().pulls.get(place).map(|pull| pull.state))
    }
}
