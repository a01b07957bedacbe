//! Codes of errors.

open_enum! {
    /// The error code, for programs. New codes may be added; the status gives the class of the error.
    ErrorCode {
        /// The request cannot be read.
        BadRequest = "bad_request",
        /// The request has no usable Authorization header, or more than one.
        NoKey = "no_key",
        /// The value in the Authorization header does not have the form of an API key.
        MalformedKey = "malformed_key",
        /// The API key is unknown or revoked.
        UnknownKey = "unknown_key",
        /// The API key has expired.
        ExpiredKey = "expired_key",
        /// The API key may not be used from this address.
        AddressNotAllowed = "address_not_allowed",
        /// The scope of the API key does not allow this.
        ScopeMissing = "scope_missing",
        /// The operation needs an administrator, or an API key that is not limited to projects.
        KeyLimited = "key_limited",
        /// A browser sent this request from another origin.
        ForeignOrigin = "foreign_origin",
        /// The signature of a webhook is missing or wrong, or no secret is set.
        InvalidSignature = "invalid_signature",
        /// The path is unknown.
        NotFound = "not_found",
        /// The job does not exist, or the key may not see its project.
        JobNotFound = "job_not_found",
        /// The job has no such message.
        MessageNotFound = "message_not_found",
        /// The project does not exist, or the key may not see it.
        ProjectNotFound = "project_not_found",
        /// The webhook does not exist in this project.
        WebhookNotFound = "webhook_not_found",
        /// The webhook has no such delivery, or its event is no longer stored.
        DeliveryNotFound = "delivery_not_found",
        /// The webhook is disabled, so it delivers nothing.
        WebhookDisabled = "webhook_disabled",
        /// The project has 1,000 webhooks.
        TooManyWebhooks = "too_many_webhooks",
        /// The template does not exist in this project.
        TemplateNotFound = "template_not_found",
        /// A template with this name already exists in this project.
        TemplateExists = "template_exists",
        /// The project has 50 templates.
        TooManyTemplates = "too_many_templates",
        /// The token is not valid: its signature, its issuer or its times are wrong.
        TokenRefused = "token_refused",
        /// No trust accepts the token.
        TokenNotTrusted = "token_not_trusted",
        /// The keys of the token's issuer cannot be read at the moment.
        IssuerUnavailable = "issuer_unavailable",
        /// The caller, or all callers together, use as much as they may at the same time.
        LimitReached = "limit_reached",
        /// Too many tokens from this address were refused.
        TooManyAttempts = "too_many_attempts",
        /// This token was exchanged too often, or too many keys of its trust or its subject work.
        TooManyExchanges = "too_many_exchanges",
        /// The trust does not exist.
        TrustNotFound = "trust_not_found",
        /// A trust with this name already exists.
        TrustExists = "trust_exists",
        /// There are 500 trusts.
        TooManyTrusts = "too_many_trusts",
        /// The API key does not exist.
        KeyNotFound = "key_not_found",
        /// The key was revoked or has expired.
        KeyEnded = "key_ended",
        /// The user does not exist.
        UserNotFound = "user_not_found",
        /// A user with this name already exists.
        UserExists = "user_exists",
        /// The user is disabled.
        UserDisabled = "user_disabled",
        /// No administrator who may sign in would remain.
        LastAdministrator = "last_administrator",
        /// The user is not connected with an account of the OpenID provider.
        IdentityMissing = "identity_missing",
        /// The user has no password, and could not sign in without the OpenID provider.
        PasswordMissing = "password_missing",
        /// The repository does not exist at this address.
        RepositoryNotFound = "repository_not_found",
        /// The events after the cursor are no longer stored.
        CursorExpired = "cursor_expired",
        /// The path does not support this method.
        MethodNotAllowed = "method_not_allowed",
        /// The body is not JSON.
        InvalidJson = "invalid_json",
        /// A field of the body is not valid.
        InvalidBody = "invalid_body",
        /// A query parameter is not valid.
        InvalidQuery = "invalid_query",
        /// The prompt is empty or contains a NUL character.
        InvalidPrompt = "invalid_prompt",
        /// The Idempotency-Key header is not valid.
        InvalidIdempotencyKey = "invalid_idempotency_key",
        /// The Last-Event-ID header is not valid.
        InvalidLastEventId = "invalid_last_event_id",
        /// No agent with this name is configured.
        UnknownAgent = "unknown_agent",
        /// The project refuses kinds of tool calls for which its agent does not ask permission.
        UnsupportedPolicy = "unsupported_policy",
        /// Only an administrator may use this repository.
        RepositoryAddressRefused = "repository_address_refused",
        /// The body could not be read completely or decompressed.
        BodyBroken = "body_broken",
        /// The body did not arrive in time.
        BodyTimeout = "body_timeout",
        /// The body is larger than 1 MiB.
        BodyTooLarge = "body_too_large",
        /// The prompt has more than 100,000 characters.
        PromptTooLong = "prompt_too_long",
        /// The URI is too long.
        UriTooLong = "uri_too_long",
        /// The request line and the headers are too large.
        HeadersTooLarge = "headers_too_large",
        /// The content type is not JSON.
        ContentTypeNotJson = "content_type_not_json",
        /// The charset is not UTF-8.
        CharsetNotUtf8 = "charset_not_utf8",
        /// The content encoding is not gzip, zstd, or none.
        ContentEncodingUnknown = "content_encoding_unknown",
        /// The job is archived.
        JobArchived = "job_archived",
        /// The job is active, and the message has delivery "reject", or the job is to be deleted.
        JobBusy = "job_busy",
        /// Another job of the project works on this branch.
        BranchTaken = "branch_taken",
        /// Another job works on this pull request.
        PullRequestTaken = "pull_request_taken",
        /// The branch has an open pull request.
        PullRequestExists = "pull_request_exists",
        /// The repository has no such branch.
        BranchNotFound = "branch_not_found",
        /// The pull request does not exist in the repository of the project.
        PullRequestNotFound = "pull_request_not_found",
        /// The pull request was merged or closed.
        PullRequestEnded = "pull_request_ended",
        /// The branches of the pull request conflict.
        PullRequestConflict = "pull_request_conflict",
        /// Jobs cannot push to the branch of the pull request, which may be in a fork.
        PullRequestNotWritable = "pull_request_not_writable",
        /// The server cannot do this with the pull requests of the repository, which is on another code host or has
        /// none.
        PullRequestsUnsupported = "pull_requests_unsupported",
        /// The message is no longer queued.
        MessageAlreadyDelivered = "message_already_delivered",
        /// The code host does not exist.
        CodeHostNotFound = "code_host_not_found",
        /// A code host with this ID or address already exists.
        CodeHostExists = "code_host_exists",
        /// The code host is defined in the configuration file, so it cannot be changed here.
        CodeHostConfigured = "code_host_configured",
        /// A project names the code host.
        CodeHostUsed = "code_host_used",
        /// The Slack workspace does not exist.
        SlackWorkspaceNotFound = "slack_workspace_not_found",
        /// The Slack workspace is connected already.
        SlackWorkspaceExists = "slack_workspace_exists",
        /// Slack refused a request, or cannot be reached.
        SlackFailed = "slack_failed",
        /// A project with this ID already exists.
        ProjectExists = "project_exists",
        /// The project has active jobs.
        ProjectBusy = "project_busy",
        /// The idempotency key was used with a different request.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// The version of the resource does not match `If-Match`.
        PreconditionFailed = "precondition_failed",
        /// The project was changed at the same time; send the request again.
        ChangedMeanwhile = "changed_meanwhile",
        /// The hourly limit is used up.
        RateLimited = "rate_limited",
        /// The queue of the job is full (100 messages).
        QueueFull = "queue_full",
        /// The repository refused the credential.
        CredentialRefused = "credential_refused",
        /// The credential does not permit what jobs do in the repository, such as to push.
        PermissionMissing = "permission_missing",
        /// The repository is archived, so jobs cannot push to it.
        RepositoryArchived = "repository_archived",
        /// The repository cannot be reached.
        RepositoryUnreachable = "repository_unreachable",
        /// The repository cannot be read at the moment.
        RepositoryUnavailable = "repository_unavailable",
        /// No sandbox can be created at the moment.
        SandboxUnavailable = "sandbox_unavailable",
        /// The server is shutting down.
        ShuttingDown = "shutting_down",
        /// The address of the client has too many open connections.
        TooManyConnections = "too_many_connections",
        /// The server is overloaded.
        Overloaded = "overloaded",
        /// The store is unavailable.
        StoreUnavailable = "store_unavailable",
        /// The disk of the server's database is full. Reads work.
        StorageFull = "storage_full",
        /// The server does not know whether the request was stored.
        OutcomeUnknown = "outcome_unknown",
        /// An internal error occurred in the server.
        Internal = "internal",
    }
}
