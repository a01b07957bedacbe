//! For tests: a repository with commits of people and agents, and a workspace whose programs run without a sandbox.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use journeyman_core::commit::subject::CoAuthor;
use journeyman_core::egress::Allowlist;
use journeyman_core::engine::{Admission, Claimed, Engine, NewJob, Prompt};
use journeyman_core::ids::{Sha, WorkerId};
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::message::{DeliveryMode, Origin};
use journeyman_core::ports::{
    Blob, BlobContent, BlobError, Blobs, EgressLog, Exit, Gate, Gateway, ModelProxy, ModelRoute, Process, Reach,
    Remote, SandboxError, Spawn, Spawned,
};
use journeyman_core::project::{Lfs, LimitSettings, Project, Resources, Settings};
use journeyman_core::run::Reason;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use journeyman_core::worker::FreeSpace;
use journeyman_git::{Git, Runner};
use journeyman_store::SqliteStore;
use journeyman_testkit::{FakeForges, FakeLfs, FakeSandbox, Seeds as _, World};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use journeyman_repository::{Mirror, Mirrors, ProjectMirrors};

use crate::claim::lease::{Reporter, Signals};
use crate::commit::lfs_objects::TurnObjects;
use crate::commit::{CollectedCommits, CommitContext, Trees, Wording, Work, collect};
use crate::error::RunError;
use crate::lfs::fill::{Filling as LfsFilling, NotFetched};
use crate::run::setup::preparation::{Preparation, Prepared};
use crate::sandbox::job_sandbox::{JobSandbox, Readable};
use crate::submodules::SubmoduleState;
use crate::submodules::fill::{Filler, Filling};
use crate::submodules::sources::Sources;
use crate::workspace::Workspace;
use crate::workspace::free_space::Space;
use crate::workspace::listing::Listing;
use crate::workspace::prebuilt::PrebuiltTrees;
use crate::workspace::scan::{TreeScan, scan};
use crate::workspace::session::{NotKept, Session};
use crate::workspace::state::{TreeState, digest};

/// The value of the secret `TOKEN`.
pub(crate) const VALUE: &str = "s3cret-9f8e-s3cret";

/// The branch of the job.
pub(crate) const BRANCH: &str = "journeyman/work-1";

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A project, its repository, and the workspace of a job.
pub(crate) struct Fixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) project: Project,
    pub(crate) sandbox: JobSandbox,
    git: Git,
    mirrors: ProjectMirrors,
    prebuilt: PrebuiltTrees,
    pub(crate) blobs: Files,
    /// The objects of Git LFS of the code host.
    pub(crate) lfs: Arc<FakeLfs>,
    pub(crate) claimed: Claimed,
    /// The free space of the disk.
    pub(crate) free: Option<FreeSpace>,
    /// The maximum size of a file in a commit, in bytes.
    pub(crate) file_bytes: u64,
    /// The agent's answer.
    pub(crate) answer: Option<String>,
    /// The person at the code host who asked for the work.
    pub(crate) co_author: Option<CoAuthor>,
    reporter: Reporter,
    signals: Signals,
    store: Arc<SqliteStore>,
    /// The submodules that were filled last.
    pub(crate) filling: Mutex<Filling>,
    /// What is told about the home of the workspace that was built last.
    pub(crate) lost_home: Mutex<Option<NotKept>>,
}

/// A tree before a turn.
pub(crate) struct Built {
    pub(crate) head: Sha,
    pub(crate) state: TreeState,
    pub(crate) listing: Listing,
}

/// Creates a project with the setup command `setup`, on a repository without a commit.
pub(crate) async fn fixture(setup: &str) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::new(Runner { program: "git".into(), path: PATH.into(), environment: vec![], askpass: None });
    let project = Project {
        settings: Settings { setup: Some(setup.to_owned()), ..Settings::default() },
        ..Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default())
    };
    let (store, world) = (Arc::new(SqliteStore::temporary(World::new()).unwrap()), World::new());
    let project = store.create_project(project, [].into()).await.unwrap();
    let engine = Engine::new(store.clone(), world.clone(), world);
    let prompt = Prompt {
        text: "x".to_owned(),
        origin: Origin::Api,
        author: None,
        key: None,
        delivery: DeliveryMode::Queue,
        traceparent: None,
        source: None,
    };
    let new = NewJob::new(prompt);
    engine.create_job(&project, new, Admission::default()).await.unwrap();
    let worker = WorkerId::from_uuid(Uuid::from_u128(1));
    let mut claimed = engine.claim(worker, Duration::from_secs(3600)).await.unwrap().unwrap();
    // Git has the time of this machine, and not that of the tests.
    claimed.message.delivered_at = None;
    let [stop, lost, shutdown] = std::array::from_fn(|_| CancellationToken::new());
    let signals = Signals { stop, lost, shutdown };
    let mirrors = Arc::new(Mirrors::new(git.clone(), dir.path().join("mirrors"))).of(&"shop".parse().unwrap());
    let sandbox = JobSandbox {
        sandbox: Arc::new(FakeSandbox::new().on_spawn(start_plainly)),
        workspace: Workspace::new(dir.path(), claimed.job.id, &Arc::from("test")),
        readable: Readable::default(),
        resources: Resources::default(),
        egress: Allowlist::default(),
        image: None,
        space: Space::new(dir.path().to_owned(), Some(0)),
    };
    let fixture = Fixture {
        project,
        sandbox,
        git,
        mirrors,
        prebuilt: PrebuiltTrees::new(dir.path().join("spares")),
        blobs: Files(dir.path().join("blobs")),
        lfs: Arc::default(),
        reporter: Reporter::new(engine, &claimed, signals.clone()),
        claimed,
        free: None,
        file_bytes: 1000,
        answer: None,
        co_author: None,
        signals,
        store,
        filling: Mutex::default(),
        lost_home: Mutex::default(),
        dir,
    };
    git_in(fixture.dir.path(), &["init", "--quiet", "--bare", "--initial-branch=main", "origin.git"]);
    git_in(fixture.dir.path(), &["init", "--quiet", "--initial-branch=main", "clone"]);
    fixture
}

impl Fixture {
    /// Commits these files on top of the clone's head and pushes to `branch`; an empty text removes a file.
    pub(crate) fn commit(&self, branch: &str, files: &[(&str, &str)]) -> Sha {
        let clone = self.dir.path().join("clone");
        for (file, text) in files {
            write(&clone.join(file), text);
        }
        git_in(&clone, &["add", "--all", "--force"]);
        git_in(&clone, &["commit", "--quiet", "--allow-empty", "--message", "x"]);
        git_in(&clone, &["push", "--quiet", "--force", "../origin.git", &format!("HEAD:refs/heads/{branch}")]);
        git_in(&clone, &["rev-parse", "HEAD"]).trim().parse().unwrap()
    }

    pub(crate) fn in_clone(&self, arguments: &[&str]) -> String {
        git_in(&self.dir.path().join("clone"), arguments)
    }

    /// Runs git in the clone with an input.
    pub(crate) fn in_clone_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let file = self.dir.path().join("input");
        std::fs::write(&file, input).unwrap();
        let mut git = Command::new("git");
        git.args(arguments).current_dir(self.dir.path().join("clone")).env("GIT_CONFIG_GLOBAL", "/dev/null");
        text_of(git.stdin(std::fs::File::open(file).unwrap()))
    }

    /// Stores a home with these files, as after a turn of the agent.
    pub(crate) async fn store_home(&self, files: &[(&str, &str)]) {
        let home = &self.sandbox.workspace.home;
        std::fs::create_dir_all(home).unwrap();
        for (file, text) in files {
            write(&home.join(file), text);
        }
        assert_eq!(self.sandbox.workspace.save_session(&self.blobs, "home").await.unwrap(), None);
    }

    /// Returns the path of the prepared home, which new workspaces get if it exists.
    pub(crate) fn prepared_home(&self) -> PathBuf {
        self.dir.path().join("prepared")
    }

    pub(crate) async fn mirror(&self) -> Mirror {
        let url = self.dir.path().join("origin.git").display().to_string();
        self.mirrors.fetch(Remote { url, credential: None, is_ours: true, reach: Reach::Public }).await.unwrap()
    }

    /// Builds the workspace for a turn at `head`, without a home or with the stored one; with `shared`, the agent gets
    /// the same variables as the setup command.
    pub(crate) async fn prepare(&self, head: &Sha, has_home: bool, shared: bool) -> Result<Vec<NotFetched>, RunError> {
        let mirror = self.mirror().await;
        let base = self.environment();
        let setup: BTreeMap<_, _> = base.clone().into_iter().chain([("TOKEN".to_owned(), VALUE.to_owned())]).collect();
        let agent = if shared { setup.clone() } else { base.clone() };
        let preparation = Preparation {
            project: &self.project,
            sandbox: &self.sandbox,
            mirror: &mirror,
            prebuilt: &self.prebuilt,
            gateway: &Closed,
            reporter: &self.reporter,
            signals: &self.signals,
            sources: self.sources(),
            base,
            setup: &setup,
            agent: &agent,
            lfs: (self.project.settings.checkout.lfs == Lfs::Fetch).then(|| LfsFilling {
                objects: &*self.lfs,
                mirror: &mirror,
                scratch: &self.sandbox.workspace.scratch,
                job: self.claimed.job.id,
                disk_bytes: self.project.settings.limits.disk_bytes(),
                free: self.free,
            }),
        };
        let prepared = self.prepared_home();
        let prepared = prepared.exists().then_some(&*prepared);
        let session = Session { blobs: &self.blobs, archive: has_home.then_some("home"), prepared };
        let Prepared { submodules, mut not_fetched, lost_home } = preparation.prepare(&turn(head), &session).await?;
        not_fetched.extend(submodules.not_fetched.iter().cloned());
        *self.filling.lock().unwrap() = submodules;
        *self.lost_home.lock().unwrap() = lost_home;
        Ok(not_fetched)
    }

    /// Lets the submodules of the tree follow the pointers of a commit, as before a follow-up turn.
    pub(crate) async fn fill(&self, head: &Sha, before: &SubmoduleState) -> Result<Filling, RunError> {
        let (mirror, sources, environment) = (self.mirror().await, self.sources(), self.environment());
        let limits = &self.project.settings.limits;
        let Self { sandbox, signals, .. } = self;
        let lfs = LfsFilling {
            objects: &*self.lfs,
            mirror: &mirror,
            scratch: &sandbox.workspace.scratch,
            job: self.claimed.job.id,
            disk_bytes: limits.disk_bytes(),
            free: self.free,
        };
        let lfs = Some(&lfs);
        let filler =
            Filler { sources: &sources, sandbox, signals, limits, is_new: false, environment: &environment, lfs };
        filler.fill(&mirror, head, before).await
    }

    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources {
            mirrors: self.mirrors.clone(),
            forges: &FakeForges,
            store: &*self.store,
            project: &self.project,
            credential: None,
            public_url: "https://agents.example",
            egress: &self.sandbox.egress,
            now: Timestamp::default(),
        }
    }

    /// Builds the workspace at the head of `main`, and returns the state of its tree.
    pub(crate) async fn build(&self) -> Built {
        let mirror = self.mirror().await;
        let head = mirror.heads["main"].clone();
        self.prepare(&head, false, true).await.unwrap();
        let scanned = self.scan();
        let submodules = self.filling.lock().unwrap().state.clone();
        let state =
            TreeState { unmarked_index: scanned.index, ignore_rules: digest(&[]), submodules, ..TreeState::default() };
        Built { head, state, listing: scanned.listing }
    }

    /// Scans the tree.
    pub(crate) fn scan(&self) -> TreeScan {
        scan(&self.sandbox.workspace.tree, self.file_bytes).unwrap()
    }

    /// Commits the changes of a turn.
    pub(crate) async fn collect(&self, before: &Built) -> Result<CollectedCommits, RunError> {
        match self.work(before).await? {
            Work::Committed(commits) => Ok(commits),
            Work::Unfinished(unfinished) => panic!("{unfinished:?}"),
        }
    }

    /// Commits the changes of a turn, unless they are not finished. The work is merged into `main`.
    pub(crate) async fn work(&self, before: &Built) -> Result<Work, RunError> {
        let mirror = self.mirror().await;
        let limits = LimitSettings { file_bytes: Some(self.file_bytes), ..LimitSettings::default() };
        let sources = self.sources();
        let scratch = &self.sandbox.workspace.scratch;
        let objects = match self.project.settings.checkout.lfs {
            Lfs::Off => None,
            Lfs::Fetch => Some(TurnObjects {
                objects: &*self.lfs,
                blobs: &self.blobs,
                mirror: &mirror,
                scratch,
                job: self.claimed.job.id,
                token: self.claimed.job.token,
                branch: BRANCH,
                start: &before.head,
                start_tree: OnceCell::new(),
                file_bytes: self.file_bytes,
                stored: Mutex::default(),
            }),
        };
        let (environment, turn, scanned) = (self.environment(), turn(&before.head), self.scan());
        let context = CommitContext {
            sandbox: &self.sandbox,
            environment: &environment,
            signals: &self.signals,
            mirror: &mirror,
            turn: &turn,
            job: &self.claimed.job,
            message: &self.claimed.message,
            wording: Wording {
                answer: self.answer.as_deref(),
                subject: self.project.settings.commits.subject.as_deref(),
                co_author: self.co_author.clone(),
            },
            only_committed: false,
            upstream: mirror.heads.get("main"),
            limits: &limits,
            sources: &sources,
            scratch,
            objects: objects.as_ref(),
        };
        let trees = Trees { state: &before.state, listing: &before.listing, scan: &scanned };
        collect(&context, trees).await
    }

    /// Returns the state before the turn that follows.
    pub(crate) fn next(&self, before: &Built, collected: CollectedCommits) -> Built {
        let state = TreeState {
            unmarked_index: self.scan().index.filter(|_| !collected.has_marks),
            ignore_rules: collected.ignore_rules,
            submodules: collected.submodules,
            ..before.state.clone()
        };
        Built { head: collected.head, state, listing: collected.listing }
    }

    /// Runs a shell command in the tree, as the agent does.
    pub(crate) fn run(&self, command: &str) {
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).current_dir(&self.sandbox.workspace.tree).env_clear().envs(self.environment());
        text_of(&mut shell);
    }

    /// Returns the variables of programs.
    fn environment(&self) -> BTreeMap<String, String> {
        let home = self.sandbox.layout().home.display().to_string();
        let mut all = vec![("PATH", PATH.to_owned()), ("HOME", home)];
        for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            all.push((name, "ada@example.com".to_owned()));
        }
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Reads a file of the tree.
    pub(crate) fn tree(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox.workspace.tree.join(file)).ok()
    }

    /// Reads a file of the home.
    pub(crate) fn home(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox.workspace.home.join(file)).ok()
    }

    /// Returns whether a file that the agent may read contains the secret's value.
    pub(crate) fn is_leaked(&self) -> bool {
        let found = Command::new("grep").args(["-rqs", VALUE]).arg(&self.sandbox.workspace.root).status().unwrap();
        found.success()
    }

    /// Returns git's status of the tree, from the agent's own repository or from the committer's.
    pub(crate) fn status(&self, of_committer: bool) -> String {
        let Workspace { tree, commit_dir, .. } = &self.sandbox.workspace;
        let mut git = Command::new("git");
        git.args(["status", "--porcelain", "--branch"]).current_dir(tree).env("GIT_CONFIG_GLOBAL", "/dev/null");
        if of_committer {
            git.env("GIT_DIR", commit_dir.join("git"))
                .env("GIT_WORK_TREE", tree)
                .env("GIT_INDEX_FILE", commit_dir.join("index"));
        }
        text_of(&mut git)
    }

    /// Returns the head of the agent's own repository.
    pub(crate) async fn head(&self) -> String {
        let asked = self.git.command(["rev-parse", "HEAD"]).directory(&self.sandbox.workspace.tree).run().await;
        asked.unwrap().text().unwrap().trim().to_owned()
    }
}

pub(crate) fn turn(head: &Sha) -> TurnBegun {
    let (base, head) = (head.clone(), head.clone());
    TurnBegun {
        branch: BRANCH.to_owned(),
        generation: 1,
        base,
        head,
        pushed: None,
        default_branch: None,
        repository: None,
    }
}

fn write(path: &Path, text: &str) {
    if text.is_empty() {
        return std::fs::remove_file(path).unwrap();
    }
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn git_in(dir: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(arguments);
    text_of(git.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null"))
}

pub(crate) fn text_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Blobs in a folder.
pub(crate) struct Files(PathBuf);

#[async_trait]
impl Blobs for Files {
    fn is_shared(&self) -> bool {
        false
    }

    async fn put(&self, key: &str, file: &Path) -> Result<(), BlobError> {
        let to = self.0.join(key);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::rename(file, to).unwrap();
        Ok(())
    }

    async fn check_writes(&self) -> Result<(), BlobError> {
        Ok(())
    }

    async fn get(&self, key: &str, file: &Path) -> Result<bool, BlobError> {
        Ok(std::fs::copy(self.0.join(key), file).is_ok())
    }

    async fn find(&self, key: &str) -> Result<Option<Blob>, BlobError> {
        let found = std::fs::metadata(self.0.join(key)).ok();
        Ok(found.map(|found| Blob { key: key.to_owned(), bytes: found.len(), written_at: Timestamp::default() }))
    }

    async fn renew(&self, key: &str) -> Result<bool, BlobError> {
        Ok(self.0.join(key).exists())
    }

    async fn open(&self, _: &str) -> Result<Option<BlobContent>, BlobError> {
        Ok(None)
    }

    async fn delete(&self, _: &str) -> Result<(), BlobError> {
        Ok(())
    }

    async fn list(&self, prefix: &str, _: Option<&str>, _: usize) -> Result<Vec<Blob>, BlobError> {
        let Ok(entries) = std::fs::read_dir(self.0.join(prefix)) else { return Ok(Vec::new()) };
        let key = |entry: std::fs::DirEntry| format!("{prefix}/{}", entry.file_name().to_str().unwrap());
        let blob = |entry| Blob { key: key(entry), bytes: 0, written_at: Timestamp::default() };
        Ok(entries.map(|entry| blob(entry.unwrap())).collect())
    }
}

/// A gateway that refuses to open anything.
struct Closed;

impl Gateway for Closed {
    fn open_egress(&self, _: OwnedFd, _: Allowlist, _: EgressLog) -> std::io::Result<Gate> {
        Err(std::io::Error::other("closed"))
    }

    fn route(&self, _: &str, _: &BTreeMap<String, SecretValue>) -> Result<Option<ModelRoute>, Reason> {
        Ok(None)
    }

    fn serve_models(&self, _: OwnedFd, _: String) -> std::io::Result<Arc<dyn ModelProxy>> {
        Err(std::io::Error::other("closed"))
    }
}

/// Starts a program as a plain process.
pub(crate) fn start_plainly(spawn: Spawn) -> Result<Spawned, SandboxError> {
    let mut command = Command::new(&spawn.argv[0]);
    command.args(&spawn.argv[1..]).env_clear().envs(spawn.environment).current_dir(spawn.workspace);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    Ok(Spawned {
        stdin: child.stdin.take().unwrap().into(),
        stdout: child.stdout.take().unwrap().into(),
        stderr: child.stderr.take().unwrap().into(),
        listeners: Vec::new(),
        process: Box::new(Child(child)),
    })
}

struct Child(std::process::Child);

#[async_trait]
impl Process for Child {
    async fn wait(&mut self) -> Exit {
        Exit::Code(self.0.wait().unwrap().code().unwrap())
    }

    async fn deleted_bytes(&self, _: u64) -> u64 {
        0
    }

    async fn end(&mut self) -> Exit {
        self.wait().await
    }
}
