import type { MergePullRequest, OpenPullRequest, ProjectPull } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { Query, RequestOptions, Transport } from "../transport.js";

/** The parameters of a list of pull requests. */
export type PullsQuery = Query<"listPulls">;

/** The operations on the pull requests of projects. For those of one job, see `client.jobs.pulls`. */
export class Pulls {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Lists the pull requests of a project in a state, by default `open`, newest first. On other code hosts than the
   * built-in one, these are those of jobs.
   */
  list(project: string, query: PullsQuery = {}, options: RequestOptions = {}): Pages<ProjectPull> {
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listPulls", parts, options, ({ pulls }) => pulls);
  }

  /** Returns a pull request of the built-in code host, and whether it can be merged now. */
  get(project: string, number: number, options?: RequestOptions): ApiPromise<ProjectPull> {
    return this.#transport.call("getPull", { path: { projectId: project, number } }, options);
  }

  /**
   * Opens a pull request on the built-in code host for a branch that was pushed. If the branch has an open one with the
   * same values, returns that one.
   *
   * @throws {ConflictError} The branch has another open pull request (`pull_request_exists`).
   */
  open(project: string, pull: OpenPullRequest, options?: RequestOptions): ApiPromise<ProjectPull> {
    return this.#transport.call("openPull", { path: { projectId: project }, body: pull }, options);
  }

  /**
   * Merges a pull request of the built-in code host. Merging it again changes nothing.
   *
   * @throws {ConflictError} The pull request is closed (`pull_request_ended`), or its branches conflict or cannot be
   * rebased (`pull_request_conflict`).
   */
  merge(
    project: string,
    number: number,
    options: Partial<MergePullRequest> & RequestOptions = {},
  ): ApiPromise<ProjectPull> {
    const { method, ...rest } = options;
    const path = { projectId: project, number };
    return this.#transport.call("mergePull", method ? { path, body: { method } } : { path }, rest);
  }
}
