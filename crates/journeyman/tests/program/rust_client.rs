//! Tests of the Rust client library with the program.

use std::time::Duration;

use journeyman_client::models::{CreateJob, ErrorCode, EventData, JobFilter, MessageStatus, SendMessage, Status};
use journeyman_client::{Client, Error};
use journeyman_testkit::PATIENCE;

use super::fixtures::{Service, site};

/// The longest time to wait for a job.
const WAIT: Option<Duration> = Some(PATIENCE);

fn client(service: &Service) -> Client {
    Client::new(&service.url, &service.key).unwrap()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    runtime().block_on(work)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_job_is_created_and_followed_up() {
    let site = site();
    let service = site.start();
    let client = client(&service);
    block_on(async {
        let prompt = CreateJob::new("Add a page\n[[write a.txt|one]][[say I did]]").labels(["nightly"]);
        let job = client.jobs().create_and_wait("shop", &prompt, WAIT).await.unwrap();
        assert_eq!(job.status, Status::Completed);
        assert!(job.pr_link.is_some(), "{job:?}");

        let handle = client.job("shop", &job.id);
        let sent = handle.send_message(&SendMessage::new("More\n[[append a.txt|two]][[say And more]]")).await.unwrap();
        let message = sent.wait(WAIT).await.unwrap();
        assert_eq!((message.id.as_str(), &message.status), (sent.id.as_str(), &MessageStatus::Finished));
        assert!(message.answer.is_some_and(|answer| answer.contains("And more")));
        handle.wait(WAIT).await.unwrap();

        let diff = handle.diff().await.unwrap();
        assert!(String::from_utf8_lossy(&diff).ends_with("+one\n+two\n"));
        let details = handle.details().await.unwrap();
        assert_eq!((details.labels.as_slice(), details.queue_length), (["nightly".to_owned()].as_slice(), 0));
        let mut filter = JobFilter::new();
        filter.labels = vec!["nightly".to_owned()];
        assert_eq!(client.jobs().list_all(&filter).all().await.unwrap().len(), 1);
        assert_eq!(handle.messages().page_size(1).all().await.unwrap().len(), 2);
        assert_eq!(handle.runs().all().await.unwrap().len(), 2);
    });
}

#[test]
fn a_creation_with_the_same_key_returns_the_same_job() {
    let site = site();
    let service = site.start();
    let client = client(&service);
    block_on(async {
        let create = || client.jobs().create("shop", &CreateJob::new("[[say x]]")).idempotency_key("nightly-1");
        let (first, second) = (create().await.unwrap(), create().await.unwrap());
        assert_eq!(first.id, second.id);
        let other = client.jobs().create("shop", &CreateJob::new("[[say y]]")).idempotency_key("nightly-1").await;
        assert_eq!(other.unwrap_err().code(), Some(&ErrorCode::IdempotencyKeyReused));
    });
}

#[test]
fn a_stream_has_the_events_that_the_list_has() {
    let site = site();
    let service = site.start();
    let client = client(&service);
    block_on(async {
        let mut feed = client.events().stream("shop");
        feed.begin().await.unwrap();
        let created = client.jobs().create("shop", &CreateJob::new("[[write a.txt|a]][[say Hello]]")).await.unwrap();
        let job = client.job("shop", &created.id);
        let (mut events, mut streamed, mut texts) = (job.stream_events(), Vec::new(), String::new());
        while let Some(event) = events.next().await.unwrap() {
            assert!(!matches!(event.data, EventData::Unknown(_)), "an event has no type: {event:?}");
            if let EventData::AgentMessage(message) = &event.data {
                texts.push_str(message.text.as_deref().unwrap_or_default());
            }
            streamed.push(event);
        }
        assert!(texts.contains("Hello"), "{texts}");
        assert_eq!(job.events(0).page_size(3).all().await.unwrap(), streamed);
        let event = feed.next().await.unwrap();
        assert_eq!((event.kind.as_str(), event.data.job.id), ("job.created", created.id));
    });
}

#[test]
fn a_stream_and_a_wait_survive_a_restart_of_the_server() {
    let site = site();
    let service = site.start();
    let address = service.url.trim_start_matches("http://").to_owned();
    let client = client(&service);
    let path = service.create("[[hold]][[write a.txt|a]]");
    let job = client.job("shop", path.rsplit('/').next().unwrap());
    service.until(&path, "run.started", 1);
    let runtime = runtime();
    let mut events = job.stream_events();
    let first = runtime.block_on(events.next()).unwrap().unwrap();
    assert_eq!(first.seq, 1);
    service.kill();
    let service = site.start_at(&address);
    std::thread::scope(|scope| {
        scope.spawn(|| site.release(&service, &path));
        runtime.block_on(async {
            let mut numbers = vec![first.seq];
            while let Some(event) = events.next().await.unwrap() {
                numbers.push(event.seq);
            }
            let expected: Vec<u64> = (1..=numbers.len()).map(|number| number as u64).collect();
            assert_eq!(numbers, expected, "events are lost or repeated");
            assert_eq!(job.wait(WAIT).await.unwrap().status, Status::Completed);
        });
    });
}

#[test]
fn refusals_have_codes_and_do_not_show_the_key() {
    let site = site();
    let service = site.start();
    let client = client(&service);
    block_on(async {
        let error = client.job("shop", "job_x").get().await.unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(404), Some(&ErrorCode::JobNotFound)));
        let stranger = Client::new(&service.url, "jmn_x").unwrap();
        let error = stranger.me().await.unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(401), Some(&ErrorCode::MalformedKey)));
        assert!(!format!("{error} {error:?}").contains("jmn_x"));

        let project = client.projects().get("shop").versioned().await.unwrap();
        let changes = journeyman_client::models::ProjectChanges::new().setup("true");
        client.projects().change("shop", &changes).if_match(&project.etag).await.unwrap();
        let error = client.projects().change("shop", &changes).if_match(&project.etag).await.unwrap_err();
        assert!(matches!(&error, Error::Api(refusal) if refusal.status == 412), "{error}");
    });
}
