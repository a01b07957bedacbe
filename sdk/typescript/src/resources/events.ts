import type { FeedEvent } from "../feed.js";
import type { ProjectEventType } from "../generated/api.js";
import type { Pages } from "../pages.js";
import { events, firstCursor } from "../stream.js";
import type { Query, RequestOptions, Transport } from "../transport.js";
import type { StreamOptions } from "./jobs.js";

/** Types of events. Servers that are newer than this package may know other types. */
export type EventTypes = (ProjectEventType | (string & {}))[];

/** The query of a list of events. */
export interface EventsQuery extends Omit<Query<"listAllEvents">, "type"> {
  /** Returns the events of this project; by default, of all projects that the key may see. */
  project?: string | undefined;
  /** Returns only events of these types. */
  type?: EventTypes | undefined;
}

/** The options of a stream of events. */
export interface FeedStreamOptions extends StreamOptions {
  /** Streams the events of this project; by default, of all projects that the key may see. */
  project?: string | undefined;
  /** Streams only events of these types. */
  type?: EventTypes | undefined;
  /** The `id` of an event, or a `nextCursor`: begins after it. By default, begins with the next event. */
  cursor?: string | undefined;
}

/** The feed: the events of all jobs of a project, or of all projects. */
export class Events {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Lists the stored events, oldest first. Events are stored for 30 days.
   *
   * @throws {CursorExpiredError} The events after `cursor` are no longer stored.
   */
  list({ project, ...query }: EventsQuery = {}, options: RequestOptions = {}): Pages<FeedEvent> {
    if (project === undefined) return this.#transport.list("listAllEvents", { query }, options, feedEvents);
    const parts = { path: { projectId: project }, query };
    return this.#transport.list("listProjectEvents", parts, options, feedEvents);
  }

  /** Returns the cursor after the newest event: a stream that begins there receives all events from now on. */
  newestCursor(options: StreamOptions = {}): Promise<string> {
    return firstCursor(this.#transport.connector("streamAllEvents", {}, options), options.signal);
  }

  /**
   * Streams events as they happen. The stream reconnects when the connection is lost, and never loses or repeats an
   * event. It does not end by itself: leave the loop, or abort `signal`. To resume it in another process, store the
   * `id` of the last event that was processed, and pass it as `cursor`.
   *
   * Without `cursor`, the stream begins when it has connected, which it does when the iteration begins. To receive the
   * events of something that you do before, get {@link newestCursor} first.
   *
   * @throws {CursorExpiredError} The events after `cursor` are no longer stored.
   */
  stream(options: FeedStreamOptions = {}): AsyncGenerator<FeedEvent, void, undefined> {
    const { project, type, cursor, ...request } = options;
    const query = { type, cursor };
    const connect =
      project === undefined
        ? this.#transport.connector("streamAllEvents", { query }, request)
        : this.#transport.connector("streamProjectEvents", { path: { projectId: project }, query }, request);
    return events<FeedEvent>(connect, request.signal);
  }
}

/** Returns the events of a page. Events of unknown types, which newer servers may send, are not typed. */
function feedEvents(page: { events: unknown[] }): FeedEvent[] {
  return page.events as FeedEvent[];
}
