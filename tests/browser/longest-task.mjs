// Measures the longest task of the page of a job to which 511 events are added at once: `node longest-task.mjs` prints a
// line of JSON. The benchmark compares the two times in it; the tests do not measure times.

import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { Service, Suite, launch, makeFolder, record, script } from "./lib.mjs";
import { readFiles } from "./sample.mjs";

/** The number of times that the reference work is done. The reference is the median of its times. */
const REPETITIONS = 9;

/**
 * Returns the CPU times of the tasks in a trace, in milliseconds, longest first; without those that answer requests of
 * Playwright.
 */
function taskTimes(events) {
  const requests = events.filter((event) => event.args.chrome_mojo_event_info?.mojo_interface_tag === "blink.mojom.DevToolsSession");
  const contains = (task, { ts, pid }) => pid === task.pid && ts >= task.ts && ts < task.ts + task.dur;
  const tasks = events.filter((event) => event.name.endsWith("RunTask") && !requests.some((request) => contains(event, request)));
  return tasks.map((task) => (task.tdur ?? 0) / 1000).sort((one, other) => other - one);
}

/** Does a fixed amount of work several times in a page, each time in a task: it sorts the same 50,000 numbers. */
function work(page, repetitions) {
  return page.evaluate(async (repetitions) => {
    for (let count = 0; count < repetitions; count += 1) {
      await new Promise((done) => setTimeout(() => {
        let seed = 1;
        const numbers = Array.from({ length: 50_000 }, () => (seed = (seed * 48_271) % 2_147_483_647));
        numbers.sort((one, other) => one - other);
        done();
      }));
    }
  }, repetitions);
}

/**
 * Measures in Chromium: `longestTaskMs` is the CPU time of the longest task of the page while 511 events arrive, and
 * `referenceMs` is that of a fixed amount of work in the same page. Their ratio does not depend on the speed of the machine.
 */
export async function measureLongestTask() {
  const service = await Service.start({ agentName: "fake" });
  const suite = Object.assign(new Suite(), { service, browser: await launch() });
  try {
    const cookie = await service.createAdministrator("ada");
    const key = service.key();
    await service.project(key, "shop", { model: "test/scripted" });
    const file = path.join(makeFolder("signals"), "go");
    const job = await service.job(key, "shop", script("Reads many files", readFiles(file)), { agent: "fake" });
    const page = await suite.page({ cookie });
    await suite.open(page, `/projects/shop/jobs/${job.id}`);
    await page.locator("#thread").getByText("Begins.").waitFor();
    const events = await record(page, async () => {
      fs.writeFileSync(file, "");
      await page.locator("#thread").getByText("Has read them all.").waitFor();
    });
    const [longest] = taskTimes(events);
    const reference = taskTimes(await record(page, () => work(page, REPETITIONS)))[Math.floor(REPETITIONS / 2)];
    if (!longest || !reference) throw new Error("the trace has no tasks");
    await service.api(key, "POST", `/agent/shop/job/${job.id}/cancel`);
    return { longestTaskMs: longest, referenceMs: reference };
  } finally {
    await suite.browser.close();
    await service.stop();
  }
}

if (fs.realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) console.log(JSON.stringify(await measureLongestTask()));
