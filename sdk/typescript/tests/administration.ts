import assert from "node:assert/strict";
import { test } from "node:test";
import { ConflictError, NotFoundError, PreconditionFailedError } from "@journeyman/client";
import { client, makeProject, rejected, WAIT_MS } from "./support.js";

test("projects are tested, created, listed, and deleted", async () => {
  const id = await makeProject("administration");
  assert.ok((await client.projects.test(id)).findings.every(({ health }) => health === "ok"));
  assert.ok((await client.projects.testNew({ id: "other", repository: "local:other" })).findings.length);
  assert.ok((await client.projects.list({ limit: 1 }).toArray()).some((project) => project.id === id));
  const { data, response } = await client.projects.get(id).withResponse();
  assert.equal(data.repository, `local:${id}`);
  await rejected(client.projects.delete(id, { ifMatch: '"v0"' }), PreconditionFailedError);
  await client.projects.delete(id, { ifMatch: response.etag });
  await client.projects.delete(id);
});

test("templates are created, listed, changed, and deleted", async () => {
  const project = await makeProject("templates");
  const fields = { name: "Fix a bug", prompt: "Fix this:\n", labels: ["ui", "bug"] };
  const made = await client.templates.create(project, fields);
  assert.deepEqual([made.labels, made.agent, made.description], [["bug", "ui"], null, ""]);
  const again = client.templates.create(project, { name: "FIX A BUG", prompt: "x" });
  assert.equal((await rejected(again, ConflictError)).code, "template_exists");
  const { data, response } = await client.templates.get(project, made.id).withResponse();
  assert.deepEqual(data, made);
  assert.deepEqual(await client.templates.list(project, { limit: 1 }).toArray(), [made]);
  const changes = { description: "d", model: "test/scripted" };
  const changed = await client.templates.update(project, made.id, changes, { ifMatch: response.etag });
  assert.deepEqual([changed.description, changed.model, changed.prompt], ["d", "test/scripted", made.prompt]);
  assert.equal((await client.templates.update(project, made.id, { model: null })).model, null);
  await rejected(client.templates.delete(project, made.id, { ifMatch: response.etag }), PreconditionFailedError);
  await client.templates.delete(project, made.id);
  await client.templates.delete(project, made.id);
  await rejected(client.templates.get(project, made.id), NotFoundError);
});

test("pull requests are listed, opened, shown, and merged", async () => {
  const project = await makeProject("pulls");
  const job = await client.jobs.create(project, { prompt: "Add a page [[write page.txt|Page]]" });
  await job.wait({ timeout: WAIT_MS });
  const [opened] = await client.pulls.list(project).toArray();
  assert.equal(opened?.job, job.id);
  const shown = await client.pulls.get(project, 1);
  assert.equal(shown.mergeable, true);
  const { head, title, body } = shown;
  const again = await client.pulls.open(project, { head, title: title ?? "", body: body ?? "" });
  assert.equal(again.number, 1, "the branch has an open one with the same values");
  const taken = await rejected(client.pulls.open(project, { head, title: "Another" }), ConflictError);
  assert.equal(taken.code, "pull_request_exists");
  const merged = await client.pulls.merge(project, 1, { method: "rebase" });
  assert.equal(merged.state, "merged");
  assert.deepEqual(await client.pulls.merge(project, 1), merged);
  assert.equal((await client.pulls.list(project, { state: "merged" }).toArray()).length, 1);
  assert.equal((await rejected(client.pulls.get(project, 7), NotFoundError)).code, "pull_request_not_found");
});

test("keys are created, listed in pages, rotated, and revoked", async () => {
  const created = [];
  for (const name of ["a", "b", "c"]) created.push(await client.keys.create({ name, scopes: ["jobs"] }));
  const pages = [];
  for await (const page of client.keys.list({ limit: 2 }).pages()) pages.push(page);
  const ids = pages.flatMap((page) => page.items.map((key) => key.id));
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(pages.length >= 2);
  for (const key of created) {
    assert.ok(ids.includes(key.id));
    const rotated = await client.keys.rotate(key.id);
    assert.notEqual(rotated.secret, key.secret);
    await client.keys.revoke(key.id);
    await client.keys.revoke(key.id);
    assert.ok((await client.keys.get(key.id)).revokedAt);
    assert.equal((await rejected(client.keys.rotate(key.id), ConflictError)).code, "key_ended");
  }
});

test("users are created with a link, listed, changed, and disabled", async () => {
  const made = await client.users.create({ name: "Eve@example.com", role: "viewer" });
  assert.equal(made.name, "eve@example.com");
  assert.match(made.link.url, /\/setup\?link=/);
  const again = await rejected(client.users.create({ name: "eve@example.com" }), ConflictError);
  assert.equal(again.code, "user_exists");
  const { data, response } = await client.users.get(made.id).withResponse();
  assert.equal(data.hasPassword, false);
  assert.ok((await client.users.list({ limit: 1 }).toArray()).some((user) => user.id === made.id));
  assert.notEqual((await client.users.createLink(made.id)).url, made.link.url);
  const changes = { role: "member", disabled: true } as const;
  const changed = await client.users.update(made.id, changes, { ifMatch: response.etag });
  assert.equal(changed.role, "member");
  assert.ok(changed.disabledAt);
  await rejected(client.users.update(made.id, changes, { ifMatch: response.etag }), PreconditionFailedError);
  assert.equal((await rejected(client.users.createLink(made.id), ConflictError)).code, "user_disabled");
});

test("code hosts are created, replaced, checked, and removed", async () => {
  const codeHost = { kind: "gitea", url: "http://127.0.0.1:1" } as const;
  await client.codeHosts.create({ id: "forge", ...codeHost, token: "x" });
  const { data, response } = await client.codeHosts.get("forge").withResponse();
  assert.equal(data.hasToken, true);
  await client.codeHosts.replace("forge", { ...codeHost, token: null }, { ifMatch: response.etag });
  await rejected(client.codeHosts.remove("forge", { ifMatch: response.etag }), PreconditionFailedError);
  assert.ok((await client.codeHosts.check("forge")).findings.length);
  assert.equal((await client.codeHosts.list().toArray()).length, 1);
  await client.codeHosts.remove("forge");
});

test("usage, the audit log, the inbox, and the system can be read", async () => {
  const from = new Date().toISOString().slice(0, 10);
  const usage = await client.usage.get({ from, groupBy: ["project", "day"] });
  assert.ok(usage.total.runs > 0);
  assert.ok(usage.lines.some((line) => line.project === "jobs"));
  assert.match(await client.usage.csv({ groupBy: ["project"] }), /^day,project,.*\r\n(.*\r\n)*,jobs,/);
  const [entry] = await client.audit.list({ limit: 5 }).toArray(7);
  assert.ok(entry?.action);
  assert.match(await client.audit.export(), /^id,at,actor,/);
  assert.deepEqual(await client.inbox.list("jobs").toArray(), []);
  const events = await client.inbox.listAll().toArray();
  assert.deepEqual(
    events.filter((event) => event.projectId === "jobs"),
    [],
  );
  assert.ok((await client.agents()).some((agent) => agent.id === "journeyman"));
  assert.ok((await client.models()).length);
  assert.match((await client.system()).version, /^\d/);
  assert.equal((await client.me()).key.name, "tests");
});
