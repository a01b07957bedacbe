//! Tests of versions, preconditions, concurrent changes, and audit entries.

use futures::future::join_all;
use journeyman_app::{Answered, Error, RefusalKind};
use journeyman_core::admin::{AdminRefusal, Precondition};
use journeyman_core::key::Scope;
use journeyman_core::user::Role;

use super::given::{all, new_key, operator, shop};

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
        assert_eq!(refused, Error::Admin(AdminRefusal::VersionMismatch { current: 2 }), "{name}");
        let refused = cases.delete_project(&operator(), &shop().id, first.clone()).await.unwrap_err();
        assert_eq!(refused, Error::Admin(AdminRefusal::VersionMismatch { current: 2 }), "{name}");

        let user = cases.add_user(&operator(), "ada", Role::Administrator).await.unwrap();
        let other = cases.add_user(&operator(), "bob", Role::Member).await.unwrap();
        cases.set_role(&operator(), other.id, first.clone(), Role::Viewer).await.unwrap();
        let refused = cases.set_disabled(&operator(), other.id, first.clone(), true).await.unwrap_err();
        assert_eq!(refused, Error::Admin(AdminRefusal::VersionMismatch { current: 2 }), "{name}");
        let last = cases.set_role(&operator(), user.id, Precondition::None, Role::Viewer).await.unwrap_err();
        assert_eq!(last, Error::Admin(AdminRefusal::LastAdministrator), "{name}");

        let Answered::New(created) = cases.create_key(&operator(), new_key(), None, |_| String::new()).await.unwrap()
        else {
            unreachable!("there is no idempotency key")
        };
        let refused = cases.revoke_key(&operator(), created.key.id, Precondition::Version(vec![2])).await.unwrap_err();
        assert_eq!(refused, Error::Admin(AdminRefusal::VersionMismatch { current: 1 }), "{name}");
        let project = fixture.store.project(shop().id).await.unwrap().unwrap();
        assert_eq!((project.model.as_str(), project.version), ("a/b", 2), "{name}");
        let after = fixture.audited().await;
        let added: Vec<&str> = after[before.len()..].iter().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(added, ["user.created", "user.created", "user.role.viewer", "key.created"], "{name}");
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
        let user = cases.add_user(&operator(), "ada", Role::Member).await.unwrap();
        cases.set_disabled(&operator(), user.id, Precondition::None, true).await.unwrap();
        cases.set_disabled(&operator(), user.id, Precondition::None, false).await.unwrap();
        cases.delete_project(&caller, &shop().id, Precondition::None).await.unwrap();
        let key = caller.id();
        let id = user.id;
        let expected = [
            "cli project.created shop".to_owned(),
            format!("cli key.created {key}"),
            format!("{key} project.changed shop"),
            format!("cli user.created {id}"),
            format!("cli user.disabled {id}"),
            format!("cli user.enabled {id}"),
            format!("{key} project.deleted shop"),
        ];
        assert_eq!(fixture.audited().await, expected, "{name}");
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
    for (place, refused) in refusals.into_iter().enumerate() {
        assert!(
            matches!(&refused, Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::ReadOnly),
            "{place}: {refused:?}"
        );
    }
    assert_eq!(fixture.audited().await, before);
}
