import type { Journeyman } from "./client.js";
import type { Message } from "./generated/api.js";
import type { Job } from "./job.js";
import type { ApiPromise } from "./promise.js";
import type { RequestOptions } from "./transport.js";
import type { WaitOptions } from "./wait.js";

/** A message that was sent to a job. */
export class SentMessage {
  /** The ID of the message. */
  readonly id: string;
  /** The job, with its record after the message was accepted. */
  readonly job: Job;
  readonly #client: Journeyman;

  /** @internal */
  constructor(client: Journeyman, job: Job, id: string) {
    this.id = id;
    this.job = job;
    this.#client = client;
  }

  /** Returns the message with its receipt. */
  get(options?: RequestOptions): ApiPromise<Message> {
    return this.#client.messages.get(this.job.project, this.job.id, this.id, options);
  }

  /**
   * Waits for the final status of the message, refreshes the job, and returns the message with its `answer`. A message
   * that failed is not an error: look at its `status`.
   *
   * @throws {WaitTimeoutError} The message has not ended after `timeout`.
   */
  async wait(options: WaitOptions = {}): Promise<Message> {
    const message = await this.#client.messages.wait(this.job.project, this.job.id, this.id, options);
    await this.job.refresh({ signal: options.signal, maxRetries: options.maxRetries });
    return message;
  }
}
