// Calls each operation of the HTTP interface, with the objects that it needs.
//
// The reference at /docs of a server shows each region as the example of the operation that it is named after. The
// server needs a project "shop" with the test model and a commit, and no project "cafe".

import { Journeyman } from "@journeyman/client";

const client = new Journeyman();

// Projects

// #region testNewProject
const { findings } = await client.projects.testNew({ id: "cafe", repository: "local:shop" });
for (const { health, text } of findings) console.log(health, text);
// #endregion

// #region createProject
const project = await client.projects.create({
  id: "cafe",
  repository: "local:cafe",
  limits: { budget: { runMicros: 5_000_000 } }, // 5 US dollars for each run
});
console.log(project.id, project.repository);
// #endregion

// #region listProjects
for await (const { id, repository } of client.projects.list()) console.log(id, repository);
// #endregion

// #region getProject
const { data, response } = await client.projects.get("cafe").withResponse();
console.log(data.agent, data.model, response.etag);
// #endregion

// #region changeProject
const changed = await client.projects.update("cafe", { setup: "npm ci" }, { ifMatch: response.etag });
console.log(changed.setup);
// #endregion

// #region testProject
const tested = await client.projects.test("shop", { setup: "true" });
console.log(tested.findings.every(({ health }) => health === "ok"));
// #endregion

// #region deleteProject
await client.projects.delete("cafe");
// #endregion

// Code hosts

// #region createCodeHost
const host = await client.codeHosts.create({
  id: "gitea",
  kind: "gitea",
  url: "http://127.0.0.1:9",
  token: "a token of the code host",
});
console.log(host.webhookUrl);
// #endregion

// #region listCodeHosts
for await (const { id, kind, url } of client.codeHosts.list()) console.log(id, kind, url);
// #endregion

// #region getCodeHost
const found = await client.codeHosts.get("gitea").withResponse();
console.log(found.data.hasToken, found.response.etag);
// #endregion

// #region replaceCodeHost
const replaced = await client.codeHosts.replace(
  "gitea",
  { kind: "gitea", url: "http://127.0.0.1:9", trustedBots: ["4711"] },
  { ifMatch: found.response.etag },
);
console.log(replaced.trustedBots);
// #endregion

// #region checkCodeHost
const checked = await client.codeHosts.check("gitea");
for (const { health, text } of checked.findings) console.log(health, text);
// #endregion

// #region removeCodeHost
await client.codeHosts.remove("gitea");
// #endregion

// #region listInbox
for await (const event of client.inbox.listAll({ state: "failed" })) console.log(event.receivedAt, event.detail);
// #endregion

// #region listProjectInbox
for await (const event of client.inbox.list("shop")) console.log(event.receivedAt, event.event, event.outcome);
// #endregion

// Keys

// #region getMe
const me = await client.me();
console.log(me.key.name, me.key.scopes, me.managesProjects);
// #endregion

// #region createKey
const key = await client.keys.create({ name: "ci", scopes: ["jobs"], projects: ["shop"] });
console.log(key.secret.length); // store it now: no other response contains it
// #endregion

// #region listKeys
for await (const { id, name, lastUsedAt } of client.keys.list()) console.log(id, name, lastUsedAt);
// #endregion

const keyId = key.id;
// #region getKey
const { name, expiresAt, revokedAt } = await client.keys.get(keyId);
console.log(name, expiresAt, revokedAt);
// #endregion

// #region rotateKey
const rotated = await client.keys.rotate(keyId, { keepOldSeconds: 3600 });
console.log(rotated.secret.length); // the old secret works for an hour more
// #endregion

// #region revokeKey
await client.keys.revoke(keyId);
// #endregion

// Webhooks

// #region createWebhook
const webhook = await client.webhooks.create("shop", {
  url: "https://hooks.example.com/journeyman",
  events: ["job.created", "job.completed", "job.failed"],
});
console.log(webhook.secret.length); // verifies the requests; no other response contains it
// #endregion

// #region listWebhooks
for await (const { id, url, enabled } of client.webhooks.list("shop")) console.log(id, url, enabled);
// #endregion

const webhookId = webhook.id;
// #region getWebhook
console.log((await client.webhooks.get("shop", webhookId)).events);
// #endregion

// #region changeWebhook
console.log(await client.webhooks.update("shop", webhookId, { description: "The CI" }));
// #endregion

// #region rotateWebhook
const newSecret = await client.webhooks.rotate("shop", webhookId, { keepOldSeconds: 3600 });
console.log(newSecret.secret.length); // requests are signed with both secrets for an hour
// #endregion

// #region testWebhook
const attempt = await client.webhooks.test("shop", webhookId);
console.log(attempt.status, attempt.error);
// #endregion

// Jobs and messages

let cursor = await client.events.newestCursor();
// #region createJob
const job = await client.jobs.create("shop", {
  prompt: "Add a search field to the list of orders. [[write search.txt|Search]]",
  labels: ["ui"],
  metadata: { ticket: "SHOP-12" },
});
await job.wait({ timeout: 600_000 }); // until it is completed, failed or archived
console.log(job.status, job.prLink);
// #endregion

const jobId = job.id;
// #region getJob
const record = await client.jobs.get("shop", jobId, { wait: 30 }); // returns earlier if the job is not active
console.log(record.status);
// #endregion

// #region getJobDetails
const details = await client.jobs.details("shop", jobId);
console.log(details.author, details.labels, details.usage.costMicros);
// #endregion

// #region sendMessage
const answered = await job.ask("Also search by customer name.", { timeout: 600_000 });
console.log(answered.status, answered.answer);
// #endregion

const messageId = answered.id;
// #region getMessage
const message = await client.messages.get("shop", jobId, messageId);
console.log(message.status, message.commits);
// #endregion

// #region listMessages
for await (const { status, prompt } of client.messages.list("shop", jobId)) console.log(status, prompt);
// #endregion

// #region listRuns
for await (const run of client.jobs.runs("shop", jobId)) console.log(run.id, run.status, run.usage.costMicros);
// #endregion

// #region getDiff
console.log(await client.jobs.diff("shop", jobId));
// #endregion

// #region listJobPulls
for await (const { title, state, url } of client.jobs.pulls("shop", jobId)) console.log(title, state, url);
// #endregion

// #region getJobChecks
const { result, checks } = await client.jobs.checks("shop", jobId);
console.log(
  result,
  checks.map((check) => check.name),
);
// #endregion

// #region listJobs
for await (const { id, prLink } of client.jobs.list("shop", { status: "completed" })) console.log(id, prLink);
// #endregion

// #region listProjectJobs
const query = { label: ["ui"], metadata: ["ticket:SHOP-12"] };
for await (const { id, branch } of client.jobs.listDetails("shop", query)) console.log(id, branch);
// #endregion

// #region listAllJobs
for await (const { id, failure } of client.jobs.listAll({ status: "failed" })) console.log(id, failure?.code);
// #endregion

// Events

// #region listEvents
for await (const { seq, type } of client.jobs.events("shop", jobId)) console.log(seq, type);
// #endregion

// #region streamEvents
for await (const event of client.jobs.stream("shop", jobId)) {
  console.log(event.seq, event.type);
  if (event.type === "job.completed" || event.type === "job.failed") break;
}
// #endregion

// #region listProjectEvents
const ends = client.events.list({ project: "shop", type: ["job.completed", "job.failed"] });
for await (const { id, type, data } of ends) console.log(id, type, data.job.id);
// #endregion

// #region listAllEvents
for await (const page of client.events.list({ cursor }).pages()) {
  console.log(page.items.length);
  cursor = page.nextCursor ?? cursor; // store it, to continue after a restart
}
// #endregion

cursor = "0";
// #region streamProjectEvents
for await (const { type, data } of client.events.stream({ project: "shop", cursor })) {
  console.log(type, data.job.id);
  if (type === "job.completed") break;
}
// #endregion

// #region streamAllEvents
for await (const { data } of client.events.stream({ type: ["job.completed"], cursor })) {
  console.log(data.projectId, data.job.prLink);
  break; // without it, the loop waits for the next event
}
// #endregion

// The end of a job

{
  const slow = await client.jobs.create("shop", { prompt: "[[sleep 30]]" });
  const jobId = slow.id;
  const messageId = (await slow.send("And the tests, please.")).id;
  // #region withdrawMessage
  const job = await client.messages.withdraw("shop", jobId, messageId);
  console.log(job.status);
  // #endregion

  // #region retryJob
  console.log((await client.jobs.retry("shop", jobId)).status); // if it waits: starts the next attempt now
  // #endregion

  // #region cancelJob
  console.log((await client.jobs.cancel("shop", jobId)).status);
  // #endregion

  // #region archiveJob
  console.log((await client.jobs.archive("shop", jobId)).record.archivedAt);
  // #endregion

  // #region unarchiveJob
  console.log((await client.jobs.unarchive("shop", jobId)).status);
  // #endregion

  // #region deleteJob
  await client.jobs.delete("shop", jobId);
  // #endregion
}

// Deliveries

// #region listDeliveries
for await (const { id, state, attempts } of client.webhooks.deliveries("shop", webhookId)) {
  console.log(id, state, attempts);
}
// #endregion

const [delivery] = await client.webhooks.deliveries("shop", webhookId).toArray(1);
const deliveryId = delivery?.id ?? "";
// #region redeliver
await client.webhooks.redeliver("shop", webhookId, deliveryId);
// #endregion

// #region replayWebhook
const since = new Date(Date.now() - 3_600_000).toISOString();
console.log((await client.webhooks.replay("shop", webhookId, since)).deliveries);
// #endregion

// #region deleteWebhook
await client.webhooks.delete("shop", webhookId);
// #endregion

// Reports, and the settings of the server

// #region getUsage
const report = await client.usage.get({ groupBy: ["day", "model"], project: ["shop"] });
console.log(report.total.runs, report.total.costMicros);
// #endregion

// #region listAudit
for (const { at, actorName, action } of await client.audit.list().toArray(10)) console.log(at, actorName, action);
// #endregion

// #region exportAudit
console.log(await client.audit.export()); // CSV
// #endregion

// #region listAgents
for (const agent of await client.agents()) console.log(agent.id);
// #endregion

// #region listModels
for (const { id, ready } of await client.models()) console.log(id, ready);
// #endregion

// #region getSystem
console.log((await client.system()).version);
// #endregion
