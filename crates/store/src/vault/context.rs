//! The associated data of encrypted values: where each of them is stored.

use journeyman_core::code_host::CodeHostId;
use journeyman_core::ids::{ProjectId, SlackWorkspaceId, WebhookId};
use journeyman_core::ports::SealedKind;

/// Returns the associated data of a stored value. `owner` and `name` are the columns of its primary key.
pub(crate) fn context(kind: SealedKind, owner: &str, name: &str) -> String {
    match kind {
        SealedKind::ProjectSecret => format!("project_secrets/value/{owner}/{name}"),
        SealedKind::CodeHostSecret => format!("code_host_secrets/value/{owner}/{name}"),
        SealedKind::SlackSecret => format!("slack_secrets/value/{owner}/{name}"),
        // The current and the old secret have the same one, because a rotation of the secret copies the row.
        SealedKind::WebhookSecret => format!("webhook_secrets/{owner}/value"),
        SealedKind::Answer => answer_context(name),
        SealedKind::RetiredSecret => context(SealedKind::ProjectSecret, owner, retired_name(name)),
        SealedKind::SecondFactor => outside(&format!("second_factor/{owner}")),
    }
}

pub(super) fn slack_context(workspace: SlackWorkspaceId, name: &str) -> String {
    context(SealedKind::SlackSecret, &workspace.to_string(), name)
}

pub(super) fn host_context(host: &CodeHostId, name: &str) -> String {
    context(SealedKind::CodeHostSecret, host.as_str(), name)
}

pub(super) fn answer_context(request: &str) -> String {
    format!("idempotency_keys/record/{request}")
}

pub(super) fn secret_context(project: &ProjectId, name: &str) -> String {
    context(SealedKind::ProjectSecret, project.as_str(), name)
}

pub(super) fn webhook_context(webhook: WebhookId) -> String {
    context(SealedKind::WebhookSecret, &webhook.to_string(), "")
}

/// Returns the name of a secret in the key of the row with an earlier value of it. Names of secrets have no slash.
pub(crate) fn retired_name(key: &str) -> &str {
    key.split('/').next().unwrap_or_default()
}

/// Returns the associated data of a text with this context.
pub(crate) fn outside(context: &str) -> String {
    format!("outside/{context}")
}
