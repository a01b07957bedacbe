// Stand-ins for Slack and for the OpenID issuer of a CI service, on one port of the loopback interface.

import { generateKeyPairSync, sign as signBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** The only bot token that Slack accepts. */
export const BOT_TOKEN = "xoxb-example";

export const AUDIENCE = "https://journeyman.example.com";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");

function answer(path: string | undefined, authorization: string | undefined): unknown {
  if (path === "/.well-known/openid-configuration") return { issuer, jwks_uri: `${issuer}/keys` };
  if (path === "/keys") {
    return { keys: [{ ...publicKey.export({ format: "jwk" }), alg: "EdDSA", use: "sig", kid: "1" }] };
  }
  if (authorization !== `Bearer ${BOT_TOKEN}`) return { ok: false, error: "invalid_auth" };
  return { ok: true, team_id: "T012AB3CD", team: "Acme", user_id: "U012AB3CD" };
}

const server = createServer((request, response) => {
  request.resume();
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(answer(request.url, request.headers.authorization)));
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
server.unref();

/** The issuer of {@link sign}. */
export const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** The URL of Slack's interface. */
export const slackUrl = `${issuer}/slack/`;

/** Returns a token of the issuer. */
export function sign(claims: Record<string, string>): string {
  const now = Math.floor(Date.now() / 1000);
  const payload = { iss: issuer, aud: AUDIENCE, sub: "ci", iat: now, nbf: now, exp: now + 300, ...claims };
  const parts = [{ alg: "EdDSA", kid: "1", typ: "JWT" }, payload];
  const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
  return `${signed}.${signBytes(null, Buffer.from(signed), privateKey).toString("base64url")}`;
}
