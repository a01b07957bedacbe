// A service of its own for each file of tests, a browser to look at it with, and what both have to say when a test fails.

import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { after, test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const here = path.dirname(fileURLToPath(import.meta.url));
/** The program that is tested. */
export const program = path.resolve(process.env.JOURNEYMAN ?? path.join(here, "../../target/debug/journeyman"));
const shots = path.resolve(process.env.SHOTS ?? path.join(here, "shots"));
const axeSource = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The whole of a test may take this long; a single wait less. */
const TEST_MS = 90_000;
const WAIT_MS = 10_000;

/** A password that is taken. */
export const PASSWORD = "lantern orbit walnut sieve";

/** Asks until there is an answer that is neither false nor nothing. */
export async function until(what, ask, ms = WAIT_MS) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`waited ${ms / 1000} s in vain: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A folder that others may pass through, since sandboxes run as users of their own. It is removed at the end. */
export function folder(name) {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), `journeyman-browser-${name}-`));
  fs.chmodSync(made, 0o755);
  process.on("exit", () => fs.rmSync(made, { recursive: true, force: true }));
  return made;
}

let scripts;
let scriptsMade = 0;

function performerConfig(name) {
  scripts = folder("scripts");
  const file = path.join(folder("config"), "journeyman.toml");
  const command = JSON.stringify([process.execPath, path.join(here, "agent.mjs")]);
  const environment = `{ PERFORMER_NAME = ${JSON.stringify(name)}, SCRIPTS = ${JSON.stringify(scripts)} }`;
  fs.writeFileSync(file, `[agents.performer]\nname = "Performer"\ncommand = ${command}\nenvironment = ${environment}\n`);
  return file;
}

/** A prompt that has the agent `performer` do these steps. */
export function script(text, steps) {
  const name = scriptsMade += 1;
  fs.writeFileSync(path.join(scripts, `${name}.json`), JSON.stringify(steps));
  return `${text}\n\n(script ${name})`;
}

/** A running service. */
export class Service {
  /**
   * Begins one on a free port; `flags` are further arguments of `serve`. With `performer` it knows an agent of
   * that id beside, which gives that as its name (see agent.mjs), and has no sandbox: the agent is a program of node.
   */
  static async start({ flags = [], environment = {}, performer } = {}) {
    const service = new Service();
    service.data = folder("data");
    if (performer) flags = [...flags, "--sandbox", "none", "--config", performerConfig(performer)];
    service.log = "";
    // The environment of whoever runs the tests is not the service's.
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("JOURNEYMAN"));
    service.environment = { ...Object.fromEntries(kept), ...environment };
    service.flags = ["--data-dir", service.data, "--log", "info", "--grace", "1s", ...flags];
    process.on("exit", () => service.process.kill("SIGKILL"));
    const said = service.spawn("127.0.0.1:0");
    service.link = await service.until("the link of the first administrator", () => said().match(/http\S+\/setup\?link=\S+/)?.[0]);
    service.url = new URL(service.link).origin;
    return service;
  }

  spawn(address) {
    this.over = false;
    const started = spawn(program, ["serve", "--listen", address, ...this.flags], { env: this.environment, stdio: ["ignore", "pipe", "pipe"] });
    this.process = started;
    this.ended = new Promise((done) => started.once("exit", (code, signal) => { this.over = true; done(signal ?? code); }));
    started.once("error", (error) => { this.log += `${program}: ${error.message}\n`; this.over = true; });
    let said = "";
    started.stdout.on("data", (data) => { said += data; });
    // Colours are for terminals.
    started.stderr.on("data", (data) => { this.log += String(data).replace(/\x1b\[[\d;]*m/g, ""); });
    return () => said;
  }

  until(what, ask) {
    return until(what, () => {
      if (this.over) throw new Error(`the service did not start: ${program}\n${this.log}`);
      return ask();
    }, 30_000);
  }

  /** Ends it and begins it again, at the same address. */
  async restart() {
    await this.stop();
    this.spawn(new URL(this.url).host);
    await this.until("the service answers again", () => fetch(`${this.url}/login`).then((answer) => answer.ok, () => false));
  }

  /** Ends it, and says whether it went as it should. */
  async stop() {
    if (this.over) return;
    this.process.kill("SIGTERM");
    const late = setTimeout(() => this.process.kill("SIGKILL"), 15_000);
    const how = await this.ended;
    clearTimeout(late);
    assert.equal(how, 0, `the service did not end well\n${this.log}`);
  }

  /** A command of the program on this service's data; what it prints. */
  command(...args) {
    const given = [...args, "--data-dir", this.data];
    return execFileSync(program, given, { encoding: "utf8", env: this.environment, stdio: ["ignore", "pipe", "pipe"] }).trim();
  }

  /** A key; for all projects unless one is named. */
  key(name = "tests", ...flags) {
    const said = this.command("key", "create", "--name", name, "--expires", "7days", ...flags);
    return said.match(/\S+$/)[0];
  }

  /** Adds a user; the link by which they set a password. */
  addUser(name, role) {
    // The command does not know the port.
    const link = new URL(this.command("user", "add", name, "--role", role).match(/http\S+link=\S+/)[0]);
    return this.url + link.pathname + link.search;
  }

  /** Adds a user and sets their password without a browser; the value of the `Cookie` header of their session. */
  async person(name, role) {
    return this.useLink(this.addUser(name, role));
  }

  /** Makes the first administrator without a browser; the value of the `Cookie` header of their session. */
  async claim(name = "ada") {
    return this.useLink(this.link, name);
  }

  async useLink(link, name) {
    const answer = await this.send("/setup", { link: new URL(link).searchParams.get("link"), name, password: PASSWORD });
    assert.equal(answer.status, 303, await answer.text());
    return cookieOf(answer);
  }

  /** Sends a form as a browser would, from a page of ours unless `headers` say otherwise. */
  send(where, fields, { cookie, headers = { origin: this.url } } = {}) {
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    return fetch(this.url + where, {
      method: "POST",
      redirect: "manual",
      headers: { ...headers, ...(cookie && { cookie }) },
      body: new URLSearchParams(given),
    });
  }

  /** Asks for a page. */
  get(where, { cookie, headers = {} } = {}) {
    return fetch(this.url + where, { redirect: "manual", headers: { ...headers, ...(cookie && { cookie }) } });
  }

  /** Asks the HTTP interface; the body of the answer, or a failure. */
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

  /** A project on the built-in code host with these files in its repository. */
  async project(key, id, { files = { "README.md": "# Shop\n" }, ...settings } = {}) {
    await this.api(key, "POST", "/projects", { id, repository: `local:${id}`, ...settings });
    return this.push(key, id, files);
  }

  remote(key, id) {
    return `${this.url.replace("//", `//git:${key}@`)}/git/${id}.git`;
  }

  /** A working copy of a branch. */
  async clone(key, id, branch = "main") {
    const copy = new Copy(this.remote(key, id));
    await copy.git("fetch", "-q", copy.remote, `refs/heads/${branch}`);
    await copy.git("reset", "-q", "--hard", "FETCH_HEAD");
    return copy;
  }

  /** A working copy with these files, pushed as `main`. */
  async push(key, id, files) {
    const copy = new Copy(this.remote(key, id));
    copy.write(files);
    await copy.commit("Begin");
    await copy.git("push", "-q", copy.remote, "HEAD:main");
    return copy;
  }

  /** Sends a job; its record. */
  job(key, project, prompt, more = {}) {
    return this.api(key, "POST", `/agent/${project}/job`, { prompt, ...more });
  }

  /** Waits until a job is no longer active; its record. */
  rests(key, project, id, ms = 30_000) {
    return until(`${id} rests`, async () => {
      const job = await this.api(key, "GET", `/agent/${project}/job/${id}`);
      return job.status !== "active" && job;
    }, ms);
  }
}

/** The value of the `Cookie` header for the cookies that an answer sets. */
export function cookieOf(answer) {
  return answer.headers.get("set-cookie")?.split(";")[0];
}

/** A working copy of a repository. */
export class Copy {
  constructor(remote) {
    this.remote = remote;
    this.folder = folder("copy");
    execFileSync("git", ["init", "-q", "-b", "main"], { cwd: this.folder });
  }

  write(files) {
    for (const [name, content] of Object.entries(files)) {
      const file = path.join(this.folder, name);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, content);
    }
  }

  /** Not in this process's way: the service is pushed to while the browser goes on. */
  async git(...args) {
    const environment = { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" };
    const done = await promisify(execFile)("git", args, { cwd: this.folder, env: environment, encoding: "utf8" });
    return done.stdout.trim();
  }

  async commit(message, { name = "Grace", email = "grace@example.com" } = {}) {
    await this.git("add", "-A");
    await this.git("-c", `user.name=${name}`, "-c", `user.email=${email}`, "-c", "core.quotepath=off", "commit", "-qm", message);
  }
}

/** What may be seen of a page beside what it shows: everything that a reader of its console would be told. */
class Watch {
  /** What went wrong, and was not announced. */
  faults = [];
  /** What will go wrong, and shall. */
  announced = [];
  /** What may go wrong. */
  excused = [];

  add(fault) {
    if (this.excused.some((pattern) => pattern.test(fault))) return;
    const found = this.announced.findIndex((pattern) => pattern.test(fault));
    if (found < 0) this.faults.push(fault);
    else this.announced.splice(found, 1);
  }

  page(page) {
    const address = (url) => url.replace(/^https?:\/\/[^/]+/, "").replace(/link=[0-9a-f]+/, "link=…");
    page.on("console", (message) => {
      // Told as an answer below, with its status.
      if (message.text().startsWith("Failed to load resource")) return;
      if (["error", "warning"].includes(message.type())) this.add(`console ${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.add(`exception: ${error.stack ?? error.message}`));
    page.on("dialog", (dialog) => {
      this.add(`dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    page.on("response", (answer) => {
      if (answer.status() >= 400) this.add(`${answer.status()} ${answer.request().method()} ${address(answer.url())}`);
    });
    page.on("requestfailed", (request) => {
      const why = request.failure()?.errorText;
      // A page that is left closes its stream, and loads no more.
      if (why === "net::ERR_ABORTED") return;
      this.add(`failed ${request.method()} ${address(request.url())}: ${why}`);
    });
  }
}

/** A service and a browser for the tests of one file, which share both and run in their order. */
export class Stage {
  watch = new Watch();
  contexts = [];

  /** Begins both; `options` are those of the service. */
  static async open(options) {
    const stage = new Stage();
    after(async () => {
      await stage.browser?.close();
      await stage.service?.stop();
    }, { timeout: 60_000 });
    stage.service = await Service.start(options);
    stage.browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    });
    return stage;
  }

  /** Tests of which each needs what the ones before have done: after the first failure the others are not tried. */
  chain() {
    let broken;
    return (name, run) => this.test(name, async (context) => {
      if (broken) return context.skip(`after: ${broken}`);
      broken = name;
      await run(context);
      broken = undefined;
    });
  }

  /** A test. It fails too if a page had something to say that was not announced with [`expect`]. */
  test(name, run) {
    nodeTest(name, { timeout: TEST_MS }, async (context) => {
      const from = this.service.log.length;
      this.watch.faults = [];
      this.watch.announced = [];
      this.watch.excused = [];
      try {
        await run(context);
        await Promise.all(this.pages().map((page) => this.untouched(page)));
        none(this.watch.faults, "pages had something to say");
        none(this.watch.announced.map(String), "announced, but it did not happen");
      } catch (error) {
        await this.explain(error, name, from);
        throw error;
      }
    });
  }

  /** Adds to a failure what the pages and the service had to say. */
  async explain(error, name, from) {
    const notes = [];
    // What was looked at last is what the test is about.
    for (const [number, page] of this.pages().slice(-2).entries()) {
      const file = `failed-${name.replace(/[^a-z0-9]+/gi, "-").slice(0, 60)}-${number}`;
      await shot(page, file).catch(() => {});
      notes.push(`page ${page.url().slice(0, 200)}, see ${path.join(shots, file)}.png`);
    }
    if (!error.message.includes("pages had something")) notes.push(...this.watch.faults.map((fault) => `unannounced: ${fault}`));
    notes.push(`log of the service:\n${this.service.log.slice(from).slice(-6000) || "(nothing)"}`);
    const told = error.message.replace(/\x1b\[[\d;]*m/g, "").trimEnd();
    const text = `${told}\n\n${notes.join("\n")}\n`;
    error.stack = `${text}${(error.stack ?? "").split("\n").filter((line) => /^\s+at .*\.test\.mjs/.test(line)).join("\n")}`;
    error.message = text;
  }

  pages() {
    return this.contexts.flatMap((context) => context.pages());
  }

  /** Fails if a page ran, loaded or tried to run what is not ours. */
  async untouched(page) {
    const found = await page.evaluate(() => ({ pwned: window.__pwned, violations: window.__violations ?? [] })).catch(() => null);
    if (found?.pwned !== undefined) this.watch.add(`script of a payload ran at ${page.url()}`);
    for (const violation of found?.violations ?? []) this.watch.add(`policy: ${violation} at ${page.url()}`);
  }

  /** This will be told by a page: `422 POST /login`, `console error: …`. */
  expect(...patterns) {
    this.watch.announced.push(...patterns);
  }

  /** This may be told by a page. */
  excuse(...patterns) {
    this.watch.excused.push(...patterns);
  }

  /** A browser of its own, for somebody with this session, or for nobody. */
  async context({ cookie, ...options } = {}) {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(WAIT_MS);
    context.setDefaultNavigationTimeout(WAIT_MS);
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: this.service.url });
    if (cookie) {
      const [name, value] = cookie.split("=");
      await context.addCookies([{ name, value, url: this.service.url, httpOnly: true, sameSite: "Lax" }]);
    }
    await context.addInitScript(() => {
      window.__violations = [];
      document.addEventListener("securitypolicyviolation", (event) => {
        window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
      });
    });
    context.on("page", (page) => this.watch.page(page));
    this.contexts.push(context);
    context.on("close", () => { this.contexts = this.contexts.filter((other) => other !== context); });
    return context;
  }

  /** A page of a browser of its own. */
  async page(options) {
    const context = await this.context(options);
    return context.newPage();
  }

  /** Opens an address of the service, and waits until its script has begun. */
  async open(page, where) {
    const answer = await page.goto(new URL(where, this.service.url).href);
    return answer;
  }
}

/** Keeps a picture of the whole page. */
export async function shot(page, name) {
  fs.mkdirSync(shots, { recursive: true });
  // Playwright takes twice as long, which counts with two hundred of them.
  const debug = await page.context().newCDPSession(page);
  const { cssContentSize: size } = await debug.send("Page.getLayoutMetrics");
  const clip = { x: 0, y: 0, width: size.width, height: Math.min(size.height, 8000), scale: 1 };
  const { data } = await debug.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true, optimizeForSpeed: true, clip });
  await debug.detach();
  fs.writeFileSync(path.join(shots, `${name}.png`), Buffer.from(data, "base64"));
}

/** Fails with a list of what was found, if anything was. */
export function none(found, what = "found") {
  if (found.length > 0) assert.fail(`${what}:\n${found.map((one) => `- ${one}`).join("\n")}`);
}

/**
 * What bars somebody who does not see the page, or uses no mouse: WCAG 2.2 AA, as far as a program can tell; by all rules,
 * or by these.
 */
export async function axe(page, rules) {
  if (!await page.evaluate(() => "axe" in window)) {
    // By the debugger, to which the page's policy does not apply.
    const debug = await page.context().newCDPSession(page);
    await debug.send("Runtime.evaluate", { expression: axeSource });
    await debug.detach();
  }
  const only = rules ? { type: "rule", values: rules } : { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] };
  const found = await page.evaluate((runOnly) => window.axe.run(document, { runOnly, resultTypes: ["violations"] }), only);
  return found.violations.flatMap((violation) => violation.nodes.map((node) => {
    const why = [...node.any, ...node.all, ...node.none].map((check) => check.message).join("; ");
    return `${violation.id}: ${violation.help}\n    ${node.target.join(" ")}: ${why}\n    ${node.html.slice(0, 160)}`;
  }));
}

/** By how much a page is wider than its window, and what sticks out. */
export function overflow(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return null;
    const wide = [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > width + 1);
    const names = wide.slice(0, 5).map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
    return `${document.documentElement.scrollWidth} wide in ${width}: ${names.join(", ")}`;
  });
}
