// Calls the operations on jobs, messages, events and webhooks.
//
// The reference at /docs of a server shows each region as the example of the operation that it is named after. The
// server needs a project "shop" with the test model and a commit.

import { Journeyman } from "@journeyman/client";

const client = new Journeyman();

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

// #region listPulls
for await (const { number, title } of client.pulls.list("shop", { state: "open" })) console.log(number, title);
// #endregion

const number = (await client.pulls.list("shop").toArray()).find((pull) => pull.job === jobId)?.number ?? 0;
// #region getPull
const pull = await client.pulls.get("shop", number);
console.log(pull.mergeable, pull.body);
// #endregion

const [branch, title, why] = [pull.head, pull.title ?? "", pull.body ?? ""];
// #region openPull
const mine = await client.pulls.open("shop", { head: branch, title, body: why });
console.log(mine.number, mine.url);
// #endregion

// #region mergePull
const merged = await client.pulls.merge("shop", number, { method: "squash" });
console.log(merged.state, merged.endedAt);
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
  const slow = await client.jobs.create("shop", { prompt: "[[sleep 3600]]" });
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

// The service prepares deliveries shortly after the events.
while ((await client.webhooks.deliveries("shop", webhookId).toArray(1)).length === 0) {
  await new Promise((resolve) => setTimeout(resolve, 100));
}
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
