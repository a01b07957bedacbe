// The steps of every client for TypeScript. Their types are those that the steps need; the compiler compares them with
// the generated types.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

export const url = process.env["JOURNEYMAN_URL"] ?? "";
export const key = process.env["JOURNEYMAN_KEY"] ?? "";
export const missingJob = "job_019aa3bb4a2c7d10b2b1a1c5d0f3e8a7";

/** The time limit of a wait, in milliseconds. Only a hang reaches it. */
const WAIT_MS = 600_000;

/**
 * The headers of every request. `Accept` is necessary for the page of events: without it, the server sends the stream,
 * which does not end.
 */
export const headers = { Authorization: `Bearer ${key}`, Accept: "application/json" };

export interface Job {
  id: string;
  status: "active" | "completed" | "archived" | "failed";
  source: { repository: string; ref: string };
  model: string;
  prLink: string | null;
  createdAt: string;
  archivedAt: string | null;
}

export interface Message {
  id: string;
  prompt: string;
  status: string;
  commits: string[];
}

export interface Event {
  seq: number;
  type: string;
  at: string;
}

/** The answer to a request that fails. */
export interface Failure {
  status: number;
  error: { error: string; code: string; requestId: string };
}

/** What each generated client does. */
export interface Client {
  createProject(id: string): Promise<{ id: string; repository: string }>;
  createJob(project: string, prompt: string, labels: string[], idempotencyKey: string): Promise<Job>;
  getJob(project: string, id: string, wait: number): Promise<Job>;
  sendMessage(project: string, id: string, prompt: string): Promise<Job>;
  listMessages(project: string, id: string): Promise<Message[]>;
  listEvents(project: string, id: string, after: number, limit: number): Promise<{ events: Event[]; hasMore: boolean }>;
  listJobs(project: string, label: string[]): Promise<{ id: string; labels: string[]; queueLength: number }[]>;
  usage(project: string): Promise<{ project?: string | null; outputTokens: number; runs: number }[]>;
  /** Reads a job that is not there. */
  missing(project: string, id: string): Promise<Failure>;
  /** Sends an empty prompt. */
  empty(project: string, id: string): Promise<Failure>;
}

/** Narrows a report of usage, which is a text if the request asks for CSV. */
export function report<T extends object>(answer: T | string): T {
  if (typeof answer === "string") {
    throw new Error("the report is not JSON");
  }
  return answer;
}

async function settled(client: Client, project: string, id: string): Promise<Job> {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const job = await client.getJob(project, id, 10);
    if (job.status !== "active") {
      return job;
    }
    assert.ok(Date.now() < end, `the job ${id} stays active`);
  }
}

/** Pushes a first commit to the repository of a project. */
function push(project: string): void {
  const command = [process.env["PUSH"] ?? "", url, key, project];
  execFileSync(process.env["PYTHON"] ?? "python3", command, { stdio: "inherit" });
}

/** Runs the steps, with a project of its own. */
export async function run(name: string, client: Client): Promise<void> {
  const created = await client.createProject(name);
  assert.equal(created.repository, `local:${name}`);
  push(name);

  const prompt = "[[write a.txt|one]] [[say first]]";
  const job = await client.createJob(name, prompt, ["b", "a"], `${name}-1`);
  assert.equal(job.status, "active");
  assert.equal((await client.createJob(name, prompt, ["b", "a"], `${name}-1`)).id, job.id);
  assert.equal((await settled(client, name, job.id)).status, "completed");
  const other = await client.createJob(name, "[[say other]]", ["a"], `${name}-2`);
  await settled(client, name, other.id);

  await client.sendMessage(name, job.id, "[[append a.txt|two]] [[say second]]");
  const done = await settled(client, name, job.id);
  assert.equal(done.status, "completed");
  assert.ok(done.prLink?.startsWith("http"), `${done.prLink}`);
  assert.ok(!Number.isNaN(Date.parse(done.createdAt)));

  const messages = await client.listMessages(name, job.id);
  assert.deepEqual(messages.map(({ status }) => status), ["finished", "finished"]);
  assert.ok(messages.every(({ commits }) => commits.length === 1));

  const events: Event[] = [];
  for (let more = true; more; ) {
    const page = await client.listEvents(name, job.id, events.length, 7);
    events.push(...page.events);
    more = page.hasMore;
  }
  assert.deepEqual(events.map(({ seq }) => seq), events.map((_, index) => index + 1));
  assert.equal(events.filter(({ type }) => type === "message.accepted").length, 2);

  assert.deepEqual((await client.listJobs(name, ["a", "b"])).map(({ id }) => id), [job.id]);
  assert.equal((await client.listJobs(name, ["a"])).length, 2);
  assert.deepEqual((await client.usage(name)).map(({ runs }) => runs), [3]);

  const missing = await client.missing(name, missingJob);
  assert.equal(missing.status, 404);
  assert.equal(missing.error.code, "job_not_found");
  const empty = await client.empty(name, job.id);
  assert.equal(empty.status, 400);
  assert.match(empty.error.error, /prompt/);
  assert.match(empty.error.requestId, /^req_/);
  console.log(`clients: ${name} passed`);
}
