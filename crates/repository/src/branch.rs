//! The choice of the branch that a turn works on.

use std::collections::BTreeMap;

use journeyman_core::branch::{blocked, blocking_branch};
use journeyman_core::code_host::{PullRepository, PullState};
use journeyman_core::ids::Sha;
use journeyman_core::job::turn::TurnBegun;
use journeyman_core::job::{DEFAULT_BRANCH, Job};
use journeyman_core::ports::{Forge, ForgeError};
use journeyman_core::project::Project;
use journeyman_core::pull::existing::{ExistingPull, NotUsable};
use journeyman_core::pull::reviewed::ReviewedPull;
use journeyman_core::run::ReasonCode;

use crate::accepted::{is_accepted_name, merge_base};
use crate::history::no_default_branch;
use crate::{History, Mirror, RepositoryError};

/// Chooses the branch of the next turn, and the commit that the turn starts from.
///
/// # Errors
/// The job must not push to the branch that it asks for, a ref does not exist, or the code host failed.
pub async fn choose_branch(
    job: &Job,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<TurnBegun, RepositoryError> {
    let begun = branch_of(job, project, history, forge).await?;
    let default_branch = history.default_branch().filter(|_| history.names_default_branch()).map(str::to_owned);
    Ok(TurnBegun { default_branch: default_branch.filter(|_| job.source.reference == DEFAULT_BRANCH), ..begun })
}

/// Begins the review of a pull request at its newest commit, on a branch that is never pushed.
///
/// # Errors
/// The branch to merge into does not exist.
pub async fn begin_review(
    job: &Job,
    reviewed: &ReviewedPull,
    newest: Sha,
    mirror: &Mirror,
) -> Result<TurnBegun, RepositoryError> {
    let into = mirror.resolve(&reviewed.base).await?;
    let base = merge_base(mirror, &newest, std::slice::from_ref(&into)).await?.unwrap_or(into);
    let generation = job.branch.as_ref().map_or(1, |branch| branch.generation);
    let branch = job.branch_name();
    Ok(TurnBegun { branch, generation, base, head: newest, pushed: None, default_branch: None, repository: None })
}

async fn branch_of(
    job: &Job,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<TurnBegun, RepositoryError> {
    let Some(branch) = &job.branch else {
        if let Some(existing) = &job.options.pull {
            return begin_existing(job, existing, project, history, forge).await;
        }
        let start = history.resolve(&job.source.reference).await?;
        let (name, base) = (job.branch_of(1), base_of(job, project, history)?);
        if name == base {
            let text = format!("the job's branch {name:?} is also the base of its pull request; choose another branch");
            return Err(RepositoryError::failed(ReasonCode::PushRefused, text));
        }
        return begin(name, 1, start, project, history);
    };
    match ended(job, forge).await? {
        // People did not want the pull request, but the job's work goes on.
        Some(PullState::Closed) if branch.head != branch.base && history.has(&branch.head).await => {
            let (base, head) = (branch.base.clone(), branch.head.clone());
            let next = begin(job.branch_of(branch.generation + 1), branch.generation + 1, base, project, history)?;
            return Ok(TurnBegun { head: next.pushed.clone().unwrap_or(head), ..next });
        }
        Some(_) => return begin_next(job, branch.generation + 1, project, history).await,
        None => {}
    }
    // The project may have been changed to name this branch.
    if is_for_people(&branch.name, project, history) {
        return Err(not_for_jobs(&branch.name));
    }
    let pushed = history.heads().get(&branch.name).cloned();
    let head = match &pushed {
        // The turn continues from the commits that people pushed. Our unpushed commits are rebased onto them later.
        Some(theirs) if !history.has(&branch.head).await || !history.contains(&branch.head, theirs).await => {
            theirs.clone()
        }
        _ if history.has(&branch.head).await => branch.head.clone(),
        _ if history.has(&branch.base).await => branch.base.clone(),
        // People have replaced the base by force, and nothing of the job is left.
        _ => {
            let base = history.resolve(&base_of(job, project, history)?).await?;
            return begin(branch.name.clone(), branch.generation, base, project, history);
        }
    };
    let (branch, generation, base) = (branch.name.clone(), branch.generation, branch.base.clone());
    Ok(TurnBegun { branch, generation, base, head, pushed, default_branch: None, repository: None })
}

/// Returns how the pull request of the job's branch has ended, if it has.
async fn ended(job: &Job, forge: &dyn Forge) -> Result<Option<PullState>, RepositoryError> {
    let state = match &job.pull {
        Some(pull) if pull.state == PullState::Merged => Some(PullState::Merged),
        Some(pull) => forge.pull(pull.number).await.map_err(not_read)?.map(|current| current.state),
        None => None,
    };
    Ok(state.filter(|state| *state != PullState::Open))
}

/// Begins the branch that follows one whose pull request has ended, from the base.
async fn begin_next(
    job: &Job,
    generation: u32,
    project: &Project,
    history: &dyn History,
) -> Result<TurnBegun, RepositoryError> {
    let base = history.resolve(&base_of(job, project, history)?).await?;
    begin(job.branch_of(generation), generation, base, project, history)
}

/// Begins the work on the branch of an existing pull request, from its newest commit. If the pull request has ended
/// since the job was created, begins a new branch.
async fn begin_existing(
    job: &Job,
    existing: &ExistingPull,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<TurnBegun, RepositoryError> {
    if ended(job, forge).await?.is_some() {
        return begin_next(job, 2, project, history).await;
    }
    let (head, url) = (&existing.head, &existing.pull.url);
    let Some(newest) = history.heads().get(head) else {
        let text = format!("the branch {head:?} of the pull request {url} does not exist; restore it");
        return Err(RepositoryError::failed(ReasonCode::UnknownRef, text));
    };
    if Some(head.as_str()) == history.default_branch() || is_for_people(head, project, history) {
        let protected = NotUsable::Protected { url: url.clone(), head: head.clone() };
        return Err(RepositoryError::failed(ReasonCode::PullRequestNotWritable, protected.to_string()));
    }
    begin(head.clone(), 1, newest.clone(), project, history)
}

/// Begins a branch that this job has not used: from `base`, or from the branch's head if the code host has the branch.
/// Commits on a branch that people merge work into count as accepted, so no job pushes to such a branch.
fn begin(
    branch: String,
    generation: u32,
    base: Sha,
    project: &Project,
    history: &dyn History,
) -> Result<TurnBegun, RepositoryError> {
    if Some(branch.as_str()) == history.default_branch() || is_for_people(&branch, project, history) {
        return Err(not_for_jobs(&branch));
    }
    let pushed = history.heads().get(&branch).cloned();
    if let Some(other) = blocking_branch(history.heads().keys().map(String::as_str), &branch) {
        return Err(RepositoryError::failed(ReasonCode::PushRefused, blocked(&branch, other)));
    }
    let head = pushed.clone().unwrap_or_else(|| base.clone());
    Ok(TurnBegun { branch, generation, base, head, pushed, default_branch: None, repository: None })
}

/// Checks that the project still has the repository that a job has worked on, and returns how the code host names it. A
/// repository may have moved to another address.
///
/// # Errors
/// The project has another repository now, or the code host failed.
pub async fn check_repository(
    job: &Job,
    project: &Project,
    history: &dyn History,
    forge: &dyn Forge,
) -> Result<Option<PullRepository>, RepositoryError> {
    let failed = |error| RepositoryError::from_forge("the repository cannot be identified", error);
    let current = forge.identity().await.map_err(failed)?;
    let of_pull = || job.pull.as_ref().and_then(|pull| pull.repository.as_ref());
    let known = job.branch.as_ref().and_then(|branch| branch.repository.as_ref()).or_else(of_pull);
    let is_same = match (known, &current, &job.branch) {
        (Some(known), Some(current), _) => known == current,
        // Some remotes give no IDs. One with the commit that the job began with has the same history.
        (_, _, Some(branch)) if job.source.repository != project.repository => history.is_on_remote(&branch.base).await,
        _ => true,
    };
    if is_same {
        return Ok(current);
    }
    let text = "the project has another repository than the one that this job has worked on. Nothing is pushed to another \
                repository; the job's commits are kept. Create a new job, or give the project its earlier repository";
    Err(RepositoryError::failed(ReasonCode::RepositoryChanged, text))
}

/// Checks that the code host has not said that nothing can be pushed to the repository. Asks nothing.
///
/// # Errors
/// The repository is archived, or the credential may not push.
pub fn check_writable(forge: &dyn Forge) -> Result<(), RepositoryError> {
    let Some(repository) = forge.known_repository() else { return Ok(()) };
    match repository.read_only() {
        Some(reason) => Err(RepositoryError::Failed { reason, retry: false }),
        None => Ok(()),
    }
}

/// Returns the failure for a pull request whose state could not be read.
fn not_read(error: ForgeError) -> RepositoryError {
    RepositoryError::from_forge("the state of the job's pull request could not be read", error)
}

/// Returns whether the project says that jobs do not push to a branch.
fn is_for_people(branch: &str, project: &Project, history: &dyn History) -> bool {
    is_accepted_name(branch, project, history) || project.settings.pull_request.protects(branch)
}

/// Returns the failure of a job whose creator may not let it write to the branch that a turn begins: the creator's key
/// has only the scope `jobs`, the code host has the branch, and `is_made_by_job` is false.
///
/// # Errors
/// The job must not work on the branch.
pub fn check_creator(job: &Job, begun: &TurnBegun, is_made_by_job: bool) -> Result<(), RepositoryError> {
    if is_made_by_job || !needs_creator_check(job, begun) {
        return Ok(());
    }
    let text = format!(
        "the branch {:?} exists, and no job has made it. The job was created with an API key of the scope \"jobs\", which \
         lets jobs write only to new branches and those of other jobs. Name a pull request (pullRequest) or another \
         branch in a new job, or create it with a key of the scope \"write\"",
        begun.branch
    );
    Err(RepositoryError::failed(ReasonCode::PushRefused, text))
}

/// Returns whether [`check_creator`] depends on who has made the branch.
#[must_use]
pub fn needs_creator_check(job: &Job, begun: &TurnBegun) -> bool {
    let is_new = job.branch.as_ref().is_none_or(|branch| branch.name != begun.branch);
    let is_named = job.options.branch.is_some() && job.options.only_branches_of_jobs;
    is_named && is_new && begun.pushed.is_some()
}

fn not_for_jobs(branch: &str) -> RepositoryError {
    let text = format!(
        "the job's branch {branch:?} is the default branch, or the project's ref or pullRequest.base, or one of its \
         pullRequest.protectedBranches, and jobs do not push to those; choose another branch in a new job, or change the \
         project"
    );
    RepositoryError::failed(ReasonCode::PushRefused, text)
}

/// Returns the branch that a job's work is merged into: that of the existing pull request, otherwise the project's
/// `pullRequest.base`, otherwise the branch that the job started from, otherwise the default branch.
///
/// # Errors
/// The default branch is needed, and the repository has none.
pub fn base_of(job: &Job, project: &Project, history: &dyn History) -> Result<String, RepositoryError> {
    base_name(job, project, history.heads(), history.default_branch()).ok_or_else(no_default_branch)
}

/// As [`base_of`], with these branches.
pub(crate) fn base_name(
    job: &Job,
    project: &Project,
    heads: &BTreeMap<String, Sha>,
    default_branch: Option<&str>,
) -> Option<String> {
    let started = || Some(&job.source.reference).filter(|reference| heads.contains_key(*reference));
    let existing = job.options.pull.as_ref().map(|existing| &existing.base);
    let reviewed = job.options.review.as_ref().map(|reviewed| &reviewed.base);
    let base = existing.or(reviewed).or(project.settings.pull_request.base.as_ref()).or_else(started);
    base.map(String::as_str).or(default_branch).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;

    use journeyman_core::code_host::{HostName, PullRepository};
    use journeyman_core::ids::JobId;
    use journeyman_core::job::{Branch, JobOptions, Source};
    use journeyman_core::pull::{HostPull, Pull};
    use journeyman_core::time::Timestamp;
    use journeyman_testkit::OnePull;

    use super::*;

    /// A code host with the default branch `main`.
    struct Heads {
        heads: BTreeMap<String, Sha>,
        is_named: bool,
        /// The commits that the mirror has; `None` stands for all.
        known: Option<Vec<Sha>>,
    }

    impl Heads {
        fn new(heads: BTreeMap<String, Sha>, is_named: bool) -> Self {
            Self { heads, is_named, known: None }
        }
    }

    #[async_trait]
    impl History for Heads {
        fn heads(&self) -> &BTreeMap<String, Sha> {
            &self.heads
        }

        fn default_branch(&self) -> Option<&str> {
            Some("main")
        }

        fn names_default_branch(&self) -> bool {
            self.is_named
        }

        async fn resolve(&self, reference: &str) -> Result<Sha, RepositoryError> {
            Ok(self.heads[reference].clone())
        }

        async fn is_on_remote(&self, commit: &Sha) -> bool {
            self.heads.values().any(|head| head == commit)
        }

        async fn has(&self, commit: &Sha) -> bool {
            self.known.as_ref().is_none_or(|known| known.contains(commit))
        }

        async fn contains(&self, _: &Sha, _: &Sha) -> bool {
            true
        }

        async fn pull_template(&self, _: &Sha) -> Result<Option<String>, RepositoryError> {
            Ok(None)
        }
    }

    /// Returns a job on the pull request of the branch `feature`, which is not merged into the project's usual base.
    fn job_on_existing() -> Job {
        let HostPull { number, url, head, .. } = OnePull::open();
        let repository = Some(PullRepository { host: HostName("git.example".to_owned()), id: "7".to_owned() });
        let pull = Pull { repository, is_untouched: true, ..Pull::new(number, url) };
        let existing = ExistingPull { pull: pull.clone(), head: head.clone(), head_sha: None, base: "v1".to_owned() };
        let options = JobOptions { pull: Some(Box::new(existing)), ..JobOptions::default() };
        let source = Source { repository: String::new(), reference: head };
        let id = JobId::from_uuid(uuid::Uuid::from_u128(7));
        Job { options, pull: Some(pull), ..Job::new(id, "shop".parse().unwrap(), source, Timestamp::default()) }
    }

    #[test]
    fn only_a_named_branch_of_people_depends_on_the_creator() {
        let sha: Sha = "a".repeat(40).parse().unwrap();
        let source = Source { repository: String::new(), reference: "main".to_owned() };
        let id = JobId::from_uuid(uuid::Uuid::from_u128(7));
        let mut job = Job::new(id, "shop".parse().unwrap(), source, Timestamp::default());
        job.options.branch = Some("feature".to_owned());
        let begun = TurnBegun {
            branch: "feature".to_owned(),
            generation: 1,
            base: sha.clone(),
            head: sha.clone(),
            pushed: Some(sha),
            default_branch: None,
            repository: None,
        };
        assert!(!needs_creator_check(&job, &begun), "the creator may write");
        job.options.only_branches_of_jobs = true;
        assert!(check_creator(&job, &begun, false).is_err() && check_creator(&job, &begun, true).is_ok());
        assert!(!needs_creator_check(&job, &TurnBegun { pushed: None, ..begun.clone() }), "the branch is new");
        let unnamed = Job { options: JobOptions { branch: None, ..job.options.clone() }, ..job.clone() };
        assert!(!needs_creator_check(&unnamed, &begun), "the name has the ID of the job");
        job.branch = Some(begun.branch(None));
        assert!(!needs_creator_check(&job, &begun), "the job works on it already");
    }

    #[tokio::test]
    async fn a_job_on_an_existing_pull_request_begins_with_its_branch_until_it_has_ended() {
        let [main, feature, v1]: [Sha; 3] = ["a", "b", "c"].map(|digit| digit.repeat(40).parse().unwrap());
        let heads = [("main", &main), ("feature", &feature), ("v1", &v1)];
        let heads: BTreeMap<_, _> = heads.map(|(name, sha)| (name.to_owned(), sha.clone())).into();
        let (job, host) = (job_on_existing(), OnePull(Mutex::new(Ok(Some(OnePull::open())))));
        let mut project = Project::new("shop".parse().unwrap(), "https://git.example/acme/shop", Timestamp::default());
        let all = Heads::new(heads.clone(), true);
        let begun = choose_branch(&job, &project, &all, &host).await.unwrap();
        assert_eq!((begun.branch.as_str(), begun.generation, &begun.pushed), ("feature", 1, &Some(feature.clone())));
        assert_eq!((&begun.base, &begun.head), (&feature, &feature));
        assert_eq!(base_of(&job, &project, &all).unwrap(), "v1");

        let code = |chosen: Result<TurnBegun, RepositoryError>| match chosen {
            Err(RepositoryError::Failed { reason, retry: false }) => reason.code,
            other => panic!("{other:?}"),
        };
        let mut without = heads.clone();
        without.remove("feature");
        let gone = choose_branch(&job, &project, &Heads::new(without, true), &host).await;
        assert_eq!(code(gone), ReasonCode::UnknownRef);
        project.reference = Some("feature".to_owned());
        assert_eq!(code(choose_branch(&job, &project, &all, &host).await), ReasonCode::PullRequestNotWritable);
        project.reference = None;

        for state in [PullState::Merged, PullState::Closed] {
            host.answer(Ok(Some(HostPull { state, ..OnePull::open() })));
            let begun = choose_branch(&job, &project, &all, &host).await.unwrap();
            assert_eq!((begun.generation, &begun.head, &begun.pushed), (2, &v1, &None), "{state:?}");
            assert!(begun.branch.starts_with("journeyman/") && begun.branch.ends_with("-2"), "{}", begun.branch);
            let next = Job { branch: Some(begun.branch(None)), pull: None, ..job.clone() };
            assert_eq!(base_of(&next, &project, &all).unwrap(), "v1");
            assert_eq!(next.existing_pull(), None);
        }
        host.answer(Err(ForgeError::Unclear("502".to_owned())));
        let unclear = choose_branch(&job, &project, &all, &host).await;
        assert!(matches!(unclear, Err(RepositoryError::Failed { retry: true, .. })), "{unclear:?}");
    }

    #[tokio::test]
    async fn the_work_of_a_closed_pull_request_is_carried_over() {
        let [main, base, head]: [Sha; 3] = ["a", "b", "c"].map(|digit| digit.repeat(40).parse().unwrap());
        let heads = Heads::new([("main".to_owned(), main.clone())].into(), true);
        let project = Project::new("shop".parse().unwrap(), "https://git.example/acme/shop", Timestamp::default());
        let host = OnePull(Mutex::new(Ok(Some(OnePull::open()))));
        let job = job_on_existing();
        let options = JobOptions::default();
        let source = Source { reference: "main".to_owned(), ..job.source.clone() };
        let name = job.branch_of(2);
        let branch = Branch {
            name,
            generation: 2,
            base: base.clone(),
            head: head.clone(),
            pushed: Some(head.clone()),
            repository: None,
            existed: false,
        };
        let job = Job { options, source, branch: Some(branch.clone()), ..job };
        let begin = async |job: &Job, state| {
            host.answer(Ok(Some(HostPull { state, ..OnePull::open() })));
            choose_branch(job, &project, &heads, &host).await.unwrap()
        };
        let closed = begin(&job, PullState::Closed).await;
        assert_eq!((closed.generation, &closed.base, &closed.head, &closed.pushed), (3, &base, &head, &None));
        assert_eq!(job.carried_over(&closed), Some(branch.name.clone()));
        let merged = begin(&job, PullState::Merged).await;
        assert_eq!((merged.generation, &merged.base, &merged.head), (3, &main, &main));
        assert_eq!(job.carried_over(&merged), None);
        let without = Job { branch: Some(Branch { head: base.clone(), ..branch }), ..job };
        let fresh = begin(&without, PullState::Closed).await;
        assert_eq!((fresh.generation, &fresh.base, &fresh.head), (3, &main, &main), "nothing to carry over");
    }

    #[tokio::test]
    async fn a_job_whose_base_is_gone_and_that_has_no_commits_begins_from_the_newest() {
        let [main, base]: [Sha; 2] = ["a", "b"].map(|digit| digit.repeat(40).parse().unwrap());
        let project = Project::new("shop".parse().unwrap(), "https://git.example/acme/shop", Timestamp::default());
        let host = OnePull(Mutex::new(Ok(None)));
        let source = Source { reference: "main".to_owned(), ..job_on_existing().source };
        let job = Job { options: JobOptions::default(), pull: None, source, ..job_on_existing() };
        let branch = Branch {
            name: job.branch_of(1),
            generation: 1,
            base: base.clone(),
            head: base.clone(),
            pushed: None,
            repository: None,
            existed: false,
        };
        let job = Job { branch: Some(branch), ..job };
        for (known, expected) in [(vec![base.clone()], &base), (Vec::new(), &main)] {
            let heads = Heads { known: Some(known), ..Heads::new([("main".to_owned(), main.clone())].into(), true) };
            let begun = choose_branch(&job, &project, &heads, &host).await.unwrap();
            assert_eq!((&begun.base, &begun.head, begun.generation), (expected, expected, 1));
            assert_eq!(begun.branch, job.branch_of(1));
        }
    }

    #[test]
    fn a_branch_that_blocks_the_jobs_branch_is_named_before_the_turn() {
        let commit: Sha = "a".repeat(40).parse().unwrap();
        let project = Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default());
        let heads = ["main", "journeyman"].map(|name| (name.to_owned(), commit.clone())).into();
        let begun = begin("journeyman/a-1".to_owned(), 1, commit, &project, &Heads::new(heads, true));
        let Err(RepositoryError::Failed { reason, retry: false }) = begun else { panic!("{begun:?}") };
        assert!(reason.text.contains("rename \"journeyman\""), "{}", reason.text);
    }

    #[test]
    fn no_job_pushes_to_a_branch_that_people_accept_work_into() {
        let commit: Sha = "a".repeat(40).parse().unwrap();
        let mut project = Project {
            reference: Some("refs/heads/develop".to_owned()),
            ..Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default())
        };
        project.settings.pull_request.base = Some("v1".to_owned());
        for is_named in [true, false] {
            let history = Heads::new(BTreeMap::from([("main".to_owned(), commit.clone())]), is_named);
            let begun = |branch: &str| begin(branch.to_owned(), 2, commit.clone(), &project, &history);
            for (branch, is_free) in [
                ("main", false),
                ("develop", false),
                ("refs/heads/develop", false),
                ("v1", false),
                ("journeyman/a-1", true),
                ("main-2", true),
            ] {
                match begun(branch) {
                    Ok(turn) => assert!(is_free && turn.branch == branch, "{branch}"),
                    Err(RepositoryError::Failed { reason, .. }) => {
                        assert!(!is_free && reason.text.contains("choose another"), "{branch}: {}", reason.text);
                    }
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
    }
}
