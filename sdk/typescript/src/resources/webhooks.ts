import type {
  Attempt,
  ChangeWebhook,
  CreatedWebhook,
  CreateWebhook,
  Replayed,
  RotateKey,
  Webhook,
  WebhookDelivery,
} from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, Query, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on the webhooks of projects. They need a key with the scope `write` that is not limited to projects. */
export class Webhooks {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the webhooks of a project without their secrets, oldest first. */
  list(project: string, query: ListQuery = {}, options: RequestOptions = {}): Pages<Webhook> {
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listWebhooks", parts, options, ({ webhooks }) => webhooks);
  }

  /** Creates a webhook. Save its `secret`, because only this response contains it; pass it to `verifyWebhook`. */
  create(project: string, webhook: CreateWebhook, options?: IdempotentOptions): ApiPromise<CreatedWebhook> {
    return this.#transport.call("createWebhook", { path: { projectId: project }, body: webhook }, options);
  }

  /** Returns a webhook without its secret. */
  get(project: string, id: string, options?: RequestOptions): ApiPromise<Webhook> {
    return this.#transport.call("getWebhook", { path: { projectId: project, id } }, options);
  }

  /** Changes the given fields of a webhook, and enables or disables it. */
  update(project: string, id: string, changes: ChangeWebhook, options?: ChangeOptions): ApiPromise<Webhook> {
    return this.#transport.call("changeWebhook", { path: { projectId: project, id }, body: changes }, options);
  }

  /** Deletes a webhook with its deliveries. Deleting it again changes nothing. */
  delete(project: string, id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("deleteWebhook", { path: { projectId: project, id } }, options);
  }

  /** Gives a webhook a new secret. For `keepOldSeconds`, requests have a signature of the old secret too. */
  rotate(
    project: string,
    id: string,
    rotation: RotateKey = {},
    options?: IdempotentOptions & ChangeOptions,
  ): ApiPromise<CreatedWebhook> {
    return this.#transport.call("rotateWebhook", { path: { projectId: project, id }, body: rotation }, options);
  }

  /** Sends an example event to the endpoint, and returns the result. */
  test(project: string, id: string, options?: RequestOptions): ApiPromise<Attempt> {
    return this.#transport.call("testWebhook", { path: { projectId: project, id } }, options);
  }

  /** Lists the deliveries of a webhook with the results of their last attempts, newest first. */
  deliveries(
    project: string,
    id: string,
    query: Query<"listDeliveries"> = {},
    options: RequestOptions = {},
  ): Pages<WebhookDelivery> {
    const parts = { path: { projectId: project, id }, query };
    return this.#transport.list("listDeliveries", parts, options, ({ deliveries }) => deliveries);
  }

  /**
   * Delivers one event again, with the same `webhook-id`.
   *
   * @throws {ConflictError} The webhook is disabled (`webhook_disabled`).
   */
  redeliver(project: string, id: string, deliveryId: string, options?: RequestOptions): ApiPromise<undefined> {
    return this.#transport.call("redeliver", { path: { projectId: project, id, deliveryId } }, options);
  }

  /**
   * Delivers all events since a time (ISO 8601) again that the webhook selects. Returns the number of deliveries.
   *
   * @throws {ConflictError} The webhook is disabled (`webhook_disabled`).
   */
  replay(project: string, id: string, since: string, options?: RequestOptions): ApiPromise<Replayed> {
    return this.#transport.call("replayWebhook", { path: { projectId: project, id }, body: { since } }, options);
  }
}
