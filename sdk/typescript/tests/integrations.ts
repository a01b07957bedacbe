import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import {
  ApiError,
  AuthenticationError,
  ConflictError,
  Journeyman,
  NotFoundError,
  PermissionDeniedError,
  PreconditionFailedError,
} from "@journeyman/client";
import { AUDIENCE, BOT_TOKEN, issuer, sign } from "./stand-ins.js";
import { client, Receiver, recordedFetch, rejected, url } from "./support.js";

const rule = { issuer, audience: AUDIENCE, projects: ["jobs"] };

test("trusts are created, listed, changed, and deleted", async () => {
  const made = await client.trusts.create({ name: "ci", ...rule, claims: { repository: "acme/shop" } });
  assert.deepEqual([made.claims, made.scope, made.lastUsedAt], [{ repository: "acme/shop" }, "jobs", null]);
  const again = client.trusts.create({ name: "ci", ...rule, claims: { repository: "acme/other" } });
  assert.equal((await rejected(again, ConflictError)).code, "trust_exists");
  const { data, response } = await client.trusts.get(made.id).withResponse();
  assert.deepEqual(data, made);
  assert.deepEqual(await client.trusts.list({ limit: 1 }).toArray(), [made]);
  const changed = await client.trusts.update(made.id, { scope: "read" }, { ifMatch: response.etag });
  assert.equal(changed.scope, "read");
  await rejected(client.trusts.delete(made.id, { ifMatch: response.etag }), PreconditionFailedError);
  await client.trusts.delete(made.id);
  await client.trusts.delete(made.id);
  await rejected(client.trusts.get(made.id), NotFoundError);
});

test("a token is exchanged for a key, whose secret is not printed", async () => {
  const trust = await client.trusts.create({ name: "exchanged", ...rule, claims: { repository: "acme/shop" } });
  const token = sign({ repository: "acme/shop" });
  const exchanged = await Journeyman.exchangeToken(token, { url, trust: "exchanged", fetch: recordedFetch });
  assert.ok(exchanged.secret);
  assert.ok(!`${inspect(exchanged)} ${JSON.stringify(exchanged)}`.includes(exchanged.secret));
  const short = new Journeyman({ url, key: exchanged.secret });
  const { key } = await short.me();
  assert.deepEqual([key.id, key.projects, key.scopes], [exchanged.key.id, ["jobs"], ["jobs"]]);
  await client.trusts.delete(trust.id);
  await rejected(short.me(), AuthenticationError);
});

test("a token that no trust accepts, or that is forged, is refused", async () => {
  const untrusted = await rejected(Journeyman.exchangeToken(sign({}), { url }), PermissionDeniedError);
  assert.equal(untrusted.code, "token_not_trusted");
  const trust = await client.trusts.create({ name: "refused", ...rule, claims: { sub: "ci" } });
  const forged = sign({}).replace(/\.[^.]*$/, ".AAAA");
  const refused = await rejected(Journeyman.exchangeToken(forged, { url }), AuthenticationError);
  assert.equal(refused.code, "token_refused");
  await client.trusts.delete(trust.id);
});

test("an exchange is repeated, and sends no key", async () => {
  const receiver = await Receiver.start();
  receiver.answer(
    { status: 503 },
    { status: 403, body: { error: "no", code: "token_not_trusted", requestId: "req_1" } },
  );
  process.env.JOURNEYMAN_KEY = "jmn_of_the_environment";
  try {
    await rejected(Journeyman.exchangeToken("a.b.c", { url: receiver.url }), PermissionDeniedError);
  } finally {
    delete process.env.JOURNEYMAN_KEY;
  }
  assert.deepEqual(
    receiver.requests.map(({ headers, body }) => [headers.authorization, body]),
    Array(2).fill([undefined, '{"token":"a.b.c"}']),
  );
});

test("Slack workspaces are connected, changed, checked, and removed", async () => {
  const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5";
  const wrong = await rejected(client.slack.create({ botToken: "xoxb-wrong", signingSecret }), ApiError);
  assert.deepEqual([wrong.status, wrong.code], [422, "slack_failed"]);
  const made = await client.slack.create({ botToken: BOT_TOKEN, signingSecret, channels: { C1: "jobs" } });
  assert.deepEqual([made.name, made.hasBotToken, made.channels], ["Acme", true, { C1: "jobs" }]);
  const again = client.slack.create({ botToken: BOT_TOKEN, signingSecret });
  assert.equal((await rejected(again, ConflictError)).code, "slack_workspace_exists");
  const { data, response } = await client.slack.get(made.id).withResponse();
  assert.deepEqual(data, made);
  assert.deepEqual(await client.slack.list(), [made]);
  const changes = { channels: { C1: null, C2: "jobs" } };
  const changed = await client.slack.update(made.id, changes, { ifMatch: response.etag });
  assert.deepEqual(changed.channels, { C2: "jobs" });
  await rejected(client.slack.remove(made.id, { ifMatch: response.etag }), PreconditionFailedError);
  assert.ok((await client.slack.check(made.id)).findings.some(({ health }) => health === "ok"));
  assert.deepEqual(await client.slack.events(made.id, { limit: 2 }).toArray(), []);
  assert.deepEqual(await client.slack.posts(made.id, { limit: 2 }).toArray(), []);
  await rejected(client.slack.createCode(), PermissionDeniedError); // the key belongs to no user
  await client.slack.remove(made.id);
  await rejected(client.slack.get(made.id), NotFoundError);
});
