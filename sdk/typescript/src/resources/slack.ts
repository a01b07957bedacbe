import type {
  ChangeSlackWorkspace,
  FindingList,
  SlackCode,
  SlackEvent,
  SlackPost,
  SlackWorkspace,
} from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on Slack workspaces, whose channels are connected with projects. */
export class Slack {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Returns all workspaces without their secrets, oldest first. */
  list(options?: RequestOptions): ApiPromise<SlackWorkspace[]> {
    return this.#transport.call("listSlackWorkspaces", {}, options).map(({ workspaces }) => workspaces);
  }

  /**
   * Connects a workspace. The server asks Slack for the workspace of `botToken`.
   *
   * @throws {ApiError} Slack refused the token, or cannot be reached (422, `slack_failed`).
   * @throws {ConflictError} The workspace is connected already (`slack_workspace_exists`).
   */
  create(workspace: ChangeSlackWorkspace, options?: IdempotentOptions): ApiPromise<SlackWorkspace> {
    return this.#transport.call("createSlackWorkspace", { body: workspace }, options);
  }

  /** Returns a workspace, and which of its secrets are set. */
  get(id: string, options?: RequestOptions): ApiPromise<SlackWorkspace> {
    return this.#transport.call("getSlackWorkspace", { path: { id } }, options);
  }

  /**
   * Changes the given fields of a workspace. In `channels` and `users`, `null` disconnects; a secret that is `null` is
   * removed.
   *
   * @throws {PreconditionFailedError} The workspace has another version than `ifMatch` requires.
   */
  update(id: string, changes: ChangeSlackWorkspace, options?: ChangeOptions): ApiPromise<SlackWorkspace> {
    return this.#transport.call("changeSlackWorkspace", { path: { id }, body: changes }, options);
  }

  /** Removes a workspace with its secrets, events, threads and posts. Jobs stay. */
  remove(id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("removeSlackWorkspace", { path: { id } }, options);
  }

  /** Tests a workspace; see `health` of each finding. */
  check(id: string, options?: RequestOptions): ApiPromise<FindingList> {
    return this.#transport.call("checkSlackWorkspace", { path: { id } }, options);
  }

  /** Lists mentions, replies and direct messages with what became of each, newest first. */
  events(id: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<SlackEvent> {
    return this.#transport.list("listSlackEvents", { path: { id }, query }, options, ({ events }) => events);
  }

  /** Lists what the server writes to Slack, with the errors of Slack, newest first. */
  posts(id: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<SlackPost> {
    return this.#transport.list("listSlackPosts", { path: { id }, query }, options, ({ posts }) => posts);
  }

  /**
   * Creates a code, which the user of the key sends to the bot as `link CODE` within ten minutes. An earlier code of the
   * user is no longer valid.
   *
   * @throws {PermissionDeniedError} The key belongs to no user, or is limited.
   */
  createCode(options?: RequestOptions): ApiPromise<SlackCode> {
    return this.#transport.call("createSlackCode", {}, options);
  }
}
