// A fake agent that runs the script that its prompt names as `(script NUMBER)`. A script is a JSON file with a list of
// steps:
//   {"sessionUpdate": …}                    sends this update of the Agent Client Protocol unchanged
//   {"repeat": 100, "of": [steps]}          repeats the steps; `{n}` in them becomes the number of the repetition
//   {"write": "path", "content": "text"}    writes a file in the workspace
//   {"ask": "title"}                        requests a permission
//   {"wait": "path"}                        waits until the file exists
//   {"fail": "text"}                        fails the prompt with this text
// Unlike the test model, it can send thoughts, plans, arbitrary titles and thousands of updates.

import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const sessions = new Map();
let requestCount = 0;
let cancelled = false;

async function runSteps(sessionId, steps, number = 0) {
  const fill = (step) => JSON.parse(JSON.stringify(step).replaceAll("{n}", String(number)));
  for (const step of steps) {
    if (cancelled) return;
    if (step.repeat) {
      for (let n = 0; n < step.repeat; n += 1) await runSteps(sessionId, step.of, n);
    } else if (step.write) {
      const file = path.join(sessions.get(sessionId), step.write);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, step.content);
    } else if (step.ask) {
      const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }, { optionId: "no", name: "No", kind: "reject_once" }];
      send({ id: `ask-${requestCount += 1}`, method: "session/request_permission", params: { sessionId, toolCall: { toolCallId: `ask-${requestCount}`, title: step.ask }, options } });
    } else if (step.wait) {
      while (!cancelled && !fs.existsSync(step.wait)) await new Promise((done) => setTimeout(done, 20));
    } else if (step.fail) {
      throw new Error(step.fail);
    } else {
      send({ method: "session/update", params: { sessionId, update: fill(step) } });
    }
  }
}

const handlers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: process.env.AGENT_NAME ?? "fake", version: "1" } }),
  "session/new": ({ cwd }) => {
    const sessionId = `s${sessions.size + 1}`;
    sessions.set(sessionId, cwd);
    return { sessionId };
  },
  "session/prompt": async ({ sessionId, prompt }) => {
    cancelled = false;
    const text = prompt.map((part) => part.text ?? "").join("\n");
    // Use the last match, because the prompt of a new session repeats the earlier prompts.
    const script = [...text.matchAll(/\(script (\d+)\)/g)].pop();
    if (script) await runSteps(sessionId, JSON.parse(fs.readFileSync(path.join(process.env.SCRIPTS, `${script[1]}.json`), "utf8")));
    return { stopReason: cancelled ? "cancelled" : "end_turn" };
  },
};

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if (message.method === "session/cancel") cancelled = true;
  if (message.id === undefined || !message.method) return;
  const handler = handlers[message.method];
  if (!handler) return send({ id: message.id, error: { code: -32601, message: "method not found" } });
  try {
    send({ id: message.id, result: await handler(message.params) });
  } catch (error) {
    send({ id: message.id, error: { code: -32603, message: error.message } });
  }
}).on("close", () => process.exit(0));
