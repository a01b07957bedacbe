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
  const link = page.getByRole("link", { name: /^Review/ });
  assert.equal(await link.textContent(), "Review #1", "the changes lead to themselves");
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

step("on a phone, the halves of the split view are stacked", async () => {
  await page.setViewportSize({ width: 390, height: 800 });
  await suite.open(page, pull("/files?view=split"));
  const table = page.locator("#f1 table.lines.split");
  await table.waitFor();
  const wide = await page.locator("#f1 .scroll").evaluate((box) => box.scrollWidth - box.clientWidth);
  assert.equal(wide, 0, "the lines scroll sideways");
  assert.equal(await table.getByText("line 100", { exact: true }).locator("visible=true").count(), 1, "an unchanged line is not shown once");
  assert.ok(await table.getByText("the end").isVisible());
  assertNone(await axe(page));
  await screenshot(page, "review-split-phone");
  await page.setViewportSize({ width: 1440, height: 900 });
});

step("changes of whitespace are hidden on request", async () => {
  const other = await service.job(key, "shop", "Indent it [[write conflict.txt|  one]] [[write notes/b.md|# B]]");
  await service.waitForJob(key, "shop", other.id);
  await suite.open(page, `/projects/shop/jobs/${other.id}/changes`);
  await file("conflict.txt").locator("table").waitFor();
  await page.getByRole("link", { name: "Hide whitespace" }).click();
  await file("conflict.txt").getByText("Only whitespace has changed.").waitFor();
  assert.equal(await file("conflict.txt").locator("table").count(), 0);
  await file("b.md").getByText("# B").waitFor();
  await page.getByRole("link", { name: "Side by side" }).click();
  await page.getByRole("link", { name: "Side by side" }).and(page.locator("[aria-current]")).waitFor();
  await file("conflict.txt").getByText("Only whitespace has changed.").waitFor();
  await page.setViewportSize({ width: 390, height: 800 });
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(wide, 0, "the page scrolls sideways");
  assertNone(await axe(page));
  await screenshot(page, "review-whitespace-phone");
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole("link", { name: "Show whitespace" }).click();
  await file("conflict.txt").locator("table").waitFor();
});

step("a review of a pull request has a verdict", async () => {
  await suite.open(page, pull("/files"));
  await page.locator("#finish-review").click();
  await page.getByRole("radio", { name: "Approve" }).check();
  await page.getByRole("button", { name: "Submit review" }).click();
  await page.getByText("The review is submitted.").waitFor();
  await page.getByText("Approved by ada").waitFor();
});

step("on a phone, changes are approved from the changed files", async () => {
  await page.setViewportSize({ width: 390, height: 700 });
  await suite.open(page, pull("/files"));
  const opener = page.locator("#finish-review");
  assert.equal((await opener.innerText()).trim(), "Review");
  await opener.click();
  const form = page.locator(".submit-review");
  const box = await form.boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 390 && box.y + box.height <= 700, `the form does not fit: ${JSON.stringify(box)}`);
  assertNone(await axe(page));
  await screenshot(page, "review-form-phone");
  await page.getByRole("radio", { name: "Approve" }).check();
  await page.getByRole("textbox", { name: "Summary" }).fill("Good, also on a phone.");
  await page.getByRole("button", { name: "Submit review" }).click();
  await page.getByText("The review is submitted.").waitFor();
  await page.locator("#comments > li", { hasText: "Good, also on a phone." }).getByText("approved", { exact: true }).waitFor();
  await page.setViewportSize({ width: 1440, height: 900 });
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

step("others see new comments at once, and keep what they write", async () => {
  const cookie = await service.createUser("lin", "member");
  const [files, talk] = [await suite.page({ cookie }), await suite.page({ cookie })];
  await suite.open(files, pull("/files"));
  await files.locator("#f1-R99 > a").click();
  const remark = files.getByRole("textbox", { name: "Comment on line 99" });
  await suite.open(talk, pull());
  const comment = talk.getByRole("textbox", { name: "Comment", exact: true });
  const texts = [[files, remark, "I am still"], [talk, comment, "So am I"]];
  for (const [, field, text] of texts) await field.pressSequentially(text);
  const unchanged = async () => {
    for (const [, field, text] of texts) {
      assert.equal(await field.inputValue(), text);
      assert.ok(await field.evaluate((element) => element === document.activeElement), "the focus has moved");
    }
  };
  const counts = async () => Number(await talk.locator("#comment-count").textContent());
  const before = await counts();

  // On a line of its own, and below a comment on the same line.
  for (const [line, text] of [[99, "A new thread."], [101, "An answer."]]) {
    await suite.open(page, pull("/files"));
    await page.locator(`#f1-R${line} > a`).click();
    await page.getByRole("textbox", { name: `Comment on line ${line}` }).fill(text);
    await page.getByRole("button", { name: "For people" }).click();
    await page.getByText("The comment is added.").waitFor();
    for (const other of [files, talk]) await other.getByText(text).waitFor();
    assert.ok(await files.locator(`tr:has(#f1-R${line}) + .talk`).getByText(text).isVisible(), "it is not below its line");
    await unchanged();
  }
  await suite.open(page, pull());
  await page.getByRole("textbox", { name: "Comment", exact: true }).fill("To the whole.");
  await page.getByRole("checkbox", { name: "Send it to the agent" }).uncheck();
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await talk.locator("#comments > li").last().getByText("To the whole.").waitFor();
  assert.equal(await talk.getByText("To the whole.").count(), 1, "it is there twice");
  assert.equal(await counts(), before + 3);
  await waitUntil("the count of the other page", async () => await files.locator("#comment-count").textContent() === String(before + 3));

  await suite.open(page, pull("/files"));
  await page.locator("#finish-review").click();
  await page.getByRole("textbox", { name: "Summary" }).fill("Not like this. [[say done]]");
  await page.getByRole("radio", { name: "Request changes" }).check();
  await page.getByRole("button", { name: "Submit review" }).click();
  await talk.locator("#reasons").getByText("Changes requested by ada").waitFor();
  await unchanged();
  for (const other of [files, talk]) assertNone(await axe(other));

  // A refused review shows the conversation at the URL of the changes.
  suite.expect(/^422 POST .*\/review$/);
  await files.locator("#finish-review").click();
  await files.getByRole("button", { name: "Submit review" }).click();
  await files.getByText("The review was not submitted.").waitFor();
  const shown = await files.locator("#comments > li").count();
  await suite.open(page, pull());
  await page.getByRole("textbox", { name: "Comment", exact: true }).fill("One more.");
  await page.getByRole("checkbox", { name: "Send it to the agent" }).uncheck();
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await talk.getByText("One more.").waitFor();
  assert.equal(await files.locator("#comments > li").count(), shown, "the conversation was removed");
  for (const other of [files, talk]) await other.context().close();
  await service.waitForJob(key, "shop", job.id);
});

step("a thread is answered where it ends, and from the conversation", async () => {
  await suite.open(page, pull("/files"));
  const thread = page.locator("tr:has(#f1-R101) + .talk [data-thread]");
  const replies = thread.getByRole("link", { name: "Reply in this thread" });
  const before = await thread.locator(".entry").count();
  await replies.click();
  const answer = page.getByRole("textbox", { name: "Comment on line 101" });
  await answer.pressSequentially("Answered below.");
  const [above, below] = [await thread.boundingBox(), await answer.boundingBox()];
  assert.ok(above.y + above.height <= below.y, "the form is not below the thread");
  assert.equal(new URL(page.url()).search, "", "the page was loaded again");
  assertNone(await axe(page));
  await screenshot(page, "review-reply");
  await page.getByRole("button", { name: "For people" }).click();
  await page.getByText("The comment is added.").waitFor();
  assert.equal(await thread.locator(".entry").count(), before + 1);

  await suite.open(page, pull());
  const last = page.locator("#comments [data-thread]", { hasText: "Answered below." });
  await last.getByRole("link", { name: "Reply in this thread" }).click();
  await page.waitForURL(/\/files\?at=1-n101#f1-R101$/);
  await answer.pressSequentially("Answered from the conversation.");
  await page.getByRole("button", { name: "For people" }).click();
  await thread.getByText("Answered from the conversation.").waitFor();
  assert.equal(await thread.locator(".entry").count(), before + 2);
});

step("a line under the pointer shows that it takes comments", async () => {
  await suite.open(page, pull("/files"));
  const number = page.locator("#f1-R101 > a");
  const mark = () => number.evaluate((link) => getComputedStyle(link, "::before").display);
  await page.getByRole("heading", { name: /changed/ }).hover();
  assert.equal(await mark(), "none");
  await page.locator("tr:has(#f1-R101) > .code").hover();
  assert.equal(await mark(), "block");
  await screenshot(page, "review-line-hovered");
});

step("on a phone, the folders of a long path are cut, and its name is not", async () => {
  await follow("More [[write packages/application/sources/components/editor.ts|export {};]]");
  await page.setViewportSize({ width: 390, height: 800 });
  await suite.open(page, pull("/files"));
  const head = file("editor.ts").locator(".file-head");
  const isCut = (part) => head.locator(part).evaluate((element) => element.scrollWidth > element.clientWidth);
  assert.deepEqual([await isCut(".dir"), await isCut(".file-name")], [true, false]);
  assert.equal(await head.locator("h3").textContent(), "packages/application/sources/components/editor.ts");
  const more = await page.getByRole("button", { name: /^Show .* above$/ }).first().boundingBox();
  assert.ok(more.x + more.width <= 390, "the button for more lines is outside of the window");
  await screenshot(page, "review-path-phone");
  await page.setViewportSize({ width: 1440, height: 900 });
});

step("the agent can be asked to resolve conflicts, which are named", async () => {
  await follow("Change it [[write conflict.txt|ours]]");
  await suite.open(page, `/projects/shop/jobs/${job.id}`);
  await page.evaluate(() => { window.__mark = true; });
  copy.write({ "conflict.txt": "theirs\n" });
  await copy.commit("Change it");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  // The service compares the branches a few seconds after the push, and an open page asks every 15 seconds.
  await page.getByText("1 file conflicts with main").waitFor({ timeout: 60_000 });
  assert.ok(await page.evaluate(() => window.__mark), "the page was reloaded");
  await page.getByRole("button", { name: "Ask the agent to merge main in" }).waitFor();
  await suite.open(page, pull());
  await page.getByText("1 file conflicts with main").waitFor();
  await page.getByRole("listitem").filter({ hasText: /^conflict\.txt$/ }).waitFor();
  assert.ok(await page.getByRole("button", { name: "Merge", exact: true }).isDisabled());
  await page.getByRole("button", { name: "Ask the agent to merge main in" }).click();
  await page.getByText("The agent is asked to merge the branches.").waitFor();
  assert.match((await messages()).at(-1).prompt, /Merge `origin\/main`[^]*- `conflict\.txt`/);
  await service.waitForJob(key, "shop", job.id);
});
