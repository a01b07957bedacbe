//! Tests of several machines with one PostgreSQL server: processes with separate data directories.

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use journeyman_testkit::{PATIENCE, Postgres, until};
use reqwest::blocking::Response;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::fixtures::{Service, Site, client, cluster, git};

fn site() -> Site {
    cluster(&Postgres::shared().database(), "")
}

fn runs(service: &Service, job: &str) -> Vec<Value> {
    service.get(&format!("{job}/runs"))["runs"].as_array().unwrap().clone()
}

/// Returns the agent's record of a session on one machine.
fn session(site: &Site, machine: &str, job: &str) -> String {
    let id = job.rsplit('/').next().unwrap();
    let dir: PathBuf = site.path(machine).join(format!("workspaces/{id}/home/sessions"));
    let files = std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let file = files.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "json"));
    std::fs::read_to_string(file.unwrap()).unwrap()
}

#[test]
fn one_machine_serves_clients_and_another_runs_jobs() {
    let site = site();
    let (api, worker) = (site.start_machine("api", "api"), site.start_machine("worker", "worker"));
    assert_eq!(worker.call("GET", "/readyz", None).0, 200);
    assert_eq!(worker.call("GET", "/v2/projects", None).0, 404, "a worker serves no clients");
    assert!(!worker.log().contains("API key") && !worker.log().contains("serving"), "{}", worker.log());
    let job = api.create("Add a greeting\n[[say working]][[write hello.txt|Hello]]");
    let stream = api.stream_until(&job, "job.completed");
    assert!(stream.contains("event: run.started") && stream.contains("working"), "{stream}");
    assert_eq!(api.settled(&job)["status"], "completed", "{}", worker.log());
    assert_eq!(api.count(&job, "pull_request.opened"), 1);
    let diff = api.text(&format!("{job}/diff"));
    assert!(diff.contains("+Hello"), "the machine without a workspace shows the diff: {diff}");
}

#[test]
fn a_follow_up_goes_to_the_machine_with_the_workspace_or_to_another_if_that_is_gone() {
    let site = site();
    let api = site.start_machine("api", "api");
    let mut workers = vec![("one", site.start_machine("one", "worker")), ("two", site.start_machine("two", "worker"))];
    let job = api.create("[[write a.txt|1]]");
    assert_eq!(api.settled(&job)["status"], "completed");
    for text in ["2", "3", "4"] {
        api.send(&job, &format!("[[append a.txt|{text}]]"));
        assert_eq!(api.settled(&job)["status"], "completed");
    }
    let of: Vec<Value> = runs(&api, &job).iter().map(|run| run["worker"].clone()).collect();
    assert!(of.iter().all(|worker| *worker == of[0]), "{of:?}");
    let id = |machine: &str| std::fs::read_to_string(site.path(machine).join("worker.id")).unwrap().trim().to_owned();
    let position = workers.iter().position(|(machine, _)| json!(id(machine)) == of[0]).unwrap();
    let (_, machine) = workers.remove(position);
    machine.kill();
    api.send(&job, "[[append a.txt|5]]");
    assert_eq!(api.settled(&job)["status"], "completed");
    let last = runs(&api, &job).last().unwrap().clone();
    assert_eq!(last["worker"], id(workers[0].0), "{last}");
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "1\n2\n3\n4\n5\n");
    assert_eq!(api.count(&job, "pull_request.opened"), 1);
    let record = session(&site, workers[0].0, &job);
    assert!(record.contains("append a.txt|4"), "the other machine lacks the session: {record}");
}

#[test]
fn a_run_whose_machine_dies_in_mid_turn_is_taken_over() {
    let site = site();
    let api = site.start_machine("api", "api");
    let first = site.start_machine("one", "worker");
    let job = api.create("[[append a.txt|x]][[hold]][[append a.txt|y]]");
    api.until(&job, "agent.tool_call", 1);
    first.kill();
    let second = site.start_machine("two", "worker");
    assert_eq!(site.release(&api, &job)["status"], "completed", "{}", second.log());
    let attempts: Vec<Value> = runs(&api, &job).iter().map(|run| run["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(1), json!(2)]);
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "x\ny\n", "the message took effect once");
}

/// The open page of a job in a browser, which only its stream changes.
struct OpenPage {
    stream: Lines<BufReader<Response>>,
    /// True if the page says that there is no sign of the worker.
    is_silent: bool,
    /// True if the page shows that the job is inactive.
    is_over: bool,
}

impl OpenPage {
    /// Opens the page of a job that waits for a worker, as a viewer, and then its stream.
    fn open(site: &Site, service: &Service, job: &str) -> Self {
        let cookie = service.use_link(&site.succeed(&["user", "add", "ada", "--role", "viewer"]));
        let client = client();
        let get = |path: &str| {
            let answer = client.get(format!("{}{path}", service.url)).header("cookie", &cookie).send().unwrap();
            assert_eq!(answer.status(), 200, "{path}");
            answer
        };
        let id = job.rsplit('/').next().unwrap();
        let page = get(&format!("/projects/shop/jobs/{id}")).text().unwrap();
        assert!(page.contains("Waiting for a slot"), "{page}");
        let (_, source) = page.split_once("<turbo-stream-source ").unwrap();
        let source = source.split('"').find(|value| value.contains("/live?")).unwrap().replace("&#38;", "&");
        Self { stream: BufReader::new(get(&source)).lines(), is_silent: false, is_over: false }
    }

    /// Reads changes of the page until it is in a state.
    fn until(&mut self, state: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < end, "the page does not show {state}");
            let line = self.stream.next().unwrap_or_else(|| panic!("the stream ended before {state}")).unwrap();
            assert!(!line.contains("action=\"refresh\""), "the page would be loaded again: {line}");
            if line.contains("target=\"job-now\"") {
                self.is_silent = line.contains("No sign of the worker for");
            }
            self.is_over |= line.contains("id=\"job-head\" data-state=\"rests\"");
        }
    }
}

#[test]
fn an_open_page_says_that_its_worker_is_silent_until_another_takes_over() {
    let site = site();
    let api = site.start_machine("api", "api");
    let job = api.create("[[append a.txt|x]][[hold]][[append a.txt|y]]");
    let mut page = OpenPage::open(&site, &api, &job);
    let first = site.start_machine("one", "worker");
    api.until(&job, "agent.tool_call", 1);
    first.kill();
    page.until("the silence of the worker", |page| page.is_silent);
    assert_eq!(api.get(&job)["status"], "active");
    let second = site.start_machine("two", "worker");
    page.until("the work of another worker", |page| !page.is_silent);
    site.release(&api, &job);
    page.until("the end of the job", |page| page.is_over);
    assert_eq!(api.get(&job)["status"], "completed", "{}", second.log());
}

#[test]
fn a_machine_that_is_frozen_beyond_its_lease_changes_nothing() {
    let site = site();
    let api = site.start_machine("api", "api");
    let first = site.start_machine("one", "worker");
    let job = api.create("[[append a.txt|x]][[hold]]");
    api.until(&job, "agent.tool_call", 1);
    first.freeze();
    let second = site.start_machine("two", "worker");
    assert_eq!(site.release(&api, &job)["status"], "completed", "{}", second.log());
    let head = git(&site.repository(), &["rev-parse", &site.branch()]);
    first.thaw();
    // Wait long enough for a push that must not happen.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(git(&site.repository(), &["rev-parse", &site.branch()]), head);
    assert_eq!(api.count(&job, "pull_request.opened"), 1);
    assert_eq!(api.count(&job, "commit.pushed"), 1);
    api.send(&job, "[[append a.txt|y]]");
    assert_eq!(api.settled(&job)["status"], "completed");
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "x\ny\n");
}

/// Creates `number` jobs at once and waits for all; returns the runs of each.
fn runs_of_jobs(api: &Service, number: usize) -> Vec<Vec<Value>> {
    let jobs: Vec<String> = (0..number).map(|number| api.create(&format!("[[write {number}.txt|x]]"))).collect();
    let settle = |job: &String| {
        assert_eq!(api.settled(job)["status"], "completed", "{:#}", api.events(job));
        runs(api, job)
    };
    jobs.iter().map(settle).collect()
}

#[test]
fn a_mirror_that_is_damaged_on_one_of_two_machines_fails_no_job() {
    let site = site();
    let api = site.start_machine("api", "api");
    let workers = ["one", "two"].map(|machine| site.start_machine(machine, "worker"));
    let mirrors = || ["one", "two"].map(|machine| site.path(machine).join("mirrors"));
    while !mirrors().iter().all(|folder| folder.read_dir().is_ok_and(|mut entries| entries.next().is_some())) {
        runs_of_jobs(&api, 4);
    }

    // Empty objects, as a power cut leaves unsynced files: the attempt that finds them repairs the mirror.
    let script = "find \"$1\" -path '*/objects/*' -type f -exec truncate --size=0 {} +";
    let damaged = std::process::Command::new("sh").args(["-c", script, "sh"]).arg(&mirrors()[0]).status();
    assert!(damaged.unwrap().success());
    let repaired = runs_of_jobs(&api, 8);
    assert!(repaired.iter().all(|runs| runs.len() == 1), "one attempt for each job: {repaired:#?}");

    // Mirrors that cannot be created at all: the next attempt goes to the other machine. It waits 30 s for that one, so
    // there are only twice as many jobs as that one has workers.
    std::fs::remove_dir_all(&mirrors()[0]).unwrap();
    std::fs::write(&mirrors()[0], "no folder").unwrap();
    let moved = runs_of_jobs(&api, 4);
    let id = |machine: &str| json!(std::fs::read_to_string(site.path(machine).join("worker.id")).unwrap().trim());
    for runs in &moved {
        let last = runs.last().unwrap();
        assert_eq!((&last["worker"], runs.len() <= 2), (&id("two"), true), "{runs:#?}\n{}", workers[0].log());
    }
    assert!(moved.iter().any(|runs| runs.len() == 2), "the machine without mirrors took no job");
}

#[test]
fn damage_of_a_mirror_during_a_turn_is_not_the_fault_of_the_agent() {
    let site = super::fixtures::site();
    let service = site.start();
    let job = service.create("[[append a.txt|x]][[hold]]");
    site.held(&job);
    // Trees that cannot be read: git fails while it commits the files.
    for mirror in std::fs::read_dir(site.path("data/mirrors")).unwrap().flatten() {
        let mirror = mirror.path();
        super::fixtures::unpack(&mirror);
        let objects = git(&mirror, &["rev-list", "--objects", "--all"]);
        let objects = objects.lines().filter_map(|line| line.split(' ').next());
        for object in objects.filter(|object| git(&mirror, &["cat-file", "-t", object]).trim() == "tree") {
            let (start, end) = object.split_at(2);
            std::fs::remove_file(mirror.join("objects").join(start).join(end)).unwrap();
        }
    }
    assert_eq!(site.release(&service, &job)["status"], "completed", "{}", service.log());
    let runs = runs(&service, &job);
    assert_eq!(runs.len(), 1, "the same attempt repairs the mirror: {runs:#?}");
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "x\n");
    service.until_log("the mirror is damaged and is being rebuilt");
}

#[test]
fn a_turn_survives_a_crash_of_the_database() {
    let server = Postgres::durable();
    let site = cluster(&server.database(), "");
    let (api, worker) = (site.start_machine("api", "api"), site.start_machine("one", "worker"));
    let job = api.create("[[append a.txt|x]][[hold]][[append a.txt|y]]");
    api.until(&job, "agent.tool_call", 1);
    server.crash();
    let (status, body) = api.call("POST", &format!("{job}/message"), Some(json!({"prompt": "[[append a.txt|z]]"})));
    assert_eq!((status, body["code"].clone()), (503, json!("store_unavailable")), "{body}");
    server.up();
    api.send(&job, "[[append a.txt|z]]");
    assert_eq!(site.release(&api, &job)["status"], "completed", "{}", worker.log());
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "x\ny\nz\n");
    assert_eq!(api.count(&job, "pull_request.opened"), 1);
}

#[test]
fn one_service_moves_from_sqlite_to_postgresql() {
    let site = super::fixtures::site();
    let service = site.start();
    let job = service.create("[[write a.txt|1]]");
    let before = service.settled(&job);
    let to = Postgres::shared().database();
    let busy = site.run(&["store", "copy", "--to", &to]);
    assert!(String::from_utf8_lossy(&busy.stderr).contains("another service runs"), "{busy:?}");
    service.kill();
    let output = site.succeed(&["store", "copy", "--to", &to]);
    assert!(output.contains("1 jobs") && output.contains("master.key"), "{output}");
    let key = site.path("data/master.key").display().to_string();
    let moved = site.start_with(&["--database-url", &to, "--master-key-file", &key, "--listen", "127.0.0.1:0"]);
    let after = moved.get(&job);
    assert_eq!(
        (after["status"].clone(), after["createdAt"].clone()),
        (before["status"].clone(), before["createdAt"].clone())
    );
    moved.send(&job, "[[append a.txt|2]]");
    assert_eq!(moved.settled(&job)["status"], "completed");
    assert_eq!(site.file(&site.branch(), "a.txt").unwrap(), "1\n2\n");
}

#[test]
fn without_auto_migrate_only_the_migrate_command_creates_the_schema() {
    let url = Postgres::shared().database();
    let site = cluster(&url, "");
    let other = Postgres::shared().database();
    let key = site.path("master.key").display().to_string();
    let arguments = ["--database-url", &other, "--master-key-file", &key, "--auto-migrate=false"];
    let refused = site.run(&[&["serve", "--listen", "127.0.0.1:0"], &arguments[..]].concat());
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("journeyman migrate"), "{error}");
    let doctor = site.run(&["doctor", "--database-url", &other, "--json"]);
    let findings: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let database = findings.as_array().unwrap().iter().find(|one| one["check"] == "database").unwrap().clone();
    assert!(database["text"].as_str().unwrap().contains("up to date"), "{database}");
    let made = site.succeed(&["migrate", "--database-url", &other]);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/migrations/postgres");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let all = names.filter(|name| name.as_encoded_bytes()[0].is_ascii_digit()).count();
    assert!(made.contains(&format!("steps made: {all}\n")), "doctor has changed nothing: {made}");
    assert!(made.contains("up to date"), "{made}");
    site.start_with(&[&arguments[..], &["--listen", "127.0.0.1:0"]].concat());
}

#[test]
fn a_service_that_starts_before_its_database_waits_for_it() {
    let server = Postgres::durable();
    let site = cluster(&server.database(), "");
    server.stop();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = |path: &str| {
        let answer = client().get(format!("http://{free}{path}")).send().ok()?;
        let (status, retries) = (answer.status().as_u16(), answer.headers().contains_key("retry-after"));
        Some((status, retries, answer.json::<Value>().unwrap_or_default()))
    };
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| site.start_at(&free.to_string()));
        until("the process is alive", || asked("/healthz").filter(|(status, ..)| *status == 200));
        let (status, retries, body) = until("an answer", || asked("/readyz"));
        assert_eq!((status, retries, &body["code"]), (503, true, &json!("store_unavailable")), "{body}");
        assert!(body["error"].as_str().unwrap().contains("waits for its database"), "{body}");
        assert!(body["requestId"].as_str().unwrap().starts_with("req_"), "{body}");
        assert_eq!(asked("/v2/projects").map(|(status, ..)| status), Some(503));
        server.up();
        let service = starting.join().unwrap();
        assert!(service.log().contains("waiting for the database server"), "{}", service.log());
        assert_eq!(service.call("GET", "/readyz", None).0, 200);
        assert_eq!(service.settled(&service.create("[[say x]]"))["status"], "completed");
    });
}

#[test]
fn a_service_with_wrong_settings_of_its_database_ends_at_once() {
    let site = cluster(&Postgres::shared().database(), "");
    let unknown = Postgres::shared().url("nothing");
    let ended = site.run(&["serve", "--listen", "127.0.0.1:0", "--database-url", &unknown]);
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && error.contains("\"nothing\" does not exist"), "{error}");
}

#[test]
fn a_service_that_waits_for_its_database_can_be_stopped() {
    let site = cluster(&Postgres::shared().database(), "");
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    command.args(["--database-url", "postgres://127.0.0.1:9/x"]).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut waiting = command.spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("waiting for the database server")));
    kill_process(Pid::from_child(&waiting), Signal::TERM).unwrap();
    assert!(waiting.wait().unwrap().success());
}
