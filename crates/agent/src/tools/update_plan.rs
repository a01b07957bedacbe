//! `update_plan`: shows people the steps that the model plans to take.
//!
//! Invariant: a plan replaces the previous one as a whole.

use agent_client_protocol::v1::schema::{PlanEntry, PlanEntryPriority, PlanEntryStatus, ToolKind};
use genai::chat::Tool;
use serde::Deserialize;
use serde_json::json;

use super::{Announcement, ToolOutput};

/// The name of the tool.
pub(crate) const NAME: &str = "update_plan";

/// The arguments of the tool.
#[derive(Debug, Deserialize)]
pub(crate) struct Args {
    /// The steps of the plan, in order.
    pub(crate) entries: Vec<Step>,
}

/// A step of the plan.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    /// The description of the step.
    pub(crate) content: String,
    /// The status of the step.
    pub(crate) status: PlanEntryStatus,
    /// The priority of the step. Default: medium.
    pub(crate) priority: Option<PlanEntryPriority>,
}

impl Args {
    /// Describes the call before it runs.
    pub(crate) fn announcement(&self) -> Announcement {
        Announcement::new(ToolKind::Think, format!("Plan {} steps", self.entries.len()))
    }
}

/// Returns the definition of the tool for a model.
pub(crate) fn definition() -> Tool {
    Tool::new(NAME)
        .with_description("Show the user the plan for a task of several steps. Give all steps every time.")
        .with_schema(json!({
            "type": "object",
            "properties": {
                "entries": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string"},
                            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                            "priority": {"type": "string", "enum": ["high", "medium", "low"]},
                        },
                        "required": ["content", "status"],
                    },
                },
            },
            "required": ["entries"],
        }))
}

/// Runs the tool.
pub(crate) fn run(args: Args) -> ToolOutput {
    let plan = args
        .entries
        .into_iter()
        .map(|step| {
            let priority = step.priority.unwrap_or(PlanEntryPriority::Medium);
            PlanEntry::new(step.content, priority, step.status)
        })
        .collect();
    ToolOutput { text: "The plan is shown to the user.".to_owned(), plan: Some(plan), ..ToolOutput::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_get_medium_priority_by_default() {
        let args = serde_json::from_value(json!({
            "entries": [
                {"content": "look", "status": "completed", "priority": "high"},
                {"content": "leap", "status": "in_progress"},
            ],
        }))
        .unwrap();
        let plan = run(args).plan.unwrap();
        assert_eq!(
            plan,
            [
                PlanEntry::new("look", PlanEntryPriority::High, PlanEntryStatus::Completed),
                PlanEntry::new("leap", PlanEntryPriority::Medium, PlanEntryStatus::InProgress),
            ]
        );
    }
}
