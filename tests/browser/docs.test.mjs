// Tests of the documentation for developers: its navigation, its examples, pages without scripts, and the keyboard. The
// whole-program tests run the examples for curl.

import assert from "node:assert/strict";
import { Suite, copyWith } from "./lib.mjs";

const suite = await Suite.start({ flags: ["--sandbox", "none"] });
const test = suite.test.bind(suite);
const { service } = suite;

const admin = await service.createAdministrator("ada");

test("a page that does not exist says so", async () => {
  suite.expect(/^404 GET/);
  const page = await suite.page();
  assert.equal((await suite.open(page, "/docs/guides/nothing")).status(), 404);
  await page.getByText("There is no such page").waitFor();
});

test("the header of a signed-in user has the pages of the dashboard", async () => {
  const page = await suite.page({ cookie: admin });
  await suite.open(page, "/docs");
  await page.locator(".mainnav").getByText("Projects").waitFor();
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
  assert.match(await copyWith(page, page.locator(".snippet-pane .copy:visible")), /^curl .*\/v2\/me/);
});

test("on a phone, a page begins with its text, and the navigation is below it", async () => {
  const page = await suite.page({ viewport: { width: 390, height: 844 } });
  await suite.open(page, "/docs/reference/revokeKey");
  assert.equal(await page.evaluate(() => scrollY), 0);
  const [text, navigation] = await Promise.all(["main > h1", ".docs-nav"].map((part) => page.locator(part).boundingBox()));
  assert.ok(text.y < navigation.y, `the text begins at ${text.y} px, the navigation at ${navigation.y} px`);
});
