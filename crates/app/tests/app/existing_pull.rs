//! Tests of jobs on existing pull requests, over each kind of store.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use journeyman_app::{Caller, Error, JobRequest, RefusalKind};
use journeyman_core::code_host::PullState;
use journeyman_core::engine::Control;
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::key::{NewKey, Scope};
use journeyman_core::ports::{ForgeError, Forges, JobFilter};
use journeyman_core::project::Project;
use journeyman_core::pull::HostPull;
use journeyman_core::run::{Reason, ReasonCode};
use journeyman_testkit::OnePull;

use super::fixtures::{Fixture, all_with, new_key, once, operator, shop};

type Answer = Result<Option<HostPull>, ForgeError>;

fn host() -> (Arc<OnePull>, Arc<dyn Forges>) {
    let host = Arc::new(OnePull(Mutex::new(Ok(Some(OnePull::open())))));
    (Arc::clone(&host), host)
}

fn on(pull: &str) -> JobRequest {
    JobRequest { prompt: "Fix it".to_owned(), pull_request: Some(pull.to_owned()), ..JobRequest::default() }
}

async fn create(fixture: &Fixture, request: JobRequest) -> Result<JobId, Error> {
    let created = fixture.cases.create_job(&operator(), &shop().id, request, None).await;
    created.map(|accepted| accepted.record.id)
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> (RefusalKind, String) {
    let Err(Error::Refused(refusal)) = result else { unreachable!("{result:?}") };
    (refusal.kind, refusal.text)
}

#[tokio::test]
async fn a_job_works_on_an_existing_pull_request_by_number_or_url() {
    for name in ["12", "#12", OnePull::PAGE] {
        let (_, forges) = host();
        for fixture in all_with(&forges).await {
            fixture.create_shop().await;
            let id = create(&fixture, on(name)).await.unwrap();
            let job = fixture.store.job(id).await.unwrap().unwrap();
            assert_eq!(job.pull.as_ref().map(|pull| pull.url.as_str()), Some(OnePull::PAGE), "{}", fixture.name);
            assert_eq!((job.branch_name().as_str(), job.source.reference.as_str()), ("feature", "feature"));
            let repository = job.pull.unwrap().repository.unwrap();
            let indexed = fixture.store.indexed_pull(repository, 12).await.unwrap().unwrap();
            assert_eq!((indexed.job, indexed.head.as_str()), (id, "feature"), "{}", fixture.name);
        }
    }
}

#[tokio::test]
async fn after_a_rename_a_url_may_have_the_address_of_the_project_or_the_current_one() {
    let (_, forges) = host();
    for fixture in all_with(&forges).await {
        let project = Project { repository: "https://git.example/old/shop.git".to_owned(), ..shop() };
        fixture.cases.create_project(&operator(), (project, [].into()), None, |_| String::new()).await.unwrap();
        for name in ["https://git.example/old/shop/pull/12", OnePull::PAGE] {
            let id = create(&fixture, on(name)).await.unwrap();
            let job = fixture.store.job(id).await.unwrap().unwrap();
            assert_eq!(job.pull.map(|pull| pull.url).as_deref(), Some(OnePull::PAGE), "{}: {name}", fixture.name);
            fixture.cases.control_job(&operator(), &shop().id, id, Control::Archive, None).await.unwrap();
        }
        let (kind, _) = refusal(create(&fixture, on("https://git.example/older/shop/pull/12")).await);
        assert_eq!(kind, RefusalKind::PullRequestNotFound, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_pull_request_that_no_job_can_work_on_is_refused_and_nothing_is_stored() {
    let with = |change: fn(&mut HostPull)| {
        let mut pull = OnePull::open();
        change(&mut pull);
        Ok(Some(pull))
    };
    let unsupported = Reason::new(ReasonCode::NoCodeHost, "no code host");
    let cases: [(&str, Answer, RefusalKind, &str); 14] = [
        ("twelve", with(|_| ()), RefusalKind::Invalid, "neither the number nor the URL"),
        ("13", with(|_| ()), RefusalKind::PullRequestNotFound, "not a pull request of acme/shop"),
        ("https://git.example/acme/x/pull/12", with(|_| ()), RefusalKind::PullRequestNotFound, "acme/x/pull/12"),
        ("12", with(|pull| pull.state = PullState::Merged), RefusalKind::PullRequestEnded, "merged"),
        ("12", with(|pull| pull.state = PullState::Closed), RefusalKind::PullRequestEnded, "closed"),
        ("12", with(|pull| pull.is_from_fork = true), RefusalKind::PullRequestNotWritable, "in another repository"),
        ("12", with(|pull| pull.head = "main".to_owned()), RefusalKind::PullRequestNotWritable, "default branch"),
        ("12", Err(ForgeError::NoPulls(unsupported)), RefusalKind::NoPullRequests, "has no pull requests"),
        ("12", Err(ForgeError::Unclear("502".to_owned())), RefusalKind::CodeHostUnavailable, "nothing was stored"),
        (
            "12",
            Err(ForgeError::RateLimited(Duration::from_secs(9))),
            RefusalKind::CodeHostUnavailable,
            "nothing was stored",
        ),
        (
            "12",
            Err(ForgeError::Credential("401".to_owned())),
            RefusalKind::RepositoryUnreadable(ReasonCode::CredentialRefused),
            "credential",
        ),
        (
            "12",
            Err(ForgeError::NotFound("404".to_owned())),
            RefusalKind::RepositoryUnreadable(ReasonCode::RepositoryNotFound),
            "did not find",
        ),
        (
            "12",
            Err(ForgeError::Denied("403".to_owned())),
            RefusalKind::RepositoryUnreadable(ReasonCode::PermissionMissing),
            "denied",
        ),
        (
            "12",
            Err(ForgeError::Refused("there is no code host x".to_owned())),
            RefusalKind::RepositoryUnreadable(ReasonCode::RepositoryUnreachable),
            "refused",
        ),
    ];
    let (host, forges) = host();
    let fixture = all_with(&forges).await.remove(0);
    fixture.create_shop().await;
    for (name, answer, kind, named) in cases {
        host.answer(answer);
        let (found, text) = refusal(create(&fixture, on(name)).await);
        assert_eq!(found, kind, "{name}: {text}");
        assert!(text.contains(named), "{name}: {text}");
    }
    host.answer(Ok(Some(OnePull::open())));
    for request in [
        JobRequest { branch: Some("other".to_owned()), ..on("12") },
        JobRequest { reference: Some("other".to_owned()), ..on("12") },
    ] {
        let (kind, text) = refusal(create(&fixture, request).await);
        assert_eq!(kind, RefusalKind::Invalid, "{text}");
        assert!(text.contains("branch and ref must not be given"), "{text}");
    }
    assert!(fixture.store.jobs(JobFilter::newest(shop().id, 10)).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_pull_request_that_another_job_works_on_is_refused_with_the_job() {
    let (_, forges) = host();
    for fixture in all_with(&forges).await {
        let name = fixture.name;
        fixture.create_shop().await;
        let first = create(&fixture, on("12")).await.unwrap();
        let (kind, text) = refusal(create(&fixture, on("12")).await);
        assert_eq!(kind, RefusalKind::PullRequestTaken, "{name}");
        assert!(text.contains(&first.to_string()) && text.contains("send it a message"), "{name}: {text}");

        // A key that may not see the project of the job does not learn about the job.
        let blog: ProjectId = "blog".parse().unwrap();
        let project = journeyman_core::project::Project { id: blog.clone(), ..shop() };
        fixture.cases.create_project(&operator(), (project, [].into()), None, |_| String::new()).await.unwrap();
        let new = NewKey { scopes: vec![Scope::Write], projects: Some(vec![blog.clone()]), ..new_key() };
        let created = fixture.cases.create_key(&operator(), new, None, |_| String::new()).await.unwrap();
        let journeyman_app::Answered::New(created) = created else { panic!("it is new") };
        let actor = journeyman_app::Actor::Key(Arc::new(created.key));
        let limited = Caller { actor, ..operator() };
        let (kind, text) = refusal(fixture.cases.create_job(&limited, &blog, on("12"), None).await);
        assert_eq!(kind, RefusalKind::PullRequestTaken, "{name}");
        assert!(!text.contains(&first.to_string()) && !text.contains("shop;"), "{name}: {text}");

        fixture.cases.control_job(&operator(), &shop().id, first, Control::Archive, None).await.unwrap();
        create(&fixture, on("12")).await.unwrap();
    }
}

#[tokio::test]
async fn a_repeated_request_gets_its_first_answer_without_a_question_to_the_code_host() {
    let (host, forges) = host();
    for fixture in all_with(&forges).await {
        let name = fixture.name;
        fixture.create_shop().await;
        host.answer(Ok(Some(OnePull::open())));
        let create = async |key| fixture.cases.create_job(&operator(), &shop().id, on("12"), once(key, "12")).await;
        let first = create("k1").await.unwrap();
        for answer in [Ok(None), Err(ForgeError::Unclear("away".to_owned()))] {
            host.answer(answer);
            let again = create("k1").await.unwrap();
            assert_eq!((again.record.id, again.replayed), (first.record.id, true), "{name}");
        }
        assert_eq!(refusal(create("k2").await).0, RefusalKind::CodeHostUnavailable, "{name}");
    }
}
