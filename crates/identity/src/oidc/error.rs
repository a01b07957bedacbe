//! The errors of a sign-in.

/// The maximum length, in characters, of the provider's text in the log.
const DETAIL_CHARS: usize = 300;

/// An error that ends a sign-in. The texts are for the person who signs in, and contain nothing that an outsider wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The settings of this server and the provider's configuration do not match.
    #[error(
        "sign-in through the identity provider is not configured correctly; sign in with a password, or ask the \
         operator of this server to check the log"
    )]
    NotConfigured(
        /// The cause, for the log.
        String,
    ),
    /// The provider does not answer, or answers that it is temporarily unavailable.
    #[error("the identity provider is not available; try again in a minute, or sign in with a password")]
    ProviderUnreachable(
        /// The cause, for the log.
        String,
    ),
    /// The person or the provider refused the sign-in.
    #[error(
        "the identity provider refused the sign-in; sign in again and allow access there, or ask the administrator of \
         your account"
    )]
    Denied(
        /// The cause, for the log.
        String,
    ),
    /// The sign-in took longer than [`PENDING_LIFETIME`](super::PENDING_LIFETIME).
    #[error("this sign-in took too long; sign in again")]
    Expired,
    /// The response does not belong to a sign-in that this browser began.
    #[error("this sign-in did not begin in this browser, or a later one has replaced it; sign in again from here")]
    WrongState,
    /// The provider sent no verified email address.
    #[error(
        "the identity provider has not verified your email address; verify it there and sign in again, or ask the \
         operator of this server for another way to sign in"
    )]
    NotVerified,
    /// The domain of the email address is not an allowed domain.
    #[error(
        "the domain of your email address is not allowed here; sign in with another account, or ask the operator of \
         this server"
    )]
    DomainNotAllowed(
        /// The cause, for the log.
        String,
    ),
    /// The provider's response is not valid.
    #[error(
        "the response of the identity provider is not valid; sign in again, and if that does not help, ask the \
         operator of this server to check the log"
    )]
    BadAnswer(
        /// The cause, for the log.
        String,
    ),
}

impl OidcError {
    /// Returns the error's machine-readable name, for logs and metrics.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotConfigured(_) => "not_configured",
            Self::ProviderUnreachable(_) => "provider_unreachable",
            Self::Denied(_) => "denied",
            Self::Expired => "expired",
            Self::WrongState => "wrong_state",
            Self::NotVerified => "not_verified",
            Self::DomainNotAllowed(_) => "domain_not_allowed",
            Self::BadAnswer(_) => "bad_answer",
        }
    }

    /// Returns the details for the operator's log. Do not show them on a page: parts of them are text from outside.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        match self {
            Self::NotConfigured(detail)
            | Self::ProviderUnreachable(detail)
            | Self::Denied(detail)
            | Self::DomainNotAllowed(detail)
            | Self::BadAnswer(detail) => Some(detail),
            Self::Expired | Self::WrongState | Self::NotVerified => None,
        }
    }

    pub(super) fn bad(detail: impl AsRef<str>) -> Self {
        Self::BadAnswer(one_line(detail.as_ref()))
    }

    pub(super) fn unconfigured(detail: impl AsRef<str>) -> Self {
        Self::NotConfigured(one_line(detail.as_ref()))
    }

    /// Converts the error that a provider sends in place of a code (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6).
    pub(super) fn of_provider(error: &str, description: Option<&str>) -> Self {
        let detail = one_line(&format!("the provider reports {error:?}: {:?}", description.unwrap_or_default()));
        match error {
            "access_denied"
            | "login_required"
            | "consent_required"
            | "interaction_required"
            | "account_selection_required" => Self::Denied(detail),
            "server_error" | "temporarily_unavailable" => Self::ProviderUnreachable(detail),
            "unauthorized_client" | "invalid_scope" | "unsupported_response_type" | "invalid_request" => {
                Self::NotConfigured(detail)
            }
            _ => Self::BadAnswer(detail),
        }
    }
}

/// Replaces control characters by spaces and cuts the text to [`DETAIL_CHARS`].
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_CHARS).collect()
}
