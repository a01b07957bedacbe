// Runs all tests in one process, because they share a server.

await import("./jobs.js");
await import("./streams.js");
await import("./requests.js");
await import("./webhooks.js");
await import("./administration.js");
await import("./integrations.js");
await import("./package.js");
