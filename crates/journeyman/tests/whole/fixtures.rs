//! A test harness: a project on the built-in code host, and workers in the test process, with a temporary store.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journeyman_blobs::Folder;
use journeyman_core::agent::AgentSpec;
use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::ids::{JobId, WorkerId};
use journeyman_core::job::{Job, JobState, JobStatus};
use journeyman_core::message::{DeliveryMode, Message, Origin};
use journeyman_core::ports::{Blobs, Forges, JobStore, PullStore, Store};
use journeyman_core::project::{DEFAULT_AGENT, Project, Settings};
use journeyman_core::run::{ReasonCode, Run};
use journeyman_core::time::Timestamp;
use journeyman_forge::{CodeHosts, Parts};
use journeyman_gateway::{ModelSettings, Models, SandboxGateway};
use journeyman_git::{Git, Runner};
use journeyman_lfs::Lfs;
use journeyman_net::{Policy, SystemResolver};
use journeyman_repository::Mirrors;
use journeyman_repository::diff::MirrorDiffs;
use journeyman_store::SqliteStore;
use journeyman_testkit::{FaultyBlobs, PATIENCE, Seeds as _, Tapped, World};
use journeyman_worker::{ContainmentCheck, Host, IdleAgentLimits, Limits, Resources, Worker};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::crashing::{CrashingForges, CrashingMachine, Moment};
use super::sandbox::SharingSandbox;
use crate::binary::program;

pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Limits for idle agents, with the time that is the default of the service.
const IDLE_AGENTS: IdleAgentLimits = IdleAgentLimits { agents: 2, time: Duration::from_secs(300) };

pub(crate) struct Harness {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) engine: Engine,
    pub(crate) hosts: CodeHosts,
    pub(crate) git: Git,
    pub(crate) project: Project,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) host: Arc<Host>,
    pub(crate) diffs: MirrorDiffs,
    pub(crate) drain: CancellationToken,
    pub(crate) stop: CancellationToken,
    pub(super) world: Arc<World>,
    /// The blob store of the other machines.
    pub(crate) shared_blobs: Arc<FaultyBlobs>,
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.drain.cancel();
        self.stop.cancel();
    }
}

/// Returns a harness whose repository has one commit, with a running worker.
pub(crate) async fn harness() -> Harness {
    let harness = idle(Settings::default()).await;
    harness.start_worker(1, Limits::default());
    harness
}

/// Returns a harness like [`harness`], without a worker.
pub(crate) async fn idle(settings: Settings) -> Harness {
    idle_with(settings, IDLE_AGENTS).await
}

/// Returns a harness like [`idle`], with limits for idle agents.
pub(crate) async fn idle_with(settings: Settings, idle_agents: IdleAgentLimits) -> Harness {
    idle_with_blobs(settings, idle_agents, |folder| Arc::new(Folder::new(folder.to_owned(), false))).await
}

/// Returns a harness like [`idle_with`], with a blob store that `blobs` creates for a folder.
pub(crate) async fn idle_with_blobs(
    settings: Settings,
    idle_agents: IdleAgentLimits,
    blobs: impl FnOnce(&Path) -> Arc<dyn Blobs>,
) -> Harness {
    let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap();
    let world = World::running();
    let store = Arc::new(SqliteStore::temporary(World::new()).unwrap());
    let engine = Engine::new(store.clone(), world.clone(), world.clone());
    let git = Git::new(Runner { program: "git".into(), path: PATH.into(), environment: vec![], askpass: None });
    let url = "http://localhost:8080".to_owned();
    let hosts = CodeHosts::new(Parts {
        git: git.clone(),
        repositories: dir.path().join("repos"),
        hooks: dir.path().join("hooks"),
        public_url: url,
        pulls: store.clone(),
        comparisons: store.clone(),
        users: store.clone(),
        secrets: store.clone(),
        hosts: store.clone(),
        configured: Vec::new(),
        outbound: journeyman_net::Outbound::default(),
        objects: Arc::new(journeyman_testkit::FakeHostedObjects::default()),
        clock: world.clone(),
    });
    let parts = (engine.clone(), store.clone() as Arc<dyn Store>, Arc::new(hosts.clone()) as Arc<dyn Forges>);
    let shared_dir = dir.path().join("shared");
    std::fs::create_dir(&shared_dir).unwrap();
    std::fs::set_permissions(&shared_dir, Permissions::from_mode(0o777)).unwrap();
    let (host, diffs) = machine(
        parts,
        &world,
        &git,
        (dir.path().to_owned(), shared_dir),
        blobs(&dir.path().join("blobs")),
        idle_agents,
    );
    let project = Project { settings, ..Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default()) };
    let project = store.create_project(project, [].into()).await.unwrap();
    hosts.prepare(&project).await.unwrap();
    let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
    let shared_blobs = Arc::new(FaultyBlobs::new(Arc::new(Folder::new(dir.path().join("shared-blobs"), true))));
    let harness = Harness { shared_blobs, store, engine, hosts, git, project, dir, host, diffs, drain, stop, world };
    harness.run(&["clone", "--quiet", "repos/shop.git", "clone"], harness.dir.path()).await;
    harness.people_push("main", "README.md", "# Shop\n").await;
    harness
}

/// Returns the host of a machine with a data directory.
fn machine(
    (engine, store, forges): (Engine, Arc<dyn Store>, Arc<dyn Forges>),
    world: &Arc<World>,
    git: &Git,
    (data, shared_dir): (PathBuf, PathBuf),
    blobs: Arc<dyn Blobs>,
    idle_agents: IdleAgentLimits,
) -> (Arc<Host>, MirrorDiffs) {
    let agent = AgentSpec {
        command: [program(), "agent", "--model", "{model}", "--state-dir", "{home}/sessions"]
            .map(str::to_owned)
            .to_vec(),
        name: None,
        readable: vec![program().into()],
        environment: [].into(),
        files: [].into(),
        dialects: Vec::new(),
        install: None,
        resume: true,
        mode: None,
        ask_mode: None,
        auth_method: None,
        asks: [].into(),
        effort: None,
        select_model: false,
        initialize_seconds: 60,
        flush_millis: 0,
    };
    let models = Models::new(ModelSettings::default(), store.clone(), world.clone());
    let sandbox = Arc::new(SharingSandbox::new(&data, shared_dir));
    let mirrors = Arc::new(Mirrors::new(git.clone(), data.join("mirrors")));
    let diffs = MirrorDiffs::new(Arc::clone(&forges), Arc::clone(&blobs), Arc::clone(&mirrors), &data);
    let host = Host::new(Resources {
        engine,
        store,
        forges,
        containment: ContainmentCheck::new(sandbox, Vec::new()),
        gateway: Arc::new(SandboxGateway::new(Arc::new(SystemResolver), Policy::Public(Arc::default()), models)),
        lfs: Arc::new(Lfs::new(git.clone(), Arc::clone(&blobs), world.clone())),
        blobs,
        agents: [(DEFAULT_AGENT.to_owned(), agent)].into(),
        ids: world.clone(),
        mirrors,
        public_url: "http://localhost:8080".to_owned(),
        data,
        environment: [("PATH".to_owned(), PATH.to_owned())].into(),
        idle_agent_limits: idle_agents,
        disk_reserve: None,
    });
    (Arc::new(host), diffs)
}

impl Harness {
    /// Returns the host of another machine, which shares only the blobs, and the store and code host that are given.
    fn other_machine(&self, name: &str, store: Arc<dyn Store>, forges: Arc<dyn Forges>) -> Arc<Host> {
        let engine = Engine::new(store.clone(), self.world.clone(), self.world.clone());
        let data = self.dir.path().join(name);
        std::fs::create_dir_all(&data).unwrap();
        let blobs = Arc::clone(&self.shared_blobs) as Arc<dyn Blobs>;
        machine((engine, store, forges), &self.world, &self.git, (data, self.shared_dir()), blobs, IDLE_AGENTS).0
    }

    /// Returns the folder that programs in sandboxes share with the test.
    pub(crate) fn shared_dir(&self) -> PathBuf {
        self.dir.path().join("shared")
    }

    /// Returns a directive of the test model that waits until [`Harness::release`] with the same name.
    pub(crate) fn hold(&self, name: &str) -> String {
        format!("[[run until [ -e {} ]; do sleep 0.05; done]]", self.shared_dir().join(name).display())
    }

    /// Ends the directives of [`Harness::hold`] with this name.
    pub(crate) fn release(&self, name: &str) {
        std::fs::write(self.shared_dir().join(name), "").unwrap();
    }

    fn start_worker_on(&self, host: Arc<Host>, number: u128, limits: Limits) -> tokio::task::JoinHandle<()> {
        let worker = Worker::new(host, WorkerId::from_uuid(Uuid::from_u128(number)), limits);
        let (drain, stop) = (self.drain.clone(), self.stop.clone());
        tokio::spawn(async move { worker.work(drain, stop).await })
    }

    /// Starts a worker on another machine.
    pub(crate) fn start_machine(&self, name: &str, limits: Limits) -> tokio::task::JoinHandle<()> {
        let host = self.other_machine(name, self.store.clone(), Arc::new(self.hosts.clone()));
        self.start_worker_on(host, 12, limits)
    }

    /// Starts a worker on another machine, which crashes at `moment` of its next run.
    pub(crate) fn start_crashing_machine(&self, name: &str, moment: Moment, limits: Limits) -> Arc<CrashingMachine> {
        let machine = CrashingMachine::new(self.hosts.clone(), moment);
        let store = Arc::new(Tapped::new(self.store.clone(), machine.clone()));
        let host = self.other_machine(name, store, Arc::new(CrashingForges(machine.clone())));
        self.start_worker_on(host, 11, limits);
        machine
    }

    /// Returns the number of pull requests on the code host.
    pub(crate) async fn pulls(&self) -> usize {
        self.store.pulls("shop".to_owned()).await.unwrap().len()
    }

    pub(crate) async fn runs(&self, job: JobId) -> Vec<Run> {
        self.store.runs(job).await.unwrap()
    }

    /// Starts a worker, which runs until the harness is dropped.
    pub(crate) fn start_worker(&self, number: u128, limits: Limits) -> tokio::task::JoinHandle<()> {
        let worker = Worker::new(Arc::clone(&self.host), WorkerId::from_uuid(Uuid::from_u128(number)), limits);
        let (drain, stop) = (self.drain.clone(), self.stop.clone());
        tokio::spawn(async move { worker.work(drain, stop).await })
    }

    pub(crate) async fn run(&self, arguments: &[&str], directory: &Path) {
        self.git.command(arguments).directory(directory).run().await.unwrap();
    }

    pub(crate) fn clone(&self) -> PathBuf {
        self.dir.path().join("clone")
    }

    /// Commits a file on top of what the clone has checked out, and pushes the commit to `branch`.
    pub(crate) async fn people_push(&self, branch: &str, file: &str, text: &str) {
        std::fs::write(self.clone().join(file), text).unwrap();
        self.run(&["add", "--all"], &self.clone()).await;
        self.run(&["commit", "--quiet", "-m", &format!("Write {file}")], &self.clone()).await;
        self.run(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{branch}")], &self.clone()).await;
    }

    pub(crate) async fn create(&self, text: &str) -> JobId {
        let new = NewJob::new(prompt(text));
        self.engine.create_job(&self.project, new, Admission::default()).await.unwrap().record.id
    }

    pub(crate) async fn send(&self, job: JobId, text: &str) {
        self.send_with(job, text, DeliveryMode::Queue).await;
    }

    pub(crate) async fn send_with(&self, job: JobId, text: &str, delivery: DeliveryMode) {
        let prompt = Prompt { delivery, ..prompt(text) };
        self.engine.add_message(&self.project.id, job, prompt, Admission::default()).await.unwrap();
    }

    pub(crate) async fn job(&self, job: JobId) -> Job {
        self.store.job(job).await.unwrap().unwrap()
    }

    pub(crate) async fn messages(&self, job: JobId) -> Vec<Message> {
        self.store.messages(job).await.unwrap()
    }

    /// Returns the number of events of a type in the job's log.
    pub(crate) async fn count(&self, job: JobId, kind: &str) -> usize {
        let log = self.store.log(job, 0, 10_000).await.unwrap();
        log.iter().filter(|entry| entry.kind == kind).count()
    }

    /// Waits until the job's log has `times` events of a type.
    pub(crate) async fn until(&self, job: JobId, kind: &str, times: usize) {
        let seen = async {
            loop {
                // Read the sequence number before the log, so that an event in between ends the wait below.
                let last = self.job(job).await.last_seq;
                if self.count(job, kind).await >= times {
                    return;
                }
                self.store.watch(job).changed(last).await;
            }
        };
        if tokio::time::timeout(PATIENCE, seen).await.is_err() {
            panic!("the log has too few {kind} events: {:#?}", self.store.log(job, 0, 10_000).await);
        }
    }

    /// Waits until the job is not active.
    pub(crate) async fn settled(&self, job: JobId) -> Job {
        let settled = async {
            loop {
                let now = self.job(job).await;
                if now.status() != JobStatus::Active {
                    return now;
                }
                self.store.watch(job).changed(now.last_seq).await;
            }
        };
        match tokio::time::timeout(PATIENCE, settled).await {
            Ok(job) => job,
            Err(_) => panic!("the job is still active; its log: {:#?}", self.store.log(job, 0, 10_000).await),
        }
    }

    /// Waits until the job fails or waits; returns the reason.
    pub(crate) async fn settled_or_waiting(&self, job: JobId) -> (ReasonCode, String) {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let now = self.job(job).await;
            let reason = match (&now.state, now.waiting()) {
                (JobState::Failed(reason), _) => Some(reason.clone()),
                (_, Some((waiting, _))) => Some(waiting.reason.clone()),
                _ => None,
            };
            if let Some(reason) = reason {
                return (reason.code, reason.text);
            }
            assert!(tokio::time::Instant::now() < end, "the job neither fails nor waits: {now:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns the text of a file on a branch of the code host; `None` if there is no such file.
    pub(crate) async fn file(&self, branch: &str, file: &str) -> Option<String> {
        let path = self.dir.path().join("repos/shop.git");
        let shown = self.git.at(&path, ["show", &format!("refs/heads/{branch}:{file}")]).run().await;
        shown.ok().map(|output| String::from_utf8(output.stdout).unwrap())
    }

    pub(crate) async fn branch_commits(&self, branch: &str) -> Vec<String> {
        let path = self.dir.path().join("repos/shop.git");
        let listed = self.git.at(&path, ["rev-list", "--reverse", &format!("refs/heads/{branch}")]).run().await;
        listed.unwrap().text().unwrap().lines().map(str::to_owned).collect()
    }
}

fn prompt(text: &str) -> Prompt {
    Prompt {
        text: text.to_owned(),
        origin: Origin::Api,
        author: None,
        key: None,
        delivery: DeliveryMode::Queue,
        traceparent: None,
        source: None,
    }
}
