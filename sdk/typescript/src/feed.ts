import type { EventPullRequest, ProjectEvent, ProjectEventData, ProjectEventType, Reason } from "./generated/api.js";

/** The fields that are never `null` in the events of a type. */
interface Present {
  "job.failed": { reason: Reason };
  "message.finished": { messageId: string };
  "message.failed": { messageId: string };
  "pull_request.opened": { pullRequest: EventPullRequest };
  "pull_request.updated": { pullRequest: EventPullRequest };
  "pull_request.merged": { pullRequest: EventPullRequest };
  "pull_request.closed": { pullRequest: EventPullRequest };
  "pull_request.reopened": { pullRequest: EventPullRequest };
  "budget.reached": { runId: string; reason: Reason };
}

type Data<Type> = Type extends keyof Present
  ? Omit<ProjectEventData, keyof Present[Type]> & Present[Type]
  : ProjectEventData;

/** An event of the feed. Newer servers may send other types at run time: ignore types that you do not know. */
export type FeedEvent = {
  [Type in ProjectEventType]: Omit<ProjectEvent, "type" | "data"> & { type: Type; data: Data<Type> };
}[ProjectEventType];
