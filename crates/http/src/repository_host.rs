//! Repositories on hosts that only an administrator may name: link-local addresses and the metadata service of a cloud.
//! Administrators may use them, and the audit log names them.

use journeyman_core::project::RestrictedHost;

use crate::app::App;
use crate::caller::Caller;
use crate::error::{ApiError, ErrorCode};

/// Checks the host of a project's new repository, and returns the host if the audit log has to name it.
///
/// # Errors
/// Only an administrator may name this host, and the caller is not one.
pub(crate) async fn admit(app: &App, caller: &Caller, repository: &str) -> Result<Option<RestrictedHost>, ApiError> {
    judge(caller.is_administrator(), app.services.forges.restricted_host(repository).await)
}

fn judge(is_administrator: bool, found: Option<RestrictedHost>) -> Result<Option<RestrictedHost>, ApiError> {
    match found {
        Some(host) if !is_administrator => Err(ApiError::bad_request(
            ErrorCode::RepositoryAddressRefused,
            format!(
                "the repository is at {host}; only an administrator may use such a host, because requests to it may \
                 expose credentials of the server. Use the repository's public address, or ask an administrator"
            ),
        )),
        found => Ok(found),
    }
}

/// Returns the subject of an audit entry about a project.
pub(crate) fn subject(project: impl ToString, host: Option<&RestrictedHost>) -> String {
    match host {
        Some(host) => format!("{} (repository at {host})", project.to_string()),
        None => project.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::IntoResponse;
    use journeyman_core::project::repository_host;

    use super::*;
    use crate::error::Problem;

    fn found(repository: &str) -> Option<RestrictedHost> {
        repository_host(repository).and_then(|host| host.restricted())
    }

    #[test]
    fn only_an_administrator_names_such_a_host_and_the_audit_log_names_it() {
        let metadata = found("http://0xa9fea9fe/x");
        assert_eq!(judge(true, metadata.clone()).ok(), Some(metadata.clone()));
        let refused = judge(false, metadata.clone()).err().map(IntoResponse::into_response).expect("it is refused");
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        let problem = refused.extensions().get::<Problem>().expect("a problem");
        assert_eq!(problem.code.name(), "repository_address_refused");
        assert!(problem.text.contains("169.254.169.254") && problem.text.contains("administrator"), "{}", problem.text);
        assert_eq!(judge(false, found("https://github.com/a/b")).ok(), Some(None));
        let named = subject("shop", metadata.as_ref());
        assert_eq!(named, "shop (repository at 169.254.169.254, a cloud metadata service)");
        assert_eq!(subject("shop", None), "shop");
    }
}
