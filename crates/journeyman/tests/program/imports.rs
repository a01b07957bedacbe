//! Tests of imports into empty projects of the built-in code host, from a git server over HTTP.

use std::net::TcpListener;
use std::path::Path;

use journeyman_testkit::code_host::{CodeHostServer, Product, State};

use super::fixtures::{Service, Site, git, site};
use super::reviews::DashboardUser;

const PAGE: &str = "/projects/empty/jobs";
const FORM: &str = "/projects/empty/import";

/// A git server with a history of two commits, and a site with an empty project.
struct World {
    site: Site,
    url: String,
    _host: CodeHostServer,
    _runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (host, url) = runtime.block_on(async {
            let host = CodeHostServer::start(Product::Github).await;
            let url = host.repository("acme/shop").await;
            host.commit("acme/shop", "main", "src.txt", "text\n").await;
            host.commit("acme/shop", "next", "next.txt", "text\n").await;
            (host, url)
        });
        let site = site();
        site.succeed(&["project", "create", "empty", "--repository", "local:empty"]);
        Self { site, url, _host: host, _runtime: runtime }
    }

    fn administrator(&self, service: &Service) -> DashboardUser {
        DashboardUser::new(&self.site, service, "ada", "administrator")
    }

    fn form(&self, token: &str) -> String {
        format!("url={}&username=ada&token={token}", self.url)
    }

    fn branches(&self) -> String {
        let repository = self.site.path("data/repositories/empty.git");
        git(&repository, &["for-each-ref", "--format=%(refname)"])
    }
}

/// Returns the files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(text.len()).any(|window| window == text.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a_history_is_imported_with_a_token_that_is_stored_nowhere() {
    let world = World::new();
    let service = world.site.start();
    let ada = world.administrator(&service);
    let member = DashboardUser::new(&world.site, &service, "bob", "member");
    assert_eq!(member.submit(&service, FORM, &world.form(State::TOKEN)), 403);
    assert_eq!(ada.submit(&service, FORM, "url=http://169.254.169.254/shop.git"), 422, "a metadata service");

    assert_eq!(ada.submit(&service, FORM, &world.form("a-wrong-token")), 303);
    let failed = ada.until(&service, PAGE, "The import from 127.0.0.1 failed.");
    assert!(failed.contains("127.0.0.1 refused the user name and the token."), "{failed}");
    assert_eq!(world.branches(), "");

    assert_eq!(ada.submit(&service, FORM, &world.form(State::TOKEN)), 303);
    ada.until(&service, PAGE, "<bdi>main</bdi> has arrived</strong>, 2 commits.");
    assert_eq!(world.branches(), "refs/heads/main\nrefs/heads/next\n");
    let audit = ada.read(&service, "/audit");
    assert!(audit.contains("started to import a repository into the project"), "{audit}");
    assert!(audit.contains("ended the import of a repository into the project"), "{audit}");
    assert!(audit.contains("(from 127.0.0.1)"), "the server that was reached: {audit}");
    for secret in ["a-wrong-token", State::TOKEN] {
        assert!(!service.log().contains(secret), "{}", service.log());
        assert_eq!(files_with(&world.site.path("data"), secret), Vec::<String>::new());
    }
    // Jobs work on what was imported.
    let body = Some(serde_json::json!({ "prompt": "Add a greeting\n[[write hello.txt|Hello]]" }));
    let (status, job) = service.call("POST", "/v2/agent/empty/job", body);
    assert_eq!(status, 201, "{job}");
    let job = format!("/v2/agent/empty/job/{}", job["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "completed");
}

#[test]
fn an_import_whose_server_was_killed_fails_visibly_and_can_be_started_again() {
    let world = World::new();
    let service = world.site.start();
    let ada = world.administrator(&service);
    // A server that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endless = format!("url=http://{}/shop.git", silent.local_addr().unwrap());
    assert_eq!(ada.submit(&service, FORM, &endless), 303);
    // Git has connected.
    let connection = silent.accept().unwrap();
    ada.until(&service, PAGE, "Importing from <bdi>127.0.0.1</bdi>");
    assert_eq!(ada.submit(&service, FORM, &world.form(State::TOKEN)), 422, "two imports at once");

    service.kill();
    drop((connection, silent));
    let service = world.site.start();
    ada.until(&service, PAGE, "The server stopped during the import. Start it again");
    assert_eq!(world.branches(), "");
    assert_eq!(ada.submit(&service, FORM, &world.form(State::TOKEN)), 303);
    ada.until(&service, PAGE, "<bdi>main</bdi> has arrived</strong>, 2 commits.");
    let names = std::fs::read_dir(world.site.path("data/repositories")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unfinished: Vec<String> = names.filter(|name| name.starts_with(".empty.")).collect();
    assert!(unfinished.is_empty(), "{unfinished:?}");
}
