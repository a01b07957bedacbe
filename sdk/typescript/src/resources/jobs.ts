import type { Journeyman } from "../client.js";
import type { CreateJob, JobChecks, JobDetails, Event as JobEvent, JobPull, Run } from "../generated/api.js";
import { Job } from "../job.js";
import { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import { events } from "../stream.js";
import type { ChangeOptions, IdempotentOptions, Query, RequestOptions, Transport } from "../transport.js";

/** The query of a list. */
export interface ListQuery {
  /** The maximum number of entries on a page, from 1 to 100. */
  limit?: number | undefined;
  /** The `nextCursor` of the page before the first one to read. */
  cursor?: string | undefined;
}

/** The filters and the page of a list of jobs. */
export type JobsQuery = Query<"listJobs">;

/** The query of a list of a job's events. */
export interface JobEventsQuery {
  /** Returns only events with a higher sequence number. */
  after?: number | undefined;
  /** The maximum number of events on a page, from 1 to 1000. */
  limit?: number | undefined;
}

/** The options of a stream. */
export interface StreamOptions {
  /** Ends the stream: the iteration is rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** The maximum time until a connection answers, in milliseconds; by default, the timeout of the client. */
  timeout?: number | undefined;
  /**
   * The maximum number of retries of each connection; by default, the one of the client for the first connection, and
   * no limit afterward.
   */
  maxRetries?: number | undefined;
}

/** The operations on jobs. */
export class Jobs {
  readonly #transport: Transport;
  readonly #client: Journeyman;

  /** @internal */
  constructor(transport: Transport, client: Journeyman) {
    this.#transport = transport;
    this.#client = client;
  }

  /**
   * Creates a job with its first message. The server stores both and answers at once; use `wait` of the job to wait
   * for the agent.
   *
   * @throws {NotFoundError} The project does not exist (`project_not_found`).
   * @throws {ConflictError} Another job works on this branch (`branch_taken`) or pull request (`pull_request_taken`).
   * @throws {RateLimitError} The limit of the hour is used up.
   */
  create(project: string, job: CreateJob, options?: IdempotentOptions): ApiPromise<Job> {
    const parts = { path: { projectId: project }, body: job };
    return this.#transport.call("createJob", parts, options).map((record) => this.#job(project, record));
  }

  /**
   * Returns a job. With `wait`, the server holds the response while the job is active, for that number of seconds, from
   * 0 to 60. The timeout is then `wait` and 30 s by default.
   */
  get(project: string, id: string, options: RequestOptions & { wait?: number | undefined } = {}): ApiPromise<Job> {
    const { wait, ...rest } = options;
    const parts = { path: { projectId: project, id }, query: { wait } };
    if (wait !== undefined) rest.timeout ??= wait * 1000 + 30_000;
    return this.#transport.call("getJob", parts, rest).map((record) => this.#job(project, record));
  }

  /** Lists the jobs of a project, newest first. */
  list(project: string, query: JobsQuery = {}, options: RequestOptions = {}): Pages<Job> {
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listJobs", parts, options, ({ jobs }) => jobs.map((job) => this.#job(project, job)));
  }

  /** Lists the jobs of a project with their details, newest first. */
  listDetails(project: string, query: JobsQuery = {}, options: RequestOptions = {}): Pages<JobDetails> {
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listProjectJobs", parts, options, ({ jobs }) => jobs);
  }

  /** Lists the jobs of all projects that the key may see with their details, newest first. */
  listAll(query: JobsQuery = {}, options: RequestOptions = {}): Pages<JobDetails> {
    return this.#transport.list("listAllJobs", { query }, options, ({ jobs }) => jobs);
  }

  /** Returns what the record does not contain, such as the branch, the queue, the usage, and the reason for a failure. */
  details(project: string, id: string, options?: RequestOptions): ApiPromise<JobDetails> {
    return this.#transport.call("getJobDetails", { path: { projectId: project, id } }, options);
  }

  /** Attempts a message that waits for an external cause again, immediately. */
  retry(project: string, id: string, options?: IdempotentOptions): ApiPromise<Job> {
    return this.#act("retryJob", project, id, options);
  }

  /** Stops the current run and withdraws the queued messages. Canceling again changes nothing. */
  cancel(project: string, id: string, options?: IdempotentOptions): ApiPromise<Job> {
    return this.#act("cancelJob", project, id, options);
  }

  /** Archives a job. An active job is canceled first. */
  archive(project: string, id: string, options?: IdempotentOptions): ApiPromise<Job> {
    return this.#act("archiveJob", project, id, options);
  }

  /** Makes an archived job completed or failed again. */
  unarchive(project: string, id: string, options?: IdempotentOptions): ApiPromise<Job> {
    return this.#act("unarchiveJob", project, id, options);
  }

  /**
   * Deletes a job with its messages, runs, and events. Its branch and its pull requests stay.
   *
   * @throws {ConflictError} The job is active (`job_busy`).
   */
  delete(project: string, id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("deleteJob", { path: { projectId: project, id } }, options);
  }

  /** Lists the runs of a job, oldest first. */
  runs(project: string, id: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<Run> {
    const parts = { path: { projectId: project, id }, query };
    return this.#transport.list("listRuns", parts, options, ({ runs }) => runs);
  }

  /** Lists the pull requests of a job, oldest first. */
  pulls(project: string, id: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<JobPull> {
    const parts = { path: { projectId: project, id }, query };
    return this.#transport.list("listJobPulls", parts, options, ({ pulls }) => pulls);
  }

  /** Returns the checks of the newest commit of a job's pull request. */
  checks(project: string, id: string, options?: RequestOptions): ApiPromise<JobChecks> {
    return this.#transport.call("getJobChecks", { path: { projectId: project, id } }, options);
  }

  /** Returns what a job changes, as a unified diff; an empty text if nothing. */
  diff(project: string, id: string, options?: RequestOptions): ApiPromise<string> {
    return this.#transport.call("getDiff", { path: { projectId: project, id } }, options);
  }

  /** Lists the stored events of a job, oldest first. */
  events(project: string, id: string, query: JobEventsQuery = {}, options: RequestOptions = {}): Pages<JobEvent> {
    return new Pages(async (cursor) => {
      const after = cursor === undefined ? query.after : Number(cursor);
      const parts = { path: { projectId: project, id }, query: { ...query, after } };
      const page = await this.#transport.call("listEvents", parts, options);
      return { items: page.events, nextCursor: page.hasMore ? String(page.nextAfter) : null };
    });
  }

  /**
   * Streams the events of a job: the stored ones, and then new ones. With `after`, the stream begins after the event
   * with that `seq`. It reconnects when the connection is lost, and never loses or repeats an event. It does not end by
   * itself: leave the loop, or abort `signal`.
   *
   * ```ts
   * for await (const event of client.jobs.stream("shop", id)) {
   *   if (event.type === "agent.message") console.log(event.data.text);
   *   if (event.type === "job.completed" || event.type === "job.failed") break;
   * }
   * ```
   *
   * @throws {ApiError} The server refuses a connection, for example because the job was deleted or the key was revoked.
   */
  stream(
    project: string,
    id: string,
    options: StreamOptions & { after?: number | undefined } = {},
  ): AsyncGenerator<JobEvent, void, undefined> {
    const { after, ...rest } = options;
    const parts = { path: { projectId: project, id }, query: { after } };
    return events(this.#transport.connector("streamEvents", parts, rest), rest.signal);
  }

  #act(
    operation: "retryJob" | "cancelJob" | "archiveJob" | "unarchiveJob",
    project: string,
    id: string,
    options?: IdempotentOptions,
  ): ApiPromise<Job> {
    const parts = { path: { projectId: project, id } };
    return this.#transport.call(operation, parts, options).map((record) => this.#job(project, record));
  }

  #job(project: string, record: Job["record"]): Job {
    return new Job(this.#client, project, record);
  }
}
