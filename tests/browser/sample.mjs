// Sample data of the tests: updates of the agent `fake`, projects, and jobs of all kinds with long names and texts.

import { script } from "./lib.mjs";

/** Updates of the agent `fake`. */
export const say = (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
export const think = (text) => ({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text } });
export const call = (id, title, more = {}) => ({ sessionUpdate: "tool_call", toolCallId: id, title, kind: "execute", status: "completed", ...more });
/** The content of a tool call. */
export const output = (text) => [{ type: "content", content: { type: "text", text } }];

const update = (id, more) => ({ sessionUpdate: "tool_call_update", toolCallId: id, ...more });

/** The number of files in [`readFiles`]. */
export const READS = 170;
/**
 * Returns the steps of an agent that reads many files. It says "Begins.", waits until `file` exists, sends three updates
 * for each of the files and one more, 511 in all, and works until it is cancelled.
 */
export function readFiles(file) {
  const of = [
    call("t{n}", "cat src/file_{n}.rs", { status: "in_progress", rawInput: { command: "cat src/file_{n}.rs" } }),
    update("t{n}", { status: "completed", content: output(`${"fn main() { println!(\"{n}\"); }\n".repeat(20)}`) }),
    say("Looked at **file {n}**, which has nothing to do with it.\n\n"),
  ];
  return [say("Begins."), { wait: file }, { repeat: READS, of }, say("Has read them all."), { wait: "/nowhere" }];
}

/** The number of repetitions in the job with ten thousand events. */
export const TURNS = 2500;
const STREAM = [
  call("t{n}", "Look at file {n}", { status: "in_progress", rawInput: { command: "cat {n}" } }),
  update("t{n}", { status: "completed", content: output("line {n}\n") }),
  say("Said {n}.\n\n"),
  think("Thought {n}."),
];

const RUST = `//! Greets people.\n\n/// Says hello to somebody.\nfn greet(name: &str) -> String {\n    format!("Hello, {name}! This is a line that is rather long, so that it has to be scrolled to on a small window.")\n}\n\n#[test]\nfn greets() {\n    assert_eq!(greet("Ada"), "Hello, Ada!");\n}\n`;
export const LONG = "A title of a job that goes on for much longer than there is room for on any telephone, with a_very_long_identifier_that_has_no_place_to_break_whatsoever_at_all";
export const MARKDOWN = `I looked at \`greet\` first. It is **fine**, but see <https://example.com/a/very/long/address/that/does/not/end/soon/and/has/no/spaces>.

## What I did

1. Added a test
2. Changed \`a_very_long_identifier_that_has_no_place_to_break_whatsoever_at_all_in_it\`
   - with *care*

| Before | After | And a column that is wide |
|---|---|---|
| \`1\` | \`2\` | some more text in the table's last cell |

\`\`\`rust
fn greet(name: &str) -> String { format!("Hello, {name}! And a line of code that is wider than a phone.") }
\`\`\`

- [x] done
- [ ] not yet

> A quotation.`;

/**
 * Creates the projects `shop`, `fresh` and `elsewhere`, and jobs of all kinds in `shop`; with `isLarge` also a job with ten
 * thousand events. Returns the jobs by their kind.
 */
export async function createJobs(service, key, { isLarge = false } = {}) {
  await service.api(key, "POST", "/projects", { id: "fresh", repository: "local:fresh" });
  await service.api(key, "POST", "/projects", { id: "elsewhere", repository: "https://git.example/acme/shop" });
  const files = { "README.md": "# Shop\n\nIt sells.\n", "src/lib.rs": RUST.replace("Hello, Ada", "Hello"), "conflict.txt": "one\n" };
  const copy = await service.project(key, "shop", { files, model: "test/scripted" });
  const created = {};
  if (isLarge) created.large = await service.job(key, "shop", script("Ten thousand events", [{ repeat: TURNS, of: STREAM }]), { agent: "fake" });
  const steps = [
    think("The user wants a greeting.\n\nLet me look at what there is."),
    { sessionUpdate: "plan", entries: [{ content: "Look at the code", priority: "high", status: "completed" }, { content: "Write a greeting, and a step of the plan that is rather long for one line on a phone", priority: "medium", status: "in_progress" }, { content: "Run the tests", priority: "low", status: "pending" }] },
    call("1", "cargo test --workspace --all-features -- --nocapture a_very_long_name_of_a_test_that_does_not_end", { rawInput: { command: "cargo test" }, content: output(`${"running 12 tests ".repeat(12)}\ntest greets ... ok\n`) }),
    call("2", "Read src/lib.rs", { kind: "read" }),
    call("3", "Edit src/lib.rs", { kind: "edit", content: [{ type: "diff", path: "src/lib.rs", oldText: "fn a() {}\nfn b() {}\n", newText: "fn a() {}\nfn c() {}\n" }] }),
    call("4", "grep -r nothing", { kind: "search", status: "failed", content: output("grep: nothing: No such file") }),
    { ask: "Delete src/old.rs" },
    say(MARKDOWN),
    { write: "src/lib.rs", content: RUST }, { write: "README.md", content: "# The shop\n\nIt sells.\n" },
    { write: "src/a_folder_with_a_long_name/and_one_more_below/a_very_long_name_of_a_file_that_has_no_end.rs", content: RUST },
  ];
  created.done = await service.job(key, "shop", script("Add a greeting\n\nwith tests, please.", steps), { agent: "fake" });
  created.long = await service.job(key, "shop", `${LONG} [[write long.txt|x]]`, { title: LONG });
  created.failed = await service.job(key, "shop", "Fails [[fail The model's provider could not be reached: connection refused (os error 111)]]");
  created.archived = await service.job(key, "shop", "Put away [[say yes]]");
  created.conflict = await service.job(key, "shop", "Change what others change [[write conflict.txt|ours]]");
  for (const job of Object.values(created)) await service.waitForJob(key, "shop", job.id);
  await service.api(key, "POST", `/agent/shop/job/${created.archived.id}/archive`);
  copy.write({ "conflict.txt": "theirs\n" });
  await copy.commit("Change it");
  await copy.git("push", "-q", copy.remote, "HEAD:main");
  created.running = await service.job(key, "shop", script("Works on", [think("Hm."), call("1", "ls", { status: "in_progress", rawInput: { command: "ls" } }), say("I am at it, and"), { wait: "/nowhere" }]), { agent: "fake" });
  await service.api(key, "POST", `/agent/shop/job/${created.running.id}/message`, { prompt: "And then this, a message that waits for its turn and is longer than there is room for" });
  return created;
}

/** Returns the path of the pull request of a job. */
export async function pullPath(service, key, job) {
  return new URL((await service.api(key, "GET", `/agent/shop/job/${job.id}`)).prLink).pathname;
}
