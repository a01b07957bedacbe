//! The error codes: stable names for programs.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// A code, for the description of the interface.
pub(crate) struct DescribedCode {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
    /// The statuses of the responses that have the code.
    pub(crate) statuses: &'static [u16],
}

/// Defines the codes with the names that clients see, and with the statuses of their responses.
macro_rules! codes {
    ($(#[doc = $meaning:literal] $code:ident = $name:literal [$($status:literal),+],)*) => {
        /// The error code, for programs. New codes may be added; the status gives the class of the error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $code,)*
        }

        impl ErrorCode {
            /// Returns the name that clients see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)*
                }
            }

            /// Returns the code with a name.
            #[must_use]
            pub(crate) fn named(name: &str) -> Option<Self> {
                [$(Self::$code),*].into_iter().find(|code| code.name() == name)
            }

            /// Returns the descriptions of all codes.
            pub(crate) fn all() -> Vec<DescribedCode> {
                vec![$(DescribedCode { name: $name, meaning: $meaning.trim_ascii(), statuses: &[$($status),+] }),*]
            }
        }
    };
}

codes! {
    /// The request cannot be read.
    BadRequest = "bad_request" [400],
    /// The request has no usable Authorization header, or more than one.
    NoKey = "no_key" [401],
    /// The value in the Authorization header does not have the form of an API key.
    MalformedKey = "malformed_key" [401],
    /// The API key is unknown or revoked.
    UnknownKey = "unknown_key" [401],
    /// The API key has expired.
    ExpiredKey = "expired_key" [401],
    /// The API key may not be used from this address.
    AddressNotAllowed = "address_not_allowed" [403],
    /// The scope of the API key does not allow this.
    ScopeMissing = "scope_missing" [403],
    /// The operation needs an administrator, or an API key with fewer limits.
    KeyLimited = "key_limited" [403],
    /// A browser sent this request from another origin.
    ForeignOrigin = "foreign_origin" [403],
    /// The signature of a webhook is missing or wrong, or no secret is set.
    InvalidSignature = "invalid_signature" [401],
    /// The path is unknown.
    NotFound = "not_found" [404],
    /// The job does not exist, or the key may not see its project.
    JobNotFound = "job_not_found" [404],
    /// The job has no such message.
    MessageNotFound = "message_not_found" [404],
    /// The project does not exist, or the key may not see it.
    ProjectNotFound = "project_not_found" [404],
    /// The webhook does not exist in this project.
    WebhookNotFound = "webhook_not_found" [404],
    /// The webhook has no such delivery, or its event is no longer stored.
    DeliveryNotFound = "delivery_not_found" [404],
    /// The webhook is disabled, so it delivers nothing.
    WebhookDisabled = "webhook_disabled" [409],
    /// The project has 1,000 webhooks.
    TooManyWebhooks = "too_many_webhooks" [409],
    /// The template does not exist in this project.
    TemplateNotFound = "template_not_found" [404],
    /// A template with this name already exists in this project.
    TemplateExists = "template_exists" [409],
    /// The project has 50 templates.
    TooManyTemplates = "too_many_templates" [409],
    /// The token is not valid: its signature, its issuer or its times are wrong.
    TokenRefused = "token_refused" [401],
    /// No trust accepts the token.
    TokenNotTrusted = "token_not_trusted" [403],
    /// The keys of the token's issuer cannot be read at the moment.
    IssuerUnavailable = "issuer_unavailable" [503],
    /// The caller, or all callers together, use as much as they may at the same time.
    LimitReached = "limit_reached" [429],
    /// Too many tokens from this address were refused.
    TooManyAttempts = "too_many_attempts" [429],
    /// This token was exchanged too often, or too many keys of its trust or its subject work.
    TooManyExchanges = "too_many_exchanges" [429],
    /// The trust does not exist.
    TrustNotFound = "trust_not_found" [404],
    /// A trust with this name already exists.
    TrustExists = "trust_exists" [409],
    /// There are 500 trusts.
    TooManyTrusts = "too_many_trusts" [409],
    /// The API key does not exist.
    KeyNotFound = "key_not_found" [404],
    /// The key was revoked or has expired.
    KeyEnded = "key_ended" [409],
    /// The user does not exist.
    UserNotFound = "user_not_found" [404],
    /// A user with this name already exists.
    UserExists = "user_exists" [409],
    /// The user is disabled.
    UserDisabled = "user_disabled" [409],
    /// No administrator who may sign in would remain.
    LastAdministrator = "last_administrator" [409],
    /// The user is not connected with an account of the OpenID provider.
    IdentityMissing = "identity_missing" [409],
    /// The user has no password, and could not sign in without the OpenID provider.
    PasswordMissing = "password_missing" [409],
    /// The repository does not exist at this address.
    RepositoryNotFound = "repository_not_found" [404, 422],
    /// The events after the cursor are no longer stored, or the server was restored from an earlier state.
    CursorExpired = "cursor_expired" [410],
    /// The path does not support this method.
    MethodNotAllowed = "method_not_allowed" [405],
    /// The body is not JSON.
    InvalidJson = "invalid_json" [400],
    /// A field of the body is not valid.
    InvalidBody = "invalid_body" [400],
    /// A query parameter is not valid.
    InvalidQuery = "invalid_query" [400],
    /// The prompt is empty or contains a NUL character.
    InvalidPrompt = "invalid_prompt" [400],
    /// The Idempotency-Key header is not valid.
    InvalidIdempotencyKey = "invalid_idempotency_key" [400],
    /// The Last-Event-ID header is not valid.
    InvalidLastEventId = "invalid_last_event_id" [400],
    /// No agent with this name is configured.
    UnknownAgent = "unknown_agent" [400],
    /// The project refuses kinds of tool calls for which its agent does not ask permission.
    UnsupportedPolicy = "unsupported_policy" [400],
    /// Only an administrator may use this repository.
    RepositoryAddressRefused = "repository_address_refused" [400],
    /// The body could not be read completely or decompressed.
    BodyBroken = "body_broken" [400],
    /// The body did not arrive in time.
    BodyTimeout = "body_timeout" [408],
    /// The body is larger than 1 MiB.
    BodyTooLarge = "body_too_large" [413],
    /// The prompt has more than 100,000 characters.
    PromptTooLong = "prompt_too_long" [413],
    /// The URI is too long.
    UriTooLong = "uri_too_long" [414],
    /// The request line and the headers are too large.
    HeadersTooLarge = "headers_too_large" [431],
    /// The content type is not JSON.
    ContentTypeNotJson = "content_type_not_json" [415],
    /// The charset is not UTF-8.
    CharsetNotUtf8 = "charset_not_utf8" [415],
    /// The content encoding is not gzip, zstd, or none.
    ContentEncodingUnknown = "content_encoding_unknown" [415],
    /// The job is archived.
    JobArchived = "job_archived" [409],
    /// The job is active, and the message has delivery "reject", or the job is to be deleted.
    JobBusy = "job_busy" [409],
    /// Another job of the project works on this branch.
    BranchTaken = "branch_taken" [409],
    /// Another job works on this pull request.
    PullRequestTaken = "pull_request_taken" [409],
    /// The pull request does not exist in the repository of the project.
    PullRequestNotFound = "pull_request_not_found" [404, 422],
    /// The pull request was merged or closed.
    PullRequestEnded = "pull_request_ended" [409, 422],
    /// The branch has an open pull request.
    PullRequestExists = "pull_request_exists" [409],
    /// The repository has no such branch.
    BranchNotFound = "branch_not_found" [422],
    /// The branches of the pull request conflict, or its commits cannot be rebased.
    PullRequestConflict = "pull_request_conflict" [409],
    /// Jobs cannot push to the branch of the pull request, which may be in a fork.
    PullRequestNotWritable = "pull_request_not_writable" [422],
    /// The server cannot do this with the pull requests of the repository, which is on another code host or has none.
    PullRequestsUnsupported = "pull_requests_unsupported" [422],
    /// The message is no longer queued.
    MessageAlreadyDelivered = "message_already_delivered" [409],
    /// The code host does not exist.
    CodeHostNotFound = "code_host_not_found" [404],
    /// A code host with this ID or address already exists.
    CodeHostExists = "code_host_exists" [409],
    /// The code host is defined in the configuration file, so it cannot be changed here.
    CodeHostConfigured = "code_host_configured" [409],
    /// A project names the code host.
    CodeHostUsed = "code_host_used" [409],
    /// The Slack workspace does not exist.
    SlackWorkspaceNotFound = "slack_workspace_not_found" [404],
    /// The Slack workspace is connected already.
    SlackWorkspaceExists = "slack_workspace_exists" [409],
    /// Slack refused a request, or cannot be reached.
    SlackFailed = "slack_failed" [422],
    /// A project with this ID already exists.
    ProjectExists = "project_exists" [409],
    /// The project has active jobs.
    ProjectBusy = "project_busy" [409],
    /// The idempotency key was used with a different request.
    IdempotencyKeyReused = "idempotency_key_reused" [422],
    /// The version of the resource does not match `If-Match`.
    PreconditionFailed = "precondition_failed" [412],
    /// The project was changed at the same time; send the request again.
    ChangedMeanwhile = "changed_meanwhile" [409],
    /// The hourly limit is used up.
    RateLimited = "rate_limited" [429],
    /// The queue of the job is full (100 messages).
    QueueFull = "queue_full" [429],
    /// The repository refused the credential.
    CredentialRefused = "credential_refused" [422],
    /// The credential does not permit what jobs do in the repository, such as to push.
    PermissionMissing = "permission_missing" [422],
    /// The repository is archived, so jobs cannot push to it.
    RepositoryArchived = "repository_archived" [422],
    /// The repository cannot be reached.
    RepositoryUnreachable = "repository_unreachable" [422],
    /// The repository cannot be read at the moment.
    RepositoryUnavailable = "repository_unavailable" [503],
    /// No sandbox can be created at the moment.
    SandboxUnavailable = "sandbox_unavailable" [503],
    /// The server is shutting down.
    ShuttingDown = "shutting_down" [503],
    /// The address of the client has too many open connections.
    TooManyConnections = "too_many_connections" [503],
    /// The server is overloaded.
    Overloaded = "overloaded" [503],
    /// The store is unavailable.
    StoreUnavailable = "store_unavailable" [503],
    /// The disk of the database is full, so that nothing can be written. Reads work.
    StorageFull = "storage_full" [503],
    /// The server does not know whether the request was stored.
    OutcomeUnknown = "outcome_unknown" [504],
    /// An internal error occurred in the server.
    Internal = "internal" [500],
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
