//! Code hosts that exist only in memory.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use journeyman_core::code_host::expiry::EXPIRY;
use journeyman_core::code_host::manifest::CreatedApp;
use journeyman_core::code_host::{
    CodeHost, CodeHostId, DefinedIn, HostKind, HostName, HostRepository, HostSecrets, PullState,
};
use journeyman_core::conversation::{CommentRef, CommentTarget, Conversation, LineComment, Permission, Reaction};
use journeyman_core::finding::Finding;
use journeyman_core::hook::{HookEvent, HostReview, HostUser};
use journeyman_core::hosted_storage::{HostedStorage, StorageRecord};
use journeyman_core::ids::{ProjectId, Sha};
use journeyman_core::job::Job;
use journeyman_core::ports::{
    Checks, CodeHostStore, CreatedPull, DescribedHost, DiffError, Diffs, Discussion, Forge, ForgeError, Forges,
    GitBody, HookRefusal, Hooks, HostAdmin, ImportFailed, PullDetail, PullMerge, PullPages, PullPagesError, RawHook,
    ReachedServers, Remote, StoreError, VerifiedHook,
};
use journeyman_core::project::{Host, Project, SecretChanges, repository_host};
use journeyman_core::pull::base_comparison::Conflicts;
use journeyman_core::pull::comment::service;
use journeyman_core::pull::{HostPull, LocalPull, NewMerge, NewPull, PullChange};
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_core::time::Timestamp;

/// Code hosts whose repositories can all be read, except [`FakeForges::MISSING`] and [`FakeForges::BROKEN`]. Jobs
/// cannot work on them. Their pull requests can always be merged, and everyone may comment on them.
#[derive(Debug, Clone, Copy, Default)]
pub struct FakeForges;

impl FakeForges {
    /// The number of a pull request whose branches are already merged.
    pub const MERGED: u64 = 3;

    /// A repository that does not exist.
    pub const MISSING: &str = "https://gone.example/a.git";
    /// A repository whose preparation fails.
    pub const BROKEN: &str = "local:broken";
    /// A repository without pull requests, on the code host `closed.example`.
    pub const NO_PULLS: &str = "https://closed.example/acme/closed.git";
    /// A name with a link-local address.
    pub const LINK_LOCAL: &str = "links.example";
    /// A repository whose import does not end.
    pub const ENDLESS: &str = "https://endless.example/a.git";
    /// The space that each repository takes.
    pub const STORAGE: HostedStorage = HostedStorage { git_bytes: 7, lfs_bytes: 8, lfs_objects: 9 };
    /// A repository whose import leaves out an object of Git LFS.
    pub const PARTLY_IMPORTED: &str = "https://partly.example/a.git";
    /// A repository whose import succeeds.
    pub const IMPORTED: &str = "https://imported.example/a.git";
}

#[async_trait]
impl Forges for FakeForges {
    async fn of(&self, _: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Ok(Arc::new(FakeRepository))
    }

    async fn check(&self, project: &Project, _: &SecretChanges) -> Result<Vec<Finding>, Reason> {
        match project.repository.as_str() {
            Self::MISSING => Err(Reason::new(ReasonCode::RepositoryNotFound, "the repository does not exist")),
            Self::NO_PULLS => Ok(vec![
                Finding::ok("repository", "acme/closed can be read"),
                Finding::failure("pull requests", "jobs cannot open pull requests"),
            ]),
            path => Ok(vec![Finding::ok("repository", format!("{path} can be read"))]),
        }
    }

    async fn check_and_record(
        &self,
        project: &Project,
        secrets: &SecretChanges,
        reached: &ReachedServers,
    ) -> Result<Vec<Finding>, Reason> {
        if let Some(Host::Name(name)) = repository_host(&project.repository) {
            reached.add(format!("{name} (192.0.2.1)"));
        }
        self.check(project, secrets).await
    }

    async fn prepare(&self, project: &Project) -> Result<(), ForgeError> {
        match project.repository.as_str() {
            Self::BROKEN => Err(ForgeError::Refused("the disk is full".to_owned())),
            _ => Ok(()),
        }
    }

    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError> {
        let is_known = project.repository == Self::NO_PULLS;
        let (id, kind) = ("closed.example".parse().unwrap(), HostKind::Gitea);
        Ok(is_known.then(|| CodeHost::of_address(id, kind, "https://closed.example".to_owned())))
    }

    async fn import(&self, _: &Project, from: &Remote, _: &ReachedServers) -> Result<Option<String>, ImportFailed> {
        match from.url.as_str() {
            Self::ENDLESS => std::future::pending().await,
            Self::IMPORTED => Ok(None),
            Self::PARTLY_IMPORTED => Ok(Some("1 of 2 objects of Git LFS were not copied: the disk is full".to_owned())),
            _ => Err(ImportFailed("There is no repository at this URL.".to_owned())),
        }
    }

    async fn storage(&self, _: &Project) -> Option<StorageRecord> {
        let measured_at = Timestamp::from_micros(1_800_000_000_000_000);
        Some(StorageRecord { storage: Self::STORAGE, measured_at, pruned_at: None })
    }

    async fn storage_of_all(&self) -> Result<HostedStorage, ForgeError> {
        Ok(Self::STORAGE)
    }

    async fn addresses(&self, name: &str) -> Vec<IpAddr> {
        if name == Self::LINK_LOCAL { vec![[169, 254, 7, 7].into()] } else { Vec::new() }
    }
}

/// A code host with the repository `acme/shop`, of which a test chooses the pull request that is found.
#[derive(Debug)]
pub struct OnePull(pub Mutex<Result<Option<HostPull>, ForgeError>>);

impl OnePull {
    /// The page of the pull request 12.
    pub const PAGE: &str = "https://git.example/acme/shop/pull/12";

    /// Returns an open pull request of the branch `feature` with the number 12.
    #[must_use]
    pub fn open() -> HostPull {
        HostPull {
            number: 12,
            url: Self::PAGE.to_owned(),
            state: PullState::Open,
            draft: false,
            title: "Add a feature".to_owned(),
            body: String::new(),
            head: "feature".to_owned(),
            head_sha: None,
            base: "main".to_owned(),
            is_from_fork: false,
        }
    }

    /// Chooses the answer to the question for a pull request.
    pub fn answer(&self, answer: Result<Option<HostPull>, ForgeError>) {
        *self.0.lock().unwrap() = answer;
    }

    fn found(&self) -> Result<Option<HostPull>, ForgeError> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Forges for OnePull {
    async fn of(&self, _: &Project) -> Result<Arc<dyn Forge>, ForgeError> {
        Ok(Arc::new(Self(Mutex::new(self.found()))))
    }

    async fn check(&self, _: &Project, _: &SecretChanges) -> Result<Vec<Finding>, Reason> {
        Ok(Vec::new())
    }

    async fn prepare(&self, _: &Project) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn code_host(&self, project: &Project) -> Result<Option<CodeHost>, ForgeError> {
        Ok(CodeHost::of_repository(&project.repository, Some(HostKind::Github)))
    }

    async fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

#[async_trait]
impl Forge for OnePull {
    fn host(&self) -> HostName {
        HostName("git.example".to_owned())
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        Err(ForgeError::Refused("this test has no git".to_owned()))
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        self.found()?;
        let (id, path, default_branch) = ("7".to_owned(), "acme/shop".to_owned(), Some("main".to_owned()));
        Ok(HostRepository { id, path, default_branch, can_push: Some(true), is_archived: false, ci_paths: Vec::new() })
    }

    async fn find_pulls(&self, _: &str) -> Result<Vec<HostPull>, ForgeError> {
        Ok(self.found()?.into_iter().collect())
    }

    async fn create_pull(&self, _: &NewPull) -> Result<CreatedPull, ForgeError> {
        Ok(CreatedPull::AlreadyExists)
    }

    async fn pull(&self, number: u64) -> Result<Option<HostPull>, ForgeError> {
        Ok(self.found()?.filter(|pull| pull.number == number))
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

/// A repository of the built-in code host that can only be discussed: everyone may push, and comments of the service
/// are dropped.
struct FakeRepository;

fn no_repository<T>() -> Result<T, ForgeError> {
    Err(ForgeError::Refused("this test has no code host".to_owned()))
}

#[async_trait]
impl Forge for FakeRepository {
    fn host(&self) -> HostName {
        HostName::local()
    }

    async fn remote(&self) -> Result<Remote, ForgeError> {
        no_repository()
    }

    async fn repository(&self) -> Result<HostRepository, ForgeError> {
        let (id, path) = ("shop".to_owned(), "shop".to_owned());
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
        no_repository()
    }

    async fn create_pull(&self, _: &NewPull) -> Result<CreatedPull, ForgeError> {
        no_repository()
    }

    async fn pull(&self, _: u64) -> Result<Option<HostPull>, ForgeError> {
        no_repository()
    }

    async fn update_pull(&self, _: u64, _: &PullChange) -> Result<(), ForgeError> {
        no_repository()
    }

    fn discussion(&self) -> Option<&dyn Discussion> {
        Some(self)
    }

    fn checks(&self) -> Option<&dyn Checks> {
        None
    }
}

#[async_trait]
impl Discussion for FakeRepository {
    async fn me(&self) -> Result<HostUser, ForgeError> {
        Ok(service())
    }

    async fn comment(&self, _: CommentTarget, _: &str, _: &str) -> Result<String, ForgeError> {
        Ok(String::new())
    }

    async fn react(&self, _: &CommentRef, _: Reaction) -> Result<(), ForgeError> {
        Ok(())
    }

    async fn review(&self, _: u64, _: &str) -> Result<Vec<LineComment>, ForgeError> {
        Ok(Vec::new())
    }

    async fn reviews(&self, _: u64) -> Result<Vec<HostReview>, ForgeError> {
        Ok(Vec::new())
    }

    async fn permission(&self, _: &HostUser) -> Result<Permission, ForgeError> {
        Ok(Permission::Write)
    }

    async fn conversation(&self, _: CommentTarget, _: Option<Timestamp>) -> Result<Conversation, ForgeError> {
        Ok(Conversation::default())
    }
}

/// There is no code host, so every webhook is refused.
#[async_trait]
impl Hooks for FakeForges {
    async fn check_head(&self, _: &CodeHostId, _: Option<&ProjectId>, _: &RawHook) -> Result<(), HookRefusal> {
        Err(HookRefusal::NotFound)
    }

    async fn verify(&self, _: &CodeHostId, _: Option<&ProjectId>, _: &RawHook) -> Result<VerifiedHook, HookRefusal> {
        Err(HookRefusal::NotFound)
    }

    async fn host(&self, _: &CodeHostId, _: Option<&ProjectId>) -> Result<Option<CodeHost>, StoreError> {
        Ok(None)
    }

    fn read(&self, _: &CodeHost, _: &str, _: &[u8]) -> Result<HookEvent, String> {
        Err("there is no code host".to_owned())
    }
}

/// The code hosts of a store, and one of the configuration: GitLab with the ID `gitlab`, at `https://gitlab.example`. All
/// of them pass their tests, and there is no GitHub that creates apps.
pub struct FakeHosts(pub Arc<dyn CodeHostStore>);

impl FakeHosts {
    /// The ID of a code host whose token ends at [`FakeHosts::EXPIRES_AT`], and whose app lacks permissions.
    pub const EXPIRING: &str = "expiring";

    /// The end of the token of [`FakeHosts::EXPIRING`].
    pub const EXPIRES_AT: Timestamp = Timestamp::from_micros(1_900_000_000_000_000);

    fn described(host: CodeHost, secrets: &HostSecrets) -> DescribedHost {
        DescribedHost {
            host,
            has_token: secrets.token.is_some(),
            has_private_key: secrets.private_key.is_some(),
            has_webhook_secret: secrets.webhook.is_some(),
        }
    }
}

#[async_trait]
impl HostAdmin for FakeHosts {
    async fn code_hosts(&self) -> Result<Vec<DescribedHost>, StoreError> {
        let url = "https://gitlab.example".to_owned();
        let configured = CodeHost::of_address("gitlab".parse().unwrap(), HostKind::Gitlab, url);
        let configured = CodeHost { defined_in: DefinedIn::Configuration, ..configured };
        let mut all = vec![Self::described(configured, &HostSecrets::default())];
        for host in self.0.resources(None).await? {
            let secrets = self.0.code_host_secrets(host.id.clone()).await?;
            all.push(Self::described(host, &secrets));
        }
        all.sort_by(|one, other| one.host.id.cmp(&other.host.id));
        Ok(all)
    }

    async fn check_host(&self, id: &CodeHostId) -> Result<Option<Vec<Finding>>, StoreError> {
        let found = self.code_hosts().await?.into_iter().any(|described| described.host.id == *id);
        let findings = match id.as_str() {
            Self::EXPIRING => vec![
                Finding::ok("address", "it answers"),
                Finding { at: Some(Self::EXPIRES_AT), ..Finding::ok(EXPIRY, "the token expires") },
                Finding::failure("permissions", "acme has not accepted the permissions contents: write"),
            ],
            _ => vec![Finding::ok("address", "it answers")],
        };
        Ok(found.then_some(findings))
    }

    async fn created_app(&self, _: &CodeHost, _: &str) -> Result<CreatedApp, ForgeError> {
        Err(ForgeError::NotFound("there is no GitHub in this test".to_owned()))
    }
}

#[async_trait]
impl PullPages for FakeForges {
    async fn pulls(&self, _: &Project) -> Result<Vec<LocalPull>, PullPagesError> {
        Err(PullPagesError::NotFound)
    }

    async fn branches(&self, _: &Project) -> Result<Vec<String>, PullPagesError> {
        Ok(Vec::new())
    }

    async fn commits(&self, _: &Project, _: &str, _: u64) -> Result<Option<u64>, PullPagesError> {
        Ok(None)
    }

    async fn pull(&self, _: &Project, _: u64) -> Result<PullDetail, PullPagesError> {
        Err(PullPagesError::NotFound)
    }

    async fn conflicts(&self, _: &Project, _: u64) -> Result<Conflicts, PullPagesError> {
        Ok(Conflicts::default())
    }

    async fn ahead(&self, _: &Project, base: Option<&str>, head: &str) -> Result<(String, u64), PullPagesError> {
        match head {
            "missing" => Err(PullPagesError::NoBranch(head.to_owned())),
            "even" => Ok((base.unwrap_or("main").to_owned(), 0)),
            _ => Ok((base.unwrap_or("main").to_owned(), 2)),
        }
    }

    async fn merge(&self, _: &Project, number: u64, _: &NewMerge) -> Result<PullMerge, PullPagesError> {
        Ok(PullMerge { between: ends(), commit: Some(sha("c")), is_new: number != Self::MERGED })
    }

    async fn ends(&self, _: &Project, _: u64) -> Result<Option<(Sha, Sha)>, PullPagesError> {
        Ok(Some(ends()))
    }
}

fn ends() -> (Sha, Sha) {
    (sha("a"), sha("b"))
}

#[expect(clippy::unwrap_used, reason = "a constant")]
fn sha(digit: &str) -> Sha {
    digit.repeat(40).parse().unwrap()
}

/// Changes of jobs: each job has this diff.
pub struct OneDiff(pub String);

#[async_trait]
impl Diffs for OneDiff {
    async fn diff(&self, _: &Project, _: &Job) -> Result<GitBody, DiffError> {
        Ok(Box::pin(futures::stream::iter([Ok(self.0.clone().into())])))
    }

    async fn diff_of_commits(&self, project: &Project, job: &Job, _: &[Sha]) -> Result<GitBody, DiffError> {
        self.diff(project, job).await
    }

    async fn file(&self, _: &Project, _: &Job, _: &Sha, _: &str) -> Result<Option<Bytes>, DiffError> {
        Ok(None)
    }
}
