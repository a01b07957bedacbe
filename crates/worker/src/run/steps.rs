//! The steps of a run on a real machine, with git, an agent, and a code host.

mod lacking;
mod told;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use journeyman_core::checkout::{self, Missing};
use journeyman_core::code_host::PullRepository;
use journeyman_core::commit::subject::CoAuthor;
use journeyman_core::egress::Allowlist;
use journeyman_core::ids::{JobId, Sha};
use journeyman_core::job::command::Published;
use journeyman_core::job::event::{TranscriptEntry, TranscriptKind};
use journeyman_core::job::turn::{TurnArtifacts, TurnBegun};
use journeyman_core::job::{Branch, Job};
use journeyman_core::left_out::{LeftOut, named_in};
use journeyman_core::ports::{Forge, ForgeError, Image, JobFilter};
use journeyman_core::project::{CODE_HOST_TOKEN, Lfs, Project, SandboxSettings, SecretUse};
use journeyman_core::pull::base_comparison;
use journeyman_core::run::Reason;
use journeyman_core::secret::SecretValue;
use journeyman_core::worker::FreeSpace;
use journeyman_repository::branch::{
    base_of, check_creator, check_repository, check_writable, choose_branch, needs_creator_check,
};
use journeyman_repository::diff_stat::{Range, turn_diff};
use journeyman_repository::import::FILE_BYTES;
use journeyman_repository::push::{Outgoing, Push, Pushed, check_push};
use journeyman_repository::{History as _, Mirror, RepositoryError, bundle, published};
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};

use self::told::{left_out_event, not_done, nothing_published};
use super::check_logs::CheckLogs;
use super::comment_files::{CommentFiles, GivenFiles};
use super::port::{Collected, Machine, Steps};
use super::publish::Publishing;
use super::review;
use super::setup::preparation::{Preparation, Prepared};
use crate::claim::assignment::Assignment;
use crate::claim::deadline;
use crate::claim::redaction::Redactor;
use crate::cleanup::discard::discard_workspace;
use crate::commit::lfs_objects::{TurnObjects, Uploading};
use crate::commit::unfinished::Unfinished;
use crate::commit::{CollectedCommits, CommitContext, Trees, Wording, Work, collect};
use crate::error::RunError;
use crate::host::Host;
use crate::lfs::fill::{Filling as LfsFilling, NotFetched};
use crate::sandbox::disk_limit::{Counted, Disk};
use crate::sandbox::job_sandbox::{JobSandbox, Readable};
use crate::submodules::fill::Filler;
use crate::submodules::sources::Sources;
use crate::turn::agent::Agent;
use crate::turn::context::TurnContext;
use crate::turn::result::Turn;
use crate::turn::{stop, turn};
use crate::workspace::checkout::Checkout;
use crate::workspace::listing::Listing;
use crate::workspace::scan::{TreeScan, scan};
use crate::workspace::session::{NotKept, Session};
use crate::workspace::state::{TreeState, digest};
use crate::workspace::{Workspace, home_archive};

/// The number of jobs with a branch that are looked at to find out whether one has made it.
const MAKERS: usize = 100;

#[async_trait]
impl Machine for Host {
    async fn lock_workspace(&self, job: JobId) -> OwnedMutexGuard<()> {
        self.locks.lock(job).await
    }

    async fn begin<'a>(&'a self, assignment: &'a Assignment) -> Result<Box<dyn Steps + 'a>, RunError> {
        // Redaction comes first: the error of any later step may contain a secret.
        let secrets = secrets(self, assignment).await?;
        let project = &assignment.project;
        let forge = self.forges.of(project).await.map_err(not_used)?;
        let remote = forge.remote().await.map_err(not_used)?;
        check_writable(&*forge)?;
        let mirror = self.mirrors.of(&project.id).fetch(remote.clone()).await?;
        let job = &assignment.claimed.job;
        let repository = check_repository(job, project, &mirror, &*forge).await?;
        // Only the first turn asks a code host that does not say whether the credential may push.
        if job.branch.is_none()
            && forge.known_repository().is_none()
            && let Some(head) = mirror.heads.values().next()
        {
            check_push(&mirror, &remote, &job.branch_of(1), head).await?;
        }
        let sandbox = JobSandbox {
            sandbox: Arc::clone(&self.containment.sandbox),
            workspace: Workspace::new(&self.data, assignment.claimed.job.id, &self.instance),
            readable: Readable::default(),
            resources: project.settings.limits.resources(),
            // The list was checked when it was stored.
            egress: Allowlist::read(&project.settings.sandbox.egress).unwrap_or_default(),
            image: image(&project.settings.sandbox),
            space: Arc::clone(&self.space),
        };
        sandbox.read_objects(vec![mirror.objects()]).await?;
        let [setup, agent] =
            [SecretUse::Setup, SecretUse::Agent].map(|used_by| environment(self, project, &sandbox, &secrets, used_by));
        let idle = Mutex::new(self.idle_agents.take(assignment.claimed.job.id));
        let (tree, note, keys) = (Mutex::default(), Mutex::default(), model_keys(project, &secrets));
        let prepared = self.prepared_home(assignment).await?;
        Ok(Box::new(HostSteps {
            host: self,
            assignment,
            forge,
            repository,
            mirror,
            sandbox,
            setup,
            agent,
            keys,
            prepared,
            idle,
            tree,
            note,
        }))
    }

    async fn repair_mirror(&self, assignment: &Assignment) -> Result<(), RunError> {
        let forge = self.forges.of(&assignment.project).await.map_err(not_used)?;
        let mirrors = self.mirrors.of(&assignment.project.id);
        Ok(mirrors.repair(&forge.remote().await.map_err(not_used)?).await?)
    }

    fn low_space(&self) -> Option<FreeSpace> {
        self.space.free().filter(|space| !space.is_enough())
    }

    async fn discard_workspace(&self, job: JobId) {
        discard_workspace(&self.data, job).await;
    }
}

impl Host {
    /// Returns the prepared home of the job's agent, if there is one. A job without a session waits while it is made.
    async fn prepared_home(&self, assignment: &Assignment) -> Result<Option<PathBuf>, RunError> {
        let job = &assignment.claimed.job;
        let Some(spec) = self.agents.get(&job.agent) else { return Ok(None) };
        let archive = self.prepared.path(&job.agent, spec);
        if job.archive.is_none() {
            tokio::select! {
                () = self.prepared.ready(&archive) => {}
                () = assignment.signals.lost.cancelled() => return Err(RunError::LeaseLost),
                () = assignment.signals.shutdown.cancelled() => return Err(RunError::HandedBack),
                () = assignment.signals.stop.cancelled() => {}
            }
        }
        Ok(archive.exists().then_some(archive))
    }
}

/// Environment variables by name.
type Environment = BTreeMap<String, String>;

type Secrets = BTreeMap<String, SecretValue>;

struct HostSteps<'a> {
    host: &'a Host,
    assignment: &'a Assignment,
    forge: Arc<dyn Forge>,
    /// The repository on its code host, if the host gives repositories IDs.
    repository: Option<PullRepository>,
    mirror: Mirror,
    sandbox: JobSandbox,
    /// The variables of the setup command.
    setup: Environment,
    /// The variables of the agent.
    agent: Environment,
    /// The project's keys for models. No program gets them.
    keys: Secrets,
    /// The prepared home of the agent.
    prepared: Option<PathBuf>,
    /// Before the turn, the idle agent of the previous turn; after the turn, its agent, until it is stopped or kept for
    /// the next. It is killed when the steps are dropped.
    idle: Mutex<Option<Agent>>,
    tree: Mutex<Tree>,
    /// What the agent is told in addition to the message.
    note: Mutex<Option<String>>,
}

/// The tree, as it was after the last commit or when it was built.
#[derive(Default)]
struct Tree {
    state: TreeState,
    /// The list of its files; `None` if it is stored in the workspace.
    listing: Option<Listing>,
    /// True if the tree may be reused for the next turn.
    reusable: bool,
    /// What the turn's commits do not have.
    left_out: Vec<LeftOut>,
    /// True if what earlier collecting left out is stored.
    has_stored_left_out: bool,
    /// Whether the commits may have objects of Git LFS that are not on the code host; `None` if no turn has ended.
    has_objects: Option<bool>,
}

/// The result of a turn in its tree.
struct New {
    head: Sha,
    commits: Vec<Sha>,
    refused: Option<Reason>,
    unfinished: Option<Unfinished>,
}

#[async_trait]
impl Steps for HostSteps<'_> {
    async fn fetch_head(&self) -> Result<bool, RunError> {
        Ok(bundle::fetch(&*self.host.blobs, &self.mirror, &self.sandbox.workspace.scratch, self.job()).await?)
    }

    async fn prepare(&self) -> Result<TurnBegun, RunError> {
        self.host.containment.check(self.job()).await?;
        let (job, project) = (self.job(), &self.assignment.project);
        let begun = match &job.options.review {
            Some(reviewed) => {
                let mirrors = self.host.mirrors.of(&project.id);
                review::begin(job, reviewed, (&mirrors, &self.mirror), &*self.forge).await?
            }
            None => choose_branch(job, project, &self.mirror, &*self.forge).await?,
        };
        let begun = TurnBegun { repository: self.repository.clone(), ..begun };
        self.check_creator(&begun).await?;
        self.keep_earlier(&begun).await?;
        let session = self.session();
        let workspace = &self.sandbox.workspace;
        let mut missing = Vec::new();
        let tree = match workspace.can_be_reused(&self.mirror, &begun, session.archive).await {
            Some(state) => self.reuse(&begun, state, &mut missing).await?,
            None => self.rebuild(&begun, &session, &mut missing).await?,
        };
        missing.extend(self.show_upstream().await?);
        if let Some(data) = checkout::event_data(&missing) {
            let (kind, at) = (TranscriptKind::CheckoutIncomplete, self.assignment.reporter.now());
            self.assignment.reporter.transcript(vec![TranscriptEntry { kind, data, at }]).await?;
        }
        let notes = [self.conflicts(&begun).await, checkout::note(&missing)];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        *self.note.lock().await = (!notes.is_empty()).then(|| notes.join("\n\n"));
        *self.tree.lock().await = tree;
        workspace.remove_marker().await?;
        Ok(begun)
    }

    async fn published_before(&self, begun: &TurnBegun) -> Result<Option<(Sha, Vec<Sha>)>, RunError> {
        let message = &self.assignment.claimed.message;
        Ok(published::published_before(&self.mirror, self.job(), message.id, begun).await?)
    }

    async fn prompt(&self, more: Option<&str>) -> Result<Turn, RunError> {
        // The agent is about to change what a marker describes.
        self.sandbox.workspace.remove_marker().await?;
        let idle = self.idle.lock().await.take();
        self.write_logs().await?;
        // The agent has the files of a message that it continues.
        let files = if more.is_none() { self.write_files().await? } else { GivenFiles::default() };
        let notes = [self.note.lock().await.clone(), files.note];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        let note = (!notes.is_empty()).then(|| notes.join("\n\n"));
        let Self { host, assignment, sandbox, agent: environment, keys, .. } = self;
        let context = TurnContext {
            store: &*host.store,
            gateway: &*host.gateway,
            agents: &host.agents,
            ids: &*host.ids,
            tap: host.tap.get(),
            starting: &host.starting,
            prepared: &host.prepared,
            assignment,
            sandbox,
            environment,
            keys,
            note: note.as_deref(),
            images: &files.images,
            more,
        };
        let (turn, agent) = turn(&context, idle).await?;
        *self.idle.lock().await = Some(agent);
        Ok(turn)
    }

    async fn keep_answered(&self, begun: &TurnBegun, turn: &Turn) -> bool {
        match self.mark_answered(begun, turn).await {
            Ok(is_kept) => is_kept,
            Err(error) => {
                tracing::warn!(
                    job = %self.job().id, %error,
                    "the end of a turn could not be written to the workspace; if its work cannot be stored, the agent is \
                     prompted again"
                );
                false
            }
        }
    }

    async fn stop_agent(&self, turn: &Turn) -> Result<(), RunError> {
        let mut idle = self.idle.lock().await;
        if let Some(agent) = idle.take() {
            let keep = self.host.idle_agents.keeps_agents() && !turn.is_stopped();
            *idle = stop(agent, keep, &self.assignment.signals).await?;
        }
        Ok(())
    }

    async fn sync_answered(&self) {
        if let Err(error) = self.sandbox.workspace.sync_answered().await {
            tracing::warn!(job = %self.job().id, %error, "the work of an ended turn would not survive a power failure");
        }
    }

    async fn resume(&self, begun: &TurnBegun) -> Result<Option<Turn>, RunError> {
        let (workspace, message) = (&self.sandbox.workspace, self.assignment.claimed.message.id);
        let kept = workspace.answered(message, &self.mirror, begun, self.job().archive.as_deref()).await;
        let Some((turn, state)) = kept else { return Ok(None) };
        self.host.containment.check(self.job()).await?;
        self.sandbox.read_objects(state.submodules.objects().cloned().collect()).await?;
        *self.tree.lock().await = Tree { state, ..Tree::default() };
        Ok(Some(turn))
    }

    async fn collect(&self, job: &Job, begun: &TurnBegun, turn: &Turn) -> Result<Collected, RunError> {
        let scanned = self.scan().await?;
        self.check_disk().await?;
        let archive = home_archive::key(job.id, job.token);
        let mut tree = self.tree.lock().await;
        tree.reusable = true;
        // An unchanged tree has nothing to leave out.
        let mut knows_left_out = true;
        let mut new = New { head: begun.head.clone(), commits: Vec::new(), refused: None, unfinished: None };
        let is_changed = tree.state.clean.as_ref() != Some(&scanned.fingerprint);
        if job.options.review.is_some() {
            // What a review changes is discarded.
            tree.reusable = !is_changed;
        } else if is_changed {
            let listing = match tree.listing.take() {
                Some(listing) => listing,
                None => self.sandbox.workspace.read_listing().await?,
            };
            let trees = Trees { state: &tree.state, listing: &listing, scan: &scanned };
            match self.commit(begun, turn, trees).await {
                Ok(Work::Committed(collected)) => {
                    knows_left_out = !turn.is_stopped();
                    new = self.take(&mut tree, turn, &scanned, collected, &archive).await?;
                }
                Err(error) => {
                    // The turn may be collected again.
                    tree.listing = Some(listing);
                    return Err(error);
                }
                Ok(Work::Unfinished(unfinished)) => {
                    // The next turn finds all changes since the last commit.
                    tree.state.clean = None;
                    tree.listing = Some(listing);
                    knows_left_out = false;
                    new.refused = Some(unfinished.reason());
                    new.unfinished = Some(unfinished);
                }
            }
        }
        let New { head, commits, refused, unfinished } = new;
        let (blobs, workspace) = (&*self.host.blobs, &self.sandbox.workspace);
        if !knows_left_out {
            tree.has_stored_left_out |= workspace.carry_left_out(&self.session(), &archive).await?;
        }
        if let Some(NotKept { reason, cause }) = workspace.save_session(blobs, &archive).await? {
            let (kind, data) = (TranscriptKind::HomeNotStored, checkout::home_not_stored(reason, &cause));
            let at = self.assignment.reporter.now();
            self.assignment.reporter.transcript(vec![TranscriptEntry { kind, data, at }]).await?;
        }
        let stored = bundle::store(blobs, &self.mirror, &workspace.scratch, job, &head);
        let bundle = deadline::storing("storing the commits", stored).await?;
        let (session, answer) = (Some(turn.session.clone()), turn.answer.clone());
        let upstream = self.upstream().map(|(_, commit)| commit);
        let range = Range { base: &begun.base, start: &begun.head, head: &head, upstream };
        let mut diff = turn_diff(&self.mirror, range, tree.left_out.clone()).await;
        if let Some(diff) = diff.as_mut().filter(|_| !commits.is_empty()) {
            diff.message.carried_over = job.carried_over(begun);
        }
        let artifacts = TurnArtifacts { session, archive: Some(archive), bundle, answer, diff };
        Ok(Collected { head, commits, artifacts, refused, unfinished })
    }

    async fn keep_workspace(&self, head: &Sha, archive: &str) {
        let mut tree = self.tree.lock().await;
        if tree.reusable
            && let Err(error) = self.mark(&mut tree, head, archive).await
        {
            tracing::warn!(job = %self.job().id, %error, "a workspace cannot be reused: its marker could not be written");
        }
        // Only after everything was read: an idle agent may be killed to make space for another.
        if let Some(agent) = self.idle.lock().await.take() {
            self.host.idle_agents.keep(self.job().id, agent);
        }
    }

    async fn push(&self, job: &Job, branch: &Branch, head: &Sha, commits: &[Sha]) -> Result<Pushed, RunError> {
        let workspace = &self.sandbox.workspace;
        // The credential of the fetch may have expired during the turn.
        let remote = self.forge.remote().await.map_err(not_used)?;
        // The description is new: it was read for the remote. A minute later, it would no longer be known.
        let of_host = self.forge.known_repository().map(|repository| repository.ci_paths).unwrap_or_default();
        let has_objects = self.tree.lock().await.has_objects;
        if has_objects.unwrap_or(true) || !job.unpublished.is_empty() {
            let (objects, blobs, scratch) = (&*self.host.lfs, &*self.host.blobs, &workspace.scratch);
            let uploading = Uploading { objects, blobs, mirror: &self.mirror, scratch, remote: &remote };
            uploading.upload(job, branch, head).await?;
        }
        let push = Push {
            mirrors: &self.host.mirrors.of(&self.assignment.project.id),
            mirror: &self.mirror,
            remote: &remote,
            blobs: &*self.host.blobs,
            scratch: &workspace.scratch,
        };
        let project = &self.assignment.project;
        let base = &base_of(job, project, &self.mirror)?;
        let (ci_files, mut ci_paths) =
            (project.settings.pull_request.ci_files, project.settings.pull_request.ci_paths.clone());
        ci_paths.extend(of_host);
        let ci_paths = &ci_paths[..];
        let left_out = &self.left_out().await;
        Ok(push.run(job, &Outgoing { branch, head, commits, left_out, base, ci_files, ci_paths }).await?)
    }

    async fn pull_request(&self, job: &Job, branch: &Branch) -> Result<Published, RunError> {
        let Assignment { project, claimed, .. } = self.assignment;
        let publishing = Publishing {
            forge: &*self.forge,
            store: &*self.host.store,
            clock: self.host.engine.clock(),
            ids: &*self.host.ids,
            project,
            history: &self.mirror,
            message: &claimed.message,
            left_out: &self.left_out().await,
            public_url: &self.host.public_url,
        };
        publishing.pull_request(job, branch).await
    }
}

impl HostSteps<'_> {
    /// Returns the job as it was claimed.
    const fn job(&self) -> &Job {
        &self.assignment.claimed.job
    }

    /// Refuses a branch that the creator of the job may not let it write to.
    async fn check_creator(&self, begun: &TurnBegun) -> Result<(), RunError> {
        if !needs_creator_check(self.job(), begun) {
            return Ok(());
        }
        let (branch, projects) = (Some(begun.branch.clone()), Some(vec![self.assignment.project.id.clone()]));
        let filter = JobFilter { projects, branch, limit: MAKERS, ..JobFilter::default() };
        let made = |job: &Job| job.branch.as_ref().is_some_and(|own| own.name == begun.branch && !own.existed);
        let is_made_by_job = self.host.store.jobs(filter).await?.iter().any(made);
        // The record of an earlier push may have been lost.
        let is_own = is_made_by_job || self.published_before(begun).await?.is_some();
        Ok(check_creator(self.job(), begun, is_own)?)
    }

    /// Returns what the commits of the turn do not have.
    async fn left_out(&self) -> Vec<LeftOut> {
        let left_out = self.tree.lock().await.left_out.clone();
        // Another worker may have made the commits.
        let recorded = self.assignment.claimed.message.diff.as_ref().filter(|_| left_out.is_empty());
        recorded.map_or(left_out, |diff| diff.left_out.clone())
    }

    /// Returns the session of the agent, as the last turn has stored it.
    fn session(&self) -> Session<'_> {
        let prepared = self.prepared.as_deref();
        Session { blobs: &*self.host.blobs, archive: self.job().archive.as_deref(), prepared }
    }

    /// Takes the commits of a turn: records the state of the tree, and stores and tells what was left out.
    async fn take(
        &self,
        tree: &mut Tree,
        turn: &Turn,
        scanned: &TreeScan,
        mut collected: CollectedCommits,
        archive: &str,
    ) -> Result<New, RunError> {
        if !turn.is_stopped() {
            self.keep_left_out(tree, &mut collected, archive).await?;
        }
        let again = self.scan().await?;
        // After an interrupted turn, uncommitted changes stay in the tree, and the next turn must find them.
        let is_clean = !turn.is_stopped() && collected.left_out.is_empty() && again.listing == scanned.listing;
        let told = || collected.left_out.iter().chain(&collected.replaced);
        let left_out = told().map(|one| one.path.clone()).collect();
        let left_out_before = std::mem::replace(&mut tree.state.left_out, left_out);
        tree.state.clean = is_clean.then_some(again.fingerprint);
        tree.state.unmarked_index = again.index.filter(|_| !collected.has_marks);
        tree.state.ignore_rules = collected.ignore_rules;
        tree.state.submodules = collected.submodules;
        tree.listing = Some(collected.listing);
        tree.has_objects = Some(collected.has_objects || tree.has_objects.unwrap_or_default());
        tree.reusable = collected.settled;
        // What was left out of an earlier commit was told then.
        let new = told().filter(|one| !left_out_before.contains(&one.path));
        let refused = match collected.commits.is_empty() {
            true => nothing_published(new),
            false => turn.answer.as_deref().and_then(|answer| named_in(&collected.left_out, answer)).map(not_done),
        };
        let now = self.assignment.reporter.now();
        // Commits that were replaced miss nothing, so they have an event of their own.
        let events = [left_out_event(&collected.left_out, now), left_out_event(collected.replaced.as_slice(), now)];
        let events: Vec<TranscriptEntry> = events.into_iter().flatten().collect();
        if !events.is_empty() {
            self.assignment.reporter.transcript(events).await?;
        }
        tree.left_out = collected.left_out;
        Ok(New { head: collected.head, commits: collected.commits, refused, unfinished: None })
    }

    /// Keeps the commits of the job's earlier branch, which pages show, if the turn begins another one.
    async fn keep_earlier(&self, begun: &TurnBegun) -> Result<(), RunError> {
        let earlier = self.job().branch.as_ref().filter(|branch| branch.generation != begun.generation);
        let Some(Branch { generation, head, .. }) = earlier else { return Ok(()) };
        if self.mirror.has(head).await {
            self.mirror.keep(&format!("{}/{generation}", self.job().id), head).await?;
        }
        Ok(())
    }

    /// Returns the branch that the job's work is merged into, with its newest commit.
    fn upstream(&self) -> Option<(String, &Sha)> {
        let name = base_of(self.job(), &self.assignment.project, &self.mirror).ok()?;
        let commit = self.mirror.heads.get(&name)?;
        Some((name, commit))
    }

    /// Returns the note about the conflicts between the work and the branch that it is merged into; `None` if there are
    /// none, if the message is about them already, or if they cannot be found out.
    async fn conflicts(&self, begun: &TurnBegun) -> Option<String> {
        let (base, commit) = self.upstream()?;
        // A branch without work, or whose base has not moved, has none. A review resolves none.
        if self.job().options.review.is_some() || begun.head == begun.base || *commit == begun.base {
            return None;
        }
        let found = self.mirror.conflicts_between(commit, &begun.head).await;
        let warn = |error: &RepositoryError| {
            tracing::warn!(job = %self.job().id, %base, %error, "the conflicts with the base are not known");
        };
        let conflicts = found.inspect_err(warn).ok().filter(|found| !found.is_empty())?;
        let is_about_them = self.assignment.claimed.message.prompt == base_comparison::request(&base, &conflicts);
        (!is_about_them).then(|| base_comparison::note(&base, &conflicts))
    }

    /// Records that the agent has ended its turn, with the state of the tree before it.
    async fn mark_answered(&self, begun: &TurnBegun, turn: &Turn) -> std::io::Result<bool> {
        let (workspace, tree) = (&self.sandbox.workspace, self.tree.lock().await);
        if let Some(listing) = &tree.listing {
            workspace.write_listing(listing.clone()).await?;
        }
        let start = (&self.mirror, &begun.head, self.job().archive.as_deref());
        let message = self.assignment.claimed.message.id;
        workspace.keep_answered(message, turn, start, tree.state.clone()).await
    }

    /// Records the state of the tree after a turn.
    async fn mark(&self, tree: &mut Tree, head: &Sha, archive: &str) -> std::io::Result<()> {
        let workspace = &self.sandbox.workspace;
        if let Some(listing) = tree.listing.take() {
            workspace.write_listing(listing).await?;
        }
        workspace.mark(&self.mirror, head, archive, tree.state.clone()).await
    }

    /// Rebuilds the workspace, and returns the state of its tree. Adds what the tree lacks to `missing`.
    async fn rebuild(
        &self,
        begun: &TurnBegun,
        session: &Session<'_>,
        missing: &mut Vec<Missing>,
    ) -> Result<Tree, RunError> {
        // The idle agent's files are about to be removed.
        if let Some(agent) = self.idle.lock().await.take() {
            agent.end().await;
        }
        let prepared = self.preparation().prepare(begun, session).await?;
        let Prepared { submodules: filling, mut not_fetched, lost_home } = prepared;
        missing.extend(self.skipped(&filling.skipped));
        not_fetched.extend(filling.not_fetched);
        missing.extend(not_fetched.iter().map(NotFetched::missing));
        let (sandbox, mirror, commit) = (&self.sandbox, &self.mirror, &begun.base);
        let (signals, limits) = (&self.assignment.signals, &self.assignment.project.settings.limits);
        let environment = &base_environment(self.host, sandbox);
        let checkout = Checkout { sandbox, environment, signals, limits, mirror, commit };
        self.host.prebuilt.make(&checkout).await;
        let scanned = self.scan().await?;
        // What was left out of earlier commits differs from the tree of this scan, so it can be committed.
        let (workspace, expected) = (&self.sandbox.workspace, self.left_out_before().await?);
        let restored = workspace.restore_left_out(session, &self.mirror, &begun.head, &expected).await?;
        missing.extend(restored.missing);
        missing.extend(self.unfinished_before().await?);
        missing.extend(lost_home.map(|lost| Missing::home(lost.reason, &lost.cause)));
        // A setup command may have marked files as local.
        let has_setup = self.assignment.project.settings.setup.is_some();
        let state = TreeState {
            clean: (!restored.has_changed).then_some(scanned.fingerprint),
            unmarked_index: scanned.index.filter(|_| !has_setup && !restored.has_marks),
            ignore_rules: digest(&[]),
            submodules: filling.state,
            left_out: restored.left_out,
        };
        Ok(Tree { state, listing: Some(scanned.listing), ..Tree::default() })
    }

    /// Reuses the workspace: its submodules follow their pointers. Adds what the tree lacks to `missing`.
    async fn reuse(
        &self,
        begun: &TurnBegun,
        mut state: TreeState,
        missing: &mut Vec<Missing>,
    ) -> Result<Tree, RunError> {
        self.sandbox.read_objects(state.submodules.objects().cloned().collect()).await?;
        let preparation = self.preparation();
        let filler = Filler { is_new: false, ..preparation.filler() };
        let filling = filler.fill(&self.mirror, &begun.head, &state.submodules).await?;
        missing.extend(self.skipped(&filling.skipped));
        missing.extend(filling.not_fetched.iter().map(NotFetched::missing));
        state.submodules = filling.state;
        let listing = match filling.written.is_empty() {
            true => None,
            false => {
                // Its sandbox does not see the mirrors of new submodules.
                if let Some(agent) = self.idle.lock().await.take() {
                    agent.end().await;
                }
                // What the service has written is no change of the agent.
                let (before, now) = (self.sandbox.workspace.read_listing().await?, self.scan().await?.listing);
                Some(before.with_folders(&now, &filling.written))
            }
        };
        Ok(Tree { state, listing, ..Tree::default() })
    }

    /// Returns the part that fetches submodules.
    fn sources(&self) -> Sources<'_> {
        Sources {
            mirrors: self.host.mirrors.of(&self.assignment.project.id),
            forges: &*self.host.forges,
            store: &*self.host.store,
            project: &self.assignment.project,
            credential: self.mirror.remote.credential.clone(),
            public_url: &self.host.public_url,
            egress: &self.sandbox.egress,
            now: self.assignment.reporter.now(),
        }
    }

    /// Gives the logs of failed checks to the agent, if the message asks for their repair.
    async fn write_logs(&self) -> Result<(), RunError> {
        let source = self.assignment.claimed.message.source.as_ref();
        let Some(source) = source.filter(|source| !source.logs.is_empty()) else { return Ok(()) };
        let redactor = self.assignment.reporter.redactor();
        let logs = CheckLogs { forge: &*self.forge, redactor, home: &self.sandbox.workspace.home };
        logs.write(&source.logs).await
    }

    /// Gives the images and files of the message's comments to the agent.
    async fn write_files(&self) -> Result<GivenFiles, RunError> {
        let Some(source) = &self.assignment.claimed.message.source else { return Ok(GivenFiles::default()) };
        let redactor = self.assignment.reporter.redactor();
        let files = CommentFiles { forge: &*self.forge, redactor, home: &self.sandbox.workspace.home };
        files.write(source).await
    }

    fn preparation(&self) -> Preparation<'_> {
        let Self { host, assignment, mirror, sandbox, setup, agent, .. } = self;
        let Assignment { project, reporter, signals, .. } = assignment;
        let (prebuilt, gateway, base) = (&host.prebuilt, &*host.gateway, base_environment(host, sandbox));
        let sources = self.sources();
        let fetches = project.settings.checkout.lfs == Lfs::Fetch;
        let lfs = fetches.then(|| LfsFilling {
            objects: &*host.lfs,
            mirror,
            scratch: &sandbox.workspace.scratch,
            job: self.job().id,
            disk_bytes: project.settings.limits.disk_bytes(),
            free: host.space.free(),
        });
        Preparation { project, sandbox, mirror, prebuilt, gateway, reporter, signals, sources, base, setup, agent, lfs }
    }

    async fn commit(&self, begun: &TurnBegun, turn: &Turn, trees: Trees<'_>) -> Result<Work, RunError> {
        let Assignment { project, claimed, signals, .. } = self.assignment;
        let upstream = self.upstream().map(|(_, commit)| commit);
        let sources = self.sources();
        let (scratch, limits) = (&self.sandbox.workspace.scratch, &project.settings.limits);
        let objects = match project.settings.checkout.lfs {
            Lfs::Fetch if trees.scan.has_attributes => Some(TurnObjects {
                objects: &*self.host.lfs,
                blobs: &*self.host.blobs,
                mirror: &self.mirror,
                scratch,
                job: self.job().id,
                token: self.job().token,
                branch: &begun.branch,
                start: &begun.head,
                start_tree: OnceCell::new(),
                file_bytes: limits.file_bytes.unwrap_or(FILE_BYTES),
                stored: std::sync::Mutex::default(),
            }),
            Lfs::Fetch | Lfs::Off => None,
        };
        let environment = base_environment(self.host, &self.sandbox);
        let context = CommitContext {
            sandbox: &self.sandbox,
            environment: &environment,
            signals,
            mirror: &self.mirror,
            turn: begun,
            job: self.job(),
            message: &claimed.message,
            wording: Wording {
                answer: turn.answer.as_deref(),
                subject: project.settings.commits.subject.as_deref(),
                co_author: self.co_author(),
            },
            only_committed: turn.is_stopped(),
            upstream,
            sources: &sources,
            limits,
            scratch,
            objects: objects.as_ref(),
        };
        collect(&context, trees).await
    }

    /// Returns the person at the code host who asked for the work, if commits name co-authors and the host has an address for
    /// them.
    fn co_author(&self) -> Option<CoAuthor> {
        let Assignment { project, claimed, .. } = self.assignment;
        let author =
            claimed.message.source.as_ref()?.author.as_ref().filter(|_| project.settings.commits.co_authors)?;
        CoAuthor::new(&author.name, &self.forge.no_reply_address(author)?)
    }

    /// Fails if the turn has left more on the disk than the limit. Files that the idle agent has open count too.
    async fn check_disk(&self) -> Result<(), RunError> {
        let idle = self.idle.lock().await;
        let process = idle.as_ref().map(Agent::process);
        let disk = Disk::of(&self.sandbox, &self.assignment.project.settings.limits);
        let counted = async { Ok::<_, RunError>(disk.check(process).await) };
        match deadline::within(deadline::SCAN, "counting the disk usage of the workspace", counted).await? {
            Counted::Bytes(_) => Ok(()),
            Counted::Exceeded(error) => Err(error),
        }
    }

    async fn scan(&self) -> Result<TreeScan, RunError> {
        let tree = self.sandbox.workspace.tree.clone();
        let large_from = self.assignment.project.settings.limits.file_bytes.unwrap_or(FILE_BYTES);
        let scanned = async { tokio::task::spawn_blocking(move || scan(&tree, large_from)).await? };
        deadline::within(deadline::SCAN, "scanning the workspace", scanned).await
    }
}

/// Converts an error of the code host before anything was published.
fn not_used(error: ForgeError) -> RunError {
    RepositoryError::from_forge("the repository cannot be used", error).into()
}

fn image(settings: &SandboxSettings) -> Option<Image> {
    settings.image.clone().map(|name| Image { name, pull: settings.pull })
}

/// Returns the variables of every program in the workspace. Few of them come from the machine.
fn base_environment(host: &Host, sandbox: &JobSandbox) -> Environment {
    let mut environment = host.environment.clone();
    if let Some(path) = environment.get_mut("PATH") {
        *path = sandbox.sandbox.search_path(path);
    }
    environment.insert("HOME".to_owned(), sandbox.layout().home.to_string_lossy().into_owned());
    for role in ["AUTHOR", "COMMITTER"] {
        environment.insert(format!("GIT_{role}_NAME"), "Journeyman".to_owned());
        environment.insert(format!("GIT_{role}_EMAIL"), "journeyman@localhost".to_owned());
    }
    environment
}

/// Returns the variables of a program: the base, the project's variables, and the secrets that the program may use.
fn environment(
    host: &Host,
    project: &Project,
    sandbox: &JobSandbox,
    secrets: &Secrets,
    used_by: SecretUse,
) -> Environment {
    let mut environment = base_environment(host, sandbox);
    environment.extend(project.settings.environment.clone());
    let is_given = |name: &String| project.settings.secret_is_for(name, used_by);
    let given = secrets.iter().filter(|(name, _)| name.as_str() != CODE_HOST_TOKEN && is_given(name));
    environment.extend(given.map(|(name, value)| (name.clone(), value.0.clone())));
    environment
}

/// Returns the project's keys for models, by the names of their variables.
fn model_keys(project: &Project, secrets: &Secrets) -> Secrets {
    let is_key = |name: &String| project.settings.secret_is_for(name, SecretUse::Model);
    secrets.iter().filter(|(name, _)| is_key(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns the project's secrets. Redacts them from all later reports, together with the earlier values that the job can
/// have got: its workspace, its home and its conversation may still have them.
async fn secrets(host: &Host, assignment: &Assignment) -> Result<Secrets, RunError> {
    let project = &assignment.project;
    let secrets = match project.secret_names.is_empty() {
        true => Secrets::new(),
        false => host.store.secrets(project.id.clone()).await?,
    };
    // Read after the current values, so that a value that is changed meanwhile is in one of both.
    let since = assignment.claimed.job.created_at;
    let earlier = host.store.retired_secrets(project.id.clone(), since).await?;
    if !secrets.is_empty() || !earlier.is_empty() {
        let earlier = earlier.iter().map(|(name, value)| (name, value));
        assignment.reporter.hide(Redactor::new(secrets.iter().chain(earlier)));
    }
    Ok(secrets)
}
