/**
 * A client of Journeyman, a self-hosted service that runs agent jobs on git repositories.
 *
 * @packageDocumentation
 */

export { Journeyman } from "./client.js";
export {
  ApiError,
  type ApiErrorCode,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  CursorExpiredError,
  InvalidRequestError,
  JourneymanError,
  NotFoundError,
  PermissionDeniedError,
  PreconditionFailedError,
  RateLimitError,
  ServerError,
  TimeoutError,
  UnexpectedResponseError,
  WaitTimeoutError,
  WebhookVerificationError,
} from "./errors.js";
export type { ExchangeOptions } from "./exchange.js";
export type { FeedEvent } from "./feed.js";
export type * from "./generated/api.js";
export { type AskOptions, Job } from "./job.js";
export { type Page, Pages } from "./pages.js";
export { ApiPromise, type ResponseInfo } from "./promise.js";
export type { CodeHosts } from "./resources/code-hosts.js";
export type { Events, EventsQuery, EventTypes, FeedStreamOptions } from "./resources/events.js";
export type { JobEventsQuery, Jobs, JobsQuery, ListQuery, StreamOptions } from "./resources/jobs.js";
export type { Keys } from "./resources/keys.js";
export type { Messages } from "./resources/messages.js";
export type { Projects } from "./resources/projects.js";
export type { Pulls, PullsQuery } from "./resources/pulls.js";
export type { Slack } from "./resources/slack.js";
export type { Audit, Inbox, Runs, UsageReports } from "./resources/system.js";
export type { Templates } from "./resources/templates.js";
export type { Trusts } from "./resources/trusts.js";
export type { Users } from "./resources/users.js";
export type { Webhooks } from "./resources/webhooks.js";
export type { SentMessage } from "./sent-message.js";
export type { ChangeOptions, ClientOptions, IdempotentOptions, RequestOptions } from "./transport.js";
export { VERSION } from "./version.js";
export type { WaitOptions } from "./wait.js";
export * from "./webhook.js";

import type { components } from "./generated/api.js";

/** The record of a job: seven fields. */
export type JobRecord = components["schemas"]["Job"];
/** An event of a job. */
export type JobEvent = components["schemas"]["Event"];
