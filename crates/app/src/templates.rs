//! Use cases about the templates of projects.

use journeyman_core::decision::Once;
use journeyman_core::ids::{ProjectId, TemplateId};
use journeyman_core::resource::{Key, Put, Resource as _, not_found};
use journeyman_core::template::{Template, TemplateSettings};
use journeyman_core::version::{FIRST_VERSION, Precondition};

use crate::{Answered, Caller, Error, Idempotency, UseCases, claim};

/// A function that changes the values of a template.
pub type TemplateEdit = Box<dyn Fn(&TemplateSettings) -> TemplateSettings + Send>;

impl UseCases {
    /// Returns the templates of a project, by name.
    ///
    /// # Errors
    /// The project does not exist or is not visible, or the store failed.
    pub async fn templates(&self, caller: &Caller, project: &ProjectId) -> Result<Vec<Template>, Error> {
        self.known_project(caller, project).await?;
        Ok(self.parts().store.resources(Some(project.clone())).await?)
    }

    /// Returns a template.
    ///
    /// # Errors
    /// The project does not exist or is not visible, it has no such template, or the store failed.
    pub async fn template(&self, caller: &Caller, project: &ProjectId, id: TemplateId) -> Result<Template, Error> {
        self.known_project(caller, project).await?;
        let found: Option<Template> = self.parts().store.resource(id).await?;
        let found = found.filter(|template| template.project == *project);
        found.ok_or_else(|| Error::Admin(not_found::<Template>()))
    }

    /// Creates a template. `answer` renders the answer that is stored for the idempotency key.
    ///
    /// # Errors
    /// The caller is not an administrator, the project does not exist, a value is not valid, another template has the
    /// name, there are too many, or the store failed.
    pub async fn create_template(
        &self,
        caller: &Caller,
        project: &ProjectId,
        settings: TemplateSettings,
        idempotency: Option<Idempotency>,
        answer: impl FnOnce(&Template) -> String,
    ) -> Result<Answered<Template>, Error> {
        self.may_change_templates(caller, project).await?;
        let claim = claim(caller, Some(project.clone()), idempotency);
        if let Some(answer) = self.replay(claim.as_ref()).await? {
            return Ok(Answered::Replayed(answer));
        }
        self.check_agent_of(caller, project, settings.agent.as_deref()).await?;
        let now = self.parts().engine.now();
        let template = Template {
            id: TemplateId::from_uuid(self.parts().ids.uuid(now)),
            project: project.clone(),
            settings,
            created_at: now,
            version: FIRST_VERSION,
        };
        let name = template.settings.name.clone();
        let audit = self.audit(caller, "template.created", subject(project, template.id, Some(&name)));
        let once = claim.map(|claim| Once { claim, answer: answer(&template) });
        let new = Put { resource: template.clone(), secrets: () };
        Ok(self.create_resource(new, once, audit).await?.map(|_| template))
    }

    /// Changes the values of a template.
    ///
    /// # Errors
    /// The caller is not an administrator; the project has no such template, or it has another version; a value is not
    /// valid, or another template has the name; or the store failed.
    pub async fn change_template(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: TemplateId,
        precondition: Precondition,
        edit: TemplateEdit,
    ) -> Result<Template, Error> {
        self.may_change_templates(caller, project).await?;
        let known = self.template(caller, project, id).await?;
        precondition.check(Template::KIND, known.version).map_err(Error::Admin)?;
        let proposed = edit(&known.settings);
        // A template whose agent is no longer configured can still be renamed.
        if proposed.agent != known.settings.agent {
            self.check_agent_of(caller, project, proposed.agent.as_deref()).await?;
        }
        let audit = self.audit(caller, "template.changed", subject(project, id, Some(&proposed.name)));
        let key = Template { settings: proposed, ..known }.key();
        let edit = move |known: &Template| {
            Ok(Put { resource: Template { settings: edit(&known.settings), ..known.clone() }, secrets: () })
        };
        self.change_resource(key, precondition, edit, audit).await?;
        self.template(caller, project, id).await
    }

    /// Removes a template. Removing it again changes nothing.
    ///
    /// # Errors
    /// The caller is not an administrator, the project never had such a template or it has another version, or the
    /// store failed.
    pub async fn remove_template(
        &self,
        caller: &Caller,
        project: &ProjectId,
        id: TemplateId,
        precondition: Precondition,
    ) -> Result<(), Error> {
        self.may_change_templates(caller, project).await?;
        let known: Option<Template> = self.parts().store.resource(id).await?;
        let known = known.filter(|template| template.project == *project);
        let name = known.as_ref().map(|template| template.settings.name.as_str());
        let audit = self.audit(caller, "template.removed", subject(project, id, name));
        self.remove_resource(Key::<Template>::new(id, Some(project.clone())), precondition, audit).await
    }

    async fn may_change_templates(&self, caller: &Caller, project: &ProjectId) -> Result<(), Error> {
        caller.needs_project(project)?;
        caller.needs_administrator()?;
        self.confirm(caller).await
    }

    /// Checks that jobs of the project can use an agent.
    async fn check_agent_of(&self, caller: &Caller, project: &ProjectId, agent: Option<&str>) -> Result<(), Error> {
        let project = self.known_project(caller, project).await?;
        agent.map_or(Ok(()), |agent| self.check_agent(agent, &project.settings.sandbox))
    }
}

/// Returns the subject of an audit entry about a template. It begins with the project, whose entries it belongs to.
fn subject(project: &ProjectId, id: TemplateId, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{project}/{id} ({name})"),
        None => format!("{project}/{id}"),
    }
}
