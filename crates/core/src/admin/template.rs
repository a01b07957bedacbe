//! Decisions on the creation, change and removal of templates.

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, Precondition};
use crate::audit::AuditEntry;
use crate::template::{MAX_TEMPLATES, Template, TemplateSettings, name_key};
use crate::version::FIRST_VERSION;

/// Stores a new template.
///
/// # Errors
/// Returns an error if the project does not exist, a value is not valid, another template has the name, or there are too
/// many.
pub fn create(state: &AdminState, template: Template, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    if state.project.is_none() {
        return Err(AdminRefusal::NoProject);
    }
    check(&template.settings)?;
    if state.name_is_taken {
        return Err(AdminRefusal::TemplateExists);
    }
    if state.templates >= MAX_TEMPLATES {
        return Err(AdminRefusal::TooManyTemplates);
    }
    let template = Template { version: FIRST_VERSION, ..template };
    Ok(AdminChange::new([AdminRow::Template(Box::new(template))], audit))
}

/// Changes the values of a template.
///
/// # Errors
/// Returns an error if the template does not exist, has another version, a value is not valid, or another template has
/// the name.
pub fn change(
    state: &AdminState,
    precondition: &Precondition,
    edit: impl FnOnce(&TemplateSettings) -> TemplateSettings,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let known = state.template.as_ref().ok_or(AdminRefusal::NoTemplate)?;
    precondition.check(known.version)?;
    let settings = edit(&known.settings);
    check(&settings)?;
    if state.name_is_taken && name_key(&settings.name) != name_key(&known.settings.name) {
        return Err(AdminRefusal::TemplateExists);
    }
    if settings == known.settings {
        return Ok(AdminChange::nothing());
    }
    let changed = Template { settings, version: known.version + 1, ..known.clone() };
    Ok(AdminChange::new([AdminRow::Template(Box::new(changed))], audit))
}

/// Removes a template. Removing it again changes nothing.
///
/// # Errors
/// Returns an error if the template never existed, or has another version.
pub fn remove(state: &AdminState, precondition: &Precondition, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let Some(known) = &state.template else {
        return if state.was_deleted { Ok(AdminChange::nothing()) } else { Err(AdminRefusal::NoTemplate) };
    };
    precondition.check(known.version)?;
    let removed = AdminRow::TemplateRemoved { id: known.id, project: known.project.clone(), at: audit.at };
    Ok(AdminChange::new([removed], audit))
}

fn check(settings: &TemplateSettings) -> Result<(), AdminRefusal> {
    settings.check().map_err(|error| AdminRefusal::InvalidTemplate(error.to_string()))
}
