// Tests of the page of a job: live updates while somebody reads or writes, the fold of earlier steps, the result, and the
// column at the side.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { Suite, assertNone, axe, expire, makeFolder, record, script, waitUntil } from "./lib.mjs";
import { READS, call, output, readFiles, say } from "./sample.mjs";

const suite = await Suite.start({ agentName: "fake" });
const { service } = suite;
const test = suite.test.bind(suite);

const admin = await service.createAdministrator("ada");
const key = service.key();
await service.project(key, "shop", { model: "test/scripted" });

const plan = (...statuses) => ({ sessionUpdate: "plan", entries: statuses.map((status, place) => ({ content: `Step ${place + 1} of the plan`, priority: "medium", status })) });

const signals = makeFolder("signals");
let signalCount = 0;
/** Returns the path of a file for which an agent can wait, and a function that creates it. */
function signal() {
  const file = path.join(signals, String(signalCount += 1));
  return [file, () => fs.writeFileSync(file, "")];
}

const fakeJob = (prompt, steps) => service.job(key, "shop", script(prompt, steps), { agent: "fake" });
const open = (page, job, tab = "") => suite.open(page, `/projects/shop/jobs/${job.id}${tab}`);
const badge = (page, status) => page.locator(`#job-head .badge.${status}`).waitFor();
const isAtEnd = (page) => page.evaluate(() => innerHeight + scrollY >= document.documentElement.scrollHeight - 100);

// longest-task.mjs measures how long these events keep the browser busy.
test("511 events that arrive at once are all shown, mostly folded, and each element is styled less than twice", async () => {
  const page = await suite.page({ cookie: admin });
  const [file, go] = signal();
  const job = await fakeJob("Reads many files", readFiles(file));
  await open(page, job);
  await page.locator("#thread").getByText("Begins.").waitFor();
  const events = await record(page, async () => {
    go();
    await page.locator("#thread").getByText("Has read them all.").waitFor();
  });
  // An update must not be a reason to style the whole page again, as it is with a selector such as `* + *`: then each frame
  // styles all that is there already. How many updates arrive in a frame depends on the machine, and does not count here.
  const styled = events.filter((event) => event.name === "UpdateLayoutTree").reduce((sum, event) => sum + event.args.elementCount, 0);
  const all = await page.locator("*").count();
  assert.ok(styled > 0 && styled < 2 * all, `elements were styled ${styled} times, and the page has ${all}`);
  assert.equal(await page.locator("#thread details.tool").count(), READS, "a step is missing");
  await waitUntil("at most 15 elements are outside of the fold", async () => await page.locator("#thread > li").count() <= 15);
  await page.locator(".fold > summary strong", { hasText: /^1\d\d steps/ }).waitFor();
  await waitUntil("the page follows the newest step", () => isAtEnd(page));
  await service.api(key, "POST", `/agent/shop/job/${job.id}/cancel`);
  await page.context().close();
});

test("a page does not move while somebody reads above, and says how many steps are new", async () => {
  const page = await suite.page({ cookie: admin, viewport: { width: 1280, height: 700 } });
  const [file, go] = signal();
  const text = `${"A long text that fills the window. ".repeat(40)}\n\n`;
  const job = await fakeJob("Writes", [say(text.repeat(4)), { wait: file }, call("1", "ls"), call("2", "pwd"), call("3", "date"), { wait: "/nowhere" }]);
  await open(page, job);
  await page.locator("#thread .said").waitFor();
  await waitUntil("a running job opens at its newest step", () => isAtEnd(page));
  await page.evaluate(() => scrollTo(0, 200));
  const more = page.locator("#new-steps");
  await more.waitFor();
  const before = await page.evaluate(() => scrollY);
  go();
  await page.getByRole("button", { name: "3 new steps" }).waitFor();
  assert.equal(await page.evaluate(() => scrollY), before, "the page has scrolled");
  await more.click();
  await waitUntil("the page is at its end", () => isAtEnd(page));
  await more.waitFor({ state: "hidden" });
  await service.api(key, "POST", `/agent/shop/job/${job.id}/cancel`);
  await badge(page, "cancelled");
  await page.context().close();
});

test("a running job whose conversation nearly fits into the window opens at its top", async () => {
  const page = await suite.page({ cookie: admin, viewport: { width: 1280, height: 600 } });
  const text = `${"A paragraph of some words. ".repeat(20)}\n\n`;
  const job = await fakeJob("Nearly fits", [say(text.repeat(12)), call("1", "ls"), { wait: "/nowhere" }]);
  await open(page, job);
  await page.locator("#thread .title", { hasText: "ls" }).waitFor();
  // Updates of the first page may still arrive, so the height is that of a page that was loaded after them.
  await open(page, job);
  await page.locator("#thread .title", { hasText: "ls" }).waitFor();
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  const overflow = () => page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
  for (const [hidden, isAtTop] of [[60, true], [200, false]]) {
    await page.setViewportSize({ width: 1280, height: height - hidden });
    await open(page, job);
    await page.locator("#thread .title", { hasText: "ls" }).waitFor();
    assert.equal(await overflow(), hidden, "the height of the page depends on that of the window");
    assert.equal(await page.evaluate(() => scrollY === 0), isAtTop, `with ${hidden} px outside of the window`);
    assert.equal(await isAtEnd(page), true, "the page follows the newest step");
  }
  await service.api(key, "POST", `/agent/shop/job/${job.id}/cancel`);
  await badge(page, "cancelled");
  await page.context().close();
});

test("a run that is canceled leaves stopped squares, and nothing that turns", async () => {
  const page = await suite.page({ cookie: admin });
  const job = await fakeJob("Hangs", [plan("completed", "in_progress", "pending"), call("1", "sleep 1000", { status: "in_progress", rawInput: { command: "sleep 1000" } }), { wait: "/nowhere" }]);
  await open(page, job);
  await page.locator("#job-now code", { hasText: "sleep 1000" }).waitFor();
  await page.locator("#job-now", { hasText: "2 of 3" }).waitFor();
  await page.locator("#job-side .plan", { hasText: "step 2 of 3" }).waitFor();
  assert.equal(await page.locator("#thread .mark.in_progress").count(), 2, "the message and its step");
  await waitUntil("the title says that the job runs", async () => /^Running/.test(await page.title()));
  await service.api(key, "POST", `/agent/shop/job/${job.id}/cancel`);
  await badge(page, "cancelled");
  await page.locator("#thread .tool .mark.stopped").waitFor();
  await page.locator("#job-side .plan", { hasText: "stopped at 2 of 3" }).waitFor();
  await page.locator("#job-now").waitFor({ state: "hidden" });
  assert.equal(await page.locator("main .mark.in_progress").count(), 0);
  assert.ok(!await page.getByText("Interrupt", { exact: true }).isVisible(), "there is nothing to interrupt");
  await page.reload();
  assert.equal(await page.locator("main .mark.in_progress").count(), 0, "after a reload");
  await page.context().close();
});

test("a failed step shows its last two lines, and opens", async () => {
  const page = await suite.page({ cookie: admin });
  const [file, go] = signal();
  const lines = Array.from({ length: 30 }, (_, number) => `line ${number}`).join("\n");
  const job = await fakeJob("Tests", [call("1", "cargo test", { status: "failed", content: output(lines), rawOutput: { exitCode: 101 } }), { wait: file }]);
  await open(page, job);
  const tail = page.locator("#thread .tail");
  await tail.waitFor();
  assert.equal((await tail.locator("pre").textContent()).trim(), "line 28\nline 29");
  await page.locator("#thread .remark", { hasText: "exit code 101" }).waitFor();
  await tail.getByRole("link", { name: "All 30 lines" }).click();
  await page.locator("#thread .tool[open]").getByText("line 0").waitFor();
  await tail.waitFor({ state: "hidden" });
  go();
  await badge(page, "completed");
  await page.context().close();
});

test("a draft stays until the server has the message", async () => {
  const page = await suite.page({ cookie: admin });
  const job = await fakeJob("Is done", [say("Done.")]);
  await service.waitForJob(key, "shop", job.id);
  await open(page, job);
  const field = page.getByLabel("Message to the agent");
  await field.fill("Half a thought");
  await page.reload();
  assert.equal(await field.inputValue(), "Half a thought", "a reload loses the draft");
  await open(page, job, "/runs");
  await open(page, job);
  assert.equal(await field.inputValue(), "Half a thought", "another page loses the draft");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator("#thread article", { hasText: "Half a thought" }).waitFor();
  await waitUntil("the field is empty", async () => await field.inputValue() === "");
  await badge(page, "completed");
  await page.reload();
  assert.equal(await field.inputValue(), "", "the draft came back");
  await page.context().close();
});

test("a finished job opens with its result, and its messages open their steps", async () => {
  const page = await suite.page({ cookie: admin });
  const steps = [call("1", "ls", { kind: "read" }), call("2", "cargo test"), say("I added **a file**."), { write: "a.txt", content: "one\ntwo\n" }];
  const job = await fakeJob("Add a file", steps);
  await service.waitForJob(key, "shop", job.id);
  await open(page, job);
  const result = page.locator("#job-outcome .result");
  await result.locator("strong", { hasText: "a file" }).waitFor();
  assert.match(await page.getByRole("link", { name: /^Review changes/ }).textContent(), /\+2$/);
  assert.equal(await page.evaluate(() => scrollY), 0, "the page does not open at the top");
  const commit = result.locator(".commits a.commit");
  assert.match(await commit.getAttribute("href"), /\/changes\?commit=[0-9a-f]{40}$/);
  await result.getByRole("button", { name: "Copy" }).click();
  await result.locator(".copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "I added **a file**.");
  const fold = page.locator("#thread .folded");
  assert.ok(!await fold.isVisible(), "the steps are shown before they are opened");
  await page.locator(".receipt a", { hasText: "2 steps" }).click();
  await fold.locator(".title", { hasText: "cargo test" }).waitFor();
  await page.context().close();
});

test("a failed job is tried again with the same message", async () => {
  const page = await suite.page({ cookie: admin });
  const job = await fakeJob("Breaks", [{ fail: "the tool chain is missing" }]);
  await service.waitForJob(key, "shop", job.id);
  await open(page, job);
  await page.getByRole("heading", { name: "The agent failed" }).waitFor();
  assert.equal(await page.getByText("the tool chain is missing").count(), 1, "the reason is said once");
  await page.getByRole("button", { name: "Try again" }).click();
  await waitUntil("the message was sent again", async () => {
    const messages = await service.api(key, "GET", `/agent/shop/job/${job.id}/messages`);
    return messages.messages.length === 2 && messages.messages[0].prompt === messages.messages[1].prompt;
  });
  await service.waitForJob(key, "shop", job.id);
  await page.context().close();
});

test("texts are copied without HTTPS too, and a refusal says what to do", async () => {
  const page = await suite.page({ cookie: admin });
  // As on a page without HTTPS.
  await page.addInitScript(() => Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined }));
  const job = await service.job(key, "shop", "Write a file [[write copied.txt|x]]");
  await service.waitForJob(key, "shop", job.id);
  await open(page, job);
  const branch = await page.locator("#job-branch").textContent();
  const button = page.getByRole("button", { name: "Copy the branch" });
  await button.click();
  await page.locator(".copied").waitFor();
  assert.ok(await button.evaluate((element) => element === document.activeElement), "the focus has moved");
  await page.locator("#prompt").focus();
  await page.keyboard.press("Control+v");
  assert.equal(await page.locator("#prompt").inputValue(), branch);

  await page.evaluate(() => { document.execCommand = () => false; });
  await expire(page);
  await page.locator(".copied").waitFor({ state: "detached" });
  await button.click();
  await page.locator("[data-toast]").getByText("The browser refuses to copy.").waitFor();
  const selected = await page.getByRole("textbox", { name: "Text to copy" }).evaluate((field) => field.value.slice(field.selectionStart, field.selectionEnd));
  assert.equal(selected, branch, "the text is not selected");
  assertNone(await axe(page));
  assert.equal(await page.locator(".copied").count(), 0);
  await page.context().close();
});

test("the palette has the actions of the page, and carries them out", async () => {
  const page = await suite.page({ cookie: admin });
  const [end, allow] = signal();
  const job = await fakeJob("Works until it may end", [say("I wait."), { wait: end }]);
  await open(page, job);
  await badge(page, "running");
  const choose = async (name, act) => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search or jump to" }).fill(name);
    const option = page.getByRole("group", { name: "On this page" }).getByRole("option", { name, exact: true, selected: true });
    await option.waitFor();
    await act(option);
    await page.getByRole("combobox", { name: "Search or jump to" }).waitFor({ state: "detached" });
  };
  const click = (option) => option.click();
  // The mouse: a click must not close the disclosure again.
  await choose("Cancel…", click);
  const confirm = page.getByRole("button", { name: "Cancel the job" });
  await confirm.waitFor();
  assert.ok(await page.locator("#cancel > summary").evaluate((summary) => summary === document.activeElement), "the disclosure has no focus");
  await page.keyboard.press("Escape");
  await confirm.waitFor({ state: "hidden" });
  await choose("Copy ID", click);
  await page.locator("[data-toast]").getByText("Copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), job.id);
  await choose("Copy link", click);
  await waitUntil("the link is copied", async () => await page.evaluate(() => navigator.clipboard.readText()) === `${service.url}/projects/shop/jobs/${job.id}`);
  allow();
  await badge(page, "completed");
  // The keyboard.
  await choose("Archive", async () => page.keyboard.press("Enter"));
  await badge(page, "archived");
  await page.locator("#dock").getByRole("button", { name: "Unarchive" }).click();
  await badge(page, "completed");
  await page.context().close();
});

test("Enter in the palette waits for the search, and carries out nothing else", async () => {
  const page = await suite.page({ cookie: admin });
  const wanted = await fakeJob("Elsewhere entirely", [say("Done.")]);
  const failed = await service.job(key, "shop", "Fails [[fail It broke.]]");
  for (const job of [wanted, failed]) await service.waitForJob(key, "shop", job.id);
  let answer;
  const isAnswered = new Promise((done) => { answer = done; });
  await page.route("**/search/results?*", async (route) => {
    await isAnswered;
    await route.continue();
  });
  await open(page, failed);
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await page.keyboard.press("Control+k");
  const field = page.getByRole("combobox", { name: "Search or jump to" });
  await page.getByRole("option", { name: "Try again" }).waitFor();
  await field.pressSequentially("try");
  await page.getByRole("option", { name: "Try again", selected: true }).waitFor();
  await field.fill("Elsewhere ent");
  await page.keyboard.press("Enter");
  assert.ok(await field.isVisible(), "the palette has done something");
  answer();
  await page.getByRole("heading", { level: 1, name: /^Elsewhere entirely/ }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("group", { name: "Recent jobs" }).getByRole("option", { name: /^Elsewhere entirely/ }).waitFor();
  await page.keyboard.press("Escape");
  const { messages } = await service.api(key, "GET", `/agent/shop/job/${failed.id}/messages`);
  assert.equal(messages.length, 1, "the failed job was tried again");
  await page.context().close();
});

test("a job that was opened from a list leads to those above and below it", async () => {
  const page = await suite.page({ cookie: admin });
  const [older, newer] = [await fakeJob("The older one", [say("Done.")]), await fakeJob("The newer one", [say("Done.")])];
  for (const job of [older, newer]) await service.waitForJob(key, "shop", job.id);
  const [above, below] = ["above", "below"].map((place) => page.getByRole("link", { name: `Job ${place} in the list` }));
  const heading = (title) => page.getByRole("heading", { level: 1, name: title }).waitFor();
  await open(page, newer);
  await heading(/^The newer one/);
  const shown = page.locator("[data-neighbor]:visible");
  assert.equal(await shown.count(), 0, "there are links without a list");
  await suite.open(page, "/projects/shop/jobs");
  await page.locator(".jobrow").getByRole("link", { name: /^The newer one/ }).click();
  await heading(/^The newer one/);
  await below.waitFor();
  await page.keyboard.press("j");
  await heading(/^The older one/);
  await page.goBack();
  await heading(/^The newer one/);
  await below.waitFor();
  await below.click({ modifiers: ["ControlOrMeta"] });
  await page.reload();
  await below.waitFor();
  await below.click();
  await heading(/^The older one/);
  await above.click();
  await heading(/^The newer one/);
  await page.context().close();
});

test("the column at the side never comes before the conversation", async () => {
  const job = await fakeJob("Is done too", [plan("completed"), say("Done.")]);
  await service.waitForJob(key, "shop", job.id);
  const box = (page, which) => page.locator(which).boundingBox();
  const page = await suite.page({ cookie: admin, viewport: { width: 1024, height: 800 } });
  await open(page, job);
  const [main, side] = [await box(page, ".job-main"), await box(page, "#job-side")];
  assert.ok(side.x >= main.x + main.width, "at 1024 px the column is not next to the conversation");
  assert.ok(Math.abs(side.width - 208) < 2, `the column is ${side.width} px wide`);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.ok(!await page.locator("#job-side").isVisible(), "on a phone the column is folded");
  const brief = await box(page, "#job-brief");
  assert.ok(brief.height <= 48, `the line is ${brief.height} px high`);
  assert.ok(brief.y + brief.height <= (await box(page, "#job-outcome")).y, "the line is above the conversation");
  await page.locator("#job-brief > summary").click();
  await page.locator("#job-side .plan").waitFor();
  await page.context().close();
});
