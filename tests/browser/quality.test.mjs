// What every page owes to its readers: no barriers, room on a phone, the keyboard, no need of scripts, and no waiting.

import assert from "node:assert/strict";
import { PASSWORD, Stage, axe, none, overflow, script, shot, until } from "./lib.mjs";

const stage = await Stage.open({ performer: "performer" });
const test = stage.test.bind(stage);
const { service } = stage;

const say = (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
const think = (text) => ({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text } });
const call = (id, title, more = {}) => ({ sessionUpdate: "tool_call", toolCallId: id, title, kind: "execute", status: "completed", ...more });
const output = (text) => [{ type: "content", content: { type: "text", text } }];

// ---- Something to look at. The empty pages come before there is anything.

const admin = await service.claim("ada");
const key = service.key("CI of the shop");
const looks = [];
/** A page that is looked at: `do` brings it into the state that is meant. */
const look = (name, where, more = {}) => looks.push({ name, where, cookie: admin, ...more });

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

async function furnish() {
  await service.api(key, "POST", "/projects", { id: "fresh", repository: "local:fresh" });
  const files = { "README.md": "# Shop\n\nIt sells.\n", "src/lib.rs": RUST.replace("Hello, Ada", "Hello"), "conflict.txt": "one\n" };
  const copy = await service.project(key, "shop", { files, model: "test/scripted" });
  const made = {};
  made.large = await service.job(key, "shop", script("Ten thousand events", [{ repeat: TURNS, of: STREAM }]), { agent: "performer" });
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
  made.done = await service.job(key, "shop", script("Add a greeting\n\nwith tests, please.", steps), { agent: "performer" });
  made.long = await service.job(key, "shop", `${LONG} [[write long.txt|x]]`, { title: LONG });
  made.failed = await service.job(key, "shop", "Fails [[fail The model's provider could not be reached: connection refused (os error 111)]]");
  made.archived = await service.job(key, "shop", "Put away [[say yes]]");
  made.conflict = await service.job(key, "shop", "Change what others change [[write conflict.txt|ours]]");
  for (const job of Object.values(made)) await service.rests(key, "shop", job.id, 60_000);
  await service.api(key, "POST", `/agent/shop/job/${made.archived.id}/archive`);
  copy.write({ "conflict.txt": "theirs\n" });
  await copy.commit("Change it");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  made.running = await service.job(key, "shop", script("Works on", [think("Hm."), call("1", "ls", { status: "in_progress", rawInput: { command: "ls" } }), say("I am at it, and"), { wait: "/nowhere" }]), { agent: "performer" });
  await service.api(key, "POST", `/agent/shop/job/${made.running.id}/message`, { prompt: "And then this, a message that waits for its turn and is longer than there is room for" });
  return made;
}

const numberOf = async (job) => new URL((await service.api(key, "GET", `/agent/shop/job/${job.id}`)).prLink).pathname;

const picture = {};
const hidden = {};
const browsers = new Map();
/** The page of somebody: one for all that is looked at, since a new one costs as much as a look. */
async function pageOf(cookie) {
  if (!browsers.has(cookie)) browsers.set(cookie, await stage.page({ cookie }));
  const page = browsers.get(cookie);
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  return page;
}

/** Looks at a page in both themes and both widths: what bars somebody, and what sticks out. */
async function lookAt({ name, where, cookie, do: act, expects = [] }) {
  const page = await pageOf(cookie);
  stage.expect(...expects);
  await stage.open(page, where);
  await act?.(page);
  const barriers = [];
  const wide = [];
  for (const [width, height] of [[1280, 900], [360, 740]]) {
    await page.setViewportSize({ width, height });
    // A page hears of its size before it draws.
    await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
    const sticks = await overflow(page);
    if (sticks) wide.push(`${name}: ${sticks}`);
    hidden[name] = await page.evaluate(() => [...document.querySelectorAll("nav:not([aria-label=Breadcrumb]) [aria-current]")]
      .filter((element) => element.checkVisibility())
      .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 || element.getBoundingClientRect().left < -1)
      .map((element) => `${location.pathname}: ${element.textContent.trim()}`));
    // What stays at the window's edge lies over something everywhere but at the end.
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    for (const theme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: theme });
      // But for colours both themes are the same.
      const found = await axe(page, theme === "dark" ? ["color-contrast"] : undefined);
      barriers.push(...found.map((one) => `${theme}, ${width} px: ${one}`));
      await page.evaluate(() => scrollTo(0, 0));
      await shot(page, `${name}-${theme}-${width}`);
    }
  }
  picture[name] = wide;
  none(barriers, "barriers");
}

const open = (selector) => (page) => page.evaluate((which) => { for (const details of document.querySelectorAll(which)) details.open = true; }, selector);
const press = (name) => async (page) => {
  await page.getByRole("button", { name }).first().click();
  await page.waitForLoadState();
};

look("sign-in", "/login", { cookie: undefined });
look("sign-in-refused", "/login", {
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
look("setup", invitation.pathname + invitation.search, { cookie: undefined });
look("link-gone", "/setup?link=x", { cookie: undefined, expects: [/^410 GET/] });
await service.person("a.very.long.name.of.somebody@mail.department.example.com", "viewer");

for (const [name, where] of [["projects-none", "/projects"], ["project-new", "/projects/new"]]) look(name, where);
for (const one of looks.splice(0)) test(`no barriers: ${one.name}`, () => lookAt(one));

let jobs;
test("jobs of all kinds come to be", async () => { jobs = await furnish(); });

const at = (job, tab = "") => `/projects/shop/jobs/${jobs[job].id}${tab}`;
look("projects", "/projects");
look("project-new-remote", "/projects/new", { do: (page) => page.getByText("Remote").click() });
look("jobs", "/projects/shop/jobs");
look("jobs-none", "/projects/fresh/jobs");
look("jobs-not-found", "/projects/shop/jobs?q=nothing&status=failed");
look("job-new", "/projects/shop/jobs/new", { do: open("main details") });
look("job-running", () => at("running"));
look("job-done", () => at("done"));
look("job-done-unfolded", () => at("done"), { do: open("#thread details") });
look("job-long", () => at("long"));
look("job-failed", () => at("failed"), { do: open("#archive") });
look("job-archived", () => at("archived"));
look("job-changes", () => at("done", "/changes"));
look("job-changes-split", () => at("done", "/changes?view=split"), { do: open("details.contents") });
look("job-changes-none", () => at("failed", "/changes"));
look("job-runs", () => at("done", "/runs"));
look("job-events", () => at("done", "/events"), { do: open(".events > li:nth-child(-n + 8) details") });
look("job-record", () => at("done", "/record"));
look("job-viewer", () => at("running"), { as: "viewer" });
look("pulls", "/projects/shop/pulls");
look("pulls-none", "/projects/fresh/pulls");
look("pull", () => numberOf(jobs.done), {
  do: async (page) => {
    await page.getByLabel("Comment", { exact: true }).fill(MARKDOWN);
    await page.getByRole("button", { name: "Comment" }).click();
    await page.getByText("The comment is added.").waitFor();
    await open(".actions details")(page);
  },
});
look("pull-conflict", () => numberOf(jobs.conflict));
for (const section of ["repository", "agent", "environment", "sandbox", "pull-requests", "limits", "use"]) {
  look(`settings-${section}`, `/projects/shop/settings/${section}`);
}
look("settings-viewer", "/projects/shop/settings/agent", { as: "viewer" });
look("keys", "/keys", { do: open("tbody tr:first-child details") });
look("key-new", "/keys/new");
look("key-created", "/keys/new", {
  do: async (page) => {
    await page.getByLabel("Name").fill("A key with a name that is rather long for a telephone");
    await page.getByRole("button", { name: "Create key" }).click();
    await page.locator("#key").waitFor();
  },
});
look("system", "/system");
look("users", "/users", { do: open("tbody tr:nth-child(2) details") });
look("users-link", "/users", {
  do: async (page) => {
    await page.getByLabel("Name", { exact: true }).fill(`linus${Date.now()}`);
    await page.getByRole("button", { name: "Add user" }).click();
    await page.locator("#link").waitFor();
  },
});
look("audit", "/audit");
look("account", "/account", { do: open("details.account") });
look("not-found", "/projects/none/jobs", { expects: [/^404 GET/] });

let viewer;
for (const one of looks) {
  test(`no barriers: ${one.name}`, async () => {
    const where = typeof one.where === "function" ? await one.where() : one.where;
    if (one.as) viewer ??= await service.person("viewer", "viewer");
    await lookAt({ ...one, where, cookie: one.as ? viewer : one.cookie });
  });
}

test("no page is wider than its window, 360 px wide or 1280", () => {
  assert.ok(Object.keys(picture).length > 40, `only ${Object.keys(picture).length} pages were looked at`);
  none(Object.values(picture).flat(), "wider");
});

test("on a phone the tab where one is can be seen", () => {
  none(Object.values(hidden).flat(), "outside of the window");
});

test("a change that an agent tells of is shown line by line", async () => {
  const page = await pageOf(admin);
  await stage.open(page, at("done"));
  const patch = page.locator("pre.patch").first();
  await page.locator("details.tool", { has: patch }).locator("summary").click();
  const lines = await patch.locator("span").evaluateAll((all) => all.map((span) => ({ text: span.textContent.trim(), top: span.getBoundingClientRect().top })));
  assert.ok(lines.length >= 4, JSON.stringify(lines));
  none(lines.slice(1).filter((line, place) => line.top <= lines[place].top).map((line) => line.text), "not below the line before");
});

test("text in a box does not touch its edge", async () => {
  const page = await pageOf(admin);
  await stage.open(page, await numberOf(jobs.done));
  const gap = await page.locator("article.message .prose > p").first().evaluate((text) => {
    const range = document.createRange();
    range.selectNodeContents(text);
    return range.getBoundingClientRect().left - text.closest("article").getBoundingClientRect().left;
  });
  assert.ok(gap >= 8, `the text of a comment begins ${gap} px from the edge of its box`);
});

// ---- The keyboard.

const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  const box = element.getBoundingClientRect();
  const middle = [(Math.max(0, box.left) + Math.min(innerWidth, box.right)) / 2, (Math.max(0, box.top) + Math.min(innerHeight, box.bottom)) / 2];
  const top = document.elementFromPoint(...middle);
  const label = element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ?? element.textContent;
  return {
    name: `${element.tagName.toLowerCase()} ${label.trim().replace(/\s+/g, " ").slice(0, 60)}`,
    // What is seen of a radio button may be its label.
    seen: Boolean(top && (element.contains(top) || top.contains(element) || [...(element.labels ?? [])].some((of) => of.contains(top)))),
  };
});

async function tabTo(page, wanted, most = 60) {
  const passed = [];
  for (let count = 0; count < most; count += 1) {
    await page.keyboard.press("Tab");
    const now = await focused(page);
    if (!now) break;
    passed.push(now);
    if (wanted && wanted.test(now.name)) return passed;
  }
  if (wanted) assert.fail(`the tab key does not lead to ${wanted}, only to:\n${passed.map((one) => one.name).join("\n")}`);
  return passed;
}

test("the first stop of the tab key leads over the navigation to the content", async () => {
  const page = await pageOf(admin);
  await stage.open(page, "/projects/shop/jobs");
  await page.keyboard.press("Tab");
  const skip = page.getByRole("link", { name: "Skip to content" });
  assert.ok(await skip.evaluate((element) => element === document.activeElement));
  assert.ok((await skip.boundingBox()).y >= 0, "it is not seen when it has the focus");
  await page.keyboard.press("Enter");
  await until("the content has the focus", () => page.evaluate(() => document.activeElement?.id === "main"));
  const next = await tabTo(page, /^a New job/, 1);
  assert.equal(next.length, 1);
});

for (const [what, where, wanted] of [
  ["a new project", "/projects", /^a New project/], ["a new job", "/projects/shop/jobs", /^a New job/], ["a new key", "/keys", /^a New key/],
  ["the composer of a job", () => at("done"), /^textarea Message to the agent/], ["sending it", () => at("done"), /^button Send/],
  ["merging", () => numberOf(jobs.done), /^button Merge/], ["saving settings", "/projects/shop/settings/limits", /^button Save/],
]) {
  test(`the tab key leads to ${what}, and every stop on the way is seen`, async () => {
    const page = await pageOf(admin);
    await stage.open(page, typeof where === "function" ? await where() : where);
    // What has the focus at once would hide what comes before.
    await page.evaluate(() => { document.activeElement?.blur(); });
    const passed = await tabTo(page, wanted);
    none(passed.filter((one) => !one.seen).map((one) => one.name), "has the focus and is not seen");
    });
}

test("Escape closes a menu and a confirmation, and the focus stays with what opened them", async () => {
  const page = await pageOf(admin);
  await stage.open(page, at("running"));
  for (const which of ["details.account", "#cancel", "#archive"]) {
    const summary = page.locator(`${which} > summary`);
    await summary.focus();
    await page.keyboard.press("Enter");
    assert.ok(await page.locator(which).evaluate((element) => element.open), `${which} does not open`);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Escape");
    assert.ok(!await page.locator(which).evaluate((element) => element.open), `${which} stays open`);
    assert.ok(await summary.evaluate((element) => element === document.activeElement), `${which}: the focus is lost`);
  }
});

// ---- Without scripts.

test("without scripts somebody signs in, sends a job, reads, answers, and merges", async () => {
  const context = await stage.context({ javaScriptEnabled: false });
  const page = await context.newPage();
  await service.person("plain", "member");
  await stage.open(page, "/projects/shop/jobs/new");
  await page.getByLabel("Name").fill("plain");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Task").fill("Without scripts [[say I am done with it.]] [[write plain.txt|x]]");
  await page.getByRole("button", { name: "Send job" }).click();
  const completed = (text) => until(`the job is completed, and its page has: ${text}`, async () => {
    await page.reload();
    return await page.locator("#job-head .badge.completed").count() && await page.locator("#thread .said", { hasText: text }).count();
  }, 30_000);
  await page.getByRole("heading", { name: "Without scripts" }).waitFor();
  await completed("I am done with it.");
  await page.getByLabel("Message to the agent").fill("Again [[say This is the second answer.]] [[append plain.txt|y]]");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator("#thread, #job-queue").getByText("Again").first().waitFor();
  await completed("This is the second answer.");
  await shot(page, "without-scripts");
  await page.locator("#job-head").getByRole("link", { name: /^#\d+$/ }).click();
  await page.getByRole("button", { name: "Merge pull request" }).click();
  await page.getByText("Merged.", { exact: true }).waitFor();
  await page.locator("details.account > summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL("**/login");
  await context.close();
});

// ---- No waiting, and nothing that jumps.

for (const [what, where] of [["the list of jobs", "/projects/shop/jobs"], ["a job that is done", () => at("done")], ["a job that goes on", () => at("running")], ["a long conversation", () => at("large")]]) {
  test(`nothing jumps while the page loads: ${what}`, async () => {
    for (const viewport of [{ width: 1280, height: 900 }, { width: 360, height: 740 }]) {
      const page = await stage.page({ cookie: admin, viewport });
      await page.addInitScript(() => {
        window.__shifts = [];
        new PerformanceObserver((list) => {
          for (const shift of list.getEntries()) {
            const moved = shift.sources.map((source) => source.node?.nodeName === "#text" ? source.node.parentNode?.outerHTML : source.node?.outerHTML);
            if (!shift.hadRecentInput) window.__shifts.push({ value: shift.value, moved: moved.map((html) => html?.slice(0, 100)) });
          }
        }).observe({ type: "layout-shift", buffered: true });
      });
      await stage.open(page, typeof where === "function" ? where() : where);
      await page.waitForFunction(() => window.Turbo && document.querySelector("time[title]"));
      // Two pictures later everything is where it stays.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));
      const shifts = await page.evaluate(() => window.__shifts);
      const sum = shifts.reduce((sum, shift) => sum + shift.value, 0);
      assert.ok(sum < 0.1, `${sum.toFixed(3)} at ${viewport.width}: ${JSON.stringify(shifts)}`);
      await page.context().close();
    }
  });
}

test("a job with ten thousand events opens, and its time is told", async (context) => {
  const last = Number((await (await service.get(at("large", "/events"), { cookie: admin })).text()).match(/(\d+) events/)[1]);
  assert.ok(last > 4 * TURNS, `${last} events`);
  // Only told: how long it may take is for `make bench`, group `pages`.
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

test("of a long conversation the page has a part, and what was before is a link away", async () => {
  const page = await pageOf(admin);
  await stage.open(page, at("large"));
  const items = page.locator("#thread > li");
  const count = await items.count();
  assert.ok(count > 50 && count <= 400, `${count} items`);
  assert.equal(await page.getByText("Look at file 0", { exact: true }).count(), 0);
  const first = await items.first().getAttribute("id");
  await page.getByRole("link", { name: "Show earlier events" }).click();
  await page.waitForURL(/before=/);
  assert.ok(Number((await items.last().getAttribute("id")).slice(1)) < Number(first.slice(1)), "what is shown is not earlier");
  await page.getByRole("link", { name: "Show later events" }).click();
  await until("the newest part is shown again", async () => await page.getByLabel("Message to the agent").count() === 1);
});

test("whoever reads a long conversation backwards misses nothing and reads nothing twice", async () => {
  let where = at("large");
  const seen = [];
  for (let pages = 0; where && pages < 100; pages += 1) {
    const text = await (await service.get(where, { cookie: admin })).text();
    seen.unshift(...[...text.matchAll(/<div class="prose"[^>]*>(.*?)<\/div>/gs)].flatMap((part) => [...part[1].matchAll(/Said (\d+)\./g)]).map((match) => Number(match[1])).sort((a, b) => a - b));
    where = text.match(/<p class="earlier"><a href="([^"]+)">Show earlier events/)?.[1];
  }
  assert.deepEqual(seen, Array.from({ length: TURNS }, (_, number) => number));
});
