// Tests of the documentation for developers: accessibility, widths and themes of all kinds of pages, requests to other
// hosts, pages without scripts, the keyboard, and the examples for curl.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { Suite, assertNone, axe, overflow, screenshot } from "./lib.mjs";

const suite = await Suite.start({ flags: ["--sandbox", "none"] });
const test = suite.test.bind(suite);
const { service } = suite;

const PAGES = {
  overview: "/docs",
  quickstart: "/docs/guides/quickstart",
  jobs: "/docs/guides/jobs",
  webhooks: "/docs/guides/webhooks",
  limits: "/docs/guides/limits",
  libraries: "/docs/guides/client-libraries",
  reference: "/docs/reference",
  operation: "/docs/reference/createJob",
  "operation-project": "/docs/reference/changeProject",
  events: "/docs/reference/events",
  errors: "/docs/reference/errors",
  changelog: "/docs/changelog",
};

const admin = await service.createAdministrator("ada");
const key = service.key("docs");

for (const [name, where] of Object.entries(PAGES)) {
  test(`the page is accessible and not too wide, in both themes, and loads nothing from elsewhere: ${name}`, async () => {
    for (const colorScheme of ["light", "dark"]) {
      const page = await suite.page({ colorScheme });
      const foreign = [];
      page.on("request", (request) => {
        if (new URL(request.url()).origin !== service.url) foreign.push(request.url());
      });
      assert.equal((await suite.open(page, where)).status(), 200);
      for (const summary of await page.locator("main details:not([open]) > summary").all()) {
        if (await summary.isVisible()) await summary.click();
      }
      assertNone(await axe(page), `violations with the ${colorScheme} theme`);
      for (const width of [390, 1024, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        assert.equal(await overflow(page), null, `${width} px`);
      }
      await screenshot(page, `docs-${name}-${colorScheme}`);
      assertNone(foreign, "requests to other hosts");
      await page.context().close();
    }
  });
}

test("a page that does not exist says so", async () => {
  suite.expect(/^404 GET/);
  const page = await suite.page();
  assert.equal((await suite.open(page, "/docs/guides/nothing")).status(), 404);
  await page.getByText("There is no such page").waitFor();
  assertNone(await axe(page));
});

test("the header of a signed-in user has the pages of the dashboard", async () => {
  const page = await suite.page({ cookie: admin });
  await suite.open(page, "/docs");
  await page.locator(".mainnav").getByText("Projects").waitFor();
  assertNone(await axe(page));
});

test("without scripts, the languages of an example can be chosen", async () => {
  const page = await suite.page({ javaScriptEnabled: false });
  await suite.open(page, "/docs/reference/createJob");
  await page.locator(".snippet-tabs > label", { hasText: "TypeScript" }).click();
  assert.ok(await page.locator("#example-typescript").isVisible());
  assert.ok(!await page.locator("#example-curl").isVisible());
});

test("the chosen language is remembered on the next page", async () => {
  const page = await suite.page();
  await suite.open(page, "/docs/reference/createJob");
  await page.locator(".snippet-tabs > label", { hasText: "Python" }).click();
  await suite.open(page, "/docs/reference/sendMessage");
  assert.ok(await page.locator("#example-python").isVisible());
});

test("the key / leads to the filter, which shows the pages with the text", async () => {
  const page = await suite.page();
  await suite.open(page, "/docs");
  await page.keyboard.press("/");
  await page.keyboard.type("rotate");
  assert.ok(await page.locator('.docs-nav a[href="/docs/reference/rotateKey"]').isVisible());
  assert.ok(!await page.locator('.docs-nav a[href="/docs/guides/jobs"]').isVisible());
  await page.keyboard.press("Escape");
  assert.ok(await page.locator('.docs-nav a[href="/docs/guides/jobs"]').isVisible());
});

test("an example can be copied", async () => {
  const page = await suite.page();
  await suite.open(page, "/docs/reference/getMe");
  await page.locator(".snippet-pane .copy:visible").click();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^curl .*\/v2\/me/);
});

// Without a workspace of Slack, nothing has the ID of these examples.
const OF_SLACK = ["getSlackWorkspace", "listSlackEvents", "listSlackPosts"];

test("the examples for curl that read something are answered with 200, and those of a Slack workspace with 404", async () => {
  await service.project(key, "shop");
  const job = await service.job(key, "shop", "Say hello [[write hello.txt|Hello]]");
  await service.waitForJob(key, "shop", job.id, 60_000);
  const read = async (where) => (await fetch(`${service.url}${where}`, { headers: { authorization: `Bearer ${key}` } })).json();
  const message = (await read(`/v2/agent/shop/job/${job.id}/messages`)).messages[0].id;
  const { id: keyId } = (await read("/v2/me")).key;
  const hook = await service.api(key, "POST", "/projects/shop/webhooks", { url: "https://hooks.example.com/journeyman" });
  await service.api(key, "POST", "/code-hosts", { id: "gitlab", kind: "gitlab", url: "http://127.0.0.1:9" });
  const rules = { name: "ci", issuer: "https://ci.example.com", claims: { project: "shop" }, projects: ["shop"] };
  const trust = await service.api(key, "POST", "/oidc/trusts", rules);
  const document = await read("/openapi.json");
  const page = await suite.page();
  const failed = [];
  for (const [, item] of Object.entries(document.paths)) {
    if (!item.get) continue;
    await suite.open(page, `/docs/reference/${item.get.operationId}`);
    const shown = await page.locator("#example-curl").textContent();
    const line = shown
      .replace(/job_019aa3bb\w+/, job.id).replace(/msg_019aa3bb\w+/, message)
      .replace(/key_019aa3bb\w+/, keyId).replace(/hook_019aa3bb\w+/, hook.id).replace(/trust_019aa3bb\w+/, trust.id)
      .replace(/^curl --fail-with-body/, "curl -s -o /dev/null --max-time 2 -w '%{http_code}'");
    const env = { PATH: process.env.PATH, JOURNEYMAN_URL: service.url, JOURNEYMAN_KEY: key };
    const { stdout, error } = spawnSync("sh", ["-c", line], { env, encoding: "utf8" });
    const expected = OF_SLACK.includes(item.get.operationId) ? "404" : "200";
    if (error || stdout !== expected) failed.push(`${item.get.operationId}: ${stdout} ${error ?? ""}\n${line}`);
  }
  assertNone(failed, "examples with another answer");
});

test("on a phone, a page begins with its text, and the navigation is below it", async () => {
  const page = await suite.page({ viewport: { width: 390, height: 844 } });
  await suite.open(page, "/docs/reference/revokeKey");
  assert.equal(await page.evaluate(() => scrollY), 0);
  const [text, navigation] = await Promise.all(["main > h1", ".docs-nav"].map((part) => page.locator(part).boundingBox()));
  assert.ok(text.y < navigation.y, `the text begins at ${text.y} px, the navigation at ${navigation.y} px`);
});
