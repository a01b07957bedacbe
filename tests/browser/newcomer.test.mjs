// Tests of what a new user does, from the link that the server prints to a merged pull request. Each test continues where
// the one before ended. firefox.test.mjs runs the same tests in Firefox.

import assert from "node:assert/strict";
import { HELD, PASSWORD, Suite, WorkingCopy, copyWith, waitUntil } from "./lib.mjs";

const suite = await Suite.start();
const test = suite.test.bind(suite);
const step = suite.sequence();
/** Defines a test that is skipped if no key was created. */
const withKey = (name, run) => test(name, (context) => secret ? run(context) : context.skip("there is no key"));

let page, secret, copy, job;

const waitForBadge = (status) => page.locator("#job-head .badge", { hasText: new RegExp(`^${status}$`) }).waitFor();
const thread = () => page.locator("#thread");
/** Locates messages of the agent that contain a text; the prompts do not count. */
const agentSaid = (text, where = page) => where.locator("#thread .said .prose", { hasText: text });
/** Marks the page; a reload removes the mark. */
const markPage = () => page.evaluate(() => { window.__mark = true; });
const isMarked = () => page.evaluate(() => window.__mark === true);
const send = async (prompt, delivery = "Queue") => {
  await page.getByLabel("Message to the agent").fill(prompt);
  await page.locator("#composer .switch label", { hasText: delivery }).click();
  await page.getByRole("button", { name: "Send", exact: true }).click();
};

test("without a session, a page redirects to the sign-in page, which mentions the link", async () => {
  page = await suite.page();
  await suite.open(page, "/projects/shop/jobs?status=failed");
  assert.equal(new URL(page.url()).pathname, "/login");
  assert.equal(new URL(page.url()).searchParams.get("next"), "/projects/shop/jobs?status=failed");
  await page.getByRole("status").getByText(/has no administrator yet.+The server printed a link/).waitFor();
});

step("a weak password is refused with a reason, and the form keeps the name", async () => {
  page ??= await suite.page();
  await suite.open(page, suite.service.link);
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password").fill("passwordpassword");
  suite.expect(/^422 POST \/setup/);
  await page.getByRole("button", { name: "Create the administrator" }).click();
  const reason = page.getByRole("alert");
  await reason.waitFor();
  assert.match(await reason.textContent(), /this password .+: choose another/i);
  assert.equal(await page.getByLabel("Name").inputValue(), "ada");
  assert.equal(await page.getByLabel("Password").inputValue(), "", "the page contains the password");
});

step("a strong password creates the administrator, who is then signed in", async () => {
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Create the administrator" }).click();
  await page.waitForURL((url) => url.pathname === "/");
  await page.getByRole("heading", { name: "Welcome to Journeyman" }).waitFor();
  await page.getByLabel("Account of ada").waitFor();
});

step("a key is shown once, and the button copies it to the clipboard", async () => {
  await page.locator("details.account > summary").click();
  await page.getByRole("link", { name: "API keys" }).click();
  await page.getByRole("link", { name: "New key" }).first().click();
  await page.getByLabel("Name").fill("CI of the shop");
  await page.getByRole("button", { name: "Create key" }).click();
  secret = await page.locator("#key").textContent();
  assert.match(secret, /^jmn_\w{30,}$/);
  await page.evaluate(() => navigator.clipboard.writeText("something else"));
  await page.locator(".secret-line").getByRole("button", { name: "Copy" }).click();
  await page.locator(".secret-line .copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret);
  await page.reload();
  assert.equal(await page.locator("#key").textContent(), secret, "a reload shows another secret");
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("rowheader", { name: "CI of the shop" }).waitFor();
  assert.ok(!(await page.content()).includes(secret), "the list shows the secret");
  suite.expect(/^410 GET/);
  await page.goBack();
  await page.getByRole("heading", { name: "The secret is no longer shown" }).waitFor();
  assert.ok(!(await page.content()).includes(secret), "the Back button shows the secret again");
});

step("a project on the built-in code host is created", async () => {
  await suite.open(page, "/projects");
  await page.getByRole("link", { name: "New project" }).first().click();
  await page.getByLabel("ID").fill("shop");
  await page.locator("#model").selectOption("test/scripted");
  await page.getByRole("button", { name: "Create project" }).click();
  await page.waitForURL("**/projects/shop/jobs*");
  await page.getByText("Created.").waitFor();
  await page.getByRole("heading", { name: "Start with shop" }).waitFor();
  await page.getByText("Waiting for the first push.").waitFor();
});

step("the page of the project copies the lines for the push, and shows without a reload that it has arrived", async () => {
  await markPage();
  const lines = await copyWith(page, page.locator(".pane").first().getByRole("button", { name: "Copy" }));
  const url = lines.match(/^git remote add journeyman (http\S+)\ngit push journeyman HEAD:main$/)[1];
  assert.equal(url, `${suite.service.url.replace("//", "//ada@")}/git/shop.git`);
  copy = new WorkingCopy(url.replace("//ada@", `//ada:${secret}@`));
  copy.write({ "README.md": "# Shop\n", "src/lib.rs": "fn main() {\n    println!(\"hello\");\n}\n" });
  await copy.commit("Begin");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  await page.getByText("main has arrived").waitFor();
  assert.ok(await isMarked(), "the page was reloaded");
});

step("the settings have the URL for a clone", async () => {
  await page.getByRole("link", { name: "Settings" }).click();
  assert.equal(await page.locator("#clone").textContent(), `git clone ${suite.service.url}/git/shop.git`);
  assert.match(await copy.git("ls-remote", copy.remote), /refs\/heads\/main/);
});

step("the theme is chosen in the menu of the account, and stays", async () => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const menu = page.locator("details.account");
  const choose = async (name) => {
    if (!await menu.evaluate((details) => details.open)) await menu.locator("summary").click();
    await menu.getByRole("button", { name, exact: true }).click();
    await page.locator(`html[data-theme=${name.toLowerCase()}]`).waitFor({ state: "attached" });
  };
  await choose("Light");
  const light = await ground();
  await choose("Dark");
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await ground(), dark, "a reload loses the theme");
  await choose("System");
});

step("keys search, go to pages and show the list of keys, and do nothing in a field", async () => {
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search or jump to" }).pressSequentially("shop");
  await page.getByRole("option", { name: "shop" }).first().waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("h");
  await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  await page.keyboard.press("?");
  const keys = page.getByRole("dialog", { name: "Keyboard" });
  await keys.waitFor();
  await page.keyboard.press("Escape");
  await keys.waitFor({ state: "hidden" });
  await suite.open(page, "/search");
  const field = page.locator("main").getByRole("searchbox");
  await field.focus();
  await page.keyboard.type("?gh");
  assert.equal(await field.inputValue(), "?gh");
  assert.equal(await keys.count(), 0);
  await suite.open(page, "/projects/shop/jobs");
});

step("Ctrl+Enter in the form creates a job", async () => {
  await page.getByText("main has arrived").waitFor();
  await page.getByRole("link", { name: "More options" }).click();
  const prompt = page.getByLabel("Task");
  await prompt.fill([
    "Add a greeting",
    "[[say Let me look at **the code** first.]]",
    `[[run echo begun; ${HELD}; echo ended]]`,
    "[[write src/greet.rs|fn greet(name: &str) -> String {\\n    format!(\"Hello, {name}!\")\\n}]]",
    "[[say I added `greet`:\n\n```rust\nfn greet() {}\n```\n\n- one\n- two]]",
    "[[sleep 3600]]",
  ].join("\n"));
  await prompt.press("Control+Enter");
  await page.waitForURL(/\/jobs\/job_\w+$/);
  job = page.url().match(/job_\w+/)[0];
  await page.getByRole("heading", { level: 1, name: "Add a greeting" }).waitFor();
});

step("the conversation is updated while the agent works, without a reload", async () => {
  await markPage();
  await waitForBadge("running");
  await agentSaid("Let me look at the code first.").waitFor();
  await thread().locator("strong", { hasText: "the code" }).waitFor();
  assert.equal(await page.locator("#job-head .badge").textContent(), "running");
});

step("updates neither collapse expanded elements nor discard typed text", async () => {
  const tool = thread().locator("details.tool", { hasText: "echo begun" });
  await tool.locator("summary").click();
  const composer = page.getByLabel("Message to the agent");
  await composer.pressSequentially("What I am wri");
  // The command ends, so the server sends its element again. More elements follow.
  await suite.service.release(job);
  await tool.getByText("ended", { exact: false }).last().waitFor();
  await tool.locator("summary .mark.completed").waitFor();
  assert.ok(await tool.evaluate((element) => element.open), "an update of the tool call collapsed it");
  await composer.pressSequentially("ting");
  await thread().locator("pre code", { hasText: "fn greet() {}" }).waitFor();
  await page.locator("#job-head .badge.running").waitFor();
  assert.ok(await tool.evaluate((element) => element.open), "a later element collapsed the tool call");
  assert.equal(await composer.inputValue(), "What I am writing");
  assert.ok(await composer.evaluate((element) => element === document.activeElement), "the composer lost focus");
  assert.ok(await isMarked(), "the page was reloaded");
});

step("a follow-up that is sent during a turn waits in the queue", async () => {
  await send("Later, do [[write later.txt|x]]");
  const queue = page.getByRole("list", { name: "Queued messages" });
  await queue.getByRole("listitem").filter({ hasText: "Later, do" }).waitFor();
  await page.locator("#job-head .badge.running").waitFor();
});

test("the composer is empty after a message was sent", async (context) => {
  if (!job) return context.skip("there is no job");
  const composer = page.getByLabel("Message to the agent");
  await waitUntil("the composer is empty", async () => await composer.inputValue() === "");
});

step("a queued follow-up can be withdrawn, without losing typed text", async () => {
  const queue = page.locator("#job-queue");
  const composer = page.getByLabel("Message to the agent");
  await composer.fill("Half a thou");
  await queue.getByRole("button", { name: /^Withdraw/ }).click();
  await queue.waitFor({ state: "hidden" });
  assert.equal(await queue.getByRole("listitem").count(), 0);
  assert.equal(await composer.inputValue(), "Half a thou");
  await page.locator("#job-head .badge.running").waitFor();
});

step("an interrupting message stops the agent and is delivered first", async () => {
  await send("Instead [[append src/greet.rs|// greeted]] [[say I have changed my plan.]]", "Interrupt");
  await agentSaid("I have changed my plan.").waitFor();
});

step("the page shows that the job completes, with its branch, commit and pull request", async () => {
  await markPage();
  await waitForBadge("completed");
  assert.match(await page.locator("#job-side code.branch").last().textContent(), /^journeyman\/add-a-greeting/);
  await page.locator("#job-head").getByRole("link", { name: "#1" }).waitFor();
  await page.locator(".receipt.finished code").first().waitFor();
  assert.ok(await isMarked(), "the page was reloaded");
});

step("a reloaded page shows the same conversation as the updated page", async () => {
  // A page that was open has not folded the steps that somebody may read.
  const conversation = () => page.evaluate(() => [...document.querySelectorAll("#thread li[id]:not(.folded)")].map((item) => {
    const copy = item.cloneNode(true);
    for (const part of copy.querySelectorAll("time, .steps-link, .receipt > span:not([class])")) part.remove();
    return `${item.id}: ${copy.textContent.replace(/\s+/g, " ").trim()}`;
  }));
  const updated = await conversation();
  await page.reload();
  assert.deepEqual(await conversation(), updated);
});

step("the changes are shown in a unified view and side by side, where a new file has one column", async () => {
  await page.getByRole("navigation", { name: "Job" }).getByRole("link", { name: "Changes" }).click();
  const file = page.locator("article.file", { hasText: "src/greet.rs" });
  await file.locator("table.lines").waitFor();
  assert.match(await file.textContent(), /format!\("Hello, \{name\}!"\)/);
  await page.getByRole("link", { name: "Side by side" }).click();
  await page.getByRole("link", { name: "Side by side" }).and(page.locator("[aria-current]")).waitFor();
  assert.equal(await file.locator("table.lines.split").count(), 0, "half of the width is empty");
  await page.getByRole("link", { name: "Unified" }).click();
  await file.locator("table.lines:not(.split)").waitFor();
});

step("the runs, events and record of a job have tabs", async () => {
  await page.getByRole("navigation", { name: "Job" }).getByRole("link", { name: "Runs" }).click();
  await page.getByRole("rowheader", { name: /Instead/ }).waitFor();
  assert.ok(await page.locator("tbody tr").count() >= 2, "the interrupted run and the one after it are shown");
  await page.getByRole("link", { name: "Events" }).click();
  await page.locator(".events summary", { hasText: "pull_request." }).first().waitFor();
  await page.getByRole("navigation", { name: "Job" }).getByRole("link", { name: "Record" }).click();
  const record = JSON.parse(await page.locator("#record").textContent());
  assert.equal(record.id, job);
  assert.equal(record.status, "completed");
});

step("a comment for the agent is sent to the job, and the commit appears on the pull request", async () => {
  await page.locator("#job-head").getByRole("link", { name: "#1" }).click();
  await page.getByRole("heading", { name: /Add a greeting #1/ }).waitFor();
  await page.getByLabel("Comment", { exact: true }).fill("Please [[write docs/greet.md|# Greetings]]");
  await page.getByRole("checkbox", { name: "Send it to the agent" }).check();
  await page.getByRole("button", { name: "Comment" }).click();
  const comment = page.locator("article[id^=c-]", { hasText: "Please" }).first();
  await comment.getByText("sent to the agent", { exact: true }).waitFor();
  // The page is updated without a reload.
  const commit = comment.locator("a.commit");
  await commit.waitFor();
  await commit.click();
  await page.locator("article.file", { hasText: "greet.md" }).waitFor();
  await suite.open(page, `/projects/shop/jobs/${job}`);
  const message = thread().locator("article", { hasText: "Please" });
  await message.getByText("from #1", { exact: true }).waitFor();
  await waitForBadge("completed");
});

step("the pull request is merged", async () => {
  await suite.open(page, "/projects/shop/pulls");
  await page.locator(".row-link", { hasText: "Add a greeting" }).click();
  await page.getByText("No conflicts with main").waitFor();
  await page.getByRole("button", { name: "Merge", exact: true }).click();
  await page.getByText("Merged.", { exact: true }).waitFor();
  await page.locator(".itembar > .pill.merged").waitFor();
  await page.locator("#ended").getByText(/ merged [0-9a-f]{8} into main /).waitFor();
  assert.equal(await page.getByRole("button", { name: "Merge", exact: true }).count(), 0);
  await copy.git("fetch", "-q", copy.remote, "main");
  assert.match(await copy.git("ls-tree", "-r", "--name-only", "FETCH_HEAD"), /docs\/greet\.md/);
});

withKey("the list of jobs is updated without a reload", async () => {
  await suite.open(page, "/projects/shop/jobs");
  await markPage();
  const sent = await suite.service.job(secret, "shop", "Sent by a program [[say yes]]");
  const row = page.locator("#jobs > .jobrow", { has: page.getByRole("link", { name: "Sent by a program" }) });
  await row.waitFor();
  await row.locator(".mark.completed").waitFor();
  assert.ok(await isMarked(), "the page was reloaded");
  assert.match(sent.id, /^job_/);
});

withKey("search and filter of jobs are in the URL and can be combined", async () => {
  await page.getByRole("searchbox").fill("program");
  await page.getByRole("searchbox").press("Enter");
  await page.waitForURL("**/jobs?q=program");
  await page.getByRole("link", { name: "Add a greeting" }).waitFor({ state: "hidden" });
  assert.equal(await page.locator("#jobs > .jobrow").count(), 1);
  await page.getByRole("link", { name: "Failed", exact: true }).click();
  await page.waitForURL(/q=program&status=failed/);
  await page.getByRole("heading", { name: "No matching jobs" }).waitFor();
  await page.getByRole("link", { name: "Completed", exact: true }).click();
  await page.waitForURL(/q=program&status=completed/);
  await page.getByRole("link", { name: "Sent by a program" }).waitFor();
  assert.equal(await page.getByRole("searchbox").inputValue(), "program");
});

withKey("cancelling a job needs a confirmation", async () => {
  const sent = await suite.service.job(secret, "shop", "Goes on for long [[sleep 3600]]");
  await suite.open(page, `/projects/shop/jobs/${sent.id}`);
  await waitForBadge("running");
  const confirm = page.getByRole("button", { name: "Cancel the job" });
  assert.ok(!await confirm.isVisible(), "the job can be cancelled without a confirmation");
  await page.locator("#cancel > summary").click();
  await confirm.click();
  await waitForBadge("cancelled");
  assert.equal((await suite.service.api(secret, "GET", `/agent/shop/job/${sent.id}`)).status, "failed");
});

withKey("an archived job accepts no messages until it is unarchived", async () => {
  await page.locator("#more > summary").click();
  await page.getByRole("button", { name: "Archive", exact: true }).click();
  await waitForBadge("archived");
  await page.getByText("This job is archived.").waitFor();
  assert.equal(await page.getByLabel("Message to the agent").count(), 0);
  await page.locator("#dock").getByRole("button", { name: "Unarchive" }).click();
  await page.getByLabel("Message to the agent").waitFor();
  assert.equal(await page.locator("#job-head .badge.archived").count(), 0);
});

withKey("events between the loading of a page and its stream are shown", async () => {
  const context = await suite.context({ cookie: await suite.service.createUser("hurried", "member") });
  const delayed = [];
  let isDelaying = true;
  await context.route(/\/live\?/, (route) => isDelaying ? delayed.push(route) : route.continue());
  const other = await context.newPage();
  const sent = await suite.service.job(secret, "shop", "Happens meanwhile [[hold]] [[say It has happened.]]");
  await waitUntil("the job runs", async () => {
    await suite.open(other, `/projects/shop/jobs/${sent.id}`);
    return await other.locator("#thread .receipt.delivered").count();
  });
  await waitUntil("the page requests its stream", () => delayed.length > 0);
  await suite.service.release(sent.id);
  await suite.service.waitForJob(secret, "shop", sent.id);
  isDelaying = false;
  for (const route of delayed) await route.continue().catch(() => {});
  await agentSaid("It has happened.", other).waitFor();
  await other.locator("#job-head .badge.completed").waitFor();
  await other.locator("#thread .receipt.finished").waitFor();
  await context.close();
});

withKey("a hidden page closes its stream, and is updated when it becomes visible", async () => {
  const other = await suite.page({ cookie: await suite.service.createUser("absent", "member") });
  await other.clock.install();
  await suite.open(other, "/projects/shop/jobs");
  await other.locator("turbo-stream-source").waitFor({ state: "attached" });
  const setVisible = (visible) => other.evaluate((visible) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => !visible });
    document.dispatchEvent(new Event("visibilitychange"));
  }, visible);
  await setVisible(false);
  await other.clock.fastForward(60_000);
  await other.locator("turbo-stream-source").waitFor({ state: "detached" });
  await suite.service.job(secret, "shop", "Sent while hidden [[say yes]]");
  await setVisible(true);
  await other.getByRole("link", { name: "Sent while hidden" }).waitFor();
  await other.locator("turbo-stream-source").waitFor({ state: "attached" });
  await other.context().close();
});

withKey("an open page is updated again after the server has restarted", async () => {
  const other = await suite.page({ cookie: await suite.service.createUser("patient", "member") });
  const sent = await suite.service.job(secret, "shop", "Before the restart [[say One.]]");
  await suite.service.waitForJob(secret, "shop", sent.id);
  await suite.open(other, `/projects/shop/jobs/${sent.id}`);
  await other.locator("#job-head .badge.completed").waitFor();
  await other.evaluate(() => { window.__mark = true; });
  // A server that is stopping answers 503 to the stream, and to the icon, which browsers may request after the page.
  suite.allow(/ERR(OR)?_|^console error|^503 GET \/(assets\/icon|projects\/shop\/jobs\/[^/]+\/live)/);
  await suite.service.restart();
  await suite.service.api(secret, "POST", `/agent/shop/job/${sent.id}/message`, { prompt: "After it [[say Two.]]" });
  await agentSaid("Two.", other).waitFor();
  await other.locator("#job-head .badge.completed").waitFor();
  assert.ok(await other.evaluate(() => window.__mark), "the page was reloaded");
  await other.context().close();
});

withKey("an open page is updated again after its stream was refused", async () => {
  const other = await suite.page({ cookie: await suite.service.createUser("refused", "member") });
  const sent = await suite.service.job(secret, "shop", "Before the refusal [[say One.]]");
  await suite.service.waitForJob(secret, "shop", sent.id);
  let requests = 0;
  await other.route(/\/live\?/, (route) => {
    requests += 1;
    return requests <= 2 ? route.fulfill({ status: 503 }) : route.continue();
  });
  suite.expect(/^503 GET .*\/live/, /^503 GET .*\/live/);
  // Firefox reports this as an exception.
  suite.allow(/can’t establish a connection/);
  await suite.open(other, `/projects/shop/jobs/${sent.id}`);
  await other.evaluate(() => { window.__mark = true; });
  await suite.service.api(secret, "POST", `/agent/shop/job/${sent.id}/message`, { prompt: "After it [[say Two.]]" });
  await agentSaid("Two.", other).waitFor();
  assert.ok(await other.evaluate(() => window.__mark), "the page was reloaded");
  assert.equal(await agentSaid("One.", other).count(), 1, "an entry is shown twice");
  assert.equal(requests, 3);
  await other.context().close();
});
