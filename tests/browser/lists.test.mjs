// Tests of the home page, of the lists of jobs, of the page of a project without jobs, and of the form for a new job. Each
// test continues where the one before ended.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { Suite, WorkingCopy, assertNone, axe, copyWith, expire, makeFolder, overflow, screenshot, script, waitUntil } from "./lib.mjs";

const suite = await Suite.start({ agentName: "fake" });
const step = suite.sequence();
const { service } = suite;
const admin = await service.createAdministrator("ada");
const key = service.key("CI");
/** The file that lets the running agent end its turn. */
const endFile = path.join(makeFolder("end"), "end");
let page;
let running;
/** The title of the job that is archived. */
let chosen;

const toast = () => page.locator("[data-toast]");
const row = (title) => page.locator(".jobrow", { has: page.getByRole("link", { name: title, exact: true }) });

step("an empty installation leads to the first project", async () => {
  page = await suite.page({ cookie: admin });
  await suite.open(page, "/");
  await page.getByRole("heading", { level: 1, name: "Welcome to Journeyman" }).waitFor();
  await page.getByRole("link", { name: "New project" }).click();
  await page.getByLabel("ID").fill("shop");
  assert.equal(await page.locator("#model").inputValue(), "test/scripted");
  assert.ok(!await page.locator("#model-other").isVisible(), "the field for another model is shown");
  await page.locator("#model").selectOption("other");
  await page.locator("#model-other").waitFor();
  await page.locator("#model").selectOption("test/scripted");
  await page.getByRole("button", { name: "Create project" }).click();
  await page.getByRole("heading", { level: 1, name: "Start with shop" }).waitFor();
});

step("the page of an empty project copies the push lines, and changes when the push arrives", async () => {
  await page.getByText("Waiting for the first push.").waitFor();
  const lines = await copyWith(page, page.locator(".pane").first().getByRole("button", { name: "Copy" }));
  assert.match(lines, /^git remote add journeyman http:\/\/ada@.+\/git\/shop\.git\ngit push journeyman HEAD:main$/);
  await page.getByText("A new repository").click();
  await page.getByText("git clone").waitFor();
  await page.evaluate(() => { window.__mark = true; });
  await page.getByLabel("First job").fill("Describe the build [[say It has none.]]");
  await page.getByRole("button", { name: "Send after the push" }).click();
  await page.getByRole("button", { name: "Will be sent after the push" }).waitFor();
  const copy = new WorkingCopy(service.remote(key, "shop"));
  copy.write({ "README.md": "# Shop\n" });
  await copy.commit("Add a README");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  await page.waitForURL(/\/jobs\/job_\w+$/);
  await page.getByRole("heading", { level: 1, name: /^Describe the build/ }).waitFor();
});

step("the form for a new job inserts directives of the test model at the cursor", async () => {
  await suite.open(page, "/projects/shop/jobs/new");
  const prompt = page.getByLabel("Task");
  await prompt.fill("Say hello");
  await page.getByRole("button", { name: "Write a file" }).click();
  assert.equal(await prompt.inputValue(), "Say hello [[write hello.txt|Hello]]");
  const height = () => prompt.evaluate((area) => area.getBoundingClientRect().height);
  const before = await height();
  await prompt.fill("line\n".repeat(20));
  if (await page.evaluate(() => CSS.supports("field-sizing", "content"))) assert.ok(await height() > before, "the text area does not grow");
  await page.locator("#model").selectOption("other");
  await page.getByRole("button", { name: "Write a file" }).waitFor({ state: "hidden" });
  assert.deepEqual(await page.locator("#branches option").evaluateAll((all) => all.map((option) => option.value)), ["main"]);
});

step("a template fills in the form for a new job, and replaces a text only after a question", async () => {
  await suite.open(page, "/projects/shop/jobs/new");
  await page.getByRole("link", { name: "create a template" }).click();
  await page.getByLabel("Name", { exact: true }).fill("Fix a bug");
  await page.getByLabel("Description").fill("For a bug report with its steps");
  await page.getByLabel("Task").fill("Fix this bug:\n");
  await page.getByLabel("Labels").fill("bug, ui");
  await page.getByRole("button", { name: "Create template" }).click();
  await page.getByRole("rowheader", { name: "Fix a bug" }).waitFor();
  assertNone(await axe(page), "accessibility violations");
  await page.getByRole("link", { name: "Use Fix a bug" }).click();
  const prompt = page.getByLabel("Task");
  await page.getByText("Filled in from the template Fix a bug.").waitFor();
  assert.equal(await prompt.inputValue(), "Fix this bug:\n");
  assert.equal(await page.getByLabel("Labels").inputValue(), "bug, ui");

  const choose = async () => {
    await page.locator("#starters > summary").click();
    await page.locator("#starters").getByRole("link", { name: "Fix a bug" }).click();
  };
  await prompt.fill("My own text");
  await choose();
  const question = page.getByRole("dialog", { name: "Replace what you have entered?" });
  await question.waitFor();
  assertNone(await axe(page), "accessibility violations");
  await question.getByRole("button", { name: "Keep my text" }).click();
  await question.waitFor({ state: "hidden" });
  assert.equal(await prompt.inputValue(), "My own text");
  await choose();
  await question.getByRole("link", { name: "Use the template" }).click();
  await waitUntil("the text of the template", async () => await prompt.inputValue() === "Fix this bug:\n");
  for (const [width, theme] of [[390, "light"], [1024, "dark"], [1440, "light"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: theme });
    await page.locator("#starters > summary").click();
    assert.equal(await overflow(page), null, `${width} px`);
    assertNone(await axe(page, ["color-contrast"]), `contrast at ${width} px`);
    await screenshot(page, `lists-starters-${width}-${theme}`);
    await page.keyboard.press("Escape");
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
});

step("without scripts, a template fills in the form too", async () => {
  const context = await suite.context({ cookie: admin, javaScriptEnabled: false });
  const plain = await context.newPage();
  await suite.open(plain, "/projects/shop/jobs/new");
  await plain.locator("#starters > summary").click();
  await plain.locator("#starters").getByRole("link", { name: "Fix a bug" }).click();
  await plain.getByText("Filled in from the template Fix a bug.").waitFor();
  assert.equal(await plain.getByLabel("Task").inputValue(), "Fix this bug:\n");
  await context.close();
});

step("the list of jobs has the step of a running job, and what matters about the others", async () => {
  await service.job(key, "shop", "Fails [[fail The disk of the test is full]]");
  const plan = { sessionUpdate: "plan", entries: ["completed", "in_progress", "pending"].map((status) => ({ content: status, priority: "low", status })) };
  const call = { sessionUpdate: "tool_call", toolCallId: "1", title: "cargo test -p shop", kind: "execute", status: "in_progress" };
  running = await service.job(key, "shop", script("Runs its tests", [plan, call, { wait: endFile }]), { agent: "fake" });
  await suite.open(page, "/projects/shop/jobs");
  await row("Runs its tests").getByText("cargo test -p shop").waitFor();
  await row("Fails [[fail The disk of the test is full]]").locator(".mark.failed").waitFor();
  await row("Fails [[fail The disk of the test is full]]").locator(".row-sub", { hasText: "The disk of the test is full" }).waitFor();
  await waitUntil("the title has the number of running jobs", async () => /^\(1\) Jobs/.test(await page.title()));
  await page.setViewportSize({ width: 390, height: 844 });
  for (const one of await page.locator(".jobrow").all()) {
    const [when, title] = [await one.locator(".when").boundingBox(), await one.locator(".row-main").boundingBox()];
    assert.ok(when && when.y < title.y + title.height && when.x >= title.x + title.width, "the time is next to the title");
  }
  assert.equal(await overflow(page), null, "390 px");
  await page.setViewportSize({ width: 1280, height: 900 });
  const clock = row("Runs its tests").locator("[data-clock]");
  const first = await clock.textContent();
  await waitUntil("the clock runs", async () => await clock.textContent() !== first);
});

step("home shows the failure, the running job and its plan", async () => {
  await suite.open(page, "/?whose=everybody");
  await page.getByRole("button", { name: /^Try again/ }).first().waitFor();
  const now = page.locator("section", { has: page.getByRole("heading", { name: "Running now" }) });
  await now.getByText("cargo test -p shop").waitFor();
  await now.getByText("1 of 3").first().waitFor();
  await page.locator("section", { has: page.getByRole("heading", { name: "Projects" }) }).getByText("1 running").waitFor();
  await page.evaluate(() => { window.__mark = true; });
  fs.writeFileSync(endFile, "");
  await now.getByText("No job is running.").waitFor();
  await page.locator("section", { has: page.getByRole("heading", { name: "Finished" }) }).getByRole("link", { name: "Runs its tests" }).waitFor();
  assert.ok(await page.evaluate(() => window.__mark), "the page was reloaded");
});

step("filters are links and forms with their values in the URL", async () => {
  await suite.open(page, "/jobs");
  await page.getByRole("link", { name: "All 3", exact: true }).waitFor();
  await page.locator("#filter-author > summary").click();
  await page.locator("#filter-author").getByRole("link", { name: "CI" }).click();
  await page.waitForURL("**/jobs?author=CI");
  await page.getByRole("link", { name: "All", exact: true }).waitFor();
  await row("Describe the build [[say It has none.]]").waitFor({ state: "hidden" });
  await page.locator("#filter-label > summary").click();
  await page.locator("#other-label").fill("none such");
  await page.locator("#other-label").press("Enter");
  await page.waitForURL(/author=CI&label=none(\+|%20)such/);
  await page.getByRole("heading", { name: "No matching jobs" }).waitFor();
  for (const [width, theme] of [[390, "light"], [1024, "dark"], [1440, "light"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: theme });
    assert.equal(await overflow(page), null, `${width} px`);
    assertNone(await axe(page), `accessibility violations at ${width} px`);
    await screenshot(page, `lists-no-match-${width}-${theme}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  await page.getByRole("link", { name: "Clear the filter Label" }).click();
  await page.waitForURL("**/jobs?author=CI");
  // Until then, the page is the one before, or a preview of the next one.
  const isBusy = () => page.evaluate(() => ["aria-busy", "data-turbo-preview"].some((name) => document.documentElement.hasAttribute(name)));
  await waitUntil("the page of the filter", async () => await page.locator(".jobrow").count() > 0 && !await isBusy());
  await page.keyboard.press("f");
  await page.locator("#filter-project").getByRole("link", { name: "shop" }).click();
  await page.waitForURL(/project=shop/);
  await page.getByRole("link", { name: "Clear filters" }).first().click();
  await page.waitForURL("**/jobs");
  await waitUntil("all jobs are listed", async () => await page.locator(".jobrow").count() === 3);
});

step("a click with Shift chooses the rows between, and Escape chooses none", async () => {
  await suite.open(page, "/jobs");
  const chosen = () => page.locator(".choose:checked").count();
  const boxes = page.locator(".choose");
  const all = await boxes.count();
  assert.ok(all >= 3, "too few rows");
  await boxes.nth(0).click();
  await boxes.nth(all - 1).click({ modifiers: ["Shift"] });
  assert.equal(await chosen(), all);
  await boxes.nth(1).click({ modifiers: ["Shift"] });
  assert.equal(await chosen(), 1, "the range gets the state of the box that was clicked");
  await page.locator("#filter-author > summary").click();
  await page.keyboard.press("Escape");
  assert.equal(await chosen(), 1, "the key has closed the menu");
  await page.keyboard.press("Escape");
  assert.equal(await chosen(), 0);
});

step("keys move, choose and archive", async () => {
  await suite.open(page, "/projects/shop/jobs");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  const second = page.locator(".jobrow").nth(1);
  assert.ok(await second.locator(".row-title").evaluate((link) => link === document.activeElement), "j does not move to the second row");
  chosen = (await second.locator(".row-title").textContent()).trim();
  await page.keyboard.press("x");
  assert.ok(await second.locator(".choose").isChecked());
  await page.getByRole("button", { name: "Archive the chosen jobs" }).waitFor();
  await page.keyboard.press("e");
  await page.getByText("The jobs are archived.").waitFor();
  await row(chosen).locator(".mark.archived").waitFor();
  await page.getByRole("link", { name: "Archived 1", exact: true }).waitFor();
  assert.equal(await row(chosen).locator(".choose").count(), 0);
  assert.equal(await page.locator(".mark.archived").count(), 1);
});

step("a toast with a button stays, and undoes the action; one without a button disappears", async () => {
  await expire(page);
  const undo = toast().getByRole("button", { name: "Undo" });
  await undo.focus();
  assert.equal(new URL(page.url()).search, "", "the toast would appear again after a reload");
  assertNone(await axe(page), "accessibility violations");
  await expire(page);
  await page.keyboard.press("Enter");
  await page.getByText("The jobs are no longer archived.").waitFor();
  assert.equal(await page.locator(".mark.archived").count(), 0);
  await expire(page);
  await toast().waitFor({ state: "detached" });
});

step("an action that fails leaves the page as it is, and can be tried again after a lost connection", async () => {
  const box = row(chosen).locator(".choose");
  const archive = page.getByRole("button", { name: "Archive the chosen jobs" });
  const value = await box.getAttribute("value");
  await box.evaluate((box) => { box.value = "shop/none"; });
  await box.check();
  suite.expect(/^404 POST \/jobs\/archive/);
  await archive.click();
  await toast().getByText("There is no such job.").waitFor();
  assert.ok(await box.isChecked(), "the page was replaced");
  assert.equal(await toast().getByRole("button", { name: "Try again" }).count(), 0);
  for (const [width, theme] of [[390, "light"], [1024, "dark"], [1440, "light"]]) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: theme });
    assert.equal(await overflow(page), null, `${width} px`);
    assertNone(await axe(page), `accessibility violations at ${width} px`);
    await screenshot(page, `toast-failed-${width}-${theme}`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  await toast().getByRole("button", { name: "Dismiss" }).click();
  await toast().waitFor({ state: "detached" });

  await box.evaluate((box, value) => { box.value = value; }, value);
  suite.allow(/ERR_FAILED|Failed to fetch/);
  await page.route("**/jobs/archive", (route) => route.abort(), { times: 1 });
  await archive.click();
  await toast().getByText("The server cannot be reached.").waitFor();
  assertNone(await axe(page), "accessibility violations");
  await toast().getByRole("button", { name: "Try again" }).click();
  await page.getByText("The jobs are archived.").waitFor();
  assert.equal(await page.locator(".mark.archived").count(), 1);
});

step("a refused form is shown again in place, with its text, and with the error in the window", async () => {
  await page.setViewportSize({ width: 1280, height: 400 });
  await suite.open(page, "/keys/new");
  await page.getByLabel("Name").fill("CI");
  await page.getByLabel("Allowed addresses").fill("nowhere");
  suite.expect(/^422 POST \/keys/);
  await page.getByRole("button", { name: "Create key" }).click();
  const error = page.getByRole("alert").filter({ hasText: "The key was not created." });
  await error.waitFor();
  await waitUntil("the error is in the window", () => error.evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  }));
  assert.equal(new URL(page.url()).pathname, "/keys/new");
  assert.equal(await page.getByLabel("Allowed addresses").inputValue(), "nowhere");
  await page.setViewportSize({ width: 1280, height: 900 });
});

step("without scripts, jobs are chosen and archived with the mouse", async () => {
  const context = await suite.context({ cookie: admin, javaScriptEnabled: false });
  page = await context.newPage();
  await suite.open(page, "/projects/shop/jobs");
  await page.locator(".choose").first().check();
  await page.getByRole("button", { name: "Archive the chosen jobs" }).click();
  await page.getByText("The jobs are archived.").waitFor();
  await page.getByRole("button", { name: "Undo" }).waitFor();
  assert.equal(await page.locator(".mark.archived").count(), 2);
  await context.close();
});

step("an empty project imports the history of another repository", async () => {
  await service.api(key, "POST", "/projects", { id: "copy", repository: "local:copy" });
  page = await suite.page({ cookie: admin });
  await suite.open(page, "/projects/copy/jobs");
  await page.getByText("Import from a URL").click();
  const form = page.locator(".import-form");
  await form.getByLabel("URL").fill("http://127.0.0.1:1/acme/shop.git");
  await form.getByRole("button", { name: "Import" }).click();
  // The import fails in the background, and the page says so by itself.
  await page.getByText("The import from 127.0.0.1 failed.").waitFor();
  assertNone(await axe(page), "accessibility violations");

  await form.getByLabel("URL").fill(`${service.url}/git/shop.git`);
  await form.getByLabel("User name").fill("git");
  await form.getByLabel("Token").fill(key);
  await form.getByRole("button", { name: "Import" }).click();
  await page.getByText("main has arrived").waitFor();
  await page.getByRole("button", { name: "Send job" }).waitFor();
});
