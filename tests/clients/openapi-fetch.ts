// The client of openapi-typescript and openapi-fetch.

import createClient from "openapi-fetch";
import type { components, paths } from "./generated/openapi-typescript.js";
import { headers, report, run, url } from "./steps.js";

const api = createClient<paths>({ baseUrl: url, headers });
const JOB = "/v2/agent/{projectId}/job/{id}";

function data<T>({ data, error }: { data?: T; error?: unknown }): T {
  if (data === undefined) {
    throw new Error(JSON.stringify(error));
  }
  return data;
}

function failure<E>({ error, response }: { error?: E; response: Response }): { error: E; status: number } {
  if (error === undefined) {
    throw new Error("the request did not fail");
  }
  return { error, status: response.status };
}

await run("openapi-fetch", {
  async createProject(id) {
    return data(await api.POST("/v2/projects", { body: { id, repository: `local:${id}` } }));
  },
  async createJob(projectId, prompt, labels, idempotencyKey) {
    const params = { path: { projectId }, header: { "Idempotency-Key": idempotencyKey } };
    return data(await api.POST("/v2/agent/{projectId}/job", { params, body: { prompt, labels } }));
  },
  async getJob(projectId, id, wait) {
    return data(await api.GET(JOB, { params: { path: { projectId, id }, query: { wait } } }));
  },
  async sendMessage(projectId, id, prompt) {
    return data(await api.POST(`${JOB}/message`, { params: { path: { projectId, id } }, body: { prompt } }));
  },
  async listMessages(projectId, id) {
    return data(await api.GET(`${JOB}/messages`, { params: { path: { projectId, id } } })).messages;
  },
  async listEvents(projectId, id, after, limit) {
    // The document also allows the stream as an answer, so the generated type is `unknown`.
    const params = { path: { projectId, id }, query: { after, limit } };
    return data(await api.GET(`${JOB}/events`, { params })) as components["schemas"]["EventPage"];
  },
  async listJobs(projectId, label) {
    const params = { path: { projectId }, query: { label, status: "completed" as const } };
    return data(await api.GET("/v2/projects/{projectId}/jobs", { params })).jobs;
  },
  async usage(project) {
    const query = { project: [project], groupBy: ["project" as const] };
    return report(data(await api.GET("/v2/usage", { params: { query } }))).lines;
  },
  async missing(projectId, id) {
    return failure(await api.GET(JOB, { params: { path: { projectId, id } } }));
  },
  async empty(projectId, id) {
    return failure(await api.POST(`${JOB}/message`, { params: { path: { projectId, id } }, body: { prompt: "" } }));
  },
});
