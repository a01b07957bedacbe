import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { ConflictError, Job, NotFoundError, PreconditionFailedError, WaitTimeoutError } from "@journeyman/client";
import { client, makeProject, rejected, release, WAIT_MS } from "./support.js";

const project = await makeProject("jobs");

test("a job is created, waited for, and continued with a follow-up message", async () => {
  const job = await client.jobs.create(project, {
    prompt: "Greet [[write hello.txt|Hello]] [[say Done.]]",
    labels: ["greeting"],
    metadata: { ticket: "SHOP-12" },
  });
  assert.ok(job instanceof Job);
  assert.equal(job.status, "active");
  assert.equal(job.prLink, null);
  assert.equal(await job.wait({ timeout: WAIT_MS }), job);
  assert.equal(job.status, "completed");
  const link = job.prLink;
  assert.match(link ?? "", /^http/);
  assert.deepEqual(Object.keys(job.toJSON()), ["id", "status", "source", "model", "prLink", "createdAt", "archivedAt"]);
  assert.match(await job.diff(), /\+Hello/);

  const sent = await job.send("Louder [[write hello.txt|HELLO]]");
  assert.equal(sent.job, job);
  assert.equal(job.status, "active");
  await job.wait();
  assert.equal(job.status, "completed");
  assert.equal(job.prLink, link);
  assert.match(await job.diff(), /\+HELLO/);

  const messages = await job.messages().toArray();
  assert.deepEqual(
    messages.map(({ status, answer }) => [status, answer?.includes("Done.")]),
    [
      ["finished", true],
      ["finished", false],
    ],
  );
  assert.deepEqual(await sent.get(), messages[1]);
  assert.deepEqual(await sent.wait(), messages[1]);
  assert.deepEqual(await job.message(sent.id), messages[1]);
  assert.equal(await job.answer(), messages[1]?.answer);
  assert.equal((await job.runs().toArray()).length, 2);
  assert.equal((await client.runs.list(project, job.id).toArray())[1]?.status, "succeeded");
  assert.equal((await job.pulls().toArray())[0]?.state, "open");
  assert.equal((await job.checks()).attempts, 0);
  const details = await job.details();
  assert.deepEqual([details.labels, details.metadata], [["greeting"], { ticket: "SHOP-12" }]);
  assert.equal(details.queueLength, 0);
});

test("a message by the ID of the job can be waited for", async () => {
  const { id } = await client.jobs.create(project, { prompt: "One [[write one.txt|1]]" });
  const sent = await client.messages.send(project, id, { prompt: "Two [[write two.txt|2]]", delivery: "queue" });
  const message = await client.messages.wait(project, id, sent.id, { timeout: WAIT_MS });
  assert.deepEqual([message.id, message.status, message.commits.length], [sent.id, "finished", 1]);
  assert.equal(sent.job.id, id);
  await sent.job.wait();
  assert.equal((await client.messages.list(project, id).toArray()).length, 2);
  const error = await rejected(client.messages.get(project, id, "msg_x"), NotFoundError);
  assert.equal(error.code, "message_not_found");
});

test("each answer belongs to its message", async () => {
  const job = await client.jobs.create(project, { prompt: "First [[say First]]" });
  const sent = await Promise.all(["a", "b", "c"].map((name) => job.send(`Say it [[say letter ${name}]]`)));
  const asked = await job.ask("Say it [[say Last]]", { timeout: WAIT_MS, idempotencyKey: "last" });
  assert.match(asked.answer ?? "", /Last/);
  assert.equal(job.status, "completed");
  const answers = await Promise.all(sent.map((message) => message.wait()));
  for (const [at, name] of ["a", "b", "c"].entries()) assert.match(answers[at]?.answer ?? "", RegExp(`letter ${name}`));
  assert.equal((await job.ask("Say it [[say Last]]", { idempotencyKey: "last" })).id, asked.id);
});

test("a wait for a message ends before the messages behind it, and has a timeout", async () => {
  const job = await client.jobs.create(project, { prompt: "Wait [[hold]]" });
  const quick = await job.send("Quick [[say Quick]]");
  const slow = await job.send("Slow [[sleep 3600]]");
  await release(job.id);
  assert.match((await quick.wait({ timeout: WAIT_MS })).answer ?? "", /Quick/);
  assert.equal(job.status, "active");
  const late = await rejected(slow.wait({ timeout: 200 }), WaitTimeoutError);
  assert.ok(late.message.includes(slow.id));
  const reason = new Error("enough");
  const canceled = slow.wait({ signal: AbortSignal.abort(reason) });
  assert.equal(await canceled.catch((error: unknown) => error), reason);
  await job.cancel();
  assert.equal((await slow.wait({ timeout: WAIT_MS })).status, "cancelled");
  assert.equal(job.status, "failed");
});

test("a wait has a timeout and can be canceled; an active job can be canceled, archived, and deleted", async () => {
  const job = await client.jobs.create(project, { prompt: "Wait [[sleep 3600]]" });
  await rejected(job.wait({ timeout: 300 }), WaitTimeoutError);
  assert.equal(job.status, "active");
  const error = await rejected(job.wait({ signal: AbortSignal.timeout(100) }), DOMException);
  assert.equal(error.name, "TimeoutError");

  const queued = await job.send("Later");
  assert.equal((await queued.get()).status, "queued");
  await job.withdraw(queued.id);
  await job.withdraw(queued.id);
  assert.equal((await queued.wait()).status, "withdrawn");
  assert.equal((await rejected(job.send({ prompt: "No", delivery: "reject" }), ConflictError)).code, "job_busy");
  assert.equal((await rejected(job.delete(), ConflictError)).code, "job_busy");
  await job.retry();

  await job.cancel();
  await job.wait();
  assert.equal(job.status, "failed");
  assert.equal((await job.details()).failure?.code, "cancelled");

  await job.archive();
  assert.equal(job.status, "archived");
  assert.ok(job.archivedAt);
  const refused = await rejected(job.send("More"), ConflictError);
  assert.equal(refused.code, "job_archived");
  assert.equal(refused.status, 409);
  assert.match(refused.requestId ?? "", /^req_/);
  await job.unarchive();
  assert.equal(job.status, "failed");

  const { response } = await client.jobs.get(project, job.id).withResponse();
  await job.archive();
  await rejected(job.delete({ ifMatch: response.etag }), PreconditionFailedError);
  await job.delete();
  await job.delete();
  assert.equal((await rejected(job.refresh(), NotFoundError)).code, "job_not_found");
});

test("lists of jobs have filters and pages", async () => {
  const created = [];
  for (const name of ["a", "b", "c", "d", "e"]) {
    created.push(await client.jobs.create(project, { prompt: `Page ${name} [[say ${name}]]`, labels: ["pages"] }));
  }
  const ids = created.map((job) => job.id).reverse();
  const query = { label: ["pages"], limit: 2 };
  const found: string[] = [];
  for await (const job of client.jobs.list(project, query)) found.push(job.id);
  assert.deepEqual(found, ids);
  const details = await client.jobs.listDetails(project, query).toArray();
  assert.deepEqual(
    details.map((job) => job.id),
    ids,
  );
  assert.equal((await client.jobs.listAll(query).toArray(3)).length, 3);

  const first = await client.jobs.list(project, query).firstPage();
  assert.equal(first.items.length, 2);
  const rest = client.jobs.list(project, { ...query, cursor: first.nextCursor ?? "" });
  assert.deepEqual(
    (await rest.toArray()).map((job) => job.id),
    ids.slice(2),
  );
  await Promise.all(created.map((job) => job.wait()));
});

test("a job shows its record", async () => {
  const [job] = await client.jobs.list(project).toArray(1);
  assert.ok(job);
  assert.deepEqual(JSON.parse(JSON.stringify(job)), job.record);
  assert.match(inspect(job), new RegExp(job.id));
});
