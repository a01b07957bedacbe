import type { AuditEntry, InboxEvent, Run, UsageReport } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { Query, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The runs of jobs. */
export class Runs {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the runs of a job, oldest first. `reason` says why a run failed. */
  list(project: string, job: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<Run> {
    const parts = { path: { projectId: project, id: job }, query };
    return this.#transport.list("listRuns", parts, options, ({ runs }) => runs);
  }
}

/** The inbox: the events that code hosts have sent. */
export class Inbox {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the events that belong to a project, newest first. */
  list(project: string, query: Query<"listProjectInbox"> = {}, options: RequestOptions = {}): Pages<InboxEvent> {
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listProjectInbox", parts, options, ({ events }) => events);
  }

  /** Lists all events, newest first. */
  listAll(query: Query<"listInbox"> = {}, options: RequestOptions = {}): Pages<InboxEvent> {
    return this.#transport.list("listInbox", { query }, options, ({ events }) => events);
  }
}

/** The usage of models. */
export class UsageReports {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns the tokens and the cost of the runs that ended in a period; by default, in the last 30 days. */
  get(query: Omit<Query<"getUsage">, "format"> = {}, options?: RequestOptions): ApiPromise<UsageReport> {
    return this.#transport.call("getUsage", { query }, options);
  }

  /** Returns the same report as CSV. */
  csv(query: Omit<Query<"getUsage">, "format"> = {}, options?: RequestOptions): ApiPromise<string> {
    const report: ApiPromise<unknown> = this.#transport.call("getUsage", { query, accept: "text/csv" }, options);
    return report as ApiPromise<string>;
  }
}

/** The audit log: who changed what, when, and from where. */
export class Audit {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the entries, newest first. */
  list(query: ListQuery = {}, options: RequestOptions = {}): Pages<AuditEntry> {
    return this.#transport.list("listAudit", { query }, options, ({ entries }) => entries);
  }

  /** Returns all entries as CSV, newest first. Set `timeout` if the log is large. */
  export(options?: RequestOptions): ApiPromise<string> {
    return this.#transport.call("exportAudit", {}, options);
  }
}
