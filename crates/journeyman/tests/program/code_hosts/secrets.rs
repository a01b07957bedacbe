//! Tests that the credentials of code hosts are nowhere but where they belong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use journeyman_testkit::code_host::{App, CodeHostServer, Product, State, Token, User, rsa_key, signature};
use serde_json::json;

use super::{PATH, WEBHOOK_SECRET, World, hook, until_inbox};
use crate::program::fixtures::{Service, git};

/// The secret with which the code host signs the webhooks of one project.
const PROJECT_SECRET: &str = "webhook-secret-of-the-project-4711";

/// The token of one project.
const PROJECT_TOKEN: &str = "tok_of-the-project.fedcba9876543210";

/// The beginning of the tokens that the stand-in issues to the app.
const APP_TOKEN: &str = "ghs_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

/// Lets the agent store what it can see.
const LOOK: &str = "[[run (env; cat /proc/*/environ /proc/*/cmdline; git config --list --show-origin; cat .git/config) \
                    >> ~/seen 2>&1; true]]";

#[test]
fn the_credentials_of_code_hosts_are_nowhere_else() {
    let key = rsa_key();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let apps = runtime.block_on(host_with_app());
    let world = World::with(&app_table(&apps.url, &key));
    let site = &world.site;
    site.succeed(&["project", "create", "apps", "--repository", &apps.clone_url(PATH)]);
    let middle_of_key = key.lines().nth(10).unwrap();
    let secrets = [State::TOKEN, WEBHOOK_SECRET, PROJECT_SECRET, PROJECT_TOKEN, APP_TOKEN, middle_of_key];

    let service = world.start();
    let over = AtomicBool::new(false);
    let in_processes = std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&over, &secrets));
        let jobs = work(&world, &service);
        over.store(true, Ordering::SeqCst);
        for job in &jobs {
            let home = site.path(&format!("data/workspaces/{}/home/seen", job.rsplit('/').next().unwrap()));
            let seen = std::fs::read(&home).unwrap();
            assert!(
                contains(&seen, "PATH=") && contains(&seen, "GIT_AUTHOR_NAME="),
                "{}",
                String::from_utf8_lossy(&seen)
            );
            for path in [String::new(), "/events?limit=1000".to_owned(), "/messages".to_owned(), "/runs".to_owned()] {
                assert_eq!(found(service.get(&format!("{job}{path}")).to_string().as_bytes(), &secrets), none());
            }
        }
        watching.join().unwrap()
    });
    let (in_processes, sandboxed) = in_processes;
    assert_eq!(in_processes, none(), "in a command line or an environment");
    assert!(sandboxed > 0, "no process of a sandbox was seen");
    for path in ["/v2/projects/web", "/v2/projects/apps", "/v2/inbox", "/metrics"] {
        assert_eq!(found(service.text(path).as_bytes(), &secrets), none(), "{path}");
    }
    assert_eq!(found(service.log().as_bytes(), &secrets), none(), "in the log");
    let files = files(site.dir.path());
    assert!(files.iter().any(|file| file.ends_with("journeyman.db")), "{files:?}");
    for file in &files {
        // A file may be gone meanwhile.
        let bytes = std::fs::read(file).unwrap_or_default();
        assert_eq!(found(&bytes, &secrets), none(), "{}", file.display());
    }
    let heads = files.iter().filter(|file| file.ends_with("HEAD") && file.with_file_name("objects").is_dir());
    let mut repositories: Vec<PathBuf> = heads.map(|head| head.parent().unwrap().to_owned()).collect();
    repositories.extend([world.host.git_dir(PATH), apps.git_dir(PATH)]);
    assert!(repositories.len() >= 4, "{repositories:?}");
    for repository in repositories {
        assert_eq!(found(&objects(&repository), &secrets), none(), "{}", repository.display());
    }
}

/// Lets jobs push and open pull requests with the token of the host, with that of the project, and as an app.
fn work(world: &World, service: &Service) -> [String; 2] {
    let (job, number) = world.job(service, &format!("Look\n[[write hello.txt|Hello]] {LOOK}"));
    let token = Token { user: State::BOT, can_write: true, ..Token::default() };
    world.host.state().tokens.insert(PROJECT_TOKEN.to_owned(), token);
    let own = json!({ "codeHost": { "token": PROJECT_TOKEN, "webhookSecret": PROJECT_SECRET } });
    let (status, answer) = service.call("PATCH", "/v2/projects/web", Some(own));
    assert_eq!(status, 200, "{answer}");
    let maria = world.user("maria", "write");
    let body = world.comment(number, maria, &format!("@journeyman-bot [[append hello.txt|Bye]] {LOOK}")).1.to_string();
    let signed = format!("sha256={}", signature(PROJECT_SECRET, body.as_bytes()));
    assert_eq!(hook(service, "/hooks/github/web", "1", "issue_comment", Some(&signed), body).0, 202);
    until_inbox(service, &["message"]);
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));

    let prompt = format!("Look\n[[write hello.txt|Hello]] {LOOK}");
    let (status, record) = service.call("POST", "/v2/agent/apps/job", Some(json!({ "prompt": prompt })));
    assert_eq!(status, 201, "{record}");
    let of_app = format!("/v2/agent/apps/job/{}", record["id"].as_str().unwrap());
    let record = service.settled(&of_app);
    assert!(
        record["status"] == "completed" && record["prLink"].is_string(),
        "{record:#}\n{:#}",
        service.events(&of_app)
    );
    [job, of_app]
}

/// Starts a stand-in on which the service is an app.
async fn host_with_app() -> CodeHostServer {
    let host = CodeHostServer::start(Product::Github).await;
    host.repository(PATH).await;
    let mut state = host.state();
    state.app = Some(App { id: 4242, slug: "acme-journeyman".to_owned(), ..App::default() });
    state.tokens.clear();
    state.users.push(User { id: 90, name: "acme-journeyman[bot]".to_owned(), is_bot: true });
    drop(state);
    host
}

fn app_table(url: &str, key: &str) -> String {
    let file = crate::program::fixtures::open_folder().keep().join("key.pem");
    std::fs::write(&file, key).unwrap();
    format!(
        "[code-hosts.apps]\nkind = \"github\"\nurl = {url:?}\napp-id = 4242\napp-slug = \"acme-journeyman\"\n\
         private-key-file = {:?}\npoll = \"off\"\n",
        file.display()
    )
}

fn none() -> Vec<String> {
    Vec::new()
}

/// Returns the secrets in some bytes.
fn found(bytes: &[u8], secrets: &[&str]) -> Vec<String> {
    secrets.iter().filter(|secret| contains(bytes, secret)).map(|secret| (*secret).to_owned()).collect()
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Reads the command lines and environments of all processes until `over`. Returns the secrets in them, and the number
/// of looks at processes in sandboxes.
fn watch(over: &AtomicBool, secrets: &[&str]) -> (Vec<String>, usize) {
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap();
    let (mut all, mut sandboxed) = (BTreeSet::new(), 0);
    while !over.load(Ordering::SeqCst) {
        for process in std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
            // A process may end meanwhile.
            let read = |name: &str| std::fs::read(process.join(name)).unwrap_or_default();
            for name in ["cmdline", "environ"] {
                all.extend(found(&read(name), secrets));
            }
            sandboxed +=
                usize::from(std::fs::read_link(process.join("ns/pid")).is_ok_and(|namespace| namespace != own));
        }
    }
    (all.into_iter().collect(), sandboxed)
}

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files.extend(self::files(&entry.path()));
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files
}

/// Returns the content of all objects of a repository, and its configuration.
fn objects(repository: &Path) -> Vec<u8> {
    let config = git(repository, &["config", "--list", "--show-origin"]);
    let mut command = Command::new("git");
    command.args(["-c", "safe.directory=*", "cat-file", "--batch-all-objects", "--batch"]).current_dir(repository);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    [config.into_bytes(), output.stdout].concat()
}
