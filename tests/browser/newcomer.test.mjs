// The whole way of somebody new, from the link that the server prints to a merged pull request. The tests go on where the
// one before has ended.

import assert from "node:assert/strict";
import { Copy, PASSWORD, Stage, shot, until } from "./lib.mjs";

const stage = await Stage.open();
const test = stage.test.bind(stage);
const step = stage.chain();
const withKey = (name, run) => test(name, (context) => secret ? run(context) : context.skip("there is no key"));

let page, secret, copy, job;

const badge = (word) => page.locator("#job-head .badge", { hasText: new RegExp(`^${word}$`) }).waitFor({ timeout: 30_000 });
const thread = () => page.locator("#thread");
/** What the agent has said, and not what it was told to say. */
const said = (text, where = page) => where.locator("#thread .said .prose", { hasText: text });
/** Puts a mark into the page that is gone when the page is loaded anew. */
const mark = () => page.evaluate(() => { window.__mark = true; });
const marked = () => page.evaluate(() => window.__mark === true);
const send = async (prompt, delivery = "Queue") => {
  await page.getByLabel("Message to the agent").fill(prompt);
  await page.locator("#composer .switch label", { hasText: delivery }).click();
  await page.getByRole("button", { name: "Send", exact: true }).click();
};

test("without a session every page leads to the page to sign in, which names the link", async () => {
  page = await stage.page();
  await stage.open(page, "/projects/shop/jobs?status=failed");
  assert.equal(new URL(page.url()).pathname, "/login");
  assert.equal(new URL(page.url()).searchParams.get("next"), "/projects/shop/jobs?status=failed");
  await page.getByRole("status").getByText(/has no administrator yet.+The server printed a link/).waitFor();
});

step("a weak password is refused with a reason, and the name is kept", async () => {
  page ??= await stage.page();
  await stage.open(page, stage.service.link);
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password").fill("passwordpassword");
  stage.expect(/^422 POST \/setup/);
  await page.getByRole("button", { name: "Create the administrator" }).click();
  const reason = page.getByRole("alert");
  await reason.waitFor();
  assert.match(await reason.textContent(), /this password .+: choose another/i);
  assert.equal(await page.getByLabel("Name").inputValue(), "ada");
  assert.equal(await page.getByLabel("Password").inputValue(), "", "the password came back in the page");
  await shot(page, "newcomer-weak-password");
});

step("a good password makes the administrator, who is signed in", async () => {
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Create the administrator" }).click();
  await page.waitForURL("**/projects");
  await page.getByRole("heading", { name: "No projects yet" }).waitFor();
  await page.getByText("ada", { exact: true }).first().waitFor();
});

step("a key is shown once, and the button puts it on the clipboard", async () => {
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
  await page.getByRole("link", { name: "Done" }).click();
  await page.getByRole("rowheader", { name: "CI of the shop" }).waitFor();
  assert.ok(!(await page.content()).includes(secret), "the secret is on the list");
  await page.goBack();
  assert.ok(!(await page.content()).includes(secret), "the secret comes back with the button");
});

step("a project on the built-in code host is made", async () => {
  await stage.open(page, "/projects");
  await page.getByRole("link", { name: "New project" }).first().click();
  await page.getByLabel("Id").fill("shop");
  await page.getByLabel("Model").fill("test/scripted");
  await page.getByRole("button", { name: "Create project" }).click();
  await page.waitForURL("**/projects/shop/jobs*");
  await page.getByText("Created.").waitFor();
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
});

step("git pushes to the address that the settings tell, with the key as the password", async () => {
  await page.getByRole("link", { name: "Settings" }).click();
  const told = (await page.locator("#clone").textContent()).replace("git clone ", "");
  assert.equal(told, `${stage.service.url}/git/shop.git`);
  copy = new Copy(told.replace("//", `//x:${secret}@`));
  copy.write({ "README.md": "# Shop\n", "src/lib.rs": "fn main() {\n    println!(\"hello\");\n}\n" });
  await copy.commit("Begin");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  assert.match(await copy.git("ls-remote", copy.remote), /refs\/heads\/main/);
});

step("a job is sent from the form with Ctrl+Enter", async () => {
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await page.getByRole("link", { name: "New job" }).first().click();
  const prompt = page.getByLabel("Task");
  await prompt.fill([
    "Add a greeting",
    "[[say Let me look at **the code** first.]]",
    "[[run echo begun; sleep 1.5; echo ended]]",
    "[[write src/greet.rs|fn greet(name: &str) -> String {\\n    format!(\"Hello, {name}!\")\\n}]]",
    "[[say I added `greet`:\n\n```rust\nfn greet() {}\n```\n\n- one\n- two]]",
    "[[sleep 120]]",
  ].join("\n"));
  await prompt.press("Control+Enter");
  await page.waitForURL(/\/jobs\/job_\w+$/);
  job = page.url().match(/job_\w+/)[0];
  await page.getByRole("heading", { level: 1, name: "Add a greeting" }).waitFor();
});

step("the conversation grows while the agent works, without a reload", async () => {
  await mark();
  await badge("running");
  await said("Let me look at the code first.").waitFor();
  await thread().locator("strong", { hasText: "the code" }).waitFor();
  assert.equal(await page.locator("#job-head .badge").textContent(), "running");
  await shot(page, "newcomer-running");
});

step("what was unfolded stays so, and what is typed is kept, while updates come", async () => {
  const tool = thread().locator("details.tool", { hasText: "echo begun" });
  await tool.locator("summary").click();
  const composer = page.getByLabel("Message to the agent");
  await composer.pressSequentially("What I am wri");
  // The command ends, so its element is sent anew; then more follows.
  await tool.getByText("ended", { exact: false }).last().waitFor();
  await tool.locator("summary .mark.completed").waitFor();
  assert.ok(await tool.evaluate((element) => element.open), "the tool was folded by an update");
  await composer.pressSequentially("ting");
  await thread().locator("pre code", { hasText: "fn greet() {}" }).waitFor();
  await page.locator("#job-head .badge.running").waitFor();
  assert.ok(await tool.evaluate((element) => element.open), "the tool was folded by what came after it");
  assert.equal(await composer.inputValue(), "What I am writing");
  assert.ok(await composer.evaluate((element) => element === document.activeElement), "the composer lost the focus");
  assert.ok(await marked(), "the page was loaded anew");
});

step("a follow-up that is sent meanwhile waits in the queue", async () => {
  await send("Later, do [[write later.txt|x]]");
  const queue = page.getByRole("list", { name: "Queued messages" });
  await queue.getByRole("listitem").filter({ hasText: "Later, do" }).waitFor();
  await page.locator("#job-head .badge.running").waitFor();
  await shot(page, "newcomer-queue");
});

test("what was sent is no longer in the composer", async (context) => {
  if (!job) return context.skip("there is no job");
  const composer = page.getByLabel("Message to the agent");
  await until("the composer is empty", async () => await composer.inputValue() === "", 2000);
});

step("a queued follow-up can be withdrawn, and what is typed meanwhile is not lost", async () => {
  const queue = page.locator("#job-queue");
  const composer = page.getByLabel("Message to the agent");
  await composer.fill("Half a thou");
  await queue.getByRole("button", { name: /^Withdraw/ }).click();
  await queue.waitFor({ state: "hidden" });
  assert.equal(await queue.getByRole("listitem").count(), 0);
  assert.equal(await composer.inputValue(), "Half a thou");
  await page.locator("#job-head .badge.running").waitFor();
});

step("a message that interrupts stops the agent and goes first", async () => {
  await send("Instead [[append src/greet.rs|// greeted]] [[say I have changed my plan.]]", "Interrupt");
  await said("I have changed my plan.").waitFor({ timeout: 30_000 });
});

step("the job completes in sight, with its branch, its commit and its pull request", async () => {
  await mark();
  await badge("completed");
  assert.match(await page.locator("#job-head code.branch").textContent(), /^journeyman\/add-a-greeting/);
  await page.locator("#job-head").getByRole("link", { name: "#1" }).waitFor();
  await page.locator(".receipt.finished code").first().waitFor();
  assert.ok(await marked(), "the page was loaded anew");
  await shot(page, "newcomer-completed");
});

step("a page that is loaded anew shows the conversation that was followed", async () => {
  const told = () => page.evaluate(() => [...document.querySelectorAll("#thread > li")].map((item) => {
    const copy = item.cloneNode(true);
    for (const time of copy.querySelectorAll("time")) time.textContent = "";
    return `${item.id}: ${copy.textContent.replace(/\s+/g, " ").trim()}`;
  }));
  const followed = await told();
  await page.reload();
  assert.deepEqual(await told(), followed);
});

step("the changes are shown unified and side by side", async () => {
  await page.getByRole("link", { name: "Changes" }).click();
  const file = page.locator("details.file", { hasText: "src/greet.rs" });
  await file.locator("table.lines").waitFor();
  assert.match(await file.textContent(), /format!\("Hello, \{name\}!"\)/);
  await page.getByRole("link", { name: "Side by side" }).click();
  await file.locator("table.lines.split").waitFor();
  await page.getByRole("link", { name: "Side by side" }).and(page.locator("[aria-current]")).waitFor();
  await page.getByRole("link", { name: "Unified" }).click();
  await file.locator("table.lines:not(.split)").waitFor();
});

step("the runs, events and record of a job have their tabs", async () => {
  await page.getByRole("link", { name: "Runs" }).click();
  await page.getByRole("rowheader", { name: /Instead/ }).waitFor();
  assert.ok(await page.locator("tbody tr").count() >= 2, "the run that was interrupted, and the one after it");
  await page.getByRole("link", { name: "Events" }).click();
  await page.locator(".events summary", { hasText: "pull_request." }).first().waitFor();
  await page.getByRole("link", { name: "Record" }).click();
  const record = JSON.parse(await page.locator("#record").textContent());
  assert.equal(record.id, job);
  assert.equal(record.status, "completed");
});

step("a comment that calls the agent goes to the job, and its commit comes to the pull request", async () => {
  await page.locator("#job-head").getByRole("link", { name: "#1" }).click();
  await page.getByRole("heading", { name: /Add a greeting #1/ }).waitFor();
  const commits = page.locator(".commits > li");
  const before = await commits.count();
  await page.getByLabel("Comment", { exact: true }).fill("@journeyman please [[write docs/greet.md|# Greetings]]");
  await page.getByRole("button", { name: "Comment" }).click();
  await page.getByText("Sent to the job.").waitFor();
  await page.locator("article", { hasText: "please" }).getByText("sent to the job", { exact: true }).waitFor();
  await until("the commit is on the pull request", async () => {
    await page.reload();
    return await commits.count() > before;
  }, 30_000);
  await page.locator("details.file", { hasText: "docs/greet.md" }).waitFor();
  await stage.open(page, `/projects/shop/jobs/${job}`);
  const message = thread().locator("article", { hasText: "please" });
  await message.getByText("pull request", { exact: true }).waitFor();
  await badge("completed");
});

step("the pull request is merged", async () => {
  await stage.open(page, "/projects/shop/pulls");
  await page.getByRole("link", { name: "Add a greeting" }).click();
  await page.getByRole("button", { name: "Merge pull request" }).click();
  await page.getByText("Merged.", { exact: true }).waitFor();
  await page.locator(".badge.merged").waitFor();
  assert.equal(await page.getByRole("button", { name: "Merge pull request" }).count(), 0);
  await copy.git("fetch", "-q", copy.remote, "main");
  assert.match(await copy.git("ls-tree", "-r", "--name-only", "FETCH_HEAD"), /docs\/greet\.md/);
});

withKey("the list of jobs keeps itself up to date", async () => {
  await stage.open(page, "/projects/shop/jobs");
  await mark();
  const sent = await stage.service.job(secret, "shop", "Sent by a program [[say yes]]");
  const row = page.locator("#jobs > li", { has: page.getByRole("link", { name: "Sent by a program" }) });
  await row.waitFor();
  await row.locator(".badge.completed").waitFor({ timeout: 30_000 });
  assert.ok(await marked(), "the page was loaded anew");
  assert.match(sent.id, /^job_/);
});

withKey("search and filter of jobs are in the address, and work together", async () => {
  await page.getByRole("searchbox").fill("program");
  await page.getByRole("searchbox").press("Enter");
  await page.waitForURL("**/jobs?q=program");
  await page.getByRole("link", { name: "Add a greeting" }).waitFor({ state: "hidden" });
  assert.equal(await page.locator("#jobs > li").count(), 1);
  await page.getByRole("link", { name: "Failed", exact: true }).click();
  await page.waitForURL(/status=failed&q=program/);
  await page.getByRole("heading", { name: "No matching jobs" }).waitFor();
  await page.getByRole("link", { name: "Completed", exact: true }).click();
  await page.waitForURL(/status=completed&q=program/);
  await page.getByRole("link", { name: "Sent by a program" }).waitFor();
  assert.equal(await page.getByRole("searchbox").inputValue(), "program");
});

withKey("a job is cancelled, once that was confirmed", async () => {
  const sent = await stage.service.job(secret, "shop", "Goes on for long [[sleep 120]]");
  await stage.open(page, `/projects/shop/jobs/${sent.id}`);
  await badge("running");
  const confirm = page.getByRole("button", { name: "Cancel the job" });
  assert.ok(!await confirm.isVisible(), "one click would cancel it");
  await page.locator("#cancel > summary").click();
  await confirm.click();
  await badge("cancelled");
  assert.equal((await stage.service.api(secret, "GET", `/agent/shop/job/${sent.id}`)).status, "failed");
});

withKey("a job is archived, takes no messages, and is taken out again", async () => {
  await page.locator("#archive > summary").click();
  await page.getByRole("button", { name: "Archive the job" }).click();
  await badge("archived");
  await page.getByText("This job is archived.").waitFor();
  assert.equal(await page.getByLabel("Message to the agent").count(), 0);
  await page.getByRole("button", { name: "Unarchive" }).click();
  await page.getByLabel("Message to the agent").waitFor();
  assert.equal(await page.locator("#job-head .badge.archived").count(), 0);
});

withKey("what happens between a page and its stream is told", async () => {
  const context = await stage.context({ cookie: await stage.service.person("hurried", "member") });
  const held = [];
  let holds = true;
  await context.route(/\/live\?/, (route) => holds ? held.push(route) : route.continue());
  const other = await context.newPage();
  const sent = await stage.service.job(secret, "shop", "Happens meanwhile [[sleep 1.5]] [[say It has happened.]]");
  await until("the job runs", async () => {
    await stage.open(other, `/projects/shop/jobs/${sent.id}`);
    return await other.locator("#thread .receipt.delivered").count();
  });
  await until("the page asks for its stream", () => held.length > 0);
  await stage.service.rests(secret, "shop", sent.id);
  holds = false;
  for (const route of held) await route.continue().catch(() => {});
  await said("It has happened.", other).waitFor();
  await other.locator("#job-head .badge.completed").waitFor();
  await other.locator("#thread .receipt.finished").waitFor();
  await context.close();
});

withKey("a page that nobody looks at lets go of its stream, and catches up when somebody does", async () => {
  const other = await stage.page({ cookie: await stage.service.person("absent", "member") });
  await other.clock.install();
  await stage.open(other, "/projects/shop/jobs");
  await other.locator("turbo-stream-source").waitFor({ state: "attached" });
  const look = (looks) => other.evaluate((is) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => !is });
    document.dispatchEvent(new Event("visibilitychange"));
  }, looks);
  await look(false);
  await other.clock.fastForward(60_000);
  await other.locator("turbo-stream-source").waitFor({ state: "detached" });
  await stage.service.job(secret, "shop", "Sent while nobody looked [[say yes]]");
  await look(true);
  await other.getByRole("link", { name: "Sent while nobody looked" }).waitFor();
  await other.locator("turbo-stream-source").waitFor({ state: "attached" });
  await other.context().close();
});

withKey("a page that is open goes on when the server was restarted", async () => {
  const other = await stage.page({ cookie: await stage.service.person("patient", "member") });
  const sent = await stage.service.job(secret, "shop", "Before the restart [[say One.]]");
  await stage.service.rests(secret, "shop", sent.id);
  await stage.open(other, `/projects/shop/jobs/${sent.id}`);
  await other.locator("#job-head .badge.completed").waitFor();
  await other.evaluate(() => { window.__mark = true; });
  // Chromium asks for the icon some time after the page has loaded, and a server that stops answers 503.
  stage.excuse(/ERR_|^console error|^503 GET \/assets\/icon\.svg/);
  await stage.service.restart();
  await stage.service.api(secret, "POST", `/agent/shop/job/${sent.id}/message`, { prompt: "After it [[say Two.]]" });
  await said("Two.", other).waitFor({ timeout: 30_000 });
  await other.locator("#job-head .badge.completed").waitFor({ timeout: 30_000 });
  assert.ok(await other.evaluate(() => window.__mark), "the page was loaded anew");
  await other.context().close();
});
