import { ConnectionError, UnexpectedResponseError } from "./errors.js";
import { backoff, setTimer, sleep } from "./retry.js";

/** A server-sent event. */
interface ServerSentEvent {
  /** The ID to resume after. */
  id: string | undefined;
  /** The text; empty if the event only sets the ID. */
  data: string;
}

/** The milliseconds without any data after which a connection counts as lost. The server sends a comment every 15 s. */
const SILENCE = 45_000;

/** Opens a connection that begins after the event with the ID; `undefined` means where the caller wants to begin. */
export type Connect = (lastId: string | undefined, signal: AbortSignal, isReconnect: boolean) => Promise<Response>;

/** Iterates over the events of a stream, which ends only with an error response, or when `signal` is aborted. */
export async function* events<T>(
  connect: Connect,
  signal: AbortSignal | undefined,
): AsyncGenerator<T, void, undefined> {
  for await (const { data } of messages(connect, signal)) {
    if (data) yield parse<T>(data);
  }
}

/** Returns the cursor at which a stream begins: the ID of its first message. */
export async function firstCursor(connect: Connect, signal: AbortSignal | undefined): Promise<string> {
  for await (const { id } of messages(connect, signal)) {
    if (id !== undefined) return id;
  }
  throw new UnexpectedResponseError("The stream has ended without a cursor.");
}

/**
 * Iterates over the messages of a stream. After a lost connection, the stream continues after the last complete one, so
 * that no event is lost or repeated.
 */
async function* messages(
  connect: Connect,
  signal: AbortSignal | undefined,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  let lastId: string | undefined;
  let isReconnect = false;
  for (let failures = 1; ; failures += 1) {
    signal?.throwIfAborted();
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      const { headers, body } = await connect(lastId, controller.signal, isReconnect);
      if (!headers.get("content-type")?.startsWith("text/event-stream") || !body) {
        throw new UnexpectedResponseError("The server did not answer with a stream of events.");
      }
      isReconnect = true;
      const received = serverSentEvents(body, controller);
      for (let next = await read(received, signal); next; next = await read(received, signal)) {
        failures = 1;
        lastId = next.id ?? lastId;
        yield next;
      }
    } finally {
      signal?.removeEventListener("abort", abort);
      controller.abort();
    }
    await sleep(backoff(failures), signal);
  }
}

/** Returns the next event; `undefined` if the connection has ended or was lost. */
async function read(
  received: AsyncGenerator<ServerSentEvent, void>,
  signal: AbortSignal | undefined,
): Promise<ServerSentEvent | undefined> {
  try {
    return (await received.next()).value ?? undefined;
  } catch {
    signal?.throwIfAborted();
    return undefined;
  }
}

/** Parses server-sent events. An event that is not complete at the end is discarded. */
async function* serverSentEvents(
  body: ReadableStream<Uint8Array>,
  controller: AbortController,
): AsyncGenerator<ServerSentEvent, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const silent = new ConnectionError("The stream of events is silent.");
  let rest = "";
  let event: ServerSentEvent = { id: undefined, data: "" };
  for (;;) {
    const stopTimer = setTimer(() => controller.abort(silent), SILENCE);
    const { value, done } = await reader.read().finally(stopTimer);
    if (done) return;
    // A carriage return at the end may be the first half of a line break.
    const lines = (rest + decoder.decode(value, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        event.data = event.data.slice(0, -1);
        yield event;
        event = { id: undefined, data: "" };
      }
      const [, field, text = ""] = /^(id|data)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (field === "id") event.id = text;
      if (field === "data") event.data += `${text}\n`;
    }
  }
}

function parse<T>(data: string): T {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new UnexpectedResponseError("The server sent an event that is not JSON.", { cause });
  }
}
