import type { ChangeUser, CreatedUser, CreateUser, User, UserLink } from "../generated/api.js";
import type { Pages } from "../pages.js";
import type { ApiPromise } from "../promise.js";
import type { ChangeOptions, IdempotentOptions, RequestOptions, Transport } from "../transport.js";
import type { ListQuery } from "./jobs.js";

/** The operations on users of the dashboard. */
export class Users {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the users, sorted by name, including disabled ones. */
  list(query: ListQuery = {}, options: RequestOptions = {}): Pages<User> {
    return this.#transport.list("listUsers", { query }, options, ({ users }) => users);
  }

  /**
   * Creates a user. Only this response contains the `link` with which the user sets a password.
   *
   * @throws {ConflictError} A user with this name already exists (`user_exists`).
   */
  create(user: CreateUser, options?: IdempotentOptions): ApiPromise<CreatedUser> {
    return this.#transport.call("createUser", { body: user }, options);
  }

  /** Returns a user. */
  get(id: string, options?: RequestOptions): ApiPromise<User> {
    return this.#transport.call("getUser", { path: { id } }, options);
  }

  /**
   * Gives a user another role, disables or enables the user, or disconnects the user from the OpenID provider. Keys that
   * exceed the rights of the user are revoked.
   *
   * @throws {ConflictError} The user is the last administrator (`last_administrator`), or could not sign in without the
   * provider (`password_missing`).
   * @throws {PreconditionFailedError} The user has another version than `ifMatch` requires.
   */
  update(id: string, changes: ChangeUser, options?: ChangeOptions): ApiPromise<User> {
    return this.#transport.call("changeUser", { path: { id }, body: changes }, options);
  }

  /**
   * Creates a link with which a user sets a password, instead of earlier ones. Only this response contains it.
   *
   * @throws {ConflictError} The user is disabled (`user_disabled`).
   */
  createLink(id: string, options?: IdempotentOptions): ApiPromise<UserLink> {
    return this.#transport.call("createUserLink", { path: { id } }, options);
  }
}
