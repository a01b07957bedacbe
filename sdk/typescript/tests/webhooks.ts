import assert from "node:assert/strict";
import { test } from "node:test";
import { ConflictError, type ProjectEventType, verifyWebhook, WebhookVerificationError } from "@journeyman/client";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { client, makeProject, type Received, Receiver, rejected } from "./support.js";

const project = await makeProject("webhooks");

/** Returns whether a request is about an event of this type. */
const about =
  (type: ProjectEventType) =>
  ({ body }: Received): boolean =>
    JSON.parse(body).type === type;

test("received webhooks are verified by this package, standardwebhooks, and svix", async () => {
  const receiver = await Receiver.start();
  const webhook = await client.webhooks.create(project, { url: receiver.url, description: "tests" });
  assert.equal((await client.webhooks.list(project, { limit: 1 }).toArray())[0]?.id, webhook.id);
  const test = await client.webhooks.test(project, webhook.id);
  assert.equal(test.status, 204);
  const job = await client.jobs.create(project, { prompt: "Greet [[write hello.txt|Hello]]" });
  const { headers, body } = await receiver.request(
    (request) => about("job.completed")(request) && request.body.includes(job.id),
  );

  const event = await verifyWebhook(body, headers, webhook.secret);
  assert.ok(event.type === "job.completed");
  assert.equal(event.data.job.id, job.id);
  assert.equal(event.data.job.status, "completed");
  const plain = headers as Record<string, string>;
  const { id, ...rest } = event;
  assert.equal(id, headers["webhook-id"]);
  assert.deepEqual(new StandardWebhook(webhook.secret).verify(body, plain), rest);
  assert.deepEqual(new SvixWebhook(webhook.secret).verify(body, plain), rest);
  const modern = new Headers(plain);
  assert.deepEqual(await verifyWebhook(new TextEncoder().encode(body), modern, ["whsec_AAAA", webhook.secret]), event);

  const refused = (given: Parameters<typeof verifyWebhook>) =>
    rejected(verifyWebhook(...given), WebhookVerificationError);
  const { secret } = webhook;
  await refused([`${body} `, headers, secret]);
  await refused([body, { ...headers, "webhook-id": "evt_1" }, secret]);
  await refused([body, { ...headers, "webhook-id": undefined }, secret]);
  await refused([body, { ...headers, "webhook-signature": "v1,%%% v2,AAAA v1,AAAA v1," }, secret]);
  await refused([body, { ...headers, "webhook-timestamp": "1e9" }, secret]);
  await refused([body, headers, "whsec_AAAA"]);
  const sent = Number(headers["webhook-timestamp"]) * 1000;
  for (const shift of [-301_000, 301_000]) await refused([body, headers, secret, { now: sent + shift }]);
  for (const shift of [-299_000, 299_000]) await verifyWebhook(body, headers, secret, { now: sent + shift });
  await verifyWebhook(body, headers, secret, { now: sent + 3_600_000, tolerance: 7_200 });
  await rejected(verifyWebhook(body, headers, "%"), TypeError);
  for (const other of ["x", "[]", "null", "{}", '{"type": "job.completed"}']) {
    const signature = new StandardWebhook(secret).sign(id, new Date(sent), other);
    await refused([other, { ...headers, "webhook-signature": signature }, secret]);
  }

  const message = receiver.requests.find(about("message.finished"));
  assert.ok(message);
  const finished = await verifyWebhook(message.body, message.headers, secret);
  assert.ok(finished.type === "message.finished");
  assert.match(finished.data.messageId, /^msg_/);
});

test("a webhook is rotated without losing events, changed, replayed, and deleted", async () => {
  const receiver = await Receiver.start();
  const { id, secret } = await client.webhooks.create(project, { url: receiver.url, events: ["job.created"] });
  const { data: rotated, response } = await client.webhooks.rotate(project, id, { keepOldSeconds: 600 }).withResponse();
  assert.notEqual(rotated.secret, secret);
  const version = async () => (await client.webhooks.get(project, id).withResponse()).response.etag;
  assert.equal(response.etag, await version());
  await (await client.jobs.create(project, { prompt: "Say [[say Hello]]" })).wait();
  const { headers, body } = await receiver.request(about("job.created"));
  for (const known of [secret, rotated.secret]) await verifyWebhook(body, headers, known);

  const [delivery] = await client.webhooks.deliveries(project, id).toArray();
  assert.ok(delivery);
  await client.webhooks.redeliver(project, id, delivery.id);
  const isSame = (request: Received) => request.headers["webhook-id"] === headers["webhook-id"];
  await receiver.request((request) => isSame(request) && request !== receiver.requests.find(isSame));
  const { deliveries } = await client.webhooks.replay(project, id, "2020-01-01T00:00:00Z");
  assert.ok(deliveries >= 2);

  const disabled = await client.webhooks
    .update(project, id, { enabled: false }, { ifMatch: await version() })
    .withResponse();
  assert.equal(disabled.data.disabledReason, "on_request");
  assert.equal(disabled.response.etag, await version());
  for (const refused of [
    () => client.webhooks.redeliver(project, id, delivery.id),
    () => client.webhooks.replay(project, id, "2020-01-01T00:00:00Z"),
  ]) {
    assert.equal((await rejected(refused(), ConflictError)).code, "webhook_disabled");
  }
  await client.webhooks.delete(project, id, { ifMatch: disabled.response.etag });
  await client.webhooks.delete(project, id);
});
