//! Fixtures: a stand-in with one repository, and a project on it.

use std::sync::Arc;

use journeyman_core::code_host::{Access, CodeHost, HostKind, HostSecrets};
use journeyman_core::ids::Sha;
use journeyman_core::open_pull::{Ensure, Ensured};
use journeyman_core::ports::{Discussion, Forge, Forges as _, ProjectStore as _};
use journeyman_core::project::{Project, SecretChanges};
use journeyman_core::pull::NewPull;
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
pub(crate) use journeyman_forge::Outbound;
use journeyman_forge::{CodeHosts, Parts};
use journeyman_git::{Git, Runner};
use journeyman_store::SqliteStore;
use journeyman_testkit::code_host::{CodeHostServer, Product, State};
use journeyman_testkit::{Seeds as _, World};

use crate::described::recorded::Recorded;

/// The path of the repository.
pub(crate) const PATH: &str = "acme/shop";

/// All products.
pub(crate) const PRODUCTS: [Product; 6] = [
    Product::Github,
    Product::Gitlab,
    Product::Gitea,
    Product::Forgejo,
    Product::Bitbucket,
    Product::BitbucketDataCenter,
];

/// A stand-in and the service's view of it.
pub(crate) struct Fixture {
    pub(crate) server: CodeHostServer,
    pub(crate) hosts: CodeHosts,
    pub(crate) project: Project,
    pub(crate) world: Arc<World>,
    pub(crate) store: Arc<SqliteStore>,
    /// The requests to the host, which are compared with its descriptions at the end of the test.
    pub(crate) recorded: Recorded,
    pub(crate) host: CodeHost,
    secrets: HostSecrets,
}

/// Returns the settings for connections, with which logs on other servers of this machine can be read.
fn outbound() -> Outbound {
    let networks = ["127.0.0.0/8", "::1/128"].map(|network| network.parse().unwrap());
    Outbound { networks: Arc::from(networks), ..Outbound::default() }
}

fn connect(
    host: &CodeHost,
    secrets: &HostSecrets,
    world: &Arc<World>,
    store: &Arc<SqliteStore>,
    outbound: Outbound,
) -> CodeHosts {
    let folder = tempfile::tempdir().unwrap().keep();
    let askpass = Some(Git::write_askpass(&folder).unwrap());
    let path = "/usr/local/bin:/usr/bin:/bin".into();
    let git = Git::new(Runner { program: "git".into(), path, environment: Vec::new(), askpass });
    CodeHosts::new(Parts {
        git,
        hooks: folder.join("hooks"),
        repositories: folder,
        public_url: "https://journeyman.example".to_owned(),
        pulls: store.clone(),
        comparisons: store.clone(),
        users: store.clone(),
        secrets: store.clone(),
        hosts: store.clone(),
        configured: vec![(host.clone(), secrets.clone())],
        outbound,
        objects: Arc::new(journeyman_testkit::FakeHostedObjects::default()),
        clock: world.clone(),
    })
}

pub(crate) fn kind(product: Product) -> HostKind {
    match product {
        Product::Github => HostKind::Github,
        Product::Gitlab => HostKind::Gitlab,
        Product::Gitea => HostKind::Gitea,
        Product::Forgejo => HostKind::Forgejo,
        Product::Bitbucket => HostKind::Bitbucket,
        Product::BitbucketDataCenter => HostKind::BitbucketDataCenter,
    }
}

impl Fixture {
    /// Starts a stand-in whose token is that of the user `journeyman-bot`.
    pub(crate) async fn new(product: Product) -> Self {
        let username = match product {
            Product::BitbucketDataCenter => Some("journeyman-bot".to_owned()),
            Product::Bitbucket => Some("bot@example.com".to_owned()),
            _ => None,
        };
        let token = Some(SecretValue(State::TOKEN.to_owned()));
        let secrets = HostSecrets { token, ..HostSecrets::default() };
        Self::with(product, Access::Token { username }, secrets).await
    }

    /// Starts a stand-in with this access.
    pub(crate) async fn with(product: Product, access: Access, secrets: HostSecrets) -> Self {
        let server = CodeHostServer::start(product).await;
        let recorded = Recorded::new(product, &server);
        let url = server.repository(PATH).await;
        let (world, store) = (World::new(), Arc::new(SqliteStore::temporary(World::new()).unwrap()));
        if product == Product::Bitbucket {
            // Only administrators may read the permissions of others.
            server.state().by_path(PATH).unwrap().permissions.insert(State::BOT, "admin");
        }
        let host = CodeHost::of_address("host".parse().unwrap(), kind(product), server.url.clone());
        let host = CodeHost { access: Some(access), ..host };
        let hosts = connect(&host, &secrets, &world, &store, outbound());
        let project = Project::new("shop".parse().unwrap(), url, Timestamp::default());
        Self { server, hosts, project, world, store, recorded, host, secrets }
    }

    /// Returns the fixture with new clients, which know nothing of the stand-in.
    pub(crate) fn reconnected(self) -> Self {
        self.reconnected_with(outbound())
    }

    /// As [`Fixture::reconnected`], with other settings for connections.
    pub(crate) fn reconnected_with(self, outbound: Outbound) -> Self {
        Self { hosts: connect(&self.host, &self.secrets, &self.world, &self.store, outbound), ..self }
    }

    /// Returns the repository, as a run gets it.
    pub(crate) async fn forge(&self) -> Arc<dyn Forge> {
        self.hosts.of(&self.project).await.unwrap()
    }

    /// Describes the repository for the first time, which records its ID, and returns the ID.
    pub(crate) async fn seen(&mut self) -> String {
        let stored = self.store.create_project(self.project.clone(), SecretChanges::new()).await.unwrap();
        self.project = stored;
        let id = self.forge().await.repository().await.unwrap().id;
        self.project = self.store.project(self.project.id.clone()).await.unwrap().unwrap();
        assert_eq!(self.project.repository_id(), Some(id.as_str()));
        id
    }

    /// Pushes a commit to a new branch, as a job does, and returns the commit.
    pub(crate) async fn branch(&self, branch: &str) -> Sha {
        let commit = self.server.commit(PATH, branch, &format!("{branch}.txt"), branch).await;
        commit.parse().unwrap()
    }

    /// Ensures the pull request of a branch.
    pub(crate) async fn ensure(&self, branch: &str, head: &Sha) -> Result<Ensured, journeyman_core::ports::ForgeError> {
        let forge = self.forge().await;
        let ensure = Ensure { forge: &*forge, locks: &*self.store, clock: &*self.world, ids: &*self.world };
        ensure.run(&new_pull(branch), head).await
    }
}

/// Returns the discussion of a repository.
pub(crate) fn discussion(forge: &dyn Forge) -> &dyn Discussion {
    forge.discussion().unwrap()
}

/// A pull request from a branch to `main`.
pub(crate) fn new_pull(branch: &str) -> NewPull {
    NewPull {
        title: format!("Change {branch}"),
        body: "<!-- journeyman:begin -->\nDone.\n<!-- journeyman:end -->".to_owned(),
        head: branch.to_owned(),
        base: Some("main".to_owned()),
        draft: false,
        labels: Vec::new(),
        reviewers: Vec::new(),
        assignees: Vec::new(),
        auto_merge: false,
    }
}
