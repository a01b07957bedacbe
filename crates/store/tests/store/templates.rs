//! Tests of the templates of projects, on both databases.

use std::sync::Arc;

use journeyman_core::audit::AuditEntry;
use journeyman_core::decision;
use journeyman_core::decision::{Decision, Once, Subject};
use journeyman_core::idempotency::{Claim, Fingerprint};
use journeyman_core::ids::{ProjectId, TemplateId};
use journeyman_core::ports::{AdminError, Administered};
use journeyman_core::refusal::{RefusalKind, ResourceKind};
use journeyman_core::resource::{Key, Put, Resource as _};
use journeyman_core::template::{MAX_TEMPLATES, Template, TemplateSettings, name_key};
use journeyman_core::version::Precondition;
use journeyman_store::{PostgresStore, Schema, copy_to_postgres};
use journeyman_testkit::{Postgres, Refused as _, Seeds as _, all_stored, decide_on, stored};
use uuid::Uuid;

use super::fixtures::{Fixture, all, master_key, project, shop, sqlite};

fn id(number: u128) -> TemplateId {
    TemplateId::from_uuid(Uuid::from_u128(number))
}

impl Fixture {
    fn template_line(&self, action: &str) -> AuditEntry {
        let (at, actor, action) = (self.engine.now(), "cli".to_owned(), action.to_owned());
        AuditEntry { at, actor, action, subject: "shop".to_owned(), address: None }
    }

    fn new_template(&self, number: u128, of: ProjectId, name: &str) -> Template {
        let settings = TemplateSettings {
            name: name.to_owned(),
            description: "What it is „for“.".to_owned(),
            prompt: "Fix this:\n\n\\N ''".to_owned(),
            agent: None,
            model: Some("test/scripted".to_owned()),
            labels: ["ui".to_owned(), "bug".to_owned()].into(),
        };
        Template { id: id(number), project: of, settings, created_at: self.engine.now(), version: 1 }
    }

    async fn create_template(&self, template: Template) -> Result<(), AdminError> {
        let audit = self.template_line("template.created");
        let (key, new) = (template.key(), Put { resource: template, secrets: () });
        let create = move |locked: &_| decision::resource::create(locked, new.clone(), audit.clone());
        decide_on(&*self.store, key, self.engine.now(), create).await.map(drop)
    }

    async fn rename_template(&self, number: u128, name: &str, expected: Precondition) -> Result<(), AdminError> {
        let (audit, new) = (self.template_line("template.changed"), name.to_owned());
        let rename = move |locked: &_| {
            let edit = |known: &Template| {
                let settings = TemplateSettings { name: new.clone(), ..known.settings.clone() };
                Ok(Put { resource: Template { settings, ..known.clone() }, secrets: () })
            };
            decision::resource::change(locked, &expected, edit, audit.clone())
        };
        let key: Key<Template> = Key { name: name_key(name), ..Key::new(id(number), Some(shop())) };
        decide_on(&*self.store, key, self.engine.now(), rename).await.map(drop)
    }

    async fn remove_template(&self, number: u128, of: ProjectId) -> Result<(), AdminError> {
        let audit = self.template_line("template.removed");
        let remove = move |locked: &_| decision::resource::remove(locked, &Precondition::None, audit.clone());
        let key: Key<Template> = Key::new(id(number), Some(of));
        decide_on(&*self.store, key, self.engine.now(), remove).await.map(drop)
    }

    async fn template_names(&self, of: ProjectId) -> Vec<String> {
        all_stored::<Template>(&*self.store, Some(of))
            .await
            .into_iter()
            .map(|template| template.settings.name)
            .collect()
    }

    /// Returns the actions of the audit log, oldest first.
    async fn noted(&self) -> Vec<String> {
        let lines = self.store.audit(None, 100).await.unwrap();
        let mut actions: Vec<String> = lines.into_iter().map(|line| line.entry.action).collect();
        actions.reverse();
        actions
    }
}

#[tokio::test]
async fn a_template_is_stored_changed_and_removed_together_with_its_audit_entry() {
    for fixture in all().await {
        let name = fixture.name;
        let made = fixture.new_template(1, shop(), "Fix a bug");
        fixture.create_template(made.clone()).await.unwrap();
        assert_eq!(stored::<Template>(&*fixture.store, id(1)).await, Some(made.clone()), "{name}");
        fixture.rename_template(1, "Repair", Precondition::Version(vec![1])).await.unwrap();
        let changed = stored::<Template>(&*fixture.store, id(1)).await.unwrap();
        let settings = TemplateSettings { name: "Repair".to_owned(), ..made.settings.clone() };
        assert_eq!(changed, Template { settings, version: 2, ..made }, "{name}");
        let stale = fixture.rename_template(1, "x", Precondition::Version(vec![1])).await;
        assert_eq!(stale.refused(), Err((RefusalKind::VersionMismatch, ResourceKind::Template)), "{name}");
        fixture.rename_template(1, "Repair", Precondition::None).await.unwrap();
        assert_eq!(stored::<Template>(&*fixture.store, id(1)).await, Some(changed), "{name}: nothing has changed");

        fixture.remove_template(1, shop()).await.unwrap();
        assert_eq!(stored::<Template>(&*fixture.store, id(1)).await, None, "{name}");
        fixture.remove_template(1, shop()).await.unwrap();
        assert_eq!(
            fixture.remove_template(9, shop()).await.refused(),
            Err((RefusalKind::NotFound, ResourceKind::Template)),
            "{name}"
        );
        let gone = fixture.rename_template(1, "x", Precondition::None).await;
        assert_eq!(gone.refused(), Err((RefusalKind::NotFound, ResourceKind::Template)), "{name}");
        let noted: Vec<String> =
            fixture.noted().await.into_iter().filter(|action| action.starts_with("template.")).collect();
        assert_eq!(noted, ["template.created", "template.changed", "template.removed"], "{name}");
    }
}

#[tokio::test]
async fn a_name_is_used_once_in_a_project_ignoring_case() {
    for fixture in all().await {
        let name = fixture.name;
        let other: ProjectId = "other".parse().unwrap();
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        fixture.create_template(fixture.new_template(1, shop(), "Ärger beheben")).await.unwrap();
        let taken = Err((RefusalKind::Exists, ResourceKind::Template));
        let again = fixture.new_template(2, shop(), "ÄRGER Beheben");
        assert_eq!(fixture.create_template(again.clone()).await.refused(), taken, "{name}");
        fixture.create_template(Template { project: other.clone(), ..again }).await.unwrap();
        fixture.create_template(fixture.new_template(3, shop(), "b")).await.unwrap();
        fixture.create_template(fixture.new_template(4, shop(), "A")).await.unwrap();
        assert_eq!(fixture.rename_template(3, "a", Precondition::None).await.refused(), taken, "{name}");
        fixture.rename_template(3, "B", Precondition::None).await.unwrap();
        assert_eq!(fixture.template_names(shop()).await, ["A", "B", "Ärger beheben"], "{name}: sorted");
        assert_eq!(fixture.template_names(other).await, ["ÄRGER Beheben"], "{name}");
    }
}

#[tokio::test]
async fn a_template_is_not_reached_through_another_project_and_needs_one() {
    for fixture in all().await {
        let name = fixture.name;
        let other: ProjectId = "other".parse().unwrap();
        fixture.store.create_project(project("other"), [].into()).await.unwrap();
        fixture.create_template(fixture.new_template(1, shop(), "a")).await.unwrap();
        let elsewhere = fixture.remove_template(1, other).await;
        assert_eq!(elsewhere.refused(), Err((RefusalKind::NotFound, ResourceKind::Template)), "{name}");
        let nowhere = fixture.new_template(2, "nowhere".parse().unwrap(), "a");
        assert_eq!(
            fixture.create_template(nowhere).await.refused(),
            Err((RefusalKind::NotFound, ResourceKind::Project)),
            "{name}"
        );
        assert_eq!(fixture.template_names(shop()).await, ["a"], "{name}");
    }
}

#[tokio::test]
async fn a_project_has_a_limited_number_of_templates_which_are_deleted_with_it() {
    for fixture in all().await {
        let name = fixture.name;
        for number in 0..MAX_TEMPLATES {
            let number = u128::try_from(number).unwrap();
            fixture.create_template(fixture.new_template(number, shop(), &format!("t{number}"))).await.unwrap();
        }
        let many = fixture.create_template(fixture.new_template(99, shop(), "more")).await;
        assert_eq!(many.refused(), Err((RefusalKind::TooMany, ResourceKind::Template)), "{name}");
        fixture.store.delete_project(shop()).await.unwrap();
        assert_eq!(stored::<Template>(&*fixture.store, id(1)).await, None, "{name}");
        fixture.store.create_project(project("shop"), [].into()).await.unwrap();
        assert_eq!(fixture.template_names(shop()).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn a_repeated_creation_gets_the_first_answer() {
    for fixture in all().await {
        let (name, now) = (fixture.name, fixture.engine.now());
        let create = async |number: u128| {
            let template = fixture.new_template(number, shop(), "a");
            let audit = fixture.template_line("template.created");
            let (key, new) = (template.key(), Put { resource: template, secrets: () });
            let fingerprint = Fingerprint::of("create template", b"a");
            let claim = Claim { project: Some(shop()), caller: "ci".to_owned(), key: "once".to_owned(), fingerprint };
            let once = Once { claim, answer: number.to_string() };
            let create = move |locked: &_| decision::resource::create(locked, new.clone(), audit.clone());
            fixture.store.administer(Subject::any(Decision::new(key, create)), Some(once), now).await.unwrap()
        };
        assert!(matches!(create(1).await, Administered::Done(_)), "{name}");
        assert!(matches!(create(2).await, Administered::Replayed(answer) if answer == "1"), "{name}");
        assert_eq!(all_stored::<Template>(&*fixture.store, Some(shop())).await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn templates_are_copied_to_postgresql() {
    let (old, url) = (sqlite().await, Postgres::shared().database());
    old.create_template(old.new_template(1, shop(), "Fix a bug")).await.unwrap();
    copy_to_postgres(&old.dir.as_ref().unwrap().path().join("journeyman.db"), &url).await.unwrap();
    let store = PostgresStore::open(&url, 4, Schema::Check, master_key(), old.world.clone()).await.unwrap();
    let new = Fixture::over("postgres", old.world.clone(), Arc::new(store));
    assert_eq!(
        all_stored::<Template>(&*new.store, Some(shop())).await,
        all_stored::<Template>(&*old.store, Some(shop())).await
    );
}
