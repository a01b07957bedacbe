import type { ErrorBody, ErrorCode } from "./generated/api.js";

/** The base class of all errors of this package, except errors about arguments, which are `TypeError`. */
export class JourneymanError extends Error {
  override name = "JourneymanError";
}

/** The server could not be reached, or the connection was lost before the whole response had arrived. */
export class ConnectionError extends JourneymanError {
  override name = "ConnectionError";
}

/** A request got no response within its `timeout`. The server may have carried it out. */
export class TimeoutError extends ConnectionError {
  override name = "TimeoutError";
}

/** The response is not one of the HTTP interface. The URL may belong to another service. */
export class UnexpectedResponseError extends JourneymanError {
  override name = "UnexpectedResponseError";
}

/** A job is still active after the `timeout` of a wait. The job continues. */
export class WaitTimeoutError extends JourneymanError {
  override name = "WaitTimeoutError";
}

/** The signature of a webhook request is missing or wrong, or its timestamp is too old or too new. */
export class WebhookVerificationError extends JourneymanError {
  override name = "WebhookVerificationError";
}

/** A code of the HTTP interface. Servers that are newer than this package may send other codes. */
export type ApiErrorCode = ErrorCode | (string & {});

/**
 * An error response of the server.
 *
 * There is a subclass for each class of errors, such as {@link NotFoundError}. `code` names the exact cause, such as
 * `job_archived`.
 */
export class ApiError extends JourneymanError {
  override name = "ApiError";
  /** The HTTP status. */
  readonly status: number;
  /** The stable code of the error; `undefined` if another program answered, such as a proxy. */
  readonly code: ApiErrorCode | undefined;
  /** The ID of the request, which is also in the log of the server. */
  readonly requestId: string | undefined;
  /** The number of seconds to wait before another attempt, if the server requests it. */
  readonly retryAfter: number | undefined;
  /** The headers of the response. */
  readonly headers: Headers;

  /** @internal */
  constructor(status: number, headers: Headers, text: string, what: string) {
    const body = parseBody(text);
    const requestId = body?.requestId ?? headers.get("x-request-id") ?? undefined;
    const message = body?.error ?? `${what} was answered with status ${status} and no description`;
    super(requestId === undefined ? message : `${message} (status ${status}, request ${requestId})`);
    this.status = status;
    this.code = body?.code;
    this.requestId = requestId;
    this.retryAfter = parseRetryAfter(headers.get("retry-after"));
    this.headers = headers;
  }
}

/** Status 400, 413, 414, 415 or 422: the request is not valid. The message names the field. */
export class InvalidRequestError extends ApiError {
  override name = "InvalidRequestError";
}

/** Status 401: the API key is missing, malformed, unknown, expired, or revoked. */
export class AuthenticationError extends ApiError {
  override name = "AuthenticationError";
}

/** Status 403: the API key may not do this, or not from this address. */
export class PermissionDeniedError extends ApiError {
  override name = "PermissionDeniedError";
}

/** Status 404: the resource does not exist, or belongs to a project that the API key may not see. */
export class NotFoundError extends ApiError {
  override name = "NotFoundError";
}

/** Status 409: the state of the resource forbids the operation. */
export class ConflictError extends ApiError {
  override name = "ConflictError";
}

/** Status 410: the events after a cursor are no longer stored. */
export class CursorExpiredError extends ApiError {
  override name = "CursorExpiredError";
}

/** Status 412: the resource has another version than `ifMatch` requires. */
export class PreconditionFailedError extends ApiError {
  override name = "PreconditionFailedError";
}

/** Status 429: the limit of the hour is used up, or the queue of the job is full. See `retryAfter`. */
export class RateLimitError extends ApiError {
  override name = "RateLimitError";
}

/** Status 500 to 599: the server failed, or cannot process requests at the moment. */
export class ServerError extends ApiError {
  override name = "ServerError";
}

const CLASSES: Record<number, typeof ApiError> = {
  400: InvalidRequestError,
  401: AuthenticationError,
  403: PermissionDeniedError,
  404: NotFoundError,
  409: ConflictError,
  410: CursorExpiredError,
  412: PreconditionFailedError,
  413: InvalidRequestError,
  414: InvalidRequestError,
  415: InvalidRequestError,
  422: InvalidRequestError,
  429: RateLimitError,
};

/** Returns the error for a response with the body `text`; `what` describes the request. */
export function apiError(status: number, headers: Headers, text: string, what: string): ApiError {
  const Class = CLASSES[status] ?? (status >= 500 ? ServerError : ApiError);
  return new Class(status, headers, text, what);
}

function parseBody(text: string): ErrorBody | undefined {
  try {
    const body = JSON.parse(text);
    return typeof body?.error === "string" ? body : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the seconds of a `Retry-After` header, which is a number or a date. */
function parseRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}
