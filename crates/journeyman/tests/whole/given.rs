//! A house with everything in it, on a store in memory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use journeyman_blobs::Folder;
use journeyman_core::agent::AgentSpec;
use journeyman_core::engine::{Admission, Engine, NewJob, Prompt};
use journeyman_core::ids::{JobId, WorkerId};
use journeyman_core::job::{Job, JobOptions, JobState, JobStatus};
use journeyman_core::message::{DeliveryMode, Message, Origin};
use journeyman_core::ports::{
    Forges, Guarantee, JobStore, Layout, ProjectStore, PullStore, Sandbox, SandboxError, Spawn, Spawned, Store,
};
use journeyman_core::project::{DEFAULT_AGENT, DEFAULT_MODEL, Project, Settings};
use journeyman_core::run::{ReasonCode, Run};
use journeyman_core::time::{Clock, IdGen, Timestamp};
use journeyman_forge::CodeHosts;
use journeyman_gateway::{Doors, ModelSettings, Models, SystemResolver};
use journeyman_git::{Git, Runner};
use journeyman_sandbox::{Bubblewrap, BubblewrapSettings, UserRange};
use journeyman_store::MemoryStore;
use journeyman_testkit::Tapped;
use journeyman_worker::{Host, Limits, Walls, Warm, Worker};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::dying::{Dying, Moment, Wire};
use crate::binary::program;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// As the service has it.
const WARM: Warm = Warm { agents: 2, time: Duration::from_secs(300) };

/// The system's time, and ids that count.
pub(crate) struct World {
    count: AtomicU64,
    begun: Instant,
}

impl Clock for World {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000) + self.begun.elapsed()
    }
}

impl IdGen for World {
    fn uuid(&self, _: Timestamp) -> Uuid {
        Uuid::from_u128(u128::from(self.count.fetch_add(1, Ordering::SeqCst)))
    }

    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

pub(crate) struct House {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) engine: Engine,
    pub(crate) hosts: CodeHosts,
    pub(crate) git: Git,
    pub(crate) project: Project,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) host: Arc<Host>,
    pub(crate) drain: CancellationToken,
    pub(crate) stop: CancellationToken,
    world: Arc<World>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.drain.cancel();
        self.stop.cancel();
    }
}

/// A project on a repository with one commit, and a worker at work.
pub(crate) async fn house() -> House {
    let house = idle(Settings::default()).await;
    house.hire(1, Limits::default());
    house
}

/// The same without a worker.
pub(crate) async fn idle(settings: Settings) -> House {
    idle_with(settings, WARM).await
}

/// The same, with a say in how long agents wait for a follow-up.
pub(crate) async fn idle_with(settings: Settings, warm: Warm) -> House {
    let dir = tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().unwrap();
    let world = Arc::new(World { count: AtomicU64::new(1), begun: Instant::now() });
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::new(store.clone(), world.clone(), world.clone());
    let git = Git::new(Runner { program: "git".into(), path: PATH.into(), environment: vec![], askpass: None });
    let url = "http://localhost:8080".to_owned();
    let hosts = CodeHosts::new(git.clone(), dir.path().join("repos"), url, store.clone(), store.clone(), world.clone());
    let parts = (engine.clone(), store.clone() as Arc<dyn Store>, Arc::new(hosts.clone()) as Arc<dyn Forges>);
    let window = dir.path().join("window");
    std::fs::create_dir(&window).unwrap();
    std::fs::set_permissions(&window, Permissions::from_mode(0o777)).unwrap();
    let host = machine(
        parts,
        &world,
        &git,
        (dir.path().to_owned(), window),
        Folder::new(dir.path().join("blobs"), false),
        warm,
    );
    let project = Project {
        id: "shop".parse().unwrap(),
        repository: "local:shop".to_owned(),
        reference: None,
        agent: DEFAULT_AGENT.to_owned(),
        model: DEFAULT_MODEL.to_owned(),
        created_at: Timestamp::default(),
        settings,
        secret_names: Vec::new(),
    };
    let project = store.create_project(project, [].into()).await.unwrap();
    hosts.prepare(&project).await.unwrap();
    let (drain, stop) = (CancellationToken::new(), CancellationToken::new());
    let house = House { store, engine, hosts, git, project, dir, host, drain, stop, world };
    house.run(&["clone", "--quiet", "repos/shop.git", "clone"], house.dir.path()).await;
    house.people_push("main", "README.md", "# Shop\n").await;
    house
}

/// A machine with its own data directory.
fn machine(
    (engine, store, forges): (Engine, Arc<dyn Store>, Arc<dyn Forges>),
    world: &Arc<World>,
    git: &Git,
    (data, window): (PathBuf, PathBuf),
    blobs: Folder,
    warm: Warm,
) -> Arc<Host> {
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
        select_model: false,
        initialize_seconds: 60,
        flush_millis: 0,
    };
    let models = Models::new(ModelSettings::default(), store.clone(), world.clone()).unwrap();
    Arc::new(Host::new(
        engine,
        store,
        forges,
        Walls::new(Arc::new(Windowed { inner: sandbox(&data), window }), Vec::new()),
        Arc::new(Doors::new(Arc::new(SystemResolver), Vec::new(), models)),
        Arc::new(blobs),
        [(DEFAULT_AGENT.to_owned(), agent)].into(),
        world.clone(),
        git.clone(),
        data,
        [("PATH".to_owned(), PATH.to_owned())].into(),
        warm,
    ))
}

/// A sandbox with a folder through which a test sees what happens inside.
struct Windowed {
    inner: Bubblewrap,
    window: PathBuf,
}

#[async_trait::async_trait]
impl Sandbox for Windowed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn probe(&self) -> Vec<Guarantee> {
        self.inner.probe().await
    }

    fn layout(&self, workspace: &Path, home: &Path) -> Layout {
        self.inner.layout(workspace, home)
    }

    fn search_path(&self, host: &str) -> String {
        self.inner.search_path(host)
    }

    fn has_own_network(&self) -> bool {
        self.inner.has_own_network()
    }

    async fn adopt(&self, folders: &[PathBuf]) -> Result<(), SandboxError> {
        self.inner.adopt(folders).await
    }

    async fn disk_usage(&self, workspace: &Path) -> Option<u64> {
        self.inner.disk_usage(workspace).await
    }

    async fn spawn(&self, mut spawn: Spawn) -> Result<Spawned, SandboxError> {
        spawn.writable.push(self.window.clone());
        self.inner.spawn(spawn).await
    }
}

/// The sandbox of a machine.
fn sandbox(data: &Path) -> Bubblewrap {
    let users = UserRange::default();
    let roots = vec![data.join("workspaces"), data.join("spares")];
    for dir in roots.iter().map(PathBuf::as_path).chain([data]) {
        std::fs::create_dir_all(dir).unwrap();
        std::fs::set_permissions(dir, Permissions::from_mode(0o711)).unwrap();
    }
    let settings = BubblewrapSettings {
        program: "bwrap".into(),
        path: PATH.to_owned(),
        shim: program().into(),
        own_program: program().into(),
        readable: Vec::new(),
        folder: data.join("sandbox"),
        renew: true,
        roots,
        users,
        name: format!("test{}", data.display().to_string().replace('/', "-")),
    };
    Bubblewrap::new(settings).unwrap()
}

impl House {
    /// A machine of several, which shares the store, the code host and the blobs with the others.
    fn other_machine(&self, name: &str, store: Arc<dyn Store>, forges: Arc<dyn Forges>) -> Arc<Host> {
        let engine = Engine::new(Arc::clone(&store), self.world.clone(), self.world.clone());
        let data = self.dir.path().join(name);
        std::fs::create_dir_all(&data).unwrap();
        let blobs = Folder::new(self.dir.path().join("shared-blobs"), true);
        machine((engine, store, forges), &self.world, &self.git, (data, self.window()), blobs, WARM)
    }

    /// The folder that programs in sandboxes share with the test.
    pub(crate) fn window(&self) -> PathBuf {
        self.dir.path().join("window")
    }

    fn set_to_work(&self, host: Arc<Host>, number: u128, limits: Limits) -> tokio::task::JoinHandle<()> {
        let worker = Worker::new(host, WorkerId::from_uuid(Uuid::from_u128(number)), limits);
        let (drain, stop) = (self.drain.clone(), self.stop.clone());
        tokio::spawn(async move { worker.work(drain, stop).await })
    }

    /// Another machine at work.
    pub(crate) fn hire_machine(&self, name: &str, limits: Limits) -> tokio::task::JoinHandle<()> {
        let host = self.other_machine(name, self.store.clone(), Arc::new(self.hosts.clone()));
        self.set_to_work(host, 12, limits)
    }

    /// A machine that dies at `moment` of the next run that comes to it.
    pub(crate) fn hire_dying(&self, name: &str, moment: Moment, limits: Limits) -> Arc<Dying> {
        let dying = Dying::new(self.hosts.clone(), moment);
        let store = Arc::new(Tapped::new(self.store.clone(), dying.clone()));
        let host = self.other_machine(name, store, Arc::new(Wire(dying.clone())));
        self.set_to_work(host, 11, limits);
        dying
    }

    /// How many pull requests the code host has.
    pub(crate) async fn pulls(&self) -> usize {
        self.store.pulls("shop".to_owned()).await.unwrap().len()
    }

    pub(crate) async fn runs(&self, job: JobId) -> Vec<Run> {
        self.store.runs(job).await.unwrap()
    }

    /// A worker that works until the house is gone.
    pub(crate) fn hire(&self, number: u128, limits: Limits) -> tokio::task::JoinHandle<()> {
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

    /// A commit on top of what the clone has checked out, pushed to `branch`.
    pub(crate) async fn people_push(&self, branch: &str, file: &str, text: &str) {
        std::fs::write(self.clone().join(file), text).unwrap();
        self.run(&["add", "--all"], &self.clone()).await;
        self.run(&["commit", "--quiet", "-m", &format!("Write {file}")], &self.clone()).await;
        self.run(&["push", "--quiet", "origin", &format!("HEAD:refs/heads/{branch}")], &self.clone()).await;
    }

    pub(crate) async fn create(&self, text: &str) -> JobId {
        let new =
            NewJob { prompt: prompt(text), reference: None, model: None, agent: None, options: JobOptions::default() };
        self.engine.create_job(&self.project, new, Admission::default()).await.unwrap().record.id
    }

    pub(crate) async fn send(&self, job: JobId, text: &str) {
        self.say(job, text, DeliveryMode::Queue).await;
    }

    pub(crate) async fn say(&self, job: JobId, text: &str, delivery: DeliveryMode) {
        let prompt = Prompt { delivery, ..prompt(text) };
        self.engine.add_message(&self.project.id, job, prompt, Admission::default()).await.unwrap();
    }

    pub(crate) async fn job(&self, job: JobId) -> Job {
        self.store.job(job).await.unwrap().unwrap()
    }

    pub(crate) async fn messages(&self, job: JobId) -> Vec<Message> {
        self.store.messages(job).await.unwrap()
    }

    /// Events of that type in the log.
    pub(crate) async fn count(&self, job: JobId, kind: &str) -> usize {
        let log = self.store.log(job, 0, 10_000).await.unwrap();
        log.iter().filter(|entry| entry.kind == kind).count()
    }

    /// Waits until the log holds an event of that type, so often.
    pub(crate) async fn until(&self, job: JobId, kind: &str, times: usize) {
        let seen = async {
            loop {
                // Read before the log is: what comes between is then not waited for in vain.
                let last = self.job(job).await.last_seq;
                if self.count(job, kind).await >= times {
                    return;
                }
                self.store.watch(job).changed(last).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(60), seen).await.is_err() {
            panic!("no {kind} came; the log: {:#?}", self.store.log(job, 0, 10_000).await);
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
        match tokio::time::timeout(Duration::from_secs(60), settled).await {
            Ok(job) => job,
            Err(_) => panic!("the job stays active; its log: {:#?}", self.store.log(job, 0, 10_000).await),
        }
    }

    /// Waits until the job fails or waits; returns the reason.
    pub(crate) async fn settled_or_waiting(&self, job: JobId) -> (ReasonCode, String) {
        let end = tokio::time::Instant::now() + Duration::from_secs(60);
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

    /// A file on a branch of the code host.
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
    Prompt { text: text.to_owned(), origin: Origin::Api, author: None, delivery: DeliveryMode::Queue }
}
