// Checks of all pages: console errors, the width in four windows, accessibility. Makes a screenshot of each page in three
// widths and both themes, NAME-WIDTH-THEME.png; index.html shows all of them. `make test` runs them after a change of pages.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { after, test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";
import { Suite, TEST_MS, assertNone, axe, expire, overflow, screenshot, shots, waitUntil } from "./lib.mjs";
import { LONG, MARKDOWN, createJobs, pullPath } from "./sample.mjs";

const SIZES = [[1440, 900], [1024, 800], [390, 844]];
const THEMES = ["light", "dark"];
/** The widths and themes in which axe runs, with the rules if not all. The themes differ only in their colors. */
const AXE = [[1440, "light"], [1440, "dark", ["color-contrast"]], [390, "light"]];
/** The height at which screenshots of long pages end. */
const MAX_HEIGHT = 3000;
/** A narrower phone, for which only the width of pages is checked. */
const NARROWEST = { width: 360, height: 740 };
/** The number of pages that are checked at the same time. */
const LANES = 3;

const slack = await startSlack();
const suite = await Suite.start({ agentName: "fake", flags: ["--slack-api-url", slack] });
const { service } = suite;
const lanes = Array.from({ length: LANES }, () => suite.lane());

const admin = await service.createAdministrator("ada");
const key = service.key("CI of the shop");
let viewer;
let jobs;
let hook;
let workspace;

/** Starts a stand-in of Slack that accepts every call; returns its URL. */
async function startSlack() {
  const server = http.createServer((request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ok: true, team_id: "T0ACME", team: "Acme", user_id: "U0BOT", bot_id: "B0BOT" }));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}/`;
}

/** Creates a webhook whose endpoint the server may not reach, and waits until a delivery to it has failed. */
async function createWebhook() {
  const url = "http://127.0.0.1:9/a/very/long/path/of/an/endpoint/that/has/no/place/to/break/whatsoever/at/all?token=x";
  hook = await service.api(key, "POST", "/projects/shop/webhooks", { url, description: "Tells the shop's own service what happens" });
  await service.api(key, "POST", `/projects/shop/webhooks/${hook.id}/replay`, { since: "2020-01-01T00:00:00Z" });
  await waitUntil("a failed delivery", async () => (await service.api(key, "GET", `/projects/shop/webhooks/${hook.id}`)).failingSince);
}

/** Creates what the pages of the installation show. */
async function createConnections() {
  await service.api(key, "POST", "/code-hosts", { id: "gitlab", kind: "gitlab", url: "https://gitlab.acme.example", token: "glpat-sample" });
  await service.api(key, "POST", "/code-hosts", { id: "forgejo", kind: "forgejo", url: "http://127.0.0.1:9", token: "sample" });
  workspace = await service.api(key, "POST", "/slack/workspaces", { name: "Acme", mode: "events", botToken: "xoxb-sample", signingSecret: "8f742231b10e8888abcd99yyyzzz85a5", channels: { C012AB3CD: "shop" } });
  await service.api(key, "POST", "/oidc/trusts", { name: "deploy", issuer: "https://ci.example.com", claims: { project: "shop", environment: "a_very_long_name_of_an_environment" }, projects: ["shop"] });
}

// ---- The checks.

/** The paths of the pages that were checked. */
const checked = new Set();

/** Returns the page of a session in a lane, in the first size; it is reused, because a new page takes as long as a check. */
async function pageFor(lane, cookie) {
  lane.sessions ??= new Map();
  if (!lane.sessions.has(cookie)) {
    const page = await lane.page({ cookie });
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== service.url) lane.monitor.add(`request to another host: ${request.url()}`);
    });
    lane.sessions.set(cookie, page);
  }
  const page = lane.sessions.get(cookie);
  const [[width, height]] = SIZES;
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: "light" });
  return page;
}

/** Changes the size of the window, and waits until the page has been drawn in it. */
async function resize(page, width, height) {
  await page.setViewportSize({ width, height });
  // On a busy machine, frames of the old size follow the change.
  await page.waitForFunction((size) => innerWidth === size[0] && innerHeight === size[1], [width, height], { polling: "raf" });
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
}

/** Returns the texts of current tabs that are outside of the window. */
const hiddenTabs = (page) => page.evaluate(() => [...document.querySelectorAll("nav:not([aria-label=Breadcrumb]) [aria-current]")]
  .filter((element) => element.checkVisibility())
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1 || element.getBoundingClientRect().left < -1)
  .map((element) => element.textContent.trim()));

/** Checks a page in all widths, and makes its screenshots. */
async function checkPage(lane, { name, where, as, cookie, do: act, expects = [] }) {
  const page = await pageFor(lane, as ? viewer : cookie);
  const found = [];
  lane.expect(...expects);
  const opened = await lane.open(page, typeof where === "function" ? await where() : where);
  checked.add(pattern(new URL(opened.url()).pathname));
  await act?.(page);
  // A toast would cover controls.
  await expire(page);
  for (const [width, height] of SIZES) {
    await resize(page, width, height);
    const excess = await overflow(page);
    if (excess) found.push(excess);
    found.push(...(await hiddenTabs(page)).map((tab) => `${width} px: the current tab is outside of the window: ${tab}`));
    // Scroll to the end, because elsewhere elements with a fixed position cover others.
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    for (const [, theme, rules] of AXE.filter(([size]) => size === width)) {
      await page.emulateMedia({ colorScheme: theme });
      found.push(...(await axe(page, rules)).map((one) => `${width} px, ${theme}: ${one}`));
    }
    // In a window as high as the page, elements with a fixed position are where they belong.
    await resize(page, width, Math.max(height, Math.min(await page.evaluate(() => document.documentElement.scrollHeight), MAX_HEIGHT)));
    await page.evaluate(() => scrollTo(0, 0));
    for (const theme of THEMES) {
      await page.emulateMedia({ colorScheme: theme });
      await screenshot(page, `${name}-${width}-${theme}`);
    }
  }
  await resize(page, NARROWEST.width, NARROWEST.height);
  const excess = await overflow(page);
  if (excess) found.push(excess);
  assertNone(found, "problems of the page");
}

/** Defines a test for each page. Several run at the same time. */
function checkPages(what, cases) {
  nodeTest(what, { concurrency: LANES }, async (context) => {
    const free = [...lanes];
    await Promise.all(cases.map((one) => context.test(one.name, { timeout: TEST_MS }, async () => {
      const lane = free.pop();
      await lane.check(one.name, () => checkPage(lane, one)).finally(() => free.push(lane));
    })));
  });
}

/** Returns a path in which the names and IDs of objects are replaced by `*`. */
function pattern(where) {
  return where.replace(/\?.*/, "").replace(/^\/projects\/(?!new$)[^/]+/, "/projects/*").replace(/\/(JOB|job_\w+|\d+)(?=\/|$)/, "/*");
}

// ---- The pages.

let cases = [];
/** Adds a page to check; `do` brings it into the intended state. */
const addPage = (name, where, more = {}) => cases.push({ name, where, cookie: admin, ...more });
/** Returns the pages that were added since the last call. */
const takeCases = () => cases.splice(0);

const open = (selector) => (page) => page.evaluate((which) => { for (const details of document.querySelectorAll(which)) details.open = true; }, selector);

addPage("sign-in", "/login", { cookie: undefined });
// Browsers bind passkeys to a name, and the service has an IP address here. second-factor.test.mjs has them.
addPage("sign-in-passkey", "/login/passkey", { cookie: undefined, expects: [/^422 GET/] });
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

for (const [name, where] of [["home-none", "/"], ["projects-none", "/projects"], ["project-new", "/projects/new"], ["jobs-all-none", "/jobs"],
  ["code-hosts-none", "/system/code-hosts"], ["trusts-none", "/system/trusts"], ["slack-none", "/system/slack"], ["inbox-all-none", "/system/inbox"]]) addPage(name, where);

checkPages("pages before there are projects", takeCases());

nodeTest("jobs of all kinds and connections are created", async () => {
  viewer = await service.createUser("viewer", "viewer");
  jobs = await createJobs(service, key);
  await service.project(key, "pushed");
  await createWebhook();
  await createConnections();
});

const pageOfPull = (job = jobs.done) => pullPath(service, key, job);
const at = (job, tab = "") => `/projects/shop/jobs/${jobs[job].id}${tab}`;
addPage("projects", "/projects");
addPage("project-new-remote", "/projects/new", { do: (page) => page.getByText("Remote").click() });
addPage("home", "/?whose=everybody");
addPage("jobs-all", "/jobs");
addPage("jobs", "/projects/shop/jobs");
addPage("jobs-filter", "/projects/shop/jobs?author=CI%20of%20the%20shop", { do: open("#filter-author") });
addPage("jobs-none", "/projects/fresh/jobs");
addPage("jobs-none-import", "/projects/fresh/jobs", { do: (page) => page.getByText("Import from a URL").click() });
addPage("jobs-none-pushed", "/projects/pushed/jobs");
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
addPage("job-conflict", () => at("conflict"));
addPage("job-changes", () => at("done", "/changes"));
addPage("job-changes-split", () => at("done", "/changes?view=split"), { do: (page) => page.locator("table.lines.split").first().waitFor() });
addPage("job-changes-none", () => at("failed", "/changes"));
addPage("job-runs", () => at("done", "/runs"));
addPage("job-events", () => at("done", "/events"), { do: open(".events .rows > li:nth-child(-n + 8) > details") });
addPage("job-record", () => at("done", "/record"));
addPage("job-viewer", () => at("running"), { as: "viewer" });
addPage("pulls", "/projects/shop/pulls");
addPage("pull-new", "/projects/shop/pulls/new");
addPage("pulls-none", "/projects/fresh/pulls");
addPage("pull", () => pageOfPull(), {
  do: async (page) => {
    await page.getByLabel("Comment", { exact: true }).fill(MARKDOWN);
    await page.getByRole("checkbox", { name: "Send it to the agent" }).uncheck();
    await page.getByRole("button", { name: "Comment" }).click();
    await page.getByText("The comment is added.").waitFor();
    await open("details.confirm, details.asked")(page);
  },
});
addPage("pull-commits", () => pageOfPull().then((where) => `${where}/commits`));
addPage("pull-files", () => pageOfPull().then((where) => `${where}/files`));
addPage("pull-review", () => pageOfPull().then((where) => `${where}/files?at=1-n1`), {
  do: async (page) => {
    await page.getByRole("textbox", { name: "Comment on line 1" }).fill("Rename `it`, **please**.");
    await page.getByRole("button", { name: "Add to review" }).click();
    await page.locator("#finish-review", { hasText: "1 comment" }).waitFor();
    await page.getByRole("link", { name: "Comment on line 1", exact: true }).first().click();
    await page.getByRole("button", { name: "For people" }).waitFor();
  },
});
addPage("pull-conflict", () => pageOfPull(jobs.conflict));
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
    assert.ok(!page.url().endsWith("/test"), "the page was replaced");
    await open("details.confirm:last-of-type")(page);
  },
});
addPage("webhook-edit", () => `/projects/shop/webhooks/${hook.id}/edit`);
addPage("settings-viewer", "/projects/shop/settings/agent", { as: "viewer" });
addPage("keys", "/keys", { do: open("tbody tr:first-child details:last-child") });
addPage("keys-rotate", "/keys", { do: open("tbody tr:first-child details:first-child") });
addPage("keys-exchanged", "/keys/exchanged");
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
addPage("trust-new", "/system/trusts/new?preset=gitlab");
addPage("trust-edit", async () => {
  const rules = { name: "ci", issuer: "https://ci.example.com", claims: { project: "shop" }, projects: ["shop"] };
  return `/system/trusts/${(await service.api(key, "POST", "/oidc/trusts", rules)).id}/edit`;
});
addPage("trusts", "/system/trusts");
addPage("code-hosts", "/system/code-hosts");
for (const kind of ["github", "gitlab", "forgejo"]) addPage(`code-host-new-${kind}`, `/system/code-hosts/new?kind=${kind}`);
addPage("code-host-edit", "/system/code-hosts/gitlab/edit");
addPage("code-host-check", "/system/code-hosts", {
  do: async (page) => {
    await page.getByRole("button", { name: "Check forgejo" }).click();
    await page.getByRole("heading", { name: "forgejo" }).waitFor();
    assert.ok(!page.url().endsWith("/check"), "the page was replaced");
  },
});
addPage("github-app", "/system/code-hosts/github/app");
addPage("slack", "/system/slack");
addPage("slack-workspace", () => `/system/slack/${workspace.id}`, { do: open("main details") });
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
addPage("confirmed", "/confirm/done");
addPage("second-factor", "/account/second-factor");
addPage("passkeys", "/account/passkeys", { expects: [/^422 GET/] });
// On a page without controls that the open menu would cover in part.
addPage("account-menu", "/keyboard", { do: open("details.account") });
for (const [name, where, fields, button] of [
  ["project-new-refused", "/projects/new", { "#id": "Not an ID" }, "Create project"],
  ["key-new-refused", "/keys/new", { "#name": "x", "#addresses": "nowhere" }, "Create key"],
  ["pull-new-refused", "/projects/shop/pulls/new", { "#head": "no-such-branch", "#title": "x" }, "Open pull request"],
  ["webhook-new-refused", "/projects/shop/webhooks/new", { "#url": "ftp://example.com" }, "Create webhook"],
  ["settings-refused", "/projects/shop/settings/sandbox", { "#egress": "not a host!" }, "Save"],
]) {
  addPage(name, where, {
    expects: [/^422 POST/],
    do: async (page) => {
      await page.evaluate(() => { for (const form of document.forms) form.noValidate = true; });
      for (const [field, value] of Object.entries(fields)) await page.locator(field).fill(value);
      await page.getByRole("button", { name: button, exact: true }).click();
      await page.getByRole("alert").first().waitFor();
    },
  });
}
addPage("search-none", "/search?q=nothing%20at%20all");
addPage("search", "/search?q=greeting");
addPage("keyboard", "/keyboard");
addPage("secret-gone", "/secrets/none", { expects: [/^410 GET/] });
addPage("not-allowed", "/users", { as: "viewer", expects: [/^403 GET/] });
addPage("not-a-page", "/nowhere", { expects: [/^404 GET/] });
addPage("not-found", "/projects/none/jobs", { expects: [/^404 GET/] });

// ---- The documentation.

const navigation = await (await service.get("/docs")).text();
const guides = [...new Set([...navigation.matchAll(/href="\/docs\/guides\/([\w-]+)"/g)].map((match) => match[1]))];
assert.ok(guides.length > 10, `only ${guides.length} guides are in the navigation`);
const unfold = async (page) => {
  for (const summary of await page.locator("main details:not([open]) > summary:visible").all()) if (await summary.isVisible()) await summary.click();
};
addPage("docs-overview", "/docs", { cookie: undefined });
addPage("docs-signed-in", "/docs");
for (const guide of guides) addPage(`docs-guide-${guide}`, `/docs/guides/${guide}`, { cookie: undefined });
for (const [name, where] of [["reference", "reference"], ["operation", "reference/createJob"], ["operation-project", "reference/changeProject"],
  ["events", "reference/events"], ["errors", "reference/errors"], ["changelog", "changelog"]]) addPage(`docs-${name}`, `/docs/${where}`, { cookie: undefined, do: unfold });
addPage("docs-not-found", "/docs/guides/nothing", { cookie: undefined, expects: [/^404 GET/] });

checkPages("pages with jobs, and the documentation", takeCases());

nodeTest("every page that the roles are tested with is checked here", () => {
  const roles = fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), "../../crates/dashboard/src/tests/roles.rs"), "utf8");
  const table = roles.slice(roles.indexOf("const PAGES"), roles.indexOf("];", roles.indexOf("const PAGES")));
  const pages = [...table.matchAll(/\("([^"]+)", \[200,/g)].map((match) => pattern(match[1]));
  assert.ok(pages.length > 30, `only ${pages.length} pages are in the table`);
  assertNone([...new Set(pages)].filter((page) => !checked.has(page)), "pages without a check");
});

nodeTest("all screenshots are on one page", () => {
  const names = fs.readdirSync(shots).filter((name) => name.endsWith(".png")).sort();
  const titles = [...new Set(names.map((name) => name.replace(/-\d+-(light|dark)\.png$/, "")))];
  assert.ok(titles.length > 100, `there are only ${titles.length} pages`);
  const sections = titles.map((title) => {
    const images = SIZES.flatMap(([width]) => THEMES.map((theme) => `${title}-${width}-${theme}.png`)).filter((name) => names.includes(name));
    return `<h2>${title}</h2>\n${images.map((name) => `<a href="${name}"><img loading="lazy" src="${name}" alt="${name}"></a>`).join("\n")}`;
  });
  const style = "body { font: 16px sans-serif } img { height: 24rem; width: 16rem; object-fit: cover; object-position: top; border: 1px solid gray }";
  fs.writeFileSync(path.join(shots, "index.html"), `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>Pages of Journeyman</title>\n<style>${style}</style>\n${sections.join("\n")}\n`);
});
