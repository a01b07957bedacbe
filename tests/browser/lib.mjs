// Helpers of the tests: a service and a browser for each test file, checks of pages, and reports of failures.

import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { after, test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium, firefox } from "playwright-core";

const here = path.dirname(fileURLToPath(import.meta.url));
/** The path of the program under test. */
export const program = path.resolve(process.env.JOURNEYMAN ?? path.join(here, "../../target/debug/journeyman"));
/** The folder of screenshots. */
export const shots = path.resolve(process.env.SHOTS ?? path.join(here, "../../target/screenshots"));
const axeSource = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Whether the tests use Firefox, which the environment variable BROWSER selects, and not Chromium. */
const isFirefox = process.env.BROWSER === "firefox";

/**
 * The time limits of a test and of a single wait, in milliseconds. Only a hang reaches them: a slow or busy machine may
 * take many times as long as usual. All tests use these limits, and none checks how long something takes.
 */
export const TEST_MS = 1_800_000;
export const WAIT_MS = 300_000;

/**
 * The delays, in milliseconds, of the timers with which pages remove what they show for a moment, such as a toast, and
 * forget the first of two keys. In the tests, these timers take ten times as long, so that a slow test does not come too
 * late. [`expire`] ends them.
 */
const MOMENTS = [1200, 2000, 6000];
const MOMENT_FACTOR = 10;

/** A password that the policy accepts. */
export const PASSWORD = "lantern orbit walnut sieve";

/** Calls `check` until it returns a truthy value, and returns that; `what` describes the condition for the error. */
export async function waitUntil(what, check) {
  const end = Date.now() + WAIT_MS;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out after ${WAIT_MS / 1000} s: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** Creates a temporary folder that other users can pass through, as sandboxes need. It is removed at exit. */
export function makeFolder(name) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), `journeyman-browser-${name}-`));
  fs.chmodSync(made, 0o755);
  process.on("exit", () => fs.rmSync(made, { recursive: true, force: true }));
  return made;
}

let scripts;
let scriptCount = 0;

/** Writes a configuration file with the agent `fake` (agent.mjs), which reports `name` as its name. */
function fakeAgentConfig(name) {
  scripts = makeFolder("scripts");
  const file = path.join(makeFolder("config"), "journeyman.toml");
  const command = JSON.stringify([process.execPath, path.join(here, "agent.mjs")]);
  const environment = `{ AGENT_NAME = ${JSON.stringify(name)}, SCRIPTS = ${JSON.stringify(scripts)} }`;
  fs.writeFileSync(file, `[agents.fake]\nname = "Fake agent"\ncommand = ${command}\nenvironment = ${environment}\n`);
  return file;
}

/** Returns a prompt that makes the agent `fake` run these steps. */
export function script(text, steps) {
  const name = scriptCount += 1;
  fs.writeFileSync(path.join(scripts, `${name}.json`), JSON.stringify(steps));
  return `${text}\n\n(script ${name})`;
}

/** A shell command that, like the directive `[[hold]]`, ends when [`Service.release`] is called for the job. */
export const HELD = "touch ~/held; until [ -e ~/released ]; do sleep 0.1; done";

/** A running service. */
export class Service {
  /**
   * Starts a service on a free port; `flags` are additional arguments of `serve`. With `agentName`, the service also
   * has the agent `fake` (agent.mjs), which reports that name, and no sandbox, because the agent needs Node.js.
   */
  static async start({ flags = [], environment = {}, agentName } = {}) {
    const service = new Service();
    service.data = makeFolder("data");
    if (agentName) flags = [...flags, "--sandbox", "none", "--config", fakeAgentConfig(agentName)];
    service.log = "";
    // Settings in the environment of the tests must not affect the service.
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("JOURNEYMAN"));
    // In many files, a job runs until the end, and others run at the same time, also on a machine with one processor.
    service.environment = { ...Object.fromEntries(inherited), JOURNEYMAN_WORKERS: "2", ...environment };
    service.flags = ["--data-dir", service.data, "--log", "info", "--grace", "1s", ...flags];
    process.on("exit", () => service.process.kill("SIGKILL"));
    const output = service.spawn("127.0.0.1:0");
    service.link = await service.waitUntil("the link of the first administrator", () => output().match(/http\S+\/setup\?link=\S+/)?.[0]);
    service.url = new URL(service.link).origin;
    return service;
  }

  /** Starts the process; returns a function that returns its standard output so far. */
  spawn(address) {
    this.hasExited = false;
    const child = spawn(program, ["serve", "--listen", address, ...this.flags], { env: this.environment, stdio: ["ignore", "pipe", "pipe"] });
    this.process = child;
    this.exited = new Promise((done) => child.once("exit", (code, signal) => { this.hasExited = true; done(signal ?? code); }));
    child.once("error", (error) => { this.log += `${program}: ${error.message}\n`; this.hasExited = true; });
    let output = "";
    child.stdout.on("data", (data) => { output += data; });
    // Remove the escape sequences of colors.
    child.stderr.on("data", (data) => { this.log += String(data).replace(/\x1b\[[\d;]*m/g, ""); });
    return () => output;
  }

  /** Like the function [`waitUntil`], but fails as soon as the process has exited. */
  waitUntil(what, check) {
    return waitUntil(what, () => {
      if (this.hasExited) throw new Error(`the service did not start: ${program}\n${this.log}`);
      return check();
    });
  }

  /** Stops the service and starts it again, at the same address. */
  async restart() {
    await this.stop();
    this.spawn(new URL(this.url).host);
    await this.waitUntil("the service answers again", () => fetch(`${this.url}/login`).then((answer) => answer.ok, () => false));
  }

  /** Stops the service; fails if it does not exit with status 0. */
  async stop() {
    if (this.hasExited) return;
    this.process.kill("SIGTERM");
    const timer = setTimeout(() => this.process.kill("SIGKILL"), WAIT_MS);
    const status = await this.exited;
    clearTimeout(timer);
    assert.equal(status, 0, `the service did not exit cleanly\n${this.log}`);
  }

  /** Runs a command of the program on the data of the service; returns its output. */
  command(...args) {
    const all = [...args, "--data-dir", this.data];
    return execFileSync(program, all, { encoding: "utf8", env: this.environment, stdio: ["ignore", "pipe", "pipe"] }).trim();
  }

  /** Creates an API key; for all projects unless a flag names one. */
  key(name = "tests", ...flags) {
    const output = this.command("key", "create", "--name", name, "--expires", "7days", ...flags);
    return output.match(/\S+$/)[0];
  }

  /** Adds a user; returns the link with which the user sets a password. */
  addUser(name, role) {
    // The command does not know the port.
    const link = new URL(this.command("user", "add", name, "--role", role).match(/http\S+link=\S+/)[0]);
    return this.url + link.pathname + link.search;
  }

  /** Adds a user and sets the password without a browser; returns the `Cookie` header of the session. */
  async createUser(name, role) {
    return this.useLink(this.addUser(name, role));
  }

  /** Creates the first administrator without a browser; returns the `Cookie` header of the session. */
  async createAdministrator(name = "ada") {
    return this.useLink(this.link, name);
  }

  /** Sets a password through a link; returns the `Cookie` header of the session. */
  async useLink(link, name) {
    const answer = await this.send("/setup", { link: new URL(link).searchParams.get("link"), name, password: PASSWORD });
    assert.equal(answer.status, 303, await answer.text());
    return cookieOf(answer);
  }

  /** Sends a form as a browser does, from a page of the service unless `headers` say otherwise. */
  send(where, fields, { cookie, headers = { origin: this.url } } = {}) {
    const present = Object.entries(fields).filter(([, value]) => value !== undefined);
    return fetch(this.url + where, {
      method: "POST",
      redirect: "manual",
      headers: { ...headers, ...(cookie && { cookie }) },
      body: new URLSearchParams(present),
    });
  }

  /** Requests a page. */
  get(where, { cookie, headers = {} } = {}) {
    return fetch(this.url + where, { redirect: "manual", headers: { ...headers, ...(cookie && { cookie }) } });
  }

  /** Calls the HTTP interface; returns the body of the response, and fails if the status is not 2xx. */
  async api(key, method, where, body) {
    const answer = await fetch(`${this.url}/v2${where}`, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body && { "content-type": "application/json" }) },
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${where}: ${answer.status} ${text}`);
    return text && JSON.parse(text);
  }

  /** Creates a project on the built-in code host with these files; returns a working copy. */
  async project(key, id, { files = { "README.md": "# Shop\n" }, ...settings } = {}) {
    await this.api(key, "POST", "/projects", { id, repository: `local:${id}`, ...settings });
    return this.push(key, id, files);
  }

  /** Returns the URL of the repository of a project, with a key. */
  remote(key, id) {
    return `${this.url.replace("//", `//git:${key}@`)}/git/${id}.git`;
  }

  /** Returns a working copy of a branch. */
  async clone(key, id, branch = "main") {
    const copy = new WorkingCopy(this.remote(key, id));
    await copy.git("fetch", "-q", copy.remote, `refs/heads/${branch}`);
    await copy.git("reset", "-q", "--hard", "FETCH_HEAD");
    return copy;
  }

  /** Pushes these files as `main`; returns the working copy. */
  async push(key, id, files) {
    const copy = new WorkingCopy(this.remote(key, id));
    copy.write(files);
    await copy.commit("Begin");
    await copy.git("push", "-q", copy.remote, "HEAD:main");
    return copy;
  }

  /** Creates a job; returns its record. */
  job(key, project, prompt, more = {}) {
    return this.api(key, "POST", `/agent/${project}/job`, { prompt, ...more });
  }

  /** Waits until a job is no longer active; returns its record. */
  waitForJob(key, project, id) {
    return waitUntil(`${id} is no longer active`, async () => {
      const job = await this.api(key, "GET", `/agent/${project}/job/${id}`);
      return job.status !== "active" && job;
    });
  }

  /** Waits until the test model carries out `[[hold]]` or [`HELD`] in a job, and ends it. */
  async release(id) {
    const home = path.join(this.data, "workspaces", id, "home");
    await waitUntil(`the agent of ${id} waits`, () => fs.existsSync(path.join(home, "held")));
    fs.writeFileSync(path.join(home, "released"), "");
  }
}

/** Returns the `Cookie` header for the cookie that a response sets. */
export function cookieOf(answer) {
  return answer.headers.get("set-cookie")?.split(";")[0];
}

/** A working copy of a repository. */
export class WorkingCopy {
  constructor(remote) {
    this.remote = remote;
    this.folder = makeFolder("copy");
    execFileSync("git", ["init", "-q", "-b", "main"], { cwd: this.folder });
  }

  write(files) {
    for (const [name, content] of Object.entries(files)) {
      const file = path.join(this.folder, name);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, content);
    }
  }

  /** Runs git without blocking this process, so that the browser keeps working during a push. */
  async git(...args) {
    const environment = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" };
    const result = await promisify(execFile)("git", args, { cwd: this.folder, env: environment, encoding: "utf8" });
    return result.stdout.trim();
  }

  async commit(message, { name = "Grace", email = "grace@example.com" } = {}) {
    await this.git("add", "-A");
    await this.git("-c", `user.name=${name}`, "-c", `user.email=${email}`, "-c", "core.quotepath=off", "commit", "-qm", message);
  }
}

/** Collects the problems of pages: errors and warnings in the console, exceptions, dialogs, failed requests. */
class Monitor {
  /** The problems that were not expected. */
  problems = [];
  /** Patterns of problems that must still occur. */
  expected = [];
  /** Patterns of problems that may occur. */
  allowed = [];

  add(problem) {
    if (this.allowed.some((pattern) => pattern.test(problem))) return;
    const found = this.expected.findIndex((pattern) => pattern.test(problem));
    if (found < 0) this.problems.push(problem);
    else this.expected.splice(found, 1);
  }

  page(page) {
    const address = (url) => url.replace(/^https?:\/\/[^/]+/, "").replace(/link=[0-9a-f]+/, "link=…");
    page.on("console", (message) => {
      // The handler of responses below adds these, with their status.
      if (message.text().startsWith("Failed to load resource")) return;
      if (["error", "warning"].includes(message.type())) this.add(`console ${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => {
      // Turbo does not catch the rejection of a page that it reads when the next visit cancels the request.
      if (error.name === "AbortError" && error.stack?.includes("FetchRequest.cancel")) return;
      this.add(`exception: ${error.stack ?? error.message}`);
    });
    page.on("dialog", (dialog) => {
      this.add(`dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    page.on("response", (answer) => {
      if (answer.status() >= 400) this.add(`${answer.status()} ${answer.request().method()} ${address(answer.url())}`);
    });
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // A page closes its stream and stops loading when the browser leaves it.
      if (["net::ERR_ABORTED", "NS_BINDING_ABORTED"].includes(why)) return;
      this.add(`failed ${request.method()} ${address(request.url())}: ${why}`);
    });
  }
}

/** Starts the browser. */
export function launch() {
  if (!isFirefox) {
    const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    const installed = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => fs.existsSync(path));
    return chromium.launch({ executablePath: process.env.CHROMIUM ?? installed, args, timeout: WAIT_MS });
  }
  // Playwright cannot grant access to the clipboard in Firefox, nor emulate this media feature.
  const firefoxUserPrefs = { "dom.events.testing.asyncClipboard": true, "ui.prefersReducedMotion": 1 };
  // The channel is that of Firefox as Mozilla releases it, which has no patches for Playwright.
  return firefox.launch({ channel: "moz-firefox", executablePath: process.env.FIREFOX, firefoxUserPrefs, timeout: WAIT_MS });
}

/** A service and a browser that the tests of one file share. The tests run in order. */
export class Suite {
  monitor = new Monitor();
  contexts = [];

  /** Starts the service and the browser; `options` are those of [`Service.start`]. */
  static async start(options) {
    const suite = new Suite();
    after(async () => {
      await suite.browser?.close();
      await suite.service?.stop();
    }, { timeout: TEST_MS });
    suite.service = await Service.start(options);
    suite.browser = await launch();
    return suite;
  }

  /** Returns a function that defines tests, each of which needs those before: after a failure, the rest are skipped. */
  sequence() {
    let failed;
    return (name, run) => this.test(name, async (context) => {
      if (failed) return context.skip(`an earlier test failed: ${failed}`);
      failed = name;
      await run(context);
      failed = undefined;
    });
  }

  /** Returns a suite with the same service and browser and its own pages, for tests that run at the same time. */
  lane() {
    return Object.assign(new Suite(), { service: this.service, browser: this.browser });
  }

  /** Defines a test, which is also a [`Suite.check`]. */
  test(name, run) {
    nodeTest(name, { timeout: TEST_MS }, (context) => this.check(name, () => run(context)));
  }

  /** Runs a function; also fails if a page has a problem that is neither expected nor allowed. */
  async check(name, run) {
    const from = this.service.log.length;
    this.monitor.problems = [];
    this.monitor.expected = [];
    this.monitor.allowed = [];
    try {
      await run();
      await Promise.all(this.pages().map((page) => this.checkScripts(page)));
      assertNone(this.monitor.problems, "unexpected problems of pages");
      assertNone(this.monitor.expected.map(String), "expected problems that did not occur");
    } catch (error) {
      await this.addDetails(error, name, from);
      throw error;
    }
  }

  /** Adds screenshots, the problems of pages and the log of the service to an error. */
  async addDetails(error, name, from) {
    const notes = [];
    // The failure most likely concerns the pages that were opened last.
    for (const [number, page] of this.pages().slice(-2).entries()) {
      const file = `failed-${name.replace(/[^a-z0-9]+/gi, "-").slice(0, 60)}-${number}`;
      await screenshot(page, file).catch(() => {});
      // In Firefox, the screenshot itself violates the policy.
      await page.evaluate(() => { window.__violations = []; }).catch(() => {});
      notes.push(`page ${page.url().slice(0, 200)}, see ${path.join(shots, file)}.png`);
    }
    if (!error.message.includes("unexpected problems")) notes.push(...this.monitor.problems.map((problem) => `unexpected problem: ${problem}`));
    notes.push(`log of the service:\n${this.service.log.slice(from).slice(-6000) || "(nothing)"}`);
    const message = error.message.replace(/\x1b\[[\d;]*m/g, "").trimEnd();
    const text = `${message}\n\n${notes.join("\n")}\n`;
    error.stack = `${text}${(error.stack ?? "").split("\n").filter((line) => /^\s+at .*\.test\.mjs/.test(line)).join("\n")}`;
    error.message = text;
  }

  pages() {
    return this.contexts.flatMap((context) => context.pages());
  }

  /** Records whether a page ran a script of a payload, or violated its content security policy. */
  async checkScripts(page) {
    const found = await page.evaluate(() => ({ pwned: window.__pwned, violations: window.__violations ?? [] })).catch(() => null);
    if (found?.pwned !== undefined) this.monitor.add(`script of a payload ran at ${page.url()}`);
    for (const violation of found?.violations ?? []) this.monitor.add(`policy: ${violation} at ${page.url()}`);
  }

  /** Requires problems that match these patterns, such as `422 POST /login` or `console error: …`. */
  expect(...patterns) {
    this.monitor.expected.push(...patterns);
  }

  /** Allows problems that match these patterns. */
  allow(...patterns) {
    this.monitor.allowed.push(...patterns);
  }

  /** Returns a new browser context, signed in if there is a `cookie`. */
  async context({ cookie, ...options } = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(WAIT_MS);
    context.setDefaultNavigationTimeout(WAIT_MS);
    if (!isFirefox) await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: this.service.url });
    if (cookie) {
      const [name, value] = cookie.split("=");
      await context.addCookies([{ name, value, url: this.service.url, httpOnly: true, sameSite: "Lax" }]);
    }
    await context.addInitScript(([moments, factor]) => {
      const { setTimeout } = window;
      window.__moments = [];
      window.setTimeout = (run, delay, ...rest) => {
        if (!moments.includes(delay)) return setTimeout(run, delay, ...rest);
        const timer = setTimeout(run, delay * factor, ...rest);
        window.__moments.push(() => { clearTimeout(timer); run(...rest); });
        return timer;
      };
    }, [MOMENTS, MOMENT_FACTOR]);
    await context.addInitScript(() => {
      window.__violations = [];
      document.addEventListener("securitypolicyviolation", (event) => {
        window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
    context.on("page", (page) => this.monitor.page(page));
    this.contexts.push(context);
    context.on("close", () => { this.contexts = this.contexts.filter((other) => other !== context); });
    return context;
  }

  /** Returns a page in a new browser context. */
  async page(options) {
    const context = await this.context(options);
    return context.newPage();
  }

  /** Opens a page of the service; returns the response. */
  async open(page, where) {
    return page.goto(new URL(where, this.service.url).href);
  }
}

/** Ends what a page shows only for a moment: what it removes by itself is gone afterwards. */
export async function expire(page) {
  await waitUntil("the script of the page has found all toasts", async () => await page.locator("[data-toast]:not([data-watched])").count() === 0);
  await page.evaluate(() => { for (const end of window.__moments.splice(0)) end(); });
}

/** Clicks a button that copies a text, and returns the text that is then in the clipboard. */
export async function copyWith(page, button) {
  const before = "nothing was copied";
  await page.evaluate((text) => navigator.clipboard.writeText(text), before);
  await button.click();
  return waitUntil("the button copies a text", async () => {
    const text = await page.evaluate(() => navigator.clipboard.readText());
    return text !== before && text;
  });
}

/** Waits until a page has drawn two more frames, so that its layout is final. */
export function drawn(page) {
  return page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));
}

/** Records what the main thread of a page does while `act` runs; returns the events of the trace. */
export async function record(page, act) {
  const browser = page.context().browser();
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline"] });
  await act();
  await drawn(page);
  const { traceEvents: events } = JSON.parse(await browser.stopTracing());
  const threads = events.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain").map(({ pid, tid }) => `${pid} ${tid}`);
  return events.filter((event) => event.ph === "X" && threads.includes(`${event.pid} ${event.tid}`));
}

const debuggers = new WeakMap();
/** Returns the session of the debugger for a page. */
function debuggerOf(page) {
  if (!debuggers.has(page)) debuggers.set(page, page.context().newCDPSession(page));
  return debuggers.get(page);
}

/** Saves a screenshot of the window. */
export async function screenshot(page, name) {
  fs.mkdirSync(shots, { recursive: true });
  const file = path.join(shots, `${name}.png`);
  // In Firefox, Playwright adds a style, which the policy of the page refuses.
  if (isFirefox) return page.screenshot({ path: file });
  // Playwright's screenshots take twice as long, and there are hundreds of them.
  const { data } = await (await debuggerOf(page)).send("Page.captureScreenshot", { format: "png", optimizeForSpeed: true });
  fs.writeFileSync(file, Buffer.from(data, "base64"));
}

/** Fails with a list of the items if there are any. */
export function assertNone(found, what = "found") {
  if (found.length > 0) assert.fail(`${what}:\n${found.map((one) => `- ${one}`).join("\n")}`);
}

/** Returns the violations of WCAG 2.2 AA that axe-core finds on a page, by all rules or only by the given ones. */
export async function axe(page, rules) {
  if (!await page.evaluate(() => "axe" in window)) {
    // Load it through the debugger, to which the page's content security policy does not apply.
    await (await debuggerOf(page)).send("Runtime.evaluate", { expression: axeSource });
  }
  const only = rules ? { type: "rule", values: rules } : { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };
  const found = await page.evaluate(async (runOnly) => {
    // While a page updates itself, Turbo marks the root element as busy, which axe does not accept there.
    while (document.documentElement.ariaBusy === "true") await new Promise((done) => setTimeout(done, 10));
    return window.axe.run(document, { runOnly, resultTypes: ["violations"], preload: false });
  }, only);
  return found.violations.flatMap((violation) => violation.nodes.map((node) => {
    const why = [...node.any, ...node.all, ...node.none].map((check) => check.message).join("; ");
    return `${violation.id}: ${violation.help}\n    ${node.target.join(" ")}: ${why}\n    ${node.html.slice(0, 160)}`;
  }));
}

/** Returns a description of what makes a page wider than its window; `null` if nothing does. */
export function overflow(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const wide = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > width + 1);
    const names = wide.slice(0, 5).map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
    return `${document.documentElement.scrollWidth} px wide in a window of ${width} px: ${names.join(", ")}`;
  });
}
