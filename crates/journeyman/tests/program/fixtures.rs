//! Helpers that run the program as its users do: as processes with a data directory, over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use journeyman_testkit::{PATIENCE, Template, until};
use reqwest::blocking::Response;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::binary::program;

/// A data directory with a key and a project, whose repository has one commit.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) dir: Arc<tempfile::TempDir>,
    pub(crate) key: String,
    /// The ID of the project, and the name of its repository: `shop`, unless the service is [`shared`].
    pub(crate) project: String,
    /// Lines of the configuration file.
    config: String,
}

/// A running service of a site.
#[derive(Clone)]
pub(crate) struct Service {
    process: Arc<Process>,
    pub(crate) url: String,
    pub(crate) key: String,
    /// The project of the test.
    pub(crate) project: String,
    client: reqwest::blocking::Client,
    /// Keeps a [`shared`] service running.
    _shared: Option<Arc<(Service, Site)>>,
}

/// The process of a service, which ends with the last test that uses it.
struct Process {
    id: Pid,
    child: Mutex<Child>,
    /// The log so far. A separate thread reads it, so that the service never blocks when it logs.
    log: Arc<Mutex<String>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The test may have ended the process already, or failed while it held the lock.
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the service's log:\n{}", self.log());
        }
    }
}

pub(crate) fn site() -> Site {
    site_with("workers = 4\n")
}

/// Returns a site with these lines in the configuration file. Sites are copies of one that was initialized once.
pub(crate) fn site_with(config: &str) -> Site {
    static INITIALIZED: Template = Template::new();
    static KEY: OnceLock<String> = OnceLock::new();
    let dir = open_folder();
    INITIALIZED.copy(dir.path(), |path| {
        let mut first = Site::new(open_folder(), String::new(), "");
        first.initialize();
        KEY.set(first.key).unwrap();
        std::fs::rename(Arc::into_inner(first.dir).unwrap().keep(), path).unwrap();
    });
    std::fs::write(dir.path().join("config.toml"), config).unwrap();
    Site::new(dir, KEY.get().unwrap().clone(), config)
}

/// Returns a new project of a service with these settings, which all tests with the same settings share. The service ends
/// with the last of them that runs.
pub(crate) fn shared(config: &str) -> (Site, Service) {
    /// The settings of a service, which runs as long as a test uses it.
    type Running = (String, Weak<(Service, Site)>);
    static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
    static PROJECTS: AtomicUsize = AtomicUsize::new(0);
    let running = {
        // Other tests wait here while the service starts.
        let mut all = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|(of, _)| of == config).and_then(|(_, running)| running.upgrade());
        found.unwrap_or_else(|| {
            let site = site_with(config);
            let service = site.start();
            let started = Arc::new((service, site));
            all.retain(|(of, _)| of != config);
            all.push((config.to_owned(), Arc::downgrade(&started)));
            started
        })
    };
    let project = format!("shop{}", PROJECTS.fetch_add(1, Ordering::SeqCst));
    let (mut service, mut site) = (running.0.clone(), running.1.clone());
    for (from, to) in [
        ("data/repositories/shop.git", format!("data/repositories/{project}.git")),
        ("people", format!("people-{project}")),
    ] {
        let copied = Command::new("cp").arg("-a").arg(site.path(from)).arg(site.path(&to)).status().unwrap();
        assert!(copied.success(), "{from}");
    }
    let body = json!({ "id": project, "repository": format!("local:{project}") });
    let (status, answer) = service.call("POST", "/v2/projects", Some(body));
    assert_eq!(status, 201, "{answer}");
    site.project.clone_from(&project);
    service.project = project;
    service._shared = Some(running);
    (site, service)
}

/// Returns a site on PostgreSQL, whose machines share the database, a folder of blobs and the built-in code host.
pub(crate) fn cluster(database: &str, more: &str) -> Site {
    let mut site = Site::new(open_folder(), String::new(), "");
    let shared = |name: &str| site.path(name).display().to_string();
    // Long enough for the heartbeats of a busy machine.
    let lease = if more.contains("lease = ") { "" } else { "lease = \"10s\"\n" };
    site.config = format!(
        "database-url = {database:?}\nmaster-key-file = {:?}\nblob-url = \"file://{}\"\nrepositories = {:?}\n\
         {lease}workers = 2\n{more}",
        shared("master.key"),
        shared("blobs"),
        shared("data/repositories"),
    );
    std::fs::write(site.path("master.key"), "5a".repeat(32)).unwrap();
    std::fs::set_permissions(site.path("master.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    site.initialize();
    site
}

/// Creates a temporary folder that the users of sandboxes can pass through, like /var/lib.
pub(crate) fn open_folder() -> tempfile::TempDir {
    let mode = std::fs::Permissions::from_mode(0o711);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

impl Site {
    fn new(dir: tempfile::TempDir, key: String, config: &str) -> Self {
        Self { dir: Arc::new(dir), key, project: "shop".to_owned(), config: config.to_owned() }
    }

    /// Returns another installation with the same settings and no data, where the same key is valid after a backup was
    /// restored. `changes` are replacements in the text of the configuration.
    pub(crate) fn new_installation(&self, changes: &[(&str, &str)]) -> Self {
        let dir = open_folder();
        let mut config = self.config.replace(&self.dir.path().display().to_string(), &dir.path().display().to_string());
        for (from, to) in changes {
            config = config.replace(from, to);
        }
        std::fs::write(dir.path().join("config.toml"), &config).unwrap();
        Self::new(dir, self.key.clone(), &config)
    }

    /// Replaces text of the configuration.
    pub(crate) fn reconfigure(&mut self, from: &str, to: &str) {
        self.config = self.config.replace(from, to);
        std::fs::write(self.path("config.toml"), &self.config).unwrap();
    }

    /// Creates a key, the project `shop`, and a commit in its repository.
    fn initialize(&mut self) {
        std::fs::write(self.path("config.toml"), &self.config).unwrap();
        self.key = self.succeed(&["key", "create", "--name", "tests"]).trim().to_owned();
        self.succeed(&["project", "create", "shop", "--repository", "local:shop"]);
        git(self.dir.path(), &["init", "--quiet", "--initial-branch=main", "people"]);
        self.people_commit("README.md", "# Shop\n");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command of the program on this site.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_at("data", arguments)
    }

    /// Returns a command with the data directory of one of the site's machines.
    pub(crate) fn command_at(&self, machine: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).arg("--config").arg(self.path("config.toml")).arg("--data-dir").arg(self.path(machine));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Commits a file, and pushes the commit to `main` of the built-in code host.
    pub(crate) fn people_commit(&self, file: &str, text: &str) {
        let people = self.people();
        std::fs::write(people.join(file), text).unwrap();
        git(&people, &["add", "--all"]);
        git(&people, &["commit", "--quiet", "--message", &format!("Write {file}")]);
        let repository = self.repository();
        git(&people, &["push", "--quiet", repository.to_str().unwrap(), "HEAD:main"]);
    }

    /// Returns the path of the repository of the project on the built-in code host.
    pub(crate) fn repository(&self) -> PathBuf {
        self.path(&format!("data/repositories/{}.git", self.project))
    }

    /// Returns the path of the clone in which people work.
    pub(crate) fn people(&self) -> PathBuf {
        self.path(&if self.project == "shop" { "people".to_owned() } else { format!("people-{}", self.project) })
    }

    /// Waits until the test model carries out `[[hold]]` in a job.
    pub(crate) fn held(&self, job: &str) {
        until(&format!("the wait of {job}"), || self.homes(job).any(|home| home.join("held").exists()).then_some(()));
    }

    /// Returns the homes of a job's agents, on all machines.
    fn homes(&self, job: &str) -> impl Iterator<Item = PathBuf> {
        let inside = format!("workspaces/{}/home", job.rsplit('/').next().unwrap());
        let folders = std::fs::read_dir(self.dir.path()).unwrap().flatten();
        folders.map(move |folder| folder.path().join(&inside)).filter(|home| home.is_dir())
    }

    /// Ends the directive `[[hold]]` in all workspaces of a job.
    fn end_hold(&self, job: &str) {
        for home in self.homes(job) {
            // The workspace may be rebuilt just now.
            let _ = std::fs::write(home.join("released"), "");
        }
    }

    /// Ends the directive `[[hold]]` of a job that a stopping service finishes.
    pub(crate) fn finish(&self, job: &str) {
        self.held(job);
        self.end_hold(job);
    }

    /// Ends the directive `[[hold]]` of a job, and waits until the job is not active; returns its record. An attempt that
    /// begins later, in a new workspace, is released too.
    pub(crate) fn release(&self, service: &Service, job: &str) -> Value {
        until(&format!("the end of {job}"), || {
            self.end_hold(job);
            let record = service.get(&format!("{job}?wait=1"));
            (record["status"] != "active").then_some(record)
        })
    }

    /// Returns the only branch that jobs have pushed.
    pub(crate) fn branch(&self) -> String {
        let arguments = ["for-each-ref", "--format=%(refname:short)", "refs/heads/journeyman"];
        let branches = git(&self.repository(), &arguments);
        let branches: Vec<&str> = branches.lines().collect();
        assert_eq!(branches.len(), 1, "{branches:?}");
        branches[0].to_owned()
    }

    /// Returns the text of a file on a branch; `None` if there is no such file.
    pub(crate) fn file(&self, branch: &str, file: &str) -> Option<String> {
        let shown = git_command(&self.repository(), &["show", &format!("{branch}:{file}")]).output().unwrap();
        shown.status.success().then(|| String::from_utf8(shown.stdout).unwrap())
    }

    pub(crate) fn start(&self) -> Service {
        self.start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(&self, address: &str) -> Service {
        self.launch(self.command(&["serve", "--listen", address, "--log-format", "json"]))
    }

    /// Starts one of several machines, which share only what the configuration names.
    pub(crate) fn start_machine(&self, machine: &str, role: &str) -> Service {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--log-format", "json", "--role", role];
        self.launch(self.command_at(machine, &arguments))
    }

    /// Starts a service with additional arguments.
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Service {
        self.launch(self.command(&[&["serve", "--log-format", "json"], arguments].concat()))
    }

    /// Starts a service through another program, which gets the command line of the service after its own arguments.
    pub(crate) fn start_wrapped(&self, wrapper: Command) -> Service {
        self.launch(wrapped(wrapper, &self.command(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])))
    }

    fn launch(&self, mut command: Command) -> Service {
        let mut process = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut begun = String::new();
        let url = loop {
            let line = lines.next().unwrap_or_else(|| panic!("the service did not start: {begun}")).unwrap();
            begun.push_str(&line);
            begun.push('\n');
            let entry: Value = serde_json::from_str(&line).unwrap_or_default();
            if entry["message"] == "serving" {
                break entry["url"].as_str().unwrap().to_owned();
            }
            if entry["message"] == "carrying out jobs" {
                break entry["health"].as_str().unwrap().trim_end_matches("/readyz").to_owned();
            }
        };
        let log = Arc::new(Mutex::new(begun));
        let writer = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut log = writer.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        // Each request has its own connection: a kept one may be closed by the service, after its idle timeout, just
        // when the next request is sent on it.
        let client = client();
        let process = Arc::new(Process { id: Pid::from_child(&process), child: Mutex::new(process), log });
        Service { process, url, key: self.key.clone(), project: self.project.clone(), client, _shared: None }
    }
}

impl Service {
    /// Returns the process ID.
    pub(crate) fn id(&self) -> u32 {
        self.process.id.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits until the log contains a text.
    pub(crate) fn until_log(&self, text: &str) {
        until(&format!("{text:?} in the log"), || self.log().contains(text).then_some(()));
    }

    pub(crate) fn log(&self) -> String {
        self.process.log.lock().unwrap().clone()
    }

    /// Sends a request; returns the status and the JSON of the answer, or null if it is not JSON.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = self.client.request(method.parse().unwrap(), format!("{}{path}", self.url));
        let request = request.bearer_auth(&self.key).header("accept", "application/json");
        let request = body.into_iter().fold(request, |request, body| request.json(&body));
        let answer = request.send().unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_str(&answer.text().unwrap()).unwrap_or_default())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Requests a page as the browser of a viewer who was just added; returns the status and the text.
    pub(crate) fn page(&self, site: &Site, url: &str) -> (u16, String) {
        let name = format!("reader-{}", site.succeed(&["user", "list"]).lines().count());
        let link = site.succeed(&["user", "add", &name, "--role", "viewer"]);
        let cookie = self.use_link(&link);
        let answer = self.client.get(url).header("cookie", cookie).send().unwrap();
        (answer.status().as_u16(), answer.text().unwrap())
    }

    /// Sets a password through a one-time link, ignoring the host in it; returns the session cookie.
    pub(crate) fn use_link(&self, link: &str) -> String {
        let token = link.trim().rsplit('=').next().unwrap();
        let client = client();
        let form = format!("link={token}&name=Ada&password=lantern+orbit+walnut");
        let set = client.post(format!("{}/setup", self.url)).header("origin", &self.url).body(form);
        let answer = set.header("content-type", "application/x-www-form-urlencoded").send().unwrap();
        assert_eq!(answer.status(), 303, "{link}");
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Sends a form of the dashboard with the cookie of a session, and returns the page that shows the new secret.
    pub(crate) fn secret_page(&self, cookie: &str, path: &str, form: &'static str) -> String {
        let client = client();
        let request = client.post(format!("{}{path}", self.url)).header("cookie", cookie).header("origin", &self.url);
        let answer = request.header("content-type", "application/x-www-form-urlencoded").body(form).send().unwrap();
        assert_eq!(answer.status(), 303, "{path}");
        let location = answer.headers()["location"].to_str().unwrap().to_owned();
        let secret = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let page = client.get(format!("{}{location}", self.url)).header("cookie", format!("{cookie}; {secret}"));
        page.send().unwrap().text().unwrap()
    }

    /// Returns the paths that the last message of a job left out, sorted.
    pub(crate) fn left_out(&self, job: &str) -> Vec<String> {
        let messages = self.get(&format!("{job}/messages"));
        let last = messages["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or_default();
        let paths = last["leftOut"].as_array().cloned().unwrap_or_default();
        paths.iter().map(|one| one["path"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn text(&self, path: &str) -> String {
        self.client.get(format!("{}{path}", self.url)).bearer_auth(&self.key).send().unwrap().text().unwrap()
    }

    /// Opens a job's event stream. When this returns, the request was authenticated.
    pub(crate) fn open_stream(&self, job: &str) -> Response {
        let request = self.client.get(format!("{}{job}/events", self.url)).bearer_auth(&self.key);
        request.header("accept", "text/event-stream").send().unwrap()
    }

    /// Reads a job's event stream up to an event of a type.
    pub(crate) fn stream_until(&self, job: &str, kind: &str) -> String {
        read_until(self.open_stream(job), kind)
    }

    /// Creates a job with this prompt in the project; returns its path.
    pub(crate) fn create(&self, prompt: &str) -> String {
        self.create_with(json!({ "prompt": prompt }))
    }

    /// Creates a job in the project with the body of a request; returns its path.
    pub(crate) fn create_with(&self, body: Value) -> String {
        let path = format!("/v2/agent/{}/job", self.project);
        let (status, record) = self.call("POST", &path, Some(body));
        assert_eq!(status, 201, "{record}");
        format!("{path}/{}", record["id"].as_str().unwrap())
    }

    /// Changes the project.
    pub(crate) fn configure(&self, changes: Value) {
        let (status, answer) = self.call("PATCH", &format!("/v2/projects/{}", self.project), Some(changes));
        assert_eq!(status, 200, "{answer}");
    }

    pub(crate) fn send(&self, job: &str, prompt: &str) -> Value {
        let (status, record) = self.call("POST", &format!("{job}/message"), Some(json!({ "prompt": prompt })));
        assert_eq!(status, 200, "{record}");
        record
    }

    /// Waits until a job is not active; returns its record.
    pub(crate) fn settled(&self, job: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let record = self.get(&format!("{job}?wait=30"));
            if record["status"] != "active" {
                return record;
            }
            assert!(Instant::now() < end, "{job} stays active: {:#}\n{}", self.events(job), self.log());
        }
    }

    /// Returns the job's events, and compares each with the schema of its type.
    pub(crate) fn events(&self, job: &str) -> Value {
        let events = self.get(&format!("{job}/events?limit=1000"))["events"].take();
        events.as_array().unwrap().iter().for_each(check_event);
        events
    }

    /// Returns the number of events of a type.
    pub(crate) fn count(&self, job: &str, kind: &str) -> usize {
        self.events(job).as_array().unwrap().iter().filter(|event| event["type"] == kind).count()
    }

    /// Waits until there are `times` events of a type.
    pub(crate) fn until(&self, job: &str, kind: &str, times: usize) {
        let end = Instant::now() + PATIENCE;
        while self.count(job, kind) < times {
            assert!(Instant::now() < end, "not {times} {kind} in {:#}", self.events(job));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the process, as the failure of a machine does.
    pub(crate) fn kill(self) {
        let mut child = self.process.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Pauses the process in the middle of its work, until [`Service::thaw`].
    pub(crate) fn freeze(&self) {
        kill_process(self.process.id, Signal::STOP).unwrap();
    }

    pub(crate) fn thaw(&self) {
        kill_process(self.process.id, Signal::CONT).unwrap();
    }

    /// Sends SIGTERM to the process.
    pub(crate) fn terminate(&self) {
        kill_process(self.process.id, Signal::TERM).unwrap();
    }

    /// Waits until the process has ended by itself; returns its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        until("the service stops", || self.process.child.lock().unwrap().try_wait().unwrap()).code()
    }
}

/// Returns an HTTP client that follows no redirects and waits for answers as long as a test may.
pub(crate) fn client() -> reqwest::blocking::Client {
    let builder = reqwest::blocking::Client::builder().redirect(reqwest::redirect::Policy::none());
    // No test needs the certificates of the machine, and reading them takes longer than most requests.
    builder.timeout(PATIENCE).pool_max_idle_per_host(0).tls_certs_only([]).build().unwrap()
}

/// Returns `wrapper` with the command line and the environment of `command` added to its own.
pub(crate) fn wrapped(mut wrapper: Command, command: &Command) -> Command {
    wrapper.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        value.map(|value| wrapper.env(name, value));
    }
    wrapper
}

/// Returns whether a process of this machine has this command line.
pub(crate) fn is_running(command_line: &[&str]) -> bool {
    let wanted: Vec<u8> = command_line.iter().flat_map(|word| word.bytes().chain([0])).collect();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    // A process may end between its listing and its reading.
    processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok()).any(|found| found == wanted)
}

/// Runs git as a user of a code host does; returns its output.
pub(crate) fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = git_command(dir, arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Stores the objects of a repository as single files, so that a test can damage some of them.
pub(crate) fn unpack(repository: &Path) {
    let packs = repository.join("objects/pack");
    let aside = repository.join("packs-aside");
    std::fs::rename(&packs, &aside).unwrap();
    std::fs::create_dir(&packs).unwrap();
    for file in std::fs::read_dir(&aside).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "pack") {
            let input = std::fs::File::open(&file).unwrap();
            let unpacked = git_command(repository, &["unpack-objects", "-q"]).stdin(input).status().unwrap();
            assert!(unpacked.success(), "{}", file.display());
        }
    }
    std::fs::remove_dir_all(aside).unwrap();
}

pub(crate) fn git_command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "safe.directory=*"]);
    command.args(["-c", "credential.helper="]).args(arguments).current_dir(dir);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null());
    command
}

/// Returns a shell script that speaks the Agent Client Protocol up to the prompt, and then runs `on_prompt`. There,
/// `$line` is the line of the prompt, `$id` the ID of its request, and `answer` ends the turn.
pub(crate) fn acp_script(on_prompt: &str) -> String {
    format!(
        r#"#!/bin/sh
BULK=$(head -c 100000 /dev/zero | tr '\0' b)
answer() {{ printf '{{"jsonrpc":"2.0","id":%s,"result":{{"stopReason":"end_turn"}}}}\n' "$id"; }}
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*)
        printf '{{"jsonrpc":"2.0","id":%s,"result":{{"protocolVersion":1,"agentCapabilities":{{}},"authMethods":[]}}}}\n' "$id" ;;
    *'"method":"session/new"'*)
        printf '{{"jsonrpc":"2.0","id":%s,"result":{{"sessionId":"s1"}}}}\n' "$id" ;;
    *'"method":"session/prompt"'*)
        {on_prompt} ;;
    esac
done
"#
    )
}

/// Compares an event with the schema of its type in docs/openapi.json: all required properties are present, and all
/// properties are described.
fn check_event(event: &Value) {
    static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
        let document: Value = serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
        document["components"]["schemas"].clone()
    });
    let reference = &SCHEMAS["Event"]["discriminator"]["mapping"][event["type"].as_str().unwrap()];
    let name = reference.as_str().unwrap_or_else(|| panic!("the type is not described: {event}")).rsplit('/').next();
    let schema = &SCHEMAS[name.unwrap()]["properties"]["data"];
    let data = event["data"].as_object().unwrap_or_else(|| panic!("{event}"));
    for field in data.keys() {
        assert!(schema["properties"].get(field).is_some(), "{field} is not described: {event}");
    }
    for field in schema["required"].as_array().into_iter().flatten() {
        assert!(data.contains_key(field.as_str().unwrap()), "{field} is missing: {event}");
    }
}

/// Reads an event stream up to an event of a type.
pub(crate) fn read_until(stream: Response, kind: &str) -> String {
    let mut text = String::new();
    for line in BufReader::new(stream).lines() {
        text.push_str(&line.unwrap());
        text.push('\n');
        if text.ends_with(&format!("event: {kind}\n")) {
            return text;
        }
    }
    panic!("the stream ended: {text}");
}
