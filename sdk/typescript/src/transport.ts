import { ApiError, apiError, ConnectionError, TimeoutError, UnexpectedResponseError } from "./errors.js";
import type { operations } from "./generated/api.js";
import { routes } from "./generated/routes.js";
import { type Page, Pages } from "./pages.js";
import { ApiPromise, type ResponseInfo } from "./promise.js";
import { backoff, setTimer, sleep } from "./retry.js";
import type { Connect } from "./stream.js";
import { VERSION } from "./version.js";

/** The options of a client. */
export interface ClientOptions {
  /** The URL of the server; by default, the environment variable `JOURNEYMAN_URL`, or `http://127.0.0.1:8080`. */
  url?: string | undefined;
  /** The API key; by default, the environment variable `JOURNEYMAN_KEY`. */
  key?: string | undefined;
  /** The maximum time of an attempt at a request, in milliseconds; by default, 60,000. `Infinity` means no limit. */
  timeout?: number | undefined;
  /** The maximum number of retries after failures that are temporary; by default, 4. */
  maxRetries?: number | undefined;
  /** The function that sends requests; by default, the global `fetch`. */
  fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
}

/** The options of every request. */
export interface RequestOptions {
  /** Cancels the request, also between two attempts. The promise is rejected with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** The maximum time of an attempt, in milliseconds; by default, the one of the client. */
  timeout?: number | undefined;
  /** The maximum number of retries after failures that are temporary; by default, the one of the client. */
  maxRetries?: number | undefined;
}

/** The options of a request that the server carries out once for each idempotency key. */
export interface IdempotentOptions extends RequestOptions {
  /**
   * The idempotency key, of 1 to 255 ASCII characters; by default, a random one for each call. Set it to repeat a
   * request safely after a restart of your own program. The server remembers it for 24 hours.
   */
  idempotencyKey?: string | undefined;
}

/** The options of a request that changes or deletes a resource with a version. */
export interface ChangeOptions extends RequestOptions {
  /**
   * The `etag` of the version that was read. If the resource has another version, the request fails with
   * `PreconditionFailedError`. Without it, any version is changed; a value of `undefined` is refused.
   */
  ifMatch?: string | undefined;
}

/** The ID of an operation in the OpenAPI document. */
export type OperationId = keyof operations & keyof typeof routes;

type Operation<Id extends OperationId> = operations[Id];

/** The query parameters of an operation. A parameter that is `undefined` is not sent. */
export type Query<Id extends OperationId> = OrUndefined<NonNullable<Operation<Id>["parameters"]["query"]>>;

type OrUndefined<T> = { [Name in keyof T]: T[Name] | undefined };

type Json = "application/json";

/** The JSON body of the request of an operation. */
export type Body<Id extends OperationId> =
  NonNullable<Operation<Id>["requestBody"]> extends { content: Record<Json, infer T> } ? NonNullable<T> : undefined;

type Content<T> = T extends { content: infer C } ? (C extends Record<Json, infer J> ? J : C[keyof C]) : never;

/** The data of a successful response of an operation; `undefined` if it has no body. */
export type Result<Id extends OperationId> = [Content<Success<Operation<Id>["responses"]>>] extends [never]
  ? undefined
  : Content<Success<Operation<Id>["responses"]>>;

type Success<R> = { [S in keyof R]: S extends 200 | 201 | 202 ? R[S] : never }[keyof R];

/** The fields of a page of a list. Only lists of events have `hasMore`; their cursor is never `null`. */
interface ListPage {
  nextCursor: string | null;
  hasMore?: boolean;
}

/** The IDs of the operations that return pages. */
type ListId = { [Id in OperationId]: Result<Id> extends ListPage ? Id : never }[OperationId];

/** The variable parts of a request. */
export interface Parts<Id extends OperationId> {
  path?: Operation<Id>["parameters"]["path"];
  query?: Query<Id>;
  body?: Body<Id>;
  /** The media type of the response; by default, the first one that the operation has. */
  accept?: string;
  /** The last event that was received from a stream. */
  lastEventId?: string | undefined;
}

type AllOptions = RequestOptions & IdempotentOptions & ChangeOptions;

/** The number of milliseconds after which a requested delay is left to the caller. */
const LONGEST_RETRY_AFTER = 60_000;

/**
 * The POST operations that are safe to repeat: they store nothing, or a short-lived key or code that no client has if
 * the response is lost.
 */
const REPEATABLE: ReadonlySet<OperationId> = new Set<OperationId>([
  "checkCodeHost",
  "checkSlackWorkspace",
  "createSlackCode",
  "exchangeToken",
  "testNewProject",
  "testProject",
  "testWebhook",
]);

const JSON_TYPE = "application/json";

const LOCAL_URL = "http://127.0.0.1:8080";

/** Sends requests, with retries. The API key is private and is never shown. */
export class Transport {
  readonly url: string;
  /** The API key; `undefined` for an operation that needs none. */
  readonly #key: string | undefined;
  readonly #timeout: number;
  readonly #maxRetries: number;
  readonly #fetch: NonNullable<ClientOptions["fetch"]>;

  constructor(options: ClientOptions, isWithoutKey = false) {
    this.url = baseUrl(options.url ?? environment("JOURNEYMAN_URL") ?? LOCAL_URL);
    this.#key = isWithoutKey ? undefined : apiKey(options.key);
    this.#timeout = options.timeout ?? 60_000;
    this.#maxRetries = options.maxRetries ?? 4;
    this.#fetch = options.fetch ?? ((url, init) => fetch(url, init));
  }

  /** Sends a request, and returns the data of the response. */
  call<Id extends OperationId>(id: Id, parts: Parts<Id>, options: AllOptions = {}): ApiPromise<Result<Id>> {
    const accept = parts.accept ?? routes[id].accept;
    const read = async (response: Response) => {
      const data = decode(response, await response.text(), accept) as Result<Id>;
      return { data, response: info(response) };
    };
    return new ApiPromise(this.#send(id, parts, options, read));
  }

  /** Returns a list; `items` returns the entries of a page. */
  list<Id extends ListId, T>(
    id: Id,
    parts: Parts<Id>,
    options: RequestOptions,
    items: (page: Result<Id>) => T[],
  ): Pages<T> {
    return new Pages(async (cursor): Promise<Page<T>> => {
      const query = cursor === undefined ? parts.query : { ...parts.query, cursor };
      const page = await this.call(id, { ...parts, query } as Parts<Id>, options);
      const { nextCursor, hasMore } = page as unknown as ListPage;
      return { items: items(page), nextCursor: hasMore === false ? null : nextCursor };
    });
  }

  /** Returns a function that connects to a stream of events. The timeout applies until the stream begins. */
  connector<Id extends OperationId>(id: Id, parts: Parts<Id>, options: RequestOptions): Connect {
    return (lastId, signal, isReconnect) => {
      const maxRetries = options.maxRetries ?? (isReconnect ? Number.POSITIVE_INFINITY : this.#maxRetries);
      const read = async (response: Response) => response;
      return this.#send(id, { ...parts, lastEventId: lastId }, { ...options, signal, maxRetries }, read, true);
    };
  }

  /** Sends a request until `read` returns the response, or the failure is permanent. */
  async #send<Id extends OperationId, T>(
    id: Id,
    parts: Parts<Id>,
    options: AllOptions,
    read: (response: Response) => Promise<T>,
    isStream = false,
  ): Promise<T> {
    const { method, path, acceptsIdempotencyKey, accept } = routes[id];
    const headers = new Headers({
      accept: parts.accept ?? accept,
      "user-agent": `journeyman-typescript/${VERSION}`,
    });
    if (this.#key !== undefined) headers.set("authorization", `Bearer ${this.#key}`);
    if (parts.lastEventId !== undefined) headers.set("last-event-id", parts.lastEventId);
    if (parts.body !== undefined) headers.set("content-type", JSON_TYPE);
    if ("ifMatch" in options) {
      if (options.ifMatch === undefined) throw new TypeError("The option ifMatch is undefined.");
      headers.set("if-match", options.ifMatch);
    }
    // All attempts have the same key, so the server carries out the request once.
    if (acceptsIdempotencyKey) headers.set("idempotency-key", options.idempotencyKey ?? crypto.randomUUID());
    const init = { method, headers, body: parts.body === undefined ? null : JSON.stringify(parts.body) };
    const url = this.url + fill(path, parts.path ?? {}) + search(parts.query ?? {});
    const isRepeatable =
      method === "GET" ||
      acceptsIdempotencyKey ||
      REPEATABLE.has(id) ||
      method === "DELETE" ||
      // If the response to a change with `ifMatch` is lost, a repetition would be refused because of the change itself.
      ((method === "PUT" || method === "PATCH") && !options.ifMatch);

    const most = options.maxRetries ?? this.#maxRetries;
    for (let failures = 1; ; failures += 1) {
      try {
        return await this.#attempt(url, init, `${method} ${path}`, options, read, isStream);
      } catch (error) {
        const delay = failures > most ? undefined : retryDelay(error, failures, isRepeatable);
        if (delay === undefined) throw error;
        await sleep(delay, options.signal);
      }
    }
  }

  async #attempt<T>(
    url: string,
    init: RequestInit,
    what: string,
    { signal, timeout = this.#timeout }: RequestOptions,
    read: (response: Response) => Promise<T>,
    isStream: boolean,
  ): Promise<T> {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    const tooLate = new TimeoutError(`${what} got no response within ${timeout} ms`);
    const stopTimer = setTimer(() => controller.abort(tooLate), timeout);
    let isOpen = false;
    try {
      const response = await this.#fetch(url, { ...init, redirect: "manual", signal: controller.signal });
      if (response.status >= 300 && response.status < 400) {
        const target = response.headers.get("location") ?? "another address";
        throw new UnexpectedResponseError(`${this.url} redirects to ${target}. Set \`url\` to the address of the API.`);
      }
      if (!response.ok) throw apiError(response.status, response.headers, await response.text(), what);
      const result = await read(response);
      isOpen = isStream;
      return result;
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      if (controller.signal.aborted) throw tooLate;
      if (error instanceof ApiError || error instanceof UnexpectedResponseError) throw error;
      throw new ConnectionError(`no response from ${this.url} to ${what}: ${innermost(error)}`, { cause: error });
    } finally {
      stopTimer();
      // The signal also cancels a stream that has begun; it is removed with the signal.
      if (!isOpen) {
        signal?.removeEventListener("abort", abort);
        // Closes the connection if the body was not read.
        controller.abort();
      }
    }
  }
}

/** Returns the milliseconds until the next attempt; `undefined` if the request must not be repeated. */
function retryDelay(error: unknown, failures: number, isRepeatable: boolean): number | undefined {
  if (error instanceof ConnectionError) return isRepeatable ? backoff(failures) : undefined;
  if (!(error instanceof ApiError)) return undefined;
  // The server stores nothing before it answers with one of these.
  const isRefusal =
    error.code !== undefined && (error.status === 429 || error.status === 503 || error.code === "changed_meanwhile");
  if (!isRefusal && !(isRepeatable && [429, 502, 503, 504].includes(error.status))) return undefined;
  const delay = Math.max(backoff(failures), (error.retryAfter ?? 0) * 1000);
  return delay <= LONGEST_RETRY_AFTER ? delay : undefined;
}

/** Returns the given key, or the one in the environment. */
function apiKey(given: string | undefined): string {
  const key = (given ?? environment("JOURNEYMAN_KEY"))?.trim();
  if (!key) throw new TypeError("The API key is missing. Pass `key`, or set JOURNEYMAN_KEY.");
  if (!/^[\x21-\x7e]+$/.test(key)) throw new TypeError("The API key contains characters that are not allowed.");
  return key;
}

function baseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "http:" && url?.protocol !== "https:") {
    throw new TypeError("The URL of the server must begin with http:// or https://.");
  }
  if (url.username || url.password) throw new TypeError("The URL of the server must not contain credentials.");
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** Returns an environment variable, where the platform has them. */
function environment(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}

/** Replaces the parameters of a path. */
function fill(path: string, values: Record<string, string | number>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(values[name] ?? "");
    // A URL with these segments would be the path of another operation.
    if (!value || value === "." || value === "..") throw new TypeError(`The path parameter ${name} is not valid.`);
    return encodeURIComponent(value);
  });
}

function search(query: Record<string, unknown>): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    for (const item of Array.isArray(value) ? value : [value]) found.append(name, String(item));
  }
  const text = found.toString();
  return text && `?${text}`;
}

/** Returns the data of a response; `undefined` if it has no body. */
function decode(response: Response, text: string, accept: string): unknown {
  if (text === "" && [202, 204].includes(response.status)) return undefined;
  try {
    const type = response.headers.get("content-type");
    if (!type?.startsWith(accept)) throw new TypeError(`The content type is ${type}.`);
    return accept === JSON_TYPE ? JSON.parse(text) : text;
  } catch (cause) {
    throw new UnexpectedResponseError(`The response is not ${accept}. Is the server a Journeyman?`, { cause });
  }
}

function info({ status, headers }: Response): ResponseInfo {
  return {
    status,
    headers,
    requestId: headers.get("x-request-id") ?? undefined,
    etag: headers.get("etag") ?? undefined,
    replayed: headers.get("idempotent-replayed") === "true",
  };
}

/** Returns the text of the innermost cause, which is the specific one, such as "connection refused". */
function innermost(error: unknown): string {
  let cause = error;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  if (!(cause instanceof Error)) return String(cause);
  return cause.message || ("code" in cause ? String(cause.code) : cause.name);
}
