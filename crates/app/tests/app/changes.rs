//! Tests of versions, preconditions, concurrent changes, and audit entries.

use futures::future::join_all;
use journeyman_app::{Actor, Answered, Caller, Error, JobRequest, MessageRequest, RefusalKind, UseCases};
use journeyman_core::decision::user::UserChanges;
use journeyman_core::engine::Control;
use journeyman_core::key::Scope;
use journeyman_core::message::DeliveryMode;
use journeyman_core::project::{PermissionPolicy, Project};
use journeyman_core::refusal;
use journeyman_core::refusal::ResourceKind;
use journeyman_core::user::{Role, TokenHash, User};
use journeyman_core::version::Precondition;

use super::fixtures::{all, new_key, once, operator, reason, shop};

const fn to_role(role: Role) -> UserChanges {
    UserChanges { role: Some(role), disabled: None, has_identity: None, has_second_factor: None }
}

const fn to_disabled(disabled: bool) -> UserChanges {
    UserChanges { role: None, disabled: Some(disabled), has_identity: None, has_second_factor: None }
}

async fn add_user(cases: &UseCases, name: &str, role: Role) -> User {
    match cases.create_user(&operator(), name, role, None, |_| String::new()).await.unwrap() {
        Answered::New(created) => created.user,
        Answered::Replayed(_) => unreachable!("there is no idempotency key"),
    }
}

#[tokio::test]
async fn concurrent_changes_of_different_fields_are_all_kept() {
    for fixture in all().await {
        fixture.create_shop().await;
        let change = async |number: usize| {
            let edit = Box::new(move |mut project: journeyman_core::project::Project| {
                project.settings.environment.insert(format!("V{number}"), number.to_string());
                Ok((project, [].into()))
            });
            fixture.cases.change_project(&operator(), &shop().id, Precondition::None, edit).await.unwrap()
        };
        join_all((0..10).map(change)).await;
        let project = fixture.store.project(shop().id).await.unwrap().unwrap();
        assert_eq!(project.settings.environment.len(), 10, "{}: {:?}", fixture.name, project.settings.environment);
        assert_eq!(project.version, 11, "{}", fixture.name);
        let changes = fixture.audited().await.iter().filter(|line| line.contains("project.changed")).count();
        assert_eq!(changes, 10, "{}", fixture.name);
    }
}

#[tokio::test]
async fn a_change_of_another_version_is_refused_and_stores_nothing() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        fixture.create_shop().await;
        let rename = |model: &'static str| {
            Box::new(move |mut project: journeyman_core::project::Project| {
                project.model = model.to_owned();
                Ok((project, [].into()))
            })
        };
        let first = Precondition::Version(vec![1]);
        cases.change_project(&operator(), &shop().id, first.clone(), rename("a/b")).await.unwrap();
        let before = fixture.audited().await;
        let refused = cases.change_project(&operator(), &shop().id, first.clone(), rename("c/d")).await.unwrap_err();
        assert_eq!(reason(&refused), (refusal::RefusalKind::VersionMismatch, ResourceKind::Project), "{name}");
        let refused = cases.delete_project(&operator(), &shop().id, first.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), (refusal::RefusalKind::VersionMismatch, ResourceKind::Project), "{name}");

        let user = add_user(cases, "ada", Role::Administrator).await;
        let other = add_user(cases, "bob", Role::Member).await;
        cases.change_user(&operator(), other.id, first.clone(), to_role(Role::Viewer)).await.unwrap();
        let refused = cases.change_user(&operator(), other.id, first.clone(), to_disabled(true)).await.unwrap_err();
        assert_eq!(reason(&refused), (refusal::RefusalKind::VersionMismatch, ResourceKind::User), "{name}");
        let last =
            cases.change_user(&operator(), user.id, Precondition::None, to_role(Role::Viewer)).await.unwrap_err();
        assert_eq!(reason(&last), (refusal::RefusalKind::Missing, ResourceKind::Administrator), "{name}");

        let Answered::New(created) = cases.create_key(&operator(), new_key(), None, |_| String::new()).await.unwrap()
        else {
            unreachable!("there is no idempotency key")
        };
        let refused = cases.revoke_key(&operator(), created.key.id, Precondition::Version(vec![2])).await.unwrap_err();
        assert_eq!(reason(&refused), (refusal::RefusalKind::VersionMismatch, ResourceKind::Key), "{name}");
        let project = fixture.store.project(shop().id).await.unwrap().unwrap();
        assert_eq!((project.model.as_str(), project.version), ("a/b", 2), "{name}");
        let after = fixture.audited().await;
        let added: Vec<&str> = after[before.len()..].iter().filter_map(|line| line.split(' ').nth(1)).collect();
        let users = ["user.created", "user.link", "user.created", "user.link", "user.role.viewer"];
        assert_eq!(added, [&users[..], &["key.created"]].concat(), "{name}");
    }
}

#[tokio::test]
async fn every_change_leaves_an_entry_with_its_actor() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        fixture.create_shop().await;
        let caller = fixture.key(Scope::Write).await;
        let same = Box::new(|project| Ok((project, [].into())));
        cases.change_project(&caller, &shop().id, Precondition::None, same).await.unwrap();
        let user = add_user(cases, "ada", Role::Member).await;
        cases.change_user(&operator(), user.id, Precondition::None, to_disabled(true)).await.unwrap();
        cases.change_user(&operator(), user.id, Precondition::None, to_disabled(false)).await.unwrap();
        cases.delete_project(&caller, &shop().id, Precondition::None).await.unwrap();
        let key = caller.id();
        let id = user.id;
        let expected = [
            "cli project.created shop".to_owned(),
            format!("cli key.created {key}"),
            format!("{key} project.changed shop"),
            format!("cli user.created {id}"),
            format!("cli user.link {id}"),
            format!("cli user.disabled {id}"),
            format!("cli user.enabled {id}"),
            format!("{key} project.deleted shop"),
        ];
        assert_eq!(fixture.audited().await, expected, "{name}");
    }
}

#[tokio::test]
async fn a_user_is_created_with_a_link_and_changed_at_once() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let create = async || {
            let idempotency = once("key", "create ada");
            cases.create_user(&operator(), "Ada", Role::Member, idempotency, |created| created.link.url.clone()).await
        };
        let Answered::New(created) = create().await.unwrap() else { unreachable!("{name}: it is the first request") };
        let token = created.link.url.strip_prefix("http://localhost:8080/setup?link=").unwrap();
        let stored = fixture.store.link(TokenHash::of(token)).await.unwrap().unwrap();
        assert_eq!((stored.user, stored.expires_at), (Some(created.user.id), created.link.expires_at), "{name}");
        assert_eq!(create().await.unwrap(), Answered::Replayed(created.link.url.clone()), "{name}");
        let taken = cases.create_user(&operator(), "ada", Role::Viewer, None, |_| String::new()).await.unwrap_err();
        assert_eq!(reason(&taken), (refusal::RefusalKind::Exists, ResourceKind::User), "{name}");

        let both = UserChanges { role: Some(Role::Viewer), ..to_disabled(true) };
        let id = created.user.id;
        let changed = cases.change_user(&operator(), id, Precondition::Version(vec![1]), both).await.unwrap();
        assert_eq!((changed.role, changed.disabled_at.is_some(), changed.version), (Role::Viewer, true, 2), "{name}");
        assert_eq!(fixture.store.link(stored.hash).await.unwrap(), None, "{name}: disabling deletes the links");
        let again = cases.change_user(&operator(), id, Precondition::None, both).await.unwrap();
        assert_eq!(again, changed, "{name}: the same values change nothing");
        let refused = cases.create_link(&operator(), id, None, |_| String::new()).await.unwrap_err();
        assert_eq!(reason(&refused), (refusal::RefusalKind::Disabled, ResourceKind::User), "{name}");
        let expected = ["user.created", "user.link", "user.role.viewer", "user.disabled"];
        assert_eq!(fixture.audited().await, expected.map(|action| format!("cli {action} {id}")), "{name}");
    }
}

#[tokio::test]
async fn a_key_that_may_only_read_changes_nothing() {
    let fixture = all().await.remove(0);
    fixture.create_shop().await;
    let reader = fixture.key(Scope::Read).await;
    let before = fixture.audited().await;
    let (cases, id) = (&fixture.cases, shop().id);
    let key = fixture.store.keys().await.unwrap()[0].id;
    let same = Box::new(|project| Ok((project, [].into())));
    let refusals = [
        cases.create_key(&reader, new_key(), None, |_| String::new()).await.map(drop),
        cases.revoke_key(&reader, key, Precondition::None).await,
        cases.change_project(&reader, &id, Precondition::None, same).await.map(drop),
        cases.delete_project(&reader, &id, Precondition::None).await,
        cases.create_job(&reader, &id, Default::default(), None).await.map(drop),
    ];
    for (index, refused) in refusals.into_iter().enumerate() {
        assert!(
            matches!(&refused, Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::ScopeMissing),
            "{index}: {refused:?}"
        );
    }
    assert_eq!(fixture.audited().await, before);
}

#[tokio::test]
async fn a_message_that_is_accepted_during_the_deletion_of_its_project_is_not_lost() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        for round in 0..10 {
            fixture.create_shop().await;
            let request = JobRequest { prompt: "x".to_owned(), ..JobRequest::default() };
            let job = cases.create_job(&operator(), &shop().id, request, None).await.unwrap().record.id;
            cases.control_job(&operator(), &shop().id, job, Control::Cancel, None).await.unwrap();
            let (caller, id) = (operator(), shop().id);
            let message = || MessageRequest { prompt: "y".to_owned(), delivery: DeliveryMode::Queue };
            let (deleted, first, second) = tokio::join!(
                cases.delete_project(&caller, &id, Precondition::None),
                cases.send_message(&caller, &id, job, message(), None),
                cases.send_message(&caller, &id, job, message(), None),
            );
            let accepted = [first, second].iter().filter(|sent| sent.is_ok()).count();
            assert_eq!(deleted.is_ok(), accepted == 0, "{name} {round}: {deleted:?}, {accepted} accepted");
            let kept = fixture.store.messages(job).await.unwrap().len();
            assert_eq!(kept, if accepted > 0 { 1 + accepted } else { 0 }, "{name} {round}");
            if deleted.is_err() {
                cases.control_job(&caller, &id, job, Control::Cancel, None).await.unwrap();
                cases.delete_project(&caller, &id, Precondition::None).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_caller_that_lost_its_rights_during_the_request_changes_nothing() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        let add = async |user: &str| add_user(cases, user, Role::Administrator).await;
        let [demoted, disabled, _] = [add("ada").await, add("bob").await, add("eve").await];
        let key = fixture.key(Scope::Write).await;
        let Actor::Key(revoked) = &key.actor else { unreachable!("it is the caller of a key") };
        let callers =
            [Caller::user(demoted.clone().into(), None), Caller::user(disabled.clone().into(), None), key.clone()];
        cases.change_user(&operator(), demoted.id, Precondition::None, to_role(Role::Member)).await.unwrap();
        cases.change_user(&operator(), disabled.id, Precondition::None, to_disabled(true)).await.unwrap();
        cases.revoke_key(&operator(), revoked.id, Precondition::None).await.unwrap();
        let before = fixture.audited().await;
        for caller in callers {
            let refused = cases.create_key(&caller, new_key(), None, |_| String::new()).await.unwrap_err();
            let Error::Refused(refusal) = refused else { unreachable!("{name}: {refused}") };
            assert_eq!(refusal.kind, RefusalKind::ScopeMissing, "{name}: {refusal}");
        }
        assert_eq!(fixture.audited().await, before, "{name}");
    }
}

#[tokio::test]
async fn concurrent_changes_do_not_combine_an_agent_with_a_policy_that_it_cannot_honor() {
    for fixture in all().await {
        let (name, cases) = (fixture.name, &fixture.cases);
        for _ in 0..5 {
            fixture.create_shop().await;
            let change = async |edit: fn(&mut Project)| {
                let edit = Box::new(move |mut project: Project| {
                    edit(&mut project);
                    Ok((project, [].into()))
                });
                cases.change_project(&operator(), &shop().id, Precondition::None, edit).await
            };
            let asking = change(|project| project.agent = "asking".to_owned()).await;
            asking.unwrap();
            // Each of them is valid alone: the agent `asking` honors the policy, and the agent `journeyman` does not.
            let (_, _) = tokio::join!(
                change(|project| project.settings.sandbox.permissions = PermissionPolicy::Refuse),
                change(|project| project.agent = "journeyman".to_owned()),
            );
            let project = fixture.store.project(shop().id).await.unwrap().unwrap();
            let refuses = project.settings.sandbox.permissions == PermissionPolicy::Refuse;
            assert!(!(refuses && project.agent == "journeyman"), "{name}: {project:?}");
            cases.delete_project(&operator(), &shop().id, Precondition::None).await.unwrap();
        }
    }
}
