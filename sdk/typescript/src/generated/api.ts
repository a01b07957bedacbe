// Generated from docs/openapi.json by `npm run generate`. Do not edit.

export interface paths {
    "/v2/agent/{projectId}/job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a job
         * @description Stores the job with its first message and returns immediately; the agent works in the background. Poll the job
         *     until its status is no longer `active`.
         */
        post: operations["createJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a job
         * @description Returns the job's record with an `ETag`. With `If-None-Match`, returns 304 if nothing has changed.
         */
        get: operations["getJob"];
        put?: never;
        post?: never;
        /**
         * Delete a job
         * @description Deletes the job with its messages, runs and events; its branch and its pull requests stay. A job that is active is
         *     refused: cancel or archive it first. Deleting a job again changes nothing.
         */
        delete: operations["deleteJob"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a follow-up message
         * @description Stores the message and returns the job's record immediately; the agent works in the background. A completed or
         *     failed job becomes active again, with the same branch, agent session, and pull request. If the pull request was
         *     merged or closed, a new one is opened. `Location` has the path of the message.
         */
        post: operations["sendMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the records of jobs
         * @description Returns the records of the project's jobs in pages, newest first. Jobs that are created in the meantime do not shift
         *     the pages.
         */
        get: operations["listJobs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a project's jobs
         * @description Returns the project's jobs with their details, in pages, newest first.
         */
        get: operations["listProjectJobs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the jobs of all projects
         * @description Returns the jobs of all projects that the key may see, with their details, in pages, newest first.
         */
        get: operations["listAllJobs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/details": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a job's details
         * @description Returns the details that the record does not contain: the labels and metadata, the branch, the pull requests, the
         *     checks, the length of the queue, the usage, the reason for a failure, and the cause that the job waits for.
         */
        get: operations["getJobDetails"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Retry a job now
         * @description If the job waits for an external cause to pass (`waiting` in its details), starts the next attempt now instead of
         *     when it is due. A job that does not wait does not change.
         */
        post: operations["retryJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a job
         * @description Stops the run and withdraws the queued messages; the job becomes `failed`. A turn that has already ended is not
         *     stopped: its work is published, its message becomes `finished`, and then the job becomes `completed`. A job that is
         *     not active does not change.
         */
        post: operations["cancelJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Archive a job
         * @description Cancels the job first if it is active. Messages to an archived job are refused. The work of a turn that has already
         *     ended is still published.
         */
        post: operations["archiveJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/unarchive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unarchive a job
         * @description Restores the status that the job had before it was archived.
         */
        post: operations["unarchiveJob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a job's messages
         * @description Returns each message with its receipt: its status, times, run, commits, and pull request. The messages come in pages,
         *     in the order in which they were accepted; a page with much text ends early.
         */
        get: operations["listMessages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/message/{messageId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a message
         * @description Returns the message with its receipt: its status, times, run, commits, answer, pull request, and a line for each check
         *     of its last commit.
         */
        get: operations["getMessage"];
        put?: never;
        post?: never;
        /**
         * Withdraw a message
         * @description Withdraws a queued message; a message that a run has taken is refused with 409. Withdrawing a message again changes
         *     nothing.
         */
        delete: operations["withdrawMessage"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a job's runs
         * @description Returns the attempts at the job's messages, each with its outcome, the reason for a failure, and its tokens, cost,
         *     and times, in pages, oldest first.
         */
        get: operations["listRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/pulls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a job's pull requests
         * @description Returns the pull requests that the job has opened, in pages, oldest first: a follow-up after a merge opens another
         *     one. Those on the built-in code host have a text too. `GET …/diff` returns the changes. For open ones, it says how they
         *     compared with their bases at `comparedAt`; no code host is asked.
         */
        get: operations["listJobPulls"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/checks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the checks of a job's pull request
         * @description Returns the checks of the newest commit that the job has pushed, as far as the code host has reported them. The event
         *     `checks.settled` says when all of them have finished.
         */
        get: operations["getJobChecks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a page of a job's events
         * @description Send `Accept: application/json`; generated clients must send it too. If the header is missing, or does not prefer
         *     `application/json` to `text/event-stream`, the response is the stream of `…/events/stream`, which does not end. To get
         *     the next page, send `nextAfter` as `after`.
         */
        get: operations["listEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/events/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream a job's events
         * @description Sends server-sent events with the sequence number as `id:` and an `Event` as `data:`. The stream stays open until
         *     the client closes it. A browser or library that reconnects with `Last-Event-ID` resumes after that event.
         */
        get: operations["streamEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a page of a project's events
         * @description Returns the events of all jobs of the project that integrations react to, oldest first. Send `nextCursor` as `cursor`
         *     to get the next page; it stays valid while there are no new events. Events are stored for 30 days.
         */
        get: operations["listProjectEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Read a page of the events of all projects
         * @description Returns the events of all projects that the key may see, oldest first.
         */
        get: operations["listAllEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/events/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream a project's events
         * @description Sends server-sent events with the cursor as `id:` and a `ProjectEvent` as `data:`. The first one has only an `id:`: the
         *     cursor at which the stream begins. The stream stays open until the client closes it. A browser or library that
         *     reconnects with `Last-Event-ID` resumes after that event.
         */
        get: operations["streamProjectEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/events/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream the events of all projects
         * @description Sends the events of all projects that the key may see, like the stream of a project.
         */
        get: operations["streamAllEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agent/{projectId}/job/{id}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a job's diff
         * @description Returns the job's changes relative to its base, as a unified diff. The diff is empty if nothing has changed. If it
         *     cannot be read to its end, the connection breaks off.
         */
        get: operations["getDiff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List projects
         * @description Returns the projects that the key may see, in pages, ordered by ID.
         */
        get: operations["listProjects"];
        put?: never;
        /**
         * Create a project
         * @description Requires `id` and `repository`; all other fields have defaults. If the repository `local:<name>` does not exist, it
         *     is created, without commits.
         */
        post: operations["createProject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a project
         * @description Returns the project with its settings and the names of its secrets. The values of secrets are never returned.
         */
        get: operations["getProject"];
        put?: never;
        post?: never;
        /**
         * Delete a project
         * @description Deletes the project with its jobs, their logs, and its secrets. Its repository on the built-in code host is removed
         *     afterward with its branches, pull requests and objects of Git LFS, unless another project uses it; a repository
         *     elsewhere stays. The request is refused while jobs are active.
         */
        delete: operations["deleteProject"];
        options?: never;
        head?: never;
        /**
         * Change a project
         * @description Takes a JSON merge patch (RFC 7396): omitted fields keep their values, and `null` restores a field's default or
         *     removes a secret or variable. Concurrent changes to different fields are all kept. With `If-Match`, the change is
         *     refused if the project has changed since the client read it.
         */
        patch: operations["changeProject"];
        trace?: never;
    };
    "/v2/repository/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test a project before creating it
         * @description Takes the same body as creating a project, and stores nothing. Tests whether jobs can work on the repository with its
         *     credential. If it cannot be read or pushed to, the response is 422 with the reason.
         */
        post: operations["testNewProject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test a change to a project
         * @description Takes the same body as changing the project, and stores nothing. Tests whether jobs can then work on the repository
         *     with its credential, and whether webhooks arrive. If it cannot be read or pushed to, the response is 422 with the
         *     reason.
         */
        post: operations["testProject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/pulls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List pull requests
         * @description Returns the pull requests of the project's repository in pages, newest first. On the built-in code host, these are
         *     all pull requests; on other code hosts, those that jobs have opened or work on, as the code host last reported them.
         *     For open ones, it says how they compared with their bases at `comparedAt`; no code host is asked. A push to a base, a
         *     merge and each push of a job cause another comparison.
         */
        get: operations["listPulls"];
        put?: never;
        /**
         * Open a pull request
         * @description Opens a pull request on the built-in code host for a branch that was pushed. If the branch has an open one with the same
         *     values, that one is returned with 200; another one is refused with 409. A branch that does not exist is refused with 422.
         */
        post: operations["openPull"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/pulls/{number}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a pull request
         * @description Returns a pull request of the built-in code host, and whether it can be merged now. Those on other code hosts are
         *     refused with 422; the list has their URLs.
         */
        get: operations["getPull"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/pulls/{number}/merge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Merge a pull request
         * @description Merges a pull request of the built-in code host into its base branch. Merging it again changes nothing. A closed one,
         *     one whose branches conflict, and one whose commits cannot be rebased are refused with 409; one on another code host is
         *     refused with 422.
         */
        post: operations["mergePull"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/code-hosts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List code hosts
         * @description Returns the code hosts of the configuration file and of the database, in pages, ordered by ID, without secrets.
         */
        get: operations["listCodeHosts"];
        put?: never;
        /**
         * Create a code host
         * @description Projects whose repositories are below its `url` use its credential, unless they have their own token. Secrets are
         *     stored encrypted and never returned.
         */
        post: operations["createCodeHost"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/code-hosts/{codeHost}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a code host
         * @description Returns the code host, and which of its secrets are set.
         */
        get: operations["getCodeHost"];
        /**
         * Replace a code host
         * @description Replaces all fields; those that are left out get their defaults. Secrets that are left out are kept, and `null`
         *     removes them. With another `url` or `apiUrl`, the credential must be sent again. A code host of the configuration file
         *     is changed there.
         */
        put: operations["replaceCodeHost"];
        post?: never;
        /**
         * Remove a code host
         * @description Removes the code host with its secrets. Refused while a project names it in `codeHost.host`. Other projects on it can
         *     then only use their own tokens. Removing it again changes nothing.
         */
        delete: operations["removeCodeHost"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/code-hosts/{codeHost}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test a code host
         * @description Tests whether the code host answers, whether it accepts the credential, and whether webhooks arrive. Stores nothing.
         *     The response is 200 also if a test fails; see `health` of each finding.
         */
        post: operations["checkCodeHost"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the inbox of a project
         * @description Returns the webhooks and other events of code hosts that concern the project, newest first, and what became of each.
         */
        get: operations["listProjectInbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/inbox": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the inbox
         * @description Returns the events of all projects, and those that concern no project.
         */
        get: operations["listInbox"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List keys
         * @description Returns the keys in pages, newest first, including revoked ones, without secrets. Keys that were exchanged for tokens
         *     have a list of their own, with `origin=exchanged`.
         */
        get: operations["listKeys"];
        put?: never;
        /**
         * Create a key
         * @description Only this response contains the secret: the server stores a hash of it. A repetition with the same idempotency key
         *     returns the same secret for 24 hours. A key cannot create one that allows more than itself, and the new key ends when
         *     the key that has created it ends.
         */
        post: operations["createKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/keys/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a key
         * @description Returns the key without its secret.
         */
        get: operations["getKey"];
        put?: never;
        post?: never;
        /**
         * Revoke a key
         * @description Takes effect at once. Revoking a key again changes nothing.
         */
        delete: operations["revokeKey"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/keys/{id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rotate a key
         * @description Gives the key a new secret, which only this response contains. The key keeps its ID, its scopes and its expiration.
         *     The old secret is refused at once, or after `keepOldSeconds`. A repetition with the same idempotency key returns the
         *     same secret for 24 hours.
         */
        post: operations["rotateKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/templates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List templates
         * @description Returns the templates of the project in pages, by name. A page with much text ends before `limit`.
         */
        get: operations["listTemplates"];
        put?: never;
        /**
         * Create a template
         * @description Stores a prompt under a name. A client that creates a job from a template copies the prompt, the agent, the model and
         *     the labels into its request; a later change of the template does not affect the job.
         */
        post: operations["createTemplate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/templates/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a template
         * @description Returns the template.
         */
        get: operations["getTemplate"];
        put?: never;
        post?: never;
        /**
         * Delete a template
         * @description Deletes the template. Jobs that were created from it stay as they are. Deleting it again changes nothing.
         */
        delete: operations["deleteTemplate"];
        options?: never;
        head?: never;
        /**
         * Change a template
         * @description Changes the given fields.
         */
        patch: operations["changeTemplate"];
        trace?: never;
    };
    "/v2/oidc/trusts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List trusts
         * @description Returns the trusts in pages, oldest first.
         */
        get: operations["listTrusts"];
        put?: never;
        /**
         * Create a trust
         * @description Tokens of the issuer that are for the audience, and whose claims match all patterns, can be exchanged for a key with
         *     the projects and the scope of the trust. The keys have the rights of the user who creates the trust, and end with
         *     them.
         */
        post: operations["createTrust"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/oidc/trusts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a trust
         * @description Returns the trust.
         */
        get: operations["getTrust"];
        put?: never;
        post?: never;
        /**
         * Delete a trust
         * @description Deletes the trust, and revokes its keys at once. Deleting it again changes nothing.
         */
        delete: operations["deleteTrust"];
        options?: never;
        head?: never;
        /**
         * Change a trust
         * @description Changes the given fields. The keys of the trust are revoked, unless only its name changes.
         */
        patch: operations["changeTrust"];
        trace?: never;
    };
    "/v2/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List users
         * @description Returns the users of the dashboard in pages, sorted by name, including disabled ones.
         */
        get: operations["listUsers"];
        put?: never;
        /**
         * Create a user
         * @description Creates a user without a password, and a link with which the user sets one within seven days. Only this response
         *     contains the link: the server stores a hash of it. A repetition with the same idempotency key returns the same link
         *     for 24 hours.
         */
        post: operations["createUser"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/users/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a user
         * @description Returns the user.
         */
        get: operations["getUser"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /**
         * Change a user
         * @description Gives the user another role, disables or enables the user, and disconnects the user from the OpenID provider. Keys
         *     that exceed the new role are revoked: all keys of a viewer, and those keys of a member that are for all projects.
         *     Disabling ends the sessions of the user, deletes the links, and revokes the keys. The last administrator who may sign
         *     in can be neither disabled nor given another role (`last_administrator`). Disconnecting ends the sessions of the user,
         *     who needs a password to sign in (`password_missing`); only the user can connect an account (`identity_missing`).
         */
        patch: operations["changeUser"];
        trace?: never;
    };
    "/v2/users/{id}/link": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a link for a user
         * @description Creates a link with which the user sets a password once, within seven days, for example a forgotten one. Earlier links
         *     of the user are no longer valid. Only this response contains the link. A repetition with the same idempotency key
         *     returns the same link for 24 hours.
         */
        post: operations["createUserLink"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get your key
         * @description Returns the API key of this request, and what it may do.
         */
        get: operations["getMe"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List agents
         * @description Returns the agents that a project or a job can name, by ID.
         */
        get: operations["listAgents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the audit log
         * @description Returns who changed what, when and from where, newest first.
         */
        get: operations["listAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/audit/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export the audit log
         * @description Returns all entries as CSV (RFC 4180), newest first. The first line has the names of the columns. A text that a
         *     spreadsheet would take for a formula begins with an apostrophe. A response that ends before its last chunk is not
         *     complete.
         */
        get: operations["exportAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List webhooks
         * @description Returns the webhooks of the project in pages, oldest first, without secrets.
         */
        get: operations["listWebhooks"];
        put?: never;
        /**
         * Create a webhook
         * @description The endpoint receives the events from now on as `POST` requests that are signed as Standard Webhooks says. Only this
         *     response contains the secret. Answer with a status of 200 to 299 within 10 seconds; other answers are attempted again
         *     for about three days. The events of one job come in their order, each at least once and with the same `webhook-id`.
         */
        post: operations["createWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a webhook
         * @description Returns the webhook without its secret.
         */
        get: operations["getWebhook"];
        put?: never;
        post?: never;
        /**
         * Delete a webhook
         * @description Deletes the webhook with its deliveries. Deleting it again changes nothing.
         */
        delete: operations["deleteWebhook"];
        options?: never;
        head?: never;
        /**
         * Change a webhook
         * @description Changes the given fields, and enables or disables the webhook.
         */
        patch: operations["changeWebhook"];
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks/{id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Rotate the secret of a webhook
         * @description Gives the webhook a new secret, which only this response contains. For `keepOldSeconds`, requests are signed with both
         *     secrets, so that the receiver can change to the new one without losing events.
         */
        post: operations["rotateWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks/{id}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test a webhook
         * @description Sends an example event to the endpoint once, now, and returns the result. The example is not in the list of deliveries.
         */
        post: operations["testWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks/{id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List deliveries
         * @description Returns the deliveries of a webhook with the results of their last attempts, in pages, newest first. They are stored
         *     for 30 days.
         */
        get: operations["listDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks/{id}/deliveries/{deliveryId}/redeliver": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Deliver an event again
         * @description Makes the delivery pending and due now, also if it was delivered. The request has the same `webhook-id` as before.
         */
        post: operations["redeliver"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/projects/{projectId}/webhooks/{id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Replay events
         * @description Delivers all events since a time again that the webhook selects, also those that it has received, and those before it
         *     was created. Events are stored for 30 days.
         */
        post: operations["replayWebhook"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/slack/workspaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List Slack workspaces
         * @description Returns all connected workspaces, oldest first, without secrets.
         */
        get: operations["listSlackWorkspaces"];
        put?: never;
        /**
         * Connect a Slack workspace
         * @description Asks Slack for the workspace of the bot token, and stores it. Secrets are stored encrypted and never returned.
         */
        post: operations["createSlackWorkspace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/slack/workspaces/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a Slack workspace
         * @description Returns the workspace, and which of its secrets are set.
         */
        get: operations["getSlackWorkspace"];
        put?: never;
        post?: never;
        /**
         * Remove a Slack workspace
         * @description Removes the workspace with its secrets, events, threads and posts. Jobs stay. Removing it again changes nothing.
         */
        delete: operations["removeSlackWorkspace"];
        options?: never;
        head?: never;
        /**
         * Change a Slack workspace
         * @description Changes the given fields, and connects and disconnects channels and people.
         */
        patch: operations["changeSlackWorkspace"];
        trace?: never;
    };
    "/v2/slack/workspaces/{id}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Test a Slack workspace
         * @description Tests whether Slack accepts the tokens, whether events arrive, and whether posts are accepted. Stores nothing. The
         *     response is 200 also if a test fails; see `health` of each finding.
         */
        post: operations["checkSlackWorkspace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/slack/workspaces/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the events of a Slack workspace
         * @description Returns the mentions, replies and direct messages, newest first, and what became of each.
         */
        get: operations["listSlackEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/slack/workspaces/{id}/posts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the posts to a Slack workspace
         * @description Returns what the server writes to Slack, newest first, with the error of each post that failed.
         */
        get: operations["listSlackPosts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/slack/code": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a code for a Slack account
         * @description The user sends `link CODE` to the bot in a direct message within ten minutes, and is then known in Slack. Needs an API
         *     key of a user, for all projects and with the scope `write`. An earlier code of the user is no longer valid.
         */
        post: operations["createSlackCode"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get usage
         * @description Returns the tokens and the cost of runs that ended in a period, in the projects that the key may see: the sum, or one
         *     line for each group. The numbers stay when jobs and projects are deleted.
         */
        get: operations["getUsage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List models
         * @description Returns the providers of models that this server is configured with. A project or a job names a model as
         *     `<provider>/<name>`; which names exist, the provider decides.
         */
        get: operations["listModels"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/system": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get information about the installation
         * @description Returns the version of the service, and the sandbox of the machine that handles the request.
         */
        get: operations["getSystem"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v2/oidc/exchange": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Exchange a token for a key
         * @description Returns a key that works for 15 minutes, for a token of an OpenID issuer that a trust accepts. Needs no API key. A CI
         *     job uses the token that its CI service gives it, so that no key is stored there. A token has one key: until it
         *     expires, it can be exchanged again, 20 times and once more each minute. The key then gets a new secret, and the one
         *     before is refused.
         */
        post: operations["exchangeToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    event: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * An event is sent to the endpoint of a webhook
         * @description The request is signed as Standard Webhooks says: verify it before you use it. A request can come more than once, with the same `webhook-id`.
         */
        post: operations["receiveEvent"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        /** @description An agent that the installation knows. */
        Agent: {
            /**
             * @description The ID, which projects and jobs name as `agent`.
             * @example claude-code
             */
            id: string;
            /** @description The display name. */
            name: string;
            /**
             * @description The dialects in which the agent calls models; an empty list means any.
             * @example [
             *       "anthropic"
             *     ]
             */
            dialects: string[];
            /**
             * @description The kinds of tool calls that a project can refuse to the agent.
             * @example [
             *       "edit",
             *       "execute"
             *     ]
             */
            asks: string[];
            /**
             * @description `true` if a new process of the agent resumes its sessions. Otherwise, each message of a job begins a session that
             *     includes the earlier messages.
             */
            resumes: boolean;
        };
        /** @description The list of agents. */
        AgentList: {
            /** @description The agents, by ID. */
            agents: components["schemas"]["Agent"][];
        };
        /**
         * @description What people are told at the code host whose comments led to nothing.
         * @enum {string}
         */
        Answers: "full" | "quiet";
        /** @description The result of an attempt. */
        Attempt: {
            /** Format: date-time */
            at: string;
            /**
             * Format: int64
             * @description The duration of the request, in milliseconds.
             */
            durationMs: number;
            /**
             * Format: int32
             * @description The status that the endpoint answered; `null` if there was no answer.
             */
            status: number | null;
            /** @description The first KiB of the answer. */
            response: string | null;
            /** @description Why there was no answer. */
            error: string | null;
        };
        /** @description An entry of the audit log. Its fields are the columns of the export. */
        AuditEntry: {
            /** @description The ID, which is larger than those of earlier entries. */
            id: string;
            /**
             * Format: date-time
             * @description The time of the action.
             */
            at: string;
            /**
             * @description The ID of the key or user who acted, or `cli` for the command line; for a failed sign-in, the name that was
             *     entered.
             */
            actor: string;
            /** @description The name of that key or user; `null` if it is not known. */
            actorName: string | null;
            /** @description The action, such as `key.created`. New actions may be added. */
            action: string;
            /** @description The object of the action, such as the ID of a key. */
            subject: string;
            /** @description The IP address of the client; `null` if the request did not come over the network. */
            address: string | null;
        };
        /** @description A page of the audit log. */
        AuditPage: {
            /** @description The entries, newest first. */
            entries: components["schemas"]["AuditEntry"][];
            /** @description The `cursor` of the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The budgets for model calls, in millionths of a US dollar; `null` means no limit. A call that could exceed a budget
         *     is not made, and the run fails.
         */
        Budget: {
            /**
             * Format: int64
             * @description The budget of one run.
             */
            runMicros: number | null;
            /**
             * Format: int64
             * @description The budget of a job, for all of its runs.
             */
            jobMicros: number | null;
            /**
             * Format: int64
             * @description The budget of the project for one day in UTC.
             */
            dayMicros: number | null;
            /**
             * Format: int64
             * @description The budget of the project in total.
             */
            projectMicros: number | null;
        };
        /**
         * @description The budgets for model calls, in millionths of a US dollar; by default, there is no limit. A call that could exceed a
         *     budget is not made, and the run fails.
         */
        BudgetChanges: {
            /**
             * Format: int64
             * @description The budget of one run.
             */
            runMicros?: number | null;
            /**
             * Format: int64
             * @description The budget of a job, for all of its runs.
             */
            jobMicros?: number | null;
            /**
             * Format: int64
             * @description The budget of the project for one day in UTC.
             */
            dayMicros?: number | null;
            /**
             * Format: int64
             * @description The budget of the project in total.
             */
            projectMicros?: number | null;
        };
        /** @description A Slack workspace to connect, or the changes of one. What is not given stays. */
        ChangeSlackWorkspace: {
            /** @description The name, for people; by default, the name at Slack. */
            name?: string;
            /** @description The way in which events arrive; by default, `events`. */
            mode?: components["schemas"]["SlackMode"];
            /** @description The projects of channels, by the ID of the channel; `null` disconnects a channel. */
            channels?: {
                [key: string]: string | null;
            };
            /** @description The IDs of the users of people, by their ID at Slack; `null` disconnects an account. */
            users?: {
                [key: string]: string | null;
            };
            /** @description The token of the bot, which begins with `xoxb-`. */
            botToken?: string | null;
            /** @description The signing secret of the app, for `events`; `null` removes it. */
            signingSecret?: string | null;
            /** @description The token of the app, which begins with `xapp-`, for `socket`; `null` removes it. */
            appToken?: string | null;
        };
        /** @description Changes of a template. Fields that are left out stay as they are. */
        ChangeTemplate: {
            /** @description The name, which no other template of the project may have, ignoring case. */
            name?: string;
            /** @description A note for the people who choose a template. */
            description?: string;
            /** @description The prompt. */
            prompt?: string;
            /** @description The agent; `null` means the project's. */
            agent?: string | null;
            /** @description The model; `null` means the project's. */
            model?: string | null;
            /** @description All labels; those that are left out are removed. */
            labels?: string[];
        };
        /** @description Changes of a trust. Fields that are left out stay as they are. */
        ChangeTrust: {
            name?: string | null;
            issuer?: string | null;
            /** @description The audience; `null` means the URL of this server. */
            audience?: string | null;
            /** @description All patterns; those that are left out are removed. */
            claims?: components["schemas"]["ChangeTrustClaims"] | null;
            projects?: string[] | null;
            scope?: components["schemas"]["TrustScope"] | null;
        };
        /** @description All patterns; those that are left out are removed. */
        ChangeTrustClaims: {
            [key: string]: string;
        };
        /** @description Changes of a user. Fields that are left out stay as they are. */
        ChangeUser: {
            role?: components["schemas"]["Role"] | null;
            /**
             * @description `true` ends the sessions of the user, deletes the links, and revokes the keys; `false` lets the user sign in
             *     again.
             */
            disabled?: boolean | null;
            /**
             * @description `false` disconnects the user from the OpenID provider, and ends the sessions of the user. Only the user can
             *     connect an account.
             */
            hasIdentity?: boolean | null;
        };
        /** @description The changes of a webhook. Fields that are not given stay. */
        ChangeWebhook: {
            /** @description The URL of the endpoint. */
            url?: string;
            /** @description The types of events to deliver; an empty list means all types. */
            events?: components["schemas"]["ProjectEventType"][];
            /** @description The form of the requests. */
            format?: components["schemas"]["WebhookFormat"];
            /** @description A note for people. */
            description?: string;
            /**
             * @description `false` to disable the webhook. When it is enabled again, it receives the deliveries that are still pending, and
             *     the events from then on.
             */
            enabled?: boolean;
        };
        /** @description A check of a commit: a CI job, or a commit status of another service. */
        Check: {
            name: string;
            state: components["schemas"]["CheckState"];
            /** @description The page of the check. */
            url: string | null;
            /** @description A line of text about the result. */
            summary: string | null;
            /** @description `true` if the check both failed and passed on the commit. Flaky checks are not repaired. */
            flaky: boolean;
        };
        /** @description The treatment of the checks of pull requests. */
        CheckChanges: {
            mode?: components["schemas"]["CheckMode"] | null;
            /**
             * Format: int32
             * @description The maximum number of automatic attempts for one pull request; by default, 3.
             */
            attempts?: number | null;
            /**
             * Format: int32
             * @description The longest time to wait for checks that have not begun, in seconds; by default, 600.
             */
            settleSeconds?: number | null;
            /** @description The names of the checks that count, where `*` stands for any text; by default, all. */
            only?: string[] | null;
            /** @description The names of the checks that do not count, where `*` stands for any text; by default, none. */
            ignore?: string[] | null;
        };
        /**
         * @description The reaction to failed checks.
         * @enum {string}
         */
        CheckMode: "off" | "report" | "fix";
        /**
         * @description The state of a check.
         * @enum {string}
         */
        CheckState: "pending" | "passed" | "failed" | "skipped" | "waiting" | "ignored";
        /** @description The result of the checks of a commit. */
        CheckSummary: {
            /** @description The commit. */
            sha: string;
            /** @description `passed`, `failed`, `none` (the commit has no checks) or `timed_out`. New results may be added. */
            result: string;
            /**
             * Format: date-time
             * @description The time of the result.
             */
            settledAt: string;
        };
        /** @description The content that a checkout has beside the commit's own files. */
        Checkout: {
            /** @description The treatment of submodules. */
            submodules: components["schemas"]["Submodules"];
            /** @description The treatment of files in Git LFS. */
            lfs: components["schemas"]["Lfs"];
        };
        /** @description The content that a checkout has beside the commit's own files. */
        CheckoutChanges: {
            submodules?: components["schemas"]["Submodules"] | null;
            lfs?: components["schemas"]["Lfs"] | null;
        };
        /** @description The treatment of the checks of pull requests. */
        Checks: {
            /** @description The reaction to failed checks. */
            mode: components["schemas"]["CheckMode"];
            /**
             * Format: int32
             * @description The maximum number of automatic attempts for one pull request; `null` means 3.
             */
            attempts: number | null;
            /**
             * Format: int32
             * @description The longest time to wait for checks that have not begun, in seconds; `null` means 600.
             */
            settleSeconds: number | null;
            /** @description The names of the checks that count, where `*` stands for any text; empty means all. */
            only: string[];
            /** @description The names of the checks that do not count, where `*` stands for any text. */
            ignore: string[];
        };
        /**
         * @description The policy for commits that change files of CI pipelines.
         * @enum {string}
         */
        CiFiles: "refuse" | "allow";
        /** @description The code host of a project's repository. */
        CodeHost: {
            kind: components["schemas"]["CodeHostKind"] | null;
            /** @description The ID of a code host of the installation; `null` means that it is found by the repository's address. */
            host: string | null;
            /** @description The user name to send with the token over HTTP. */
            username: string | null;
            /** @description `true` if there is a credential, which is set with `token` and never shown. */
            hasToken: boolean;
            /** @description `true` if there is a secret for the webhooks of this project, which is set with `webhookSecret` and never shown. */
            hasWebhookSecret: boolean;
            /** @description `true` if pushes may overwrite commits of the default branch on the built-in code host. */
            allowForcePush: boolean;
        };
        /** @description The code host of a project's repository. */
        CodeHostChanges: {
            kind?: components["schemas"]["CodeHostKind"] | null;
            /** @description The ID of a code host of the installation; by default, it is found by the repository's address. */
            host?: string | null;
            /** @description The user name to send with the token over HTTP. */
            username?: string | null;
            /** @description The credential for the repository. It is never shown again. `null` removes it. */
            token?: string | null;
            /**
             * @description The secret with which the code host signs the webhooks of this project. It is never shown again. `null` removes
             *     it.
             */
            webhookSecret?: string | null;
            /** @description `true` to let pushes overwrite commits of the default branch on the built-in code host; by default, `false`. */
            allowForcePush?: boolean | null;
        };
        /**
         * @description The kind of code host of a repository.
         * @enum {string}
         */
        CodeHostKind: "local" | "plain" | "github" | "gitlab" | "gitea" | "forgejo" | "bitbucket" | "bitbucket_data_center";
        /** @description A page of code hosts. */
        CodeHostList: {
            /** @description The code hosts, ordered by ID. */
            codeHosts: components["schemas"]["InstalledCodeHost"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description The treatment of comments and issues on the code host. */
        CommentChanges: {
            reviews?: components["schemas"]["Reviews"] | null;
            /** @description The name to mention, without `@`; by default, the name of the service's user on the code host, and `journeyman`. */
            mention?: string | null;
            /**
             * Format: int32
             * @description The time after the last comment until comments become one message, in seconds; by default, 20,
             *     and 0 on the built-in code host.
             */
            settleSeconds?: number | null;
            /** @description The label that makes a job of an issue; by default, `journeyman`. An empty text means no label. */
            issueLabel?: string | null;
            answers?: components["schemas"]["Answers"] | null;
            reviewRequests?: components["schemas"]["ReviewRequests"] | null;
            resolve?: components["schemas"]["Resolve"] | null;
        };
        /** @description The treatment of comments and issues on the code host. */
        Comments: {
            /** @description The submitted reviews that become messages. */
            reviews: components["schemas"]["Reviews"];
            /**
             * @description The name to mention, without `@`; `null` means the name of the service's user on the code host, and
             *     `journeyman`.
             */
            mention: string | null;
            /**
             * Format: int32
             * @description The time after the last comment until comments become one message, in seconds; `null` means 20,
             *     and 0 on the built-in code host.
             */
            settleSeconds: number | null;
            /** @description The label that makes a job of an issue; `null` means `journeyman`, and an empty text no label. */
            issueLabel: string | null;
            /** @description What people are told at the code host whose comments led to nothing. */
            answers: components["schemas"]["Answers"];
            /** @description The people who may ask for a review of a pull request. */
            reviewRequests: components["schemas"]["ReviewRequests"];
            /** @description The threads that the service marks as resolved. Hosts without resolution of threads ignore it. */
            resolve: components["schemas"]["Resolve"];
        };
        /** @description The settings of the commits that the service makes for a project. */
        CommitChanges: {
            /**
             * @description The template of the subject; by default, `{subject}`. `{subject}` is what was done, `{summary}` is the same with a
             *     small first letter, `{type}` is its type in Conventional Commits, `{issue}` the issue that asked for it, and
             *     `{branch}` the branch.
             */
            subject?: string | null;
            /** @description `true` if commits name the person at the code host who asked for the work as a co-author; by default, `true`. */
            coAuthors?: boolean | null;
        };
        /** @description The settings of the commits that the service makes for a project. */
        Commits: {
            /**
             * @description The template of the subject; `null` means `{subject}`. `{subject}` is what was done, `{summary}` is the same with a
             *     small first letter, `{type}` is its type in Conventional Commits, `{issue}` the issue that asked for it, and
             *     `{branch}` the branch.
             */
            subject: string | null;
            /** @description `true` if commits name the person at the code host who asked for the work as a co-author. */
            coAuthors: boolean;
        };
        /** @description The sandbox of a machine, and its guarantees. */
        Containment: {
            /** @description The name of the sandbox's back end. */
            kind: string;
            /** @description `true` if all required guarantees hold. Otherwise, the machine runs only the test model. */
            enough: boolean;
            /** @description The guarantees of the sandbox. */
            guarantees: components["schemas"]["Guarantee"][];
        };
        /** @description A code host to create. */
        CreateCodeHost: {
            /**
             * @description The ID, which is part of the URL for webhooks.
             * @example github
             */
            id: string;
            /** @description The software. */
            kind: components["schemas"]["HostKind"];
            /**
             * @description The URL of its pages.
             * @example https://github.com
             */
            url: string;
            /**
             * @description The URL of its HTTP interface; by default, the usual one for `url`. It must be on the same host, or on a name below
             *     it.
             */
            apiUrl?: string;
            /**
             * @description The user name that belongs to the token: for Bitbucket Cloud, the email address of the account; for Bitbucket Data
             *     Center, the user.
             */
            username?: string;
            /** @description The token of the service's user. Without a token and an app, each project needs its own token. */
            token?: string;
            /**
             * Format: int64
             * @description The ID of a GitHub App, in place of a token.
             */
            appId?: number;
            /** @description The name of the GitHub App in URLs; by default, the service asks GitHub. */
            appSlug?: string;
            /** @description The private key of the GitHub App, in PEM format. */
            privateKey?: string;
            /** @description The secret that signs webhooks. Without it, webhooks are refused. */
            webhookSecret?: string;
            /** @description The IDs of bots whose comments become messages; by default, none. */
            trustedBots?: string[];
        };
        /** @description A job to create. */
        CreateJob: {
            /** @description The prompt for the agent, which becomes the job's first message. */
            prompt: string;
            /** @description The branch, tag, or commit to start from; by default, the project's. */
            ref?: string;
            /** @description The model; by default, the project's. */
            model?: string;
            /** @description The effort of the model; by default, the project's. */
            effort?: components["schemas"]["Effort"];
            /** @description The agent; by default, the project's. */
            agent?: string;
            /** @description The name of the branch to work on; by default, a name derived from the title. */
            branch?: string;
            /** @description `true` to open the pull request as a draft; by default, as the project's settings say. */
            draft?: boolean;
            /**
             * @description `true` to ask the code host to merge the pull request when all requirements are met; by default, as the project's
             *     settings say. With an API key, `true` needs the scope `write`.
             */
            autoMerge?: boolean;
            /** @description The title of the pull request; by default, the first line of the prompt. */
            title?: string;
            /**
             * @description The existing pull request to work on, instead of opening one: its number, or the URL of its page. The job starts from the newest commit of its branch and pushes to it. Excludes `branch` and `ref`.
             * @example 12
             * @example https://github.com/example/shop/pull/12
             */
            pullRequest?: number | string;
            /**
             * @description Labels, by which lists select jobs.
             * @example [
             *       "bug",
             *       "nightly"
             *     ]
             */
            labels?: string[];
            /**
             * @description Data of your own, such as the ID of a ticket: up to 50 keys of up to 40 letters, digits, `_`, `-` and `.`, with
             *     values of up to 500 characters. Lists select jobs by it.
             * @example {
             *       "ticket": "SHOP-12"
             *     }
             */
            metadata?: {
                [key: string]: string;
            };
        };
        /** @description A key to create. */
        CreateKey: {
            /** @description The name of the key, such as its purpose. */
            name: string;
            /** @description The operations that the key allows; by default, those of the key that creates it. */
            scopes?: components["schemas"]["Scope"][];
            /** @description The IDs of the projects for which the key may be used; by default, all projects. */
            projects?: string[];
            /**
             * Format: date-time
             * @description The time from which the key is refused; by default, in 90 days, but not after the key that creates it. `null` means
             *     never, which a key that expires cannot give.
             */
            expiresAt?: string | null;
            /**
             * @description The IP addresses and networks from which the key may be used, such as `10.0.0.0/8`; by default, those of the key
             *     that creates it.
             */
            allowedIps?: string[];
        };
        /** @description A project to create; all fields except `id` and `repository` have defaults. */
        CreateProject: {
            /**
             * @description The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host, where the
             *     repository is created without commits if it does not exist.
             */
            repository: string;
            /** @description The branch, tag, or commit that jobs start from; by default, the repository's default branch. */
            ref?: string;
            /** @description The agent of the project's jobs. */
            agent?: string;
            /** @description The model of the project's jobs. */
            model?: string;
            /** @description The effort of the model in the project's jobs; by default, the agent's, or else the model's own. */
            effort?: components["schemas"]["Effort"];
            /** @description The code host of the repository. */
            codeHost?: components["schemas"]["CodeHostChanges"];
            /** @description The content of checkouts. */
            checkout?: components["schemas"]["CheckoutChanges"];
            /** @description The settings of the commits that the service makes. */
            commits?: components["schemas"]["CommitChanges"];
            /** @description The settings of the project's pull requests. */
            pullRequest?: components["schemas"]["PullRequestChanges"];
            /** @description The treatment of comments and issues on the code host. */
            comments?: components["schemas"]["CommentChanges"];
            /** @description The treatment of the checks of pull requests. */
            checks?: components["schemas"]["CheckChanges"];
            /** @description The limits of the project. */
            limits?: components["schemas"]["LimitChanges"];
            /** @description The settings of the sandbox of the project's agents. */
            sandbox?: components["schemas"]["SandboxChanges"];
            /** @description Environment variables for the setup command and the agent; `null` removes a variable. */
            environment?: {
                [key: string]: string | null;
            };
            /** @description A shell command that prepares a new workspace, such as `npm ci`. */
            setup?: string;
            /**
             * @description The processes that get each secret; only the setup command gets a secret that is not listed. `null` removes an
             *     entry.
             */
            secretUses?: {
                [key: string]: components["schemas"]["SecretUse"][] | null;
            };
            /** @description Secret variables for the processes in `secretUses`. They are never shown again; `null` removes a variable. */
            secrets?: {
                [key: string]: string | null;
            };
            /** @description The ID of the project in URLs, which cannot be changed. */
            id: string;
        };
        /** @description A template to create. */
        CreateTemplate: {
            /** @description The name, which no other template of the project may have, ignoring case. */
            name: string;
            /** @description A note for the people who choose a template. */
            description?: string;
            /** @description The prompt. */
            prompt: string;
            /** @description The agent; by default, the project's. */
            agent?: string;
            /** @description The model; by default, the project's. */
            model?: string;
            /** @description The labels of the job; a label has no comma. */
            labels?: string[];
        };
        /** @description A trust to create. */
        CreateTrust: {
            /** @description The name: a letter, then letters, digits, `.`, `-` and `_`. */
            name: string;
            /** @description The https URL of the issuer, exactly as in the claim `iss` of the tokens. */
            issuer: string;
            /** @description The audience that tokens must have; by default, the URL of this server. */
            audience?: string | null;
            /**
             * @description A pattern for each claim that is checked; at least one with more than wildcards. For an issuer that gives tokens to
             *     everybody, such as GitHub Actions, one must name a repository or an owner.
             */
            claims: {
                [key: string]: string;
            };
            /** @description The IDs of the projects for which the keys may be used. */
            projects: string[];
            scope?: components["schemas"]["TrustScope"] | null;
        };
        /** @description A user to create. */
        CreateUser: {
            /** @description The name to sign in with, such as an email address: letters, digits, and `.`, `_`, `-`, `@` and `+`. */
            name: string;
            role?: components["schemas"]["Role"] | null;
        };
        /** @description A webhook to create. */
        CreateWebhook: {
            /**
             * @description The URL of the endpoint. The server connects only to public addresses, and to networks that its operator has
             *     allowed.
             * @example https://hooks.example.com/journeyman
             */
            url: string;
            /**
             * @description The types of events to deliver; by default, all types.
             * @example [
             *       "job.completed",
             *       "job.failed"
             *     ]
             */
            events?: components["schemas"]["ProjectEventType"][];
            /** @description The form of the requests; by default, `standard`. */
            format?: components["schemas"]["WebhookFormat"];
            /** @description A note for people. */
            description?: string;
        };
        /** @description A key with its secret, which only the response to its creation contains. */
        CreatedKey: components["schemas"]["Key"] & {
            /** @description The secret. Save it, because it cannot be read again: the server stores a hash of it. */
            secret: string;
        };
        /** @description A user with a link to set a password, which only the response to the creation contains. */
        CreatedUser: components["schemas"]["User"] & {
            /** @description The link. */
            link: components["schemas"]["UserLink"];
        };
        /** @description A webhook with its secret. */
        CreatedWebhook: components["schemas"]["Webhook"] & {
            /**
             * @description The secret with which requests are signed. Only this response contains it.
             * @example whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD
             */
            secret: string;
        };
        /**
         * @description The place where a code host is defined.
         * @enum {string}
         */
        Definition: "configuration" | "store";
        /**
         * @description The treatment of a message if the job is active.
         * @enum {string}
         */
        Delivery: "queue" | "interrupt" | "reject";
        /** @description A page of deliveries. */
        DeliveryPage: {
            /** @description The deliveries, newest first. */
            deliveries: components["schemas"]["WebhookDelivery"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The state of a delivery.
         * @enum {string}
         */
        DeliveryStatus: "pending" | "delivered" | "failed";
        /**
         * @description The reason why a webhook receives no events. New reasons may be added.
         * @enum {string}
         */
        DisabledReason: "on_request" | "gone" | "failing";
        /**
         * @description The effort with which a model reasons about its answers. Not every model knows every value.
         * @enum {string}
         */
        Effort: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";
        /** @description The body of every error response. */
        ErrorBody: {
            /** @description A description of the error, for people. */
            error: string;
            /** @description The stable code of the error, for programs. */
            code: components["schemas"]["ErrorCode"];
            /** @description The ID of the request, which is also in the server's log. */
            requestId: string;
        };
        /**
         * @description The error code, for programs. New codes may be added; the status gives the class of the error.
         *
         *     - `bad_request`: The request cannot be read.
         *     - `no_key`: The request has no usable Authorization header, or more than one.
         *     - `malformed_key`: The value in the Authorization header does not have the form of an API key.
         *     - `unknown_key`: The API key is unknown or revoked.
         *     - `expired_key`: The API key has expired.
         *     - `address_not_allowed`: The API key may not be used from this address.
         *     - `scope_missing`: The scope of the API key does not allow this.
         *     - `key_limited`: The operation needs an administrator, or an API key with fewer limits.
         *     - `foreign_origin`: A browser sent this request from another origin.
         *     - `invalid_signature`: The signature of a webhook is missing or wrong, or no secret is set.
         *     - `not_found`: The path is unknown.
         *     - `job_not_found`: The job does not exist, or the key may not see its project.
         *     - `message_not_found`: The job has no such message.
         *     - `project_not_found`: The project does not exist, or the key may not see it.
         *     - `webhook_not_found`: The webhook does not exist in this project.
         *     - `delivery_not_found`: The webhook has no such delivery, or its event is no longer stored.
         *     - `webhook_disabled`: The webhook is disabled, so it delivers nothing.
         *     - `too_many_webhooks`: The project has 1,000 webhooks.
         *     - `template_not_found`: The template does not exist in this project.
         *     - `template_exists`: A template with this name already exists in this project.
         *     - `too_many_templates`: The project has 50 templates.
         *     - `token_refused`: The token is not valid: its signature, its issuer or its times are wrong.
         *     - `token_not_trusted`: No trust accepts the token.
         *     - `issuer_unavailable`: The keys of the token's issuer cannot be read at the moment.
         *     - `limit_reached`: The caller, or all callers together, use as much as they may at the same time.
         *     - `too_many_attempts`: Too many tokens from this address were refused.
         *     - `too_many_exchanges`: This token was exchanged too often, or too many keys of its trust or its subject work.
         *     - `trust_not_found`: The trust does not exist.
         *     - `trust_exists`: A trust with this name already exists.
         *     - `too_many_trusts`: There are 500 trusts.
         *     - `key_not_found`: The API key does not exist.
         *     - `key_ended`: The key was revoked or has expired.
         *     - `user_not_found`: The user does not exist.
         *     - `user_exists`: A user with this name already exists.
         *     - `user_disabled`: The user is disabled.
         *     - `last_administrator`: No administrator who may sign in would remain.
         *     - `identity_missing`: The user is not connected with an account of the OpenID provider.
         *     - `password_missing`: The user has no password, and could not sign in without the OpenID provider.
         *     - `repository_not_found`: The repository does not exist at this address.
         *     - `cursor_expired`: The events after the cursor are no longer stored, or the server was restored from an earlier state.
         *     - `method_not_allowed`: The path does not support this method.
         *     - `invalid_json`: The body is not JSON.
         *     - `invalid_body`: A field of the body is not valid.
         *     - `invalid_query`: A query parameter is not valid.
         *     - `invalid_prompt`: The prompt is empty or contains a NUL character.
         *     - `invalid_idempotency_key`: The Idempotency-Key header is not valid.
         *     - `invalid_last_event_id`: The Last-Event-ID header is not valid.
         *     - `unknown_agent`: No agent with this name is configured.
         *     - `unsupported_policy`: The project refuses kinds of tool calls for which its agent does not ask permission.
         *     - `repository_address_refused`: Only an administrator may use this repository.
         *     - `body_broken`: The body could not be read completely or decompressed.
         *     - `body_timeout`: The body did not arrive in time.
         *     - `body_too_large`: The body is larger than 1 MiB.
         *     - `prompt_too_long`: The prompt has more than 100,000 characters.
         *     - `uri_too_long`: The URI is too long.
         *     - `headers_too_large`: The request line and the headers are too large.
         *     - `content_type_not_json`: The content type is not JSON.
         *     - `charset_not_utf8`: The charset is not UTF-8.
         *     - `content_encoding_unknown`: The content encoding is not gzip, zstd, or none.
         *     - `job_archived`: The job is archived.
         *     - `job_busy`: The job is active, and the message has delivery "reject", or the job is to be deleted.
         *     - `branch_taken`: Another job of the project works on this branch.
         *     - `pull_request_taken`: Another job works on this pull request.
         *     - `pull_request_not_found`: The pull request does not exist in the repository of the project.
         *     - `pull_request_ended`: The pull request was merged or closed.
         *     - `pull_request_exists`: The branch has an open pull request.
         *     - `branch_not_found`: The repository has no such branch.
         *     - `pull_request_conflict`: The branches of the pull request conflict, or its commits cannot be rebased.
         *     - `pull_request_not_writable`: Jobs cannot push to the branch of the pull request, which may be in a fork.
         *     - `pull_requests_unsupported`: The server cannot do this with the pull requests of the repository, which is on another code host or has none.
         *     - `message_already_delivered`: The message is no longer queued.
         *     - `code_host_not_found`: The code host does not exist.
         *     - `code_host_exists`: A code host with this ID or address already exists.
         *     - `code_host_configured`: The code host is defined in the configuration file, so it cannot be changed here.
         *     - `code_host_used`: A project names the code host.
         *     - `slack_workspace_not_found`: The Slack workspace does not exist.
         *     - `slack_workspace_exists`: The Slack workspace is connected already.
         *     - `slack_failed`: Slack refused a request, or cannot be reached.
         *     - `project_exists`: A project with this ID already exists.
         *     - `project_busy`: The project has active jobs.
         *     - `idempotency_key_reused`: The idempotency key was used with a different request.
         *     - `precondition_failed`: The version of the resource does not match `If-Match`.
         *     - `changed_meanwhile`: The project was changed at the same time; send the request again.
         *     - `rate_limited`: The hourly limit is used up.
         *     - `queue_full`: The queue of the job is full (100 messages).
         *     - `credential_refused`: The repository refused the credential.
         *     - `permission_missing`: The credential does not permit what jobs do in the repository, such as to push.
         *     - `repository_archived`: The repository is archived, so jobs cannot push to it.
         *     - `repository_unreachable`: The repository cannot be reached.
         *     - `repository_unavailable`: The repository cannot be read at the moment.
         *     - `sandbox_unavailable`: No sandbox can be created at the moment.
         *     - `shutting_down`: The server is shutting down.
         *     - `too_many_connections`: The address of the client has too many open connections.
         *     - `overloaded`: The server is overloaded.
         *     - `store_unavailable`: The store is unavailable.
         *     - `storage_full`: The disk of the database is full, so that nothing can be written. Reads work.
         *     - `outcome_unknown`: The server does not know whether the request was stored.
         *     - `internal`: An internal error occurred in the server.
         * @enum {string}
         */
        ErrorCode: "bad_request" | "no_key" | "malformed_key" | "unknown_key" | "expired_key" | "address_not_allowed" | "scope_missing" | "key_limited" | "foreign_origin" | "invalid_signature" | "not_found" | "job_not_found" | "message_not_found" | "project_not_found" | "webhook_not_found" | "delivery_not_found" | "webhook_disabled" | "too_many_webhooks" | "template_not_found" | "template_exists" | "too_many_templates" | "token_refused" | "token_not_trusted" | "issuer_unavailable" | "limit_reached" | "too_many_attempts" | "too_many_exchanges" | "trust_not_found" | "trust_exists" | "too_many_trusts" | "key_not_found" | "key_ended" | "user_not_found" | "user_exists" | "user_disabled" | "last_administrator" | "identity_missing" | "password_missing" | "repository_not_found" | "cursor_expired" | "method_not_allowed" | "invalid_json" | "invalid_body" | "invalid_query" | "invalid_prompt" | "invalid_idempotency_key" | "invalid_last_event_id" | "unknown_agent" | "unsupported_policy" | "repository_address_refused" | "body_broken" | "body_timeout" | "body_too_large" | "prompt_too_long" | "uri_too_long" | "headers_too_large" | "content_type_not_json" | "charset_not_utf8" | "content_encoding_unknown" | "job_archived" | "job_busy" | "branch_taken" | "pull_request_taken" | "pull_request_not_found" | "pull_request_ended" | "pull_request_exists" | "branch_not_found" | "pull_request_conflict" | "pull_request_not_writable" | "pull_requests_unsupported" | "message_already_delivered" | "code_host_not_found" | "code_host_exists" | "code_host_configured" | "code_host_used" | "slack_workspace_not_found" | "slack_workspace_exists" | "slack_failed" | "project_exists" | "project_busy" | "idempotency_key_reused" | "precondition_failed" | "changed_meanwhile" | "rate_limited" | "queue_full" | "credential_refused" | "permission_missing" | "repository_archived" | "repository_unreachable" | "repository_unavailable" | "sandbox_unavailable" | "shutting_down" | "too_many_connections" | "overloaded" | "store_unavailable" | "storage_full" | "outcome_unknown" | "internal";
        /** @description An entry in the log of a job. New types may be added; ignore types that you do not know. */
        Event: components["schemas"]["EventJobCreated"] | components["schemas"]["EventJobCompleted"] | components["schemas"]["EventJobFailed"] | components["schemas"]["EventJobArchived"] | components["schemas"]["EventJobUnarchived"] | components["schemas"]["EventMessageAccepted"] | components["schemas"]["EventMessageWithdrawn"] | components["schemas"]["EventMessageChanged"] | components["schemas"]["EventMessageWaiting"] | components["schemas"]["EventMessagePublishedWith"] | components["schemas"]["EventMessageFinished"] | components["schemas"]["EventRunStarted"] | components["schemas"]["EventRunFinished"] | components["schemas"]["EventCommitPushed"] | components["schemas"]["EventPullRequestOpened"] | components["schemas"]["EventPullRequestUpdated"] | components["schemas"]["EventPullRequestMerged"] | components["schemas"]["EventPullRequestClosed"] | components["schemas"]["EventPullRequestReopened"] | components["schemas"]["EventPullRequestOutdated"] | components["schemas"]["EventChecksSettled"] | components["schemas"]["EventAgentMessage"] | components["schemas"]["EventAgentThought"] | components["schemas"]["EventAgentPlan"] | components["schemas"]["EventAgentToolCall"] | components["schemas"]["EventAgentUsage"] | components["schemas"]["EventAgentSession"] | components["schemas"]["EventAgentContinued"] | components["schemas"]["EventChangesLeftOut"] | components["schemas"]["EventCheckoutIncomplete"] | components["schemas"]["EventHomeNotStored"] | components["schemas"]["EventAgentLineDropped"] | components["schemas"]["EventAgentModelCall"] | components["schemas"]["EventModelDenied"] | components["schemas"]["EventPermissionAnswered"] | components["schemas"]["EventEgressAllowed"] | components["schemas"]["EventEgressDenied"];
        /** @description The agent's turn was cut short, and the agent is asked to continue. */
        EventAgentContinued: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.continued";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                cause?: string;
                /** Format: int64 */
                continuation?: number;
                /** Format: int64 */
                most?: number;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description A line of the agent's output was not a message of the protocol. */
        EventAgentLineDropped: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.line_dropped";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                reason?: string;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The agent sent a message. */
        EventAgentMessage: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.message";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                text?: string;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The agent called a model through the service. */
        EventAgentModelCall: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.model_call";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                model?: string;
                /** Format: int64 */
                inputTokens?: number;
                /** Format: int64 */
                cachedTokens?: number;
                /** Format: int64 */
                outputTokens?: number;
                costMicros?: number | null;
                estimated?: boolean;
                /** Format: int64 */
                waitedMillis?: number;
                /** Format: int64 */
                millis?: number;
                failure?: string | null;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The agent's complete plan. */
        EventAgentPlan: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.plan";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                entries?: unknown[];
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The agent's session was opened. */
        EventAgentSession: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.session";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                agent?: string;
                /** @enum {string} */
                opened?: "new" | "resumed" | "loaded";
                resumes?: boolean;
                loads?: boolean;
                /** Format: int64 */
                millis?: number;
                /** @description The wanted values of `model`, `effort` and `mode` that the agent does not offer or has refused. */
                notSet?: {
                    [key: string]: string;
                };
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The agent sent a thought. */
        EventAgentThought: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.thought";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                text?: string;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description A tool call, or an update of one, with the fields that the agent sent. */
        EventAgentToolCall: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.tool_call";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                toolCallId?: string | null;
                title?: unknown;
                kind?: unknown;
                status?: unknown;
                rawInput?: unknown;
                rawOutput?: unknown;
                content?: unknown;
                locations?: unknown;
                /** @description True if an earlier event started the call. */
                update?: boolean;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
            };
        };
        /** @description The usage of the context window, as reported by the agent. */
        EventAgentUsage: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "agent.usage";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                used?: unknown;
                size?: unknown;
                cost?: unknown;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The turn changed files that its commits do not have. */
        EventChangesLeftOut: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "changes.left_out";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                paths?: components["schemas"]["LeftOut"][];
                /** Format: int64 */
                more?: number;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The working tree of the turn lacks something that the repository or an earlier turn has: the content of a file in Git LFS, a file that was left out of an earlier commit, a submodule, the newest commit of the branch that the work is merged into, the work of a turn that was lost before it was recorded, or the agent's home of earlier turns. */
        EventCheckoutIncomplete: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "checkout.incomplete";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                entries?: {
                    path: string;
                    /** @enum {string} */
                    kind: "file" | "submodule" | "base" | "turn" | "home";
                    reason: string;
                    detail: string;
                }[];
                /** Format: int64 */
                more?: number;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description All checks of the newest commit of the pull request have finished. */
        EventChecksSettled: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "checks.settled";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                sha: string;
                result: string;
                failed: string[];
                stop: string | null;
            };
        };
        /** @description The branch was pushed. */
        EventCommitPushed: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "commit.pushed";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                branch: string;
                head: string;
                commits: string[];
            };
        };
        /** @description A program reached a destination outside the sandbox. */
        EventEgressAllowed: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "egress.allowed";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                destination?: string;
                reason?: string | null;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description A program was denied access to a destination outside the sandbox. */
        EventEgressDenied: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "egress.denied";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                destination?: string;
                reason?: string | null;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The agent's home was not stored after the turn, so a rebuilt workspace will not have it. */
        EventHomeNotStored: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "home.not_stored";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                reason?: string;
                detail?: string;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The job was archived. */
        EventJobArchived: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "job.archived";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: Record<string, never>;
        };
        /** @description No messages are left, and the last run succeeded. */
        EventJobCompleted: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "job.completed";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: Record<string, never>;
        };
        /** @description The job was created. */
        EventJobCreated: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "job.created";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                title: string;
                source: components["schemas"]["Source"];
                agent: string;
                model: string;
                effort?: components["schemas"]["Effort"];
            };
        };
        /** @description No messages are left, and the last run failed. */
        EventJobFailed: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "job.failed";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                reason: components["schemas"]["Reason"];
            };
        };
        /** @description The job is no longer archived. */
        EventJobUnarchived: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "job.unarchived";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: Record<string, never>;
        };
        /** @description A message was stored. */
        EventMessageAccepted: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message.accepted";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
                prompt: string;
                origin: components["schemas"]["MessageOrigin"];
                author: string | null;
                delivery: components["schemas"]["Delivery"];
            };
        };
        /** @description The comments of a queued message were edited on the code host. */
        EventMessageChanged: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message.changed";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
                prompt: string;
            };
        };
        /** @description A delivered message finished, failed, or was cancelled. */
        EventMessageFinished: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message.finished";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
                status: components["schemas"]["MessageStatus"];
                answer?: string | null;
                commits: string[];
                prLink: string | null;
                reason: components["schemas"]["Reason"] | null;
            };
        };
        /** @description Commits of earlier messages were published with those of this message. */
        EventMessagePublishedWith: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message.published_with";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
                earlier: string[];
            };
        };
        /** @description A message waits for something outside the job, such as its code host. */
        EventMessageWaiting: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message.waiting";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
                reason: components["schemas"]["Reason"];
                /** Format: date-time */
                since: string;
                /** Format: date-time */
                deadline: string;
                /** Format: date-time */
                nextAttemptAt: string;
            };
        };
        /** @description A queued message was withdrawn. */
        EventMessageWithdrawn: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "message.withdrawn";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
            };
        };
        /** @description A model call, or a part of it, was denied. */
        EventModelDenied: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "model.denied";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                reason?: string;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description A page of a job's log. */
        EventPage: {
            /** @description The events, oldest first. */
            events: components["schemas"]["Event"][];
            /**
             * Format: int64
             * @description The value of `after` for the next page.
             */
            nextAfter: number;
            /** @description `true` if there are more events already. */
            hasMore: boolean;
        };
        /** @description The agent asked for permission, and the project's policy answered. */
        EventPermissionAnswered: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "permission.answered";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                title?: string;
                chosen?: string | null;
                kind?: string | null;
                granted?: boolean;
                /** @description True if data was truncated. */
                cut?: boolean;
                /** @description The original size in bytes. */
                bytes?: number;
                /** @description The first characters. */
                beginning?: string;
                toolCallId?: string | null;
            };
        };
        /** @description The pull request of an event. */
        EventPullRequest: {
            /** Format: int64 */
            number: number;
            /** @description The page; `null` if it is a pull request of an earlier branch of the job. */
            url: string | null;
        };
        /** @description A pull request was closed. */
        EventPullRequestClosed: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "pull_request.closed";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                /** Format: int64 */
                number: number;
            };
        };
        /** @description A pull request was merged. */
        EventPullRequestMerged: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "pull_request.merged";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                /** Format: int64 */
                number: number;
            };
        };
        /** @description A pull request was opened. */
        EventPullRequestOpened: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "pull_request.opened";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                /** Format: int64 */
                number: number;
                url: string;
            };
        };
        /** @description The pull request conflicts with its base branch, or is behind it, and the project wants it to be updated. */
        EventPullRequestOutdated: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "pull_request.outdated";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                /** Format: int64 */
                number: number;
                base: string;
                baseSha: string;
                headSha: string;
                /** Format: int64 */
                behind: number;
                conflicts: components["schemas"]["PullConflicts"];
                stop: string | null;
            };
        };
        /** @description A pull request was reopened. */
        EventPullRequestReopened: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "pull_request.reopened";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                /** Format: int64 */
                number: number;
            };
        };
        /** @description The pull request has new commits. */
        EventPullRequestUpdated: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "pull_request.updated";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                /** Format: int64 */
                number: number;
                url: string;
            };
        };
        /** @description A run ended. */
        EventRunFinished: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "run.finished";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                status: components["schemas"]["RunStatus"];
                reason: components["schemas"]["Reason"] | null;
                commits: string[];
            };
        };
        /** @description A worker started a run for a message. */
        EventRunStarted: {
            /**
             * Format: int64
             * @description The sequence number: 1 for the job's first event, without gaps.
             */
            seq: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            type: "run.started";
            /** Format: date-time */
            at: string;
            /** @description The ID of the run, if the event belongs to one. */
            runId: string | null;
            data: {
                messageId: string;
                /** Format: int64 */
                attempt: number;
                worker: string;
            };
        };
        /** @description A token to exchange for a key. */
        ExchangeToken: {
            /** @description A signed JSON Web Token of an OpenID issuer, such as a CI service. */
            token: string;
            /** @description The ID or the name of the trust that must accept the token; by default, any may. */
            trust?: string | null;
        };
        /** @description A key that was exchanged for a token. */
        ExchangedKey: {
            /** @description The secret. It cannot be read again. */
            secret: string;
            /** @description The key. */
            key: components["schemas"]["Key"];
            /**
             * Format: date-time
             * @description The time from which the key is refused, in 15 minutes.
             */
            expiresAt: string;
        };
        /** @description The result of one test. */
        Finding: {
            /** @description The name of the test, such as `credential`. New ones may be added. */
            check: string;
            /** @description The health. */
            health: components["schemas"]["Health"];
            /** @description The result, and the remedy unless the test passed; for people. */
            text: string;
        };
        /** @description The results of tests. */
        FindingList: {
            /** @description The findings, in the order of the tests. */
            findings: components["schemas"]["Finding"][];
        };
        /** @description A guarantee of a sandbox. */
        Guarantee: {
            /** @description The name, such as `network`. */
            name: string;
            /** @description `true` if a test has shown that the guarantee holds. */
            holds: boolean;
            /** @description `true` if the configuration does not require the guarantee. */
            givenUp: boolean;
            /** @description A note on how the sandbox provides the guarantee, or the remedy if it does not. */
            note: string;
        };
        /**
         * @description The health of one tested thing.
         * @enum {string}
         */
        Health: "ok" | "warning" | "failure";
        /**
         * @description The software of a code host.
         * @enum {string}
         */
        HostKind: "github" | "gitlab" | "gitea" | "forgejo" | "bitbucket" | "bitbucket_data_center";
        /** @description An event of a code host. */
        InboxEvent: {
            /** @description The ID, which is larger than those of earlier events. */
            id: string;
            /**
             * Format: date-time
             * @description The time of the arrival.
             */
            receivedAt: string;
            /** @description The code host, such as `github.com`. */
            host: string;
            /** @description The name of the event, as the code host writes it. */
            event: string;
            /** @description The ID of the delivery. A redelivery has the same, and is not stored again. */
            delivery: string;
            state: components["schemas"]["InboxState"];
            /**
             * @description What became of the event, such as `message`, `ignored_self` or `not_permitted`; `null` while it is received or
             *     waiting. New outcomes may be added.
             */
            outcome: string | null;
            /** @description The explanation of the outcome, for people. */
            detail: string | null;
            /**
             * Format: int32
             * @description The number of attempts at reading the event.
             */
            attempts: number;
            projectId: string | null;
            job: string | null;
            /** @description The message that the event became part of. */
            message: string | null;
            /** @description The path of the repository, such as `owner/name`, if the event was read. */
            repository: string | null;
            /**
             * @description The name of the user who caused the event; if the code host does not say, the author of the comment, review or
             *     issue.
             */
            sender: string | null;
            /** @description The page of the comment, review or issue. */
            url: string | null;
        };
        /** @description A page of the inbox. */
        InboxPage: {
            /** @description The events, newest first. */
            events: components["schemas"]["InboxEvent"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The state of an event in the inbox.
         * @enum {string}
         */
        InboxState: "received" | "waiting" | "done" | "ignored" | "failed";
        /** @description A code host, without its secrets. */
        InstalledCodeHost: {
            /** @description The ID, which is part of the URL for webhooks. */
            id: string;
            /** @description The software. */
            kind: components["schemas"]["HostKind"];
            /**
             * @description The URL of its pages.
             * @example https://github.com
             */
            url: string;
            /** @description The URL of its HTTP interface; `null` means the usual one for `url`. */
            apiUrl: string | null;
            /** @description The user name that belongs to the token. */
            username: string | null;
            /**
             * Format: int64
             * @description The ID of the GitHub App; `null` if there is none.
             */
            appId: number | null;
            /** @description The name of the GitHub App in URLs. */
            appSlug: string | null;
            /** @description `true` if a token is set. */
            hasToken: boolean;
            /** @description `true` if the private key of a GitHub App is set. */
            hasPrivateKey: boolean;
            /** @description `true` if the secret that signs webhooks is set. Without it, webhooks are refused. */
            hasWebhookSecret: boolean;
            /** @description The IDs of bots whose comments become messages. */
            trustedBots: string[];
            /** @description The place where it is defined. */
            definedIn: components["schemas"]["Definition"];
            /** @description The URL for webhooks, which you enter at the code host. */
            webhookUrl: string;
            /**
             * Format: date-time
             * @description The time of creation; `null` for a code host of the configuration.
             */
            createdAt: string | null;
        };
        /** @description The record of a job, which the operations on jobs return: these seven fields, in this order, and no others. */
        Job: {
            /**
             * @description The unique and opaque ID of the job.
             * @example job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7
             */
            id: string;
            /** @description The status of the job. */
            status: components["schemas"]["Status"];
            /** @description The starting point of the job. */
            source: components["schemas"]["Source"];
            /** @description The AI model used for the job. */
            model: string;
            /** @description The URL of the pull request; `null` while the job is active, or if no files were changed. */
            prLink: string | null;
            /**
             * Format: date-time
             * @description The time of creation (ISO 8601, UTC).
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time at which the job was archived (ISO 8601, UTC); `null` if it is not archived.
             */
            archivedAt: string | null;
        };
        /** @description The checks of the newest commit that a job has pushed to its pull request. */
        JobChecks: {
            /** @description The commit; `null` if the job has pushed none to a pull request on a code host with checks. */
            sha: string | null;
            /**
             * @description The result: `passed`, `failed`, `none` (the commit has no checks) or `timed_out`; `null` while the checks have not
             *     finished. New results may be added.
             */
            result: string | null;
            /**
             * Format: date-time
             * @description The time of the result.
             */
            settledAt: string | null;
            /** @description The checks when they were last read, those that failed first. */
            checks: components["schemas"]["Check"][];
            /**
             * @description The reason why failed checks are not repaired: `head_moved`, `fails_on_base`, `same_failure`, `attempts_used`,
             *     `daily_limit`, `archived` or `flaky`. New reasons may be added.
             */
            stop: string | null;
            /**
             * Format: int32
             * @description The number of messages that were sent to repair checks since they last passed, or a person last sent a message.
             */
            attempts: number;
            /**
             * Format: int32
             * @description The maximum number of attempts.
             */
            mostAttempts: number;
        };
        /** @description A job with the details that its record does not contain. */
        JobDetails: {
            /** @example job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7 */
            id: string;
            /** @description The ID of the project. */
            project: string;
            status: components["schemas"]["Status"];
            title: string;
            source: components["schemas"]["Source"];
            agent: string;
            model: string;
            effort: components["schemas"]["Effort"] | null;
            /** @description The sender of the first message: the name of a key, or a person; `null` if it is not known. */
            author: string | null;
            /** @description The labels, sorted. */
            labels: string[];
            /** @description The data that the client stored with the job. */
            metadata: {
                [key: string]: string;
            };
            /** @description The branch that the job works on. Before its first turn, the branch that the job was created with, or `null`. */
            branch: string | null;
            pullRequest: components["schemas"]["JobPullRequest"] | null;
            /** @description All pull requests of the job, oldest first. `GET …/pulls` returns them with their texts. */
            pullRequests: components["schemas"]["JobPullRequest"][];
            checks: components["schemas"]["CheckSummary"] | null;
            /** @description The number of queued messages, without the current one. */
            queueLength: number;
            waiting: components["schemas"]["Waiting"] | null;
            failure: components["schemas"]["Reason"] | null;
            /** @description The model usage of all runs. */
            usage: components["schemas"]["Usage"];
            /** Format: date-time */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time at which the job was archived; `null` if it is not archived.
             */
            archivedAt: string | null;
            /**
             * Format: int64
             * @description A number that increases with each message, each push, and each change of the state of a pull request.
             */
            revision: number;
        };
        /** @description A page of jobs with their details. */
        JobDetailsPage: {
            /** @description The jobs, newest first. */
            jobs: components["schemas"]["JobDetails"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description A page of jobs. */
        JobPage: {
            /** @description The jobs, newest first. */
            jobs: components["schemas"]["Job"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description A pull request of a job. The description and the labels of those on other code hosts than the built-in one are on
         *     the code host.
         */
        JobPull: {
            /** Format: int64 */
            number: number;
            url: string;
            /** @description The state, as the code host last reported it. */
            state: components["schemas"]["PullRequestState"];
            /** @description `true` if it was a draft when the code host was last asked. */
            draft: boolean | null;
            /** @description The title, as the code host last reported it; `null` if it is not known. */
            title: string | null;
            /** @description The description, in Markdown. */
            body: string | null;
            /** @description The branch with the commits. */
            head: string;
            /** @description The branch to merge into; on other code hosts than the built-in one, `null` like `conflicts`. */
            base: string | null;
            labels: string[];
            conflicts: components["schemas"]["PullConflicts"] | null;
            /**
             * Format: int64
             * @description The number of commits of its base that it does not have, at most 1,000; `null` like `conflicts`.
             */
            behind: number | null;
            /**
             * Format: date-time
             * @description The time at which it was compared with its base. A repetition with the same result does not change it. `null` if
             *     it has ended, or if it was not compared yet.
             */
            comparedAt: string | null;
            notCompared: components["schemas"]["NotCompared"] | null;
            /**
             * Format: date-time
             * @description The time at which the job opened it.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time at which the pull request was merged or closed; on other code hosts than the built-in one, the time at
             *     which this was recorded.
             */
            endedAt: string | null;
        };
        /** @description A page of the pull requests of a job. */
        JobPullList: {
            /** @description The pull requests, oldest first. A follow-up message opens a new one if the last one was merged or closed. */
            pulls: components["schemas"]["JobPull"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description The pull request of a job. */
        JobPullRequest: {
            /** Format: int64 */
            number: number;
            url: string;
            /** @description The state, as the code host last reported it. */
            state: components["schemas"]["PullRequestState"];
        };
        /**
         * @description The reaction to new commits of the branch that an open pull request is merged into.
         * @enum {string}
         */
        KeepUpToDate: "off" | "conflicts" | "always";
        /** @description An API key, without its secret. */
        Key: {
            /**
             * @description The ID of the key.
             * @example key_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7
             */
            id: string;
            /** @description The name that the creator chose. */
            name: string;
            /** @description The first characters of the secret, by which people recognize the key. */
            prefix: string;
            /** @description The operations that the key allows. */
            scopes: components["schemas"]["Scope"][];
            /** @description The IDs of the projects for which the key may be used; `null` means all projects. */
            projects: string[] | null;
            /**
             * Format: date-time
             * @description The time from which the key is refused; `null` means never.
             */
            expiresAt: string | null;
            /** @description The IP addresses and networks from which the key may be used; `null` means any. */
            allowedIps: string[] | null;
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time of the last use, to the minute; `null` if the key was never used.
             */
            lastUsedAt: string | null;
            /**
             * Format: date-time
             * @description The time from which the secret before the last rotation is refused; `null` if there is no such secret, or if it
             *     was refused at once.
             */
            oldSecretUntil: string | null;
            /**
             * Format: date-time
             * @description The time at which the key was revoked; `null` if it was not.
             */
            revokedAt: string | null;
        };
        /** @description A page of keys. */
        KeyList: {
            /** @description The keys, newest first, including revoked ones. */
            keys: components["schemas"]["Key"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description A changed file or folder, or commits of the agent, that were not published. */
        LeftOut: {
            /**
             * @description The path in the repository; for commits, the name of the ref that leads to them, or the ID of the last one. Bytes that
             *     are not UTF-8 are written as `\xNN`, with two hexadecimal digits.
             * @example vendor/lib
             */
            path: string;
            reason: components["schemas"]["LeftOutReason"];
            /**
             * @description The reason in words, and what to do about it.
             * @example It is a git repository of its own. Move its files out of the repository, remove its .git, or ignore the folder.
             */
            detail: string;
            /**
             * @description True if the service stores it, so that the job keeps it until it can be committed. Otherwise, it is lost if the
             *     workspace is rebuilt, such as after a restart of the service.
             */
            kept: boolean;
        };
        /**
         * @description The reason why a change was left out. Later versions may add reasons.
         * @enum {string}
         */
        LeftOutReason: "repository_inside" | "submodule" | "submodule_commit" | "unreadable" | "special" | "too_large" | "marked_local" | "not_encodable" | "path_too_long" | "submodule_settings" | "lfs_content" | "refused_by_git" | "other_commits" | "tag" | "replaced_commits" | "rewritten_history";
        /**
         * @description The treatment of files in Git LFS.
         * @enum {string}
         */
        Lfs: "off" | "fetch";
        /** @description The limits of a project. */
        LimitChanges: {
            /**
             * Format: int32
             * @description The maximum duration of a run, in seconds; by default, 3600.
             */
            runSeconds?: number | null;
            /**
             * Format: int32
             * @description The maximum number of jobs created per hour; by default, the server's limit. 0 means no limit.
             */
            createPerHour?: number | null;
            /**
             * Format: int32
             * @description The maximum number of messages sent per hour; by default, the server's limit. 0 means no limit.
             */
            messagePerHour?: number | null;
            /**
             * Format: int64
             * @description The maximum size of a file in a commit, in bytes; by default, 104857600.
             */
            fileBytes?: number | null;
            /**
             * Format: int32
             * @description The maximum number of concurrent runs, on all workers together; by default, only the workers limit it.
             */
            concurrentRuns?: number | null;
            /**
             * Format: int64
             * @description The maximum memory of a run, in bytes; by default, 4294967296.
             */
            memoryBytes?: number | null;
            /**
             * Format: int32
             * @description The maximum number of processes and threads of a run; by default, 1024.
             */
            processes?: number | null;
            /**
             * Format: int32
             * @description The maximum CPU usage of a run, in thousandths of a processor; by default, no limit.
             */
            cpuMillis?: number | null;
            /**
             * Format: int64
             * @description The maximum size of a job's workspace and home together, in bytes; by default, 10737418240.
             */
            diskBytes?: number | null;
            /**
             * Format: int64
             * @description The maximum output of an agent in one turn, in bytes, including the output of tools; by default, 536870912.
             */
            outputBytes?: number | null;
            /**
             * Format: int32
             * @description The maximum number of automatic continuations of a turn that was cut short by the model's token limit, by the
             *     agent's call limit, or for an unknown reason; by default, 2.
             */
            continuations?: number | null;
            /**
             * Format: int32
             * @description The maximum number of model calls of the built-in agent in one turn; by default, 200.
             */
            modelCalls?: number | null;
            /**
             * Format: int32
             * @description The maximum number of automatic messages of a job in a day, such as those about failed checks; by default, 20.
             */
            automaticPerDay?: number | null;
            budget?: components["schemas"]["BudgetChanges"] | null;
        };
        /** @description The limits of a project. */
        Limits: {
            /**
             * Format: int32
             * @description The maximum duration of a run, in seconds; `null` means 3600.
             */
            runSeconds: number | null;
            /**
             * Format: int32
             * @description The maximum number of jobs created per hour; `null` means the server's limit, and 0 no limit.
             */
            createPerHour: number | null;
            /**
             * Format: int32
             * @description The maximum number of messages sent per hour; `null` means the server's limit, and 0 no limit.
             */
            messagePerHour: number | null;
            /**
             * Format: int64
             * @description The maximum size of a file in a commit, in bytes; `null` means 104857600.
             */
            fileBytes: number | null;
            /**
             * Format: int32
             * @description The maximum number of concurrent runs, on all workers together; `null` means that only the workers limit it.
             */
            concurrentRuns: number | null;
            /**
             * Format: int64
             * @description The maximum memory of a run, in bytes; `null` means 4294967296.
             */
            memoryBytes: number | null;
            /**
             * Format: int32
             * @description The maximum number of processes and threads of a run; `null` means 1024.
             */
            processes: number | null;
            /**
             * Format: int32
             * @description The maximum CPU usage of a run, in thousandths of a processor; `null` means no limit.
             */
            cpuMillis: number | null;
            /**
             * Format: int64
             * @description The maximum size of a job's workspace and home together, in bytes; `null` means 10737418240.
             */
            diskBytes: number | null;
            /**
             * Format: int64
             * @description The maximum output of an agent in one turn, in bytes, including the output of tools; `null` means 536870912.
             */
            outputBytes: number | null;
            /**
             * Format: int32
             * @description The maximum number of automatic continuations of a turn that was cut short by the model's token limit, by the
             *     agent's call limit, or for an unknown reason; `null` means 2.
             */
            continuations: number | null;
            /**
             * Format: int32
             * @description The maximum number of model calls of the built-in agent in one turn; `null` means 200.
             */
            modelCalls: number | null;
            /**
             * Format: int32
             * @description The maximum number of automatic messages of a job in a day, such as those about failed checks; `null` means 20.
             */
            automaticPerDay: number | null;
            /** @description The budgets for model calls. */
            budget: components["schemas"]["Budget"];
        };
        /** @description The key of a request, and what it may do. */
        Me: {
            /** @description The key of the request. */
            key: components["schemas"]["Key"];
            /**
             * @description `true` if the key may manage projects, code hosts and all keys: it has the scope `write` and is not limited to
             *     projects.
             */
            managesProjects: boolean;
        };
        /** @description A merge of a pull request. */
        MergePullRequest: {
            /**
             * @description The method; by default, `merge`.
             * @default merge
             */
            method: components["schemas"]["PullRequestMergeMethod"];
        };
        /** @description A message and its receipt. */
        Message: {
            /** @example msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7 */
            id: string;
            /** @description The prompt for the agent. */
            prompt: string;
            origin: components["schemas"]["MessageOrigin"];
            /** @description The sender: the name of a key, or a person. */
            author: string | null;
            delivery: components["schemas"]["Delivery"];
            status: components["schemas"]["MessageStatus"];
            /** Format: date-time */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time at which a run first took the message.
             */
            deliveredAt: string | null;
            /**
             * Format: date-time
             * @description The time at which the status became final.
             */
            finishedAt: string | null;
            /** @description The last run that took the message. */
            runId: string | null;
            /** @description The commits of the message, oldest first. */
            commits: string[];
            /** @description The URL of the pull request that contains the commits. */
            prLink: string | null;
            /** @description The later message whose push included these commits, if publishing this message failed. */
            publishedWith: string | null;
            /** @description The final text of the agent's turn, at most 100,000 characters; `null` if the turn has not ended or has no text. */
            answer: string | null;
            /** @description What the turn changed or committed, but the published commits do not have, with the reasons; at most 100 paths. */
            leftOut: components["schemas"]["LeftOut"][];
            /**
             * Format: int64
             * @description The number of further paths that were left out.
             */
            leftOutMore: number;
            /**
             * @description The earlier branch of the job whose commits are published again with those of this message, because its pull
             *     request was closed.
             */
            carriedOver: string | null;
            source: components["schemas"]["MessageSource"] | null;
            /**
             * @description A line for each check of the last commit, such as `unit passed`; `null` if the checks are not known: the message has
             *     no commits, they were not read yet, or a later message has pushed. `GET …/job/{id}/checks` has more.
             */
            checks: string[] | null;
        };
        /** @description A page of the messages of a job. */
        MessageList: {
            /** @description The messages, in the order in which they were accepted. */
            messages: components["schemas"]["Message"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The origin of a message. New origins may be added.
         * @enum {string}
         */
        MessageOrigin: "api" | "dashboard" | "pull_request" | "comment" | "review" | "check" | "issue" | "slack" | "update";
        /** @description The place on a code host that a message came from. */
        MessageSource: {
            /** @description The code host, such as `github.com`; `local:` is the built-in one. */
            host: string;
            /** @description The page of the comment, review, issue or commit. */
            url: string;
            /** @description The ID of it on the code host. */
            id: string;
            author: components["schemas"]["SourceAuthor"] | null;
        };
        /**
         * @description The status of a message.
         * @enum {string}
         */
        MessageStatus: "queued" | "delivered" | "finished" | "failed" | "cancelled" | "withdrawn";
        /** @description The providers of models. */
        ModelList: {
            /** @description The providers, by ID. */
            providers: components["schemas"]["Provider"][];
        };
        /** @description The prices of a million tokens of a model, in millionths of a US dollar. */
        ModelPrice: {
            /**
             * @description The name of the model, or a prefix of it and `*`.
             * @example anthropic/claude-*
             */
            model: string;
            /**
             * Format: int64
             * @description The price of input tokens, which the model reads.
             */
            inputMicros: number;
            /**
             * Format: int64
             * @description The price of output tokens, which the model writes.
             */
            outputMicros: number;
            /**
             * Format: int64
             * @description The price of input tokens that are read from the provider's cache.
             */
            cachedMicros: number;
            /**
             * Format: int64
             * @description The price of input tokens that are also written to the provider's cache.
             */
            cacheWrittenMicros: number;
            /**
             * Format: int64
             * @description The price of input tokens that are also written to a cache that lasts for an hour or longer.
             */
            cacheWrittenLongMicros: number;
        };
        /**
         * @description The reason why a pull request was not compared with its base.
         * @enum {string}
         */
        NotCompared: "not_yet" | "in_fork" | "branch_missing" | "other_repository" | "ended";
        /** @description A pull request to open for a branch that was pushed. */
        OpenPullRequest: {
            /** @description The branch with the commits. */
            head: string;
            /** @description The branch to merge into; by default, the default branch of the repository. */
            base?: string | null;
            /** @description The title. */
            title: string;
            /** @description The description, in Markdown; by default, it is empty. */
            body?: string;
            /** @description `true` to open it as a draft; by default, `false`. */
            draft?: boolean;
        };
        /**
         * @description The answer to permission requests of an agent.
         * @enum {string}
         */
        Permissions: "allow" | "refuse";
        /** @description A project. */
        Project: {
            /**
             * @description The ID: a slug that is chosen at creation.
             * @example web-shop
             */
            id: string;
            /** @description The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host. */
            repository: string;
            /** @description The URL at which git reaches a `local:` repository, with a key as the password; `null` for other repositories. */
            cloneUrl: string | null;
            /** @description The branch, tag, or commit that jobs start from; `null` means the repository's default branch. */
            ref: string | null;
            /** @description The agent of the project's jobs. */
            agent: string;
            /** @description The model of the project's jobs. */
            model: string;
            effort: components["schemas"]["Effort"] | null;
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /** @description The code host of the repository. */
            codeHost: components["schemas"]["CodeHost"];
            /** @description The content of checkouts. */
            checkout: components["schemas"]["Checkout"];
            /** @description The settings of the commits that the service makes. */
            commits: components["schemas"]["Commits"];
            /** @description The settings of the project's pull requests. */
            pullRequest: components["schemas"]["PullRequest"];
            /** @description The treatment of comments and issues on the code host. */
            comments: components["schemas"]["Comments"];
            /** @description The treatment of the checks of pull requests. */
            checks: components["schemas"]["Checks"];
            /** @description The limits of the project. */
            limits: components["schemas"]["Limits"];
            /** @description The settings of the sandbox of the project's agents. */
            sandbox: components["schemas"]["Sandbox"];
            /** @description Environment variables for the setup command and the agent. */
            environment: {
                [key: string]: string;
            };
            /** @description A shell command that prepares a new workspace. */
            setup: string | null;
            /** @description The processes that get each secret; only the setup command gets a secret that is not listed. */
            secretUses: {
                [key: string]: components["schemas"]["SecretUse"][];
            };
            /** @description The names of the project's secrets; the values are never shown. */
            secrets: string[];
        };
        /**
         * @description The fields of a project that a client may set. A field that is left out keeps its value; at creation, it gets its
         *     default. `null` restores the default.
         */
        ProjectChanges: {
            /**
             * @description The repository: a URL, an absolute path on the server, or `local:<name>` on the built-in code host, where the
             *     repository is created without commits if it does not exist.
             */
            repository?: string | null;
            /** @description The branch, tag, or commit that jobs start from; by default, the repository's default branch. */
            ref?: string | null;
            /** @description The agent of the project's jobs. */
            agent?: string | null;
            /** @description The model of the project's jobs. */
            model?: string | null;
            effort?: components["schemas"]["Effort"] | null;
            codeHost?: components["schemas"]["CodeHostChanges"] | null;
            checkout?: components["schemas"]["CheckoutChanges"] | null;
            commits?: components["schemas"]["CommitChanges"] | null;
            pullRequest?: components["schemas"]["PullRequestChanges"] | null;
            comments?: components["schemas"]["CommentChanges"] | null;
            checks?: components["schemas"]["CheckChanges"] | null;
            limits?: components["schemas"]["LimitChanges"] | null;
            sandbox?: components["schemas"]["SandboxChanges"] | null;
            /** @description Environment variables for the setup command and the agent; `null` removes a variable. */
            environment?: components["schemas"]["ProjectChangesEnvironment"] | null;
            /** @description A shell command that prepares a new workspace, such as `npm ci`. */
            setup?: string | null;
            /**
             * @description The processes that get each secret; only the setup command gets a secret that is not listed. `null` removes an
             *     entry.
             */
            secretUses?: components["schemas"]["ProjectChangesSecretUses"] | null;
            /** @description Secret variables for the processes in `secretUses`. They are never shown again; `null` removes a variable. */
            secrets?: components["schemas"]["ProjectChangesSecrets"] | null;
        };
        /** @description Environment variables for the setup command and the agent; `null` removes a variable. */
        ProjectChangesEnvironment: {
            [key: string]: string | null;
        };
        /**
         * @description The processes that get each secret; only the setup command gets a secret that is not listed. `null` removes an
         *     entry.
         */
        ProjectChangesSecretUses: {
            [key: string]: components["schemas"]["SecretUse"][] | null;
        };
        /** @description Secret variables for the processes in `secretUses`. They are never shown again; `null` removes a variable. */
        ProjectChangesSecrets: {
            [key: string]: string | null;
        };
        /** @description An event of a project, for integrations. Webhooks have the same body without the ID. */
        ProjectEvent: {
            /**
             * @description The position in the feed. Later events have larger numbers. It is also a cursor, until the server is restored.
             * @example 4711
             */
            id: string;
            type: components["schemas"]["ProjectEventType"];
            /**
             * Format: date-time
             * @description The time of the event.
             */
            timestamp: string;
            data: components["schemas"]["ProjectEventData"];
        };
        /** @description The data of an event: IDs, and the job's record after the change. Ask the interface for more. */
        ProjectEventData: {
            /** @description The job after the change. */
            job: components["schemas"]["Job"];
            /** @description The project of the job. */
            projectId: string;
            /** @description The title of the job. */
            title: string;
            /** @description The message, in `message.finished`, `message.failed`, `budget.reached`, and `pull_request.opened` and `.updated`. */
            messageId: string | null;
            /** @description The run, in the same events. */
            runId: string | null;
            pullRequest: components["schemas"]["EventPullRequest"] | null;
            reason: components["schemas"]["Reason"] | null;
        };
        /** @description A page of the events of a project. */
        ProjectEventPage: {
            /** @description The events, oldest first. */
            events: components["schemas"]["ProjectEvent"][];
            /** @description The value of `cursor` for the next page, also if there are no more events yet. */
            nextCursor: string;
            /** @description `true` if there are more events already. */
            hasMore: boolean;
        };
        /**
         * @description The type of an event. New types may be added; ignore types that you do not know.
         *
         *     - `job.created`: A job was created.
         *     - `job.completed`: The last message of a job finished, and its queue is empty.
         *     - `job.failed`: The last message of a job did not finish, or the job was canceled.
         *     - `job.archived`: A job was archived.
         *     - `job.unarchived`: A job was unarchived.
         *     - `message.finished`: A message finished.
         *     - `message.failed`: A message failed or was canceled after a run had taken it.
         *     - `pull_request.opened`: A job opened a pull request.
         *     - `pull_request.updated`: A job pushed commits to its pull request.
         *     - `pull_request.merged`: A pull request of a job was merged.
         *     - `pull_request.closed`: A pull request of a job was closed without being merged.
         *     - `pull_request.reopened`: A closed pull request of a job was opened again.
         *     - `checks.settled`: All checks of the newest commit of a pull request have finished.
         *     - `budget.reached`: A run failed because a model call could have exceeded a budget.
         * @example message.finished
         * @enum {string}
         */
        ProjectEventType: "job.created" | "job.completed" | "job.failed" | "job.archived" | "job.unarchived" | "message.finished" | "message.failed" | "pull_request.opened" | "pull_request.updated" | "pull_request.merged" | "pull_request.closed" | "pull_request.reopened" | "checks.settled" | "budget.reached";
        /** @description A page of the projects that the key may see. */
        ProjectList: {
            /** @description The projects, ordered by ID. */
            projects: components["schemas"]["Project"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description A pull request of a project. The description and the labels of those on other code hosts than the built-in one are
         *     on the code host.
         */
        ProjectPull: {
            /** Format: int64 */
            number: number;
            url: string;
            /** @description The state, as the code host last reported it. */
            state: components["schemas"]["PullRequestState"];
            /** @description `true` if it was a draft when the code host was last asked. */
            draft: boolean | null;
            /** @description The title, as the code host last reported it; `null` if it is not known. */
            title: string | null;
            /** @description The description, in Markdown. */
            body: string | null;
            /** @description The branch with the commits. */
            head: string;
            /** @description The branch to merge into; on other code hosts than the built-in one, `null` like `conflicts`. */
            base: string | null;
            labels: string[];
            /** @description The ID of the job that opened it or works on it; `null` if there is none. */
            job: string | null;
            /**
             * @description `true` if it can be merged now, `false` if its branches conflict or do not exist; `null` in lists, if it has ended,
             *     and on other code hosts.
             */
            mergeable: boolean | null;
            conflicts: components["schemas"]["PullConflicts"] | null;
            /**
             * Format: int64
             * @description The number of commits of its base that it does not have, at most 1,000; `null` like `conflicts`.
             */
            behind: number | null;
            /**
             * Format: date-time
             * @description The time at which it was compared with its base. A repetition with the same result does not change it. `null` if
             *     it has ended, or if it was not compared yet.
             */
            comparedAt: string | null;
            notCompared: components["schemas"]["NotCompared"] | null;
            /**
             * Format: date-time
             * @description The time at which it was opened; on other code hosts, the time at which the job opened it or began to work on it.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time at which it was merged or closed; on other code hosts, the time at which this was recorded.
             */
            endedAt: string | null;
            /**
             * @description The name of the user or key that merged or closed it on the built-in code host; `null` if it is open, if its
             *     branches were merged by hand, if an older version recorded its end, and on other code hosts.
             */
            endedBy: string | null;
            /**
             * @description The merge commit on the built-in code host; `null` if it is not merged, if the base already contained its commits
             *     without one, if an older version recorded the merge, and on other code hosts.
             */
            mergeCommit: string | null;
        };
        /** @description A page of the pull requests of a project. */
        ProjectPullList: {
            /** @description The pull requests, newest first. */
            pulls: components["schemas"]["ProjectPull"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description A provider of models. */
        Provider: {
            /**
             * @description The ID: the part of a model's name before the slash.
             * @example anthropic
             */
            id: string;
            /** @description The wire format of its server: `anthropic`, `openai`, `openai-responses`, `gemini`, `ollama` or `compatible`. */
            dialect: string;
            /** @description `true` if calls can be made without a secret of the project: the server has a key, or none is needed. */
            ready: boolean;
            /** @description The name of the project's secret with a key, which takes precedence; `null` if the provider needs no key. */
            keyVariable: string | null;
            /**
             * Format: int64
             * @description The size of the models' context window in tokens; `null` if it is not configured.
             */
            contextTokens: number | null;
            /** @description The prices of its models. Calls of a model without a price have no known cost. */
            prices: components["schemas"]["ModelPrice"][];
            /**
             * @description The date of the table of prices in use, such as `2026-11-20`; `null` if the table has none. Prices of the
             *     configuration take precedence.
             * @example 2026-11-20
             */
            pricesDate: string | null;
        };
        /**
         * @description The policy for pulling an image.
         * @enum {string}
         */
        Pull: "missing" | "always" | "never";
        /** @description The files in which a pull request conflicts with its base. */
        PullConflicts: {
            /**
             * @description The paths of the first 100 files; none if the branches can be merged. Bytes of a path that are not UTF-8 are
             *     written as `\xNN`.
             */
            files: string[];
            /** @description The number of files that are not named. */
            more: number;
        };
        /**
         * @description The settings of a project's pull requests. In the templates, `{title}`, `{summary}`, `{prompt}`, `{job}`, `{branch}`,
         *     `{url}`, and `{cost}` are replaced.
         */
        PullRequest: {
            /** @description `true` to open pull requests as drafts. */
            draft: boolean;
            /** @description The branch to merge into; `null` means the project's `ref` if that is a branch, or else the default branch. */
            base: string | null;
            /** @description The template of the title; `null` means `{title}`. */
            title: string | null;
            /** @description The template of the body; `null` means the agent's answer, the prompt, and a link to the job. */
            body: string | null;
            /** @description The labels of the pull requests. */
            labels: string[];
            /** @description The users, and teams as `owner/team`, who are asked for a review. */
            reviewers: string[];
            /** @description The users who are assigned. */
            assignees: string[];
            /** @description The policy for commits that change files of CI pipelines. */
            ciFiles: components["schemas"]["CiFiles"];
            /**
             * @description More files of CI pipelines, which commits must not change either: paths from the root, in which `*` stands for any
             *     characters but `/`, and `**` for any characters. A path that ends with `/` stands for all files in the folder.
             */
            ciPaths: string[];
            /**
             * @description The branches that jobs never push to, in addition to those that work is merged into. `*` stands for any characters
             *     but `/`, and `**` for any characters.
             */
            protectedBranches: string[];
            /** @description `true` if a job is archived when its pull request is merged. */
            archiveOnMerge: boolean;
            /** @description The reaction to new commits of the branch that an open pull request is merged into. */
            keepUpToDate: components["schemas"]["KeepUpToDate"];
            /** @description `true` if the code host is asked to merge a new pull request when all requirements are met. */
            autoMerge: boolean;
        };
        /**
         * @description The settings of a project's pull requests. In the templates, `{title}`, `{summary}`, `{prompt}`, `{job}`, `{branch}`,
         *     `{url}`, and `{cost}` are replaced.
         */
        PullRequestChanges: {
            /** @description `true` to open pull requests as drafts; by default, `false`. */
            draft?: boolean | null;
            /** @description The branch to merge into; by default, the project's `ref` if that is a branch, or else the default branch. */
            base?: string | null;
            /** @description The template of the title; by default, `{title}`. */
            title?: string | null;
            /** @description The template of the body; by default, the agent's answer, the prompt, and a link to the job. */
            body?: string | null;
            /** @description The labels of the pull requests. */
            labels?: string[] | null;
            /** @description The users, and teams as `owner/team`, to ask for a review. */
            reviewers?: string[] | null;
            /** @description The users to assign. */
            assignees?: string[] | null;
            ciFiles?: components["schemas"]["CiFiles"] | null;
            /**
             * @description More files of CI pipelines, which commits must not change either: paths from the root, in which `*` stands for any
             *     characters but `/`, and `**` for any characters. A path that ends with `/` stands for all files in the folder.
             */
            ciPaths?: string[] | null;
            /**
             * @description The branches that jobs never push to, in addition to those that work is merged into. `*` stands for any characters
             *     but `/`, and `**` for any characters.
             */
            protectedBranches?: string[] | null;
            /** @description `true` to archive a job when its pull request is merged; by default, `false`. */
            archiveOnMerge?: boolean | null;
            keepUpToDate?: components["schemas"]["KeepUpToDate"] | null;
            /**
             * @description `true` to ask the code host to merge a new pull request when all requirements are met, such as checks and
             *     approvals; by default, `false`.
             */
            autoMerge?: boolean | null;
        };
        /**
         * @description The way in which the commits of a pull request get into the base branch.
         * @enum {string}
         */
        PullRequestMergeMethod: "merge" | "squash" | "rebase";
        /**
         * @description The state of a pull request.
         * @enum {string}
         */
        PullRequestState: "open" | "merged" | "closed";
        /** @description The reason for the outcome of a run, for the failure of a job, or for a wait. */
        Reason: {
            /**
             * @description The stable code, for programs. New codes may be added.
             * @example timed_out
             */
            code: string;
            /** @description A description of what happened and what to do about it. */
            text: string;
        };
        /** @description The fields of a code host that a request sets. */
        ReplaceCodeHost: {
            /** @description The software. */
            kind: components["schemas"]["HostKind"];
            /** @description The URL of its pages. */
            url: string;
            /**
             * @description The URL of its HTTP interface; by default, the usual one for `url`. It must be on the same host, or on a name below
             *     it.
             */
            apiUrl?: string | null;
            /**
             * @description The user name that belongs to the token: for Bitbucket Cloud, the email address of the account; for Bitbucket Data
             *     Center, the user.
             */
            username?: string | null;
            /**
             * @description The token of the service's user. If it is left out, the stored one is kept; `null` removes it. A new `url` needs a
             *     new token.
             */
            token?: string | null;
            /**
             * Format: int64
             * @description The ID of a GitHub App, in place of a token.
             */
            appId?: number | null;
            /** @description The name of the GitHub App in URLs; by default, the service asks GitHub. */
            appSlug?: string | null;
            /** @description The private key of the GitHub App, in PEM format. If it is left out, the stored one is kept; `null` removes it. */
            privateKey?: string | null;
            /** @description The secret that signs webhooks. If it is left out, the stored one is kept; `null` removes it. */
            webhookSecret?: string | null;
            /** @description The IDs of bots whose comments become messages; by default, none. */
            trustedBots?: string[] | null;
        };
        /** @description The events to deliver again. */
        ReplayWebhook: {
            /**
             * Format: date-time
             * @description Delivers the events since this time (ISO 8601).
             */
            since: string;
        };
        /** @description The number of events that are delivered again. */
        Replayed: {
            /**
             * Format: int64
             * @description The number of deliveries that are pending now.
             */
            deliveries: number;
        };
        /**
         * @description The threads of comments that the service marks as resolved.
         * @enum {string}
         */
        Resolve: "never" | "answered";
        /**
         * @description The people who may ask for a review of a pull request.
         * @enum {string}
         */
        ReviewRequests: "write" | "read" | "off";
        /**
         * @description The reviews that become messages: submitted reviews, and comments on lines on code hosts that report no submitted
         *     reviews (GitLab and Bitbucket).
         * @enum {string}
         */
        Reviews: "all" | "mentioned" | "off";
        /**
         * @description The role of a user, which decides what the user may do.
         * @enum {string}
         */
        Role: "administrator" | "member" | "viewer";
        /** @description The rotation of a key. */
        RotateKey: {
            /**
             * Format: int64
             * @description The number of seconds for which the old secret works too, at most 604800 (7 days); by default 0.
             */
            keepOldSeconds?: number;
        };
        /** @description A run: one attempt at one message. */
        Run: {
            /** @example run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7 */
            id: string;
            /** @description The message that the run carries out. */
            messageId: string;
            /**
             * Format: int32
             * @description The number of the attempt at the message, starting at 1.
             */
            attempt: number;
            status: components["schemas"]["RunStatus"];
            reason: components["schemas"]["Reason"] | null;
            /** @description The ID of the worker that carries out the run. */
            worker: string;
            /** Format: date-time */
            startedAt: string;
            /** Format: date-time */
            finishedAt: string | null;
            usage: components["schemas"]["Usage"];
            /** @description The commits that the run published, oldest first. */
            commits: string[];
            /** @description What the turn changed, but no commit has, with the reasons; at most 100 paths. */
            leftOut: components["schemas"]["LeftOut"][];
            /**
             * Format: int64
             * @description The number of further paths that were left out.
             */
            leftOutMore: number;
        };
        /** @description A page of the runs of a job. */
        RunList: {
            /** @description The runs, oldest first. */
            runs: components["schemas"]["Run"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The status of a run.
         * @enum {string}
         */
        RunStatus: "running" | "succeeded" | "failed" | "cancelled";
        /** @description The settings of the sandbox of a project's agents. */
        Sandbox: {
            /** @description The answer to permission requests. */
            permissions: components["schemas"]["Permissions"];
            /** @description The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`. */
            permissionKinds: {
                [key: string]: components["schemas"]["Permissions"];
            };
            /** @description The destinations that programs may reach over HTTPS: `name:port`, or the name of a preset, such as `npm`. */
            egress: string[];
            /** @description The container image, if the server runs agents in containers; `null` means the server's image. */
            image: string | null;
            /** @description The policy for pulling the image. */
            pull: components["schemas"]["Pull"];
        };
        /** @description The settings of the sandbox of a project's agents. */
        SandboxChanges: {
            permissions?: components["schemas"]["Permissions"] | null;
            /**
             * @description The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`. `null` removes an
             *     entry.
             */
            permissionKinds?: components["schemas"]["SandboxChangesPermissionKinds"] | null;
            /**
             * @description The destinations that programs may reach over HTTPS: `name:port`, or the name of a preset (`cargo`, `composer`,
             *     `debian`, `go`, `hex`, `maven`, `npm`, `nuget`, `pub`, `pypi`, `rubygems`); by default, none.
             */
            egress?: string[] | null;
            /** @description The container image, if the server runs agents in containers; by default, the server's image. */
            image?: string | null;
            pull?: components["schemas"]["Pull"] | null;
        };
        /**
         * @description The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`. `null` removes an
         *     entry.
         */
        SandboxChangesPermissionKinds: {
            [key: string]: components["schemas"]["Permissions"];
        };
        /**
         * @description The operations that a key allows.
         * @enum {string}
         */
        Scope: "read" | "jobs" | "write";
        /**
         * @description A process that may get secrets.
         * @enum {string}
         */
        SecretUse: "setup" | "agent" | "model";
        /** @description A follow-up message. */
        SendMessage: {
            /** @description The prompt for the agent. */
            prompt: string;
            /** @description The treatment of the message if the job is active; by default, `queue`. */
            delivery?: components["schemas"]["Delivery"];
        };
        /** @description A code with which a user connects an account of Slack. */
        SlackCode: {
            /** @description The code, to send to the bot as `link CODE`. */
            code: string;
            /**
             * Format: date-time
             * @description The time from which the code is refused.
             */
            expiresAt: string;
        };
        /** @description An event of Slack, and what became of it. */
        SlackEvent: {
            /**
             * @description The number, in the order of arrival.
             * @example 41
             */
            id: string;
            /** Format: date-time */
            receivedAt: string;
            channel: string;
            /** @description The timestamp of the first message of the thread. */
            thread: string;
            /** @description The timestamp of the message. */
            ts: string;
            /** @description `received`, `done`, `ignored`, or `failed`. */
            state: string;
            /** @description The outcome, such as `job_created` or `unknown_user`; `null` while it is received. */
            outcome: string | null;
            /** @description The explanation, for people. */
            detail: string | null;
            jobId: string | null;
            messageId: string | null;
        };
        /** @description A page of events of Slack. */
        SlackEventPage: {
            /** @description The events, newest first. */
            events: components["schemas"]["SlackEvent"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The way in which events of Slack arrive.
         * @enum {string}
         */
        SlackMode: "events" | "socket";
        /** @description A post to Slack. */
        SlackPost: {
            /**
             * @description The number, in the order of creation.
             * @example 17
             */
            id: string;
            /** Format: date-time */
            createdAt: string;
            channel: string;
            /** @description The timestamp of the first message of the thread. */
            thread: string;
            /** @description `text`, `reaction`, or `status`. */
            kind: string;
            /** @description `open`, `done`, or `failed`. */
            state: string;
            /** @description The last error, with what to do. */
            detail: string | null;
        };
        /** @description A page of posts to Slack. */
        SlackPostPage: {
            /** @description The posts, newest first. */
            posts: components["schemas"]["SlackPost"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description A connected Slack workspace, without its secrets. */
        SlackWorkspace: {
            /** @example slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7 */
            id: string;
            /** @description The name, for people. */
            name: string;
            /** @description The ID of the workspace at Slack. */
            team: string;
            /** @description The ID of the bot's user at Slack. */
            botUser: string;
            mode: components["schemas"]["SlackMode"];
            /** @description The projects of channels, by the ID of the channel. */
            channels: {
                [key: string]: string;
            };
            /** @description The users of people, by their ID at Slack. */
            users: {
                [key: string]: string;
            };
            hasBotToken: boolean;
            hasSigningSecret: boolean;
            hasAppToken: boolean;
            /** @description The request URL for the event subscriptions of the app. */
            eventsUrl: string;
            /** Format: date-time */
            createdAt: string;
        };
        /** @description The Slack workspaces. */
        SlackWorkspaceList: {
            /** @description The workspaces, oldest first. */
            workspaces: components["schemas"]["SlackWorkspace"][];
        };
        /** @description The starting point of a job. */
        Source: {
            /** @description The repository of the project when the job was created. */
            repository: string;
            /** @description The branch, tag, or commit; `HEAD` means the repository's default branch. */
            ref: string;
        };
        /** @description The author of a message on its code host. */
        SourceAuthor: {
            /** @description The ID of the user on the code host. */
            id: string;
            /** @description The name of the user on the code host. */
            name: string;
            /** @description The permission of the user on the repository, at the time of the message. */
            permission: components["schemas"]["SourcePermission"];
        };
        /**
         * @description The permission of a user of a code host on a repository.
         * @enum {string}
         */
        SourcePermission: "none" | "read" | "write" | "admin";
        /**
         * @description The status of a job.
         * @enum {string}
         */
        Status: "active" | "completed" | "archived" | "failed";
        /**
         * @description The treatment of submodules.
         * @enum {string}
         */
        Submodules: "off" | "read";
        /** @description Information about the installation. */
        System: {
            /** @description The version of the service. */
            version: string;
            sandbox: components["schemas"]["Containment"] | null;
        };
        /** @description A prompt of a project that people choose when they create a job. */
        Template: {
            /**
             * @description The ID of the template.
             * @example tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7
             */
            id: string;
            /** @description The name, which no other template of the project has, ignoring case. */
            name: string;
            /** @description A note for the people who choose a template. */
            description: string;
            /** @description The prompt. */
            prompt: string;
            /** @description The agent; `null` means the project's. */
            agent: string | null;
            /** @description The model; `null` means the project's. */
            model: string | null;
            /** @description The labels, sorted. */
            labels: string[];
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
        };
        /** @description A page of templates. */
        TemplateList: {
            /** @description The templates, by name. */
            templates: components["schemas"]["Template"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /** @description A rule about which tokens of an OpenID issuer are exchanged for a key. */
        Trust: {
            /**
             * @description The ID of the trust.
             * @example trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7
             */
            id: string;
            /** @description The name, which no other trust has. */
            name: string;
            /** @description The issuer, exactly as in the tokens. */
            issuer: string;
            /** @description The audience that tokens must have. */
            audience: string;
            /**
             * @description A pattern for each claim that is checked. `*` matches any text within a segment of a path, `**` also across
             *     segments. Of a claim that is a list, one element must match.
             */
            claims: {
                [key: string]: string;
            };
            /** @description The IDs of the projects for which the keys may be used. */
            projects: string[];
            /** @description The operations that the keys allow. */
            scope: components["schemas"]["TrustScope"];
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time of the last exchange; `null` if there was none.
             */
            lastUsedAt: string | null;
        };
        /** @description A page of trusts. */
        TrustList: {
            /** @description The trusts, oldest first. */
            trusts: components["schemas"]["Trust"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description The operations that the keys of a trust allow.
         * @enum {string}
         */
        TrustScope: "read" | "jobs";
        /** @description The model usage of a run. */
        Usage: {
            /**
             * Format: int64
             * @description The number of tokens that the model read.
             */
            inputTokens: number;
            /**
             * Format: int64
             * @description The number of tokens that the model wrote.
             */
            outputTokens: number;
            /**
             * Format: int64
             * @description The number of input tokens that came from the provider's cache.
             */
            cachedTokens: number;
            /**
             * Format: int64
             * @description The cost in millionths of a US dollar; `null` if the price is not known.
             */
            costMicros: number | null;
            /**
             * Format: int64
             * @description The part of the cost that is an estimate, because calls were interrupted before the provider reported their
             *     tokens.
             */
            estimatedMicros: number;
        };
        /** @description A line of a report. A property that the report does not group by is `null`. */
        UsageLine: components["schemas"]["UsageSum"] & {
            /**
             * Format: date
             * @description The day in UTC on which the runs ended.
             */
            day: string | null;
            /** @description The ID of the project, which may have been deleted. */
            project: string | null;
            /** @description The model of the jobs. */
            model: string | null;
            /** @description The author of the messages: the name of a key, or a person; also `null` for messages without one. */
            author: string | null;
            /** @description The ID of the API key that sent the messages; also `null` for messages that were sent without one. */
            key: string | null;
            /** @description The name of that key; `null` if it is not known. */
            keyName: string | null;
        };
        /** @description A report on the usage of models. */
        UsageReport: {
            /**
             * Format: date
             * @description The first day of the report, in UTC.
             */
            from: string;
            /**
             * Format: date
             * @description The last day of the report.
             */
            to: string;
            /** @description The sum of all lines. */
            total: components["schemas"]["UsageSum"];
            /** @description The lines, sorted by day, project, model, author, and key. */
            lines: components["schemas"]["UsageLine"][];
        };
        /** @description The sum of the usage of runs. */
        UsageSum: {
            /**
             * Format: int64
             * @description The number of runs.
             */
            runs: number;
            /**
             * Format: int64
             * @description The number of tokens that the models read.
             */
            inputTokens: number;
            /**
             * Format: int64
             * @description The number of tokens that the models wrote.
             */
            outputTokens: number;
            /**
             * Format: int64
             * @description The number of input tokens that came from the providers' caches.
             */
            cachedTokens: number;
            /**
             * Format: int64
             * @description The known cost, in millionths of a US dollar.
             */
            costMicros: number;
            /**
             * Format: int64
             * @description The part of the known cost that is an estimate, because calls were interrupted before the provider reported
             *     their tokens.
             */
            estimatedMicros: number;
            /**
             * Format: int64
             * @description The number of runs, and of model calls that ended after their run, whose cost is not known. If it is not 0, the
             *     cost is more than `costMicros`.
             */
            unpriced: number;
        };
        /** @description A user of the dashboard. */
        User: {
            /**
             * @description The ID of the user.
             * @example usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7
             */
            id: string;
            /** @description The name to sign in with, in lower case, which no other user has. */
            name: string;
            /** @description The role of the user. */
            role: components["schemas"]["Role"];
            /** @description `true` if the user has set a password. */
            hasPassword: boolean;
            /** @description `true` if the user can sign in through the OpenID provider. */
            hasIdentity: boolean;
            /**
             * Format: date-time
             * @description The time of creation.
             */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time of the last sign-in; `null` if there was none.
             */
            signedInAt: string | null;
            /**
             * Format: date-time
             * @description The time at which the user was disabled; `null` if the user may sign in.
             */
            disabledAt: string | null;
        };
        /** @description A link with which a user sets a password once, and so can sign in. A newer link of the user replaces it. */
        UserLink: {
            /** @description The URL. Send it through a channel that only the user can read: it cannot be read again. */
            url: string;
            /**
             * Format: date-time
             * @description The time from which the link is refused.
             */
            expiresAt: string;
        };
        /** @description A page of users. */
        UserList: {
            /** @description The users, sorted by name. */
            users: components["schemas"]["User"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
        /**
         * @description An external cause that prevents a message from being carried out. The message is retried until the cause has passed
         *     or the deadline is reached.
         */
        Waiting: {
            /** @description The current message; `null` if the project is on hold and no message of the job was tried yet. */
            messageId: string | null;
            reason: components["schemas"]["Reason"];
            /**
             * Format: date-time
             * @description The time at which the cause began.
             */
            since: string;
            /**
             * Format: date-time
             * @description The time of the next attempt, by this job or by another job that probes the project.
             */
            nextAttemptAt: string;
            /**
             * Format: date-time
             * @description The time at which the message fails if the cause persists; `null` if it was not tried yet.
             */
            deadline: string | null;
            /**
             * Format: int32
             * @description The number of attempts that failed because of this cause.
             */
            attempts: number;
            /** @description `true` if all jobs of the project wait for the cause. */
            projectOnHold: boolean;
        };
        /** @description A webhook. */
        Webhook: {
            /** @example whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7 */
            id: string;
            /** @description The URL of the endpoint. */
            url: string;
            /** @description The types of events to deliver; empty means all types. */
            events: components["schemas"]["ProjectEventType"][];
            format: components["schemas"]["WebhookFormat"];
            description: string;
            /** @description `true` if the webhook receives events. */
            enabled: boolean;
            disabledReason: components["schemas"]["DisabledReason"] | null;
            /**
             * Format: date-time
             * @description The time of the first of the failed attempts since the last success; `null` if the last attempt succeeded.
             */
            failingSince: string | null;
            /** Format: date-time */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time until which requests are signed with the secret before the last rotation too.
             */
            oldSecretUntil: string | null;
        };
        /** @description The body of a request to the endpoint of a webhook with the format `standard`. */
        WebhookBody: {
            type: components["schemas"]["ProjectEventType"];
            /**
             * Format: date-time
             * @description The time of the event.
             */
            timestamp: string;
            data: components["schemas"]["ProjectEventData"];
        };
        /** @description An event for an endpoint, and the attempts to deliver it. */
        WebhookDelivery: {
            /** @example 17 */
            id: string;
            /** @description The ID of the event in the feed. */
            eventId: string;
            type: components["schemas"]["ProjectEventType"];
            /** @description The job of the event. */
            job: string;
            state: components["schemas"]["DeliveryStatus"];
            /**
             * Format: int32
             * @description The number of attempts so far.
             */
            attempts: number;
            /** Format: date-time */
            createdAt: string;
            /**
             * Format: date-time
             * @description The time of the next attempt; `null` if there is none.
             */
            nextAttemptAt: string | null;
            lastAttempt: components["schemas"]["Attempt"] | null;
        };
        /**
         * @description The form of the requests to an endpoint.
         * @enum {string}
         */
        WebhookFormat: "standard" | "slack" | "teams" | "discord";
        /** @description A page of webhooks. */
        WebhookList: {
            /** @description The webhooks, oldest first. */
            webhooks: components["schemas"]["Webhook"][];
            /** @description The value of `cursor` for the next page; `null` on the last page. */
            nextCursor: string | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Agent = components['schemas']['Agent'];
export type AgentList = components['schemas']['AgentList'];
export type Answers = components['schemas']['Answers'];
export type Attempt = components['schemas']['Attempt'];
export type AuditEntry = components['schemas']['AuditEntry'];
export type AuditPage = components['schemas']['AuditPage'];
export type Budget = components['schemas']['Budget'];
export type BudgetChanges = components['schemas']['BudgetChanges'];
export type ChangeSlackWorkspace = components['schemas']['ChangeSlackWorkspace'];
export type ChangeTemplate = components['schemas']['ChangeTemplate'];
export type ChangeTrust = components['schemas']['ChangeTrust'];
export type ChangeTrustClaims = components['schemas']['ChangeTrustClaims'];
export type ChangeUser = components['schemas']['ChangeUser'];
export type ChangeWebhook = components['schemas']['ChangeWebhook'];
export type Check = components['schemas']['Check'];
export type CheckChanges = components['schemas']['CheckChanges'];
export type CheckMode = components['schemas']['CheckMode'];
export type CheckState = components['schemas']['CheckState'];
export type CheckSummary = components['schemas']['CheckSummary'];
export type Checkout = components['schemas']['Checkout'];
export type CheckoutChanges = components['schemas']['CheckoutChanges'];
export type Checks = components['schemas']['Checks'];
export type CiFiles = components['schemas']['CiFiles'];
export type CodeHost = components['schemas']['CodeHost'];
export type CodeHostChanges = components['schemas']['CodeHostChanges'];
export type CodeHostKind = components['schemas']['CodeHostKind'];
export type CodeHostList = components['schemas']['CodeHostList'];
export type CommentChanges = components['schemas']['CommentChanges'];
export type Comments = components['schemas']['Comments'];
export type CommitChanges = components['schemas']['CommitChanges'];
export type Commits = components['schemas']['Commits'];
export type Containment = components['schemas']['Containment'];
export type CreateCodeHost = components['schemas']['CreateCodeHost'];
export type CreateJob = components['schemas']['CreateJob'];
export type CreateKey = components['schemas']['CreateKey'];
export type CreateProject = components['schemas']['CreateProject'];
export type CreateTemplate = components['schemas']['CreateTemplate'];
export type CreateTrust = components['schemas']['CreateTrust'];
export type CreateUser = components['schemas']['CreateUser'];
export type CreateWebhook = components['schemas']['CreateWebhook'];
export type CreatedKey = components['schemas']['CreatedKey'];
export type CreatedUser = components['schemas']['CreatedUser'];
export type CreatedWebhook = components['schemas']['CreatedWebhook'];
export type Definition = components['schemas']['Definition'];
export type Delivery = components['schemas']['Delivery'];
export type DeliveryPage = components['schemas']['DeliveryPage'];
export type DeliveryStatus = components['schemas']['DeliveryStatus'];
export type DisabledReason = components['schemas']['DisabledReason'];
export type Effort = components['schemas']['Effort'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorCode = components['schemas']['ErrorCode'];
export type Event = components['schemas']['Event'];
export type EventAgentContinued = components['schemas']['EventAgentContinued'];
export type EventAgentLineDropped = components['schemas']['EventAgentLineDropped'];
export type EventAgentMessage = components['schemas']['EventAgentMessage'];
export type EventAgentModelCall = components['schemas']['EventAgentModelCall'];
export type EventAgentPlan = components['schemas']['EventAgentPlan'];
export type EventAgentSession = components['schemas']['EventAgentSession'];
export type EventAgentThought = components['schemas']['EventAgentThought'];
export type EventAgentToolCall = components['schemas']['EventAgentToolCall'];
export type EventAgentUsage = components['schemas']['EventAgentUsage'];
export type EventChangesLeftOut = components['schemas']['EventChangesLeftOut'];
export type EventCheckoutIncomplete = components['schemas']['EventCheckoutIncomplete'];
export type EventChecksSettled = components['schemas']['EventChecksSettled'];
export type EventCommitPushed = components['schemas']['EventCommitPushed'];
export type EventEgressAllowed = components['schemas']['EventEgressAllowed'];
export type EventEgressDenied = components['schemas']['EventEgressDenied'];
export type EventHomeNotStored = components['schemas']['EventHomeNotStored'];
export type EventJobArchived = components['schemas']['EventJobArchived'];
export type EventJobCompleted = components['schemas']['EventJobCompleted'];
export type EventJobCreated = components['schemas']['EventJobCreated'];
export type EventJobFailed = components['schemas']['EventJobFailed'];
export type EventJobUnarchived = components['schemas']['EventJobUnarchived'];
export type EventMessageAccepted = components['schemas']['EventMessageAccepted'];
export type EventMessageChanged = components['schemas']['EventMessageChanged'];
export type EventMessageFinished = components['schemas']['EventMessageFinished'];
export type EventMessagePublishedWith = components['schemas']['EventMessagePublishedWith'];
export type EventMessageWaiting = components['schemas']['EventMessageWaiting'];
export type EventMessageWithdrawn = components['schemas']['EventMessageWithdrawn'];
export type EventModelDenied = components['schemas']['EventModelDenied'];
export type EventPage = components['schemas']['EventPage'];
export type EventPermissionAnswered = components['schemas']['EventPermissionAnswered'];
export type EventPullRequest = components['schemas']['EventPullRequest'];
export type EventPullRequestClosed = components['schemas']['EventPullRequestClosed'];
export type EventPullRequestMerged = components['schemas']['EventPullRequestMerged'];
export type EventPullRequestOpened = components['schemas']['EventPullRequestOpened'];
export type EventPullRequestOutdated = components['schemas']['EventPullRequestOutdated'];
export type EventPullRequestReopened = components['schemas']['EventPullRequestReopened'];
export type EventPullRequestUpdated = components['schemas']['EventPullRequestUpdated'];
export type EventRunFinished = components['schemas']['EventRunFinished'];
export type EventRunStarted = components['schemas']['EventRunStarted'];
export type ExchangeToken = components['schemas']['ExchangeToken'];
export type ExchangedKey = components['schemas']['ExchangedKey'];
export type Finding = components['schemas']['Finding'];
export type FindingList = components['schemas']['FindingList'];
export type Guarantee = components['schemas']['Guarantee'];
export type Health = components['schemas']['Health'];
export type HostKind = components['schemas']['HostKind'];
export type InboxEvent = components['schemas']['InboxEvent'];
export type InboxPage = components['schemas']['InboxPage'];
export type InboxState = components['schemas']['InboxState'];
export type InstalledCodeHost = components['schemas']['InstalledCodeHost'];
export type Job = components['schemas']['Job'];
export type JobChecks = components['schemas']['JobChecks'];
export type JobDetails = components['schemas']['JobDetails'];
export type JobDetailsPage = components['schemas']['JobDetailsPage'];
export type JobPage = components['schemas']['JobPage'];
export type JobPull = components['schemas']['JobPull'];
export type JobPullList = components['schemas']['JobPullList'];
export type JobPullRequest = components['schemas']['JobPullRequest'];
export type KeepUpToDate = components['schemas']['KeepUpToDate'];
export type Key = components['schemas']['Key'];
export type KeyList = components['schemas']['KeyList'];
export type LeftOut = components['schemas']['LeftOut'];
export type LeftOutReason = components['schemas']['LeftOutReason'];
export type Lfs = components['schemas']['Lfs'];
export type LimitChanges = components['schemas']['LimitChanges'];
export type Limits = components['schemas']['Limits'];
export type Me = components['schemas']['Me'];
export type MergePullRequest = components['schemas']['MergePullRequest'];
export type Message = components['schemas']['Message'];
export type MessageList = components['schemas']['MessageList'];
export type MessageOrigin = components['schemas']['MessageOrigin'];
export type MessageSource = components['schemas']['MessageSource'];
export type MessageStatus = components['schemas']['MessageStatus'];
export type ModelList = components['schemas']['ModelList'];
export type ModelPrice = components['schemas']['ModelPrice'];
export type NotCompared = components['schemas']['NotCompared'];
export type OpenPullRequest = components['schemas']['OpenPullRequest'];
export type Permissions = components['schemas']['Permissions'];
export type Project = components['schemas']['Project'];
export type ProjectChanges = components['schemas']['ProjectChanges'];
export type ProjectChangesEnvironment = components['schemas']['ProjectChangesEnvironment'];
export type ProjectChangesSecretUses = components['schemas']['ProjectChangesSecretUses'];
export type ProjectChangesSecrets = components['schemas']['ProjectChangesSecrets'];
export type ProjectEvent = components['schemas']['ProjectEvent'];
export type ProjectEventData = components['schemas']['ProjectEventData'];
export type ProjectEventPage = components['schemas']['ProjectEventPage'];
export type ProjectEventType = components['schemas']['ProjectEventType'];
export type ProjectList = components['schemas']['ProjectList'];
export type ProjectPull = components['schemas']['ProjectPull'];
export type ProjectPullList = components['schemas']['ProjectPullList'];
export type Provider = components['schemas']['Provider'];
export type Pull = components['schemas']['Pull'];
export type PullConflicts = components['schemas']['PullConflicts'];
export type PullRequest = components['schemas']['PullRequest'];
export type PullRequestChanges = components['schemas']['PullRequestChanges'];
export type PullRequestMergeMethod = components['schemas']['PullRequestMergeMethod'];
export type PullRequestState = components['schemas']['PullRequestState'];
export type Reason = components['schemas']['Reason'];
export type ReplaceCodeHost = components['schemas']['ReplaceCodeHost'];
export type ReplayWebhook = components['schemas']['ReplayWebhook'];
export type Replayed = components['schemas']['Replayed'];
export type Resolve = components['schemas']['Resolve'];
export type ReviewRequests = components['schemas']['ReviewRequests'];
export type Reviews = components['schemas']['Reviews'];
export type Role = components['schemas']['Role'];
export type RotateKey = components['schemas']['RotateKey'];
export type Run = components['schemas']['Run'];
export type RunList = components['schemas']['RunList'];
export type RunStatus = components['schemas']['RunStatus'];
export type Sandbox = components['schemas']['Sandbox'];
export type SandboxChanges = components['schemas']['SandboxChanges'];
export type SandboxChangesPermissionKinds = components['schemas']['SandboxChangesPermissionKinds'];
export type Scope = components['schemas']['Scope'];
export type SecretUse = components['schemas']['SecretUse'];
export type SendMessage = components['schemas']['SendMessage'];
export type SlackCode = components['schemas']['SlackCode'];
export type SlackEvent = components['schemas']['SlackEvent'];
export type SlackEventPage = components['schemas']['SlackEventPage'];
export type SlackMode = components['schemas']['SlackMode'];
export type SlackPost = components['schemas']['SlackPost'];
export type SlackPostPage = components['schemas']['SlackPostPage'];
export type SlackWorkspace = components['schemas']['SlackWorkspace'];
export type SlackWorkspaceList = components['schemas']['SlackWorkspaceList'];
export type Source = components['schemas']['Source'];
export type SourceAuthor = components['schemas']['SourceAuthor'];
export type SourcePermission = components['schemas']['SourcePermission'];
export type Status = components['schemas']['Status'];
export type Submodules = components['schemas']['Submodules'];
export type System = components['schemas']['System'];
export type Template = components['schemas']['Template'];
export type TemplateList = components['schemas']['TemplateList'];
export type Trust = components['schemas']['Trust'];
export type TrustList = components['schemas']['TrustList'];
export type TrustScope = components['schemas']['TrustScope'];
export type Usage = components['schemas']['Usage'];
export type UsageLine = components['schemas']['UsageLine'];
export type UsageReport = components['schemas']['UsageReport'];
export type UsageSum = components['schemas']['UsageSum'];
export type User = components['schemas']['User'];
export type UserLink = components['schemas']['UserLink'];
export type UserList = components['schemas']['UserList'];
export type Waiting = components['schemas']['Waiting'];
export type Webhook = components['schemas']['Webhook'];
export type WebhookBody = components['schemas']['WebhookBody'];
export type WebhookDelivery = components['schemas']['WebhookDelivery'];
export type WebhookFormat = components['schemas']['WebhookFormat'];
export type WebhookList = components['schemas']['WebhookList'];
export type $defs = Record<string, never>;
export interface operations {
    createJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "prompt": "Add a search field to the list of orders.",
                 *       "labels": [
                 *         "ui"
                 *       ],
                 *       "metadata": {
                 *         "ticket": "SHOP-12"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreateJob"];
            };
        };
        responses: {
            /** @description The job's record */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "active",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    getJob: {
        parameters: {
            query?: {
                /** @description The maximum number of seconds to hold the response while the job is `active` (long polling). */
                wait?: number;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "completed",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    deleteJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    sendMessage: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "prompt": "Also search by customer name.",
                 *       "delivery": "queue"
                 *     }
                 */
                "application/json": components["schemas"]["SendMessage"];
            };
        };
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "active",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    listJobs: {
        parameters: {
            query?: {
                /** @description Returns only jobs with this status. */
                status?: "active" | "completed" | "archived" | "failed";
                /** @description Returns only jobs created after this time (ISO 8601). */
                createdAfter?: string;
                /** @description Returns only jobs created before this time (ISO 8601). */
                createdBefore?: string;
                /** @description Returns only jobs whose title contains this text. */
                q?: string;
                /** @description Returns only jobs with this label. Can be repeated: then jobs must have all labels. */
                label?: string[];
                /**
                 * @description Returns only jobs with this entry in their metadata, as `key:value`. Can be repeated.
                 * @example [
                 *       "ticket:SHOP-12"
                 *     ]
                 */
                metadata?: string[];
                /** @description Returns only jobs of this agent. */
                agent?: string;
                /** @description Returns only jobs whose first message has this author. */
                author?: string;
                /** @description Returns only jobs that work on this branch. */
                branch?: string;
                /** @description Returns only jobs that have worked on a pull request with this number. */
                pullRequest?: number;
                /** @description The number of jobs on a page; 20 by default. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of jobs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jobs": [
                     *         {
                     *           "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "status": "completed",
                     *           "source": {
                     *             "repository": "https://github.com/example/shop.git",
                     *             "ref": "main"
                     *           },
                     *           "model": "anthropic/claude-sonnet-5-5",
                     *           "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "archivedAt": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["JobPage"];
                };
            };
        };
    };
    listProjectJobs: {
        parameters: {
            query?: {
                /** @description Returns only jobs with this status. */
                status?: "active" | "completed" | "archived" | "failed";
                /** @description Returns only jobs created after this time (ISO 8601). */
                createdAfter?: string;
                /** @description Returns only jobs created before this time (ISO 8601). */
                createdBefore?: string;
                /** @description Returns only jobs whose title contains this text. */
                q?: string;
                /** @description Returns only jobs with this label. Can be repeated: then jobs must have all labels. */
                label?: string[];
                /**
                 * @description Returns only jobs with this entry in their metadata, as `key:value`. Can be repeated.
                 * @example [
                 *       "ticket:SHOP-12"
                 *     ]
                 */
                metadata?: string[];
                /** @description Returns only jobs of this agent. */
                agent?: string;
                /** @description Returns only jobs whose first message has this author. */
                author?: string;
                /** @description Returns only jobs that work on this branch. */
                branch?: string;
                /** @description Returns only jobs that have worked on a pull request with this number. */
                pullRequest?: number;
                /** @description The number of jobs on a page; 20 by default. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of jobs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jobs": [
                     *         {
                     *           "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "project": "shop",
                     *           "status": "completed",
                     *           "title": "Add a search field to the list of orders.",
                     *           "source": {
                     *             "repository": "https://github.com/example/shop.git",
                     *             "ref": "main"
                     *           },
                     *           "agent": "claude-code",
                     *           "model": "anthropic/claude-sonnet-5-5",
                     *           "effort": "high",
                     *           "author": "ci",
                     *           "labels": [
                     *             "ui"
                     *           ],
                     *           "metadata": {
                     *             "ticket": "SHOP-12"
                     *           },
                     *           "branch": "journeyman/add-a-search-field-19aa3bb4",
                     *           "pullRequest": {
                     *             "number": 7,
                     *             "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *             "state": "open"
                     *           },
                     *           "pullRequests": [
                     *             {
                     *               "number": 7,
                     *               "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *               "state": "open"
                     *             }
                     *           ],
                     *           "checks": {
                     *             "sha": "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2",
                     *             "result": "passed",
                     *             "settledAt": "2026-11-22T09:04:10.512Z"
                     *           },
                     *           "queueLength": 0,
                     *           "waiting": null,
                     *           "failure": null,
                     *           "usage": {
                     *             "inputTokens": 81240,
                     *             "outputTokens": 4410,
                     *             "cachedTokens": 70112,
                     *             "costMicros": 120000,
                     *             "estimatedMicros": 0
                     *           },
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "archivedAt": null,
                     *           "revision": 2
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["JobDetailsPage"];
                };
            };
        };
    };
    listAllJobs: {
        parameters: {
            query?: {
                /** @description Returns only jobs with this status. */
                status?: "active" | "completed" | "archived" | "failed";
                /** @description Returns only jobs created after this time (ISO 8601). */
                createdAfter?: string;
                /** @description Returns only jobs created before this time (ISO 8601). */
                createdBefore?: string;
                /** @description Returns only jobs whose title contains this text. */
                q?: string;
                /** @description Returns only jobs with this label. Can be repeated: then jobs must have all labels. */
                label?: string[];
                /**
                 * @description Returns only jobs with this entry in their metadata, as `key:value`. Can be repeated.
                 * @example [
                 *       "ticket:SHOP-12"
                 *     ]
                 */
                metadata?: string[];
                /** @description Returns only jobs of this agent. */
                agent?: string;
                /** @description Returns only jobs whose first message has this author. */
                author?: string;
                /** @description Returns only jobs that work on this branch. */
                branch?: string;
                /** @description Returns only jobs that have worked on a pull request with this number. */
                pullRequest?: number;
                /** @description The number of jobs on a page; 20 by default. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of jobs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "jobs": [
                     *         {
                     *           "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "project": "shop",
                     *           "status": "completed",
                     *           "title": "Add a search field to the list of orders.",
                     *           "source": {
                     *             "repository": "https://github.com/example/shop.git",
                     *             "ref": "main"
                     *           },
                     *           "agent": "claude-code",
                     *           "model": "anthropic/claude-sonnet-5-5",
                     *           "effort": "high",
                     *           "author": "ci",
                     *           "labels": [
                     *             "ui"
                     *           ],
                     *           "metadata": {
                     *             "ticket": "SHOP-12"
                     *           },
                     *           "branch": "journeyman/add-a-search-field-19aa3bb4",
                     *           "pullRequest": {
                     *             "number": 7,
                     *             "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *             "state": "open"
                     *           },
                     *           "pullRequests": [
                     *             {
                     *               "number": 7,
                     *               "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *               "state": "open"
                     *             }
                     *           ],
                     *           "checks": {
                     *             "sha": "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2",
                     *             "result": "passed",
                     *             "settledAt": "2026-11-22T09:04:10.512Z"
                     *           },
                     *           "queueLength": 0,
                     *           "waiting": null,
                     *           "failure": null,
                     *           "usage": {
                     *             "inputTokens": 81240,
                     *             "outputTokens": 4410,
                     *             "cachedTokens": 70112,
                     *             "costMicros": 120000,
                     *             "estimatedMicros": 0
                     *           },
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "archivedAt": null,
                     *           "revision": 2
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["JobDetailsPage"];
                };
            };
        };
    };
    getJobDetails: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's details */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "project": "shop",
                     *       "status": "completed",
                     *       "title": "Add a search field to the list of orders.",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "agent": "claude-code",
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "effort": "high",
                     *       "author": "ci",
                     *       "labels": [
                     *         "ui"
                     *       ],
                     *       "metadata": {
                     *         "ticket": "SHOP-12"
                     *       },
                     *       "branch": "journeyman/add-a-search-field-19aa3bb4",
                     *       "pullRequest": {
                     *         "number": 7,
                     *         "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *         "state": "open"
                     *       },
                     *       "pullRequests": [
                     *         {
                     *           "number": 7,
                     *           "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *           "state": "open"
                     *         }
                     *       ],
                     *       "checks": {
                     *         "sha": "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2",
                     *         "result": "passed",
                     *         "settledAt": "2026-11-22T09:04:10.512Z"
                     *       },
                     *       "queueLength": 0,
                     *       "waiting": null,
                     *       "failure": null,
                     *       "usage": {
                     *         "inputTokens": 81240,
                     *         "outputTokens": 4410,
                     *         "cachedTokens": 70112,
                     *         "costMicros": 120000,
                     *         "estimatedMicros": 0
                     *       },
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null,
                     *       "revision": 2
                     *     }
                     */
                    "application/json": components["schemas"]["JobDetails"];
                };
            };
        };
    };
    retryJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "active",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    cancelJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "failed",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    archiveJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "archived",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": "2026-11-22T09:04:10.512Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    unarchiveJob: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "completed",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    listMessages: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of messages */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "messages": [
                     *         {
                     *           "id": "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8",
                     *           "prompt": "Add a search field to the list of orders.",
                     *           "origin": "api",
                     *           "author": "ci",
                     *           "delivery": "queue",
                     *           "status": "finished",
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "deliveredAt": "2026-11-22T09:00:00.000Z",
                     *           "finishedAt": "2026-11-22T09:04:10.512Z",
                     *           "runId": "run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a9",
                     *           "commits": [
                     *             "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2"
                     *           ],
                     *           "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *           "publishedWith": null,
                     *           "answer": "The list of orders has a search field. It filters by order number and title.",
                     *           "leftOut": [],
                     *           "leftOutMore": 0,
                     *           "carriedOver": null,
                     *           "source": null,
                     *           "checks": [
                     *             "unit passed",
                     *             "lint passed"
                     *           ]
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["MessageList"];
                };
            };
        };
    };
    getMessage: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
                /** @description The ID of the message. */
                messageId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The message */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8",
                     *       "prompt": "Add a search field to the list of orders.",
                     *       "origin": "api",
                     *       "author": "ci",
                     *       "delivery": "queue",
                     *       "status": "finished",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "deliveredAt": "2026-11-22T09:00:00.000Z",
                     *       "finishedAt": "2026-11-22T09:04:10.512Z",
                     *       "runId": "run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a9",
                     *       "commits": [
                     *         "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2"
                     *       ],
                     *       "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "publishedWith": null,
                     *       "answer": "The list of orders has a search field. It filters by order number and title.",
                     *       "leftOut": [],
                     *       "leftOutMore": 0,
                     *       "carriedOver": null,
                     *       "source": null,
                     *       "checks": [
                     *         "unit passed",
                     *         "lint passed"
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Message"];
                };
            };
        };
    };
    withdrawMessage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
                /** @description The ID of the message. */
                messageId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The job's record */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "status": "active",
                     *       "source": {
                     *         "repository": "https://github.com/example/shop.git",
                     *         "ref": "main"
                     *       },
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "prLink": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "archivedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Job"];
                };
            };
        };
    };
    listRuns: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of runs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "runs": [
                     *         {
                     *           "id": "run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a9",
                     *           "messageId": "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8",
                     *           "attempt": 1,
                     *           "status": "succeeded",
                     *           "reason": null,
                     *           "worker": "wrk_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac",
                     *           "startedAt": "2026-11-22T09:00:00.000Z",
                     *           "finishedAt": "2026-11-22T09:04:10.512Z",
                     *           "usage": {
                     *             "inputTokens": 81240,
                     *             "outputTokens": 4410,
                     *             "cachedTokens": 70112,
                     *             "costMicros": 120000,
                     *             "estimatedMicros": 0
                     *           },
                     *           "commits": [
                     *             "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2"
                     *           ],
                     *           "leftOut": [],
                     *           "leftOutMore": 0
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["RunList"];
                };
            };
        };
    };
    listJobPulls: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of pull requests */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "pulls": [
                     *         {
                     *           "number": 7,
                     *           "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *           "state": "open",
                     *           "draft": false,
                     *           "title": "Add a search field to the list of orders.",
                     *           "body": "Add a search field to the list of orders.",
                     *           "head": "journeyman/add-a-search-field-19aa3bb4",
                     *           "base": "main",
                     *           "labels": [],
                     *           "conflicts": {
                     *             "files": [],
                     *             "more": 0
                     *           },
                     *           "behind": 0,
                     *           "comparedAt": "2026-11-22T09:04:10.512Z",
                     *           "notCompared": null,
                     *           "createdAt": "2026-11-22T09:04:10.512Z",
                     *           "endedAt": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["JobPullList"];
                };
            };
        };
    };
    getJobChecks: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The checks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "sha": "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2",
                     *       "result": "failed",
                     *       "settledAt": "2026-11-22T09:04:10.512Z",
                     *       "checks": [
                     *         {
                     *           "name": "test",
                     *           "state": "failed",
                     *           "url": "https://github.com/example/shop/actions/runs/1/job/2",
                     *           "summary": "2 tests failed",
                     *           "flaky": false
                     *         }
                     *       ],
                     *       "stop": null,
                     *       "attempts": 1,
                     *       "mostAttempts": 3
                     *     }
                     */
                    "application/json": components["schemas"]["JobChecks"];
                };
            };
        };
    };
    listEvents: {
        parameters: {
            query?: {
                /** @description Returns only events with a higher sequence number. */
                after?: number;
                /** @description The number of events on a page; 100 by default. */
                limit?: number;
            };
            header?: {
                /** @description The sequence number of the last event received earlier */
                "Last-Event-ID"?: number;
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "seq": 9,
                     *           "type": "job.completed",
                     *           "at": "2026-11-22T09:04:10.512Z",
                     *           "runId": null,
                     *           "data": {}
                     *         }
                     *       ],
                     *       "nextAfter": 9,
                     *       "hasMore": false
                     *     }
                     */
                    "application/json": components["schemas"]["EventPage"];
                    /**
                     * @example id: 9
                     *     event: job.completed
                     *     data: {"seq":9,"type":"job.completed","at":"2026-11-22T09:04:10.512Z","runId":null,"data":{}}
                     */
                    "text/event-stream": unknown;
                };
            };
        };
    };
    streamEvents: {
        parameters: {
            query?: {
                /** @description Returns only events with a higher sequence number. The header `Last-Event-ID` takes precedence. */
                after?: number;
            };
            header?: {
                /** @description The sequence number of the last event received earlier */
                "Last-Event-ID"?: number;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stored events, oldest first, then new events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example id: 9
                     *     event: job.completed
                     *     data: {"seq":9,"type":"job.completed","at":"2026-11-22T09:04:10.512Z","runId":null,"data":{}}
                     */
                    "text/event-stream": string;
                };
            };
        };
    };
    listProjectEvents: {
        parameters: {
            query?: {
                /**
                 * @description Returns only events of this type. Can be repeated.
                 * @example [
                 *       "job.completed",
                 *       "job.failed"
                 *     ]
                 */
                type?: string[];
                /** @description The maximum number of events on the page; by default, 100. */
                limit?: number;
                /**
                 * @description The `nextCursor` of the previous page, or the `id` of a server-sent event: returns the events after it. Without a
                 *     cursor, the page begins with the oldest stored event.
                 */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "4711",
                     *           "type": "job.completed",
                     *           "timestamp": "2026-11-22T09:04:10.512Z",
                     *           "data": {
                     *             "job": {
                     *               "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *               "status": "completed",
                     *               "source": {
                     *                 "repository": "https://github.com/example/shop.git",
                     *                 "ref": "main"
                     *               },
                     *               "model": "anthropic/claude-sonnet-5-5",
                     *               "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *               "createdAt": "2026-11-22T09:00:00.000Z",
                     *               "archivedAt": null
                     *             },
                     *             "projectId": "shop",
                     *             "title": "Add a search field to the list of orders.",
                     *             "messageId": null,
                     *             "runId": null,
                     *             "pullRequest": null,
                     *             "reason": null
                     *           }
                     *         }
                     *       ],
                     *       "nextCursor": "4711",
                     *       "hasMore": false
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectEventPage"];
                };
            };
        };
    };
    listAllEvents: {
        parameters: {
            query?: {
                /**
                 * @description Returns only events of this type. Can be repeated.
                 * @example [
                 *       "job.completed",
                 *       "job.failed"
                 *     ]
                 */
                type?: string[];
                /** @description The maximum number of events on the page; by default, 100. */
                limit?: number;
                /**
                 * @description The `nextCursor` of the previous page, or the `id` of a server-sent event: returns the events after it. Without a
                 *     cursor, the page begins with the oldest stored event.
                 */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "4711",
                     *           "type": "job.completed",
                     *           "timestamp": "2026-11-22T09:04:10.512Z",
                     *           "data": {
                     *             "job": {
                     *               "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *               "status": "completed",
                     *               "source": {
                     *                 "repository": "https://github.com/example/shop.git",
                     *                 "ref": "main"
                     *               },
                     *               "model": "anthropic/claude-sonnet-5-5",
                     *               "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                     *               "createdAt": "2026-11-22T09:00:00.000Z",
                     *               "archivedAt": null
                     *             },
                     *             "projectId": "shop",
                     *             "title": "Add a search field to the list of orders.",
                     *             "messageId": null,
                     *             "runId": null,
                     *             "pullRequest": null,
                     *             "reason": null
                     *           }
                     *         }
                     *       ],
                     *       "nextCursor": "4711",
                     *       "hasMore": false
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectEventPage"];
                };
            };
        };
    };
    streamProjectEvents: {
        parameters: {
            query?: {
                /**
                 * @description Sends only events of this type. Can be repeated.
                 * @example [
                 *       "job.completed",
                 *       "job.failed"
                 *     ]
                 */
                type?: string[];
                /**
                 * @description The `nextCursor` of a page, or the `id` of a server-sent event: the stream begins after it. The header `Last-Event-ID` takes
                 *     precedence. Without either, the stream begins with the next event.
                 */
                cursor?: string;
            };
            header?: {
                /** @description The ID of the last event received earlier */
                "Last-Event-ID"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description New events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example id: 4711
                     *     event: job.completed
                     *     data: {"id":"4711","type":"job.completed","timestamp":"2026-11-22T09:04:10.512Z","data":{"job":{"id":"job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7","status":"completed","source":{"repository":"https://github.com/example/shop.git","ref":"main"},"model":"anthropic/claude-sonnet-5-5","prLink":"https://journeyman.example.com/projects/shop/pulls/7","createdAt":"2026-11-22T09:00:00.000Z","archivedAt":null},"projectId":"shop","title":"Add a search field to the list of orders.","messageId":null,"runId":null,"pullRequest":null,"reason":null}}
                     */
                    "text/event-stream": string;
                };
            };
        };
    };
    streamAllEvents: {
        parameters: {
            query?: {
                /**
                 * @description Sends only events of this type. Can be repeated.
                 * @example [
                 *       "job.completed",
                 *       "job.failed"
                 *     ]
                 */
                type?: string[];
                /**
                 * @description The `nextCursor` of a page, or the `id` of a server-sent event: the stream begins after it. The header `Last-Event-ID` takes
                 *     precedence. Without either, the stream begins with the next event.
                 */
                cursor?: string;
            };
            header?: {
                /** @description The ID of the last event received earlier */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description New events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example id: 4711
                     *     event: job.completed
                     *     data: {"id":"4711","type":"job.completed","timestamp":"2026-11-22T09:04:10.512Z","data":{"job":{"id":"job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7","status":"completed","source":{"repository":"https://github.com/example/shop.git","ref":"main"},"model":"anthropic/claude-sonnet-5-5","prLink":"https://journeyman.example.com/projects/shop/pulls/7","createdAt":"2026-11-22T09:00:00.000Z","archivedAt":null},"projectId":"shop","title":"Add a search field to the list of orders.","messageId":null,"runId":null,"pullRequest":null,"reason":null}}
                     */
                    "text/event-stream": string;
                };
            };
        };
    };
    getDiff: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the job. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A unified diff */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example --- a/README.md
                     *     +++ b/README.md
                     *     @@ -1 +1,2 @@
                     *      # Shop
                     *     +Open all day.
                     */
                    "text/x-diff": string;
                };
            };
        };
    };
    listProjects: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of the projects that the key may see */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "projects": [
                     *         {
                     *           "id": "shop",
                     *           "repository": "https://github.com/example/shop.git",
                     *           "cloneUrl": null,
                     *           "ref": null,
                     *           "agent": "claude-code",
                     *           "model": "anthropic/claude-sonnet-5-5",
                     *           "effort": "high",
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "codeHost": {
                     *             "kind": null,
                     *             "host": null,
                     *             "username": null,
                     *             "hasToken": false,
                     *             "hasWebhookSecret": false,
                     *             "allowForcePush": false
                     *           },
                     *           "checkout": {
                     *             "submodules": "read",
                     *             "lfs": "fetch"
                     *           },
                     *           "commits": {
                     *             "subject": null,
                     *             "coAuthors": true
                     *           },
                     *           "pullRequest": {
                     *             "draft": false,
                     *             "base": null,
                     *             "title": null,
                     *             "body": null,
                     *             "labels": [],
                     *             "reviewers": [],
                     *             "assignees": [],
                     *             "ciFiles": "refuse",
                     *             "ciPaths": [],
                     *             "protectedBranches": [],
                     *             "archiveOnMerge": false,
                     *             "keepUpToDate": "off",
                     *             "autoMerge": false
                     *           },
                     *           "comments": {
                     *             "reviews": "all",
                     *             "mention": null,
                     *             "settleSeconds": null,
                     *             "issueLabel": null,
                     *             "answers": "full",
                     *             "reviewRequests": "write",
                     *             "resolve": "never"
                     *           },
                     *           "checks": {
                     *             "mode": "report",
                     *             "attempts": null,
                     *             "settleSeconds": null,
                     *             "only": [],
                     *             "ignore": []
                     *           },
                     *           "limits": {
                     *             "runSeconds": null,
                     *             "createPerHour": null,
                     *             "messagePerHour": null,
                     *             "fileBytes": null,
                     *             "concurrentRuns": null,
                     *             "memoryBytes": null,
                     *             "processes": null,
                     *             "cpuMillis": null,
                     *             "diskBytes": null,
                     *             "outputBytes": null,
                     *             "continuations": null,
                     *             "modelCalls": null,
                     *             "automaticPerDay": null,
                     *             "budget": {
                     *               "runMicros": null,
                     *               "jobMicros": null,
                     *               "dayMicros": null,
                     *               "projectMicros": null
                     *             }
                     *           },
                     *           "sandbox": {
                     *             "permissions": "allow",
                     *             "permissionKinds": {},
                     *             "egress": [],
                     *             "image": null,
                     *             "pull": "missing"
                     *           },
                     *           "environment": {},
                     *           "setup": null,
                     *           "secretUses": {},
                     *           "secrets": []
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectList"];
                };
            };
        };
    };
    createProject: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "shop",
                 *       "repository": "https://github.com/example/shop.git",
                 *       "agent": "claude-code",
                 *       "model": "anthropic/claude-sonnet-5-5",
                 *       "effort": "high",
                 *       "codeHost": {
                 *         "token": "ghp_example"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreateProject"];
            };
        };
        responses: {
            /** @description The project */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "shop",
                     *       "repository": "https://github.com/example/shop.git",
                     *       "cloneUrl": null,
                     *       "ref": null,
                     *       "agent": "claude-code",
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "effort": "high",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "codeHost": {
                     *         "kind": null,
                     *         "host": null,
                     *         "username": null,
                     *         "hasToken": false,
                     *         "hasWebhookSecret": false,
                     *         "allowForcePush": false
                     *       },
                     *       "checkout": {
                     *         "submodules": "read",
                     *         "lfs": "fetch"
                     *       },
                     *       "commits": {
                     *         "subject": null,
                     *         "coAuthors": true
                     *       },
                     *       "pullRequest": {
                     *         "draft": false,
                     *         "base": null,
                     *         "title": null,
                     *         "body": null,
                     *         "labels": [],
                     *         "reviewers": [],
                     *         "assignees": [],
                     *         "ciFiles": "refuse",
                     *         "ciPaths": [],
                     *         "protectedBranches": [],
                     *         "archiveOnMerge": false,
                     *         "keepUpToDate": "off",
                     *         "autoMerge": false
                     *       },
                     *       "comments": {
                     *         "reviews": "all",
                     *         "mention": null,
                     *         "settleSeconds": null,
                     *         "issueLabel": null,
                     *         "answers": "full",
                     *         "reviewRequests": "write",
                     *         "resolve": "never"
                     *       },
                     *       "checks": {
                     *         "mode": "report",
                     *         "attempts": null,
                     *         "settleSeconds": null,
                     *         "only": [],
                     *         "ignore": []
                     *       },
                     *       "limits": {
                     *         "runSeconds": null,
                     *         "createPerHour": null,
                     *         "messagePerHour": null,
                     *         "fileBytes": null,
                     *         "concurrentRuns": null,
                     *         "memoryBytes": null,
                     *         "processes": null,
                     *         "cpuMillis": null,
                     *         "diskBytes": null,
                     *         "outputBytes": null,
                     *         "continuations": null,
                     *         "modelCalls": null,
                     *         "automaticPerDay": null,
                     *         "budget": {
                     *           "runMicros": null,
                     *           "jobMicros": null,
                     *           "dayMicros": null,
                     *           "projectMicros": null
                     *         }
                     *       },
                     *       "sandbox": {
                     *         "permissions": "allow",
                     *         "permissionKinds": {},
                     *         "egress": [],
                     *         "image": null,
                     *         "pull": "missing"
                     *       },
                     *       "environment": {},
                     *       "setup": null,
                     *       "secretUses": {},
                     *       "secrets": []
                     *     }
                     */
                    "application/json": components["schemas"]["Project"];
                };
            };
        };
    };
    getProject: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The project */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "shop",
                     *       "repository": "https://github.com/example/shop.git",
                     *       "cloneUrl": null,
                     *       "ref": null,
                     *       "agent": "claude-code",
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "effort": "high",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "codeHost": {
                     *         "kind": null,
                     *         "host": null,
                     *         "username": null,
                     *         "hasToken": false,
                     *         "hasWebhookSecret": false,
                     *         "allowForcePush": false
                     *       },
                     *       "checkout": {
                     *         "submodules": "read",
                     *         "lfs": "fetch"
                     *       },
                     *       "commits": {
                     *         "subject": null,
                     *         "coAuthors": true
                     *       },
                     *       "pullRequest": {
                     *         "draft": false,
                     *         "base": null,
                     *         "title": null,
                     *         "body": null,
                     *         "labels": [],
                     *         "reviewers": [],
                     *         "assignees": [],
                     *         "ciFiles": "refuse",
                     *         "ciPaths": [],
                     *         "protectedBranches": [],
                     *         "archiveOnMerge": false,
                     *         "keepUpToDate": "off",
                     *         "autoMerge": false
                     *       },
                     *       "comments": {
                     *         "reviews": "all",
                     *         "mention": null,
                     *         "settleSeconds": null,
                     *         "issueLabel": null,
                     *         "answers": "full",
                     *         "reviewRequests": "write",
                     *         "resolve": "never"
                     *       },
                     *       "checks": {
                     *         "mode": "report",
                     *         "attempts": null,
                     *         "settleSeconds": null,
                     *         "only": [],
                     *         "ignore": []
                     *       },
                     *       "limits": {
                     *         "runSeconds": null,
                     *         "createPerHour": null,
                     *         "messagePerHour": null,
                     *         "fileBytes": null,
                     *         "concurrentRuns": null,
                     *         "memoryBytes": null,
                     *         "processes": null,
                     *         "cpuMillis": null,
                     *         "diskBytes": null,
                     *         "outputBytes": null,
                     *         "continuations": null,
                     *         "modelCalls": null,
                     *         "automaticPerDay": null,
                     *         "budget": {
                     *           "runMicros": null,
                     *           "jobMicros": null,
                     *           "dayMicros": null,
                     *           "projectMicros": null
                     *         }
                     *       },
                     *       "sandbox": {
                     *         "permissions": "allow",
                     *         "permissionKinds": {},
                     *         "egress": [],
                     *         "image": null,
                     *         "pull": "missing"
                     *       },
                     *       "environment": {},
                     *       "setup": null,
                     *       "secretUses": {},
                     *       "secrets": []
                     *     }
                     */
                    "application/json": components["schemas"]["Project"];
                };
            };
        };
    };
    deleteProject: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The project is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    changeProject: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "anthropic/claude-opus-5-5",
                 *       "setup": "npm ci"
                 *     }
                 */
                "application/json": components["schemas"]["ProjectChanges"];
            };
        };
        responses: {
            /** @description The project */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "shop",
                     *       "repository": "https://github.com/example/shop.git",
                     *       "cloneUrl": null,
                     *       "ref": null,
                     *       "agent": "claude-code",
                     *       "model": "anthropic/claude-sonnet-5-5",
                     *       "effort": "high",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "codeHost": {
                     *         "kind": null,
                     *         "host": null,
                     *         "username": null,
                     *         "hasToken": false,
                     *         "hasWebhookSecret": false,
                     *         "allowForcePush": false
                     *       },
                     *       "checkout": {
                     *         "submodules": "read",
                     *         "lfs": "fetch"
                     *       },
                     *       "commits": {
                     *         "subject": null,
                     *         "coAuthors": true
                     *       },
                     *       "pullRequest": {
                     *         "draft": false,
                     *         "base": null,
                     *         "title": null,
                     *         "body": null,
                     *         "labels": [],
                     *         "reviewers": [],
                     *         "assignees": [],
                     *         "ciFiles": "refuse",
                     *         "ciPaths": [],
                     *         "protectedBranches": [],
                     *         "archiveOnMerge": false,
                     *         "keepUpToDate": "off",
                     *         "autoMerge": false
                     *       },
                     *       "comments": {
                     *         "reviews": "all",
                     *         "mention": null,
                     *         "settleSeconds": null,
                     *         "issueLabel": null,
                     *         "answers": "full",
                     *         "reviewRequests": "write",
                     *         "resolve": "never"
                     *       },
                     *       "checks": {
                     *         "mode": "report",
                     *         "attempts": null,
                     *         "settleSeconds": null,
                     *         "only": [],
                     *         "ignore": []
                     *       },
                     *       "limits": {
                     *         "runSeconds": null,
                     *         "createPerHour": null,
                     *         "messagePerHour": null,
                     *         "fileBytes": null,
                     *         "concurrentRuns": null,
                     *         "memoryBytes": null,
                     *         "processes": null,
                     *         "cpuMillis": null,
                     *         "diskBytes": null,
                     *         "outputBytes": null,
                     *         "continuations": null,
                     *         "modelCalls": null,
                     *         "automaticPerDay": null,
                     *         "budget": {
                     *           "runMicros": null,
                     *           "jobMicros": null,
                     *           "dayMicros": null,
                     *           "projectMicros": null
                     *         }
                     *       },
                     *       "sandbox": {
                     *         "permissions": "allow",
                     *         "permissionKinds": {},
                     *         "egress": [],
                     *         "image": null,
                     *         "pull": "missing"
                     *       },
                     *       "environment": {},
                     *       "setup": null,
                     *       "secretUses": {},
                     *       "secrets": []
                     *     }
                     */
                    "application/json": components["schemas"]["Project"];
                };
            };
        };
    };
    testNewProject: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "shop",
                 *       "repository": "https://github.com/example/shop.git",
                 *       "agent": "claude-code",
                 *       "model": "anthropic/claude-sonnet-5-5",
                 *       "effort": "high",
                 *       "codeHost": {
                 *         "token": "ghp_example"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["CreateProject"];
            };
        };
        responses: {
            /** @description The repository can be read; the findings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "findings": [
                     *         {
                     *           "check": "webhooks",
                     *           "health": "ok",
                     *           "text": "the newest webhook arrived at 2026-11-22T09:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FindingList"];
                };
            };
        };
    };
    testProject: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "anthropic/claude-opus-5-5",
                 *       "setup": "npm ci"
                 *     }
                 */
                "application/json": components["schemas"]["ProjectChanges"];
            };
        };
        responses: {
            /** @description The repository can be read; the findings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "findings": [
                     *         {
                     *           "check": "webhooks",
                     *           "health": "ok",
                     *           "text": "the newest webhook arrived at 2026-11-22T09:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FindingList"];
                };
            };
        };
    };
    listPulls: {
        parameters: {
            query?: {
                /** @description Returns only pull requests in this state; by default, those that are open. */
                state?: "open" | "merged" | "closed";
                /** @description The maximum number of pull requests on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of pull requests */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "pulls": [
                     *         {
                     *           "number": 7,
                     *           "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *           "state": "open",
                     *           "draft": false,
                     *           "title": "Add a search field to the list of orders.",
                     *           "body": "Add a search field to the list of orders.",
                     *           "head": "journeyman/add-a-search-field-19aa3bb4",
                     *           "base": "main",
                     *           "labels": [],
                     *           "conflicts": {
                     *             "files": [],
                     *             "more": 0
                     *           },
                     *           "behind": 0,
                     *           "comparedAt": "2026-11-22T09:04:10.512Z",
                     *           "notCompared": null,
                     *           "createdAt": "2026-11-22T09:04:10.512Z",
                     *           "endedAt": null,
                     *           "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "mergeable": null,
                     *           "endedBy": null,
                     *           "mergeCommit": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectPullList"];
                };
            };
        };
    };
    openPull: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "head": "search-field",
                 *       "base": "main",
                 *       "title": "Add a search field to the list of orders."
                 *     }
                 */
                "application/json": components["schemas"]["OpenPullRequest"];
            };
        };
        responses: {
            /** @description The pull request that was open before */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "number": 7,
                     *       "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "state": "open",
                     *       "draft": false,
                     *       "title": "Add a search field to the list of orders.",
                     *       "body": "Add a search field to the list of orders.",
                     *       "head": "journeyman/add-a-search-field-19aa3bb4",
                     *       "base": "main",
                     *       "labels": [],
                     *       "conflicts": {
                     *         "files": [],
                     *         "more": 0
                     *       },
                     *       "behind": 0,
                     *       "comparedAt": "2026-11-22T09:04:10.512Z",
                     *       "notCompared": null,
                     *       "createdAt": "2026-11-22T09:04:10.512Z",
                     *       "endedAt": null,
                     *       "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "mergeable": null,
                     *       "endedBy": null,
                     *       "mergeCommit": null
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectPull"];
                };
            };
            /** @description The new pull request */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "number": 7,
                     *       "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "state": "open",
                     *       "draft": false,
                     *       "title": "Add a search field to the list of orders.",
                     *       "body": "Add a search field to the list of orders.",
                     *       "head": "journeyman/add-a-search-field-19aa3bb4",
                     *       "base": "main",
                     *       "labels": [],
                     *       "conflicts": {
                     *         "files": [],
                     *         "more": 0
                     *       },
                     *       "behind": 0,
                     *       "comparedAt": "2026-11-22T09:04:10.512Z",
                     *       "notCompared": null,
                     *       "createdAt": "2026-11-22T09:04:10.512Z",
                     *       "endedAt": null,
                     *       "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "mergeable": null,
                     *       "endedBy": null,
                     *       "mergeCommit": null
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectPull"];
                };
            };
        };
    };
    getPull: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The number of the pull request. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The pull request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "number": 7,
                     *       "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "state": "open",
                     *       "draft": false,
                     *       "title": "Add a search field to the list of orders.",
                     *       "body": "Add a search field to the list of orders.",
                     *       "head": "journeyman/add-a-search-field-19aa3bb4",
                     *       "base": "main",
                     *       "labels": [],
                     *       "conflicts": {
                     *         "files": [],
                     *         "more": 0
                     *       },
                     *       "behind": 0,
                     *       "comparedAt": "2026-11-22T09:04:10.512Z",
                     *       "notCompared": null,
                     *       "createdAt": "2026-11-22T09:04:10.512Z",
                     *       "endedAt": null,
                     *       "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "mergeable": true,
                     *       "endedBy": null,
                     *       "mergeCommit": null
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectPull"];
                };
            };
        };
    };
    mergePull: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The number of the pull request. */
                number: number;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "method": "merge"
                 *     }
                 */
                "application/json": components["schemas"]["MergePullRequest"] | null;
            };
        };
        responses: {
            /** @description The merged pull request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "number": 7,
                     *       "url": "https://journeyman.example.com/projects/shop/pulls/7",
                     *       "state": "merged",
                     *       "draft": false,
                     *       "title": "Add a search field to the list of orders.",
                     *       "body": "Add a search field to the list of orders.",
                     *       "head": "journeyman/add-a-search-field-19aa3bb4",
                     *       "base": "main",
                     *       "labels": [],
                     *       "conflicts": null,
                     *       "behind": null,
                     *       "comparedAt": null,
                     *       "notCompared": null,
                     *       "createdAt": "2026-11-22T09:04:10.512Z",
                     *       "endedAt": "2026-11-22T10:00:00.000Z",
                     *       "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "mergeable": null,
                     *       "endedBy": "ada",
                     *       "mergeCommit": "7b2e91c4d5f60a8839c1b7e4f2d6a0c3e8b5917d"
                     *     }
                     */
                    "application/json": components["schemas"]["ProjectPull"];
                };
            };
        };
    };
    listCodeHosts: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of code hosts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "codeHosts": [
                     *         {
                     *           "id": "gitlab",
                     *           "kind": "gitlab",
                     *           "url": "https://gitlab.example.com",
                     *           "apiUrl": null,
                     *           "username": null,
                     *           "appId": null,
                     *           "appSlug": null,
                     *           "hasToken": true,
                     *           "hasPrivateKey": false,
                     *           "hasWebhookSecret": true,
                     *           "trustedBots": [
                     *             "4711"
                     *           ],
                     *           "definedIn": "store",
                     *           "webhookUrl": "https://journeyman.example.com/hooks/gitlab",
                     *           "createdAt": "2026-11-22T09:00:00.000Z"
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["CodeHostList"];
                };
            };
        };
    };
    createCodeHost: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "gitlab",
                 *       "kind": "gitlab",
                 *       "url": "https://gitlab.example.com",
                 *       "token": "glpat-example",
                 *       "webhookSecret": "a long random text"
                 *     }
                 */
                "application/json": components["schemas"]["CreateCodeHost"];
            };
        };
        responses: {
            /** @description The code host */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "gitlab",
                     *       "kind": "gitlab",
                     *       "url": "https://gitlab.example.com",
                     *       "apiUrl": null,
                     *       "username": null,
                     *       "appId": null,
                     *       "appSlug": null,
                     *       "hasToken": true,
                     *       "hasPrivateKey": false,
                     *       "hasWebhookSecret": true,
                     *       "trustedBots": [
                     *         "4711"
                     *       ],
                     *       "definedIn": "store",
                     *       "webhookUrl": "https://journeyman.example.com/hooks/gitlab",
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["InstalledCodeHost"];
                };
            };
        };
    };
    getCodeHost: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the code host */
                codeHost: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The code host */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "gitlab",
                     *       "kind": "gitlab",
                     *       "url": "https://gitlab.example.com",
                     *       "apiUrl": null,
                     *       "username": null,
                     *       "appId": null,
                     *       "appSlug": null,
                     *       "hasToken": true,
                     *       "hasPrivateKey": false,
                     *       "hasWebhookSecret": true,
                     *       "trustedBots": [
                     *         "4711"
                     *       ],
                     *       "definedIn": "store",
                     *       "webhookUrl": "https://journeyman.example.com/hooks/gitlab",
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["InstalledCodeHost"];
                };
            };
        };
    };
    replaceCodeHost: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the code host */
                codeHost: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "kind": "gitlab",
                 *       "url": "https://gitlab.example.com",
                 *       "trustedBots": [
                 *         "4711"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ReplaceCodeHost"];
            };
        };
        responses: {
            /** @description The code host */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "gitlab",
                     *       "kind": "gitlab",
                     *       "url": "https://gitlab.example.com",
                     *       "apiUrl": null,
                     *       "username": null,
                     *       "appId": null,
                     *       "appSlug": null,
                     *       "hasToken": true,
                     *       "hasPrivateKey": false,
                     *       "hasWebhookSecret": true,
                     *       "trustedBots": [
                     *         "4711"
                     *       ],
                     *       "definedIn": "store",
                     *       "webhookUrl": "https://journeyman.example.com/hooks/gitlab",
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["InstalledCodeHost"];
                };
            };
        };
    };
    removeCodeHost: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the code host */
                codeHost: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The code host is removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    checkCodeHost: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the code host */
                codeHost: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The findings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "findings": [
                     *         {
                     *           "check": "webhooks",
                     *           "health": "ok",
                     *           "text": "the newest webhook arrived at 2026-11-22T09:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FindingList"];
                };
            };
        };
    };
    listProjectInbox: {
        parameters: {
            query?: {
                /** @description Returns only events in this state. */
                state?: "received" | "waiting" | "done" | "ignored" | "failed";
                /** @description Returns only events with this outcome, such as `message`, `ignored_self` or `not_permitted`. */
                outcome?: string;
                /** @description The maximum number of events; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "41",
                     *           "receivedAt": "2026-11-22T09:00:00.000Z",
                     *           "host": "github.com",
                     *           "event": "issue_comment",
                     *           "delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
                     *           "state": "done",
                     *           "outcome": "message",
                     *           "detail": null,
                     *           "attempts": 1,
                     *           "projectId": "shop",
                     *           "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "message": "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8",
                     *           "repository": "example/shop",
                     *           "sender": "maria",
                     *           "url": "https://github.com/example/shop/pull/7#issuecomment-1"
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["InboxPage"];
                };
            };
        };
    };
    listInbox: {
        parameters: {
            query?: {
                /** @description Returns only events in this state. */
                state?: "received" | "waiting" | "done" | "ignored" | "failed";
                /** @description Returns only events with this outcome, such as `message`, `ignored_self` or `not_permitted`. */
                outcome?: string;
                /** @description The maximum number of events; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "41",
                     *           "receivedAt": "2026-11-22T09:00:00.000Z",
                     *           "host": "github.com",
                     *           "event": "issue_comment",
                     *           "delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
                     *           "state": "done",
                     *           "outcome": "message",
                     *           "detail": null,
                     *           "attempts": 1,
                     *           "projectId": "shop",
                     *           "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "message": "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8",
                     *           "repository": "example/shop",
                     *           "sender": "maria",
                     *           "url": "https://github.com/example/shop/pull/7#issuecomment-1"
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["InboxPage"];
                };
            };
        };
    };
    listKeys: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
                /** @description How the keys were made; by default, `created`. */
                origin?: "created" | "exchanged";
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of keys, including revoked ones */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "keys": [
                     *         {
                     *           "id": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *           "name": "ci",
                     *           "prefix": "jmn_exam",
                     *           "scopes": [
                     *             "write"
                     *           ],
                     *           "projects": [
                     *             "shop"
                     *           ],
                     *           "expiresAt": "2027-02-20T09:00:00.000Z",
                     *           "allowedIps": null,
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "lastUsedAt": null,
                     *           "oldSecretUntil": null,
                     *           "revokedAt": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["KeyList"];
                };
            };
        };
    };
    createKey: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "ci",
                 *       "scopes": [
                 *         "write"
                 *       ],
                 *       "projects": [
                 *         "shop"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CreateKey"];
            };
        };
        responses: {
            /** @description The key with its secret */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *       "name": "ci",
                     *       "prefix": "jmn_exam",
                     *       "scopes": [
                     *         "write"
                     *       ],
                     *       "projects": [
                     *         "shop"
                     *       ],
                     *       "expiresAt": "2027-02-20T09:00:00.000Z",
                     *       "allowedIps": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "lastUsedAt": null,
                     *       "oldSecretUntil": null,
                     *       "revokedAt": null,
                     *       "secret": "jmn_example000000000000000000000000000000"
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedKey"];
                };
            };
        };
    };
    getKey: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the key */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *       "name": "ci",
                     *       "prefix": "jmn_exam",
                     *       "scopes": [
                     *         "write"
                     *       ],
                     *       "projects": [
                     *         "shop"
                     *       ],
                     *       "expiresAt": "2027-02-20T09:00:00.000Z",
                     *       "allowedIps": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "lastUsedAt": null,
                     *       "oldSecretUntil": null,
                     *       "revokedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Key"];
                };
            };
        };
    };
    revokeKey: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the key */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key is revoked */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    rotateKey: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the key */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "keepOldSeconds": 3600
                 *     }
                 */
                "application/json": components["schemas"]["RotateKey"] | null;
            };
        };
        responses: {
            /** @description The key with its new secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *       "name": "ci",
                     *       "prefix": "jmn_exam",
                     *       "scopes": [
                     *         "write"
                     *       ],
                     *       "projects": [
                     *         "shop"
                     *       ],
                     *       "expiresAt": "2027-02-20T09:00:00.000Z",
                     *       "allowedIps": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "lastUsedAt": null,
                     *       "oldSecretUntil": null,
                     *       "revokedAt": null,
                     *       "secret": "jmn_example000000000000000000000000000000"
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedKey"];
                };
            };
        };
    };
    listTemplates: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of templates */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "templates": [
                     *         {
                     *           "id": "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *           "name": "Fix a bug",
                     *           "description": "For a bug report with its steps",
                     *           "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
                     *           "agent": null,
                     *           "model": "anthropic/claude-opus-5-5",
                     *           "labels": [
                     *             "bug"
                     *           ],
                     *           "createdAt": "2026-11-22T09:00:00.000Z"
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["TemplateList"];
                };
            };
        };
    };
    createTemplate: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "Fix a bug",
                 *       "description": "For a bug report with its steps",
                 *       "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
                 *       "labels": [
                 *         "bug"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CreateTemplate"];
            };
        };
        responses: {
            /** @description The template */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *       "name": "Fix a bug",
                     *       "description": "For a bug report with its steps",
                     *       "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
                     *       "agent": null,
                     *       "model": "anthropic/claude-opus-5-5",
                     *       "labels": [
                     *         "bug"
                     *       ],
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Template"];
                };
            };
        };
    };
    getTemplate: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The template */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *       "name": "Fix a bug",
                     *       "description": "For a bug report with its steps",
                     *       "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
                     *       "agent": null,
                     *       "model": "anthropic/claude-opus-5-5",
                     *       "labels": [
                     *         "bug"
                     *       ],
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Template"];
                };
            };
        };
    };
    deleteTemplate: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The template is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    changeTemplate: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the template */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "model": "anthropic/claude-opus-5-5"
                 *     }
                 */
                "application/json": components["schemas"]["ChangeTemplate"];
            };
        };
        responses: {
            /** @description The template */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *       "name": "Fix a bug",
                     *       "description": "For a bug report with its steps",
                     *       "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
                     *       "agent": null,
                     *       "model": "anthropic/claude-opus-5-5",
                     *       "labels": [
                     *         "bug"
                     *       ],
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Template"];
                };
            };
        };
    };
    listTrusts: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of trusts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "trusts": [
                     *         {
                     *           "id": "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *           "name": "shop-ci",
                     *           "issuer": "https://token.actions.githubusercontent.com",
                     *           "audience": "https://journeyman.example.com",
                     *           "claims": {
                     *             "repository": "acme/shop",
                     *             "ref": "refs/heads/main"
                     *           },
                     *           "projects": [
                     *             "shop"
                     *           ],
                     *           "scope": "jobs",
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "lastUsedAt": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["TrustList"];
                };
            };
        };
    };
    createTrust: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "shop-ci",
                 *       "issuer": "https://token.actions.githubusercontent.com",
                 *       "claims": {
                 *         "repository": "acme/shop",
                 *         "ref": "refs/heads/main"
                 *       },
                 *       "projects": [
                 *         "shop"
                 *       ],
                 *       "scope": "jobs"
                 *     }
                 */
                "application/json": components["schemas"]["CreateTrust"];
            };
        };
        responses: {
            /** @description The trust */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *       "name": "shop-ci",
                     *       "issuer": "https://token.actions.githubusercontent.com",
                     *       "audience": "https://journeyman.example.com",
                     *       "claims": {
                     *         "repository": "acme/shop",
                     *         "ref": "refs/heads/main"
                     *       },
                     *       "projects": [
                     *         "shop"
                     *       ],
                     *       "scope": "jobs",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "lastUsedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Trust"];
                };
            };
        };
    };
    getTrust: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the trust */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The trust */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *       "name": "shop-ci",
                     *       "issuer": "https://token.actions.githubusercontent.com",
                     *       "audience": "https://journeyman.example.com",
                     *       "claims": {
                     *         "repository": "acme/shop",
                     *         "ref": "refs/heads/main"
                     *       },
                     *       "projects": [
                     *         "shop"
                     *       ],
                     *       "scope": "jobs",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "lastUsedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Trust"];
                };
            };
        };
    };
    deleteTrust: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the trust */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The trust is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    changeTrust: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the trust */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "scope": "read"
                 *     }
                 */
                "application/json": components["schemas"]["ChangeTrust"];
            };
        };
        responses: {
            /** @description The trust */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab",
                     *       "name": "shop-ci",
                     *       "issuer": "https://token.actions.githubusercontent.com",
                     *       "audience": "https://journeyman.example.com",
                     *       "claims": {
                     *         "repository": "acme/shop",
                     *         "ref": "refs/heads/main"
                     *       },
                     *       "projects": [
                     *         "shop"
                     *       ],
                     *       "scope": "jobs",
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "lastUsedAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["Trust"];
                };
            };
        };
    };
    listUsers: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of users, including disabled ones */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "users": [
                     *         {
                     *           "id": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac",
                     *           "name": "ada@example.com",
                     *           "role": "member",
                     *           "hasPassword": true,
                     *           "hasIdentity": false,
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "signedInAt": "2026-11-22T09:04:10.512Z",
                     *           "disabledAt": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["UserList"];
                };
            };
        };
    };
    createUser: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "ada@example.com",
                 *       "role": "member"
                 *     }
                 */
                "application/json": components["schemas"]["CreateUser"];
            };
        };
        responses: {
            /** @description The user with the link */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac",
                     *       "name": "ada@example.com",
                     *       "role": "member",
                     *       "hasPassword": false,
                     *       "hasIdentity": false,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "signedInAt": null,
                     *       "disabledAt": null,
                     *       "link": {
                     *         "url": "https://journeyman.example.com/setup?link=0123456789abcdef",
                     *         "expiresAt": "2026-11-29T09:00:00.000Z"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedUser"];
                };
            };
        };
    };
    getUser: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the user */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The user */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac",
                     *       "name": "ada@example.com",
                     *       "role": "member",
                     *       "hasPassword": true,
                     *       "hasIdentity": false,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "signedInAt": "2026-11-22T09:04:10.512Z",
                     *       "disabledAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    changeUser: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the user */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "role": "viewer"
                 *     }
                 */
                "application/json": components["schemas"]["ChangeUser"];
            };
        };
        responses: {
            /** @description The user */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac",
                     *       "name": "ada@example.com",
                     *       "role": "member",
                     *       "hasPassword": true,
                     *       "hasIdentity": false,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "signedInAt": "2026-11-22T09:04:10.512Z",
                     *       "disabledAt": null
                     *     }
                     */
                    "application/json": components["schemas"]["User"];
                };
            };
        };
    };
    createUserLink: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the user */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The link */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "url": "https://journeyman.example.com/setup?link=0123456789abcdef",
                     *       "expiresAt": "2026-11-29T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["UserLink"];
                };
            };
        };
    };
    getMe: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key of the request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "key": {
                     *         "id": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *         "name": "ci",
                     *         "prefix": "jmn_exam",
                     *         "scopes": [
                     *           "write"
                     *         ],
                     *         "projects": [
                     *           "shop"
                     *         ],
                     *         "expiresAt": "2027-02-20T09:00:00.000Z",
                     *         "allowedIps": null,
                     *         "createdAt": "2026-11-22T09:00:00.000Z",
                     *         "lastUsedAt": null,
                     *         "oldSecretUntil": null,
                     *         "revokedAt": null
                     *       },
                     *       "managesProjects": false
                     *     }
                     */
                    "application/json": components["schemas"]["Me"];
                };
            };
        };
    };
    listAgents: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "agents": [
                     *         {
                     *           "id": "claude-code",
                     *           "name": "Claude Code",
                     *           "dialects": [
                     *             "anthropic"
                     *           ],
                     *           "asks": [
                     *             "edit",
                     *             "execute",
                     *             "fetch"
                     *           ],
                     *           "resumes": true
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["AgentList"];
                };
            };
        };
    };
    listAudit: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of entries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "entries": [
                     *         {
                     *           "id": "7",
                     *           "at": "2026-11-22T09:00:00.000Z",
                     *           "actor": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *           "actorName": "ci",
                     *           "action": "project.changed",
                     *           "subject": "shop",
                     *           "address": "192.0.2.7"
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
        };
    };
    exportAudit: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The audit log */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example id,at,actor,actorName,action,subject,address
                     *     7,2026-11-22T09:00:00.000Z,key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa,ci,project.changed,shop,192.0.2.7
                     */
                    "text/csv": string;
                };
            };
        };
    };
    listWebhooks: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of webhooks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "webhooks": [
                     *         {
                     *           "id": "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "url": "https://hooks.example.com/journeyman",
                     *           "events": [
                     *             "job.completed",
                     *             "job.failed"
                     *           ],
                     *           "format": "standard",
                     *           "description": "",
                     *           "enabled": true,
                     *           "disabledReason": null,
                     *           "failingSince": null,
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "oldSecretUntil": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["WebhookList"];
                };
            };
        };
    };
    createWebhook: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "url": "https://hooks.example.com/journeyman",
                 *       "events": [
                 *         "job.completed",
                 *         "job.failed"
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CreateWebhook"];
            };
        };
        responses: {
            /** @description The webhook with its secret */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "url": "https://hooks.example.com/journeyman",
                     *       "events": [
                     *         "job.completed",
                     *         "job.failed"
                     *       ],
                     *       "format": "standard",
                     *       "description": "",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "failingSince": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "oldSecretUntil": null,
                     *       "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedWebhook"];
                };
            };
        };
    };
    getWebhook: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "url": "https://hooks.example.com/journeyman",
                     *       "events": [
                     *         "job.completed",
                     *         "job.failed"
                     *       ],
                     *       "format": "standard",
                     *       "description": "",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "failingSince": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "oldSecretUntil": null
                     *     }
                     */
                    "application/json": components["schemas"]["Webhook"];
                };
            };
        };
    };
    deleteWebhook: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The webhook is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    changeWebhook: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "enabled": false
                 *     }
                 */
                "application/json": components["schemas"]["ChangeWebhook"];
            };
        };
        responses: {
            /** @description The webhook */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "url": "https://hooks.example.com/journeyman",
                     *       "events": [
                     *         "job.completed",
                     *         "job.failed"
                     *       ],
                     *       "format": "standard",
                     *       "description": "",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "failingSince": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "oldSecretUntil": null
                     *     }
                     */
                    "application/json": components["schemas"]["Webhook"];
                };
            };
        };
    };
    rotateWebhook: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /**
                 * @example {
                 *       "keepOldSeconds": 3600
                 *     }
                 */
                "application/json": components["schemas"]["RotateKey"] | null;
            };
        };
        responses: {
            /** @description The webhook with its new secret */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "url": "https://hooks.example.com/journeyman",
                     *       "events": [
                     *         "job.completed",
                     *         "job.failed"
                     *       ],
                     *       "format": "standard",
                     *       "description": "",
                     *       "enabled": true,
                     *       "disabledReason": null,
                     *       "failingSince": null,
                     *       "createdAt": "2026-11-22T09:00:00.000Z",
                     *       "oldSecretUntil": null,
                     *       "secret": "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
                     *     }
                     */
                    "application/json": components["schemas"]["CreatedWebhook"];
                };
            };
        };
    };
    testWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The result */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "at": "2026-11-22T09:04:10.512Z",
                     *       "durationMs": 84,
                     *       "status": 204,
                     *       "response": "",
                     *       "error": null
                     *     }
                     */
                    "application/json": components["schemas"]["Attempt"];
                };
            };
        };
    };
    listDeliveries: {
        parameters: {
            query?: {
                /** @description Returns only deliveries in this state. */
                state?: "pending" | "delivered" | "failed";
                /** @description The maximum number of deliveries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of deliveries */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "deliveries": [
                     *         {
                     *           "id": "17",
                     *           "eventId": "4711",
                     *           "type": "job.completed",
                     *           "job": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "state": "delivered",
                     *           "attempts": 1,
                     *           "createdAt": "2026-11-22T09:04:10.512Z",
                     *           "nextAttemptAt": null,
                     *           "lastAttempt": {
                     *             "at": "2026-11-22T09:04:10.512Z",
                     *             "durationMs": 84,
                     *             "status": 204,
                     *             "response": "",
                     *             "error": null
                     *           }
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["DeliveryPage"];
                };
            };
        };
    };
    redeliver: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
                /** @description The ID of the delivery */
                deliveryId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The delivery is pending */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    replayWebhook: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the project. */
                projectId: string;
                /** @description The ID of the webhook */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "since": "2026-11-22T09:00:00.000Z"
                 *     }
                 */
                "application/json": components["schemas"]["ReplayWebhook"];
            };
        };
        responses: {
            /** @description The number of deliveries */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "deliveries": 12
                     *     }
                     */
                    "application/json": components["schemas"]["Replayed"];
                };
            };
        };
    };
    listSlackWorkspaces: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The workspaces */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "workspaces": [
                     *         {
                     *           "id": "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "name": "Acme",
                     *           "team": "T012AB3CD",
                     *           "botUser": "U012AB3CD",
                     *           "mode": "events",
                     *           "channels": {
                     *             "C012AB3CD": "shop"
                     *           },
                     *           "users": {
                     *             "U045EF6GH": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac"
                     *           },
                     *           "hasBotToken": true,
                     *           "hasSigningSecret": true,
                     *           "hasAppToken": false,
                     *           "eventsUrl": "https://journeyman.example.com/hooks/slack/slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "createdAt": "2026-11-22T09:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["SlackWorkspaceList"];
                };
            };
        };
    };
    createSlackWorkspace: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description A key that the client chooses. A request with the same key and body within 24 hours gets the response to the
                 *     first one, with `Idempotent-Replayed: true`, and stores nothing.
                 */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "mode": "events",
                 *       "botToken": "xoxb-example",
                 *       "signingSecret": "8f742231b10e8888abcd99yyyzzz85a5",
                 *       "channels": {
                 *         "C012AB3CD": "shop"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ChangeSlackWorkspace"];
            };
        };
        responses: {
            /** @description The workspace */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "name": "Acme",
                     *       "team": "T012AB3CD",
                     *       "botUser": "U012AB3CD",
                     *       "mode": "events",
                     *       "channels": {
                     *         "C012AB3CD": "shop"
                     *       },
                     *       "users": {
                     *         "U045EF6GH": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac"
                     *       },
                     *       "hasBotToken": true,
                     *       "hasSigningSecret": true,
                     *       "hasAppToken": false,
                     *       "eventsUrl": "https://journeyman.example.com/hooks/slack/slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["SlackWorkspace"];
                };
            };
        };
    };
    getSlackWorkspace: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the workspace */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The workspace */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "name": "Acme",
                     *       "team": "T012AB3CD",
                     *       "botUser": "U012AB3CD",
                     *       "mode": "events",
                     *       "channels": {
                     *         "C012AB3CD": "shop"
                     *       },
                     *       "users": {
                     *         "U045EF6GH": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac"
                     *       },
                     *       "hasBotToken": true,
                     *       "hasSigningSecret": true,
                     *       "hasAppToken": false,
                     *       "eventsUrl": "https://journeyman.example.com/hooks/slack/slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["SlackWorkspace"];
                };
            };
        };
    };
    removeSlackWorkspace: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the workspace */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The workspace is removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    changeSlackWorkspace: {
        parameters: {
            query?: never;
            header?: {
                /**
                 * @description The `ETag` of the version that the client has read. If the resource has another version, the request is refused
                 *     with 412.
                 */
                "If-Match"?: string;
            };
            path: {
                /** @description The ID of the workspace */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "channels": {
                 *         "C012AB3CD": "shop",
                 *         "C045EF6GH": null
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["ChangeSlackWorkspace"];
            };
        };
        responses: {
            /** @description The workspace */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "name": "Acme",
                     *       "team": "T012AB3CD",
                     *       "botUser": "U012AB3CD",
                     *       "mode": "events",
                     *       "channels": {
                     *         "C012AB3CD": "shop"
                     *       },
                     *       "users": {
                     *         "U045EF6GH": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac"
                     *       },
                     *       "hasBotToken": true,
                     *       "hasSigningSecret": true,
                     *       "hasAppToken": false,
                     *       "eventsUrl": "https://journeyman.example.com/hooks/slack/slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *       "createdAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["SlackWorkspace"];
                };
            };
        };
    };
    checkSlackWorkspace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The ID of the workspace */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The findings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "findings": [
                     *         {
                     *           "check": "webhooks",
                     *           "health": "ok",
                     *           "text": "the newest webhook arrived at 2026-11-22T09:00:00.000Z"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["FindingList"];
                };
            };
        };
    };
    listSlackEvents: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the workspace */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "events": [
                     *         {
                     *           "id": "41",
                     *           "receivedAt": "2026-11-22T09:00:00.000Z",
                     *           "channel": "C012AB3CD",
                     *           "thread": "1795338000.000100",
                     *           "ts": "1795338000.000100",
                     *           "state": "done",
                     *           "outcome": "job_created",
                     *           "detail": null,
                     *           "jobId": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                     *           "messageId": "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8"
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["SlackEventPage"];
                };
            };
        };
    };
    listSlackPosts: {
        parameters: {
            query?: {
                /** @description The maximum number of entries on the page; by default, 100. */
                limit?: number;
                /** @description The `nextCursor` of the previous page. */
                cursor?: string;
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path: {
                /** @description The ID of the workspace */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of posts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "posts": [
                     *         {
                     *           "id": "17",
                     *           "createdAt": "2026-11-22T09:00:00.000Z",
                     *           "channel": "C012AB3CD",
                     *           "thread": "1795338000.000100",
                     *           "kind": "status",
                     *           "state": "done",
                     *           "detail": null
                     *         }
                     *       ],
                     *       "nextCursor": null
                     *     }
                     */
                    "application/json": components["schemas"]["SlackPostPage"];
                };
            };
        };
    };
    createSlackCode: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The code, which is shown once */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "code": "5f4dcc3b5aa765d61d8327deb882cf99",
                     *       "expiresAt": "2026-11-22T09:00:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["SlackCode"];
                };
            };
        };
    };
    getUsage: {
        parameters: {
            query?: {
                /**
                 * @description The first day, in UTC; by default, 29 days before the last one.
                 * @example 2026-11-01
                 */
                from?: string;
                /**
                 * @description The last day, in UTC; by default, today.
                 * @example 2026-11-30
                 */
                to?: string;
                /**
                 * @description A property to group by. Can be repeated; without any, the report has one line.
                 * @example [
                 *       "day",
                 *       "project"
                 *     ]
                 */
                groupBy?: ("day" | "project" | "model" | "author" | "key")[];
                /** @description Counts only runs of this project. Can be repeated. */
                project?: string[];
                /** @description Counts only runs of jobs with this model. */
                model?: string;
                /** @description Counts only runs of messages of this author. */
                author?: string;
                /** @description Counts only runs of messages that were sent with the API key with this ID. */
                key?: string;
                /** @description The format of the response; by default, `json`, or `csv` with `Accept: text/csv`. */
                format?: "json" | "csv";
            };
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The report */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "from": "2026-11-22",
                     *       "to": "2026-11-22",
                     *       "total": {
                     *         "runs": 12,
                     *         "inputTokens": 981240,
                     *         "outputTokens": 44410,
                     *         "cachedTokens": 870112,
                     *         "costMicros": 1200000,
                     *         "estimatedMicros": 0,
                     *         "unpriced": 0
                     *       },
                     *       "lines": [
                     *         {
                     *           "day": "2026-11-22",
                     *           "project": "shop",
                     *           "model": null,
                     *           "author": null,
                     *           "key": null,
                     *           "keyName": null,
                     *           "runs": 12,
                     *           "inputTokens": 981240,
                     *           "outputTokens": 44410,
                     *           "cachedTokens": 870112,
                     *           "costMicros": 1200000,
                     *           "estimatedMicros": 0,
                     *           "unpriced": 0
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["UsageReport"];
                    /**
                     * @example day,project,model,author,key,keyName,runs,inputTokens,outputTokens,cachedTokens,costMicros,unpriced,estimatedMicros
                     *     2026-11-22,shop,anthropic/claude-sonnet-5-5,ci,key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa,ci,12,981240,44410,870112,1200000,0,0
                     */
                    "text/csv": string;
                };
            };
        };
    };
    listModels: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The providers and the prices of their models */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "providers": [
                     *         {
                     *           "id": "anthropic",
                     *           "dialect": "anthropic",
                     *           "ready": true,
                     *           "keyVariable": "ANTHROPIC_API_KEY",
                     *           "contextTokens": null,
                     *           "prices": [
                     *             {
                     *               "model": "anthropic/claude-sonnet-5-5",
                     *               "inputMicros": 2000000,
                     *               "outputMicros": 10000000,
                     *               "cachedMicros": 100000,
                     *               "cacheWrittenMicros": 2500000,
                     *               "cacheWrittenLongMicros": 4000000
                     *             }
                     *           ],
                     *           "pricesDate": "2026-11-20"
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["ModelList"];
                };
            };
        };
    };
    getSystem: {
        parameters: {
            query?: never;
            header?: {
                /** @description The `ETag` of the version that the client has. If nothing has changed, the response is 304 without a body. */
                "If-None-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The version and the sandbox */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "version": "0.9.0",
                     *       "sandbox": {
                     *         "kind": "bubblewrap",
                     *         "enough": true,
                     *         "guarantees": [
                     *           {
                     *             "name": "network",
                     *             "holds": true,
                     *             "givenUp": false,
                     *             "note": "no network but loopback"
                     *           }
                     *         ]
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["System"];
                };
            };
        };
    };
    exchangeToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJleGFtcGxlIn0.c2lnbmF0dXJl"
                 *     }
                 */
                "application/json": components["schemas"]["ExchangeToken"];
            };
        };
        responses: {
            /** @description The key with its secret */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "secret": "jmn_example000000000000000000000000000000",
                     *       "key": {
                     *         "id": "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa",
                     *         "name": "oidc:shop-ci:repo:acme/shop:ref:refs/heads/main",
                     *         "prefix": "jmn_exam",
                     *         "scopes": [
                     *           "jobs"
                     *         ],
                     *         "projects": [
                     *           "shop"
                     *         ],
                     *         "expiresAt": "2026-11-22T09:15:00.000Z",
                     *         "allowedIps": null,
                     *         "createdAt": "2026-11-22T09:00:00.000Z",
                     *         "lastUsedAt": null,
                     *         "oldSecretUntil": null,
                     *         "revokedAt": null
                     *       },
                     *       "expiresAt": "2026-11-22T09:15:00.000Z"
                     *     }
                     */
                    "application/json": components["schemas"]["ExchangedKey"];
                };
            };
        };
    };
    receiveEvent: {
        parameters: {
            query?: never;
            header: {
                /**
                 * @description The ID of the message, the same in all attempts
                 * @example evt_4711_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7
                 */
                "webhook-id": string;
                /**
                 * @description The time of the attempt, in seconds since 1970
                 * @example 1795338250
                 */
                "webhook-timestamp": string;
                /**
                 * @description The signatures, separated by spaces
                 * @example v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
                 */
                "webhook-signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "data": {
                 *         "job": {
                 *           "id": "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
                 *           "status": "completed",
                 *           "source": {
                 *             "repository": "https://github.com/example/shop.git",
                 *             "ref": "main"
                 *           },
                 *           "model": "anthropic/claude-sonnet-5-5",
                 *           "prLink": "https://journeyman.example.com/projects/shop/pulls/7",
                 *           "createdAt": "2026-11-22T09:00:00.000Z",
                 *           "archivedAt": null
                 *         },
                 *         "projectId": "shop",
                 *         "title": "Add a search field to the list of orders.",
                 *         "messageId": null,
                 *         "runId": null,
                 *         "pullRequest": null,
                 *         "reason": null
                 *       },
                 *       "type": "job.completed",
                 *       "timestamp": "2026-11-22T09:04:10.512Z"
                 *     }
                 */
                "application/json": components["schemas"]["WebhookBody"];
            };
        };
        responses: {
            /** @description Accepted; any status from 200 to 299 has this effect */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The endpoint is gone: the webhook is disabled */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A failure: the event is sent again later */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
