import assert from "node:assert/strict";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { VERSION } from "@journeyman/client";
import { Webhook } from "standardwebhooks";
import ts from "typescript";
import { AUDIENCE, issuer, sign } from "./stand-ins.js";
import { client, key, makeFolder, makeProject, requests, root, run, url } from "./support.js";

const read = (file: string) => readFileSync(path.join(root, file), "utf8");

test("each operation of the HTTP interface was called", async () => {
  const { routes } = await import(path.join(root, "dist/generated/routes.js"));
  const all = Object.entries<{ method: string; path: string }>(routes);
  const missing = all.filter(([, route]) => {
    const pattern = new RegExp(`^${route.method} ${route.path.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
    return ![...requests].some((request) => pattern.test(request));
  });
  assert.deepEqual(
    missing.map(([id]) => id),
    [],
  );
});

/** Returns the examples in TypeScript of a document. */
const examples = (file: string) => [...read(file).matchAll(/```ts\n(.*?)```/gs)].map(([, code]) => code ?? "");

/** The programs that call each operation. */
const operations = readdirSync(path.join(root, "examples/operations")).sort();

/** The page about all SDKs. */
const page = "../../docs/sdks.md";

test("the examples run", async () => {
  await makeProject("shop");
  const env = { PATH: process.env.PATH, JOURNEYMAN_URL: url, JOURNEYMAN_KEY: key };
  const runCode = async (name: string, code: string) => {
    const file = path.join(root, "build", name);
    writeFileSync(file, ts.transpile(code, { target: ts.ScriptTarget.ES2022 }));
    return run(process.execPath, [file], { env });
  };
  assert.match(await runCode("readme.mjs", examples("README.md")[0] ?? ""), /completed http.*\+Hello again/s);
  const [job = "", exchange = "", webhook = ""] = examples(page);
  assert.match(await runCode("sdks.mjs", job), /completed http.*finished /s);

  const rule = { issuer, audience: AUDIENCE, claims: { sub: "ci" }, projects: ["shop"] };
  const trust = await client.trusts.create({ name: "examples", ...rule });
  const check = `await check(...${JSON.stringify([url, sign({})])});`;
  assert.match(await runCode("exchange.mjs", `${exchange}\n${check}`), /^oidc:examples:ci /);
  await client.trusts.delete(trust.id);

  const body = JSON.stringify({ type: "job.completed", data: { job: { prLink: "http://127.0.0.1/1" } } });
  const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
  const now = new Date();
  const headers = {
    "webhook-id": "evt_1",
    "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
    "webhook-signature": new Webhook(secret).sign("evt_1", now, body),
  };
  const call = `await receive(...${JSON.stringify([body, headers, secret])});`;
  assert.equal(await runCode("webhook.mjs", `${webhook}\n${call}`), "evt_1 http://127.0.0.1/1\n");

  const example = path.join(root, "examples/follow-up.mjs");
  assert.match(await run(process.execPath, [example, "shop"], { env }), /job\.completed.*completed http/s);
  for (const file of operations) {
    await run(process.execPath, [path.join(root, "build/examples/operations", file.replace(/ts$/, "js"))], { env });
  }
});

test("each operation has one example", () => {
  const document: { paths: Record<string, Record<string, { operationId: string }>> } = JSON.parse(
    read("../../docs/openapi.json"),
  );
  const ids = Object.values(document.paths).flatMap((item) => Object.values(item).map((one) => one.operationId));
  const programs = operations.map((file) => read(`examples/operations/${file}`)).join("\n");
  const regions = [...programs.matchAll(/\/\/ #region (\w+)\n/g)].map(([, name]) => name);
  assert.deepEqual(regions.sort(), ids.sort());
});

test("the package installs into an empty project, and its types are strict", async () => {
  const folder = makeFolder();
  const env = { ...process.env, npm_config_cache: path.join(folder, "cache") };
  const [packed] = JSON.parse(
    await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", folder], { cwd: root, env }),
  );
  const files: string[] = packed.files.map((file: { path: string }) => file.path);
  assert.ok(files.includes("dist/index.d.ts") && files.includes("LICENSE") && files.includes("README.md"));
  assert.ok(
    files.every((file) => /^(dist\/|LICENSE$|README\.md$|package\.json$)/.test(file)),
    files.join("\n"),
  );
  assert.equal(packed.version, VERSION);

  const consumer = path.join(folder, "consumer");
  mkdirSync(consumer);
  writeFileSync(path.join(consumer, "package.json"), JSON.stringify({ type: "module", private: true }));
  const flags = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  await run("npm", ["install", ...flags, path.join(folder, packed.filename)], { cwd: consumer, env });
  cpSync(path.join(root, "tests/consumer.ts"), path.join(consumer, "consumer.ts"));
  const sources = ["consumer.ts"];
  for (const code of [...examples("README.md"), ...examples(page)]) {
    const file = `example${sources.length}.ts`;
    // Each example is a module, which can also have the variables of the other examples.
    writeFileSync(path.join(consumer, file), `${code}\nexport {};\n`);
    sources.push(file);
  }
  const given = {
    client: 'import("@journeyman/client").Journeyman',
    job: 'import("@journeyman/client").Job',
    body: "string",
    headers: "Record<string, string>",
    handle: '(job: import("@journeyman/client").JobRecord) => void',
  };
  const declarations = Object.entries(given).map(([name, type]) => `declare const ${name}: ${type};`);
  writeFileSync(path.join(consumer, "given.d.ts"), declarations.join("\n"));
  sources.push("given.d.ts");
  const compiler = path.join(root, "node_modules/typescript/bin/tsc");
  const strict = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes", "--verbatimModuleSyntax"];
  const settings = [...strict, "--noEmit", "--target", "es2022", "--module", "nodenext"];
  const platforms = [
    ["--lib", "es2022,dom", "--typeRoots", "none"],
    ["--lib", "es2022", "--typeRoots", path.join(root, "node_modules/@types"), "--types", "node"],
  ];
  for (const platform of platforms) {
    await run(process.execPath, [compiler, ...settings, ...platform, ...sources], { cwd: consumer }).catch((error) =>
      assert.fail(`${error.stdout}`),
    );
  }
  const check = "import { Journeyman, VERSION } from '@journeyman/client'; console.log(VERSION, typeof Journeyman)";
  const output = await run(process.execPath, ["--input-type=module", "--eval", check], { cwd: consumer });
  assert.equal(output.trim(), `${VERSION} function`);
});
