//! Codes of errors.

open_enum! {
    /// The error code, for programs. New codes may be added; the status gives the class of the error. -
    /// `bad_request`: The request cannot be read. - `no_key`: The request has no usable Authorization header, or more
    /// than one. - `malformed_key`: The value in the Authorization header does not have the form of an API key. -
    /// `unknown_key`: The API key is unknown or revoked. - `expired_key`: The API key has expired. -
    /// `address_not_allowed`: The API key may not be used from this address. - `scope_missing`: The scope of the API
    /// key does not allow this. - `key_limited`: The operation needs an administrator, or an API key that is not
    /// limited to projects. - `foreign_origin`: A browser sent this request from another origin. -
    /// `invalid_signature`: The signature of a webhook is missing or wrong, or no secret is set. - `not_found`: The
    /// path is unknown. - `job_not_found`: The job does not exist, or the key may not see its project. -
    /// `message_not_found`: The job has no such message. - `project_not_found`: The project does not exist, or the
    /// key may not see it. - `webhook_not_found`: The webhook does not exist in this project. - `delivery_not_found`:
    /// The webhook has no such delivery, or its event is no longer stored. - `webhook_disabled`: The webhook is
    /// disabled, so it delivers nothing. - `too_many_webhooks`: The project has 1,000 webhooks. - `key_not_found`:
    /// The API key does not exist. - `key_ended`: The key was revoked or has expired. - `repository_not_found`: The
    /// repository does not exist at this address. - `cursor_expired`: The events after the cursor are no longer
    /// stored. - `method_not_allowed`: The path does not support this method. - `invalid_json`: The body is not JSON.
    /// - `invalid_body`: A field of the body is not valid. - `invalid_query`: A query parameter is not valid. -
    /// `invalid_prompt`: The prompt is empty or contains a NUL character. - `invalid_idempotency_key`: The
    /// Idempotency-Key header is not valid. - `invalid_last_event_id`: The Last-Event-ID header is not valid. -
    /// `unknown_agent`: No agent with this name is configured. - `unsupported_policy`: The project refuses kinds of
    /// tool calls for which its agent does not ask permission. - `repository_address_refused`: Only an administrator
    /// may use this repository. - `body_broken`: The body could not be read completely or decompressed. -
    /// `body_timeout`: The body did not arrive in time. - `body_too_large`: The body is larger than 1 MiB. -
    /// `prompt_too_long`: The prompt has more than 100,000 characters. - `uri_too_long`: The URI is too long. -
    /// `headers_too_large`: The request line and the headers are too large. - `content_type_not_json`: The content
    /// type is not JSON. - `charset_not_utf8`: The charset is not UTF-8. - `content_encoding_unknown`: The content
    /// encoding is not gzip, zstd, or none. - `job_archived`: The job is archived. - `job_busy`: The job is active,
    /// and the message has delivery "reject", or the job is to be deleted. - `branch_taken`: Another job of the
    /// project works on this branch. - `pull_request_taken`: Another job works on this pull request. -
    /// `pull_request_not_found`: The pull request does not exist in the repository of the project. -
    /// `pull_request_ended`: The pull request was merged or closed. - `pull_request_not_writable`: Jobs cannot push
    /// to the branch of the pull request, which may be in a fork. - `pull_requests_unsupported`: The repository of
    /// the project has no pull requests that the server can read. - `message_already_delivered`: The message is no
    /// longer queued. - `code_host_not_found`: The code host does not exist. - `code_host_exists`: A code host with
    /// this ID or address already exists. - `code_host_configured`: The code host is defined in the configuration
    /// file, so it cannot be changed here. - `code_host_used`: A project names the code host. - `project_exists`: A
    /// project with this ID already exists. - `project_busy`: The project has active jobs. -
    /// `idempotency_key_reused`: The idempotency key was used with a different request. - `precondition_failed`: The
    /// version of the resource does not match `If-Match`. - `changed_meanwhile`: The project was changed at the same
    /// time; send the request again. - `rate_limited`: The hourly limit is used up. - `queue_full`: The queue of the
    /// job is full (100 messages). - `credential_refused`: The repository refused the credential. -
    /// `permission_missing`: The credential does not permit what jobs do in the repository, such as to push. -
    /// `repository_archived`: The repository is archived, so jobs cannot push to it. - `repository_unreachable`: The
    /// repository cannot be reached. - `repository_unavailable`: The repository cannot be read at the moment. -
    /// `sandbox_unavailable`: No sandbox can be created at the moment. - `shutting_down`: The server is shutting
    /// down. - `too_many_connections`: The address of the client has too many open connections. - `overloaded`: The
    /// server is overloaded. - `store_unavailable`: The store is unavailable. - `outcome_unknown`: The server does
    /// not know whether the request was stored. - `internal`: An internal error occurred in the server.
    ErrorCode {
        /// The code `bad_request`.
        BadRequest = "bad_request",
        /// The code `no_key`.
        NoKey = "no_key",
        /// The code `malformed_key`.
        MalformedKey = "malformed_key",
        /// The code `unknown_key`.
        UnknownKey = "unknown_key",
        /// The code `expired_key`.
        ExpiredKey = "expired_key",
        /// The code `address_not_allowed`.
        AddressNotAllowed = "address_not_allowed",
        /// The code `scope_missing`.
        ScopeMissing = "scope_missing",
        /// The code `key_limited`.
        KeyLimited = "key_limited",
        /// The code `foreign_origin`.
        ForeignOrigin = "foreign_origin",
        /// The code `invalid_signature`.
        InvalidSignature = "invalid_signature",
        /// The code `not_found`.
        NotFound = "not_found",
        /// The code `job_not_found`.
        JobNotFound = "job_not_found",
        /// The code `message_not_found`.
        MessageNotFound = "message_not_found",
        /// The code `project_not_found`.
        ProjectNotFound = "project_not_found",
        /// The code `webhook_not_found`.
        WebhookNotFound = "webhook_not_found",
        /// The code `delivery_not_found`.
        DeliveryNotFound = "delivery_not_found",
        /// The code `webhook_disabled`.
        WebhookDisabled = "webhook_disabled",
        /// The code `too_many_webhooks`.
        TooManyWebhooks = "too_many_webhooks",
        /// The code `key_not_found`.
        KeyNotFound = "key_not_found",
        /// The code `key_ended`.
        KeyEnded = "key_ended",
        /// The code `repository_not_found`.
        RepositoryNotFound = "repository_not_found",
        /// The code `cursor_expired`.
        CursorExpired = "cursor_expired",
        /// The code `method_not_allowed`.
        MethodNotAllowed = "method_not_allowed",
        /// The code `invalid_json`.
        InvalidJson = "invalid_json",
        /// The code `invalid_body`.
        InvalidBody = "invalid_body",
        /// The code `invalid_query`.
        InvalidQuery = "invalid_query",
        /// The code `invalid_prompt`.
        InvalidPrompt = "invalid_prompt",
        /// The code `invalid_idempotency_key`.
        InvalidIdempotencyKey = "invalid_idempotency_key",
        /// The code `invalid_last_event_id`.
        InvalidLastEventId = "invalid_last_event_id",
        /// The code `unknown_agent`.
        UnknownAgent = "unknown_agent",
        /// The code `unsupported_policy`.
        UnsupportedPolicy = "unsupported_policy",
        /// The code `repository_address_refused`.
        RepositoryAddressRefused = "repository_address_refused",
        /// The code `body_broken`.
        BodyBroken = "body_broken",
        /// The code `body_timeout`.
        BodyTimeout = "body_timeout",
        /// The code `body_too_large`.
        BodyTooLarge = "body_too_large",
        /// The code `prompt_too_long`.
        PromptTooLong = "prompt_too_long",
        /// The code `uri_too_long`.
        UriTooLong = "uri_too_long",
        /// The code `headers_too_large`.
        HeadersTooLarge = "headers_too_large",
        /// The code `content_type_not_json`.
        ContentTypeNotJson = "content_type_not_json",
        /// The code `charset_not_utf8`.
        CharsetNotUtf8 = "charset_not_utf8",
        /// The code `content_encoding_unknown`.
        ContentEncodingUnknown = "content_encoding_unknown",
        /// The code `job_archived`.
        JobArchived = "job_archived",
        /// The code `job_busy`.
        JobBusy = "job_busy",
        /// The code `branch_taken`.
        BranchTaken = "branch_taken",
        /// The code `pull_request_taken`.
        PullRequestTaken = "pull_request_taken",
        /// The code `pull_request_not_found`.
        PullRequestNotFound = "pull_request_not_found",
        /// The code `pull_request_ended`.
        PullRequestEnded = "pull_request_ended",
        /// The code `pull_request_not_writable`.
        PullRequestNotWritable = "pull_request_not_writable",
        /// The code `pull_requests_unsupported`.
        PullRequestsUnsupported = "pull_requests_unsupported",
        /// The code `message_already_delivered`.
        MessageAlreadyDelivered = "message_already_delivered",
        /// The code `code_host_not_found`.
        CodeHostNotFound = "code_host_not_found",
        /// The code `code_host_exists`.
        CodeHostExists = "code_host_exists",
        /// The code `code_host_configured`.
        CodeHostConfigured = "code_host_configured",
        /// The code `code_host_used`.
        CodeHostUsed = "code_host_used",
        /// The code `project_exists`.
        ProjectExists = "project_exists",
        /// The code `project_busy`.
        ProjectBusy = "project_busy",
        /// The code `idempotency_key_reused`.
        IdempotencyKeyReused = "idempotency_key_reused",
        /// The code `precondition_failed`.
        PreconditionFailed = "precondition_failed",
        /// The code `changed_meanwhile`.
        ChangedMeanwhile = "changed_meanwhile",
        /// The code `rate_limited`.
        RateLimited = "rate_limited",
        /// The code `queue_full`.
        QueueFull = "queue_full",
        /// The code `credential_refused`.
        CredentialRefused = "credential_refused",
        /// The code `permission_missing`.
        PermissionMissing = "permission_missing",
        /// The code `repository_archived`.
        RepositoryArchived = "repository_archived",
        /// The code `repository_unreachable`.
        RepositoryUnreachable = "repository_unreachable",
        /// The code `repository_unavailable`.
        RepositoryUnavailable = "repository_unavailable",
        /// The code `sandbox_unavailable`.
        SandboxUnavailable = "sandbox_unavailable",
        /// The code `shutting_down`.
        ShuttingDown = "shutting_down",
        /// The code `too_many_connections`.
        TooManyConnections = "too_many_connections",
        /// The code `overloaded`.
        Overloaded = "overloaded",
        /// The code `store_unavailable`.
        StoreUnavailable = "store_unavailable",
        /// The code `outcome_unknown`.
        OutcomeUnknown = "outcome_unknown",
        /// The code `internal`.
        Internal = "internal",
    }
}
