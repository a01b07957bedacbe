//! Resources: what administrators create, change and remove under an ID. The rules that all of them share are here; each
//! one's own rules are with its type.

use std::fmt::{Debug, Display};

use crate::ids::ProjectId;
use crate::refusal::{Refusal, RefusalKind, ResourceKind};
use crate::version::{FIRST_VERSION, Precondition};

/// Something that administrators create, change and remove.
pub trait Resource: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The kind, from which codes and sentences derive.
    const KIND: ResourceKind;

    /// The maximum number: in a project if the resource belongs to one, or else in all.
    const LIMIT: usize = usize::MAX;

    /// `true` if the resource belongs to a project.
    const IN_PROJECT: bool = false;

    /// `true` if a person chooses the ID, so that a removed resource and a new one can have the same.
    const HAS_CHOSEN_ID: bool = false;

    /// The ID.
    type Id: Clone + Debug + Display + PartialEq + Send + Sync;

    /// A change of the secrets, which are never read back.
    type Secrets: Clone + Debug + Default + PartialEq + Send + Sync;

    /// The other rows that the rules need.
    type Related: Clone + Debug + Default + PartialEq + Send + Sync;

    /// Returns the ID.
    fn id(&self) -> &Self::Id;

    /// Returns the project that the resource belongs to.
    fn project(&self) -> Option<&ProjectId> {
        None
    }

    /// Returns the name in the form in which no other resource of the kind has it: in the project if the resource belongs
    /// to one, or else in all. Empty if names may be equal.
    fn unique_name(&self) -> String {
        String::new()
    }

    /// Returns the version.
    fn version(&self) -> u64;

    /// Returns the resource with another version.
    #[must_use]
    fn with_version(self, version: u64) -> Self;

    /// Checks the values.
    ///
    /// # Errors
    /// Returns a sentence that begins with the name of the field.
    fn check(&self) -> Result<(), String>;

    /// Checks whether the resource may be removed.
    ///
    /// # Errors
    /// Returns a sentence that says what uses it.
    fn check_unused(_related: &Self::Related) -> Result<(), String> {
        Ok(())
    }

    /// Returns the sentence for a resource that exists already.
    #[must_use]
    fn exists() -> String {
        format!("a {} with this name already exists{}", Self::KIND.noun(), within::<Self>())
    }

    /// Returns the key of the resource.
    fn key(&self) -> Key<Self> {
        Key { id: self.id().clone(), project: self.project().cloned(), name: self.unique_name() }
    }
}

/// Identifies a resource that need not exist.
#[derive(Debug, Clone, PartialEq)]
pub struct Key<R: Resource> {
    /// The ID.
    pub id: R::Id,
    /// The project.
    pub project: Option<ProjectId>,
    /// The name that the resource has or would get ([`Resource::unique_name`]).
    pub name: String,
}

impl<R: Resource> Key<R> {
    /// Returns the key of a resource whose name does not change.
    #[must_use]
    pub const fn new(id: R::Id, project: Option<ProjectId>) -> Self {
        Self { id, project, name: String::new() }
    }

    /// Returns the name under which the store remembers that the resource was removed.
    #[must_use]
    pub fn removed_name(&self) -> String {
        removed_name(R::KIND, self.project.as_ref(), &self.id)
    }
}

/// Returns the name under which the store remembers that something was removed.
#[must_use]
pub fn removed_name(kind: ResourceKind, project: Option<&ProjectId>, id: &dyn Display) -> String {
    match project {
        Some(project) => format!("{}/{project}/{id}", kind.name()),
        None => format!("{}/{id}", kind.name()),
    }
}

/// The locked rows for a decision on a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Locked<R: Resource> {
    /// The resource; `None` if it does not exist.
    pub current: Option<R>,
    /// `true` if the project of the key exists, or there is none.
    pub has_project: bool,
    /// The number of resources of the kind: in the project if they belong to one, or else in all.
    pub count: usize,
    /// `true` if another resource has the name of the key.
    pub name_is_taken: bool,
    /// `true` if the resource was removed in the last 30 days, and does not exist.
    pub was_removed: bool,
    /// The other rows that the rules need.
    pub related: R::Related,
    /// The base of the current epoch ([`crate::epoch`]). The version of a new resource with a chosen ID is greater: a lost
    /// history may have had something with the same ID.
    pub epoch: u64,
}

impl<R: Resource> Default for Locked<R> {
    fn default() -> Self {
        Self {
            current: None,
            has_project: true,
            count: 0,
            name_is_taken: false,
            was_removed: false,
            related: R::Related::default(),
            epoch: 0,
        }
    }
}

/// A resource to store, with the change of its secrets.
#[derive(Debug, Clone, PartialEq)]
pub struct Put<R: Resource> {
    /// The resource.
    pub resource: R,
    /// The change of its secrets.
    pub secrets: R::Secrets,
}

impl<R: Resource> Locked<R> {
    /// Returns a new resource as it is stored.
    ///
    /// # Errors
    /// The project does not exist, a value is not valid, the resource or its name exists, or there are too many.
    pub fn create(&self, new: R) -> Result<R, Refusal> {
        if !self.has_project {
            return Err(Refusal::not_found(ResourceKind::Project));
        }
        check(&new)?;
        if self.current.is_some() || self.name_is_taken {
            return Err(exists::<R>());
        }
        if self.count >= R::LIMIT {
            return Err(too_many::<R>());
        }
        let before = if R::HAS_CHOSEN_ID { self.epoch } else { 0 };
        Ok(new.with_version(before + FIRST_VERSION))
    }

    /// Returns the resource after a change; `None` if the change has no effect. `edit` gets the current one.
    ///
    /// # Errors
    /// The resource does not exist or has another version, a value is not valid, or another one has the name.
    pub fn change(
        &self,
        precondition: &Precondition,
        edit: impl FnOnce(&R) -> Result<Put<R>, String>,
    ) -> Result<Option<Put<R>>, Refusal> {
        let current = self.current(precondition)?;
        let Put { resource, secrets } = edit(current).map_err(|detail| Refusal::invalid(R::KIND, detail))?;
        check(&resource)?;
        if self.name_is_taken && resource.unique_name() != current.unique_name() {
            return Err(exists::<R>());
        }
        let resource = resource.with_version(current.version());
        if resource == *current && secrets == R::Secrets::default() {
            return Ok(None);
        }
        Ok(Some(Put { resource: resource.with_version(current.version() + 1), secrets }))
    }

    /// Returns the resource if it may be removed; `None` if it was removed before.
    ///
    /// # Errors
    /// The resource never existed, has another version, or is in use.
    pub fn remove(&self, precondition: &Precondition) -> Result<Option<&R>, Refusal> {
        if self.current.is_none() && self.was_removed {
            return Ok(None);
        }
        let current = self.current(precondition)?;
        let used = |detail| Refusal::new(RefusalKind::Used, R::KIND, detail);
        R::check_unused(&self.related).map_err(used)?;
        Ok(Some(current))
    }

    /// Returns the resource.
    ///
    /// # Errors
    /// It does not exist, or has another version.
    pub fn current(&self, precondition: &Precondition) -> Result<&R, Refusal> {
        let current = self.current.as_ref().ok_or_else(not_found::<R>)?;
        precondition.check(R::KIND, current.version())?;
        Ok(current)
    }
}

/// Returns the refusal for a resource that does not exist.
#[must_use]
pub fn not_found<R: Resource>() -> Refusal {
    let detail = format!("there is no such {}{}", R::KIND.noun(), within::<R>());
    Refusal::new(RefusalKind::NotFound, R::KIND, detail)
}

/// Returns the refusal for a resource that exists already.
#[must_use]
pub fn exists<R: Resource>() -> Refusal {
    Refusal::new(RefusalKind::Exists, R::KIND, R::exists())
}

fn too_many<R: Resource>() -> Refusal {
    let whose = if R::IN_PROJECT { "a project can have" } else { "there can be" };
    let detail = format!("{whose} at most {} {}s; remove one first", R::LIMIT, R::KIND.noun());
    Refusal::new(RefusalKind::TooMany, R::KIND, detail)
}

fn check<R: Resource>(resource: &R) -> Result<(), Refusal> {
    resource.check().map_err(|detail| Refusal::invalid(R::KIND, detail))
}

const fn within<R: Resource>() -> &'static str {
    if R::IN_PROJECT { " in this project" } else { "" }
}
