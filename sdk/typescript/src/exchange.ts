import type { ExchangedKey } from "./generated/api.js";
import type { ApiPromise } from "./promise.js";
import { type ClientOptions, Transport } from "./transport.js";

/** The options of the exchange of a token, which needs no API key. */
export interface ExchangeOptions extends Omit<ClientOptions, "key"> {
  /** The ID or the name of the trust that must accept the token; by default, any may. */
  trust?: string | undefined;
  /** Cancels the request, also between two attempts. */
  signal?: AbortSignal | undefined;
}

/** Exchanges a token for a key. The secret of the result is not enumerable, so that no log has it by accident. */
export function exchangeToken(token: string, options: ExchangeOptions): ApiPromise<ExchangedKey> {
  const { trust, signal, ...settings } = options;
  const transport = new Transport(settings, true);
  const body = trust === undefined ? { token } : { token, trust };
  return transport
    .call("exchangeToken", { body }, { signal })
    .map((key) => Object.defineProperty(key, "secret", { enumerable: false }));
}
