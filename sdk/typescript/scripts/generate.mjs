// Generates the typed core of the client from docs/openapi.json into a folder: the types of the HTTP interface
// (api.ts), and a table with the method and the path of each operation (routes.ts).

import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import openapiTS, { astToString } from "openapi-typescript";

const [folder] = process.argv.slice(2);
if (!folder) throw new Error("usage: node scripts/generate.mjs FOLDER");
const source = new URL("../../../docs/openapi.json", import.meta.url);
const document = JSON.parse(await readFile(source, "utf8"));

/** The name of the request header that makes a repeated POST request safe. */
const IDEMPOTENCY = "Idempotency-Key";

const routes = [];
for (const [route, operations] of Object.entries(document.paths)) {
  for (const [method, operation] of Object.entries(operations)) {
    const headers = (operation.parameters ?? []).filter((parameter) => parameter.in === "header");
    const isIdempotent = headers.some((header) => header.name === IDEMPOTENCY);
    const [type] = Object.keys(operation.responses["200"]?.content ?? {});
    const fields = [`method: "${method.toUpperCase()}"`, `path: "${route}"`];
    fields.push(`acceptsIdempotencyKey: ${isIdempotent}`, `accept: "${type ?? "application/json"}"`);
    routes.push(`  ${operation.operationId}: { ${fields.join(", ")} },`);
    // All errors have the same body, and the client reads the headers itself. Without them, the file is half as long.
    for (const [status, response] of Object.entries(operation.responses)) {
      delete response.headers;
      if (!status.startsWith("2")) delete operation.responses[status];
    }
  }
}
delete document.components.headers;

const notice = "// Generated from docs/openapi.json by `npm run generate`. Do not edit.\n\n";
const types = await openapiTS(document, { rootTypes: true, rootTypesNoSchemaPrefix: true });
await writeFile(path.join(folder, "api.ts"), notice + astToString(types));
const table = [
  "/** The operations of the HTTP interface. */",
  "export const routes = {",
  ...routes.sort(),
  "} as const;",
];
await writeFile(path.join(folder, "routes.ts"), `${notice}${table.join("\n")}\n`);
