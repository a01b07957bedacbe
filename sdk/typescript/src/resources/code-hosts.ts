import type { CreateCodeHost, FindingList, InstalledCodeHost, ReplaceCodeHost } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on the code hosts of the installation. */
export class CodeHosts {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the code hosts without their secrets, ordered by ID. */
  list(query: ListQuery = {}, options: RequestOptions = {}): Pages<InstalledCodeHost> {
    return this.#transport.list("listCodeHosts", { query }, options, ({ codeHosts }) => codeHosts);
  }

  /**
   * Creates a code host.
   *
   * @throws {ConflictError} A code host with this ID or address already exists (`code_host_exists`).
   */
  create(codeHost: CreateCodeHost, options?: IdempotentOptions): ApiPromise<InstalledCodeHost> {
    return this.#transport.call("createCodeHost", { body: codeHost }, options);
  }

  /** Returns a code host without its secrets. */
  get(id: string, options?: RequestOptions): ApiPromise<InstalledCodeHost> {
    return this.#transport.call("getCodeHost", { path: { codeHost: id } }, options);
  }

  /**
   * Replaces a code host. Secrets that are left out are kept.
   *
   * @throws {PreconditionFailedError} The code host has another version than `ifMatch` requires.
   */
  replace(id: string, codeHost: ReplaceCodeHost, options?: ChangeOptions): ApiPromise<InstalledCodeHost> {
    return this.#transport.call("replaceCodeHost", { path: { codeHost: id }, body: codeHost }, options);
  }

  /**
   * Removes a code host.
   *
   * @throws {ConflictError} A project names the code host (`code_host_used`).
   */
  remove(id: string, options?: ChangeOptions): ApiPromise<undefined> {
    return this.#transport.call("removeCodeHost", { path: { codeHost: id } }, options);
  }

  /** Tests the connection to a code host and its credential. */
  check(id: string, options?: RequestOptions): ApiPromise<FindingList> {
    return this.#transport.call("checkCodeHost", { path: { codeHost: id } }, options);
  }
}
