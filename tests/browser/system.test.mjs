// Tests of the operator's pages: the system, usage, the audit log, and the events of a job. Each test continues where the
// one before ended.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { Suite, copyWith, makeFolder, script, waitUntil } from "./lib.mjs";

const suite = await Suite.start({ agentName: "fake", flags: ["--workers", "2"] });
const step = suite.sequence();
const { service } = suite;
const admin = await service.createAdministrator("ada");
const key = service.key("CI");
/** The file that lets the running agent end its turn. */
const endFile = path.join(makeFolder("end"), "end");
let page;
let job;

/** Downloads the file of a link. */
async function download(name) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("link", { name, exact: true }).click()]);
  return { name: file.suggestedFilename(), text: fs.readFileSync(await file.path(), "utf8") };
}

step("an idle server shows its worker and its free slots", async () => {
  page = await suite.page({ cookie: admin });
  await suite.open(page, "/system");
  await page.getByRole("img", { name: "0 of 2 slots busy" }).waitFor();
  await page.getByText(/^on 1 worker, seen \d+ (s|min) ago$/).waitFor();
  await page.getByText("0 of 2 busy").waitFor();
  await page.getByText("no job waits").waitFor();
  await page.locator("#disk").waitFor();
});

step("a report that says nothing new updates only when the worker was seen", async () => {
  await page.evaluate(() => { document.querySelector("#tiles").dataset.mark = "kept"; });
  const seen = page.locator("#seen-all [data-elapsed]");
  const before = await seen.getAttribute("data-elapsed");
  await waitUntil("the next report", async () => (await seen.getAttribute("data-elapsed")) !== before);
  await page.getByText(/^on 1 worker, seen \d+ (s|min) ago$/).waitFor();
  assert.equal(await page.locator("#tiles").getAttribute("data-mark"), "kept", "the page was rendered again");
});

step("the page shows a busy slot without a reload, and that it is free again", async () => {
  await page.evaluate(() => { window.__mark = true; });
  await service.project(key, "shop", { model: "test/scripted" });
  job = await service.job(key, "shop", script("Wait", [{ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "Waiting." } }, { wait: endFile }]), { agent: "fake" });
  await page.getByRole("img", { name: "1 of 2 slots busy" }).waitFor();
  fs.writeFileSync(endFile, "");
  await service.waitForJob(key, "shop", job.id);
  await page.getByRole("img", { name: "0 of 2 slots busy" }).waitFor();
  assert.equal(await page.evaluate(() => window.__mark), true, "the page was loaded again");
});

step("the command that installs an agent is copied", async () => {
  const row = page.getByRole("row", { name: /Claude Code/ });
  await row.getByText("not installed").waitFor();
  assert.equal(await copyWith(page, row.getByRole("button", { name: "Copy" })), "journeyman agent install claude-code");
});

step("usage has charts, tables, a period in the URL, and a file with the same numbers", async () => {
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Usage" }).click();
  await page.getByRole("heading", { level: 1, name: "Usage" }).waitFor();
  await page.getByRole("link", { name: "7 days" }).click();
  await page.waitForURL(/\/usage\?days=7$/);
  const projects = page.getByRole("region", { name: "By project" });
  await projects.getByRole("rowheader", { name: "shop" }).waitFor();
  await page.getByLabel("Project", { exact: true }).selectOption("shop");
  await page.getByRole("button", { name: "Show" }).click();
  await page.waitForURL(/project=shop/);
  await projects.getByRole("rowheader", { name: "shop" }).waitFor();
  const file = await download("CSV");
  assert.match(file.name, /^usage-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.csv$/);
  const [head, line] = file.text.trim().split("\r\n").map((text) => text.split(","));
  assert.equal(line[head.indexOf("project")], "shop");
  assert.equal(line[head.indexOf("runs")], "1");
  await page.locator("#days > summary").click();
});

step("the audit log says who did what, with filters, and exports the same entries", async () => {
  await suite.open(page, "/audit");
  await page.locator(".sentence", { hasText: "The command line created the key CI" }).waitFor();
  await page.locator(".sentence", { hasText: "The key CI created the project shop" }).waitFor();
  await page.getByLabel("What", { exact: true }).selectOption({ label: "Projects" });
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/what=project\./);
  await page.locator(".sentence", { hasText: "created the project shop" }).waitFor();
  await waitUntil("other entries are not listed", async () => await page.locator(".sentence", { hasText: "created the key" }).count() === 0);
  const lines = (await download("JSON lines")).text.trim().split("\n").map((line) => JSON.parse(line));
  assert.ok(lines.length > 0 && lines.every((entry) => entry.action.startsWith("project.")), JSON.stringify(lines));
  assert.match((await download("CSV")).text, /^id,at,actor,actorName,action,subject,address\r\n/);
  await page.getByRole("link", { name: "Clear filters" }).click();
  await page.waitForURL(/\/audit$/);
});

step("the events of a job are lines that open to JSON, and can be filtered", async () => {
  await suite.open(page, `/projects/shop/jobs/${job.id}/events`);
  const lines = page.locator(".events summary");
  await lines.filter({ hasText: "run.started" }).first().waitFor();
  await page.getByLabel("Type", { exact: true }).selectOption("agent.message");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/kind=agent\.message/);
  await waitUntil("only messages are listed", async () => await lines.count() === 1);
  await lines.first().click();
  const event = JSON.parse(await copyWith(page, page.locator(".events").getByRole("button", { name: "Copy" })));
  assert.equal(event.type, "agent.message");
  assert.match(JSON.stringify(event.data), /Waiting\./);
});
