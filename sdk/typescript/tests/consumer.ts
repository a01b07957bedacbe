// A program that uses the package with strict types. The tests only check its types.

import {
  ApiError,
  type CreateJob,
  type FeedEvent,
  type Job,
  type JobRecord,
  Journeyman,
  type Message,
  NotFoundError,
  type Project,
  type SentMessage,
  verifyWebhook,
} from "@journeyman/client";

const client = new Journeyman({ url: "http://127.0.0.1:8080", key: "jmn_…" });

export async function createJob(body: CreateJob): Promise<string | null> {
  const job: Job = await client.jobs.create("shop", body, { idempotencyKey: "1", signal: AbortSignal.timeout(1000) });
  const record: Readonly<JobRecord> = (await job.wait({ timeout: 1000 })).record;
  // @ts-expect-error: the prompt is required
  await client.jobs.create("shop", {});
  // @ts-expect-error: the operation has no idempotency key
  await client.projects.get("shop", { idempotencyKey: "1" });
  const sent: SentMessage = await job.send("More");
  const message: Message = await sent.wait({ timeout: 1000 });
  if ((await job.ask({ prompt: "More", delivery: "interrupt" })).id === message.id) return message.answer;
  const messages: Message[] = await job.messages({ limit: 10 }).toArray();
  return messages[0]?.answer ?? record.prLink;
}

export async function update(): Promise<Project | undefined> {
  try {
    const { data, response } = await client.projects.get("shop").withResponse();
    const changes = { limits: { concurrentRuns: 2 }, ref: null };
    return await client.projects.update(data.id, changes, { ifMatch: response.etag });
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    if (error instanceof ApiError && error.code === "precondition_failed") return undefined;
    throw error;
  }
}

export async function follow(job: Job): Promise<void> {
  for await (const event of job.stream({ after: 3 })) {
    if (event.type === "agent.message") console.log(event.data.text?.length);
    if (event.type === "run.finished") console.log(event.data.reason?.code);
  }
}

export async function watch(types: string[]): Promise<void> {
  const cursor = await client.events.newestCursor();
  for await (const event of client.events.stream({ cursor, type: ["job.completed", ...types] })) console.log(event.id);
  await client.webhooks.update("shop", "hook_1", { events: ["job.completed"], enabled: true });
  // @ts-expect-error: the field cannot be null
  await client.webhooks.update("shop", "hook_1", { url: null });
}

export async function receive(request: { body: string; headers: Record<string, string | string[] | undefined> }) {
  const event = await verifyWebhook(request.body, request.headers, ["whsec_AAAA"]);
  return describe(event);
}

function describe(event: FeedEvent): string {
  switch (event.type) {
    case "message.finished":
      return event.data.messageId.toUpperCase();
    case "pull_request.merged":
      return `#${event.data.pullRequest.number}`;
    case "job.failed":
      return event.data.reason.text;
    default:
      return event.data.title;
  }
}
