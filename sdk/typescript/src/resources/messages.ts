import type { Journeyman } from "../client.js";
import { UnexpectedResponseError } from "../errors.js";
import type { Message, SendMessage } from "../generated/api.js";
import { Job } from "../job.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import { SentMessage } from "../sent-message.js";
import type { IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import { type WaitOptions, wait } from "../wait.js";
import type { ListQuery } from "./jobs.js";

/** The longest time for which the server holds a response while a message is awaited, in seconds. */
const HOLD_SECONDS = 5;

/** The operations on the messages of jobs. */
export class Messages {
  readonly #transport: Transport;
  readonly #client: Journeyman;

  /** @internal */
  constructor(transport: Transport, client: Journeyman) {
    this.#transport = transport;
    this.#client = client;
  }

  /**
   * Sends a follow-up message to a job. The server stores it and answers at once; use `wait` of the result to wait
   * for the end of this message. A completed or failed job becomes active again.
   *
   * @throws {NotFoundError} The job or the project does not exist.
   * @throws {ConflictError} The job is archived (`job_archived`), or it is active and `delivery` is `reject` (`job_busy`).
   * @throws {RateLimitError} The limit of the hour is used up, or 100 messages wait on the job.
   */
  send(project: string, job: string, message: SendMessage, options?: IdempotentOptions): ApiPromise<SentMessage> {
    const parts = { path: { projectId: project, id: job }, body: message };
    const sent = this.#transport.call("sendMessage", parts, options);
    return sent.map((record, { headers }) => {
      const [, id] = /\/message\/([^/?#]+)$/.exec(headers.get("location") ?? "") ?? [];
      if (id === undefined) {
        throw new UnexpectedResponseError(
          "The server accepted the message without its ID. Is it older than this package?",
        );
      }
      return new SentMessage(this.#client, new Job(this.#client, project, record), decodeURIComponent(id));
    });
  }

  /**
   * Returns a message with its receipt.
   *
   * @throws {NotFoundError} The job or the message does not exist.
   */
  get(project: string, job: string, messageId: string, options?: RequestOptions): ApiPromise<Message> {
    return this.#transport.call("getMessage", { path: { projectId: project, id: job, messageId } }, options);
  }

  /**
   * Waits for the final status of a message, and returns the message with its `answer`. A message that failed is not an
   * error: look at its `status`.
   *
   * @throws {WaitTimeoutError} The message has not ended after `timeout`.
   */
  async wait(project: string, job: string, messageId: string, options: WaitOptions = {}): Promise<Message> {
    let isFirst = true;
    return wait(`message ${messageId} has not ended`, options, async (request) => {
      // The server holds a response until the job is not active, which can be long after the end of the message.
      if (!isFirst) await this.#client.jobs.get(project, job, { wait: HOLD_SECONDS, ...request });
      isFirst = false;
      const message = await this.get(project, job, messageId, request);
      return message.finishedAt === null ? undefined : message;
    });
  }

  /** Lists the messages of a job with their receipts, oldest first. */
  list(project: string, job: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<Message> {
    const parts = { path: { projectId: project, id: job }, query };
    return this.#transport.list("listMessages", parts, options, ({ messages }) => messages);
  }

  /**
   * Withdraws a queued message. Withdrawing it again changes nothing.
   *
   * @throws {ConflictError} A run has taken the message (`message_already_delivered`).
   */
  withdraw(project: string, job: string, messageId: string, options?: RequestOptions): ApiPromise<Job> {
    const parts = { path: { projectId: project, id: job, messageId } };
    const withdrawn = this.#transport.call("withdrawMessage", parts, options);
    return withdrawn.map((record) => new Job(this.#client, project, record));
  }
}
