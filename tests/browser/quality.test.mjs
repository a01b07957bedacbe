// Tests of all pages: accessibility, narrow windows, the keyboard, pages without scripts, and layout shifts.

import assert from "node:assert/strict";
import { PASSWORD, Suite, assertNone, axe, overflow, script, screenshot, waitUntil } from "./lib.mjs";

const suite = await Suite.start({ agentName: "fake" });
const test = suite.test.bind(suite);
const { service } = suite;

const say = (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
const think = (text) => ({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text } });
const call = (id, title, more = {}) => ({ sessionUpdate: "tool_call", toolCallId: id, title, kind: "execute", status: "completed", ...more });
const output = (text) => [{ type: "content", content: { type: "text", text } }];

// ---- Accessibility and width. The empty pages come first, before there are projects.

const admin = await service.createAdministrator("ada");
const key = service.key("CI of the shop");
const cases = [];
/** Adds a page to check; `do` brings it into the intended state. */
const addPage = (name, where, more = {}) => cases.push({ name, where, cookie: admin, ...more });

const TURNS = 2500;
const STREAM = [
  call("t{n}", "Look at file {n}", { status: "in_progress", rawInput: { command: "cat {n}" } }),
  { sessionUpdate: "tool_call_update", toolCallId: "t{n}", status: "completed", content: output("line {n}\n") },
  say("Said {n}.\n\n"),
  think("Thought {n}."),
];

const RUST = `//! Greets people.\n\n/// Says hello to somebody.\nfn greet(name: &str) -> String {\n    format!("Hello, {name}! This is a line that is rather long, so that it has to be scrolled to on a small window.")\n}\n\n#[test]\nfn greets() {\n    assert_eq!(greet("Ada"), "Hello, Ada!");\n}\n`;
const LONG = "A title of a job that goes on for much longer than there is room for on any telephone, with a_very_long_identifier_that_has_no_place_to_break_whatsoever_at_all";
const MARKDOWN = `I looked at \`greet\` first. It is **fine**, but see <https://example.com/a/very/long/address/that/does/not/end/soon/and/has/no/spaces>.

## What I did

1. Added a test
2. Changed \`a_very_long_identifier_that_has_no_place_to_break_whatsoever_at_all_in_it\`
   - with *care*

| Before | After | And a column that is wide |
|---|---|---|
| \`1\` | \`2\` | some more text in the table's last cell |

\`\`\`rust
fn greet(name: &str) -> String { format!("Hello, {name}! And a line of code that is wider than a phone.") }
\`\`\`

- [x] done
- [ ] not yet

> A quotation.`;

/** Creates the projects and jobs that the pages show. */
async function createJobs() {
  await service.api(key, "POST", "/projects", { id: "fresh", repository: "local:fresh" });
  await service.api(key, "POST", "/projects", { id: "elsewhere", repository: "https://git.example/acme/shop" });
  const files = { "README.md": "# Shop\n\nIt sells.\n", "src/lib.rs": RUST.replace("Hello, Ada", "Hello"), "conflict.txt": "one\n" };
  const copy = await service.project(key, "shop", { files, model: "test/scripted" });
  const created = {};
  created.large = await service.job(key, "shop", script("Ten thousand events", [{ repeat: TURNS, of: STREAM }]), { agent: "fake" });
  const steps = [
    think("The user wants a greeting.\n\nLet me look at what there is."),
    { sessionUpdate: "plan", entries: [{ content: "Look at the code", priority: "high", status: "completed" }, { content: "Write a greeting, and a step of the plan that is rather long for one line on a phone", priority: "medium", status: "in_progress" }, { content: "Run the tests", priority: "low", status: "pending" }] },
    call("1", "cargo test --workspace --all-features -- --nocapture a_very_long_name_of_a_test_that_does_not_end", { rawInput: { command: "cargo test" }, content: output(`${"running 12 tests ".repeat(12)}\ntest greets ... ok\n`) }),
    call("2", "Read src/lib.rs", { kind: "read" }),
    call("3", "Edit src/lib.rs", { kind: "edit", content: [{ type: "diff", path: "src/lib.rs", oldText: "fn a() {}\nfn b() {}\n", newText: "fn a() {}\nfn c() {}\n" }] }),
    call("4", "grep -r nothing", { kind: "search", status: "failed", content: output("grep: nothing: No such file") }),
    { ask: "Delete src/old.rs" },
    say(MARKDOWN),
    { write: "src/lib.rs", content: RUST }, { write: "README.md", content: "# The shop\n\nIt sells.\n" },
    { write: "src/a_folder_with_a_long_name/and_one_more_below/a_very_long_name_of_a_file_that_has_no_end.rs", content: RUST },
  ];
  created.done = await service.job(key, "shop", script("Add a greeting\n\nwith tests, please.", steps), { agent: "fake" });
  created.long = await service.job(key, "shop", `${LONG} [[write long.txt|x]]`, { title: LONG });
  created.failed = await service.job(key, "shop", "Fails [[fail The model's provider could not be reached: connection refused (os error 111)]]");
  created.archived = await service.job(key, "shop", "Put away [[say yes]]");
  created.conflict = await service.job(key, "shop", "Change what others change [[write conflict.txt|ours]]");
  for (const job of Object.values(created)) await service.waitForJob(key, "shop", job.id, 60_000);
  await service.api(key, "POST", `/agent/shop/job/${created.archived.id}/archive`);
  copy.write({ "conflict.txt": "theirs\n" });
  await copy.commit("Change it");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  created.running = await service.job(key, "shop", script("Works on", [think("Hm."), call("1", "ls", { status: "in_progress", rawInput: { command: "ls" } }), say("I am at it, and"), { wait: "/nowhere" }]), { agent: "fake" });
  await service.api(key, "POST", `/agent/shop/job/${created.running.id}/message`, { prompt: "And then this, a message that waits for its turn and is longer than there is room for" });
  return created;
}

let hook;
/** Creates a webhook whose endpoint the server may not reach, and waits until a delivery to it has failed. */
async function createWebhook() {
  const url = "http://127.0.0.1:9/a/very/long/path/of/an/endpoint/that/has/no/place/to/break/whatsoever/at/all?token=x";
  hook = await service.api(key, "POST", "/projects/shop/webhooks", { url, description: "Tells the shop's own service what happens" });
  await service.api(key, "POST", `/projects/shop/webhooks/${hook.id}/replay`, { since: "2020-01-01T00:00:00Z" });
  await waitUntil("a failed delivery", async () => (await service.api(key, "GET", `/projects/shop/webhooks/${hook.id}`)).failingSince);
}

/** Returns the path of the pull request of a job. */
const pullPath = async (job) => new URL((await service.api(key, "GET", `/agent/shop/job/${job.id}`)).prLink).pathname;

const overflows = {};
const hiddenTabs = {};
const browsers = new Map();
/** Returns the page of a session; it is reused, because a new page takes as long as a check. */
async function pageFor(cookie) {
  if (!browsers.has(cookie)) browsers.set(cookie, await suite.page({ cookie }));
  const page = browsers.get(cookie);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  return page;
}

/** Checks a page in both themes and both widths: its accessibility, and what is wider than the window. */
async function checkPage({ name, where, cookie, do: act, expects = [] }) {
  const page = await pageFor(cookie);
  suite.expect(...expects);
  await suite.open(page, where);
  await act?.(page);
  const violations = [];
  const wide = [];
  for (const [width, height] of [[1280, 900], [360, 740]]) {
    await page.setViewportSize({ width, height });
    // Wait until the page has been drawn in its new size.
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    const excess = await overflow(page);
    if (excess) wide.push(`${name}: ${excess}`);
    hiddenTabs[name] = await page.evaluate(() => [...document.querySelectorAll("nav:not([aria-label=Breadcrumb]) [aria-current]")]
      .filter((element) => element.checkVisibility())
      .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 || element.getBoundingClientRect().left < -1)
      .map((element) => `${location.pathname}: ${element.textContent.trim()}`));
    // Scroll to the end, because elsewhere elements with a fixed position cover others.
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      // The themes differ only in their colors.
      const found = await axe(page, theme === "dark" ? ["color-contrast"] : undefined);
      violations.push(...found.map((one) => `${theme}, ${width} px: ${one}`));
      await page.evaluate(() => scrollTo(0, 0));
      await screenshot(page, `${name}-${theme}-${width}`);
    }
  }
  overflows[name] = wide;
  assertNone(violations, "accessibility violations");
}

const open = (selector) => (page) => page.evaluate((which) => { for (const details of document.querySelectorAll(which)) details.open = true; }, selector);

addPage("sign-in", "/login", { cookie: undefined });
addPage("sign-in-refused", "/login", {
  cookie: undefined,
  expects: [/^422 POST \/login/],
  do: async (page) => {
    await page.getByLabel("Name").fill("nobody");
    await page.getByLabel("Password").fill("wrong wrong wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
  },
});
const invitation = new URL(service.addUser("grace@example.com", "member"));
addPage("setup", invitation.pathname + invitation.search, { cookie: undefined });
addPage("link-gone", "/setup?link=x", { cookie: undefined, expects: [/^410 GET/] });
await service.createUser("a.very.long.name.of.somebody@mail.department.example.com", "viewer");

for (const [name, where] of [["home-none", "/"], ["projects-none", "/projects"], ["project-new", "/projects/new"]]) addPage(name, where);
for (const one of cases.splice(0)) test(`the page is accessible: ${one.name}`, () => checkPage(one));

let jobs;
test("jobs of all kinds and a webhook are created", async () => {
  jobs = await createJobs();
  await createWebhook();
});

const at = (job, tab = "") => `/projects/shop/jobs/${jobs[job].id}${tab}`;
addPage("projects", "/projects");
addPage("project-new-remote", "/projects/new", { do: (page) => page.getByText("Remote").click() });
addPage("home", "/?whose=everybody");
addPage("jobs-all", "/jobs");
addPage("jobs", "/projects/shop/jobs");
addPage("jobs-filter", "/projects/shop/jobs?author=CI%20of%20the%20shop", { do: open("#filter-author") });
addPage("jobs-none", "/projects/fresh/jobs");
addPage("jobs-not-found", "/projects/shop/jobs?q=nothing&status=failed");
addPage("job-new", "/projects/shop/jobs/new", { do: open("main details") });
addPage("templates-none", "/projects/fresh/settings/templates");
addPage("template-new", "/projects/shop/settings/templates/new");
addPage("templates", async () => {
  const values = { name: LONG.slice(0, 80).trim(), description: LONG, prompt: "Fix this:", labels: ["a label that is long", "ui"], model: "test/scripted" };
  await service.api(key, "POST", "/projects/elsewhere/templates", values);
  return "/projects/elsewhere/settings/templates";
});
addPage("templates-member", "/projects/elsewhere/settings/templates", { as: "viewer" });
addPage("job-running", () => at("running"));
addPage("job-done", () => at("done"));
addPage("job-done-unfolded", () => at("done"), { do: open("#thread details") });
addPage("job-side-open", () => at("done"), { do: open("#job-brief") });
addPage("job-long", () => at("long"));
addPage("job-failed", () => at("failed"), { do: open("#more") });
addPage("job-archived", () => at("archived"));
addPage("job-changes", () => at("done", "/changes"));
addPage("job-changes-split", () => at("done", "/changes?view=split"));
addPage("job-changes-none", () => at("failed", "/changes"));
addPage("job-runs", () => at("done", "/runs"));
addPage("job-events", () => at("done", "/events"), { do: open(".events .rows > li:nth-child(-n + 8) > details") });
addPage("job-record", () => at("done", "/record"));
addPage("job-viewer", () => at("running"), { as: "viewer" });
addPage("pulls", "/projects/shop/pulls");
addPage("pulls-none", "/projects/fresh/pulls");
addPage("pull", () => pullPath(jobs.done), {
  do: async (page) => {
    await page.getByLabel("Comment", { exact: true }).fill(MARKDOWN);
    await page.getByRole("checkbox", { name: "Send it to the agent" }).uncheck();
    await page.getByRole("button", { name: "Comment" }).click();
    await page.getByText("The comment is added.").waitFor();
    await open("details.confirm, details.asked")(page);
  },
});
addPage("pull-commits", () => pullPath(jobs.done).then((where) => `${where}/commits`));
addPage("pull-files", () => pullPath(jobs.done).then((where) => `${where}/files`));
addPage("pull-review", () => pullPath(jobs.done).then((where) => `${where}/files?at=1-n1`), {
  do: async (page) => {
    await page.getByRole("textbox", { name: "Comment on line 1" }).fill("Rename `it`, **please**.");
    await page.getByRole("button", { name: "Add to review" }).click();
    await page.locator(".itembar").getByRole("button", { name: "Send 1" }).waitFor();
    await page.getByRole("link", { name: "Comment on line 1", exact: true }).first().click();
    await page.getByRole("button", { name: "For people" }).waitFor();
  },
});
addPage("pull-conflict", () => pullPath(jobs.conflict));
addPage("inbox", "/projects/shop/inbox");
addPage("inbox-none", "/projects/fresh/inbox?state=failed");
addPage("inbox-all", "/system/inbox");
for (const section of ["repository", "agent", "environment", "sandbox", "pull-requests", "comments", "limits", "use"]) {
  addPage(`settings-${section}`, `/projects/shop/settings/${section}`);
}
for (const section of ["repository", "pull-requests", "comments"]) {
  addPage(`settings-remote-${section}`, `/projects/elsewhere/settings/${section}`);
}
addPage("pulls-remote-none", "/projects/elsewhere/pulls");
addPage("webhooks-none", "/projects/fresh/webhooks");
addPage("webhook-new", "/projects/shop/webhooks/new");
addPage("webhook-created", "/projects/fresh/webhooks/new", {
  do: async (page) => {
    await page.getByRole("textbox", { name: "URL" }).fill("https://hooks.example.com/journeyman");
    await page.getByRole("button", { name: "Create webhook" }).click();
    await page.locator("#whsec").waitFor();
  },
});
addPage("webhooks", "/projects/shop/webhooks");
addPage("webhook", () => `/projects/shop/webhooks/${hook.id}`, { do: (page) => page.getByText("not a public address").first().waitFor() });
addPage("webhook-tested", () => `/projects/shop/webhooks/${hook.id}`, {
  do: async (page) => {
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByText("The test failed.").waitFor();
    await open("details.confirm:last-of-type")(page);
  },
});
addPage("settings-viewer", "/projects/shop/settings/agent", { as: "viewer" });
addPage("keys", "/keys", { do: open("tbody tr:first-child details:last-child") });
addPage("keys-rotate", "/keys", { do: open("tbody tr:first-child details:first-child") });
addPage("key-new", "/keys/new");
addPage("key-created", "/keys/new", {
  do: async (page) => {
    await page.getByLabel("Name").fill("A key with a name that is rather long for a telephone");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.locator("#key").waitFor();
  },
});
addPage("system", "/system");
addPage("usage", "/usage", { do: open("#days") });
addPage("usage-none", "/usage?from=2020-01-01&to=2020-01-31");
addPage("trusts-none", "/system/trusts");
addPage("trust-new", "/system/trusts/new?preset=gitlab");
addPage("trust-edit", async () => {
  const rules = { name: "ci", issuer: "https://ci.example.com", claims: { project: "shop" }, projects: ["shop"] };
  return `/system/trusts/${(await service.api(key, "POST", "/oidc/trusts", rules)).id}/edit`;
});
addPage("slack-none", "/system/slack");
addPage("slack-new-socket", "/system/slack/new?mode=socket");
addPage("slack-new-events", "/system/slack/new?mode=events");
addPage("users", "/users", { do: open("tbody tr:nth-child(2) details") });
addPage("users-link", "/users", {
  do: async (page) => {
    await page.getByLabel("Name", { exact: true }).fill(`linus${Date.now()}`);
    await page.getByRole("button", { name: "Add user" }).click();
    await page.locator("#link").waitFor();
  },
});
addPage("audit", "/audit");
addPage("audit-none", "/audit?who=nobody&what=job.");
addPage("account", "/account");
// On a page without controls that the open menu would cover in part.
addPage("account-menu", "/keyboard", { do: open("details.account") });
addPage("search", "/search?q=greeting");
addPage("keyboard", "/keyboard");
addPage("secret-gone", "/secrets/none", { expects: [/^410 GET/] });
addPage("not-a-page", "/nowhere", { expects: [/^404 GET/] });
addPage("not-found", "/projects/none/jobs", { expects: [/^404 GET/] });

let viewer;
for (const one of cases) {
  test(`the page is accessible: ${one.name}`, async () => {
    const where = typeof one.where === "function" ? await one.where() : one.where;
    if (one.as) viewer ??= await service.createUser("viewer", "viewer");
    await checkPage({ ...one, where, cookie: one.as ? viewer : one.cookie });
  });
}

test("no page is wider than its window, 360 px wide or 1280", () => {
  assert.ok(Object.keys(overflows).length > 40, `only ${Object.keys(overflows).length} pages were checked`);
  assertNone(Object.values(overflows).flat(), "pages wider than their window");
});

test("on a phone, the current tab is visible", () => {
  assertNone(Object.values(hiddenTabs).flat(), "current tabs outside the window");
});

test("on a phone, a long title leaves the menu of the account on the first line", async () => {
  const page = await pageFor(admin);
  await page.setViewportSize({ width: 390, height: 844 });
  await suite.open(page, at("long"));
  const [brand, menu] = await Promise.all([".topbar > .brand", ".topbar > .account"].map((part) => page.locator(part).boundingBox()));
  assert.ok(menu.y < brand.y + brand.height, `the menu begins at ${menu.y} px, below the brand`);
  assert.ok(menu.x + menu.width <= 390, `the menu ends at ${menu.x + menu.width} px`);
});

test("a diff in a tool call is shown line by line", async () => {
  const page = await pageFor(admin);
  await suite.open(page, at("done"));
  const patch = page.locator("pre.patch").first();
  await page.locator(".steps-link").first().click();
  await page.locator("details.tool", { has: patch }).locator("summary").click();
  const lines = await patch.locator("span").evaluateAll((all) => all.map((span) => ({ text: span.textContent.trim(), top: span.getBoundingClientRect().top })));
  assert.ok(lines.length >= 4, JSON.stringify(lines));
  assertNone(lines.slice(1).filter((line, place) => line.top <= lines[place].top).map((line) => line.text), "lines that are not below the line before");
});

test("text in a box is at least 8 px from the edge", async () => {
  const page = await pageFor(admin);
  await suite.open(page, await pullPath(jobs.done));
  const gap = await page.locator("article.entry .prose > p").first().evaluate((text) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    return range.getBoundingClientRect().left - text.closest(".panel").getBoundingClientRect().left;
  });
  assert.ok(gap >= 8, `the text of a comment is ${gap} px from the edge of its box`);
});

// ---- The keyboard.

/** Returns the focused element: its name, and whether it is visible; `null` if nothing is focused. */
const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const box = element.getBoundingClientRect();
  const middle = [(Math.max(0, box.left) + Math.min(innerWidth, box.right)) / 2, (Math.max(0, box.top) + Math.min(innerHeight, box.bottom)) / 2];
  const top = document.elementFromPoint(...middle);
  const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
  return {
    name: `${element.tagName.toLowerCase()} ${label.trim().replace(/\s+/g, " ").slice(0, 60)}`,
    // The visible part of a radio button may be its label.
    isVisible: Boolean(top && (element.contains(top) || top.contains(element) || [...(element.labels ?? [])].some((of) => of.contains(top)))),
  };
});

/** Presses Tab until an element whose name matches `wanted` has the focus; returns all elements on the way. */
async function tabTo(page, wanted, most = 60) {
  const passed = [];
  for (let count = 0; count < most; count += 1) {
    await page.keyboard.press("Tab");
    const now = await focused(page);
    if (!now) break;
    passed.push(now);
    if (wanted && wanted.test(now.name)) return passed;
  }
  if (wanted) assert.fail(`the Tab key does not reach ${wanted}, only:\n${passed.map((one) => one.name).join("\n")}`);
  return passed;
}

test("the first element that Tab reaches skips the navigation", async () => {
  const page = await pageFor(admin);
  await suite.open(page, "/projects/shop/jobs");
  await page.keyboard.press("Tab");
  const skip = page.getByRole("link", { name: "Skip to content" });
  assert.ok(await skip.evaluate((element) => element === document.activeElement));
  assert.ok((await skip.boundingBox()).y >= 0, "the link is not visible when it has the focus");
  await page.keyboard.press("Enter");
  await waitUntil("the content has the focus", () => page.evaluate(() => document.activeElement?.id === "main"));
  const next = await tabTo(page, /^a New job/, 1);
  assert.equal(next.length, 1);
});

for (const [what, where, wanted] of [
  ["a new project", "/projects", /^a New project/], ["a new job", "/projects/shop/jobs", /^a New job/], ["a new key", "/keys", /^a New key/],
  ["the composer of a job", () => at("done"), /^textarea Message to the agent/], ["sending it", () => at("done"), /^button Send/],
  ["merging", () => pullPath(jobs.done), /^button Merge/], ["saving settings", "/projects/shop/settings/limits", /^button Save/],
]) {
  test(`the Tab key reaches ${what}, and every element on the way is visible`, async () => {
    const page = await pageFor(admin);
    await suite.open(page, typeof where === "function" ? await where() : where);
    // Start at the top of the page, even if it focuses an element.
    await page.evaluate(() => { document.activeElement?.blur(); });
    const passed = await tabTo(page, wanted);
    assertNone(passed.filter((one) => !one.isVisible).map((one) => one.name), "focused elements that are not visible");
  });
}

test("Escape closes a menu or a confirmation, and returns the focus to the element that opened it", async () => {
  const page = await pageFor(admin);
  await suite.open(page, at("running"));
  for (const which of ["details.account", "#cancel", "#more"]) {
    const summary = page.locator(`${which} > summary`);
    await summary.focus();
    await page.keyboard.press("Enter");
    assert.ok(await page.locator(which).evaluate((element) => element.open), `${which} does not open`);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Escape");
    assert.ok(!await page.locator(which).evaluate((element) => element.open), `${which} stays open`);
    assert.ok(await summary.evaluate((element) => element === document.activeElement), `${which}: lost focus`);
  }
});

// ---- Without scripts.

test("without scripts, a user signs in, creates a job, follows up, and merges", async () => {
  const context = await suite.context({ javaScriptEnabled: false });
  const page = await context.newPage();
  await service.createUser("plain", "member");
  await suite.open(page, "/projects/shop/jobs/new");
  await page.getByLabel("Name").fill("plain");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Task").fill("Without scripts [[say I am done with it.]] [[write plain.txt|x]]");
  await page.getByRole("button", { name: "Send job" }).click();
  const completed = (text) => waitUntil(`the job is completed, and its page has: ${text}`, async () => {
    await page.reload();
    return await page.locator("#job-head .badge.completed").count() && await page.locator("#thread .said", { hasText: text }).count();
  }, 30_000);
  await page.getByRole("heading", { name: "Without scripts" }).waitFor();
  await completed("I am done with it.");
  await page.getByLabel("Message to the agent").fill("Again [[say This is the second answer.]] [[append plain.txt|y]]");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator("#thread, #job-queue").getByText("Again").first().waitFor();
  await completed("This is the second answer.");
  await screenshot(page, "without-scripts");
  await page.locator("#job-head").getByRole("link", { name: /^#\d+/ }).click();
  await page.getByRole("button", { name: "Merge", exact: true }).click();
  await page.getByText("Merged.", { exact: true }).waitFor();
  await page.locator("details.account > summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL("**/login");
  await context.close();
});

// ---- Layout shifts and long conversations.

for (const [what, where] of [["the list of jobs", "/projects/shop/jobs"], ["a completed job", () => at("done")], ["a running job", () => at("running")], ["a long conversation", () => at("large")]]) {
  test(`the layout does not shift while the page loads: ${what}`, async () => {
    for (const viewport of [{ width: 1280, height: 900 }, { width: 360, height: 740 }]) {
      const page = await suite.page({ cookie: admin, viewport });
      await page.addInitScript(() => {
        window.__shifts = [];
        new PerformanceObserver((list) => {
          for (const shift of list.getEntries()) {
            const moved = shift.sources.map((source) => source.node?.nodeName === "#text" ? source.node.parentNode?.outerHTML : source.node?.outerHTML);
            if (!shift.hadRecentInput) window.__shifts.push({ value: shift.value, moved: moved.map((html) => html?.slice(0, 100)) });
          }
        }).observe({ type: "layout-shift", buffered: true });
      });
      await suite.open(page, typeof where === "function" ? where() : where);
      await page.waitForFunction(() => window.Turbo && document.querySelector("time[title]"));
      // Wait for two frames, until the layout is final.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));
      const shifts = await page.evaluate(() => window.__shifts);
      const sum = shifts.reduce((sum, shift) => sum + shift.value, 0);
      assert.ok(sum < 0.1, `${sum.toFixed(3)} at ${viewport.width}: ${JSON.stringify(shifts)}`);
      await page.context().close();
    }
  });
}

test("a job with ten thousand events opens, and the test reports its times", async (context) => {
  const last = Number((await (await service.get(at("large", "/events"), { cookie: admin })).text()).match(/(\d+) events/)[1]);
  assert.ok(last > 4 * TURNS, `${last} events`);
  // Only report the times: `make bench` measures them, in the group `pages`.
  for (const tab of ["", "/events"]) {
    const times = [];
    for (let count = 0; count < 5; count += 1) {
      const begin = performance.now();
      await (await service.get(at("large", tab), { cookie: admin })).text();
      times.push(performance.now() - begin);
    }
    const median = times.sort((a, b) => a - b)[2];
    context.diagnostic(`${last} events, conversation${tab}: ${median.toFixed(0)} ms`);
  }
});

test("a page shows part of a long conversation, with a link to earlier events", async () => {
  const page = await pageFor(admin);
  await suite.open(page, at("large"));
  const items = page.locator("#thread li[id^=e]");
  const count = await items.count();
  assert.ok(count > 50 && count <= 400, `${count} items`);
  assert.equal(await page.getByText("Look at file 0", { exact: true }).count(), 0);
  const first = await items.first().getAttribute("id");
  await page.getByRole("link", { name: /^Show [\d,]+ earlier events?$/ }).click();
  await page.waitForURL(/before=/);
  assert.ok(Number((await items.last().getAttribute("id")).slice(1)) < Number(first.slice(1)), "the page does not show earlier events");
  await page.getByRole("link", { name: "Show later events" }).click();
  await waitUntil("the newest part is shown again", async () => await page.getByLabel("Message to the agent").count() === 1);
});

test("the earlier parts of a long conversation have no gaps and no overlaps", async () => {
  let where = at("large");
  const seen = [];
  for (let pages = 0; where && pages < 100; pages += 1) {
    const page = await (await service.get(where, { cookie: admin })).text();
    // The result of the job, above the conversation, repeats a part of it.
    const text = page.slice(page.indexOf('class="unseen">Conversation'));
    seen.unshift(...[...text.matchAll(/<div class="prose"[^>]*>(.*?)<\/div>/gs)].flatMap((part) => [...part[1].matchAll(/Said (\d+)\./g)]).map((match) => Number(match[1])).sort((a, b) => a - b));
    where = text.match(/<p class="earlier"><a href="([^"]+)">Show [\d,]+ earlier event/)?.[1];
  }
  assert.deepEqual(seen, Array.from({ length: TURNS }, (_, number) => number));
});
