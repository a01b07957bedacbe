//! Decisions on the creation, change, rotation and removal of webhooks.

use std::time::Duration;

use crate::admin::{AdminChange, AdminRefusal, AdminRow, AdminState, Precondition};
use crate::audit::AuditEntry;
use crate::version::FIRST_VERSION;
use crate::webhook::SecretChange;
use crate::webhook::{Disabled, MAX_WEBHOOKS, Webhook, WebhookSecret, WebhookSettings};

/// Stores a new webhook.
///
/// # Errors
/// Returns an error if the project does not exist, has too many webhooks, or a setting is not valid.
pub fn create(
    state: &AdminState,
    webhook: Webhook,
    secret: WebhookSecret,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    if state.project.is_none() {
        return Err(AdminRefusal::NoProject);
    }
    check(&webhook.settings)?;
    if state.webhooks >= MAX_WEBHOOKS {
        return Err(AdminRefusal::TooManyWebhooks);
    }
    let webhook = Webhook { version: FIRST_VERSION, ..webhook };
    Ok(AdminChange::new([AdminRow::Webhook(Box::new(webhook), SecretChange::New(secret))], audit))
}

/// Changes the settings of a webhook, and enables or disables it. A webhook that is enabled again receives the events
/// from then on.
///
/// # Errors
/// Returns an error if the webhook does not exist, has another version, or a setting is not valid.
pub fn change(
    state: &AdminState,
    precondition: &Precondition,
    edit: impl FnOnce(&WebhookSettings) -> WebhookSettings,
    enable: Option<bool>,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let known = state.webhook.as_ref().ok_or(AdminRefusal::NoWebhook)?;
    precondition.check(known.version)?;
    let settings = edit(&known.settings);
    check(&settings)?;
    let (disabled, failing_since) = match enable {
        Some(true) if known.disabled.is_some() => (None, None),
        Some(false) if known.disabled.is_none() => (Some(Disabled::OnRequest), known.failing_since),
        _ => (known.disabled, known.failing_since),
    };
    let webhook = Webhook { settings, disabled, failing_since, ..known.clone() };
    if webhook == *known {
        return Ok(AdminChange::nothing());
    }
    let webhook = Webhook { version: known.version + 1, ..webhook };
    Ok(AdminChange::new([AdminRow::Webhook(Box::new(webhook), SecretChange::Keep)], audit))
}

/// Gives a webhook a new secret. Requests are signed with the old one too for `overlap`.
///
/// # Errors
/// Returns an error if the webhook does not exist, or has another version.
pub fn rotate(
    state: &AdminState,
    secret: WebhookSecret,
    overlap: Duration,
    precondition: &Precondition,
    audit: AuditEntry,
) -> Result<AdminChange, AdminRefusal> {
    let known = state.webhook.as_ref().ok_or(AdminRefusal::NoWebhook)?;
    precondition.check(known.version)?;
    let webhook = known.rotated(overlap, audit.at);
    Ok(AdminChange::new([AdminRow::Webhook(Box::new(webhook), SecretChange::Rotate(secret))], audit))
}

/// Removes a webhook with its deliveries. Removing it again changes nothing.
///
/// # Errors
/// Returns an error if the webhook never existed, or has another version.
pub fn remove(state: &AdminState, precondition: &Precondition, audit: AuditEntry) -> Result<AdminChange, AdminRefusal> {
    let Some(known) = &state.webhook else {
        return if state.was_deleted { Ok(AdminChange::nothing()) } else { Err(AdminRefusal::NoWebhook) };
    };
    precondition.check(known.version)?;
    Ok(AdminChange::new(
        [AdminRow::WebhookRemoved { id: known.id, project: known.project.clone(), at: audit.at }],
        audit,
    ))
}

fn check(settings: &WebhookSettings) -> Result<(), AdminRefusal> {
    settings.check().map_err(|error| AdminRefusal::InvalidWebhook(error.to_string()))
}
