// Makes the screenshots of the documents: `node screenshots.mjs` writes docs/images/*.png (`SHOTS` names another folder).
//
// The service runs on an empty temporary data directory. Its jobs work on a stand-in of Forgejo in this process, which
// has the repositories acme/shop and acme/website. With the argument `agent`, this program is the agent of these jobs.

import { execFileSync, spawn } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));

/** The address of the service and that of the stand-in, as the pages show them. */
const PUBLIC = "https://journeyman.acme.example";
const FORGEJO = "https://git.acme.example";

/** The secret of the stand-in's webhooks. */
const SECRET = "a secret of the sample code host";

const USERS = {
  journeyman: { id: 7, login: "journeyman", permission: "write" },
  maria: { id: 21, login: "maria", permission: "write" },
  jon: { id: 22, login: "jon", permission: "read" },
};

// ---- The agent.

const CART = `export function total(items) {
  return round(items.reduce((sum, item) => sum + item.price * item.count, 0));
}

/** Rounds half away from zero, as invoices do. */
export function round(amount) {
  return Math.sign(amount) * Math.round(Math.abs(amount) * 100 + 1e-9) / 100;
}
`;

const TEST = `import assert from "node:assert";
import { round } from "../src/cart.js";

assert.equal(round(1.005), 1.01);
assert.equal(round(-1.005), -1.01);
`;

/** Returns the files and the answer for a prompt. */
function work(prompt) {
  if (/negative/.test(prompt)) return [{ "test/cart.test.js": TEST }, "I added a test with a negative amount. It passes."];
  return [{ "src/cart.js": CART }, "The total is now rounded half away from zero, as on the invoice. `round` has the rule in one place."];
}

function runAgent() {
  const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const folders = new Map();
  const methods = {
    initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: "sample", version: "1" } }),
    "session/new": ({ cwd }) => {
      const sessionId = `session-${folders.size + 1}`;
      folders.set(sessionId, cwd);
      return { sessionId };
    },
    "session/prompt": ({ sessionId, prompt }) => {
      const [files, answer] = work(prompt.map((part) => part.text ?? "").join("\n"));
      for (const [name, content] of Object.entries(files)) {
        const file = path.join(folders.get(sessionId), name);
        fs.mkdirSync(path.dirname(file), { recursive: true });
        fs.writeFileSync(file, content);
      }
      send({ method: "session/update", params: { sessionId, update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: answer } } } });
      return { stopReason: "end_turn" };
    },
  };
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined || !method) return;
    if (methods[method]) send({ id, result: methods[method](params) });
    else send({ id, error: { code: -32601, message: "method not found" } });
  }).on("close", () => process.exit(0));
}

// ---- The stand-in of Forgejo.

/** A repository of the stand-in. */
class Repository {
  pulls = [];
  comments = [];

  constructor(folder, id, path) {
    Object.assign(this, { id, path, bare: `${folder}/${path}.git` });
  }

  git(...args) {
    return execFileSync("git", ["-C", this.bare, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  }

  describe() {
    return { id: this.id, full_name: this.path, default_branch: "main", permissions: { push: true } };
  }

  pull(number) {
    const pull = this.pulls.find((one) => one.number === number);
    const end = (ref) => ({ label: ref, ref, sha: this.git("rev-parse", `refs/heads/${ref}`), repo_id: this.id });
    return pull && { ...pull, head: end(pull.head), base: end(pull.base) };
  }

  /** Answers a request below `/api/v1/repos/<path>`; returns `undefined` for an unknown one. */
  answer(method, where, query, body, origin) {
    const match = (pattern) => where.match(pattern)?.slice(1);
    let found;
    if (where === "") return this.describe();
    if ((found = match(/^\/branches\/(.+)$/))) return { commit: { id: this.git("rev-parse", `refs/heads/${decodeURIComponent(found[0])}`) } };
    if (where === "/commits") return this.git("rev-list", "--max-count=1", query.get("sha"), `^${query.get("not")}`) ? [{}] : [];
    if (where === "/pulls" && method === "POST") {
      const number = 41 + this.pulls.length;
      this.pulls.push({ ...body, number, html_url: `${origin}/${this.path}/pulls/${number}`, state: "open" });
      return this.pull(number);
    }
    if (where === "/pulls") return query.get("page") === "1" ? this.pulls.map(({ number }) => this.pull(number)) : [];
    if ((found = match(/^\/pulls\/(\d+)$/))) {
      if (method === "PATCH") Object.assign(this.pulls.find((one) => one.number === Number(found[0])), body);
      return this.pull(Number(found[0]));
    }
    if ((found = match(/^\/issues\/(\d+)\/comments$/))) {
      if (method === "GET") return this.comments;
      const comment = { id: 900 + this.comments.length, user: USERS.journeyman, body: body.body, html_url: `${origin}/${this.path}/pulls/${found[0]}` };
      this.comments.push(comment);
      return comment;
    }
    if (match(/^\/teams$/)) return [{ id: 1, name: "Owners", permission: "owner", units_map: {} }];
    if ((found = match(/^\/collaborators\/(\w+)\/permission$/))) return { permission: USERS[found[0]].permission, user: USERS[found[0]] };
    if (match(/^\/commits\/\w+\/status$/)) return { statuses: query.get("page") === "1" ? this.statuses(origin) : [] };
    if (/^\/(statuses\/\w+|issues\/.+\/reactions)$/.test(where)) return {};
    if (/^\/(issues|pulls\/\d+\/reviews)/.test(where)) return [];
    return undefined;
  }

  /** Returns the statuses of every commit. */
  statuses(origin) {
    const one = (context, status, description) => ({ context, status, description, target_url: `${origin}/ci/1834` });
    return [one("build", "success", ""), one("lint", "success", ""), one("integration", "failure", "2 of 148 tests failed")];
  }
}

/** Starts the stand-in; returns its origin and its repositories. */
async function startForgejo(folder) {
  const repositories = [new Repository(folder, 311, "acme/shop"), new Repository(folder, 312, "acme/website")];
  const server = http.createServer(async (request, response) => {
    const url = new URL(request.url, origin);
    const repository = repositories.find(({ path }) => new RegExp(`^(/api/v1/repos)?/${path}(\\.git)?(/|$)`).test(url.pathname));
    if (repository && url.pathname.startsWith(`/${repository.path}.git/`)) return serveGit(folder, request, response, url);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length ? JSON.parse(Buffer.concat(chunks)) : undefined;
    let answer;
    if (url.pathname === "/api/v1/user") answer = USERS.journeyman;
    else if (repository) answer = repository.answer(request.method, url.pathname.slice(`/api/v1/repos/${repository.path}`.length), url.searchParams, body, origin);
    response.writeHead(answer === undefined ? 404 : request.method === "POST" ? 201 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? { message: "not found" }));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return { origin, repositories, server };
}

/** Serves git over HTTP with `git http-backend`. */
function serveGit(root, request, response, url) {
  const backend = spawn("git", ["http-backend"], {
    env: {
      PATH: process.env.PATH, GIT_PROJECT_ROOT: root, GIT_HTTP_EXPORT_ALL: "1", REMOTE_USER: "journeyman",
      PATH_INFO: url.pathname, QUERY_STRING: url.search.slice(1), REQUEST_METHOD: request.method,
      CONTENT_TYPE: request.headers["content-type"] ?? "", HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      GIT_PROTOCOL: request.headers["git-protocol"] ?? "",
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  request.pipe(backend.stdin);
  let head = Buffer.alloc(0);
  backend.stdout.on("data", (data) => {
    if (response.headersSent) return response.write(data);
    head = Buffer.concat([head, data]);
    const end = head.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const headers = Object.fromEntries(head.subarray(0, end).toString().split("\r\n").map((line) => line.split(": ")));
    const { Status: status = "200", ...others } = headers;
    response.writeHead(parseInt(status, 10), others);
    return response.write(head.subarray(end + 4));
  });
  backend.on("close", () => response.end());
}

// ---- The state of the service, and the pages.

async function main() {
  const { PASSWORD, Service, WAIT_MS, WorkingCopy, cookieOf, launch, makeFolder, waitUntil } = await import("./lib.mjs");
  const shots = path.resolve(process.env.SHOTS ?? path.join(here, "../../docs/images"));
  fs.mkdirSync(shots, { recursive: true });

  const folder = makeFolder("forgejo");
  const forgejo = await startForgejo(folder);
  for (const repository of forgejo.repositories) {
    execFileSync("git", ["init", "-q", "--bare", "-b", "main", repository.bare]);
    repository.git("config", "http.receivepack", "true");
    const copy = new WorkingCopy(repository.bare);
    copy.write({ "README.md": "# Shop\n", "src/cart.js": "export function total(items) {\n  return items.reduce((sum, item) => sum + item.price * item.count, 0);\n}\n" });
    await copy.commit("Add the cart");
    await copy.git("push", "-q", copy.remote, "HEAD:main");
  }
  const [shop, website] = forgejo.repositories;

  // The pages show the public address, so the address at which the service listens must be known before it starts.
  const probe = http.createServer();
  await new Promise((done) => probe.listen(0, "127.0.0.1", done));
  const { port } = probe.address();
  await new Promise((done) => probe.close(done));
  const service = new Service();
  service.data = makeFolder("data");
  service.log = "";
  service.url = `http://127.0.0.1:${port}`;
  const config = path.join(makeFolder("config"), "journeyman.toml");
  fs.writeFileSync(config, `[agents.sample]\nname = "Sample agent"\ncommand = ${JSON.stringify([process.execPath, fileURLToPath(import.meta.url), "agent"])}\n`);
  service.environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("JOURNEYMAN")));
  service.flags = ["--data-dir", service.data, "--public-url", PUBLIC, "--sandbox", "none", "--config", config, "--grace", "1s"];
  process.on("exit", () => service.process.kill("SIGKILL"));
  const output = service.spawn(`127.0.0.1:${port}`);
  const link = await service.waitUntil("the link of the first administrator", () => output().match(/\/setup\?link=(\S+)/)?.[1]);

  const created = await service.send("/setup", { link, name: "ada", password: PASSWORD }, { headers: { origin: PUBLIC } });
  const [cookie, session] = cookieOf(created).split("=");
  const key = service.key("ada");
  const api = (...args) => service.api(key, ...args);

  const { privateKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048, privateKeyEncoding: { type: "pkcs1", format: "pem" }, publicKeyEncoding: { type: "pkcs1", format: "pem" } });
  await api("POST", "/code-hosts", { id: "github", kind: "github", url: "https://github.com", appId: 1184203, appSlug: "journeyman-acme", privateKey, webhookSecret: SECRET });
  await api("POST", "/code-hosts", { id: "gitlab", kind: "gitlab", url: "https://gitlab.acme.example", token: "glpat-sample" });
  await api("POST", "/code-hosts", { id: "forgejo", kind: "forgejo", url: forgejo.origin, token: "sample", webhookSecret: SECRET });

  /** Sends a webhook of the stand-in. */
  const hook = async (repository, sender, event, more) => {
    const body = JSON.stringify({ ...more, repository: repository.describe(), sender: USERS[sender] });
    const signature = crypto.createHmac("sha256", SECRET).update(body).digest("hex");
    const headers = { "content-type": "application/json", "x-forgejo-event": event, "x-forgejo-event-type": event, "x-forgejo-delivery": crypto.randomUUID(), "x-forgejo-signature": signature };
    const answer = await fetch(`${service.url}/hooks/forgejo`, { method: "POST", headers, body });
    if (answer.status !== 202) throw new Error(`the webhook was refused: ${answer.status} ${await answer.text()}`);
  };
  let comments = 500;
  const comment = (repository, author, number, text) => {
    const id = comments += 1;
    const html_url = `${forgejo.origin}/${repository.path}/pulls/${number}#issuecomment-${id}`;
    const at = new Date().toISOString();
    return hook(repository, author, "pull_request_comment", { action: "created", is_pull: true, issue: { number, pull_request: {} }, comment: { id, html_url, body: text, user: USERS[author], created_at: at, updated_at: at } });
  };
  const outcomes = async () => (await api("GET", "/projects/shop/inbox")).events.map(({ outcome }) => outcome);
  const decided = (outcome) => waitUntil(`an event with the outcome ${outcome}`, async () => (await outcomes()).includes(outcome));

  await api("POST", "/projects", { id: "shop", repository: `${forgejo.origin}/acme/shop.git`, agent: "sample", comments: { settleSeconds: 0 }, checks: { settleSeconds: 0 } });
  const prompt = "The total of the cart differs from the invoice by a cent, for example for 1.005. Round it as the invoice does.";
  const job = await service.job(key, "shop", prompt, { title: "Round the total of the cart" });
  await service.waitForJob(key, "shop", job.id);
  const [{ number }] = shop.pulls;
  await hook(shop, "journeyman", "pull_request", { action: "opened", pull_request: { ...shop.pull(number), html_url: shop.pulls[0].html_url } });
  await decided("pull_recorded");
  await comment(shop, "jon", number, "@journeyman merge this, please");
  await decided("not_permitted");
  await comment(shop, "maria", number, "The rule looks right to me.");
  await decided("not_addressed");
  await comment(shop, "maria", number, "@journeyman Please add a test with a negative amount.");
  await decided("message");
  await waitUntil("the job has answered", async () => (await service.waitForJob(key, "shop", job.id)) && shop.comments.length > 0);
  await hook(shop, "journeyman", "status", { sha: shop.pull(number).head.sha, state: "failure" });
  await decided("checks_queued");
  await comment(website, "maria", 7, "@journeyman The link in the footer is broken.");
  await waitUntil("the result of the checks", async () => (await api("GET", `/agent/shop/job/${job.id}/checks`)).result === "failed");

  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", colorScheme: "light", locale: "en-US", timezoneId: "UTC" });
  context.setDefaultTimeout(WAIT_MS);
  await context.addCookies([{ name: cookie, value: session, url: PUBLIC, httpOnly: true, secure: true, sameSite: "Lax" }]);
  await context.route(`${PUBLIC}/**`, async (route) => {
    const url = route.request().url();
    // An event stream has no end, so it gets no answer.
    if (/\/(stream|live|events\/stream)(\?|$)/.test(url)) return;
    await route.fulfill({ response: await route.fetch({ url: url.replace(PUBLIC, service.url), maxRedirects: 0, timeout: WAIT_MS }) });
  });
  const page = await context.newPage();

  /** Saves the page, up to a height. The stand-in has the address of this machine, which is replaced. */
  const save = async (name, height = 2000) => {
    await page.evaluate(([from, to]) => {
      const [host, shown] = [new URL(from).host, new URL(to).host];
      const replaced = (text) => text.replace(new RegExp(`(http)(://${host})`, "gi"), "$1s$2").replaceAll(host, shown);
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) walker.currentNode.data = replaced(walker.currentNode.data);
      for (const input of document.querySelectorAll("input, textarea")) input.value = replaced(input.value);
      document.activeElement?.blur();
    }, [forgejo.origin, FORGEJO]);
    const needed = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.setViewportSize({ width: 1280, height: Math.min(Math.max(needed, 500), height) });
    const file = path.join(shots, `${name}.png`);
    await page.screenshot({ path: file, animations: "disabled" });
    await page.setViewportSize({ width: 1280, height: 800 });
    const kilobytes = Math.ceil(fs.statSync(file).size / 1024);
    console.log(`${name}.png, ${kilobytes} KiB`);
    if (kilobytes > 150) throw new Error(`${name}.png is larger than 150 KiB`);
  };
  const open = (where) => page.goto(PUBLIC + where, { waitUntil: "load" });

  await open("/system/code-hosts");
  await save("code-hosts");
  await page.getByRole("button", { name: "Check forgejo" }).click();
  await page.getByRole("heading", { name: "forgejo" }).waitFor();
  await save("code-host-check", 620);
  await open("/system/code-hosts/new?kind=gitlab");
  await save("code-host-add");
  await open("/system/code-hosts/github/app");
  await save("github-app");
  await open(`/projects/new?where=remote&id=website&repository=${encodeURIComponent(`${forgejo.origin}/acme/website.git`)}`);
  await page.getByRole("button", { name: "Test the repository" }).click();
  await page.getByRole("heading", { name: "The repository" }).waitFor();
  await save("project-test");
  await open("/projects/shop/inbox");
  await save("inbox");
  await open(`/projects/shop/jobs/${job.id}`);
  await page.locator("#job-outcome .prose").getByText("It passes.").waitFor();
  await save("job", 1100);

  await browser.close();
  await service.stop();
  forgejo.server.closeAllConnections();
  forgejo.server.close();
}

if (process.argv[2] === "agent") runAgent();
else await main();
