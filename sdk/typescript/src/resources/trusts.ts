import type { ChangeTrust, CreateTrust, Trust } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on trusts: rules about which tokens of CI services are exchanged for keys. */
export class Trusts {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the trusts, oldest first. */
  list(query: ListQuery = {}, options: RequestOptions = {}): Pages<Trust> {
    return this.#transport.list("listTrusts", { query }, options, ({ trusts }) => trusts);
  }

  /**
   * Creates a trust.
   *
   * @throws {ConflictError} A trust with this name already exists (`trust_exists`).
   */
  create(trust: CreateTrust, options?: IdempotentOptions): ApiPromise<Trust> {
    return this.#transport.call("createTrust", { body: trust }, options);
  }

  /** Returns a trust. */
  get(id: string, options?: RequestOptions): ApiPromise<Trust> {
    return this.#transport.call("getTrust", { path: { id } }, options);
  }

  /**
   * Changes the given fields of a trust. Its keys are revoked, unless only its name changes.
   *
   * @throws {PreconditionFailedError} The trust has another version than `ifMatch` requires.
   */
  update(id: string, changes: ChangeTrust, options?: ChangeOptions): ApiPromise<Trust> {
    return this.#transport.call("changeTrust", { path: { id }, body: changes }, options);
  }

  /** Deletes a trust, and revokes its keys at once. Deleting it again changes nothing. */
  delete(id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("deleteTrust", { path: { id } }, options);
  }
}
