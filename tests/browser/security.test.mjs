// Tests of attacks, in a browser where that is needed, otherwise over plain HTTP.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { PASSWORD, Suite, cookieOf, makeFolder, script, waitUntil } from "./lib.mjs";

/** Markup that would run or be part of the page if it were not escaped. All its elements can be recognized. */
const MARKUP = `'"><img class=pwned src=x onerror="window.__pwned=1"><svg class=pwned onload="window.__pwned=1"></svg><script class=pwned>window.__pwned=1</script>`;
/** The same for places that allow few characters: a ref, a file name. */
const TIGHT = `<img/class="pwned"src="x"onerror="window.__pwned=1">`;
/** A payload for the value of an attribute. */
const ATTRIBUTE = `" data-pwned autofocus onfocus="window.__pwned=1" x="`;
/** Payloads for the stream of a page: the end of its element, and of its event. */
const STREAM = `</template></turbo-stream><turbo-stream action="append" target="thread"><template><li class=pwned></li></template></turbo-stream>`;
const EVENT = `one\r\n\r\ndata: <turbo-stream action="append" target="thread"><template><li class=pwned></li></template></turbo-stream>\n\ndata: two\rdata: three`;
const ALL = `${MARKUP} ${ATTRIBUTE} ${STREAM}`;

const MARKDOWN = [
  ALL,
  EVENT,
  `[a](javascript:window.__pwned=1) [b](JaVaScRiPt:window.__pwned=1) [c](java\tscript:window.__pwned=1)`,
  `[d](&#x6a;avascript:window.__pwned=1) [e](data:text/html,<script>window.__pwned=1</script>) [f](vbscript:x) [g](//evil.example) [h](/logout)`,
  `<javascript:window.__pwned=1> <a class=pwned href="javascript:window.__pwned=1">i</a> [j]\n\n[j]: javascript:window.__pwned=1`,
  `![k](x" onerror="window.__pwned=1) ![l](https://evil.example/pixel.png) [m](https://example.com "x\\" onmouseover=\\"window.__pwned=1")`,
  `<iframe class=pwned srcdoc="<script>parent.__pwned=1</script>"></iframe><object class=pwned data=x></object><embed class=pwned src=x>`,
  `<form class=pwned action=/logout method=post><button>n</button></form><base class=pwned href=//evil.example><meta class=pwned http-equiv=refresh content="0;url=//evil.example">`,
  `<style class=pwned>body{display:none}</style><math class=pwned><mtext><table><mglyph><style><!--</style><img class=pwned src=x onerror="window.__pwned=1">`,
  `<details class=pwned open ontoggle="window.__pwned=1">o</details><div class=pwned style="position:fixed">p</div>`,
  `<!-- <img class=pwned src=x onerror="window.__pwned=1"> --> <![CDATA[<img class=pwned src=x>]]>`,
  "```\"><img class=pwned src=x onerror=window.__pwned=1>\n" + ALL + "\n```",
  "~~~html\n" + ALL + "\n~~~\n\n    " + ALL,
  "| a | b |\n|---|---|\n| " + TIGHT + " | `" + MARKUP + "` |",
  `- [ ] ${TIGHT}\n- [x] ${MARKUP}\n\n> ${MARKUP}\n\n# ${MARKUP}\n\n1. ${ATTRIBUTE}`,
  `\u202egnp.exe\u202c \u200b[q](https://example.com/\u202egpj.exe)`,
].join("\n\n");

const suite = await Suite.start({ agentName: MARKUP });
const test = suite.test.bind(suite);
const { service } = suite;

const admin = await service.createAdministrator("ada");
const key = service.key();
await service.project(key, "shop");
/** The file that lets the agent start. */
const startFile = path.join(makeFolder("start"), "start");

const getPage = (cookie, where = "/projects") => service.get(where, { cookie });
const isSignedIn = async (cookie) => (await getPage(cookie)).status === 200;
const idOf = async (name) => {
  const text = await (await getPage(admin, "/users")).text();
  // Find the ID in the row with the name.
  return text.split("<tr ").slice(1).find((row) => row.includes(`<bdi>${name}</bdi>`)).match(/\/users\/([^/"]+)\//)[1];
};

// ---- Event streams, which take a while to end. The last test of this file checks them.

const streams = {};

test("event streams open for a member, who is then disabled", async () => {
  const cookie = await service.createUser("disabled-user", "member");
  const job = await service.job(key, "shop", "Goes on [[sleep 3600]]");
  for (const [name, where] of [["job", `/projects/shop/jobs/${job.id}/live?from=0&after=0`], ["jobs", "/projects/shop/jobs/live"]]) {
    const answer = await service.get(where, { cookie, headers: { accept: "text/event-stream" } });
    assert.equal(answer.status, 200);
    assert.match(answer.headers.get("content-type"), /^text\/event-stream/);
    streams[name] = (async () => {
      const reader = answer.body.getReader();
      while (!(await reader.read()).done);
    })();
  }
  const answer = await service.send(`/users/${await idOf("disabled-user")}/disable`, {}, { cookie: admin });
  assert.equal(answer.status, 303);
  assert.ok(!await isSignedIn(cookie), "a disabled user still has a session");
});

// ---- Forged requests.

/** Requests that change something: a path, and a form that would be accepted. */
const CHANGES = {
  "/logout": {},
  "/login": { name: "ada", password: PASSWORD },
  "/setup": { link: "x", name: "x", password: PASSWORD },
  "/keys": { name: "forged", where: "all", scope: "write", days: "7" },
  "/projects": { id: "forged", where: "hosted", agent: "journeyman", model: "test/scripted" },
  "/projects/shop/jobs": { prompt: "forged" },
  "/projects/shop/settings/agent": { agent: "journeyman", model: "forged" },
  "/projects/shop/settings/templates": { name: "forged", prompt: "forged" },
  "/projects/shop/delete": { id: "shop" },
  "/users": { name: "forged", role: "administrator" },
  "/account/password": { current: PASSWORD, password: "forged forged forget" },
  "/account/second-factor/remove": {},
  "/account/passkeys": { name: "forged", passkey: "{}" },
  "/account/passkeys/none/remove": {},
  "/login/passkey": { passkey: "{}" },
  "/login/code": { code: "000000" },
};

const FORGERIES = {
  "has neither Origin nor Sec-Fetch-Site": {},
  "has a foreign Origin": { origin: "https://evil.example" },
  "has a foreign Origin and claims the same site": { origin: "https://evil.example", "sec-fetch-site": "same-origin" },
  "has an opaque Origin": { origin: "null" },
  "is from another site": { "sec-fetch-site": "cross-site" },
  "is from another origin of the same site": { "sec-fetch-site": "same-site" },
  "is from another site and has our Origin": { "sec-fetch-site": "cross-site", origin: "ours" },
};

for (const [what, headers] of Object.entries(FORGERIES)) {
  test(`a form is refused if it ${what}`, async () => {
    const sent = { ...headers, ...(headers.origin === "ours" && { origin: service.url }) };
    for (const [where, fields] of Object.entries(CHANGES)) {
      const answer = await service.send(where, fields, { cookie: admin, headers: sent });
      assert.equal(answer.status, 403, where);
      assert.equal(answer.headers.get("set-cookie"), null, where);
    }
    assert.ok(await isSignedIn(admin), "a forged request signed out");
    assert.ok(!(await (await getPage(admin, "/keys")).text()).includes("forged"), "a forged request created a key");
    assert.ok(!(await (await getPage(admin, "/projects")).text()).includes("forged"), "a forged request created a project");
    assert.ok(!(await (await getPage(admin, "/projects/shop/jobs")).text()).includes("forged"), "a forged request created a job");
  });
}

test("a form on another site changes nothing, and another site cannot frame a page", async () => {
  const evil = http.createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(request.url === "/frame"
      ? `<iframe src="${service.url}/projects"></iframe>`
      : `<form method=post action="${service.url}/projects/shop/jobs"><input name=prompt value=forged></form><script>document.forms[0].submit()</script>`);
  });
  await new Promise((done) => evil.listen(0, "127.0.0.1", done));
  try {
    const page = await suite.page({ cookie: admin });
    // Another port is another origin, but the same site: the browser sends the cookie.
    suite.expect(/^403 POST \/projects\/shop\/jobs/);
    const [answer] = await Promise.all([
      page.waitForResponse((answer) => answer.request().method() === "POST"),
      page.goto(`http://127.0.0.1:${evil.address().port}/`),
    ]);
    assert.equal(answer.status(), 403);
    assert.ok((await answer.request().allHeaders()).cookie, "the browser did not send the cookie, so the test proves nothing");
    suite.expect(/frame-ancestors/, /ERR_BLOCKED_BY_RESPONSE/);
    await page.goto(`http://127.0.0.1:${evil.address().port}/frame`);
    const frame = page.frames()[1];
    assert.ok(!(await frame.content()).includes("Journeyman"), "the page is framed");
    await page.context().close();
  } finally {
    evil.closeAllConnections?.();
    await new Promise((done) => evil.close(done));
  }
});

// ---- Sessions.

test("the session cookie is hidden from scripts, and not sent with forms of other sites", async () => {
  const answer = await service.send("/login", { name: "ada", password: PASSWORD });
  assert.equal(answer.status, 303);
  const [value, ...flags] = answer.headers.get("set-cookie").split("; ");
  assert.match(value, /^journeyman=[0-9a-f]{64}$/);
  assert.deepEqual(flags.map((flag) => flag.replace(/=\d+/, "")).sort(), ["HttpOnly", "Max-Age", "Path=/", "SameSite=Lax"].sort());
  const page = await suite.page({ cookie: value });
  await suite.open(page, "/projects");
  assert.equal(await page.evaluate(() => document.cookie), "");
  await page.context().close();
});

test("a session cookie that was planted before the sign-in is invalid after it", async () => {
  const planted = `journeyman=${"a".repeat(64)}`;
  const page = await suite.page({ cookie: planted });
  await suite.open(page, "/login");
  await page.getByLabel("Name").fill("ada");
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL((url) => url.pathname === "/");
  const [cookie] = (await page.context().cookies()).filter((cookie) => cookie.name === "journeyman");
  assert.notEqual(`journeyman=${cookie.value}`, planted);
  assert.ok(!await isSignedIn(planted), "the planted cookie is signed in");
  // With a second cookie, as another origin of the same site could set it, the session is refused.
  assert.ok(!await isSignedIn(`${planted}; journeyman=${cookie.value}`));
  await page.context().close();
});

test("signing out ends the session on the server, and the Back button shows nothing", async () => {
  const cookie = await service.createUser("grace", "member");
  const page = await suite.page({ cookie });
  await suite.open(page, "/projects/shop/settings/repository");
  await page.locator("details.account > summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL("**/login");
  assert.ok(!await isSignedIn(cookie), "the old cookie is still accepted");
  assert.deepEqual((await page.context().cookies()).filter(({ name }) => name === "journeyman"), []);
  await page.goBack();
  await page.waitForURL("**/login**");
  assert.equal(await page.locator("#repository").count(), 0);
  await page.context().close();
});

test("a new password ends the other sessions", async () => {
  const here = await service.createUser("linus", "member");
  const there = cookieOf(await service.send("/login", { name: "linus", password: PASSWORD }));
  assert.ok(await isSignedIn(there));
  const answer = await service.send("/account/password", { current: PASSWORD, password: "velvet quarry plum ember" }, { cookie: here });
  assert.equal(answer.status, 303);
  assert.ok(await isSignedIn(here), "the session that changed the password ended");
  assert.ok(!await isSignedIn(there), "another session is still valid");
  const old = await service.send("/login", { name: "linus", password: PASSWORD });
  assert.equal(old.status, 422);
});

test("a link sets a password once", async () => {
  const link = new URL(service.addUser("once", "viewer"));
  const where = link.pathname + link.search;
  assert.equal((await service.get(where)).status, 200);
  // Opening the link does not use it up, because mail programs open links to check them.
  assert.equal((await service.get(where)).status, 200);
  const fields = { link: link.searchParams.get("link"), password: PASSWORD };
  assert.equal((await service.send("/setup", fields)).status, 303);
  assert.equal((await service.get(where)).status, 410);
  const again = await service.send("/setup", { ...fields, password: "velvet quarry plum ember" });
  assert.equal(again.status, 410);
  assert.equal(again.headers.get("set-cookie"), null);
  assert.equal((await service.send("/login", { name: "once", password: PASSWORD })).status, 303);
});

test("the link for the first administrator creates no second one", async () => {
  const link = new URL(service.link).searchParams.get("link");
  const answer = await service.send("/setup", { link, name: "mallory", password: PASSWORD });
  assert.equal(answer.status, 410);
  assert.throws(() => service.command("user", "link"), /./, "the command created another link for a first administrator");
});

test("the sign-in redirects to no other site", async () => {
  const elsewhere = ["//evil.example", "/\\evil.example", "\\/evil.example", "https://evil.example", "https:evil.example", "///evil.example",
    "/\t/evil.example", "/\n/evil.example", "javascript:window.__pwned=1", " //evil.example", "@evil.example", ".evil.example"];
  const names = ["redirected-1", "redirected-2", "redirected-3"];
  for (const name of names) await service.createUser(name, "viewer");
  for (const [number, next] of elsewhere.entries()) {
    // The limit is ten attempts for each name.
    const name = names[number % names.length];
    const sent = await service.send("/login", { name, password: PASSWORD, next });
    assert.equal(sent.status, 303, next);
    assert.equal(new URL(sent.headers.get("location"), service.url).origin, service.url, JSON.stringify(next));
    const shown = await getPage(admin, `/login?next=${encodeURIComponent(next)}`);
    assert.equal(new URL(shown.headers.get("location"), service.url).origin, service.url, JSON.stringify(next));
  }
  const sent = await service.send("/login", { name: names[0], password: PASSWORD, next: "/projects/shop/jobs?status=failed" });
  assert.equal(sent.headers.get("location"), "/projects/shop/jobs?status=failed");
});

test("an unknown name and a wrong password have the same response", async () => {
  const answers = [];
  await service.createUser("someone", "viewer");
  for (const name of ["somebody", "nobody"]) {
    const answer = await service.send("/login", { name, password: "wrong wrong wrong" });
    const headers = [...answer.headers].filter(([header]) => !["date", "x-request-id", "content-length"].includes(header));
    answers.push({ status: answer.status, headers, text: (await answer.text()).replaceAll(name, "…") });
  }
  assert.equal(answers[0].status, 422);
  assert.match(answers[0].text, /The name or the password is wrong/);
  assert.deepEqual(answers[0], answers[1]);
});

test("after ten attempts in a row, another one is refused without a check, and the page says so", async () => {
  await service.createUser("forgetful", "viewer");
  const attempt = async (_, number) => (await service.send("/login", { name: "forgetful", password: `wrong wrong wrong ${number}` })).status;
  const page = await suite.page();
  const refusal = page.getByText(/Too many attempts\. Try again in \d+ seconds\./);
  suite.expect(/^429 POST \/login/);
  const statuses = [];
  // The server allows another attempt every ten seconds, which may pass before the last one on a slow machine.
  do {
    assert.ok(statuses.length < 36, `a right password was accepted after the attempts with the statuses ${statuses}`);
    await page.context().clearCookies();
    await suite.open(page, "/login");
    await page.getByLabel("Name").fill("Forgetful");
    await page.getByLabel("Password").fill(PASSWORD);
    // Several at once, but not so many that some wait too long for the others.
    for (let count = 0; count < 3; count += 1) statuses.push(...await Promise.all(Array.from({ length: 4 }, attempt)));
    await page.getByRole("button", { name: "Sign in" }).click();
    await refusal.or(page.locator("details.account")).first().waitFor();
  } while (!await refusal.isVisible());
  assert.ok(statuses.every((status) => [422, 429].includes(status)), `${statuses}`);
  assert.ok(statuses.slice(0, 12).filter((status) => status === 422).length >= 10, `the first ten attempts were not all checked: ${statuses}`);
  await page.context().close();
});

// ---- Permissions.

test("a viewer sees no controls, and forged forms of a viewer are refused", async () => {
  const cookie = await service.createUser("reader", "viewer");
  const job = await service.job(key, "shop", "Looked at [[write a.txt|a]]");
  await service.waitForJob(key, "shop", job.id);
  const at = `/projects/shop/jobs/${job.id}`;
  const pages = ["/", "/?whose=everybody", "/jobs", "/projects", "/projects/shop/jobs", at, `${at}/changes`, `${at}/runs`, `${at}/events`, `${at}/record`,
    "/projects/shop/pulls", "/projects/shop/pulls/1", "/projects/shop/pulls/1/commits", "/projects/shop/pulls/1/files", "/projects/shop/inbox", "/system", "/usage", "/account", "/account/second-factor",
    ...["repository", "agent", "environment", "sandbox", "pull-requests", "comments", "limits", "templates", "use"].map((name) => `/projects/shop/settings/${name}`)];
  const page = await suite.page({ cookie });
  for (const where of pages) {
    await suite.open(page, where);
    // Disabled forms only show values.
    const forms = await page.locator("form[method=post]").evaluateAll((all) => all
      .filter((form) => [...form.elements].some((element) => !element.matches(":disabled, fieldset, [type=hidden]")))
      .map((form) => new URL(form.action).pathname));
    assert.deepEqual(forms.filter((form) => !/^\/(logout|account\/)/.test(form)), [], where);
    const controls = await page.getByRole("link", { name: /^(New|Create)/ }).allTextContents();
    assert.deepEqual(controls, [], where);
  }
  await page.context().close();
  const sent = {
    "/projects/shop/jobs": { prompt: "x" }, [`${at}/messages`]: { prompt: "x" }, [`${at}/again`]: { message: "x" }, [`${at}/cancel`]: {}, [`${at}/archive`]: {}, [`${at}/unarchive`]: {},
    [`${at}/messages/msg_00000000000000000000000000000001/withdraw`]: {},
    "/projects/shop/pulls/1/merge": {}, "/projects/shop/pulls/1/close": {}, "/projects/shop/pulls/1/comments": { body: "x" },
    "/projects/shop/pulls/1/lines": { path: "a.txt", side: "new", line: "1", body: "x" }, "/projects/shop/pulls/1/review": { body: "x" },
    "/projects/shop/pulls/1/drafts/1/remove": {}, "/projects/shop/pulls/1/comments/1/resolve": { resolved: "yes" }, "/projects/shop/pulls/1/update": {},
    [`${at}/changes/comments`]: { path: "a.txt", side: "new", line: "1", body: "x" },
    "/keys": { name: "x", where: "some", project: "shop", scope: "read", days: "7" },
    "/projects": { id: "x", where: "hosted", agent: "journeyman", model: "test/scripted" },
    "/projects/shop/settings/agent": { agent: "journeyman", model: "x" }, "/projects/shop/delete": { id: "shop" },
    "/projects/shop/settings/templates": { name: "x", prompt: "x" },
    "/users": { name: "x", role: "administrator" }, [`/users/${await idOf("reader")}/role`]: { role: "administrator" },
    [`/users/${await idOf("ada")}/disable`]: {}, [`/users/${await idOf("ada")}/link`]: {},
  };
  for (const [where, fields] of Object.entries(sent)) {
    const answer = await service.send(where, fields, { cookie });
    assert.equal(answer.status, 403, `POST ${where}`);
    assert.match(await answer.text(), /Not allowed/, `POST ${where}`);
  }
  for (const where of ["/keys", "/keys/new", "/projects/new", "/projects/shop/jobs/new", "/users", "/audit", "/audit/export"]) {
    assert.equal((await getPage(cookie, where)).status, 403, `GET ${where}`);
  }
});

test("a member sees neither users nor the audit log, and creates neither projects nor keys for all projects", async () => {
  const cookie = await service.createUser("author", "member");
  for (const where of ["/users", "/audit", "/audit/export", "/projects/new"]) {
    assert.equal((await getPage(cookie, where)).status, 403, `GET ${where}`);
  }
  // Only administrators can install agents.
  for (const [who, isShown] of [[cookie, false], [admin, true]]) {
    const form = await (await getPage(who, "/projects/shop/jobs/new")).text();
    assert.equal(form.includes("journeyman agent install"), isShown, `the form for a new job says how to install agents: ${!isShown}`);
  }
  const own = await idOf("author");
  const sent = {
    "/projects": { id: "x", where: "hosted", agent: "journeyman", model: "test/scripted" },
    "/projects/shop/settings/agent": { agent: "journeyman", model: "x" }, "/projects/shop/delete": { id: "shop" },
    "/projects/shop/settings/templates": { name: "x", prompt: "x" },
    "/users": { name: "x", role: "administrator" }, [`/users/${own}/role`]: { role: "administrator" }, [`/users/${await idOf("ada")}/link`]: {},
  };
  for (const [where, fields] of Object.entries(sent)) {
    assert.equal((await service.send(where, fields, { cookie })).status, 403, `POST ${where}`);
  }
  for (const fields of [{ where: "all" }, { where: "some" }, {}]) {
    const answer = await service.send("/keys", { name: "greedy", scope: "write", days: "7", ...fields }, { cookie });
    assert.ok([403, 422].includes(answer.status), `a key with ${JSON.stringify(fields)}: ${answer.status}`);
  }
  assert.ok(!(await (await getPage(admin, "/keys")).text()).includes("greedy"), "a member created a key for all projects");
  const made = await service.send("/keys", { name: "modest", scope: "write", days: "7", where: "some", project: "shop" }, { cookie });
  assert.equal(made.status, 303);
  // The secret is on the page of the redirect, for the session and with the cookie of the answer.
  const kept = made.headers.get("set-cookie").split(";")[0];
  const shown = await service.get(made.headers.get("location"), { cookie: `${cookie}; ${kept}` });
  const secret = (await shown.text()).match(/jmn_\w+/)[0];
  const more = await fetch(`${service.url}/v2/projects`, { method: "POST", headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" }, body: JSON.stringify({ id: "y", repository: "local:y" }) });
  assert.equal(more.status, 403, "the key of a member creates projects");
});

test("pages accept no keys, and the HTTP interface accepts no sessions", async () => {
  for (const given of [{ cookie: `journeyman=${key}` }, { headers: { authorization: `Bearer ${key}` } }]) {
    const answer = await service.get("/projects", given);
    assert.equal(answer.status, 303);
    assert.match(answer.headers.get("location"), /^\/login/);
  }
  const token = admin.split("=")[1];
  for (const given of [{ cookie: admin }, { headers: { authorization: `Bearer ${token}` } }, { headers: { authorization: `Basic ${Buffer.from(`x:${token}`).toString("base64")}` } }]) {
    for (const where of ["/v2/projects", "/git/shop.git/info/refs?service=git-upload-pack"]) {
      assert.equal((await service.get(where, given)).status, 401, `${where} ${JSON.stringify(Object.keys(given))}`);
    }
  }
});

test("the content security policy of every page allows only scripts and styles of the service", async () => {
  const pages = ["/", "/jobs", "/projects", "/keys", "/users", "/audit", "/system", "/usage", "/system/trusts", "/system/trusts/new", "/system/slack", "/system/slack/new", "/account", "/account/second-factor", "/account/passkeys", "/confirm/done", "/login/code", "/login/passkey", "/search", "/keyboard", "/secrets/none", "/projects/shop/jobs", "/projects/shop/settings/use", "/projects/none", "/login?next=/x", "/setup?link=x", "/docs", "/docs/reference/createJob", "/docs/none"];
  for (const where of pages) {
    for (const cookie of [admin, undefined]) {
      const answer = await service.get(where, { cookie });
      const policy = answer.headers.get("content-security-policy") ?? "";
      assert.ok(!/unsafe-|\*|https?:|data:|blob:/.test(policy), `${where}: ${policy}`);
      const rules = Object.fromEntries(policy.split(";").map((rule) => rule.trim().split(/\s+/)).map(([name, ...values]) => [name, values.join(" ")]));
      assert.equal(rules["default-src"], "'none'", where);
      assert.equal(rules["script-src"], "'self'", where);
      assert.equal(rules["frame-ancestors"], "'none'", where);
      assert.equal(rules["base-uri"], "'none'", where);
      assert.equal(rules["form-action"], "'self'", where);
      assert.equal(answer.headers.get("x-content-type-options"), "nosniff", where);
      // The documentation is public, and a browser may ask whether its copy is still current.
      const isDocs = where.startsWith("/docs") && answer.status === 200;
      assert.equal(answer.headers.get("cache-control"), isDocs ? "private, no-cache" : "no-store", where);
    }
  }
});

// ---- Untrusted text.

/** Fails if a payload has run or has left elements in the page. */
async function assertNoInjection(page, where) {
  const found = await page.evaluate(() => {
    const planted = ".pwned, [data-pwned], [onerror], [onload], [onfocus], [onmouseover], [ontoggle], iframe, object, embed, base, math, main style, main script, main [style], meta[http-equiv]";
    const elements = [...document.querySelectorAll(planted)].map((element) => element.outerHTML.slice(0, 200));
    const links = [...document.querySelectorAll("a[href], form[action], [formaction]")]
      .flatMap((element) => [element.getAttribute("href"), element.getAttribute("action"), element.getAttribute("formaction")])
      .filter((address) => address !== null && !/^(\/(?!\/|\\)|#|\?|https?:\/\/|mailto:)/i.test(address));
    const foreign = [...document.querySelectorAll(".prose img, .prose form, .prose input:not([type=checkbox][disabled]), .prose a[href^='/'], .prose a[href='https://evil.example/pixel.png'] > img")]
      .map((element) => element.outerHTML.slice(0, 200));
    return { elements, links, foreign, ran: window.__pwned !== undefined };
  });
  assert.deepEqual(found, { elements: [], links: [], foreign: [], ran: false }, where);
}

/** Opens a page with all its details, and checks it with [`assertNoInjection`]. */
async function openAndCheck(page, where, name = where) {
  await suite.open(page, where);
  // Expand everything, which also triggers the events of payloads.
  await page.evaluate(() => { for (const details of document.querySelectorAll("details")) details.open = true; });
  await assertNoInjection(page, name);
}

test("the check detects payloads that are not escaped", async () => {
  const page = await suite.page();
  for (const payload of [MARKUP, TIGHT, `<input value="${ATTRIBUTE}">`, "<a href='javascript:x'>x</a>"]) {
    suite.allow(/./);
    await page.setContent(payload);
    await assert.rejects(assertNoInjection(page, "a page with the payload"), /ran: true|pwned|javascript/);
  }
  await page.context().close();
});

const say = (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
let hostileJob;

test("output of an agent is added to an open page as text", async () => {
  await service.project(key, "evil", {
    files: { "README.md": ALL, [`${TIGHT.replaceAll("/", " ")}.html`]: `<p>before</p>\n${ALL}\n`, "old.js": `const a = "${TIGHT}";\n`, [`"quoted' & <b class=pwned>.rs`]: "fn main() {}\n" },
    model: `test/scripted`,
    pullRequest: { body: `${MARKDOWN}\n\n{prompt}`, labels: [TIGHT.slice(0, 50)] },
    environment: { PAYLOAD: `</textarea>${MARKUP}` },
    setup: `true # </textarea>${MARKUP}`,
  });
  const steps = [
    { sessionUpdate: "agent_thought_chunk", content: { type: "text", text: ALL } },
    { ask: MARKUP },
    { sessionUpdate: "plan", entries: [{ content: ALL, priority: "high", status: "pending" }, { content: TIGHT, priority: "low", status: `"><img class=pwned src=x>` }] },
    { sessionUpdate: "tool_call", toolCallId: `x" data-pwned="`, title: ALL, kind: MARKUP, status: "in_progress", rawInput: { command: ALL } },
    { sessionUpdate: "tool_call", toolCallId: "out", title: `${TIGHT}`, kind: "execute", status: "completed", rawInput: { [TIGHT]: ALL }, rawOutput: { text: ALL } },
    { sessionUpdate: "tool_call", toolCallId: "bare", title: EVENT, kind: "read", status: `failed" data-pwned="` },
    {
      sessionUpdate: "tool_call", toolCallId: "diff", title: "Edit", kind: "edit", status: "completed",
      content: [{ type: "diff", path: ALL, oldText: `a\n${TIGHT}\n`, newText: `a\n${ALL}\n` }, { type: "content", content: { type: "text", text: ALL } }],
      locations: [{ path: MARKUP, line: 1 }],
    },
    ...MARKDOWN.split("\n\n").flatMap((part) => [say(`${part}\n\n`), { sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "-" } }]),
    say(MARKDOWN),
    { sessionUpdate: MARKUP, content: { type: "text", text: ALL } },
    { write: `src/${TIGHT.replaceAll("/", " ")}.rs`, content: `// ${ALL}\nfn main() { let x = "${TIGHT}"; }\n` },
    { write: `${ATTRIBUTE.replaceAll("/", " ")}.html`, content: `<!-- ${ALL} -->\n<script>alert("${TIGHT}")</script>\n` },
    { write: "old.js", content: `const b = \`${ALL}\`;\n` },
    { write: "README.md", content: `${MARKDOWN}\n` },
    say("The end of it."),
  ];
  const prompt = script(`${TIGHT} ${ALL}\n${EVENT}`, [{ wait: startFile }, ...steps]);
  // The name of a ref can contain some payloads.
  const copy = await service.clone(key, "evil");
  await copy.git("push", "-q", copy.remote, `HEAD:refs/heads/${TIGHT}`);
  hostileJob = await service.job(key, "evil", prompt, { agent: "fake", title: `${MARKUP}`.slice(0, 200), ref: TIGHT, branch: `work-${TIGHT}`, model: MARKUP.slice(0, 200) });
  const page = await suite.page({ cookie: admin });
  await suite.open(page, `/projects/evil/jobs/${hostileJob.id}`);
  await page.locator("#job-head .badge.running").or(page.getByText("opened a session")).first().waitFor();
  fs.writeFileSync(startFile, "");
  await page.locator("#thread").getByText("The end of it.").first().waitFor();
  // Earlier steps are folded.
  await page.locator("#thread .prose", { hasText: "window.__pwned" }).last().waitFor();
  await page.evaluate(() => { for (const details of document.querySelectorAll("details")) details.open = true; });
  await assertNoInjection(page, "the page while the agent works");
  await service.waitForJob(key, "evil", hostileJob.id);
  await page.locator("#job-head .badge.completed").waitFor();
  await assertNoInjection(page, "the page after the agent's work");
});

test("the pages of a job show the output and the changes of the agent as text", async () => {
  const page = await suite.page({ cookie: admin });
  for (const tab of ["", "/changes", "/changes?view=split", "/runs", "/events", "/record"]) {
    await openAndCheck(page, `/projects/evil/jobs/${hostileJob.id}${tab}`, `the job${tab}`);
    assert.match(await page.locator("main").textContent(), /__pwned/, `the payload is not shown: ${tab}`);
  }
  for (const where of ["/projects/evil/jobs", "/jobs", "/?whose=everybody"]) await openAndCheck(page, where);
  for (const where of ["/system", "/usage"]) await openAndCheck(page, where);
  await page.context().close();
});

test("commits, descriptions and comments of a pull request are shown as text", async () => {
  const record = await service.api(key, "GET", `/agent/evil/job/${hostileJob.id}`);
  const where = new URL(record.prLink).pathname;
  const copy = await service.clone(key, "evil", `work-${TIGHT}`);
  copy.write({ "more.txt": `${ALL}\n` });
  await copy.commit(`${MARKUP}\n\n${ALL}`, { name: "x' data-pwned onload=window.__pwned=1", email: '"><img/class=pwned/src=x/onerror=window.__pwned=1>@evil.example' });
  await copy.git("push", "-q", copy.remote, `HEAD:refs/heads/work-${TIGHT}`);
  const page = await suite.page({ cookie: admin });
  await suite.open(page, where);
  for (const body of [ALL, MARKDOWN]) {
    await page.getByLabel("Comment", { exact: true }).fill(body);
    await page.getByRole("checkbox", { name: "Send it to the agent" }).uncheck();
    await page.getByRole("button", { name: "Comment" }).click();
    await page.getByText("The comment is added.").waitFor();
  }
  for (const view of ["", "/files", "/files?view=split", `/files?view=${encodeURIComponent(ALL)}`, "/commits"]) await openAndCheck(page, `${where}${view}`);
  assert.ok(await page.locator(".commits", { hasText: "__pwned" }).count(), "the commit is not shown");
  await openAndCheck(page, "/projects/evil/pulls");
  await page.context().close();
});

test("the reason of a failed job is shown as text", async () => {
  const failed = await service.job(key, "evil", script("Fails", [{ fail: ALL }]), { agent: "fake" });
  await service.waitForJob(key, "evil", failed.id);
  const page = await suite.page({ cookie: admin });
  await openAndCheck(page, `/projects/evil/jobs/${failed.id}`);
  assert.match(await page.locator("#job-outcome").textContent(), /__pwned/, "the reason is not shown");
  await openAndCheck(page, `/projects/evil/jobs/${failed.id}/runs`);
  await page.context().close();
});

test("names and settings are shown as text, in pages and in refused forms", async () => {
  service.key(MARKUP.slice(0, 100));
  service.key(ATTRIBUTE);
  const page = await suite.page({ cookie: admin });
  for (const where of ["/keys", "/audit", "/users", "/account", "/projects",
    ...["repository", "agent", "environment", "sandbox", "pull-requests", "comments", "limits", "templates", "use"].map((name) => `/projects/evil/settings/${name}`)]) {
    await openAndCheck(page, where);
  }
  // The page shows accepted values, and the form shows refused ones again.
  const forms = {
    "/projects/new": { "#id": "x", "#model-other": ALL, "#ref": ALL },
    "/projects/evil/settings/agent": { "#model-other": ATTRIBUTE, "#setup": `</textarea>${ALL}` },
    "/projects/evil/settings/pull-requests": { "#title": ALL, "#body": `</textarea>${ALL}`, "#labels": TIGHT, "#base": ALL },
    "/projects/evil/settings/comments": { "#mention": ALL, "#settleSeconds": ATTRIBUTE },
    "/projects/evil/settings/sandbox": { "#egress": `</textarea>${ALL}`, "#image": ALL },
    "/projects/evil/settings/environment": { "#environment": `</textarea>${ALL}`, "#secret-name": ALL },
    "/projects/evil/settings/limits": { "#runSeconds": ATTRIBUTE },
    "/users": { "#name": MARKUP.slice(0, 100) },
    "/keys/new": { "#name": ATTRIBUTE, "#addresses": ALL },
    "/projects/evil/settings/templates/new": { "#name": MARKUP.slice(0, 80), "#description": ATTRIBUTE, "#prompt": `</textarea>${ALL}` },
    "/projects/evil/jobs/new": { "#prompt": "x", "#ref": ALL, "#branch": ALL },
  };
  suite.allow(/^422 POST /);
  for (const [where, fields] of Object.entries(forms)) {
    await suite.open(page, where);
    await page.evaluate(() => { for (const details of document.querySelectorAll("details:not(.menu)")) details.open = true; });
    for (const [field, value] of Object.entries(fields)) {
      if (field === "#model-other") await page.locator("#model").selectOption("other");
      await page.locator(field).evaluate((element) => { element.removeAttribute("maxlength"); element.removeAttribute("pattern"); });
      await page.locator(field).fill(value);
    }
    const [answer] = await Promise.all([
      page.waitForResponse((answer) => answer.request().method() === "POST"),
      page.locator("main form .button.primary").first().click(),
    ]);
    assert.ok(answer.status() < 500, `POST ${where}: ${answer.status()}`);
    await page.waitForLoadState();
    await waitUntil("the response is shown", () => page.evaluate(() => !document.documentElement.hasAttribute("aria-busy")));
    await assertNoInjection(page, `the response to the form of ${where}`);
  }
  await page.context().close();
});

test("text in a URL is shown as text", async () => {
  const page = await suite.page({ cookie: admin });
  const text = encodeURIComponent(ALL);
  for (const where of [`/projects/evil/jobs?q=${text}`, `/projects?done=${text}`, `/projects?done=saved&undo=${text}`]) {
    await openAndCheck(page, where);
  }
  suite.allow(/^4\d\d GET /);
  for (const where of [`/projects/evil/jobs?status=${text}`, `/projects/evil/jobs?after=${text}`, `/projects/${text}`, `/projects/evil/jobs/${text}`, `/projects/evil/pulls/${text}`, `/projects/evil/settings/${text}`, `/audit?before=${text}`, `/projects/evil/jobs/${hostileJob.id}?before=${text}`]) {
    await openAndCheck(page, where);
  }
  await page.context().close();
  const signedOut = await suite.page();
  await openAndCheck(signedOut, `/login?next=${text}`);
  suite.expect(/^422 POST \/login/);
  await signedOut.getByLabel("Name").fill(ALL);
  await signedOut.getByLabel("Password").fill("wrong wrong wrong");
  await signedOut.getByRole("button", { name: "Sign in" }).click();
  await signedOut.getByRole("alert").waitFor();
  await assertNoInjection(signedOut, "a sign-in that was refused");
  await openAndCheck(signedOut, `/setup?link=${text}`);
  await signedOut.context().close();
});

// ---- The event streams that the first test has opened.

test("event streams end when their user is disabled", async () => {
  assert.deepEqual(Object.keys(streams), ["job", "jobs"], "the streams were not opened");
  // The job still runs, so nothing else ends the streams.
  await Promise.all(Object.values(streams));
});
