import { WebhookVerificationError } from "./errors.js";
import type { FeedEvent } from "./feed.js";

/**
 * An event that a webhook received. Its `id` is the header `webhook-id`. Newer servers may send other types at run time:
 * ignore types that you do not know.
 */
export type WebhookEvent = FeedEvent;

/** The headers of a request: the `Headers` of `fetch`, the `headers` of `node:http`, or an object. */
export type WebhookHeaders =
  | { get(name: string): string | null }
  | Record<string, string | readonly string[] | undefined>;

/** The options of {@link verifyWebhook}. */
export interface VerifyOptions {
  /** The largest difference between the timestamp of the request and the clock, in seconds; by default, 300. */
  tolerance?: number | undefined;
  /** The current time, in milliseconds since 1970; by default, the clock's. */
  now?: number | undefined;
}

/**
 * Verifies the signature and the time of a webhook request as Standard Webhooks specifies, and returns its event.
 *
 * An event can come more than once, always with the same `id`.
 *
 * @param body The body as it was received. A body that was parsed and serialized again has another signature.
 * @param headers The headers of the request.
 * @param secrets The secret of the webhook (`whsec_…`), or several while it is rotated: one of them must match.
 * @throws {WebhookVerificationError} The signature is missing or wrong, or the request is too old.
 */
export async function verifyWebhook(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secrets: string | readonly string[],
  { tolerance = 300, now = Date.now() }: VerifyOptions = {},
): Promise<WebhookEvent> {
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  if (!/^\d{1,12}$/.test(timestamp))
    throw new WebhookVerificationError("The header webhook-timestamp is not a number.");
  if (Math.abs(now / 1000 - Number(timestamp)) > tolerance) {
    throw new WebhookVerificationError(`The timestamp of the request is not within ${tolerance} s of the clock.`);
  }
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const signed = join(new TextEncoder().encode(`${id}.${timestamp}.`), content);
  const signatures = header(headers, "webhook-signature")
    .split(" ")
    .filter((value) => value.startsWith("v1,"));
  const keys = await Promise.all([secrets].flat().map(importKey));
  for (const signature of signatures) {
    const bytes = base64(signature.slice("v1,".length));
    if (!bytes) continue;
    for (const key of keys) {
      // Compares in constant time.
      if (await crypto.subtle.verify("HMAC", key, bytes, signed)) return parse(text, id);
    }
  }
  throw new WebhookVerificationError("No signature of the request matches a secret.");
}

function header(headers: WebhookHeaders, name: string): string {
  const value = typeof headers.get === "function" ? headers.get(name) : find(headers, name);
  if (typeof value !== "string" || !value) throw new WebhookVerificationError(`The header ${name} is missing.`);
  return value;
}

/** Finds a header by its name in any case. */
function find(headers: object, name: string): unknown {
  return Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1];
}

function importKey(secret: string): Promise<CryptoKey> {
  const bytes = base64(secret.replace(/^whsec_/, ""));
  if (!bytes?.length) throw new TypeError("The secret of a webhook must be base64, after the prefix whsec_.");
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
}

/** Decodes base64; returns `undefined` if the text is not base64. */
function base64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array<ArrayBuffer> {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}

function parse(text: string, id: string): WebhookEvent {
  let event: { type?: unknown; data?: unknown } | null;
  try {
    event = JSON.parse(text);
  } catch (cause) {
    throw new WebhookVerificationError("The body is not JSON. Is the format of the webhook `standard`?", { cause });
  }
  if (typeof event?.type !== "string" || !event.data) throw new WebhookVerificationError("The body is not an event.");
  return { ...event, id } as WebhookEvent;
}
