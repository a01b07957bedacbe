// Helpers of the tests: the server under test, which starts once, and proxies and servers that fail on purpose.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Journeyman } from "@journeyman/client";
import { slackUrl } from "./stand-ins.js";

/** The folder of the package. The compiled tests are in build/tests. */
export const root = fileURLToPath(new URL("../..", import.meta.url));

const program = path.resolve(process.env.JOURNEYMAN ?? path.join(root, "../../target/debug/journeyman"));

/**
 * The time limit of a wait, in milliseconds. Only a hang reaches it: a slow or busy machine may take many times as long
 * as usual.
 */
export const WAIT_MS = 600_000;

/** Runs a command; returns its standard output. */
export async function run(command: string, args: string[], options: { cwd?: string; env?: NodeJS.ProcessEnv } = {}) {
  const { stdout } = await promisify(execFile)(command, args, { encoding: "utf8", ...options });
  return stdout;
}

/** Creates a temporary folder that other users can pass through, as sandboxes need. It is removed at exit. */
export function makeFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "journeyman-sdk-"));
  chmodSync(folder, 0o755);
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

// Handlers of "exit" also run when a signal ends the tests.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

/** The environment without settings of Journeyman, which must not affect the tests. */
const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("JOURNEYMAN")));

/** Starts the server; returns its URL and a key. */
async function startServer(): Promise<{ url: string; key: string; data: string }> {
  const data = makeFolder();
  const limits = ["--create-per-hour", "0", "--message-per-hour", "0", "--webhook-networks", "127.0.0.0/8"];
  const standIns = ["--oidc-networks", "127.0.0.0/8", "--slack-api-url", slackUrl];
  const args = [
    "serve",
    "--listen",
    "127.0.0.1:0",
    "--data-dir",
    data,
    "--log",
    "warn",
    "--grace",
    "1s",
    ...limits,
    ...standIns,
  ];
  const child = spawn(program, args, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  process.on("exit", () => child.kill("SIGKILL"));
  let log = "";
  child.stderr.on("data", (chunk) => {
    log += chunk;
  });
  const url = await new Promise<string>((resolve, reject) => {
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
      const found = /http:\/\/[\d.:]+/.exec(output);
      if (found) resolve(found[0]);
    });
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the server exited with status ${code}:\n${log}`)));
  });
  const exited = new Promise((resolve) => child.once("exit", resolve));
  after(async () => {
    child.kill("SIGTERM");
    await exited;
  });
  const key = await run(program, ["key", "create", "--name", "tests", "--data-dir", data], { env: environment });
  return { url, key: key.trim(), data };
}

/** The URL of the server, a key that may do everything, and the folder of the server's data. */
export const { url, key, data } = await startServer();

/** Waits until the test model carries out `[[hold]]` in a job, and ends it. */
export async function release(job: string): Promise<void> {
  const home = path.join(data, "workspaces", job, "home");
  const end = Date.now() + WAIT_MS;
  while (!existsSync(path.join(home, "held"))) {
    assert.ok(Date.now() < end, `no agent waits in ${job}`);
    await sleep(50);
  }
  writeFileSync(path.join(home, "released"), "");
}

/** The requests of {@link recordedFetch}, as method and path. */
export const requests = new Set<string>();

/** Sends a request, and adds it to {@link requests}. */
export const recordedFetch = (target: string, init: RequestInit) => {
  requests.add(`${init.method} ${new URL(target).pathname}`);
  return fetch(target, init);
};

/** A client of the server. */
export const client = new Journeyman({ url, key, timeout: WAIT_MS, fetch: recordedFetch });

/** Creates a project whose repository has one commit. */
export async function makeProject(id: string): Promise<string> {
  await client.projects.create({ id, repository: `local:${id}` });
  const cwd = makeFolder();
  writeFileSync(path.join(cwd, "README.md"), "# Shop\n");
  const env = { ...environment, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", GIT_TERMINAL_PROMPT: "0" };
  const author = ["-c", "user.name=Grace", "-c", "user.email=grace@example.com"];
  await run("git", ["init", "-q", "-b", "main"], { cwd, env });
  await run("git", ["add", "-A"], { cwd, env });
  await run("git", [...author, "commit", "-qm", "Begin"], { cwd, env });
  const remote = `${url.replace("//", `//git:${key}@`)}/git/${id}.git`;
  await run("git", ["push", "-q", remote, "HEAD:main"], { cwd, env });
  return id;
}

/** A TCP proxy in front of the server that loses responses on purpose. */
export class LossyProxy {
  readonly #sockets = new Set<Socket>();
  readonly #budgets: number[] = [];
  #url = "";

  static async start(): Promise<LossyProxy> {
    const proxy = new LossyProxy();
    const target = new URL(url);
    const server = createTcpServer((downstream) => {
      const upstream = connect(Number(target.port), target.hostname);
      let budget: number | undefined;
      for (const [socket, other] of [
        [downstream, upstream],
        [upstream, downstream],
      ] as const) {
        proxy.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          proxy.#sockets.delete(socket);
          other.destroy();
        });
      }
      downstream.on("data", (data) => {
        if (/^[A-Z]+ \//.test(data.toString("latin1"))) budget = proxy.#budgets.shift();
        upstream.write(data);
      });
      upstream.on("data", (data) => {
        if (budget === undefined) return downstream.write(data);
        const part = data.subarray(0, budget);
        budget -= part.length;
        downstream.write(part, () => budget === 0 && downstream.destroy());
        return true;
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    after(() => {
      server.close();
      proxy.cut();
    });
    proxy.#url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return proxy;
  }

  get url(): string {
    return this.#url;
  }

  /** Forwards only so many bytes of the responses to the next requests, and then closes the connection. */
  lose(...budgets: number[]): void {
    this.#budgets.push(...budgets);
  }

  /** The number of losses that are still to come. */
  get pending(): number {
    return this.#budgets.length;
  }

  /** Closes all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}

/** A request that a {@link Receiver} received. */
export interface Received {
  method: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** An HTTP server that stores requests, and answers each with the next of the answers, or else with status 204. */
export class Receiver {
  readonly requests: Received[] = [];
  readonly answers: ((response: ServerResponse) => void)[] = [];
  #wake: () => void = () => {};
  #url = "";

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    const server = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request.setEncoding("utf8")) body += chunk;
      receiver.requests.push({ method: request.method ?? "", headers: request.headers, body });
      const answer = receiver.answers.shift();
      if (answer) answer(response);
      else response.writeHead(204).end();
      receiver.#wake();
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    after(() => {
      server.close();
      server.closeAllConnections();
    });
    receiver.#url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return receiver;
  }

  get url(): string {
    return this.#url;
  }

  /** Waits for a request that `matches`. */
  async request(matches: (request: Received) => boolean): Promise<Received> {
    for (;;) {
      const found = this.requests.find(matches);
      if (found) return found;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Answers the next requests with these statuses and a JSON body. */
  answer(...answers: { status: number; body?: unknown; headers?: Record<string, string> }[]): void {
    for (const { status, body, headers } of answers) {
      const text = body === undefined ? "" : JSON.stringify(body);
      const type = { "content-type": "application/json", ...headers };
      this.answers.push((response) => response.writeHead(status, type).end(text));
    }
  }
}

/** Asserts that a promise is rejected with an instance of a class, and returns the error. */
export async function rejected<T>(promise: PromiseLike<unknown>, type: new (...args: never[]) => T): Promise<T> {
  const error = await promise.then(
    () => assert.fail("the promise was fulfilled"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof type, `expected ${type.name}, got ${error}`);
  return error;
}
