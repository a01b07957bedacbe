import type { CreatedKey, CreateKey, Key, RotateKey } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on API keys. */
export class Keys {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists all keys without their secrets, also those that were revoked. */
  list(query: ListQuery = {}, options: RequestOptions = {}): Pages<Key> {
    return this.#transport.list("listKeys", { query }, options, ({ keys }) => keys);
  }

  /** Creates a key. Save its `secret`, because only this response contains it. */
  create(key: CreateKey, options?: IdempotentOptions): ApiPromise<CreatedKey> {
    return this.#transport.call("createKey", { body: key }, options);
  }

  /** Returns a key without its secret. */
  get(id: string, options?: RequestOptions): ApiPromise<Key> {
    return this.#transport.call("getKey", { path: { id } }, options);
  }

  /** Revokes a key. Revoking it again changes nothing. */
  revoke(id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("revokeKey", { path: { id } }, options);
  }

  /**
   * Gives a key a new secret. The old one is refused at once, or after `keepOldSeconds`.
   *
   * @throws {ConflictError} The key was revoked or has expired (`key_ended`).
   */
  rotate(id: string, rotation: RotateKey = {}, options?: IdempotentOptions & ChangeOptions): ApiPromise<CreatedKey> {
    return this.#transport.call("rotateKey", { path: { id }, body: rotation }, options);
  }
}
