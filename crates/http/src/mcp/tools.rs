//! The tools, with their descriptions and schemas.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::calls::{
    CancelJob, Changes, GetChanges, GetEvents, GetJob, JobEvents, Jobs, ListJobs, ListProjects, Projects,
};
use super::report::JobReport;
use super::schema;
use crate::wire::job::CreateJob;
use crate::wire::message::SendMessage;

/// The effect of a tool.
enum Effect {
    Reads,
    Adds,
    Stops,
}

/// Returns the tools, in a stable order.
pub(super) fn all() -> Vec<Tool> {
    let once = || {
        json!({
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "description": "A text of your own that names this request. A call with the same text and arguments within \
                            24 hours has no second effect and gets the same answer.",
        })
    };
    let background = || {
        json!({
            "type": "boolean",
            "description": "true: returns the job at once, also to a client that supports tasks.",
        })
    };
    let create = schema::input_with::<CreateJob>(
        json!({
            "project": { "type": "string", "description": "The ID of the project. Can be left out if there is only one." },
            "idempotencyKey": once(),
            "background": background(),
        }),
        &[],
    );
    let send = schema::input_with::<SendMessage>(
        json!({ "job": job(), "idempotencyKey": once(), "background": background() }),
        &["job"],
    );
    vec![
        tool::<Projects>(
            "list_projects",
            "List the projects (repositories) in which jobs can be created.",
            schema::input::<ListProjects>(),
            &Effect::Reads,
        ),
        tool::<JobReport>(
            "create_job",
            "Create a job: an agent works on the prompt in a branch of its own and opens a pull request if it changes \
             files. Returns at once; call get_job with wait to get the result.",
            create,
            &Effect::Adds,
        ),
        tool::<JobReport>(
            "send_message",
            "Send a follow-up message to a job, in any state except archived. The agent continues on the same branch and \
             pull request. Returns at once; call get_job with wait to get the result.",
            send,
            &Effect::Adds,
        ),
        tool::<JobReport>(
            "get_job",
            "Get a job, its details, and the answer of its newest message, or of the given one. With wait, the result \
             comes when the job is no longer active, or after that time.",
            schema::input::<GetJob>(),
            &Effect::Reads,
        ),
        tool::<Jobs>(
            "list_jobs",
            "List jobs with their details, newest first.",
            schema::input::<ListJobs>(),
            &Effect::Reads,
        ),
        tool::<Changes>(
            "get_changes",
            "Get the changes of a job relative to its base, as a unified diff.",
            schema::input::<GetChanges>(),
            &Effect::Reads,
        ),
        tool::<JobEvents>(
            "get_events",
            "Get the events of a job: messages, runs, tool calls and texts of the agent, oldest first.",
            schema::input::<GetEvents>(),
            &Effect::Reads,
        ),
        tool::<JobReport>(
            "cancel_job",
            "Stop the run of a job and withdraw its queued messages. A job that is not active does not change.",
            schema::input::<CancelJob>(),
            &Effect::Stops,
        ),
    ]
}

fn job() -> Value {
    json!({ "type": "string", "description": "The ID of the job." })
}

fn tool<T: ToSchema>(name: &'static str, description: &'static str, input: Arc<JsonObject>, effect: &Effect) -> Tool {
    let annotations = ToolAnnotations::new();
    let annotations = match effect {
        Effect::Reads => annotations.read_only(true).destructive(false).idempotent(true).open_world(false),
        Effect::Adds => annotations.read_only(false).destructive(false).idempotent(false).open_world(true),
        Effect::Stops => annotations.read_only(false).destructive(true).idempotent(true).open_world(false),
    };
    Tool::new(name, description, input).with_raw_output_schema(schema::output::<T>()).with_annotations(annotations)
}
