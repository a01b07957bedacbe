// Tests of pages in use: the keyboard, pages without scripts, layout shifts, and long conversations.

import assert from "node:assert/strict";
import { PASSWORD, Suite, assertNone, drawn, waitUntil } from "./lib.mjs";
import { TURNS, createJobs, pullPath } from "./sample.mjs";

const suite = await Suite.start({ agentName: "fake" });
const test = suite.test.bind(suite);
const { service } = suite;

const admin = await service.createAdministrator("ada");
const key = service.key("CI of the shop");
const jobs = await createJobs(service, key, { isLarge: true });
const at = (job, tab = "") => `/projects/shop/jobs/${jobs[job].id}${tab}`;
const pageOfPull = () => pullPath(service, key, jobs.done);

let shared;
/** Returns the page of the administrator, in a wide window; it is reused. */
async function adminPage() {
  shared ??= await suite.page({ cookie: admin });
  await shared.setViewportSize({ width: 1280, height: 900 });
  return shared;
}

test("on a phone, a long title leaves the menu of the account on the first line", async () => {
  const page = await adminPage();
  await page.setViewportSize({ width: 390, height: 844 });
  await suite.open(page, at("long"));
  const [brand, menu] = await Promise.all([".topbar > .brand", ".topbar > .account"].map((part) => page.locator(part).boundingBox()));
  assert.ok(menu.y < brand.y + brand.height, `the menu begins at ${menu.y} px, below the brand`);
  assert.ok(menu.x + menu.width <= 390, `the menu ends at ${menu.x + menu.width} px`);
});

test("a diff in a tool call is shown line by line", async () => {
  const page = await adminPage();
  await suite.open(page, at("done"));
  const patch = page.locator("pre.patch").first();
  await page.locator(".steps-link").first().click();
  await page.locator("details.tool", { has: patch }).locator("summary").click();
  const lines = await patch.locator("span").evaluateAll((all) => all.map((span) => ({ text: span.textContent.trim(), top: span.getBoundingClientRect().top })));
  assert.ok(lines.length >= 4, JSON.stringify(lines));
  assertNone(lines.slice(1).filter((line, place) => line.top <= lines[place].top).map((line) => line.text), "lines that are not below the line before");
});

test("text in a box is at least 8 px from the edge", async () => {
  const page = await adminPage();
  await suite.open(page, await pageOfPull());
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
  const page = await adminPage();
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
  ["merging", pageOfPull, /^button Merge/], ["saving settings", "/projects/shop/settings/limits", /^button Save/],
]) {
  test(`the Tab key reaches ${what}, and every element on the way is visible`, async () => {
    const page = await adminPage();
    await suite.open(page, typeof where === "function" ? await where() : where);
    // Start at the top of the page, even if it focuses an element.
    await page.evaluate(() => { document.activeElement?.blur(); });
    const passed = await tabTo(page, wanted);
    assertNone(passed.filter((one) => !one.isVisible).map((one) => one.name), "focused elements that are not visible");
  });
}

test("Escape closes a menu or a confirmation, and returns the focus to the element that opened it", async () => {
  const page = await adminPage();
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
  });
  await page.getByRole("heading", { name: "Without scripts" }).waitFor();
  await completed("I am done with it.");
  await page.getByLabel("Message to the agent").fill("Again [[say This is the second answer.]] [[append plain.txt|y]]");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator("#thread, #job-queue").getByText("Again").first().waitFor();
  await completed("This is the second answer.");
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
      // The page has loaded with its images.
      await page.evaluate(async () => { await document.fonts.ready; });
      await drawn(page);
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

test("a page shows part of a long conversation, with a link to earlier steps", async () => {
  const page = await adminPage();
  await suite.open(page, at("large"));
  const items = page.locator("#thread li[id^=e]");
  const count = await items.count();
  assert.ok(count > 50 && count <= 400, `${count} items`);
  assert.equal(await page.getByText("Look at file 0", { exact: true }).count(), 0);
  const first = await items.first().getAttribute("id");
  await page.getByRole("link", { name: /^Show (more than )?[\d,]+ earlier steps?$/ }).click();
  await page.waitForURL(/before=/);
  await waitUntil("the page shows earlier steps", async () => Number((await items.last().getAttribute("id")).slice(1)) < Number(first.slice(1)));
  await page.getByRole("link", { name: "Show later steps" }).click();
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
    where = text.match(/<p class="earlier"><a href="([^"]+)">Show (?:(?:more than )?[\d,]+ earlier step|earlier event)/)?.[1];
  }
  assert.deepEqual(seen, Array.from({ length: TURNS }, (_, number) => number));
});
