//! Tests of the keys that keys create.

use std::sync::Arc;
use std::time::Duration;

use journeyman_app::{Actor, Answered, Caller, CreatedKey, Error, JobRequest, RefusalKind};
use journeyman_core::key::{NewKey, Scope, parse_network};
use journeyman_core::message::Origin;
use journeyman_core::time::Clock as _;
use journeyman_core::user::Role;
use journeyman_core::version::Precondition;

use super::fixtures::{Fixture, all, new_key, operator, shop};

fn caller(created: &CreatedKey) -> Caller {
    let actor = Actor::Key(Arc::new(created.key.clone()));
    Caller { actor, address: None, origin: Origin::Api, traceparent: None }
}

async fn create(fixture: &Fixture, caller: &Caller, new: NewKey) -> Result<CreatedKey, Error> {
    match fixture.cases.create_key(caller, new, None, |_| String::new()).await? {
        Answered::New(created) => Ok(created),
        Answered::Replayed(_) => unreachable!("there is no idempotency key"),
    }
}

/// Expects that the caller's key is too limited, and returns the sentence about it.
fn limited<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    match result.unwrap_err() {
        Error::Refused(refusal) if refusal.kind == RefusalKind::NotAdministrator => refusal.text,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_key_of_a_key_ends_with_it_and_with_all_before_it() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let parent = create(&fixture, &operator(), new_key()).await.unwrap();
        let child = create(&fixture, &caller(&parent), new_key()).await.unwrap();
        let grandchild = create(&fixture, &caller(&child), new_key()).await.unwrap();
        let other = create(&fixture, &operator(), new_key()).await.unwrap();
        let is_known = async |key: &CreatedKey| cases.known_key(key.key.hash).await.unwrap().is_some();
        assert!(is_known(&grandchild).await && is_known(&other).await, "{name}");
        cases.revoke_key(&operator(), parent.key.id, Precondition::None).await.unwrap();
        for key in [&child, &grandchild] {
            assert!(!is_known(key).await, "{name}");
            let revoked = cases.key(&operator(), key.key.id).await.unwrap().revoked_at;
            assert!(revoked.is_some(), "{name}: lists show that it has ended");
            let refused = create(&fixture, &caller(key), new_key()).await.unwrap_err();
            let is_ended = matches!(&refused, Error::Refused(refusal) if refusal.kind == RefusalKind::ScopeMissing);
            assert!(is_ended, "{name}: {refused}");
        }
        assert!(is_known(&other).await, "{name}");
    }
}

#[tokio::test]
async fn a_key_whose_parent_has_expired_is_refused() {
    for fixture in all().await {
        let end = fixture.world.now() + Duration::from_secs(8);
        let short = NewKey { expires_at: Some(end), ..new_key() };
        let parent = create(&fixture, &operator(), short.clone()).await.unwrap();
        let refused = limited(create(&fixture, &caller(&parent), new_key()).await);
        assert!(refused.starts_with("expiresAt: "), "{}: {refused}", fixture.name);
        let child = create(&fixture, &caller(&parent), short).await.unwrap();
        assert!(fixture.cases.known_key(child.key.hash).await.unwrap().is_some(), "{}", fixture.name);
        fixture.world.advance(Duration::from_secs(9));
        assert!(fixture.cases.known_key(child.key.hash).await.unwrap().is_none(), "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_key_for_some_addresses_gives_nothing_that_can_be_used_from_others() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let wide = create(&fixture, &operator(), new_key()).await.unwrap();
        let local = NewKey { allowed_ips: Some(vec![parse_network("10.0.0.0/8").unwrap()]), ..new_key() };
        let bound = caller(&create(&fixture, &operator(), local.clone()).await.unwrap());
        let refused = limited(create(&fixture, &bound, new_key()).await);
        assert!(refused.starts_with("allowedIps: "), "{name}: {refused}");
        let rotate = |id| cases.rotate_key(&bound, id, Duration::ZERO, Precondition::None, None, |_| String::new());
        let refused = limited(rotate(wide.key.id).await);
        assert!(refused.starts_with("allowedIps: "), "{name}: the secret of a wider key: {refused}");
        let child = create(&fixture, &bound, local).await.unwrap();
        rotate(child.key.id).await.unwrap();
        let user = cases.create_user(&bound, "eve", Role::Administrator, None, |_| String::new()).await;
        let refused = limited(user.map(drop));
        assert!(refused.contains("from some addresses"), "{name}: {refused}");
        let jobs =
            caller(&create(&fixture, &operator(), NewKey { scopes: vec![Scope::Read], ..new_key() }).await.unwrap());
        let reader = create(&fixture, &jobs, new_key()).await.unwrap_err();
        assert!(matches!(&reader, Error::Refused(refusal) if refusal.kind == RefusalKind::ScopeMissing), "{reader}");
    }
}

#[tokio::test]
async fn a_merge_without_a_person_needs_the_scope_write() {
    for fixture in all().await {
        let name = fixture.name;
        fixture.create_shop().await;
        for (scope, auto_merge, is_accepted) in [
            (Scope::Jobs, Some(true), false),
            (Scope::Jobs, Some(false), true),
            (Scope::Jobs, None, true),
            (Scope::Write, Some(true), true),
        ] {
            let request = JobRequest { prompt: "x".to_owned(), auto_merge, ..JobRequest::default() };
            let caller = fixture.key(scope).await;
            let created = fixture.cases.create_job(&caller, &shop().id, request, None).await;
            match created {
                Ok(accepted) => {
                    let job = fixture.store.job(accepted.record.id).await.unwrap().unwrap();
                    assert_eq!((job.options.auto_merge, is_accepted), (auto_merge, true), "{name}: {scope:?}");
                }
                Err(error) => {
                    assert!(!is_accepted && error.to_string().contains("scope write"), "{name}: {scope:?}: {error}");
                }
            }
        }
    }
}
