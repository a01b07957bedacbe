//! The plan of an agent.

use serde_json::Value;

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The run that reported it.
    run: String,
    pub(crate) steps: Vec<Step>,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) text: String,
    /// `pending`, `in_progress`, `completed` or `stopped`.
    pub(crate) status: &'static str,
}

impl Plan {
    /// Reads the data of the event `agent.plan`.
    pub(crate) fn new(run: String, data: &Value) -> Self {
        Self { run, steps: data["entries"].as_array().map(|all| all.iter().map(step).collect()).unwrap_or_default() }
    }

    /// Returns the number of completed steps.
    pub(crate) fn done(&self) -> usize {
        self.steps.iter().filter(|step| step.status == "completed").count()
    }

    /// Returns the step that the agent works on or was stopped at, with its number from 1.
    pub(crate) fn current(&self) -> Option<(usize, &Step)> {
        let index = self.steps.iter().position(|step| matches!(step.status, "in_progress" | "stopped"))?;
        Some((index + 1, &self.steps[index]))
    }

    /// Marks the steps in progress as stopped when the run ends; returns true if there were any.
    pub(crate) fn stop(&mut self, run: &str) -> bool {
        if self.run != run {
            return false;
        }
        let mut any = false;
        for step in self.steps.iter_mut().filter(|step| step.status == "in_progress") {
            (step.status, any) = ("stopped", true);
        }
        any
    }
}

fn step(value: &Value) -> Step {
    let status = match value["status"].as_str() {
        Some("completed") => "completed",
        Some("in_progress") => "in_progress",
        _ => "pending",
    };
    Step { text: value["content"].as_str().unwrap_or_default().to_owned(), status }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_knows_its_current_step() {
        let plan = |statuses: &[&str]| {
            let entries: Vec<Value> = statuses.iter().map(|status| json!({"content": "x", "status": status})).collect();
            Plan::new("run".to_owned(), &json!({ "entries": entries }))
        };
        let mut running = plan(&["completed", "in_progress", "pending"]);
        assert_eq!((running.done(), running.current().map(|(number, _)| number)), (1, Some(2)));
        assert!(!running.stop("another run"));
        assert!(running.stop("run") && !running.stop("run"), "it is stopped once");
        assert_eq!(running.current().map(|(number, step)| (number, step.status)), Some((2, "stopped")));
        assert_eq!(plan(&["completed"]).current(), None);
        assert!(Plan::new(String::new(), &json!({"entries": 7})).steps.is_empty());
    }
}
