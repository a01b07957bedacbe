// Creates a job, prints what happens in it, and sends a follow-up message.
//
// JOURNEYMAN_URL=http://127.0.0.1:8080 JOURNEYMAN_KEY=jmn_… node examples/follow-up.mjs PROJECT

import { ApiError, Journeyman } from "@journeyman/client";

const project = process.argv[2] ?? "shop";
const client = new Journeyman();

try {
  const job = await client.jobs.create(project, { prompt: "Say goodbye [[write bye.txt|Bye]]" });
  for await (const event of job.stream()) {
    console.log(event.seq, event.type);
    if (event.type === "job.completed" || event.type === "job.failed") break;
  }
  const message = await job.ask("Louder [[write bye.txt|BYE]]");
  console.log(message.status, message.answer);
  console.log(job.status, job.prLink);
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.error(`${error.code}: ${error.message}`);
  process.exitCode = 1;
}
