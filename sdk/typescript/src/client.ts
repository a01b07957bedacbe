import { type ExchangeOptions, exchangeToken } from "./exchange.js";
import type { Agent, ExchangedKey, Me, Provider, System } from "./generated/api.js";
import type { ApiPromise } from "./promise.js";
import { CodeHosts } from "./resources/code-hosts.js";
import { Events } from "./resources/events.js";
import { Jobs } from "./resources/jobs.js";
import { Keys } from "./resources/keys.js";
import { Messages } from "./resources/messages.js";
import { Projects } from "./resources/projects.js";
import { Pulls } from "./resources/pulls.js";
import { Slack } from "./resources/slack.js";
import { Audit, Inbox, Runs, UsageReports } from "./resources/system.js";
import { Templates } from "./resources/templates.js";
import { Trusts } from "./resources/trusts.js";
import { Users } from "./resources/users.js";
import { Webhooks } from "./resources/webhooks.js";
import { type ClientOptions, type RequestOptions, Transport } from "./transport.js";

/**
 * A client of a Journeyman server.
 *
 * ```ts
 * const client = new Journeyman({ url: "https://journeyman.example.com", key: "jmn_…" });
 * const job = await client.jobs.create("shop", { prompt: "Add a search field to the list of orders." });
 * await job.wait();
 * ```
 *
 * Requests are retried after lost connections and temporary failures, `maxRetries` times. Requests that create something
 * or act have an idempotency key, so that a retry never has a second effect.
 *
 * API keys are for servers: do not send them to browsers. The key of a client is never part of an error, of JSON, or of
 * the output of `console.log`.
 */
export class Journeyman {
  readonly #transport: Transport;
  /** The URL of the server. */
  readonly url: string;
  /** Jobs: units of work that an AI coding agent carries out. */
  readonly jobs: Jobs;
  /** Follow-up messages to jobs, and their receipts. */
  readonly messages: Messages;
  /** The attempts at messages. */
  readonly runs: Runs;
  /** The feed: events of all jobs. */
  readonly events: Events;
  /** Projects: repositories with settings. */
  readonly projects: Projects;
  /** Prompts of projects that people choose when they create a job. */
  readonly templates: Templates;
  /** The pull requests of projects. */
  readonly pulls: Pulls;
  /** The webhooks of projects. */
  readonly webhooks: Webhooks;
  /** The code hosts of the installation. */
  readonly codeHosts: CodeHosts;
  /** The events that code hosts have sent. */
  readonly inbox: Inbox;
  /** API keys. */
  readonly keys: Keys;
  /** Users of the dashboard. */
  readonly users: Users;
  /** Rules about which tokens of CI services are exchanged for keys. */
  readonly trusts: Trusts;
  /** Slack workspaces. */
  readonly slack: Slack;
  /** The usage of models. */
  readonly usage: UsageReports;
  /** The audit log. */
  readonly audit: Audit;

  /**
   * Creates a client. It connects with its first request.
   *
   * @throws {TypeError} The URL or the key is missing or not valid.
   */
  constructor(options: ClientOptions = {}) {
    const transport = new Transport(options);
    this.#transport = transport;
    this.url = transport.url;
    this.jobs = new Jobs(transport, this);
    this.messages = new Messages(transport, this);
    this.runs = new Runs(transport);
    this.events = new Events(transport);
    this.projects = new Projects(transport);
    this.templates = new Templates(transport);
    this.pulls = new Pulls(transport);
    this.webhooks = new Webhooks(transport);
    this.codeHosts = new CodeHosts(transport);
    this.inbox = new Inbox(transport);
    this.keys = new Keys(transport);
    this.users = new Users(transport);
    this.trusts = new Trusts(transport);
    this.slack = new Slack(transport);
    this.usage = new UsageReports(transport);
    this.audit = new Audit(transport);
  }

  /**
   * Exchanges the OpenID token of a CI job for a key that works for 15 minutes. Needs no API key, and sends none. Pass the
   * `secret` of the result as `key` to a client; `console.log` and JSON leave it out.
   *
   * @throws {AuthenticationError} The token is not valid (`token_refused`).
   * @throws {PermissionDeniedError} No trust accepts the token (`token_not_trusted`).
   */
  static exchangeToken(token: string, options: ExchangeOptions = {}): ApiPromise<ExchangedKey> {
    return exchangeToken(token, options);
  }

  /** Returns the key of this client without its secret, and what it may do. */
  me(options?: RequestOptions): ApiPromise<Me> {
    return this.#transport.call("getMe", {}, options);
  }

  /** Returns the agents that projects and jobs can name, ordered by ID. */
  agents(options?: RequestOptions): ApiPromise<Agent[]> {
    return this.#transport.call("listAgents", {}, options).map(({ agents }) => agents);
  }

  /** Returns the providers of models with their prices, ordered by ID. */
  models(options?: RequestOptions): ApiPromise<Provider[]> {
    return this.#transport.call("listModels", {}, options).map(({ providers }) => providers);
  }

  /** Returns the version of the server, and the guarantees of its sandbox. */
  system(options?: RequestOptions): ApiPromise<System> {
    return this.#transport.call("getSystem", {}, options);
  }
}
