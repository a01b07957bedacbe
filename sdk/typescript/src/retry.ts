/** The first delay between two attempts, in milliseconds. It doubles with each attempt. */
const FIRST_DELAY = 500;

/** The longest delay that the client chooses, in milliseconds. */
const LONGEST_DELAY = 8_000;

/** Returns the delay after a number of failed attempts, in milliseconds: exponential, minus a random part of up to half. */
export function backoff(failures: number): number {
  const delay = Math.min(FIRST_DELAY * 2 ** (failures - 1), LONGEST_DELAY);
  return delay * (1 - Math.random() / 2);
}

/** The longest time of a timer of JavaScript, in milliseconds. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Calls `run` after a number of milliseconds, unless the returned function is called first. Times that JavaScript does not support mean never. */
export function setTimer(run: () => void, milliseconds: number): () => void {
  if (milliseconds > LONGEST_TIMER) return () => {};
  const timer = setTimeout(run, milliseconds);
  return () => clearTimeout(timer);
}

/** Waits for a number of milliseconds. Rejects with the reason of the signal when it is aborted. */
export function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
