//! Comparisons of a pull request with its base, with real repositories.

use std::net::IpAddr;

use journeyman_core::code_host::{CodeHost, HostRepository};
use journeyman_core::finding::Finding;
use journeyman_core::ports::{Checks, CreatedPull, Discussion, ForgeError, Remote};
use journeyman_core::project::SecretChanges;
use journeyman_core::pull::{NewPull, PullChange};
use journeyman_core::run::Reason;
use journeyman_core::time::Timestamp;
use journeyman_testkit::OnePull;

use super::*;
use crate::fixture::Fixture;

/// A code host with this remote and one pull request, whose answers a test changes.
struct Host {
    remote: Remote,
    pull: Mutex<Result<Option<HostPull>, ForgeError>>,
    asked: Mutex<u32>,
}

/// The host as its forge.
#[derive(Clone)]
struct Shared(Arc<Host>);

#[async_trait]
impl Forges for Shared {
    async fn of(&self, _: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Ok(Arc::new(self.clone()))
    }

    async fn check(&self, _: &Project, _: &SecretChanges) -> Result<Vec<Finding>, Reason> {
        Ok(Vec::new())
    }

    async fn prepare(&self, _: &Project) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn code_host(&self, _: &Project) -> Result<Option<CodeHost>, ForgeError> {
        Ok(None)
    }

    async fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

#[async_trait]
impl Forge for Shared {
    fn host(&self) -> HostName {
        HostName("git.example".to_owned())
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        Ok(self.0.remote.clone())
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        let (id, path) = ("7".to_owned(), "acme/shop".to_owned());
        Ok(HostRepository {
            id,
            path,
            default_branch: None,
            can_push: Some(true),
            is_archived: false,
            ci_paths: Vec::new(),
        })
    }

    async fn find_pulls(&self, _: &str) -> Result<Vec<HostPull>, ForgeError> {
        Ok(Vec::new())
    }

    async fn create_pull(&self, _: &NewPull) -> Result<CreatedPull, ForgeError> {
        Ok(CreatedPull::AlreadyExists)
    }

    async fn pull(&self, _: u64) -> Result<Option<HostPull>, ForgeError> {
        *self.0.asked.lock().unwrap() += 1;
        self.0.pull.lock().unwrap().clone()
    }

    async fn update_pull(&self, _: u64, _: &PullChange) -> Result<(), ForgeError> {
        Ok(())
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        None
    }

    fn checks(&self) -> Option<&dyn Checks> {
        None
    }
}

fn project() -> Project {
    Project::new("shop".parse().unwrap(), "https://git.example/acme/shop", Timestamp::default())
}

fn pull() -> PullRef {
    let repository = PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() };
    PullRef { repository, number: 12 }
}

/// A repository whose branch `feature` has changed the file `a`.
struct Case {
    fixture: Fixture,
    host: Shared,
    comparisons: MirrorComparisons,
}

impl Case {
    async fn new(is_ours: bool) -> Self {
        let fixture = Fixture::new().await;
        fixture.commit(&[("a", Some("2"))]).await;
        fixture.publish("feature").await;
        fixture.run(&["reset", "--quiet", "--hard", "HEAD~1"]).await;
        let remote = Remote { is_ours, ..fixture.remote() };
        let pull = Mutex::new(Ok(Some(OnePull::open())));
        let host = Shared(Arc::new(Host { remote, pull, asked: Mutex::new(0) }));
        let comparisons = MirrorComparisons::new(Arc::new(host.clone()), fixture.machine_mirrors());
        Self { fixture, host, comparisons }
    }

    /// Changes files of the branch `main`.
    async fn change_main(&self, files: &[(&str, Option<&str>)]) {
        self.fixture.commit(files).await;
        self.fixture.publish("main").await;
    }

    async fn open(&self) -> Result<Box<dyn OpenedRepository>, NotCompared> {
        self.comparisons.open(&project(), Effort::Complete).await
    }

    async fn comparison(&self) -> Result<Compared, NotCompared> {
        self.open().await?.compare(&pull()).await
    }

    fn answer(&self, pull: HostPull) {
        *self.host.0.pull.lock().unwrap() = Ok(Some(pull));
    }

    fn asked(&self) -> u32 {
        *self.host.0.asked.lock().unwrap()
    }
}

/// Returns the number of files of a folder, at any depth.
fn count(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn a_branch_is_compared_with_its_base_as_it_is_now() {
    for is_ours in [false, true] {
        let case = Case::new(is_ours).await;
        let before = case.comparison().await.unwrap().unwrap();
        assert_eq!((before.base.as_str(), before.behind, before.conflicts.count()), ("main", 0, 0), "{is_ours}");
        case.change_main(&[("b", Some("1"))]).await;
        let behind = case.comparison().await.unwrap().unwrap();
        assert_eq!((behind.behind, behind.conflicts.count()), (1, 0), "{is_ours}");
        case.change_main(&[("a", Some("3"))]).await;
        let conflict = case.comparison().await.unwrap().unwrap();
        assert_eq!((conflict.behind, conflict.conflicts.files), (2, vec!["a".to_owned()]), "{is_ours}");
        assert_eq!(conflict.base_sha, case.fixture.head().await);
        assert_eq!(conflict.head_sha, before.head_sha);
    }
}

#[tokio::test]
async fn a_comparison_leaves_nothing_in_the_repository() {
    let case = Case::new(true).await;
    case.change_main(&[("a", Some("3")), ("b", Some("1"))]).await;
    let objects = case.fixture.origin().join("objects");
    let before = count(&objects);
    assert_eq!(case.comparison().await.unwrap().unwrap().conflicts.count(), 1);
    assert_eq!(count(&objects), before);
}

#[tokio::test]
async fn names_that_are_not_text_are_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let case = Case::new(false).await;
    let file = case.fixture.clone().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    case.fixture.run(&["switch", "--quiet", "--create", "topic"]).await;
    std::fs::write(&file, "1").unwrap();
    case.fixture.commit_all().await;
    case.fixture.publish("feature-2").await;
    case.fixture.run(&["switch", "--quiet", "--detach", "HEAD~1"]).await;
    std::fs::write(&file, "2").unwrap();
    case.fixture.commit_all().await;
    case.fixture.publish("main").await;
    case.answer(HostPull { head: "feature-2".to_owned(), ..OnePull::open() });
    assert_eq!(case.comparison().await.unwrap().unwrap().conflicts.files, ["caf\\xe9"]);
}

#[tokio::test]
async fn the_reason_is_told_for_what_cannot_be_compared() {
    for is_ours in [false, true] {
        what_cannot_be_compared(Case::new(is_ours).await).await;
    }
}

async fn what_cannot_be_compared(case: Case) {
    let open = OnePull::open();
    for (pull, reason) in [
        (HostPull { state: PullState::Closed, ..open.clone() }, NoComparison::Ended),
        (HostPull { state: PullState::Merged, ..open.clone() }, NoComparison::Ended),
        (HostPull { is_from_fork: true, ..open.clone() }, NoComparison::InFork),
        (HostPull { base: "gone".to_owned(), ..open.clone() }, NoComparison::BranchMissing),
        (HostPull { head: "gone".to_owned(), ..open.clone() }, NoComparison::BranchMissing),
    ] {
        case.comparisons.pulls().clear();
        case.answer(pull.clone());
        assert_eq!(case.comparison().await, Ok(Err(reason)), "{pull:?}");
    }
    let other = PullRepository { id: "8".to_owned(), ..pull().repository };
    let other = PullRef { repository: other, ..pull() };
    assert_eq!(case.open().await.unwrap().compare(&other).await, Ok(Err(NoComparison::OtherRepository)));
    case.comparisons.pulls().clear();
    *case.host.0.pull.lock().unwrap() = Err(ForgeError::Unclear("502".to_owned()));
    let error = case.comparison().await.unwrap_err();
    assert!(error.to_string().ends_with("the request to the code host failed: 502"), "{error}");
}

#[tokio::test]
async fn branches_without_a_common_history_are_not_compared() {
    let case = Case::new(false).await;
    case.fixture.run(&["switch", "--quiet", "--orphan", "other"]).await;
    case.fixture.commit(&[("z", Some("1"))]).await;
    case.fixture.run(&["push", "--quiet", "--force", case.fixture.origin().to_str().unwrap(), "HEAD:main"]).await;
    let error = case.comparison().await.unwrap_err();
    assert!(error.to_string().contains("unrelated histories"), "{error}");
}

#[tokio::test]
async fn a_person_does_not_wait_for_a_missing_repository() {
    let case = Case::new(false).await;
    let Err(error) = case.comparisons.open(&project(), Effort::Quick).await else { panic!("there is no mirror") };
    assert!(error.to_string().ends_with("this machine does not have the repository yet"), "{error}");
    case.open().await.unwrap();
    case.comparisons.open(&project(), Effort::Quick).await.unwrap();
    std::fs::remove_dir_all(case.fixture.origin()).unwrap();
    assert!(case.comparisons.open(&project(), Effort::Quick).await.is_err(), "the remote cannot be read");
}

#[tokio::test]
async fn a_code_host_is_asked_once_in_a_while() {
    for (effort, fresh) in [(Effort::Complete, REPEATED), (Effort::Quick, FRESH)] {
        let case = Case::new(false).await;
        case.open().await.unwrap();
        for _ in 0..3 {
            let opened = case.comparisons.open(&project(), effort).await.unwrap();
            assert!(opened.compare(&pull()).await.unwrap().is_ok());
        }
        assert_eq!(case.asked(), 1, "{effort:?}");
        case.comparisons.pulls().values_mut().for_each(|(_, at)| *at -= fresh);
        let opened = case.comparisons.open(&project(), effort).await.unwrap();
        opened.compare(&pull()).await.unwrap().unwrap();
        assert_eq!(case.asked(), 2, "{effort:?}");
    }
}

#[tokio::test]
async fn a_code_host_gets_a_bounded_number_of_requests() {
    let case = Case::new(false).await;
    let numbered = |number: u64| PullRef { number, ..pull() };
    let most = u64::try_from(MOST_ASKED).unwrap();
    let opened = case.open().await.unwrap();
    for number in 0..most {
        opened.compare(&numbered(number)).await.unwrap().unwrap();
    }
    let error = opened.compare(&numbered(most)).await.unwrap_err();
    assert!(error.to_string().ends_with("asked about this pull request later"), "{error}");
    opened.compare(&numbered(0)).await.unwrap().unwrap();
    assert_eq!(case.asked(), MOST_ASKED as u32);
    // The next call asks about the others, and uses an older answer where none is left.
    case.comparisons.pulls().values_mut().for_each(|(_, at)| *at -= REPEATED);
    let opened = case.open().await.unwrap();
    for number in (0..=most).rev() {
        opened.compare(&numbered(number)).await.unwrap().unwrap();
    }
    assert_eq!(case.asked(), 2 * MOST_ASKED as u32);
}

#[tokio::test]
async fn a_fetch_goes_on_if_nobody_waits_for_it() {
    let case = Case::new(false).await;
    case.open().await.unwrap();
    case.change_main(&[("b", Some("1"))]).await;
    let project = project();
    let mut open = Box::pin(case.comparisons.open(&project, Effort::Quick));
    assert!(polled_once(&mut open).await.is_none(), "git has begun");
    drop(open);
    // The next fetch waits for the lock of the first one, and no lock of git was left behind.
    let comparison = case.comparison().await.unwrap().unwrap();
    assert_eq!(comparison.behind, 1);
}

/// Polls a future once.
async fn polled_once<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(match future.as_mut().poll(context) {
            std::task::Poll::Ready(done) => Some(done),
            std::task::Poll::Pending => None,
        })
    })
    .await
}
