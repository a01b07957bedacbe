// Calls the operations on projects, templates, code hosts, keys and users, and those that report.
//
// The reference at /docs of a server shows each region as the example of the operation that it is named after. The
// server needs a project "shop" with the test model, and no project "cafe".

import { Journeyman } from "@journeyman/client";

const client = new Journeyman();

// Projects

// #region testNewProject
const { findings } = await client.projects.testNew({ id: "cafe", repository: "local:shop" });
for (const { health, text } of findings) console.log(health, text);
// #endregion

// #region createProject
const project = await client.projects.create({
  id: "cafe",
  repository: "local:cafe",
  limits: { budget: { runMicros: 5_000_000 } }, // 5 US dollars for each run
});
console.log(project.id, project.repository);
// #endregion

// #region listProjects
for await (const { id, repository } of client.projects.list()) console.log(id, repository);
// #endregion

// #region getProject
const { data, response } = await client.projects.get("cafe").withResponse();
console.log(data.agent, data.model, response.etag);
// #endregion

// #region changeProject
const changed = await client.projects.update("cafe", { setup: "npm ci" }, { ifMatch: response.etag });
console.log(changed.setup);
// #endregion

// #region testProject
const tested = await client.projects.test("shop", { setup: "true" });
console.log(tested.findings.every(({ health }) => health === "ok"));
// #endregion

// #region deleteProject
await client.projects.delete("cafe");
// #endregion

// Templates

// #region createTemplate
const template = await client.templates.create("shop", {
  name: "Fix a bug",
  prompt: "Fix the bug below, and add a test that fails without the fix.\n\n",
  labels: ["bug"],
});
console.log(template.id, template.name);
// #endregion

// #region listTemplates
for await (const { name, description } of client.templates.list("shop")) console.log(name, description);
// #endregion

const templateId = template.id;
// #region getTemplate
const saved = await client.templates.get("shop", templateId).withResponse();
console.log(saved.data.prompt, saved.data.labels); // to create a job with
// #endregion

// #region changeTemplate
const renamed = await client.templates.update(
  "shop",
  templateId,
  { name: "Repair a bug" },
  { ifMatch: saved.response.etag },
);
console.log(renamed.name);
// #endregion

// #region deleteTemplate
await client.templates.delete("shop", templateId);
// #endregion

// Code hosts

// #region createCodeHost
const host = await client.codeHosts.create({
  id: "gitea",
  kind: "gitea",
  url: "http://127.0.0.1:9",
  token: "a token of the code host",
});
console.log(host.webhookUrl);
// #endregion

// #region listCodeHosts
for await (const { id, kind, url } of client.codeHosts.list()) console.log(id, kind, url);
// #endregion

// #region getCodeHost
const found = await client.codeHosts.get("gitea").withResponse();
console.log(found.data.hasToken, found.response.etag);
// #endregion

// #region replaceCodeHost
const replaced = await client.codeHosts.replace(
  "gitea",
  { kind: "gitea", url: "http://127.0.0.1:9", trustedBots: ["4711"] },
  { ifMatch: found.response.etag },
);
console.log(replaced.trustedBots);
// #endregion

// #region checkCodeHost
const checked = await client.codeHosts.check("gitea");
for (const { health, text } of checked.findings) console.log(health, text);
// #endregion

// #region removeCodeHost
await client.codeHosts.remove("gitea");
// #endregion

// #region listInbox
for await (const event of client.inbox.listAll({ state: "failed" })) console.log(event.receivedAt, event.detail);
// #endregion

// #region listProjectInbox
for await (const event of client.inbox.list("shop")) console.log(event.receivedAt, event.event, event.outcome);
// #endregion

// Keys

// #region getMe
const me = await client.me();
console.log(me.key.name, me.key.scopes, me.managesProjects);
// #endregion

// #region createKey
const key = await client.keys.create({ name: "ci", scopes: ["jobs"], projects: ["shop"] });
console.log(key.secret.length); // store it now: no other response contains it
// #endregion

// #region listKeys
for await (const { id, name, lastUsedAt } of client.keys.list()) console.log(id, name, lastUsedAt);
// #endregion

const keyId = key.id;
// #region getKey
const { name, expiresAt, revokedAt } = await client.keys.get(keyId);
console.log(name, expiresAt, revokedAt);
// #endregion

// #region rotateKey
const rotated = await client.keys.rotate(keyId, { keepOldSeconds: 3600 });
console.log(rotated.secret.length); // the old secret works for an hour more
// #endregion

// #region revokeKey
await client.keys.revoke(keyId);
// #endregion

// Users

// #region createUser
const user = await client.users.create({ name: "ada@example.com", role: "member" });
console.log(user.link.url.length); // send it to the user: no other response contains it
// #endregion

// #region listUsers
for await (const { name, role, signedInAt } of client.users.list()) console.log(name, role, signedInAt);
// #endregion

const userId = user.id;
// #region getUser
const stored = await client.users.get(userId).withResponse();
console.log(stored.data.hasPassword, stored.data.disabledAt, stored.response.etag);
// #endregion

// #region createUserLink
const link = await client.users.createLink(userId);
console.log(link.expiresAt); // the old link no longer works
// #endregion

// #region changeUser
const updated = await client.users.update(userId, { role: "viewer" }, { ifMatch: stored.response.etag });
console.log(updated.role);
// #endregion

// Reports, and the settings of the server

// #region getUsage
const report = await client.usage.get({ groupBy: ["day", "model"], project: ["shop"] });
console.log(report.total.runs, report.total.costMicros);
// #endregion

// #region listAudit
for (const { at, actorName, action } of await client.audit.list().toArray(10)) console.log(at, actorName, action);
// #endregion

// #region exportAudit
console.log(await client.audit.export()); // CSV
// #endregion

// #region listAgents
for (const agent of await client.agents()) console.log(agent.id);
// #endregion

// #region listModels
for (const { id, ready } of await client.models()) console.log(id, ready);
// #endregion

// #region getSystem
console.log((await client.system()).version);
// #endregion
