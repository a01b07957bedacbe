import { WaitTimeoutError } from "./errors.js";
import { setTimer, sleep } from "./retry.js";

/** The options of a wait. */
export interface WaitOptions {
  /** The maximum time to wait, in milliseconds; by default, there is no limit. */
  timeout?: number | undefined;
  /** Cancels the wait. The job continues. */
  signal?: AbortSignal | undefined;
  /** The maximum number of retries of each request; by default, 10, which bridges a restart of the server. */
  maxRetries?: number | undefined;
}

/** The options of each request of a wait. */
type Request = { signal: AbortSignal; maxRetries: number };

/** The shortest time between two attempts, in milliseconds. A server that is stopping does not hold responses. */
const PAUSE = 500;

/** Calls `attempt` until it returns something. `subject` begins the message of the error after `timeout`. */
export async function wait<T>(
  subject: string,
  { timeout = Number.POSITIVE_INFINITY, signal, maxRetries = 10 }: WaitOptions,
  attempt: (request: Request) => Promise<T | undefined>,
): Promise<T> {
  const late = new AbortController();
  const error = new WaitTimeoutError(`${subject} after ${timeout} ms`);
  const stopTimer = setTimer(() => late.abort(error), timeout);
  const either = signal ? AbortSignal.any([signal, late.signal]) : late.signal;
  try {
    for (;;) {
      const begun = Date.now();
      const found = await attempt({ signal: either, maxRetries });
      if (found !== undefined) return found;
      await sleep(begun + PAUSE - Date.now(), either);
    }
  } finally {
    stopTimer();
  }
}
