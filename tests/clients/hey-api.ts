// The client of @hey-api/openapi-ts.

import { client } from "./generated/hey-api/client.gen.js";
import * as api from "./generated/hey-api/sdk.gen.js";
import { headers, run, url } from "./steps.js";

client.setConfig({ baseUrl: url, headers });

function failure<E>({ error, response }: { error?: E; response?: Response }): { error: E; status: number } {
  if (error === undefined || response === undefined) {
    throw new Error("the request did not fail");
  }
  return { error, status: response.status };
}

await run("hey-api", {
  async createProject(id) {
    return (await api.createProject({ body: { id, repository: `local:${id}` }, throwOnError: true })).data;
  },
  async createJob(projectId, prompt, labels, idempotencyKey) {
    const options = { path: { projectId }, body: { prompt, labels }, headers: { "Idempotency-Key": idempotencyKey } };
    return (await api.createJob({ ...options, throwOnError: true })).data;
  },
  async getJob(projectId, id, wait) {
    return (await api.getJob({ path: { projectId, id }, query: { wait }, throwOnError: true })).data;
  },
  async sendMessage(projectId, id, prompt) {
    return (await api.sendMessage({ path: { projectId, id }, body: { prompt }, throwOnError: true })).data;
  },
  async listMessages(projectId, id) {
    return (await api.listMessages({ path: { projectId, id }, throwOnError: true })).data.messages;
  },
  async listEvents(projectId, id, after, limit) {
    return (await api.listEvents({ path: { projectId, id }, query: { after, limit }, throwOnError: true })).data;
  },
  async listJobs(projectId, label) {
    const query = { label, status: "completed" as const };
    return (await api.listProjectJobs({ path: { projectId }, query, throwOnError: true })).data.jobs;
  },
  async usage(project) {
    return (await api.getUsage({ query: { project: [project], groupBy: ["project"] }, throwOnError: true })).data.lines;
  },
  async missing(projectId, id) {
    return failure(await api.getJob({ path: { projectId, id } }));
  },
  async empty(projectId, id) {
    return failure(await api.sendMessage({ path: { projectId, id }, body: { prompt: "" } }));
  },
});
