// Calls the operations on trusts and on Slack workspaces.
//
// The reference at /docs of a server shows each region as the example of the operation that it is named after. The
// server needs a project "shop", and a stand-in for Slack as its "slack-api-url". CI_TOKEN can have a token of a CI
// service.

import { ApiError, Journeyman, PermissionDeniedError } from "@journeyman/client";

const client = new Journeyman();

// Trusts

// #region createTrust
const trust = await client.trusts.create({
  name: "shop-ci",
  issuer: "https://token.actions.githubusercontent.com",
  claims: { repository: "acme/shop", ref: "refs/heads/main" },
  projects: ["shop"],
  scope: "jobs",
});
console.log(trust.id, trust.audience);
// #endregion

// #region listTrusts
for await (const { name, issuer, lastUsedAt } of client.trusts.list()) console.log(name, issuer, lastUsedAt);
// #endregion

const trustId = trust.id;
// #region getTrust
const found = await client.trusts.get(trustId).withResponse();
console.log(found.data.claims, found.response.etag);
// #endregion

// #region changeTrust
const changed = await client.trusts.update(trustId, { scope: "read" }, { ifMatch: found.response.etag });
console.log(changed.scope);
// #endregion

// #region deleteTrust
await client.trusts.delete(trustId);
// #endregion

const token = process.env.CI_TOKEN ?? "not a token";
// #region exchangeToken
try {
  const exchanged = await Journeyman.exchangeToken(token); // a token of the CI service; needs no key
  const short = new Journeyman({ key: exchanged.secret }); // works for 15 minutes
  console.log((await short.me()).key.name, exchanged.expiresAt);
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.log(error.code, error.message); // such as token_not_trusted
}
// #endregion

// Slack

// #region createSlackWorkspace
const workspace = await client.slack.create({
  mode: "events",
  botToken: "xoxb-example",
  signingSecret: "8f742231b10e8888abcd99yyyzzz85a5",
  channels: { C012AB3CD: "shop" },
});
console.log(workspace.name, workspace.eventsUrl);
// #endregion

// #region listSlackWorkspaces
for (const { id, name, channels } of await client.slack.list()) console.log(id, name, channels);
// #endregion

const workspaceId = workspace.id;
// #region getSlackWorkspace
const { mode, hasBotToken } = await client.slack.get(workspaceId);
console.log(mode, hasBotToken);
// #endregion

// #region changeSlackWorkspace
const channels = { C045EF6GH: "shop", C012AB3CD: null }; // null disconnects a channel
console.log((await client.slack.update(workspaceId, { channels })).channels);
// #endregion

// #region checkSlackWorkspace
const { findings } = await client.slack.check(workspaceId);
for (const { health, text } of findings) console.log(health, text);
// #endregion

// #region listSlackEvents
for await (const event of client.slack.events(workspaceId)) console.log(event.receivedAt, event.outcome, event.jobId);
// #endregion

// #region listSlackPosts
for await (const post of client.slack.posts(workspaceId)) console.log(post.createdAt, post.state, post.detail);
// #endregion

// #region createSlackCode
try {
  console.log("link", (await client.slack.createCode()).code); // to send to the bot as a direct message
} catch (error) {
  if (!(error instanceof PermissionDeniedError)) throw error;
  console.log(error.message); // the key must belong to a user
}
// #endregion

// #region removeSlackWorkspace
await client.slack.remove(workspaceId);
// #endregion
