//! Tests of jobs on a GitHub server: pull requests, and what people say there.

mod bases;
mod checks;
mod conversations;
mod crowd;
mod hooks;
mod mentions;
mod merges;
mod restarts;
mod secrets;
mod storm;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use journeyman_testkit::PATIENCE;
use journeyman_testkit::code_host::{
    CodeHostServer, CommentedOn, Fault, Product, Pull, PullState, Review, ReviewComment, State, signature,
};
use serde_json::{Value, json};

use super::fixtures::{Service, Site, client, git, site_with};

/// The path of the repository.
const PATH: &str = "acme/shop";

const WEBHOOK_SECRET: &str = "webhook-secret-of-the-tests";

/// A stand-in for GitHub, and a service whose project `web` works on its repository.
struct World {
    host: CodeHostServer,
    site: Site,
    runtime: tokio::runtime::Runtime,
    deliveries: AtomicU32,
}

impl World {
    fn new() -> Self {
        Self::with("")
    }

    /// Returns a world with more settings of the service.
    fn with(settings: &str) -> Self {
        Self::with_poll(settings, "off")
    }

    /// Returns a world whose code host has this value of `poll`. It is `off` in other tests, so that only webhooks report
    /// what happens.
    fn with_poll(settings: &str, poll: &str) -> Self {
        Self::of(Product::Github, settings, poll)
    }

    /// Returns a world with a stand-in for this product.
    fn of(product: Product, settings: &str, poll: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (host, repository) = runtime.block_on(async {
            let host = CodeHostServer::start(product).await;
            let repository = host.repository(PATH).await;
            (host, repository)
        });
        let secrets = super::fixtures::open_folder().keep();
        let file = |name: &str, text: &str| {
            let path = secrets.join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let config = format!(
            "workers = 4\ncode-host-networks = [\"127.0.0.0/8\", \"::1/128\"]\n{settings}\n[code-hosts.github]\nkind = {:?}\nurl = {:?}\ntoken-file = {:?}\n\
             webhook-secret-file = {:?}\npoll = {poll:?}\n",
            kind(product),
            host.url,
            file("token", State::TOKEN),
            file("webhook", WEBHOOK_SECRET),
        );
        let site = site_with(&config);
        site.succeed(&["project", "create", "web", "--repository", &repository]);
        Self { host, site, runtime, deliveries: AtomicU32::new(0) }
    }

    /// Starts the service. Comments wait only a second for others.
    fn start(&self) -> Service {
        let service = self.site.start();
        settle_quickly(&service);
        service
    }

    /// Creates a job, waits for it, and returns its path and the number of its pull request.
    fn job(&self, service: &Service, prompt: &str) -> (String, u64) {
        let (status, record) = service.call("POST", "/v2/agent/web/job", Some(json!({ "prompt": prompt })));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
        let record = service.settled(&job);
        assert_eq!(record["status"], "completed", "{record:#}\n{:#}", service.events(&job));
        let link = record["prLink"].as_str().unwrap();
        let number = link.strip_prefix(&format!("{}/{PATH}/pull/", self.host.url)).unwrap_or_else(|| panic!("{link}"));
        (job, number.parse().unwrap())
    }

    fn user(&self, name: &str, permission: &'static str) -> u64 {
        self.host.state().add_user(name, permission)
    }

    fn sender(&self, user: u64) -> Value {
        let user = self.host.state().user(user);
        json!({ "id": user.id, "login": user.name, "type": "User" })
    }

    /// Returns the body of a webhook.
    fn body(&self, sender: u64, more: Value) -> Value {
        let id = self.host.state().by_path(PATH).unwrap().id;
        let mut body = json!({ "repository": { "id": id, "full_name": PATH }, "sender": self.sender(sender) });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    /// Writes a comment on a pull request, and returns its ID and the body of its webhook.
    fn comment(&self, number: u64, author: u64, text: &str) -> (u64, Value) {
        let id = self.host.state().add_comment(PATH, CommentedOn::Pull(number), author, text);
        (id, self.comment_body("created", number, author, id, text, "2026-11-23T08:00:00Z"))
    }

    fn comment_body(&self, action: &str, number: u64, author: u64, id: u64, text: &str, version: &str) -> Value {
        let url = format!("{}/{PATH}/pull/{number}#issuecomment-{id}", self.host.url);
        let user = self.sender(author);
        let comment = json!({ "id": id, "html_url": url, "body": text, "user": user, "updated_at": version });
        let issue = json!({ "number": number, "pull_request": {} });
        self.body(author, json!({ "action": action, "issue": issue, "comment": comment }))
    }

    /// Submits a review with comments on lines, and returns the body of its webhook.
    fn review(&self, number: u64, author: u64, lines: &[&str]) -> Value {
        let mut comments = Vec::new();
        for (line, text) in (1..).zip(lines) {
            let id = self.host.state().id();
            let (body, path) = ((*text).to_owned(), "hello.txt".to_owned());
            comments.push(ReviewComment { id, body, path, line, reactions: Vec::new() });
        }
        let id = self.host.state().id();
        let review = Review { id, pull: number, author, body: String::new(), comments };
        self.host.state().by_path(PATH).unwrap().reviews.push(review);
        let url = format!("{}/{PATH}/pull/{number}#pullrequestreview-{id}", self.host.url);
        let (user, submitted_at) = (self.sender(author), "2026-11-23T08:00:00Z");
        let review = json!({ "id": id, "html_url": url, "body": null, "user": user, "submitted_at": submitted_at,
            "state": "changes_requested" });
        let pull = json!({ "number": number, "state": "open", "head": { "ref": "b", "sha": "a".repeat(40) } });
        self.body(author, json!({ "action": "submitted", "review": review, "pull_request": pull }))
    }

    /// Sends a webhook with a new delivery ID; returns the status and the body of the answer.
    fn deliver(&self, service: &Service, event: &str, body: &Value) -> (u16, Value) {
        let delivery = self.deliveries.fetch_add(1, Ordering::SeqCst) + 1;
        self.deliver_as(service, &format!("delivery-{delivery}"), event, body)
    }

    fn deliver_as(&self, service: &Service, delivery: &str, event: &str, body: &Value) -> (u16, Value) {
        let text = body.to_string();
        let signature = format!("sha256={}", signature(WEBHOOK_SECRET, text.as_bytes()));
        hook(service, "/hooks/github", delivery, event, Some(&signature), text)
    }

    fn deliver_all(&self, service: &Service, event: &str, bodies: &[Value]) {
        for body in bodies {
            let (status, answer) = self.deliver(service, event, body);
            assert_eq!((status, &answer["status"]), (202, &json!("stored")), "{answer}");
        }
    }

    /// Returns the comments of the service, without those that show the progress of a message.
    fn answers(&self) -> Vec<String> {
        let mut state = self.host.state();
        let comments = &state.by_path(PATH).unwrap().comments;
        let ours = comments.iter().filter(|comment| comment.author == State::BOT).map(|comment| comment.body.clone());
        ours.filter(|body| !body.starts_with('⏳') && !body.starts_with('⚙')).collect()
    }

    /// Returns the replies of the service in threads, each with the comment that it answers.
    fn replies(&self) -> Vec<(u64, String)> {
        let mut state = self.host.state();
        let replies = &state.by_path(PATH).unwrap().replies;
        let ours = replies.iter().filter(|reply| reply.author == State::BOT);
        ours.map(|reply| (reply.to, reply.body.clone())).collect()
    }

    fn reactions(&self, id: u64) -> Vec<String> {
        let mut state = self.host.state();
        let repository = state.by_path(PATH).unwrap();
        repository.comments.iter().find(|comment| comment.id == id).unwrap().reactions.clone()
    }

    fn file(&self, branch: &str, file: &str) -> String {
        git(&self.host.git_dir(PATH), &["show", &format!("{branch}:{file}")])
    }

    fn branch(&self, number: u64) -> String {
        let mut state = self.host.state();
        let pulls = &state.by_path(PATH).unwrap().pulls;
        pulls.iter().find(|pull| pull.number == number).unwrap().head.clone()
    }
}

/// Returns the name of a product in the configuration file.
const fn kind(product: Product) -> &'static str {
    match product {
        Product::Github => "github",
        Product::Gitlab => "gitlab",
        Product::Gitea => "gitea",
        Product::Forgejo => "forgejo",
        Product::Bitbucket => "bitbucket",
        Product::BitbucketDataCenter => "bitbucket-data-center",
    }
}

/// Lets comments wait only a second for others.
fn settle_quickly(service: &Service) {
    let settings = json!({ "comments": { "settleSeconds": 1 } });
    let (status, body) = service.call("PATCH", "/v2/projects/web", Some(settings));
    assert_eq!(status, 200, "{body}");
}

/// Sends a webhook; returns the status and the body of the answer.
fn hook(
    service: &Service,
    path: &str,
    delivery: &str,
    event: &str,
    signature: Option<&str>,
    body: String,
) -> (u16, Value) {
    try_hook(service, path, delivery, event, signature, body).unwrap()
}

fn try_hook(
    service: &Service,
    path: &str,
    delivery: &str,
    event: &str,
    signature: Option<&str>,
    body: String,
) -> reqwest::Result<(u16, Value)> {
    let request = client().post(format!("{}{path}", service.url)).body(body);
    let request = request.header("x-github-delivery", delivery).header("x-github-event", event);
    let request = signature.into_iter().fold(request, |request, value| request.header("x-hub-signature-256", value));
    let answer = request.header("content-type", "application/json").send()?;
    Ok((answer.status().as_u16(), serde_json::from_str(&answer.text()?).unwrap_or_default()))
}

/// Returns the inbox of the project, oldest first: the outcome of each event, or its state.
fn inbox(service: &Service) -> Vec<String> {
    let events = service.get("/v2/projects/web/inbox");
    let outcome = |event: &Value| event["outcome"].as_str().or(event["state"].as_str()).unwrap().to_owned();
    events["events"].as_array().unwrap().iter().rev().map(outcome).collect()
}

/// Waits until `found` returns something.
fn until<T>(what: &str, service: &Service, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: {:#}\n{}", service.get("/v2/inbox"), service.log());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Waits until the inbox of the project has these outcomes, oldest first.
fn until_inbox(service: &Service, expected: &[&str]) {
    until(&format!("the inbox is not {expected:?}"), service, || (inbox(service) == expected).then_some(()));
}

fn prompts(service: &Service, job: &str) -> Vec<String> {
    let messages = service.get(&format!("{job}/messages"));
    let prompts = messages["messages"].as_array().unwrap().iter();
    prompts.map(|message| message["prompt"].as_str().unwrap().to_owned()).collect()
}

/// Returns the parts of prompts that ask for something. A comment that still waits for its own message, as after the death
/// of the service, may be context of an earlier one.
fn requests(prompts: &[String]) -> Vec<&str> {
    prompts.iter().filter_map(|prompt| prompt.split("\n\n## The conversation on ").next()).collect()
}

#[test]
fn a_comment_reaches_its_job_without_a_webhook() {
    let world = World::with_poll("", "auto");
    let service = world.start();
    let (job, number) = world.job(&service, "write hello.txt: hello");
    let ada = world.user("ada", "write");
    service.kill();
    // A process that starts looks for new pull requests at once, and others do so each minute.
    world.host.state().add_comment(PATH, CommentedOn::Pull(number), ada, "@journeyman write bye.txt: bye");
    let service = world.start();
    until_inbox(&service, &["message"]);
    service.settled(&job);
    assert_eq!(service.get("/v2/projects/web/inbox")["events"][0]["event"], "poll");
}

#[test]
fn a_comment_on_a_pull_request_becomes_a_follow_up_and_is_answered() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let maria = world.user("maria", "write");
    let (comment, body) = world.comment(number, maria, "@journeyman-bot please [[append hello.txt|Goodbye]]");
    world.deliver_all(&service, "issue_comment", std::slice::from_ref(&body));
    until_inbox(&service, &["message"]);
    let answers = until("no answer", &service, || Some(world.answers()).filter(|answers| !answers.is_empty()));
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(world.file(&world.branch(number), "hello.txt"), "Hello\nGoodbye\n");
    assert!(answers[0].starts_with("✅ Done in ") && answers[0].contains("please"), "{}", answers[0]);
    until("no reaction", &service, || (world.reactions(comment) == ["eyes", "rocket"]).then_some(()));
    let message = &service.get(&format!("{job}/messages"))["messages"][1];
    assert_eq!(
        (message["origin"].clone(), message["author"].clone(), message["source"]["author"]["permission"].clone()),
        (json!("comment"), json!("maria"), json!("write")),
        "{message:#}"
    );

    // A redelivery, and the same comment in a new delivery, change nothing.
    let (status, answer) = world.deliver_as(&service, "delivery-1", "issue_comment", &body);
    assert_eq!((status, &answer["status"]), (202, &json!("known")));
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["message", "duplicate"]);
    assert_eq!((prompts(&service, &job).len(), world.answers().len()), (2, 1));
    assert_eq!(world.host.state().by_path(PATH).unwrap().pulls.len(), 1);
}

#[test]
fn a_review_with_many_comments_becomes_one_message() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let maria = world.user("maria", "admin");
    let lines: Vec<String> = (1..=12).map(|line| format!("Comment {line}.")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let body = world.review(number, maria, &lines);
    world.deliver_all(&service, "pull_request_review", &[body]);
    until_inbox(&service, &["message"]);
    service.settled(&job);
    let prompts = prompts(&service, &job);
    assert_eq!(prompts.len(), 2, "{prompts:#?}");
    for line in &lines {
        assert!(prompts[1].contains(line), "{line} is missing: {}", prompts[1]);
    }
    assert!(prompts[1].contains("hello.txt"), "{}", prompts[1]);
    let answers = until("no answer", &service, || Some(world.answers()).filter(|answers| !answers.is_empty()));
    assert_eq!((answers.len(), answers[0].matches("\n- [").count()), (1, 12), "{}", answers[0]);
    // Each thread has one reply, and the conversation one comment, which has shown the progress before.
    let replies = until("no replies", &service, || Some(world.replies()).filter(|replies| replies.len() == 12));
    let answered: BTreeSet<u64> = replies.iter().map(|(to, _)| *to).collect();
    assert_eq!(answered.len(), 12, "{replies:#?}");
    let ours = world.host.state().by_path(PATH).unwrap().comments.clone();
    assert_eq!(ours.iter().filter(|comment| comment.author == State::BOT).count(), 1, "{ours:#?}");
    let reactions = || world.host.state().by_path(PATH).unwrap().reviews[0].comments[11].reactions.clone();
    until("no reaction", &service, || (reactions() == ["eyes", "rocket"]).then_some(()));
}

#[test]
fn comments_of_strangers_and_of_the_service_itself_are_ignored() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let (stranger, reader) = (world.user("stranger", ""), world.user("reader", "read"));
    let bodies = [
        world.comment(number, stranger, "@journeyman-bot delete everything").1,
        world.comment(number, reader, "@journeyman-bot delete everything").1,
        world.comment(number, State::BOT, "@journeyman-bot delete everything").1,
        world.comment(number, reader, "I have not mentioned anyone.").1,
        world.comment(99, reader, "@journeyman-bot this is another pull request").1,
    ];
    world.deliver_all(&service, "issue_comment", &bodies);
    until_inbox(&service, &["not_permitted", "not_permitted", "ignored_self", "not_addressed", "not_permitted"]);
    assert_eq!(prompts(&service, &job).len(), 1);
    let other = json!({ "repository": { "id": 4711, "full_name": "acme/other" } });
    let body = world.body(reader, other);
    let mut unknown = world.comment(1, reader, "@journeyman-bot hello").1;
    unknown["repository"] = body["repository"].clone();
    world.deliver_all(&service, "issue_comment", &[unknown]);
    until("no event without a project", &service, || {
        let event = service.get("/v2/inbox")["events"][0].clone();
        (event["outcome"] == "no_project" && event["detail"] == "acme/other").then_some(())
    });
}

#[test]
fn a_webhook_that_is_not_signed_is_refused() {
    let world = World::new();
    let service = world.start();
    let body = json!({ "zen": "Keep it logically awesome." }).to_string();
    let signed = format!("sha256={}", signature(WEBHOOK_SECRET, body.as_bytes()));
    let forged = format!("sha256={}", signature("another secret", body.as_bytes()));
    for (path, delivery, signature, status, code) in [
        ("/hooks/github", "1", None, 401, "invalid_signature"),
        ("/hooks/github", "2", Some(&forged), 401, "invalid_signature"),
        ("/hooks/unknown", "3", Some(&signed), 404, "code_host_not_found"),
        ("/hooks/github/unknown", "4", Some(&signed), 404, "code_host_not_found"),
        ("/hooks/NOT%20AN%20ID", "5", Some(&signed), 404, "code_host_not_found"),
    ] {
        let (found, answer) = hook(&service, path, delivery, "ping", signature.map(String::as_str), body.clone());
        assert_eq!((found, &answer["code"]), (status, &json!(code)), "{path} {delivery}: {answer}");
    }
    let large = "x".repeat((25 << 20) + 1);
    let signed_large = format!("sha256={}", signature(WEBHOOK_SECRET, large.as_bytes()));
    // The service closes the connection, which the client may notice before it has read the answer.
    let refused = try_hook(&service, "/hooks/github", "6", "ping", Some(&signed_large), large);
    assert!(refused.as_ref().map_or(true, |(status, _)| *status == 413), "{refused:?}");
    assert_eq!(service.get("/v2/inbox")["events"], json!([]), "nothing is stored");
    let (status, answer) = hook(&service, "/hooks/github", "7", "ping", Some(&signed), body);
    assert_eq!((status, &answer["status"]), (202, &json!("stored")));
    until("the ping was not read", &service, || {
        (service.get("/v2/inbox")["events"][0]["outcome"] == "not_used").then_some(())
    });
}

#[test]
fn strangers_do_not_shut_out_signed_webhooks() {
    let world = World::new();
    let service = world.start();
    let address: std::net::SocketAddr = service.url.trim_start_matches("http://").parse().unwrap();
    let begin = |from: u8, path: &str, signature: &str, sent: usize| {
        let family = rustix::net::AddressFamily::INET;
        let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &std::net::SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        let mut stream = std::net::TcpStream::from(socket);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nx-github-event: ping\r\nx-github-delivery: s\r\n{signature}\
             content-length: {}\r\n\r\n",
            24 << 20
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The service may end the connection before it has taken all of this.
        drop(stream.write_all(&vec![b'x'; sent]));
        stream
    };
    // Without a known code host and a signature, the answer does not wait for the body.
    for (path, status) in [("/hooks/unknown", "404"), ("/hooks/github/unknown", "404"), ("/hooks/github", "401")] {
        let mut stream = begin(1, path, "", 0);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(String::from_utf8_lossy(&head), format!("HTTP/1.1 {status}"), "{path}");
    }
    let forged = format!("x-hub-signature-256: sha256={}\r\n", "0".repeat(64));
    let body = json!({ "zen": "Keep it logically awesome." }).to_string();
    let signed = format!("sha256={}", signature(WEBHOOK_SECRET, body.as_bytes()));
    let deliver = |delivery: String| {
        let (status, answer) = hook(&service, "/hooks/github", &delivery, "ping", Some(&signed), body.clone());
        assert_eq!(status, 202, "{delivery}: {answer}");
    };
    // From one address, which is that of the code host too, and from many.
    for (addresses, connections, sent) in [(1, 100, 0), (1, 6, 12 << 20), (8, 8, 12 << 20)] {
        let held: Vec<_> = (0..connections)
            .map(|number| begin(1 + u8::try_from(number % addresses).unwrap(), "/hooks/github", &forged, sent))
            .collect();
        for number in 0..5 {
            deliver(format!("{addresses}-{connections}-{number}"));
        }
        drop(held);
    }
}

#[test]
fn accepted_webhooks_survive_the_death_of_the_service() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let maria = world.user("maria", "write");
    let mut service = service;
    for round in 0..5 {
        let texts = (0..4).map(|index| format!("@journeyman-bot do {round}-{index}."));
        let bodies: Vec<Value> = texts.map(|text| world.comment(number, maria, &text).1).collect();
        world.deliver_all(&service, "issue_comment", &bodies);
        std::thread::sleep(std::time::Duration::from_millis(300 * round));
        service.kill();
        service = world.site.start();
    }
    until_inbox(&service, &["message"; 20]);
    service.settled(&job);
    let all = requests(&prompts(&service, &job)).join("\n");
    for (round, index) in (0..5).flat_map(|round| (0..4).map(move |index| (round, index))) {
        assert_eq!(all.matches(&format!("do {round}-{index}.")).count(), 1, "{round}-{index}: {all}");
    }
    let messages = prompts(&service, &job).len() - 1;
    until("an answer is missing", &service, || (world.answers().len() == messages).then_some(()));
    assert_eq!(world.host.state().by_path(PATH).unwrap().pulls.len(), 1);
}

#[test]
fn a_follow_up_after_a_rename_goes_to_the_repository_and_not_to_another_one_with_its_old_address() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let head = world.branch(number);
    // A process uses the description of a repository for some seconds.
    service.kill();
    world.host.state().rename(PATH, "acme/store");
    world.runtime.block_on(world.host.repository(PATH));
    let service = world.start();
    service.send(&job, "Say goodbye too\n[[append hello.txt|Goodbye]]");
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    let pushed = git(&world.host.git_dir("acme/store"), &["show", &format!("{head}:hello.txt")]);
    assert_eq!(pushed, "Hello\nGoodbye\n");
    assert_eq!(git(&world.host.git_dir(PATH), &["branch", "--format=%(refname:short)"]), "main\n");
    // Without the repository, the other one is not used either.
    service.kill();
    world.host.state().repositories.retain(|repository| repository.path == PATH);
    let service = world.start();
    service.send(&job, "Once more\n[[append hello.txt|Again]]");
    let is_explained = || service.events(&job).to_string().contains("another one has its address now");
    until("no reason", &service, || is_explained().then_some(()));
    assert_eq!(git(&world.host.git_dir(PATH), &["branch", "--format=%(refname:short)"]), "main\n");
}

#[test]
fn a_follow_up_after_another_url_of_the_same_repository_uses_the_new_mirror() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let url = format!("{}/{PATH}", world.host.url);
    let (status, body) = service.call("PATCH", "/v2/projects/web", Some(json!({ "repository": url })));
    assert_eq!(status, 200, "{body}");
    service.send(&job, "Say goodbye too\n[[append hello.txt|Goodbye]]");
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    let pushed = git(&world.host.git_dir(PATH), &["show", &format!("{}:hello.txt", world.branch(number))]);
    assert_eq!(pushed, "Hello\nGoodbye\n");
}

#[test]
fn a_follow_up_after_the_merge_opens_another_pull_request() {
    let world = World::new();
    let service = world.start();
    let (job, number) = world.job(&service, "Add a greeting\n[[write hello.txt|Hello]]");
    let maria = world.user("maria", "write");
    world.host.state().end(PATH, number, PullState::Merged);
    let head = world.branch(number);
    let sha = world.runtime.block_on(world.host.head(PATH, &head)).unwrap();
    world.runtime.block_on(world.host.move_branch(PATH, "main", &sha));
    let pull = json!({ "number": number, "state": "closed", "merged": true, "head": { "ref": head, "sha": sha } });
    let body = world.body(maria, json!({ "action": "closed", "pull_request": pull }));
    world.deliver_all(&service, "pull_request", &[body]);
    service.until(&job, "pull_request.merged", 1);
    until_inbox(&service, &["pull_recorded"]);
    service.send(&job, "Say goodbye too\n[[append hello.txt|Goodbye]]");
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    let link = record["prLink"].as_str().unwrap();
    assert_eq!(link, format!("{}/{PATH}/pull/{}", world.host.url, number + 1), "another pull request");
    assert_ne!(world.branch(number + 1), head, "another branch");
}

#[test]
fn a_change_of_ci_files_is_pushed_after_the_project_allows_it() {
    const WORKFLOW: &str = ".github/workflows/ci.yml";
    let world = World::new();
    let service = world.start();
    let prompt = format!("Add a workflow\n[[write {WORKFLOW}|on: push]]");
    let (status, record) = service.call("POST", "/v2/agent/web/job", Some(json!({ "prompt": prompt })));
    assert_eq!(status, 201, "{record}");
    let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "failed");
    let runs = service.get(&format!("{job}/runs"));
    let reason = &runs["runs"][0]["reason"];
    assert_eq!((runs["runs"].as_array().unwrap().len(), &reason["code"]), (1, &json!("ci_files_changed")), "{runs:#}");
    assert!(reason["text"].as_str().unwrap().contains(WORKFLOW), "{reason}");
    assert!(world.host.state().by_path(PATH).unwrap().pulls.is_empty());

    // The commits are kept, also if the repository has another URL now.
    let url = format!("{}/{PATH}", world.host.url);
    let allow = json!({ "repository": url, "pullRequest": { "ciFiles": "allow" } });
    assert_eq!(service.call("PATCH", "/v2/projects/web", Some(allow)).0, 200);
    service.send(&job, "Publish it\n[[say Done.]]");
    let record = service.settled(&job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    let number = world.host.state().by_path(PATH).unwrap().pulls[0].number;
    assert_eq!(world.file(&world.branch(number), WORKFLOW), "on: push\n");
}

#[test]
fn commits_are_signed_with_the_key_of_the_server() {
    let folder = super::fixtures::open_folder();
    let key = folder.path().join("key");
    let keygen = |arguments: &[&str]| {
        let made = std::process::Command::new("ssh-keygen").args(arguments).arg("-f").arg(&key).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    keygen(&["-q", "-t", "ed25519", "-N", "a passphrase"]);
    let settings = format!("commits-sign-key-file = {key:?}\ncommits-email = \"bot@example.com\"");
    let world = World::with(&settings);
    for command in ["serve", "doctor"] {
        let output = world.site.run(&[command]);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && text.contains("commits-sign-key-file"), "{command}: {text}");
        assert!(text.contains("has a passphrase"), "{command}: {text}");
    }
    keygen(&["-q", "-p", "-P", "a passphrase", "-N", ""]);
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let doctor = world.site.run(&["doctor", "--verbose"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains(public.trim()), "doctor prints the public key");

    let service = world.start();
    let agents = "[[run git config user.name Ada && git add . && git commit -qm Own]][[write b.txt|b]]";
    let (job, number) = world.job(&service, &format!("Add files\n[[write a.txt|a]]{agents}"));
    let allowed = folder.path().join("allowed");
    std::fs::write(&allowed, format!("bot@example.com {public}")).unwrap();
    let setting = format!("gpg.ssh.allowedSignersFile={}", allowed.display());
    let (host, branch) = (world.host.git_dir(PATH), world.branch(number));
    let verify = |expected: usize| {
        let commits = git(&host, &["rev-list", &format!("main..{branch}")]);
        assert_eq!(commits.lines().count(), expected);
        for commit in commits.lines() {
            git(&host, &["-c", &setting, "verify-commit", commit]);
        }
    };
    verify(2);
    service.send(&job, "Add more\n[[write c.txt|c]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    verify(3);
    let recorded = service.get(&format!("{job}/messages"));
    assert_eq!(recorded["messages"][1]["commits"][0], git(&host, &["rev-parse", &branch]).trim(), "{recorded:#}");
}

/// Opens a pull request of a person, from the branch `feature` with one commit. Returns its number and its page.
fn opened_by_people(world: &World, author: u64) -> (u64, String) {
    world.runtime.block_on(world.host.commit(PATH, "feature", "hello.txt", "Hello\n"));
    let mut state = world.host.state();
    let repository = state.by_path(PATH).unwrap();
    let number = repository.next_number();
    let (title, body, head) = ("Greet".to_owned(), "My own words.".to_owned(), "feature".to_owned());
    repository.pulls.push(Pull { number, title, body, head, base: "main".to_owned(), author, ..Pull::default() });
    (number, format!("{}/{PATH}/pull/{number}", world.host.url))
}

#[test]
fn a_job_works_on_a_pull_request_that_people_have_opened() {
    let world = World::new();
    let service = world.start();
    let maria = world.user("maria", "write");
    let (number, page) = opened_by_people(&world, maria);
    let theirs = world.runtime.block_on(world.host.head(PATH, "feature")).unwrap();
    let create = |prompt: &str, pull: Value| {
        service.call("POST", "/v2/agent/web/job", Some(json!({ "prompt": prompt, "pullRequest": pull })))
    };
    let (status, record) = create("Say more\n[[append hello.txt|Goodbye]]", json!(page));
    assert_eq!(
        (status, &record["prLink"], &record["source"]["ref"]),
        (201, &Value::Null, &json!("feature")),
        "{record}"
    );
    let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
    let known = service.get(&format!("{job}/details"))["pullRequest"].clone();
    assert_eq!((&known["number"], &known["url"]), (&json!(number), &json!(page)), "from the start");
    let (status, taken) = create("Me too", json!(number));
    assert_eq!((status, &taken["code"]), (409, &json!("pull_request_taken")), "{taken}");
    assert!(taken["error"].as_str().unwrap().contains(record["id"].as_str().unwrap()), "{taken}");

    let record = service.settled(&job);
    assert_eq!(
        (&record["status"], &record["prLink"]),
        (&json!("completed"), &json!(page)),
        "{:#}",
        service.events(&job)
    );
    assert_eq!(world.file("feature", "hello.txt"), "Hello\nGoodbye\n");
    git(&world.host.git_dir(PATH), &["merge-base", "--is-ancestor", &theirs, "feature"]);
    assert_eq!(service.text(&format!("{job}/diff")).matches("\n+").count(), 2, "the header, and the job's own line");
    let pulls = world.host.state().by_path(PATH).unwrap().pulls.clone();
    assert_eq!((pulls.len(), pulls[0].body.as_str()), (1, "My own words."));
    assert_eq!(service.count(&job, "pull_request.opened"), 0);

    // Comments are for the job.
    let (_, body) = world.comment(number, maria, "@journeyman-bot and [[append hello.txt|Again]]");
    world.deliver_all(&service, "issue_comment", &[body]);
    until_inbox(&service, &["message"]);
    service.settled(&job);
    assert_eq!(world.file("feature", "hello.txt"), "Hello\nGoodbye\nAgain\n");

    // After the merge, a follow-up opens a pull request of the job.
    world.host.state().end(PATH, number, PullState::Merged);
    let sha = world.runtime.block_on(world.host.head(PATH, "feature")).unwrap();
    world.runtime.block_on(world.host.move_branch(PATH, "main", &sha));
    service.send(&job, "Say it louder\n[[append hello.txt|!]]");
    let record = service.settled(&job);
    assert_eq!(
        record["prLink"],
        format!("{}/{PATH}/pull/{}", world.host.url, number + 1),
        "{:#}",
        service.events(&job)
    );
    let pulls = world.host.state().by_path(PATH).unwrap().pulls.clone();
    assert!(pulls[1].base == "main" && pulls[1].head.starts_with("journeyman/say-more-"), "{pulls:?}");
    assert_eq!(world.runtime.block_on(world.host.head(PATH, "feature")).unwrap(), sha, "the merged branch stays");
}

#[test]
fn commits_for_a_pull_request_that_was_closed_meanwhile_get_another_one() {
    let world = World::new();
    let service = world.start();
    let maria = world.user("maria", "write");
    let (number, _) = opened_by_people(&world, maria);
    let prompt = "Say more\n[[run true]][[hold]][[append hello.txt|Goodbye]]";
    let body = json!({ "prompt": prompt, "pullRequest": number });
    let (status, record) = service.call("POST", "/v2/agent/web/job", Some(body));
    assert_eq!(status, 201, "{record}");
    let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
    service.until(&job, "agent.tool_call", 1);
    world.host.state().end(PATH, number, PullState::Closed);
    let record = world.site.release(&service, &job);
    assert_eq!(record["status"], "completed", "{:#}", service.events(&job));
    let expected = format!("{}/{PATH}/pull/{}", world.host.url, number + 1);
    assert_eq!(record["prLink"], expected, "{:#}\n{:?}", service.events(&job), world.host.state().by_path(PATH));
    let pulls = world.host.state().by_path(PATH).unwrap().pulls.clone();
    assert_eq!((pulls.len(), pulls[1].head.as_str()), (2, "feature"));
}

#[test]
fn the_work_of_a_closed_pull_request_is_carried_over_by_the_next_change() {
    let world = World::new();
    let service = world.start();
    let body = json!({ "prompt": "Add a greeting\n[[write hello.txt|Hello]]" });
    let (status, record) = service.call("POST", "/v2/agent/web/job", Some(body));
    assert_eq!(status, 201, "{record}");
    let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    let pulls = || world.host.state().by_path(PATH).unwrap().pulls.clone();
    let first = pulls()[0].clone();
    world.host.state().end(PATH, first.number, PullState::Closed);
    // A question changes nothing, and opens nothing.
    service.send(&job, "Why?\n[[say Because.]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(pulls().len(), 1);
    service.send(&job, "Say more\n[[append hello.txt|Goodbye]]");
    assert_eq!(service.settled(&job)["status"], "completed", "{:#}", service.events(&job));
    assert_eq!(pulls().len(), 2, "{:#}", service.events(&job));
    assert!(pulls()[1].head.ends_with("-2"), "{:?}", pulls());
    let diff = service.text(&format!("{job}/diff"));
    assert!(diff.contains("+Hello\n") && diff.contains("+Goodbye\n"), "{diff}");
    let messages = service.get(&format!("{job}/messages"))["messages"].clone();
    let carried: Vec<&Value> = messages.as_array().unwrap().iter().map(|message| &message["carriedOver"]).collect();
    assert_eq!(carried, [&Value::Null, &Value::Null, &json!(first.head)]);
    // Pages show the commits of the earlier branch, also after it was deleted.
    let mirror = std::fs::read_dir(world.site.path("data/mirrors")).unwrap().next().unwrap().unwrap().path();
    let kept = git(&mirror, &["for-each-ref", "--format=%(refname:lstrip=3)", "refs/jobs"]);
    assert_eq!(kept.lines().collect::<Vec<_>>(), ["1", "head"], "{kept}");
}

#[test]
fn a_repository_that_is_read_only_is_known_before_the_agent_works() {
    for is_archived in [true, false] {
        // The message does not wait for `refusal-patience`, which is 30 min.
        let world = World::new();
        let service = world.start();
        match is_archived {
            true => world.host.state().by_path(PATH).unwrap().is_archived = true,
            false => world.host.state().tokens.get_mut(State::TOKEN).unwrap().can_write = false,
        }
        let (status, record) =
            service.call("POST", "/v2/agent/web/job", Some(json!({ "prompt": "[[write a.txt|1]]" })));
        assert_eq!(status, 201, "{record}");
        let job = format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap());
        assert_eq!(service.settled(&job)["status"], "failed", "{:#}", service.events(&job));
        let details = service.get(&format!("{job}/details"));
        let code = if is_archived { "repository_archived" } else { "permission_missing" };
        assert_eq!(details["failure"]["code"], code, "{details:#}");
        assert_eq!(service.count(&job, "agent.message") + service.count(&job, "agent.tool_call"), 0);
    }
}

#[test]
fn a_job_that_changes_nothing_has_no_link_to_the_pull_request_of_people() {
    let world = World::new();
    let service = world.start();
    let maria = world.user("maria", "write");
    let (number, _) = opened_by_people(&world, maria);
    let before = world.runtime.block_on(world.host.head(PATH, "feature"));
    let body = json!({ "prompt": "Look\n[[say It is fine.]]", "pullRequest": number });
    let (status, record) = service.call("POST", "/v2/agent/web/job", Some(body));
    assert_eq!(status, 201, "{record}");
    let record = service.settled(&format!("/v2/agent/web/job/{}", record["id"].as_str().unwrap()));
    assert_eq!((&record["status"], &record["prLink"]), (&json!("completed"), &Value::Null), "{record}");
    assert_eq!(world.runtime.block_on(world.host.head(PATH, "feature")), before);
}

#[test]
fn a_pull_request_that_a_job_cannot_work_on_is_refused() {
    let world = World::new();
    let service = world.start();
    let maria = world.user("maria", "write");
    let (number, _) = opened_by_people(&world, maria);
    let change = |change: &dyn Fn(&mut Pull)| {
        change(world.host.state().by_path(PATH).unwrap().pulls.iter_mut().find(|pull| pull.number == number).unwrap());
    };
    let refused = |pull: Value, status: u16, code: &str| {
        let body = json!({ "prompt": "x", "pullRequest": pull });
        let (found, answer) = service.call("POST", "/v2/agent/web/job", Some(body));
        assert_eq!((found, &answer["code"]), (status, &json!(code)), "{answer}");
        answer["error"].as_str().unwrap().to_owned()
    };
    refused(json!(number + 1), 422, "pull_request_not_found");
    refused(json!(format!("https://github.com/acme/other/pull/{number}")), 422, "pull_request_not_found");
    change(&|pull| pull.state = PullState::Closed);
    refused(json!(number), 422, "pull_request_ended");
    change(&|pull| (pull.state, pull.fork) = (PullState::Open, Some(4711)));
    let text = refused(json!(number), 422, "pull_request_not_writable");
    assert!(text.contains("is in another repository; journeyman pushes only to acme/shop"), "{text}");
    world.host.fault(Fault::FailsBefore, "GET".parse().unwrap(), "/pulls/", 100);
    let text = refused(json!(number), 503, "repository_unavailable");
    assert!(text.contains("nothing was stored"), "{text}");
    assert_eq!(service.get("/v2/agent/web/jobs")["jobs"], json!([]));
}

#[test]
fn a_job_takes_over_a_pull_request_of_the_built_in_host() {
    let site = super::fixtures::site();
    let service = site.start();
    let first = service.create("Add a greeting\n[[write hello.txt|Hello]]");
    let page = service.settled(&first)["prLink"].as_str().unwrap().to_owned();
    let create = |pull: &str| {
        let mut command = std::process::Command::new(crate::binary::program());
        command.args(["job", "create", "More\n[[append hello.txt|Goodbye]]", "--wait", "--json"]);
        command.args(["--pull-request", pull]).stdin(std::process::Stdio::null());
        command.env("JOURNEYMAN_URL", &service.url).env("JOURNEYMAN_KEY", &site.key);
        command.env("JOURNEYMAN_PROJECT", "shop").output().unwrap()
    };
    let taken = create("1");
    let text = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(!taken.status.success() && text.contains(first.rsplit('/').next().unwrap()), "{text}");
    assert_eq!(service.call("POST", &format!("{first}/archive"), None).0, 200);
    let created = create(&page);
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let records = String::from_utf8(created.stdout).unwrap();
    let record: Value = serde_json::from_str(records.trim().lines().last().unwrap()).unwrap();
    assert_eq!((&record["status"], &record["prLink"]), (&json!("completed"), &json!(page)), "{record}");
    let branch = record["source"]["ref"].as_str().unwrap();
    let repository = site.path("data/repositories/shop.git");
    assert_eq!(git(&repository, &["show", &format!("{branch}:hello.txt")]), "Hello\nGoodbye\n");
    let branches = git(&repository, &["for-each-ref", "--format=%(refname)", "refs/heads/journeyman"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");
    // The first job cannot come back while another works on its branch.
    let (status, answer) = service.call("POST", &format!("{first}/unarchive"), None);
    assert_eq!((status, &answer["code"]), (409, &json!("branch_taken")), "{answer}");
}
