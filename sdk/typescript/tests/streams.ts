import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AuthenticationError,
  CursorExpiredError,
  type FeedEvent,
  type JobEvent,
  Journeyman,
  NotFoundError,
} from "@journeyman/client";
import { client, key, LossyProxy, makeProject, rejected, WAIT_MS } from "./support.js";

const project = await makeProject("streams");

test("a stream of a job resumes after lost connections without losing or repeating events", async () => {
  const proxy = await LossyProxy.start();
  const remote = new Journeyman({ url: proxy.url, key });
  const job = await remote.jobs.create(project, { prompt: "Greet [[write hello.txt|Hello]]" });
  await job.wait();
  const stored = await client.jobs.events(project, job.id, { limit: 3 }).toArray();
  assert.ok(stored.length > 5);

  // Each connection is lost within an event, except that the second one is lost within the head.
  proxy.lose(900, 40, 1_000, 1_100);
  const received: JobEvent[] = [];
  for await (const event of job.stream()) {
    received.push(event);
    if (event.type === "job.completed") break;
  }
  assert.deepEqual(received, stored);
  assert.equal(proxy.pending, 0);

  // New events continue after a connection that was lost while it was quiet.
  const stream = job.stream({ after: received.length });
  const next = stream.next();
  await job.send("Again [[write again.txt|Again]]");
  assert.equal((await next).value?.type, "message.accepted");
  proxy.cut();
  let seq = received.length + 1;
  for await (const event of stream) {
    seq += 1;
    assert.equal(event.seq, seq);
    if (event.type === "job.completed") break;
  }
});

test("a stream ends with an error response, or with the signal", async () => {
  await rejected(client.jobs.stream(project, "job_0").next(), NotFoundError);
  const stranger = new Journeyman({ url: client.url, key: `${key.slice(0, -1)}${key.endsWith("0") ? "1" : "0"}` });
  await rejected(stranger.events.stream().next(), AuthenticationError);
  await rejected(client.events.stream({ cursor: "999999" }).next(), CursorExpiredError);
  await rejected(client.events.stream({ project, cursor: "999999" }).next(), CursorExpiredError);

  const controller = new AbortController();
  const next = client.events.stream({ signal: controller.signal }).next();
  const reason = new Error("enough");
  controller.abort(reason);
  assert.equal(await next.catch((error: unknown) => error), reason);
});

test("the feed is streamed and listed with the same cursors", async () => {
  const proxy = await LossyProxy.start();
  const remote = new Journeyman({ url: proxy.url, key });
  const [oldest] = await client.events.list({ project }).toArray(1);
  const { nextCursor } = await client.events.list({ project, limit: 1 }).firstPage();
  assert.equal(nextCursor, oldest?.id);
  const cursor = await client.events.newestCursor();
  assert.deepEqual(await client.events.list({ cursor }).toArray(), []);
  const job = await remote.jobs.create(project, { prompt: "Greet [[write feed.txt|Hello]]" });

  const received: FeedEvent[] = [];
  proxy.lose(100, 700);
  for await (const event of remote.events.stream({ project, cursor })) {
    received.push(event);
    if (event.type === "pull_request.opened") assert.ok(event.data.pullRequest.number);
    if (event.type === "job.completed") break;
  }
  assert.deepEqual(
    received.map((event) => event.type),
    ["job.created", "pull_request.opened", "message.finished", "job.completed"],
  );
  assert.equal(proxy.pending, 0);
  assert.deepEqual(await client.events.list({ project, cursor, limit: 2 }).toArray(), received);
  const completed = await client.events.list({ cursor, type: ["job.completed"] }).toArray();
  assert.deepEqual(completed, received.slice(-1));
  assert.equal(completed[0]?.data.job.id, job.id);
});

test("a stream without a cursor loses no event if connections are lost before the first event", async () => {
  const proxy = await LossyProxy.start();
  const cursors: (string | null)[] = [];
  const remote = new Journeyman({
    url: proxy.url,
    key,
    fetch: (target, init) => {
      cursors.push(new Headers(init.headers).get("last-event-id"));
      return fetch(target, init);
    },
  });
  const stream = remote.events.stream({ project, type: ["job.created", "job.completed"] });
  const next = stream.next();
  // A connection that is lost before its cursor arrives leads to one without `Last-Event-ID`. Each connection has twice
  // the time of the one before it, so that its cursor arrives at last.
  for (let time = 50; !cursors.at(-1); time *= 2) {
    assert.ok(time < WAIT_MS, "no cursor arrives");
    await sleep(time);
    proxy.cut();
  }
  const { id } = await client.jobs.create(project, { prompt: "Say [[say Hello]]" });
  proxy.cut();
  const first = (await next).value;
  assert.deepEqual([first?.type, first?.data.job.id], ["job.created", id]);
  assert.equal((await stream.next()).value?.type, "job.completed");
  assert.ok(cursors.length > 1);
  await stream.return();
});

test("events of unknown types pass", async () => {
  const event = { id: "7", type: "job.paused", data: { job: { id: "job_1" } } };
  const text = `id: 6\n\nid: 7\ndata: ${JSON.stringify(event)}\n\n`;
  const { client: fake } = fakeClient([new TextEncoder().encode(text)], [new TextEncoder().encode(text)]);
  const stream = fake.events.stream({ type: ["job.paused", "job.created"] });
  assert.deepEqual((await stream.next()).value, event);
  await stream.return();
  assert.equal(await fake.events.newestCursor(), "6");
});

/** A client whose connections to streams receive these chunks, and then stay open, or end at an `undefined`. */
function fakeClient(...connections: (Uint8Array | undefined)[][]) {
  const requests: Headers[] = [];
  const fetch = async (_: string, { headers, signal }: RequestInit) => {
    requests.push(new Headers(headers));
    const chunks = connections.shift() ?? [];
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const chunk of chunks) chunk ? controller.enqueue(chunk) : controller.close();
        signal?.addEventListener("abort", () => !chunks.includes(undefined) && controller.error(signal.reason));
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  return { requests, client: new Journeyman({ url: "http://127.0.0.1:1", key, fetch }) };
}

test("all forms of server-sent events are parsed, wherever the chunks end", async () => {
  const text = [
    ': a comment\r\nid: 3\r\nevent: x\r\ndata: {"seq":\r\ndata:3}\r\n\r\n',
    'id\ndata: {"seq": "ü"}\n\nid: 7\n\n\n: still here\n\ndata: {"seq": 8}\n\ndata: {"seq": 9',
  ];
  const bytes = new TextEncoder().encode(text.join(""));
  for (const size of [1, 2, 3, 1_000]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
      bytes.slice(at * size, (at + 1) * size),
    );
    const fake = fakeClient([...chunks, undefined], [new TextEncoder().encode('data: {"seq": 9}\n\n')]);
    const found: unknown[] = [];
    for await (const event of fake.client.jobs.stream("shop", "job_1", { after: 2 })) {
      found.push(event.seq);
      if (event.seq === 9) break;
    }
    assert.deepEqual(found, [3, "ü", 8, 9]);
    assert.deepEqual(
      fake.requests.map((headers) => headers.get("last-event-id")),
      [null, "7"],
    );
  }
});

test("a silent connection counts as lost", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    const fake = fakeClient([], [new TextEncoder().encode('data: {"seq": 1}\n\n')]);
    const stream = fake.client.jobs.stream("shop", "job_1");
    let isDone = false;
    const next = stream.next().finally(() => {
      isDone = true;
    });
    for (let seconds = 0; !isDone; seconds += 1) {
      assert.equal(fake.requests.length, seconds <= 45 ? 1 : fake.requests.length, `after ${seconds} s`);
      mock.timers.tick(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal((await next).value?.seq, 1);
    assert.equal(fake.requests.length, 2);
    await stream.return();
  } finally {
    mock.timers.reset();
  }
});
