import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { inspect } from "node:util";
import {
  ApiError,
  type ApiPromise,
  AuthenticationError,
  ConnectionError,
  InvalidRequestError,
  Journeyman,
  NotFoundError,
  PermissionDeniedError,
  PreconditionFailedError,
  RateLimitError,
  ServerError,
  TimeoutError,
  UnexpectedResponseError,
} from "@journeyman/client";
import { client, key, LossyProxy, makeProject, Receiver, rejected, url, WAIT_MS } from "./support.js";

const project = await makeProject("requests");

test("a request whose response was lost is repeated, and carried out once", async () => {
  const proxy = await LossyProxy.start();
  const remote = new Journeyman({ url: proxy.url, key });
  for (const bytes of [0, 40]) {
    proxy.lose(bytes, bytes);
    const label = `lost-${bytes}`;
    const { data, response } = await remote.jobs
      .create(project, { prompt: "Say [[say Hello]]", labels: [label] })
      .withResponse();
    assert.equal(response.replayed, true);
    const jobs = await client.jobs.list(project, { label: [label] }).toArray();
    assert.deepEqual(
      jobs.map((job) => job.id),
      [data.id],
    );
    proxy.lose(bytes);
    await data.send("Again [[say Again]]");
    assert.equal((await data.messages().toArray()).length, 2);
    await data.wait();
  }
});

test("a request that cannot be repeated safely is not repeated", async () => {
  const proxy = await LossyProxy.start();
  const remote = new Journeyman({ url: proxy.url, key });
  const webhook = await client.webhooks.create(project, { url: "https://example.com/hook" });
  const { response } = await client.webhooks.get(project, webhook.id).withResponse();
  proxy.lose(0);
  await rejected(
    remote.webhooks.update(project, webhook.id, { description: "x" }, { ifMatch: response.etag }),
    ConnectionError,
  );
  assert.equal((await client.webhooks.get(project, webhook.id)).description, "x");
  proxy.lose(0);
  await rejected(remote.webhooks.replay(project, webhook.id, new Date().toISOString()), ConnectionError);
  assert.equal(proxy.pending, 0);
});

test("rotations, deletions and tests are repeated, also with ifMatch", async () => {
  const proxy = await LossyProxy.start();
  const remote = new Journeyman({ url: proxy.url, key });
  const { id } = await client.webhooks.create(project, { url: "https://example.com/hook" });
  const etag = async (read: ApiPromise<unknown>) => (await read.withResponse()).response.etag;
  const webhook = { ifMatch: await etag(client.webhooks.get(project, id)), idempotencyKey: "rotate" };
  proxy.lose(0);
  const rotated = await remote.webhooks.rotate(project, id, {}, webhook).withResponse();
  assert.equal(rotated.response.replayed, true);
  assert.equal((await client.webhooks.rotate(project, id, {}, webhook)).secret, rotated.data.secret);
  const { id: keyId } = await client.keys.create({ name: "rotated" });
  proxy.lose(0);
  await remote.keys.rotate(keyId, {}, { ifMatch: await etag(client.keys.get(keyId)) });

  proxy.lose(0);
  assert.equal((await remote.projects.test(project)).findings.length > 0, true);
  proxy.lose(0);
  await remote.webhooks.delete(project, id, { ifMatch: await etag(client.webhooks.get(project, id)) });
  proxy.lose(0);
  await remote.keys.revoke(keyId, { ifMatch: await etag(client.keys.get(keyId)) });
  const job = await client.jobs.create(project, { prompt: "Say [[say Hello]]" });
  await job.wait();
  proxy.lose(0);
  await remote.jobs.delete(project, job.id, { ifMatch: await etag(client.jobs.get(project, job.id)) });
  await client.projects.create({ id: "gone", repository: "local:gone" });
  proxy.lose(0);
  await remote.projects.delete("gone", { ifMatch: await etag(client.projects.get("gone")) });
  await client.codeHosts.create({ id: "gone", kind: "gitea", url: "http://127.0.0.1:2" });
  proxy.lose(0);
  await remote.codeHosts.remove("gone");
  assert.equal(proxy.pending, 0);
});

test("the same idempotency key in two calls creates one job", async () => {
  const job = { prompt: "Say [[say Hello]]" };
  const first = await client.jobs.create(project, job, { idempotencyKey: "order-17" });
  const again = await client.jobs.create(project, job, { idempotencyKey: "order-17" }).withResponse();
  assert.equal(again.data.id, first.id);
  assert.equal(again.response.replayed, true);
  const other = client.jobs.create(project, { prompt: "Other" }, { idempotencyKey: "order-17" });
  assert.equal((await rejected(other, InvalidRequestError)).code, "idempotency_key_reused");
  await first.wait();
});

test("temporary failures are retried with the same idempotency key", async () => {
  const server = await Receiver.start();
  const remote = new Journeyman({ url: server.url, key });
  const record = { id: "job_1", status: "active" };
  const busy = { error: "The server is overloaded.", code: "overloaded", requestId: "req_1" };
  const temporary = [
    [{ status: 502 }, { status: 503, body: busy, headers: { "retry-after": "1" } }],
    [{ status: 429, body: busy }, { status: 504 }],
  ];
  for (const failures of temporary) {
    server.requests.length = 0;
    server.answer(...failures, { status: 201, body: record });
    const timers = mock.method(globalThis, "setTimeout");
    assert.equal((await remote.jobs.create("shop", { prompt: "x" })).id, "job_1");
    timers.mock.restore();
    const delays = timers.mock.calls.map((call) => call.arguments[1]);
    // The delays of the client are random, but not below that of the header.
    if (failures === temporary[0]) assert.ok(delays.includes(1_000), `the delays are ${delays}`);
    const keys = server.requests.map(({ headers }) => headers["idempotency-key"]);
    assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
    assert.deepEqual(keys, [keys[0], keys[0], keys[0]]);
  }

  server.answer({ status: 503, body: busy });
  const error = await rejected(remote.jobs.get("shop", "job_1", { maxRetries: 0 }), ServerError);
  assert.deepEqual([error.status, error.code, error.requestId], [503, "overloaded", "req_1"]);

  // A long delay is left to the caller, and other errors are permanent.
  server.answer({ status: 429, body: busy, headers: { "retry-after": "3600" } });
  assert.equal((await rejected(remote.me(), RateLimitError)).retryAfter, 3600);
  server.answer({ status: 500 });
  assert.equal((await rejected(remote.me(), ServerError)).code, undefined);
});

test("requests have a timeout, and can be canceled", async () => {
  const server = await Receiver.start();
  let attempts = 0;
  const remote = new Journeyman({
    url: server.url,
    key,
    timeout: 100,
    maxRetries: 1,
    fetch: (target, init) => {
      attempts += 1;
      return fetch(target, init);
    },
  });
  for (let count = 0; count < 3; count += 1) server.answers.push(() => {});
  await rejected(remote.me(), TimeoutError);
  assert.equal(attempts, 2);
  const reason = new Error("enough");
  const controller = new AbortController();
  const answer = remote.me({ timeout: WAIT_MS, signal: controller.signal });
  controller.abort(reason);
  assert.equal(await answer.catch((error: unknown) => error), reason);
  assert.equal(await remote.me({ signal: AbortSignal.abort(reason) }).catch((error: unknown) => error), reason);
});

test("responses of other services are errors", async () => {
  const server = await Receiver.start();
  const remote = new Journeyman({ url: `${server.url}/prefix/`, key });
  server.answer({ status: 307, headers: { location: "https://example.com/" } });
  assert.match((await rejected(remote.me(), UnexpectedResponseError)).message, /https:\/\/example\.com/);
  server.answers.push((response) => response.writeHead(200, { "content-type": "application/json" }).end("{"));
  await rejected(remote.me(), UnexpectedResponseError);
  server.answers.push((response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>"));
  await rejected(remote.me(), UnexpectedResponseError);
  server.answers.push((response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>"));
  await rejected(remote.events.stream({ cursor: "1" }).next(), UnexpectedResponseError);
  await rejected(new Journeyman({ url: "http://127.0.0.1:1", key, maxRetries: 1 }).me(), ConnectionError);
});

test("errors have a class, a code and the ID of the request", async () => {
  const wrong = new Journeyman({ url, key: "nonsense" });
  assert.equal((await rejected(wrong.me(), AuthenticationError)).code, "malformed_key");
  const missing = await rejected(client.jobs.create("nowhere", { prompt: "x" }), NotFoundError);
  assert.equal(missing.code, "project_not_found");
  assert.ok(missing.message.includes(missing.requestId ?? "?"));
  assert.equal(
    (await rejected(client.jobs.create(project, { prompt: "" }), InvalidRequestError)).code,
    "invalid_prompt",
  );
  const reader = await client.keys.create({ name: "reader", scopes: ["read"] });
  const reading = new Journeyman({ url, key: reader.secret });
  assert.equal(
    (await rejected(reading.jobs.create(project, { prompt: "x" }), PermissionDeniedError)).code,
    "scope_missing",
  );

  await client.projects.update(project, { limits: { createPerHour: 1 } });
  await (await client.jobs.create(project, { prompt: "Say [[say Hello]]" })).wait();
  const limited = await rejected(client.jobs.create(project, { prompt: "x" }), RateLimitError);
  assert.equal(limited.code, "rate_limited");
  assert.ok((limited.retryAfter ?? 0) > 60);
  await client.projects.update(project, { limits: { createPerHour: null } });

  await rejected(client.webhooks.delete(project, ".."), TypeError);
  await rejected(client.keys.get(""), TypeError);
  assert.ok(await client.jobs.get(project, "a/../b?c#d").catch((error: unknown) => error instanceof ApiError));
});

test("a change with ifMatch is refused if the resource has another version", async () => {
  const { response } = await client.projects.get(project).withResponse();
  const ifMatch = response.etag;
  assert.match(ifMatch ?? "", /^"v\d+"$/);
  assert.equal((await client.projects.update(project, { setup: "true" }, { ifMatch })).setup, "true");
  const error = await rejected(client.projects.update(project, { setup: null }, { ifMatch }), PreconditionFailedError);
  assert.equal(error.code, "precondition_failed");
  await rejected(client.projects.update(project, { setup: null }, { ifMatch: undefined }), TypeError);
  await client.projects.update(project, { setup: null });
});

test("the key is never shown", async () => {
  const failed = await new Journeyman({ url: "http://127.0.0.1:1", key, maxRetries: 0 })
    .me()
    .catch((error: unknown) => error);
  const refused = await client.keys.get("key_0").catch((error: unknown) => error);
  const job = await client.jobs.list(project).toArray(1);
  for (const value of [client, client.jobs, failed, refused, job]) {
    assert.ok(!inspect(value, { depth: 10, showHidden: true }).includes(key));
    assert.ok(!JSON.stringify(value).includes(key));
  }
  assert.throws(
    () => new Journeyman({ url, key: "secret\nkey" }),
    (error: Error) => !/secret/.test(error.message),
  );
  assert.throws(() => new Journeyman({ url: "http://user:secret@host", key }), TypeError);
  assert.throws(() => new Journeyman({ url: "localhost:8080", key }), TypeError);
  assert.throws(() => new Journeyman({ url }), /JOURNEYMAN_KEY/);
});

test("the URL and the key come from the environment", async () => {
  Object.assign(process.env, { JOURNEYMAN_URL: url, JOURNEYMAN_KEY: `${key}\n` });
  try {
    assert.equal((await new Journeyman().me()).managesProjects, true);
  } finally {
    delete process.env.JOURNEYMAN_URL;
    delete process.env.JOURNEYMAN_KEY;
  }
});
