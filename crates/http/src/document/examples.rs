//! Examples of all requests and responses. The linters of `make lint-openapi` compare them with the schemas.

use journeyman_app::USAGE_COLUMNS;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

use crate::wire::project;

/// 2026-11-22 09:00 UTC.
const EXAMPLE_TIME: Timestamp = Timestamp::from_micros(1_795_338_000_000_000);

const JOB: &str = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7";
const MESSAGE: &str = "msg_019aa3bb4a2c7d10b2b1a1c5d0f3e8a8";
const RUN: &str = "run_019aa3bb4a2c7d10b2b1a1c5d0f3e8a9";
const KEY: &str = "key_019aa3bb4a2c7d10b2b1a1c5d0f3e8aa";
const TRUST: &str = "trust_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab";
const TEMPLATE: &str = "tpl_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab";
const USER: &str = "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac";
const COMMIT: &str = "1f8c0d6f7a0c4bb0a1e7c3b5d9e2f4a6b8c0d1e2";
const MERGE: &str = "7b2e91c4d5f60a8839c1b7e4f2d6a0c3e8b5917d";
const PULL: &str = "https://journeyman.example.com/projects/shop/pulls/7";
const CREATED: &str = "2026-11-22T09:00:00.000Z";
const ENDED: &str = "2026-11-22T09:04:10.512Z";

/// Adds the examples of an operation to its request and its responses.
pub(super) fn add(id: &str, operation: &mut Value) {
    if let Some(content) = operation.pointer_mut("/requestBody/content/application~1json") {
        content["example"] = request(id);
    }
    let responses = operation["responses"].as_object_mut();
    for (status, response) in responses.into_iter().flatten() {
        if let Some(content) = response.pointer_mut("/content/application~1json") {
            content["example"] = if status.starts_with('2') { answer(id) } else { error(status) };
        }
        if let Some(content) = response.pointer_mut("/content/text~1x-diff") {
            content["example"] = json!("--- a/README.md\n+++ b/README.md\n@@ -1 +1,2 @@\n # Shop\n+Open all day.\n");
        }
        if let Some(content) = response.pointer_mut("/content/text~1csv") {
            content["example"] = json!(table(id));
        }
        if let Some(content) = response.pointer_mut("/content/text~1event-stream") {
            let (number, event) =
                if matches!(id, "listEvents" | "streamEvents") { (9, completed()) } else { (4711, project_event()) };
            content["example"] = json!(format!("id: {number}\nevent: job.completed\ndata: {event}\n\n"));
            // Tools differ in whether the schema of a stream describes the whole text or one event. Only the operations
            // whose only answer is a stream have one.
            if id == "listEvents" {
                content["schema"] = json!({});
            }
        }
    }
}

fn table(id: &str) -> String {
    let (head, line) = if id == "getUsage" {
        let usage = "12,981240,44410,870112,1200000,0,0";
        (USAGE_COLUMNS.join(","), format!("2026-11-22,shop,anthropic/claude-sonnet-5-5,ci,{KEY},ci,{usage}"))
    } else {
        let head = "id,at,actor,actorName,action,subject,address".to_owned();
        (head, format!("7,{CREATED},{KEY},ci,project.changed,shop,192.0.2.7"))
    };
    format!("{head}\r\n{line}\r\n")
}

fn request(id: &str) -> Value {
    match id {
        "createJob" => json!({
            "prompt": "Add a search field to the list of orders.",
            "labels": ["ui"],
            "metadata": { "ticket": "SHOP-12" },
        }),
        "sendMessage" => json!({ "prompt": "Also search by customer name.", "delivery": "queue" }),
        "createProject" | "testNewProject" => json!({
            "id": "shop",
            "repository": "https://github.com/example/shop.git",
            "agent": "claude-code",
            "model": "anthropic/claude-sonnet-5-5",
            "effort": "high",
            "codeHost": { "token": "ghp_example" },
        }),
        "changeProject" | "testProject" => json!({ "model": "anthropic/claude-opus-5-5", "setup": "npm ci" }),
        "createCodeHost" => json!({
            "id": "gitlab",
            "kind": "gitlab",
            "url": "https://gitlab.example.com",
            "token": "glpat-example",
            "webhookSecret": "a long random text",
        }),
        "replaceCodeHost" => json!({ "kind": "gitlab", "url": "https://gitlab.example.com", "trustedBots": ["4711"] }),
        "createKey" => json!({ "name": "ci", "scopes": ["write"], "projects": ["shop"] }),
        "rotateKey" | "rotateWebhook" => json!({ "keepOldSeconds": 3600 }),
        "createWebhook" => json!({
            "url": "https://hooks.example.com/journeyman",
            "events": ["job.completed", "job.failed"],
        }),
        "changeWebhook" => json!({ "enabled": false }),
        "replayWebhook" => json!({ "since": CREATED }),
        "createUser" => json!({ "name": "ada@example.com", "role": "member" }),
        "changeUser" => json!({ "role": "viewer" }),
        "openPull" => json!({
            "head": "search-field",
            "base": "main",
            "title": "Add a search field to the list of orders.",
        }),
        "mergePull" => json!({ "method": "merge" }),
        "createTemplate" => json!({
            "name": "Fix a bug",
            "description": "For a bug report with its steps",
            "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
            "labels": ["bug"],
        }),
        "changeTemplate" => json!({ "model": "anthropic/claude-opus-5-5" }),
        "createTrust" => json!({
            "name": "shop-ci",
            "issuer": "https://token.actions.githubusercontent.com",
            "claims": { "repository": "acme/shop", "ref": "refs/heads/main" },
            "projects": ["shop"],
            "scope": "jobs",
        }),
        "changeTrust" => json!({ "scope": "read" }),
        "exchangeToken" => json!({ "token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJleGFtcGxlIn0.c2lnbmF0dXJl" }),
        "createSlackWorkspace" => json!({
            "mode": "events",
            "botToken": "xoxb-example",
            "signingSecret": "8f742231b10e8888abcd99yyyzzz85a5",
            "channels": { "C012AB3CD": "shop" },
        }),
        "changeSlackWorkspace" => json!({ "channels": { "C012AB3CD": "shop", "C045EF6GH": null } }),
        _ => json!({}),
    }
}

fn code_host() -> Value {
    json!({
        "id": "gitlab",
        "kind": "gitlab",
        "url": "https://gitlab.example.com",
        "apiUrl": null,
        "username": null,
        "appId": null,
        "appSlug": null,
        "hasToken": true,
        "hasPrivateKey": false,
        "hasWebhookSecret": true,
        "trustedBots": ["4711"],
        "definedIn": "store",
        "webhookUrl": "https://journeyman.example.com/hooks/gitlab",
        "createdAt": CREATED,
    })
}

fn slack_workspace() -> Value {
    json!({
        "id": "slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
        "name": "Acme",
        "team": "T012AB3CD",
        "botUser": "U012AB3CD",
        "mode": "events",
        "channels": { "C012AB3CD": "shop" },
        "users": { "U045EF6GH": "usr_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac" },
        "hasBotToken": true,
        "hasSigningSecret": true,
        "hasAppToken": false,
        "eventsUrl": "https://journeyman.example.com/hooks/slack/slw_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
        "createdAt": CREATED,
    })
}

fn slack_event() -> Value {
    json!({
        "id": "41",
        "receivedAt": CREATED,
        "channel": "C012AB3CD",
        "thread": "1795338000.000100",
        "ts": "1795338000.000100",
        "state": "done",
        "outcome": "job_created",
        "detail": null,
        "jobId": JOB,
        "messageId": MESSAGE,
    })
}

fn slack_post() -> Value {
    json!({
        "id": "17",
        "createdAt": CREATED,
        "channel": "C012AB3CD",
        "thread": "1795338000.000100",
        "kind": "status",
        "state": "done",
        "detail": null,
    })
}

fn inbox_event() -> Value {
    json!({
        "id": "41",
        "receivedAt": CREATED,
        "host": "github.com",
        "event": "issue_comment",
        "delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "state": "done",
        "outcome": "message",
        "detail": null,
        "attempts": 1,
        "projectId": "shop",
        "job": JOB,
        "message": MESSAGE,
        "repository": "example/shop",
        "sender": "maria",
        "url": "https://github.com/example/shop/pull/7#issuecomment-1",
    })
}

fn answer(id: &str) -> Value {
    match id {
        "createJob" | "sendMessage" | "withdrawMessage" | "retryJob" => record("active"),
        "getJob" | "unarchiveJob" => record("completed"),
        "cancelJob" => record("failed"),
        "archiveJob" => record("archived"),
        "listJobs" => json!({ "jobs": [record("completed")], "nextCursor": null }),
        "getJobDetails" => details(),
        "listAllJobs" | "listProjectJobs" => json!({ "jobs": [details()], "nextCursor": null }),
        "listJobPulls" => json!({ "pulls": [pull()], "nextCursor": null }),
        "listPulls" => json!({ "pulls": [project_pull("open", None)], "nextCursor": null }),
        "getPull" => project_pull("open", Some(true)),
        "openPull" => project_pull("open", None),
        "mergePull" => project_pull("merged", None),
        "getJobChecks" => checks(),
        "listMessages" => json!({ "messages": [message()], "nextCursor": null }),
        "getMessage" => message(),
        "listRuns" => json!({ "runs": [run()], "nextCursor": null }),
        "listInbox" | "listProjectInbox" => json!({ "events": [inbox_event()], "nextCursor": null }),
        "listEvents" => json!({ "events": [completed()], "nextAfter": 9, "hasMore": false }),
        "listProjectEvents" | "listAllEvents" => {
            json!({ "events": [project_event()], "nextCursor": "4711", "hasMore": false })
        }
        "listProjects" => json!({ "projects": [project()], "nextCursor": null }),
        "createProject" | "getProject" | "changeProject" => project(),
        "listCodeHosts" => json!({ "codeHosts": [code_host()], "nextCursor": null }),
        "createCodeHost" | "getCodeHost" | "replaceCodeHost" => code_host(),
        "listSlackWorkspaces" => json!({ "workspaces": [slack_workspace()] }),
        "createSlackWorkspace" | "getSlackWorkspace" | "changeSlackWorkspace" => slack_workspace(),
        "createSlackCode" => json!({ "code": "5f4dcc3b5aa765d61d8327deb882cf99", "expiresAt": CREATED }),
        "listSlackEvents" => json!({ "events": [slack_event()], "nextCursor": null }),
        "listSlackPosts" => json!({ "posts": [slack_post()], "nextCursor": null }),
        "checkSlackWorkspace" | "checkCodeHost" | "testNewProject" | "testProject" => json!({ "findings": [
            { "check": "webhooks", "health": "ok", "text": "the newest webhook arrived at 2026-11-22T09:00:00.000Z" },
        ] }),
        "listKeys" => json!({ "keys": [key()], "nextCursor": null }),
        "getKey" => key(),
        "createKey" | "rotateKey" => {
            let mut created = key();
            created["secret"] = json!("jmn_example000000000000000000000000000000");
            created
        }
        "listUsers" => json!({ "users": [user()], "nextCursor": null }),
        "getUser" | "changeUser" => user(),
        "createUser" => {
            let mut created = user();
            created["hasPassword"] = json!(false);
            created["signedInAt"] = Value::Null;
            created["link"] = link();
            created
        }
        "createUserLink" => link(),
        "listTemplates" => json!({ "templates": [template()], "nextCursor": null }),
        "createTemplate" | "getTemplate" | "changeTemplate" => template(),
        "listTrusts" => json!({ "trusts": [trust()], "nextCursor": null }),
        "createTrust" | "getTrust" | "changeTrust" => trust(),
        "exchangeToken" => exchanged(),
        "getMe" => json!({ "key": key(), "managesProjects": false }),
        "listAgents" => json!({ "agents": [{
            "id": "claude-code",
            "name": "Claude Code",
            "dialects": ["anthropic"],
            "asks": ["edit", "execute", "fetch"],
            "resumes": true,
        }] }),
        "listModels" => json!({ "providers": [{
            "id": "anthropic",
            "dialect": "anthropic",
            "ready": true,
            "keyVariable": "ANTHROPIC_API_KEY",
            "contextTokens": null,
            "prices": [{
                "model": "anthropic/claude-sonnet-5-5",
                "inputMicros": 2_000_000,
                "outputMicros": 10_000_000,
                "cachedMicros": 100_000,
                "cacheWrittenMicros": 2_500_000,
                "cacheWrittenLongMicros": 4_000_000,
            }],
            "pricesDate": "2026-11-20",
        }] }),
        "listWebhooks" => json!({ "webhooks": [webhook()], "nextCursor": null }),
        "getWebhook" | "changeWebhook" => webhook(),
        "createWebhook" | "rotateWebhook" => {
            let mut created = webhook();
            created["secret"] = json!("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD");
            created
        }
        "testWebhook" => attempt(),
        "listDeliveries" => json!({
            "deliveries": [{
                "id": "17",
                "eventId": "4711",
                "type": "job.completed",
                "job": JOB,
                "state": "delivered",
                "attempts": 1,
                "createdAt": ENDED,
                "nextAttemptAt": null,
                "lastAttempt": attempt(),
            }],
            "nextCursor": null,
        }),
        "replayWebhook" => json!({ "deliveries": 12 }),
        "getUsage" => usage(),
        "listAudit" => json!({
            "entries": [{
                "id": "7",
                "at": CREATED,
                "actor": KEY,
                "actorName": "ci",
                "action": "project.changed",
                "subject": "shop",
                "address": "192.0.2.7",
            }],
            "nextCursor": null,
        }),
        "getSystem" => json!({
            "version": env!("CARGO_PKG_VERSION"),
            "sandbox": {
                "kind": "bubblewrap",
                "enough": true,
                "guarantees": [{ "name": "network", "holds": true, "givenUp": false, "note": "no network but loopback" }],
            },
        }),
        _ => json!({}),
    }
}

fn error(status: &str) -> Value {
    let (code, text) = match status {
        "400" => ("invalid_body", "prompt: invalid type: integer `1`, expected a string at line 1 column 12"),
        "401" => ("unknown_key", "this API key is unknown or revoked"),
        "403" => ("scope_missing", "this API key does not have the scope \"write\", which this operation needs"),
        "404" => ("job_not_found", "there is no such job in this project"),
        "405" => (
            "method_not_allowed",
            "this path does not support this method; the Allow header lists the methods that it supports",
        ),
        "408" => ("body_timeout", "the body did not arrive within 30 s"),
        "409" => ("job_archived", "the job is archived; unarchive it first"),
        "413" => ("body_too_large", "the body has more than 1048576 bytes"),
        "415" => ("content_type_not_json", "the body must be JSON: send the header \"Content-Type: application/json\""),
        "422" => (
            "idempotency_key_reused",
            "this Idempotency-Key was used with another request in the last 24 hours; use a new key for a new request",
        ),
        "410" => (
            "cursor_expired",
            "the events after this cursor are no longer stored, or the server was restored from an earlier state; read the \
             list of jobs, and begin without a cursor",
        ),
        "412" => {
            ("precondition_failed", "the object has version 4 and not one of the versions in If-Match; read it again")
        }
        "429" => {
            ("rate_limited", "rate limit exceeded: 100 uses of \"message\" per project and hour; try again in 600 s")
        }
        "504" => (
            "outcome_unknown",
            "the store failed while it was storing the request, which may or may not be stored; send it again with the \
             same Idempotency-Key, or check whether it was stored",
        ),
        _ => ("shutting_down", "the server is shutting down; nothing was stored, try again"),
    };
    json!({ "error": text, "code": code, "requestId": "req_019aa3bb4a2c7d10b2b1a1c5d0f3e8ab" })
}

fn record(status: &str) -> Value {
    json!({
        "id": JOB,
        "status": status,
        "source": { "repository": "https://github.com/example/shop.git", "ref": "main" },
        "model": "anthropic/claude-sonnet-5-5",
        "prLink": if status == "active" || status == "failed" { Value::Null } else { json!(PULL) },
        "createdAt": CREATED,
        "archivedAt": if status == "archived" { json!(ENDED) } else { Value::Null },
    })
}

fn details() -> Value {
    json!({
        "id": JOB,
        "project": "shop",
        "status": "completed",
        "title": "Add a search field to the list of orders.",
        "source": { "repository": "https://github.com/example/shop.git", "ref": "main" },
        "agent": "claude-code",
        "model": "anthropic/claude-sonnet-5-5",
        "effort": "high",
        "author": "ci",
        "labels": ["ui"],
        "metadata": { "ticket": "SHOP-12" },
        "branch": "journeyman/add-a-search-field-19aa3bb4",
        "pullRequest": { "number": 7, "url": PULL, "state": "open" },
        "pullRequests": [{ "number": 7, "url": PULL, "state": "open" }],
        "checks": { "sha": COMMIT, "result": "passed", "settledAt": ENDED },
        "queueLength": 0,
        "waiting": null,
        "failure": null,
        "usage": { "inputTokens": 81_240, "outputTokens": 4_410, "cachedTokens": 70_112, "costMicros": 120_000,
            "estimatedMicros": 0 },
        "createdAt": CREATED,
        "archivedAt": null,
        "revision": 2,
    })
}

fn usage() -> Value {
    let sum = json!({
        "runs": 12,
        "inputTokens": 981_240,
        "outputTokens": 44_410,
        "cachedTokens": 870_112,
        "costMicros": 1_200_000,
        "estimatedMicros": 0,
        "unpriced": 0,
    });
    let mut line = json!({
        "day": "2026-11-22",
        "project": "shop",
        "model": null,
        "author": null,
        "key": null,
        "keyName": null,
    });
    for (name, number) in sum.as_object().into_iter().flatten() {
        line[name] = number.clone();
    }
    json!({ "from": "2026-11-22", "to": "2026-11-22", "total": sum, "lines": [line] })
}

fn project_pull(state: &str, mergeable: Option<bool>) -> Value {
    let mut pull = pull();
    (pull["state"], pull["job"], pull["mergeable"]) = (json!(state), json!(JOB), json!(mergeable));
    (pull["endedBy"], pull["mergeCommit"]) = (Value::Null, Value::Null);
    if state == "merged" {
        (pull["endedAt"], pull["conflicts"]) = (json!("2026-11-22T10:00:00.000Z"), Value::Null);
        (pull["behind"], pull["comparedAt"]) = (Value::Null, Value::Null);
        (pull["endedBy"], pull["mergeCommit"]) = (json!("ada"), json!(MERGE));
    }
    pull
}

fn pull() -> Value {
    json!({
        "number": 7,
        "url": PULL,
        "state": "open",
        "draft": false,
        "title": "Add a search field to the list of orders.",
        "body": "Add a search field to the list of orders.",
        "head": "journeyman/add-a-search-field-19aa3bb4",
        "base": "main",
        "labels": [],
        "conflicts": { "files": [], "more": 0 },
        "behind": 0,
        "comparedAt": ENDED,
        "notCompared": null,
        "createdAt": ENDED,
        "endedAt": null,
    })
}

fn checks() -> Value {
    json!({
        "sha": COMMIT,
        "result": "failed",
        "settledAt": ENDED,
        "checks": [{
            "name": "test",
            "state": "failed",
            "url": "https://github.com/example/shop/actions/runs/1/job/2",
            "summary": "2 tests failed",
            "flaky": false,
        }],
        "stop": null,
        "attempts": 1,
        "mostAttempts": 3,
    })
}

fn message() -> Value {
    json!({
        "id": MESSAGE,
        "prompt": "Add a search field to the list of orders.",
        "origin": "api",
        "author": "ci",
        "delivery": "queue",
        "status": "finished",
        "createdAt": CREATED,
        "deliveredAt": CREATED,
        "finishedAt": ENDED,
        "runId": RUN,
        "commits": [COMMIT],
        "prLink": PULL,
        "publishedWith": null,
        "answer": "The list of orders has a search field. It filters by order number and title.",
        "leftOut": [],
        "leftOutMore": 0,
        "carriedOver": null,
        "source": null,
        "checks": ["unit passed", "lint passed"],
    })
}

fn run() -> Value {
    json!({
        "id": RUN,
        "messageId": MESSAGE,
        "attempt": 1,
        "status": "succeeded",
        "reason": null,
        "worker": "wrk_019aa3bb4a2c7d10b2b1a1c5d0f3e8ac",
        "startedAt": CREATED,
        "finishedAt": ENDED,
        "usage": { "inputTokens": 81_240, "outputTokens": 4_410, "cachedTokens": 70_112, "costMicros": 120_000,
            "estimatedMicros": 0 },
        "commits": [COMMIT],
        "leftOut": [],
        "leftOutMore": 0,
    })
}

fn completed() -> Value {
    json!({ "seq": 9, "type": "job.completed", "at": ENDED, "runId": null, "data": {} })
}

/// Returns the body of a request to the endpoint of a webhook.
pub(super) fn sent_event() -> Value {
    let mut event = project_event();
    if let Some(event) = event.as_object_mut() {
        event.remove("id");
    }
    event
}

fn project_event() -> Value {
    json!({
        "id": "4711",
        "type": "job.completed",
        "timestamp": ENDED,
        "data": {
            "job": record("completed"),
            "projectId": "shop",
            "title": "Add a search field to the list of orders.",
            "messageId": null,
            "runId": null,
            "pullRequest": null,
            "reason": null,
        },
    })
}

fn user() -> Value {
    json!({
        "id": USER,
        "name": "ada@example.com",
        "role": "member",
        "hasPassword": true,
        "hasIdentity": false,
        "createdAt": CREATED,
        "signedInAt": ENDED,
        "disabledAt": null,
    })
}

fn link() -> Value {
    json!({ "url": "https://journeyman.example.com/setup?link=0123456789abcdef", "expiresAt": "2026-11-29T09:00:00.000Z" })
}

fn template() -> Value {
    json!({
        "id": TEMPLATE,
        "name": "Fix a bug",
        "description": "For a bug report with its steps",
        "prompt": "Fix the bug below, and add a test that fails without the fix.\n\nSteps:\n",
        "agent": null,
        "model": "anthropic/claude-opus-5-5",
        "labels": ["bug"],
        "createdAt": CREATED,
    })
}

fn trust() -> Value {
    json!({
        "id": TRUST,
        "name": "shop-ci",
        "issuer": "https://token.actions.githubusercontent.com",
        "audience": "https://journeyman.example.com",
        "claims": { "repository": "acme/shop", "ref": "refs/heads/main" },
        "projects": ["shop"],
        "scope": "jobs",
        "createdAt": CREATED,
        "lastUsedAt": null,
    })
}

fn exchanged() -> Value {
    let mut made = key();
    made["name"] = json!("oidc:shop-ci:repo:acme/shop:ref:refs/heads/main");
    made["scopes"] = json!(["jobs"]);
    made["expiresAt"] = json!("2026-11-22T09:15:00.000Z");
    json!({
        "secret": "jmn_example000000000000000000000000000000",
        "key": made,
        "expiresAt": "2026-11-22T09:15:00.000Z",
    })
}

fn webhook() -> Value {
    json!({
        "id": "whk_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7",
        "url": "https://hooks.example.com/journeyman",
        "events": ["job.completed", "job.failed"],
        "format": "standard",
        "description": "",
        "enabled": true,
        "disabledReason": null,
        "failingSince": null,
        "createdAt": CREATED,
        "oldSecretUntil": null,
    })
}

fn attempt() -> Value {
    json!({ "at": ENDED, "durationMs": 84, "status": 204, "response": "", "error": null })
}

fn key() -> Value {
    json!({
        "id": KEY,
        "name": "ci",
        "prefix": "jmn_exam",
        "scopes": ["write"],
        "projects": ["shop"],
        "expiresAt": "2027-02-20T09:00:00.000Z",
        "allowedIps": null,
        "createdAt": CREATED,
        "lastUsedAt": null,
        "oldSecretUntil": null,
        "revokedAt": null,
    })
}

/// Returns an example of a project, in the form in which the server returns it.
fn project() -> Value {
    let create = json!({
        "id": "shop",
        "repository": "https://github.com/example/shop.git",
        "agent": "claude-code",
        "model": "anthropic/claude-sonnet-5-5",
        "effort": "high",
    });
    let created = project::create(create, EXAMPLE_TIME).map(|(project, _)| project);
    created.map_or(Value::Null, |created| super::json_of(&project::show(&created, "https://journeyman.example.com")))
}
