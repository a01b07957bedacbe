//! Decisions on resources.

use super::{AnyKey, AnyPut, Change, Row};
use crate::audit::AuditEntry;
use crate::refusal::Refusal;
use crate::resource::{Key, Locked, Put, Resource};
use crate::version::Precondition;

/// Stores a new resource.
///
/// # Errors
/// See [`Locked::create`].
pub fn create<R: Resource>(locked: &Locked<R>, new: Put<R>, audit: AuditEntry) -> Result<Change, Refusal>
where
    AnyPut: From<Put<R>>,
{
    let put = Put { resource: locked.create(new.resource)?, ..new };
    Ok(Change::new([Row::Put(put.into())], audit))
}

/// Changes a resource. `edit` gets the locked one, so that concurrent changes of different fields are all kept. A change
/// without an effect stores nothing.
///
/// # Errors
/// See [`Locked::change`].
pub fn change<R: Resource>(
    locked: &Locked<R>,
    precondition: &Precondition,
    edit: impl FnOnce(&R) -> Result<Put<R>, String>,
    audit: AuditEntry,
) -> Result<Change, Refusal>
where
    AnyPut: From<Put<R>>,
{
    let changed = locked.change(precondition, edit)?;
    Ok(changed.map_or_else(Change::nothing, |put| Change::new([Row::Put(put.into())], audit)))
}

/// Removes a resource. Removing it again changes nothing.
///
/// # Errors
/// See [`Locked::remove`].
pub fn remove<R: Resource>(
    locked: &Locked<R>,
    precondition: &Precondition,
    audit: AuditEntry,
) -> Result<Change, Refusal>
where
    AnyKey: From<Key<R>>,
{
    let removed = locked.remove(precondition)?;
    Ok(removed.map_or_else(Change::nothing, |current| {
        Change::new([Row::Removed { key: current.key().into(), at: audit.at }], audit)
    }))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::TemplateId;
    use crate::refusal::{RefusalKind, ResourceKind};
    use crate::template::{MAX_TEMPLATES, Template, TemplateSettings};
    use crate::time::Timestamp;

    fn named(name: &str) -> Put<Template> {
        let settings = TemplateSettings {
            name: name.to_owned(),
            description: String::new(),
            prompt: "Do it.".to_owned(),
            agent: None,
            model: None,
            labels: [].into(),
        };
        let (id, project) = (TemplateId::from_uuid(Uuid::from_u128(1)), "shop".parse().unwrap());
        let resource = Template { id, project, settings, created_at: Timestamp::default(), version: 7 };
        Put { resource, secrets: () }
    }

    fn audit() -> AuditEntry {
        let at = Timestamp::from_micros(9);
        AuditEntry { at, actor: "cli".into(), action: "x".into(), subject: "shop".into(), address: None }
    }

    fn stored(name: &str) -> Locked<Template> {
        Locked { current: Some(named(name).resource), ..Locked::default() }
    }

    fn why(refused: Result<Change, Refusal>) -> (RefusalKind, ResourceKind) {
        let refusal = refused.unwrap_err();
        (refusal.kind, refusal.resource)
    }

    #[test]
    fn a_resource_is_created_with_its_first_version_unless_a_rule_forbids_it() {
        let change = create(&Locked::default(), named("a"), audit()).unwrap();
        let first = Template { version: 1, ..named("a").resource };
        assert_eq!(change, Change::new([Row::Put(Put { resource: first, secrets: () }.into())], audit()));
        let template = ResourceKind::Template;
        for (locked, name, expected) in [
            (Locked { has_project: false, ..Locked::default() }, "a", (RefusalKind::NotFound, ResourceKind::Project)),
            (Locked::default(), "", (RefusalKind::Invalid, template)),
            (stored("a"), "a", (RefusalKind::Exists, template)),
            (Locked { name_is_taken: true, ..Locked::default() }, "a", (RefusalKind::Exists, template)),
            (Locked { count: MAX_TEMPLATES, ..Locked::default() }, "a", (RefusalKind::TooMany, template)),
        ] {
            assert_eq!(why(create(&locked, named(name), audit())), expected);
        }
    }

    #[test]
    fn a_change_raises_the_version_and_one_without_an_effect_stores_nothing() {
        let to = |name: &'static str| move |_: &Template| Ok(named(name));
        let none = Precondition::None;
        let changed = change(&stored("a"), &Precondition::Version(vec![7]), to("b"), audit()).unwrap();
        assert_eq!(changed.put().map(AnyPut::version), Some(8));
        assert_eq!(change(&stored("a"), &none, to("a"), audit()), Ok(Change::nothing()));
        let taken = || Locked { name_is_taken: true, ..stored("a") };
        // The name that is taken is another one than that of the locked resource.
        assert_eq!(change(&taken(), &none, to("A"), audit()).unwrap().put().map(AnyPut::version), Some(8));
        let template = ResourceKind::Template;
        assert_eq!(why(change(&taken(), &none, to("b"), audit())), (RefusalKind::Exists, template));
        assert_eq!(why(change(&stored("a"), &none, to(""), audit())), (RefusalKind::Invalid, template));
        let refused = change(&stored("a"), &none, |_| Err("name: no".to_owned()), audit());
        assert_eq!(refused.unwrap_err().to_string(), "name: no");
        let stale = Precondition::Version(vec![6]);
        assert_eq!(why(change(&stored("a"), &stale, to("b"), audit())), (RefusalKind::VersionMismatch, template));
        assert_eq!(why(change(&Locked::default(), &none, to("b"), audit())), (RefusalKind::NotFound, template));
    }

    #[test]
    fn a_removal_is_repeated_without_an_effect() {
        let none = Precondition::None;
        let removed = remove(&stored("a"), &none, audit()).unwrap();
        let key = named("a").resource.key().into();
        assert_eq!(removed, Change::new([Row::Removed { key, at: audit().at }], audit()));
        let gone = Locked::<Template> { was_removed: true, ..Locked::default() };
        assert_eq!(remove(&gone, &none, audit()), Ok(Change::nothing()));
        let never = remove(&Locked::<Template>::default(), &none, audit());
        assert_eq!(why(never), (RefusalKind::NotFound, ResourceKind::Template));
        let stale = remove(&stored("a"), &Precondition::Version(vec![6]), audit());
        assert_eq!(why(stale), (RefusalKind::VersionMismatch, ResourceKind::Template));
    }

    #[test]
    fn a_resource_that_is_in_use_is_not_removed() {
        let url = "https://git.example.com".to_owned();
        let host =
            crate::code_host::CodeHost::of_address("git".parse().unwrap(), crate::code_host::HostKind::Gitea, url);
        let used = Locked { current: Some(host), related: true, ..Locked::default() };
        assert_eq!(why(remove(&used, &Precondition::None, audit())), (RefusalKind::Used, ResourceKind::CodeHost));
        let unused = Locked { related: false, ..used };
        assert!(remove(&unused, &Precondition::None, audit()).is_ok());
    }
}
