// The client of orval.

import * as api from "./generated/orval.js";
import { headers, report, run } from "./steps.js";

/** Throws the answer if it has another status. */
function assertStatus<A extends { status: number; data: unknown }, S extends A["status"]>(
  answer: A,
  status: S,
): asserts answer is Extract<A, { status: S }> {
  if (answer.status !== status) {
    throw new Error(`${answer.status}: ${JSON.stringify(answer.data)}`);
  }
}

await run("orval", {
  async createProject(id) {
    const answer = await api.createProject({ id, repository: `local:${id}` }, { headers });
    assertStatus(answer, 201);
    return answer.data;
  },
  async createJob(projectId, prompt, labels, idempotencyKey) {
    const options = { headers: { ...headers, "Idempotency-Key": idempotencyKey } };
    const answer = await api.createJob(projectId, { prompt, labels }, options);
    assertStatus(answer, 201);
    return answer.data;
  },
  async getJob(projectId, id, wait) {
    const answer = await api.getJob(projectId, id, { wait }, { headers });
    assertStatus(answer, 200);
    return answer.data;
  },
  async sendMessage(projectId, id, prompt) {
    const answer = await api.sendMessage(projectId, id, { prompt }, { headers });
    assertStatus(answer, 200);
    return answer.data;
  },
  async listMessages(projectId, id) {
    const answer = await api.listMessages(projectId, id, {}, { headers });
    assertStatus(answer, 200);
    return answer.data.messages;
  },
  async listEvents(projectId, id, after, limit) {
    const answer = await api.listEvents(projectId, id, { after, limit }, { headers });
    assertStatus(answer, 200);
    // The document also allows the stream as an answer, so the generated type is `unknown`.
    return answer.data as api.EventPage;
  },
  async listJobs(projectId, label) {
    const answer = await api.listProjectJobs(projectId, { label, status: "completed" }, { headers });
    assertStatus(answer, 200);
    return answer.data.jobs;
  },
  async usage(project) {
    const answer = await api.getUsage({ project: [project], groupBy: ["project"] }, { headers });
    assertStatus(answer, 200);
    return report(answer.data).lines;
  },
  async missing(projectId, id) {
    const answer = await api.getJob(projectId, id, {}, { headers });
    assertStatus(answer, 404);
    return { status: answer.status, error: answer.data };
  },
  async empty(projectId, id) {
    const answer = await api.sendMessage(projectId, id, { prompt: "" }, { headers });
    assertStatus(answer, 400);
    return { status: answer.status, error: answer.data };
  },
});
