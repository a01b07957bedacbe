// Tests of the changes of a job and of pull requests: parts of the changes, viewed files, more lines, links to lines,
// keys, comments for the agent, conflicts and verdicts.

import assert from "node:assert/strict";
import { Suite, assertNone, axe, screenshot, waitUntil } from "./lib.mjs";

const suite = await Suite.start();
const step = suite.sequence();
const { service } = suite;
const admin = await service.createAdministrator("ada");
const key = service.key();

const LONG = Array.from({ length: 100 }, (_, index) => `line ${index + 1}`).join("\n");
const copy = await service.project(key, "shop", { files: { "long.txt": `${LONG}\n`, "conflict.txt": "one\n" }, model: "test/scripted" });
const page = await suite.page({ cookie: admin, viewport: { width: 1440, height: 900 } });
const file = (name) => page.locator("article.file", { has: page.locator("h3", { hasText: name }) });
const messages = async () => (await service.api(key, "GET", `/agent/shop/job/${job.id}/messages`)).messages;
const path = (rest = "") => `/projects/shop/jobs/${job.id}/changes${rest}`;
const pull = (rest = "") => `${new URL(record.prLink).pathname}${rest}`;
let job;
let record;

/** Sends a message to the job, and waits until the job is done. */
async function follow(prompt) {
  await service.api(key, "POST", `/agent/shop/job/${job.id}/message`, { prompt });
  record = await service.waitForJob(key, "shop", job.id);
}

step("a job makes changes with two messages", async () => {
  job = await service.job(key, "shop", "Add notes [[append long.txt|the end]] [[write notes/a.md|# Notes]]");
  await service.waitForJob(key, "shop", job.id);
  await follow("More [[append notes/a.md|more]]");
});

step("the changes of one message and of one commit are shown", async () => {
  await suite.open(page, path());
  await file("long.txt").waitFor();
  assert.equal(await page.locator("article.file").count(), 2);
  const parts = page.getByRole("navigation", { name: "Changes of" });
  await parts.getByRole("link", { name: "Message 2" }).click();
  await page.getByRole("heading", { name: "1 file changed" }).waitFor();
  assert.equal(await file("long.txt").count(), 0);
  const [commit] = (await messages())[0].commits;
  await suite.open(page, path(`?commit=${commit}`));
  await parts.getByRole("link", { name: `Commit ${commit.slice(0, 8)}` }).waitFor();
  assert.match(await file("a.md").textContent(), /# Notes/);
  const other = await copy.git("rev-parse", "HEAD");
  assert.equal((await service.get(path(`?commit=${other}`), { cookie: admin })).status, 404, "a commit of the base");
});

step("more lines are shown above a change", async () => {
  await suite.open(page, path());
  const rows = file("long.txt").locator("tr.same");
  const before = await rows.count();
  await page.getByRole("button", { name: "Show 40 lines above" }).click();
  await waitUntil("40 lines more", async () => await rows.count() === before + 40);
  assert.match(await rows.first().textContent(), /line 58/);
  await page.getByRole("button", { name: "Show 40 lines above" }).click();
  await page.getByRole("button", { name: "Show 17 lines above" }).click();
  await waitUntil("all lines", async () => await rows.count() === 100);
  assert.match(await rows.first().textContent(), /11line 1$/, "both numbers, and the text");
  assert.equal(await page.locator("[data-expand]").count(), 0, "there is nothing more");
});

step("a viewed file is folded, also after a reload, until it changes", async () => {
  const boxes = () => page.getByRole("checkbox", { name: /^Viewed/ });
  await boxes().nth(1).check();
  await page.getByText("1 of 2 files viewed").waitFor();
  await page.reload();
  await page.getByText("1 of 2 files viewed").waitFor();
  assert.ok(!await file("a.md").locator("table").isVisible() && await file("long.txt").locator("table").isVisible());
  await page.getByRole("button", { name: "Fold all" }).click();
  assert.ok(!await file("long.txt").locator("table").isVisible());
  await page.getByRole("button", { name: "Unfold all" }).click();
  assert.ok(await file("a.md").locator("table").isVisible());
  await follow("Again [[append notes/a.md|again]]");
  await page.reload();
  await page.getByText("0 of 2 files viewed").waitFor();
});

step("a link to a line survives a reload, and unfolds its file", async () => {
  await page.getByRole("checkbox", { name: /^Viewed/ }).first().check();
  await suite.open(page, path("#f1-R101"));
  await page.reload();
  await page.locator("#f1-R101").waitFor();
  assert.equal(await page.evaluate(() => document.querySelector(":target")?.id), "f1-R101");
  await page.getByRole("checkbox", { name: /^Viewed/ }).first().uncheck();
});

step("keys move between files, mark them and find them", async () => {
  await suite.open(page, path());
  await page.getByText("0 of 2 files viewed").waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("v");
  await page.getByText("1 of 2 files viewed").waitFor();
  await page.keyboard.press("v");
  await page.getByText("0 of 2 files viewed").waitFor();
  await page.keyboard.press("t");
  const filter = page.getByRole("searchbox", { name: "Filter files" });
  await filter.pressSequentially("a.md");
  const tree = page.getByRole("navigation", { name: "Files", exact: true });
  await waitUntil("the other file is hidden", async () => !await tree.getByRole("link", { name: /long\.txt/ }).isVisible());
  assert.ok(await tree.getByRole("link", { name: /a\.md/ }).isVisible());
});

step("comments on lines are collected, and sent to the agent as one message", async () => {
  const before = (await messages()).length;
  await suite.open(page, path());
  await page.locator("#f1-R101 > a").click();
  await page.getByRole("textbox", { name: "Comment on line 101" }).fill("Rename it.");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Send 1 comment" }).waitFor();
  await suite.open(page, path("#f2-R1"));
  await page.reload();
  await page.locator("body").press("i");
  await page.getByRole("textbox", { name: "Comment on line 1" }).fill("And this. [[say done]]");
  await page.getByRole("button", { name: "Add to review" }).click();
  await page.getByRole("button", { name: "Send 2 comments" }).click();
  await page.getByText("The comments are sent to the agent.").waitFor();
  assert.equal(await page.getByRole("button", { name: /^Send \d/ }).count(), 0, "nothing is collected any more");
  const all = await messages();
  assert.equal(all.length, before + 1);
  for (const part of ["ada reviewed the changes of this job (2 comments).", "on `long.txt`, line 101", "+the end", "Rename it.", "on `notes/a.md`, line 1", "And this."]) {
    assert.ok(all.at(-1).prompt.includes(part), `${part} is not in ${all.at(-1).prompt}`);
  }
  await service.waitForJob(key, "shop", job.id);
});

step("without scripts, a comment on a line is sent on its own", async () => {
  const plain = await suite.page({ cookie: admin, javaScriptEnabled: false });
  await suite.open(plain, path());
  await plain.locator("#f1-R101 > a").click();
  await plain.getByRole("textbox", { name: "Comment on line 101" }).fill("Without scripts. [[say done]]");
  await plain.getByRole("button", { name: "Send to the agent" }).click();
  await plain.getByText("The comments are sent to the agent.").waitFor();
  assert.match((await messages()).at(-1).prompt, /Without scripts\./);
  await plain.context().close();
  record = await service.waitForJob(key, "shop", job.id);
});

step("a narrow window has a list of files in place of the tree", async () => {
  await page.setViewportSize({ width: 900, height: 800 });
  await suite.open(page, pull("/files"));
  assert.ok(!await page.locator(".tree").isVisible());
  await page.locator(".files-menu > summary").click();
  await page.locator(".files-list").getByRole("link", { name: /a\.md/ }).click();
  await page.waitForURL((url) => url.hash === "#f2");
  await page.setViewportSize({ width: 1440, height: 900 });
});

step("a review of a pull request has a verdict", async () => {
  await suite.open(page, pull("/files"));
  await page.getByText("Finish review…").click();
  await page.getByRole("radio", { name: "Approve" }).check();
  await page.getByRole("button", { name: "Submit review" }).click();
  await page.getByText("The review is submitted.").waitFor();
  await page.getByText("Approved by ada").waitFor();
});

step("the comments on a line are resolved into one line, and opened again", async () => {
  await suite.open(page, pull("/files"));
  await page.locator("#f1-R101 > a").click();
  await page.getByRole("textbox", { name: "Comment on line 101" }).fill("A question for people.");
  await page.getByRole("button", { name: "For people" }).click();
  await page.getByText("The comment is added.").waitFor();
  await page.getByRole("button", { name: "Resolve this thread", exact: true }).click();
  await page.getByText("The comments are resolved.").waitFor();
  const fold = page.locator("details.resolved");
  await fold.locator("summary", { hasText: "Resolved by ada" }).waitFor();
  assert.ok(!await page.getByText("A question for people.").isVisible(), "the comment is not folded");
  assertNone(await axe(page));
  await screenshot(page, "review-resolved");
  await fold.locator("summary").click();
  await page.getByRole("button", { name: "Unresolve this thread" }).click();
  await page.getByText("The comments are open again.").waitFor();
  assert.ok(await page.getByText("A question for people.").isVisible());
});

step("others see at once that a thread is resolved, and keep what they write", async () => {
  const cookie = await service.createUser("grace", "member");
  const [files, talk] = [await suite.page({ cookie }), await suite.page({ cookie })];
  await suite.open(files, pull("/files"));
  await files.locator("#f1-R100 > a").click();
  const remark = files.getByRole("textbox", { name: "Comment on line 100" });
  await suite.open(talk, pull());
  const comment = talk.getByRole("textbox", { name: "Comment", exact: true });
  await talk.getByText(/^Asked in /).click();
  const texts = [[files, remark, "I am still"], [talk, comment, "So am I"]];
  for (const [, field, text] of texts) await field.pressSequentially(text);
  const question = (other) => other.getByText("A question for people.");
  const unchanged = async (field, text) => {
    assert.equal(await field.inputValue(), text);
    assert.ok(await field.evaluate((element) => element === document.activeElement), "the focus has moved");
  };

  await suite.open(page, pull("/files"));
  await page.getByRole("button", { name: "Resolve this thread", exact: true }).click();
  for (const [other, field, text] of texts) {
    await other.locator("details.resolved > summary", { hasText: "Resolved by ada" }).waitFor();
    assert.ok(!await question(other).isVisible(), "the comment is not folded");
    await unchanged(field, text);
  }
  assert.ok(await talk.locator("details.asked[open]").first().isVisible(), "another fold was closed");
  assertNone(await axe(talk));

  await page.getByText("The comments are resolved.").waitFor();
  await page.locator("details.resolved > summary").click();
  await page.getByRole("button", { name: "Unresolve this thread" }).click();
  await page.getByText("The comments are open again.").waitFor();
  for (const [other, field, text] of texts) {
    await question(other).waitFor();
    assert.equal(await other.locator("details.resolved").count(), 0);
    await unchanged(field, text);
  }
  await files.context().close();
  await talk.context().close();
});

step("hidden changes follow their threads again when they become visible, and keep a text", async () => {
  const other = await suite.page({ cookie: admin });
  await other.clock.install();
  await suite.open(other, pull("/files"));
  await other.locator("#f1-R100 > a").click();
  const remark = other.getByRole("textbox", { name: "Comment on line 100" });
  await remark.fill("Later");
  const setVisible = (visible) => other.evaluate((visible) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => !visible });
    document.dispatchEvent(new Event("visibilitychange"));
  }, visible);
  const stream = other.locator("turbo-stream-source");
  await setVisible(false);
  await other.clock.fastForward(60_000);
  await stream.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Resolve this thread", exact: true }).click();
  await page.getByText("The comments are resolved.").waitFor();
  await setVisible(true);
  await stream.waitFor({ state: "attached" });
  const resolved = other.locator("details.resolved > summary", { hasText: "Resolved by ada" });
  await resolved.waitFor();
  // The thread gets the state that it had when the page was loaded.
  await setVisible(false);
  await other.clock.fastForward(60_000);
  await stream.waitFor({ state: "detached" });
  await page.locator("details.resolved > summary").click();
  await page.getByRole("button", { name: "Unresolve this thread" }).click();
  await page.getByText("The comments are open again.").waitFor();
  await setVisible(true);
  await resolved.waitFor({ state: "detached" });
  assert.equal(await remark.inputValue(), "Later");
  await other.context().close();
});

step("the agent can be asked to resolve conflicts, which are named", async () => {
  await follow("Change it [[write conflict.txt|ours]]");
  copy.write({ "conflict.txt": "theirs\n" });
  await copy.commit("Change it");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  await suite.open(page, pull());
  await page.getByText("1 file conflicts with main").waitFor();
  await page.getByRole("listitem").filter({ hasText: /^conflict\.txt$/ }).waitFor();
  assert.ok(await page.getByRole("button", { name: "Merge", exact: true }).isDisabled());
  await page.getByRole("button", { name: "Ask the agent to merge main in" }).click();
  await page.getByText("The agent is asked to merge the branches.").waitFor();
  assert.match((await messages()).at(-1).prompt, /Merge `main` into your branch[^]*- `conflict\.txt`/);
  await service.waitForJob(key, "shop", job.id);
});
