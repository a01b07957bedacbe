//! Tests of repeated requests: a request with the same idempotency key is answered with the first answer.

use std::time::Duration;

use futures::future::join_all;
use journeyman_app::{Answered, CreatedKey, Error, JobRequest, RefusalKind};
use journeyman_core::engine::Control;
use journeyman_core::job::JobStatus;
use journeyman_core::ports::{JobFilter, UpdateError};
use journeyman_core::project::{PermissionPolicy, Project};
use journeyman_core::refusal;
use journeyman_core::refusal::ResourceKind;
use journeyman_core::version::Precondition;
use journeyman_testkit::{FakeForges, Seeds as _};

use super::fixtures::{all, new_key, once, operator, reason, shop};

fn text<T>(answered: Answered<T>, shown: impl Fn(&T) -> String) -> (bool, String) {
    match answered {
        Answered::New(new) => (false, shown(&new)),
        Answered::Replayed(text) => (true, text),
    }
}

fn secret(created: &CreatedKey) -> String {
    created.secret.clone()
}

fn repository(project: &Project) -> String {
    project.repository.clone()
}

#[tokio::test]
async fn a_repeated_creation_has_one_effect_and_one_answer() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let create =
            async || cases.create_project(&operator(), (shop(), [].into()), once("p", "shop"), repository).await;
        let all = join_all([create(), create(), create()]).await;
        let all: Vec<(bool, String)> = all.into_iter().map(|done| text(done.unwrap(), repository)).collect();
        assert_eq!(all.iter().filter(|(replayed, _)| !replayed).count(), 1, "{name}: {all:?}");
        assert!(all.iter().all(|(_, answer)| answer == "local:shop"), "{name}: {all:?}");

        let create = async || cases.create_key(&operator(), new_key(), once("k", "ci"), secret).await;
        let (first, second) = (create().await.unwrap(), create().await.unwrap());
        let (first, second) = (text(first, secret), text(second, secret));
        assert_eq!((first.0, second.0), (false, true), "{name}");
        assert_eq!(first.1, second.1, "{name}: the answer has the same secret");
        assert_eq!(fixture.store.keys().await.unwrap().len(), 1, "{name}");
        assert_eq!(fixture.audited().await.len(), 2, "{name}: a replay is not audited");
    }
}

#[tokio::test]
async fn a_repetition_is_not_checked_again() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let create =
            async || cases.create_project(&operator(), (shop(), [].into()), once("p", "shop"), repository).await;
        create().await.unwrap();
        let new = || journeyman_core::key::NewKey { projects: Some(vec![shop().id]), ..new_key() };
        cases.create_key(&operator(), new(), once("k", "ci"), secret).await.unwrap();
        cases.delete_project(&operator(), &shop().id, Precondition::None).await.unwrap();
        assert!(text(create().await.unwrap(), repository).0, "{name}: the project was deleted meanwhile");
        assert_eq!(fixture.store.project(shop().id).await.unwrap(), None, "{name}");
        let again = cases.create_key(&operator(), new(), once("k", "ci"), secret).await.unwrap();
        assert!(text(again, secret).0, "{name}: the project of the key was deleted meanwhile");
    }
}

#[tokio::test]
async fn a_key_is_used_for_one_request_and_a_refused_request_does_not_use_it() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let broken = Project { repository: FakeForges::BROKEN.to_owned(), ..shop() };
        let failed = cases.create_project(&operator(), (broken, [].into()), once("p", "broken"), repository).await;
        assert!(failed.is_err(), "{name}");
        cases.create_project(&operator(), (shop(), [].into()), once("p", "shop"), repository).await.unwrap();
        let other = Project::new("other".parse().unwrap(), "local:other", shop().created_at);
        let refused = cases.create_project(&operator(), (other, [].into()), once("p", "other"), repository).await;
        let reused = (refusal::RefusalKind::KeyReused, ResourceKind::IdempotencyKey);
        assert_eq!(reason(&refused.unwrap_err()), reused, "{name}");
        let refused = cases.create_project(&operator(), (shop(), [].into()), None, repository).await;
        assert_eq!(reason(&refused.unwrap_err()), (refusal::RefusalKind::Exists, ResourceKind::Project), "{name}");
    }
}

#[tokio::test]
async fn a_repeated_control_of_a_job_is_answered_with_the_first_record() {
    for fixture in all().await {
        let (name, cases, id) = (fixture.name, &fixture.cases, shop().id);
        fixture.create_shop().await;
        let request = JobRequest { prompt: "Fix it".to_owned(), ..JobRequest::default() };
        let job = cases.create_job(&operator(), &id, request, None).await.unwrap().record.id;
        let control = async |control, key| cases.control_job(&operator(), &id, job, control, once(key, key)).await;
        let first = control(Control::Archive, "a").await.unwrap();
        control(Control::Unarchive, "u").await.unwrap();
        let again = control(Control::Archive, "a").await.unwrap();
        assert!(again.replayed && again.record == first.record, "{name}: {again:?}");
        let status = fixture.store.job(job).await.unwrap().unwrap().status();
        assert_ne!(status, JobStatus::Archived, "{name}: the repetition has no effect");
        let other = cases.control_job(&operator(), &id, job, Control::Cancel, once("a", "other")).await;
        assert!(matches!(other, Err(Error::Update(UpdateError::KeyReused(_)))), "{name}: {other:?}");
    }
}

#[tokio::test]
async fn a_repeated_job_is_answered_although_the_policy_has_changed() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        fixture.create_shop().await;
        let create = async |key: &str| {
            let request = JobRequest { prompt: "x".to_owned(), ..JobRequest::default() };
            cases.create_job(&operator(), &shop().id, request, once(key, "x")).await
        };
        let first = create("k1").await.unwrap();
        let mut changed = shop();
        // The agent of the tests never asks for permission, so the policy could not be applied.
        changed.settings.sandbox.permissions = PermissionPolicy::Refuse;
        fixture.store.update_project(changed, [].into()).await.unwrap();
        fixture.world.advance(Duration::from_secs(2));
        let again = create("k1").await.unwrap();
        assert_eq!((again.replayed, again.record), (true, first.record), "{name}");
        let Error::Refused(refusal) = create("k2").await.unwrap_err() else { unreachable!("{name}") };
        assert_eq!(refusal.kind, RefusalKind::UnsupportedPolicy, "{name}");
        assert_eq!(fixture.store.jobs(JobFilter::newest(shop().id, 10)).await.unwrap().len(), 1, "{name}");
    }
}
