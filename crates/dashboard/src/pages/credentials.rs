//! Warnings about the credentials for code hosts, for administrators.

use journeyman_core::code_host::expiry::CredentialOwner;
use journeyman_core::ids::ProjectId;

use super::findings::Line;
use crate::failure::Failure;
use crate::frame::Frame;

/// A warning about the credential of a code host or of a project.
pub(super) struct CredentialWarning {
    /// The owner of the credential, as the subject of a sentence.
    pub(super) owner: String,
    /// The page on which the credential is set.
    pub(super) href: String,
    pub(super) findings: Vec<Line>,
}

/// Returns the warnings about the credentials whose owner `is_shown`. Only administrators see them.
pub(super) async fn warnings(
    frame: &Frame,
    is_shown: impl Fn(&CredentialOwner) -> bool,
) -> Result<Vec<CredentialWarning>, Failure> {
    if !frame.viewer.is_administrator() {
        return Ok(Vec::new());
    }
    let all = frame.cases().credential_warnings().await?;
    let shown = all.into_iter().filter(|(owner, _)| is_shown(owner));
    let warning = |(owner, findings): (CredentialOwner, Vec<_>)| {
        let (owner, href) = match owner {
            CredentialOwner::Host(id) => (format!("the code host {id}"), "/system/code-hosts".to_owned()),
            CredentialOwner::Project(id, _) => {
                (format!("the project {id}"), format!("/projects/{id}/settings/repository"))
            }
        };
        let findings = findings.iter().map(|finding| Line::new(frame, finding)).collect();
        CredentialWarning { owner, href, findings }
    };
    Ok(shown.map(warning).collect())
}

/// Returns the warnings about the credential of a project.
pub(super) async fn of_project(frame: &Frame, project: &ProjectId) -> Result<Vec<CredentialWarning>, Failure> {
    warnings(frame, |owner| matches!(owner, CredentialOwner::Project(id, _) if id == project)).await
}
