// Calls the server with the public A2A client for JavaScript, as server.py starts it.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  SendMessageRequest,
  SubscribeToTaskRequest,
  TaskState,
} from "@a2a-js/sdk";
import { ClientFactory, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
import {
  ContentTypeNotSupportedError,
  JsonRpcContentTypeNotSupportedError,
  JsonRpcTaskNotCancelableError,
  JsonRpcTaskNotFoundError,
  JsonRpcUnsupportedOperationError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from "@a2a-js/sdk/errors";

/** The time limit of a wait, in milliseconds. Only a hang reaches it. */
const WAIT_MS = 600_000;

const { A2A_URL: url, A2A_KEY: key, A2A_READ_KEY: readKey } = process.env;

function connect(secret) {
  const fetchImpl = (input, init) => {
    const headers = new Headers(init?.headers);
    headers.set("Authorization", `Bearer ${secret}`);
    return fetch(input, { ...init, headers });
  };
  return new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl })] }).createFromUrl(url);
}

function request(messageId, text, { returnImmediately = false, ...fields } = {}) {
  const message = { messageId, role: "ROLE_USER", parts: [{ text }], ...fields };
  return SendMessageRequest.fromJSON({ message, configuration: { returnImmediately } });
}

/** Returns the task when it has ended. */
async function polled(task) {
  const isActive = () => [TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status.state);
  const end = Date.now() + WAIT_MS;
  while (isActive()) {
    assert.ok(Date.now() < end, `the task ${task.id} did not end`);
    await sleep(100);
    task = await client.getTask(GetTaskRequest.fromJSON({ id: task.id }));
  }
  return task;
}

function texts(task) {
  return Object.fromEntries(task.artifacts.map(({ name, parts }) => [name, parts[0].content.value]));
}

function isOneOf(...kinds) {
  return (error) => kinds.some((kind) => error instanceof kind);
}

const client = await connect(key);

// Blocking, sent again, and a follow-up that is polled.
const prompt = "Add a page [[write c.txt|one]] [[say done]]";
// The server answers after 50 seconds at the latest, even if the task has not ended.
const first = await polled(await client.sendMessage(request("js-1", prompt)));
assert.equal(first.status.state, TaskState.TASK_STATE_COMPLETED);
assert.match(texts(first).answer, /done/);
assert.match(texts(first).diff, /\+one/);
assert.equal((await client.sendMessage(request("js-1", prompt))).id, first.id);
const options = { returnImmediately: true, contextId: first.contextId };
const sent = await client.sendMessage(request("js-2", "More [[append c.txt|two]]", options));
assert.equal(sent.contextId, first.contextId);
assert.notEqual(sent.id, first.id);
const second = await polled(sent);
assert.equal(second.status.state, TaskState.TASK_STATE_COMPLETED);
assert.match(texts(second).diff, /\+two/);

// Lists and the extended card.
const listed = await client.listTasks(ListTasksRequest.fromJSON({ contextId: first.contextId, pageSize: 1 }));
assert.equal(listed.totalSize, 2);
assert.equal(listed.tasks[0].id, second.id);
const page = { contextId: first.contextId, pageSize: 1, pageToken: listed.nextPageToken };
assert.equal((await client.listTasks(ListTasksRequest.fromJSON(page))).tasks[0].id, first.id);
const card = await client.getAgentCard();
assert.ok(card.skills.some(({ id }) => id === "project:shop"));

// Streams.
const events = [];
for await (const { payload } of client.sendMessageStream(request("js-3", "[[say hello]] [[write d.txt|d]]"))) {
  events.push(payload);
}
assert.equal(events[0].$case, "task");
assert.equal(events.at(-1).value.status.state, TaskState.TASK_STATE_COMPLETED);
const names = events.filter(({ $case }) => $case === "artifactUpdate").map(({ value }) => value.artifact.name);
assert.deepEqual(names, ["answer", "result", "diff"]);

// Cancel, while a stream follows the task.
const long = await client.sendMessage(request("js-4", "[[sleep 3600]]", { returnImmediately: true }));
let state;
for await (const { payload } of client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id: long.id }))) {
  state = payload.value.status?.state ?? state;
  if (payload.$case === "task") {
    const canceled = await client.cancelTask(CancelTaskRequest.fromJSON({ id: long.id }));
    assert.equal(canceled.status.state, TaskState.TASK_STATE_CANCELED);
  }
}
assert.equal(state, TaskState.TASK_STATE_CANCELED);
await assert.rejects(
  client.cancelTask(CancelTaskRequest.fromJSON({ id: long.id })),
  isOneOf(TaskNotCancelableError, JsonRpcTaskNotCancelableError),
);
await assert.rejects(
  client.sendMessage(request("js-5", "x", { taskId: long.id })),
  isOneOf(UnsupportedOperationError, JsonRpcUnsupportedOperationError),
);

// Errors.
await assert.rejects(
  client.getTask(GetTaskRequest.fromJSON({ id: "msg_0" })),
  isOneOf(TaskNotFoundError, JsonRpcTaskNotFoundError),
);
await assert.rejects(
  client.sendMessage(request("js-6", "", { parts: [{ url: "https://example.com/a.png" }] })),
  isOneOf(ContentTypeNotSupportedError, JsonRpcContentTypeNotSupportedError),
);
const stranger = await connect(`jmn_${"x".repeat(40)}`);
await assert.rejects(stranger.getTask(GetTaskRequest.fromJSON({ id: "msg_0" })), /401/);
const reader = await connect(readKey);
await assert.rejects(reader.sendMessage(request("js-7", "x", { returnImmediately: true })), /403/);
assert.ok((await reader.listTasks(ListTasksRequest.fromJSON({}))).totalSize > 0);

console.log("a2a: the client for JavaScript passed");
