// An agent that says and does what the file tells that its prompt names, as `(script NAME)`: a list of
//   {"sessionUpdate": …}                    an update of the Agent Client Protocol, told as it is
//   {"repeat": 100, "of": [steps]}          `{n}` in their texts becomes the number
//   {"write": "path", "content": "text"}    a file in the workspace
//   {"ask": "title"}                        a request for a permission
//   {"wait": "path"}                        until there is such a file
//   {"fail": "text"}                        the prompt fails with this text
// What the test model never says is said by this one: thoughts, plans, odd titles, ten thousand of anything.

import fs from "node:fs";
import path from "node:path";
import readline from "node:readline";

const tell = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const sessions = new Map();
let asked = 0;
let cancelled = false;

async function perform(sessionId, steps, number = 0) {
  const fill = (step) => JSON.parse(JSON.stringify(step).replaceAll("{n}", String(number)));
  for (const step of steps) {
    if (cancelled) return;
    if (step.repeat) {
      for (let n = 0; n < step.repeat; n += 1) await perform(sessionId, step.of, n);
    } else if (step.write) {
      const file = path.join(sessions.get(sessionId), step.write);
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, step.content);
    } else if (step.ask) {
      const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }, { optionId: "no", name: "No", kind: "reject_once" }];
      tell({ id: `ask-${asked += 1}`, method: "session/request_permission", params: { sessionId, toolCall: { toolCallId: `ask-${asked}`, title: step.ask }, options } });
    } else if (step.wait) {
      while (!cancelled && !fs.existsSync(step.wait)) await new Promise((done) => setTimeout(done, 20));
    } else if (step.fail) {
      throw new Error(step.fail);
    } else {
      tell({ method: "session/update", params: { sessionId, update: fill(step) } });
    }
  }
}

const answers = {
  initialize: () => ({ protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: process.env.PERFORMER_NAME ?? "performer", version: "1" } }),
  "session/new": ({ cwd }) => {
    const sessionId = `s${sessions.size + 1}`;
    sessions.set(sessionId, cwd);
    return { sessionId };
  },
  "session/prompt": async ({ sessionId, prompt }) => {
    cancelled = false;
    const text = prompt.map((part) => part.text ?? "").join("\n");
    // The last: a new session is told what was asked before.
    const script = [...text.matchAll(/\(script (\d+)\)/g)].pop();
    if (script) await perform(sessionId, JSON.parse(fs.readFileSync(path.join(process.env.SCRIPTS, `${script[1]}.json`), "utf8")));
    return { stopReason: cancelled ? "cancelled" : "end_turn" };
  },
};

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if (message.method === "session/cancel") cancelled = true;
  if (message.id === undefined || !message.method) return;
  const answer = answers[message.method];
  if (!answer) return tell({ id: message.id, error: { code: -32601, message: "not known" } });
  try {
    tell({ id: message.id, result: await answer(message.params) });
  } catch (error) {
    tell({ id: message.id, error: { code: -32603, message: error.message } });
  }
}).on("close", () => process.exit(0));
