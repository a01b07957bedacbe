//! Why somebody was not signed in.

/// Characters of a provider's words that are kept for the log.
const DETAIL_CHARS: usize = 300;

/// Why somebody was not signed in. The texts are for that person; they hold nothing that a stranger has written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The provider does not know us, or is not what the settings say.
    #[error(
        "the identity provider and this server are not set up for each other; sign in with a password, or ask the \
         operator of this server, whose log says what to change"
    )]
    NotConfigured(
        /// For the log.
        String,
    ),
    /// The provider does not answer.
    #[error("the identity provider cannot be reached at the moment; try again in a minute, or sign in with a password")]
    ProviderUnreachable(
        /// For the log.
        String,
    ),
    /// The person, or the provider, said no.
    #[error(
        "the identity provider did not let you in; sign in again and allow it there, or ask whoever manages your \
         account"
    )]
    Denied(
        /// For the log.
        String,
    ),
    /// It took too long, or was done before.
    #[error("this sign-in has taken too long or was used before; sign in again")]
    Expired,
    /// What came back does not belong to what was begun in this browser.
    #[error(
        "this sign-in was not begun in this browser, or has been overtaken by another one; sign in again from here"
    )]
    WrongState,
    /// The provider does not vouch for an email.
    #[error(
        "the identity provider does not say that your email address is yours; have it confirmed there and sign in \
         again, or ask the operator of this server for another way"
    )]
    NotVerified,
    /// The email's domain is not among those that are let in.
    #[error(
        "people with your email address are not let in here; sign in with another account, or ask the operator of this \
         server"
    )]
    DomainNotAllowed(
        /// For the log.
        String,
    ),
    /// What the provider said cannot be believed.
    #[error(
        "the answer of the identity provider was not accepted; sign in again, and if it stays so, ask the operator of \
         this server, whose log says why"
    )]
    BadAnswer(
        /// For the log.
        String,
    ),
}

impl OidcError {
    /// A name for programs: for a log, a metric, the query of a page.
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

    /// More of it, for the operator's log: not for the person, as parts of it are a stranger's words.
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
        Self::BadAnswer(tidy(detail.as_ref()))
    }

    pub(super) fn unconfigured(detail: impl AsRef<str>) -> Self {
        Self::NotConfigured(tidy(detail.as_ref()))
    }

    /// What a provider says instead of a code (RFC 6749, 4.1.2.1; OpenID Connect Core, 3.1.2.6).
    pub(super) fn of_provider(error: &str, description: Option<&str>) -> Self {
        let detail = tidy(&format!("it says {error:?}: {:?}", description.unwrap_or_default()));
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

/// One line of bounded length.
pub(super) fn tidy(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_CHARS).collect()
}
