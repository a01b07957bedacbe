/** The response to a request, without its body. */
export interface ResponseInfo {
  /** The HTTP status. */
  readonly status: number;
  /** The headers. */
  readonly headers: Headers;
  /** The ID of the request, which is also in the log of the server. */
  readonly requestId: string | undefined;
  /** The version of the resource, to pass as `ifMatch` to a change; `undefined` if the response has none. */
  readonly etag: string | undefined;
  /** `true` if the server had already carried out a request with the same idempotency key, and did nothing now. */
  readonly replayed: boolean;
}

/** The result of a request: a promise of its data. {@link withResponse} also returns the headers of the response. */
export class ApiPromise<T> implements Promise<T> {
  readonly #result: Promise<{ data: T; response: ResponseInfo }>;

  /** @internal */
  constructor(result: Promise<{ data: T; response: ResponseInfo }>) {
    this.#result = result;
  }

  /** Returns the data, and the response without its body. */
  withResponse(): Promise<{ data: T; response: ResponseInfo }> {
    return this.#result;
  }

  /** @internal Returns a promise of the converted data. */
  map<U>(convert: (data: T, response: ResponseInfo) => U): ApiPromise<U> {
    return new ApiPromise(this.#result.then(({ data, response }) => ({ data: convert(data, response), response })));
  }

  // biome-ignore lint/suspicious/noThenProperty: this class implements a promise
  then<A = T, B = never>(
    onFulfilled?: ((data: T) => A | PromiseLike<A>) | null,
    onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#result.then(({ data }) => data).then(onFulfilled, onRejected);
  }

  catch<B = never>(onRejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, onRejected);
  }

  finally(onFinally?: (() => void) | null): Promise<T> {
    return this.then().finally(onFinally);
  }

  get [Symbol.toStringTag](): string {
    return "ApiPromise";
  }
}
