import type { Journeyman } from "./client.js";
import type {
  JobChecks,
  JobDetails,
  Event as JobEvent,
  JobPull,
  Job as JobRecord,
  Message,
  Run,
  SendMessage,
  Source,
  Status,
} from "./generated/api.js";
import type { Pages } from "./pages.js";
import type { ApiPromise } from "./promise.js";
import type { JobEventsQuery, ListQuery, StreamOptions } from "./resources/jobs.js";
import { SentMessage } from "./sent-message.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions } from "./transport.js";
import { type WaitOptions, wait } from "./wait.js";

/** The options of {@link Job.ask}: of the wait, and the idempotency key of the message. */
export type AskOptions = WaitOptions & Pick<IdempotentOptions, "idempotencyKey">;

/** The longest time for which the server holds a response, in seconds. Proxies often close a connection after 60 s. */
const HOLD_SECONDS = 30;

/**
 * A job, with the record that the server returned last.
 *
 * `send`, `ask`, `wait` and the other operations that return the job's record update this object.
 */
export class Job {
  /** The ID of the project. */
  readonly project: string;
  #record: JobRecord;
  readonly #client: Journeyman;

  /** @internal */
  constructor(client: Journeyman, project: string, record: JobRecord) {
    this.project = project;
    this.#record = record;
    this.#client = client;
  }

  /** The record that the server returned last. */
  get record(): Readonly<JobRecord> {
    return this.#record;
  }

  /** The ID of the job. */
  get id(): string {
    return this.#record.id;
  }

  /** The status, when the server last returned the record. */
  get status(): Status {
    return this.#record.status;
  }

  /** The starting point of the job. */
  get source(): Source {
    return this.#record.source;
  }

  /** The AI model used for the job. */
  get model(): string {
    return this.#record.model;
  }

  /** The URL of the pull request; `null` while the job is active, or if no files were changed. */
  get prLink(): string | null {
    return this.#record.prLink;
  }

  /** The time of creation (ISO 8601, UTC). */
  get createdAt(): string {
    return this.#record.createdAt;
  }

  /** The time at which the job was archived (ISO 8601, UTC); `null` if it is not archived. */
  get archivedAt(): string | null {
    return this.#record.archivedAt;
  }

  /**
   * Waits until the job is `completed`, `archived` or `failed`, and returns it. A failed job is not an error: look at
   * `status`, and at `failure` of {@link details}.
   *
   * @throws {WaitTimeoutError} The job is still active after `timeout`.
   */
  wait(options: WaitOptions = {}): Promise<this> {
    return wait(`job ${this.id} is still active`, options, async (request) => {
      await this.#update(this.#client.jobs.get(this.project, this.id, { wait: HOLD_SECONDS, ...request }));
      return this.status === "active" ? undefined : this;
    });
  }

  /** Reads the record again. */
  refresh(options?: RequestOptions): ApiPromise<this> {
    return this.#update(this.#client.jobs.get(this.project, this.id, options));
  }

  /**
   * Sends a follow-up message. The server stores it and answers at once; use {@link wait} to wait for the agent. A
   * completed or failed job becomes active again.
   *
   * @throws {ConflictError} The job is archived (`job_archived`), or it is active and `delivery` is `reject` (`job_busy`).
   * @throws {RateLimitError} The limit of the hour is used up, or 100 messages wait on the job.
   */
  send(message: string | SendMessage, options?: IdempotentOptions): ApiPromise<SentMessage> {
    const body = typeof message === "string" ? { prompt: message } : message;
    return this.#client.messages.send(this.project, this.id, body, options).map(({ id, job }) => {
      this.#record = job.record;
      return new SentMessage(this.#client, this, id);
    });
  }

  /**
   * Sends a follow-up message, waits for its end, and returns it with its `answer`. A message that failed is not an
   * error: look at its `status`. `timeout` is the maximum time after the message was sent.
   *
   * @throws {WaitTimeoutError} The message has not ended after `timeout`.
   */
  async ask(message: string | SendMessage, options: AskOptions = {}): Promise<Message> {
    const { timeout: _, ...request } = options;
    return (await this.send(message, request)).wait(options);
  }

  /**
   * Returns the answer to the newest message that has one; `null` if there is none. For the answer to a message that
   * you send, use {@link ask}, or `wait` of the sent message.
   */
  async answer(options?: RequestOptions): Promise<string | null> {
    let newest: string | null = null;
    for await (const { answer } of this.messages({}, options)) newest = answer ?? newest;
    return newest;
  }

  /** Stops the current run and withdraws the queued messages. Canceling again changes nothing. */
  cancel(options?: IdempotentOptions): ApiPromise<this> {
    return this.#update(this.#client.jobs.cancel(this.project, this.id, options));
  }

  /** Attempts a message that waits for an external cause again, immediately. */
  retry(options?: IdempotentOptions): ApiPromise<this> {
    return this.#update(this.#client.jobs.retry(this.project, this.id, options));
  }

  /** Archives the job. An active job is canceled first. */
  archive(options?: IdempotentOptions): ApiPromise<this> {
    return this.#update(this.#client.jobs.archive(this.project, this.id, options));
  }

  /** Makes an archived job completed or failed again. */
  unarchive(options?: IdempotentOptions): ApiPromise<this> {
    return this.#update(this.#client.jobs.unarchive(this.project, this.id, options));
  }

  /** Deletes the job, which must not be active. Its branch and its pull requests stay. */
  delete(options?: ChangeOptions): ApiPromise<undefined> {
    return this.#client.jobs.delete(this.project, this.id, options);
  }

  /** Returns what the record does not contain, such as the branch, the queue, the usage, and the reason for a failure. */
  details(options?: RequestOptions): ApiPromise<JobDetails> {
    return this.#client.jobs.details(this.project, this.id, options);
  }

  /** Returns a message with its receipt. */
  message(messageId: string, options?: RequestOptions): ApiPromise<Message> {
    return this.#client.messages.get(this.project, this.id, messageId, options);
  }

  /** Lists the messages with their receipts, oldest first. `answer` of a message is the final text of the agent. */
  messages(query?: ListQuery, options?: RequestOptions): Pages<Message> {
    return this.#client.messages.list(this.project, this.id, query, options);
  }

  /**
   * Withdraws a queued message. Withdrawing it again changes nothing.
   *
   * @throws {ConflictError} A run has taken the message (`message_already_delivered`).
   */
  withdraw(messageId: string, options?: RequestOptions): ApiPromise<this> {
    return this.#update(this.#client.messages.withdraw(this.project, this.id, messageId, options));
  }

  /** Lists the runs, oldest first. */
  runs(query?: ListQuery, options?: RequestOptions): Pages<Run> {
    return this.#client.jobs.runs(this.project, this.id, query, options);
  }

  /** Lists the pull requests, oldest first. */
  pulls(query?: ListQuery, options?: RequestOptions): Pages<JobPull> {
    return this.#client.jobs.pulls(this.project, this.id, query, options);
  }

  /** Returns the checks of the newest commit of the pull request. */
  checks(options?: RequestOptions): ApiPromise<JobChecks> {
    return this.#client.jobs.checks(this.project, this.id, options);
  }

  /** Returns what the job changes, as a unified diff; an empty text if nothing. */
  diff(options?: RequestOptions): ApiPromise<string> {
    return this.#client.jobs.diff(this.project, this.id, options);
  }

  /** Lists the stored events, oldest first. */
  events(query?: JobEventsQuery, options?: RequestOptions): Pages<JobEvent> {
    return this.#client.jobs.events(this.project, this.id, query, options);
  }

  /** Streams the stored events and then new ones. See `client.jobs.stream`. */
  stream(options?: StreamOptions & { after?: number | undefined }): AsyncGenerator<JobEvent, void, undefined> {
    return this.#client.jobs.stream(this.project, this.id, options);
  }

  /** Returns the record. */
  toJSON(): JobRecord {
    return this.#record;
  }

  /** Returns what `console.log` shows in Node.js, Deno and Bun. */
  [Symbol.for("nodejs.util.inspect.custom")](): unknown {
    return { project: this.project, ...this.#record };
  }

  #update(result: ApiPromise<Job>): ApiPromise<this> {
    return result.map((job) => {
      this.#record = job.record;
      return this;
    });
  }
}
