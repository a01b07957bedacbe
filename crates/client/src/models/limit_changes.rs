//! Changes of the limits and the sandbox of projects.

use std::collections::BTreeMap;

use serde::Serialize;

use super::project::{Permissions, Pull};
use super::values::Change;

/// The limits of a project.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimitChanges {
    /// The maximum duration of a run, in seconds; by default, 3600.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub run_seconds: Change<u32>,
    /// The maximum number of jobs created per hour; by default, the server's limit. 0 means no limit.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub create_per_hour: Change<u32>,
    /// The maximum number of messages sent per hour; by default, the server's limit. 0 means no limit.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub message_per_hour: Change<u32>,
    /// The maximum size of a file in a commit, in bytes; by default, 104857600.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub file_bytes: Change<u64>,
    /// The maximum number of concurrent runs, on all workers together; by default, only the workers limit it.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub concurrent_runs: Change<u32>,
    /// The maximum memory of a run, in bytes; by default, 4294967296.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub memory_bytes: Change<u64>,
    /// The maximum number of processes and threads of a run; by default, 1024.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub processes: Change<u32>,
    /// The maximum CPU usage of a run, in thousandths of a processor; by default, no limit.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub cpu_millis: Change<u32>,
    /// The maximum size of a job's workspace and home together, in bytes; by default, 10737418240.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub disk_bytes: Change<u64>,
    /// The maximum output of an agent in one turn, in bytes, including the output of tools; by default, 536870912.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub output_bytes: Change<u64>,
    /// The maximum number of automatic continuations of a turn that was cut short by the model's token limit, by the
    /// agent's call limit, or for an unknown reason; by default, 2.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub continuations: Change<u32>,
    /// The maximum number of model calls of the built-in agent in one turn; by default, 200.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub model_calls: Change<u32>,
    /// The maximum number of automatic messages of a job in a day, such as those about failed checks; by default, 20.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub automatic_per_day: Change<u32>,
    /// The budgets for model calls.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub budget: Change<BudgetChanges>,
}

impl LimitChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `run_seconds`.
    #[must_use]
    pub fn run_seconds(mut self, value: impl Into<Change<u32>>) -> Self {
        self.run_seconds = value.into();
        self
    }

    /// Sets `create_per_hour`.
    #[must_use]
    pub fn create_per_hour(mut self, value: impl Into<Change<u32>>) -> Self {
        self.create_per_hour = value.into();
        self
    }

    /// Sets `message_per_hour`.
    #[must_use]
    pub fn message_per_hour(mut self, value: impl Into<Change<u32>>) -> Self {
        self.message_per_hour = value.into();
        self
    }

    /// Sets `file_bytes`.
    #[must_use]
    pub fn file_bytes(mut self, value: impl Into<Change<u64>>) -> Self {
        self.file_bytes = value.into();
        self
    }

    /// Sets `concurrent_runs`.
    #[must_use]
    pub fn concurrent_runs(mut self, value: impl Into<Change<u32>>) -> Self {
        self.concurrent_runs = value.into();
        self
    }

    /// Sets `memory_bytes`.
    #[must_use]
    pub fn memory_bytes(mut self, value: impl Into<Change<u64>>) -> Self {
        self.memory_bytes = value.into();
        self
    }

    /// Sets `processes`.
    #[must_use]
    pub fn processes(mut self, value: impl Into<Change<u32>>) -> Self {
        self.processes = value.into();
        self
    }

    /// Sets `cpu_millis`.
    #[must_use]
    pub fn cpu_millis(mut self, value: impl Into<Change<u32>>) -> Self {
        self.cpu_millis = value.into();
        self
    }

    /// Sets `disk_bytes`.
    #[must_use]
    pub fn disk_bytes(mut self, value: impl Into<Change<u64>>) -> Self {
        self.disk_bytes = value.into();
        self
    }

    /// Sets `output_bytes`.
    #[must_use]
    pub fn output_bytes(mut self, value: impl Into<Change<u64>>) -> Self {
        self.output_bytes = value.into();
        self
    }

    /// Sets `continuations`.
    #[must_use]
    pub fn continuations(mut self, value: impl Into<Change<u32>>) -> Self {
        self.continuations = value.into();
        self
    }

    /// Sets `model_calls`.
    #[must_use]
    pub fn model_calls(mut self, value: impl Into<Change<u32>>) -> Self {
        self.model_calls = value.into();
        self
    }

    /// Sets `automatic_per_day`.
    #[must_use]
    pub fn automatic_per_day(mut self, value: impl Into<Change<u32>>) -> Self {
        self.automatic_per_day = value.into();
        self
    }

    /// Sets `budget`.
    #[must_use]
    pub fn budget(mut self, value: impl Into<Change<BudgetChanges>>) -> Self {
        self.budget = value.into();
        self
    }
}

/// The budgets for model calls, in millionths of a US dollar; by default, there is no limit. A call that could exceed
/// a budget is not made, and the run fails.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct BudgetChanges {
    /// The budget of one run.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub run_micros: Change<u64>,
    /// The budget of a job, for all of its runs.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub job_micros: Change<u64>,
    /// The budget of the project for one day in UTC.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub day_micros: Change<u64>,
    /// The budget of the project in total.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub project_micros: Change<u64>,
}

impl BudgetChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `run_micros`.
    #[must_use]
    pub fn run_micros(mut self, value: impl Into<Change<u64>>) -> Self {
        self.run_micros = value.into();
        self
    }

    /// Sets `job_micros`.
    #[must_use]
    pub fn job_micros(mut self, value: impl Into<Change<u64>>) -> Self {
        self.job_micros = value.into();
        self
    }

    /// Sets `day_micros`.
    #[must_use]
    pub fn day_micros(mut self, value: impl Into<Change<u64>>) -> Self {
        self.day_micros = value.into();
        self
    }

    /// Sets `project_micros`.
    #[must_use]
    pub fn project_micros(mut self, value: impl Into<Change<u64>>) -> Self {
        self.project_micros = value.into();
        self
    }
}

/// The settings of the sandbox of a project's agents.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SandboxChanges {
    /// The answer to permission requests; by default, `allow`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub permissions: Change<Permissions>,
    /// The answers by kind of tool call. Kinds that are not listed get the answer in `permissions`. `None` removes an
    /// entry.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub permission_kinds: Change<BTreeMap<String, Option<Permissions>>>,
    /// The destinations that programs may reach over HTTPS: `name:port`, or the name of a preset (`cargo`,
    /// `composer`, `debian`, `go`, `hex`, `maven`, `npm`, `nuget`, `pub`, `pypi`, `rubygems`); by default, none.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub egress: Change<Vec<String>>,
    /// The container image, if the server runs agents in containers; by default, the server's image.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub image: Change<String>,
    /// The policy for pulling the image; by default, `missing`.
    #[serde(skip_serializing_if = "Change::is_keep")]
    pub pull: Change<Pull>,
}

impl SandboxChanges {
    /// Returns an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `permissions`.
    #[must_use]
    pub fn permissions(mut self, value: impl Into<Change<Permissions>>) -> Self {
        self.permissions = value.into();
        self
    }

    /// Sets `permission_kinds`.
    #[must_use]
    pub fn permission_kinds(mut self, value: impl Into<Change<BTreeMap<String, Option<Permissions>>>>) -> Self {
        self.permission_kinds = value.into();
        self
    }

    /// Sets `egress`.
    #[must_use]
    pub fn egress(mut self, value: impl Into<Change<Vec<String>>>) -> Self {
        self.egress = value.into();
        self
    }

    /// Sets `image`.
    #[must_use]
    pub fn image(mut self, value: impl Into<Change<String>>) -> Self {
        self.image = value.into();
        self
    }

    /// Sets `pull`.
    #[must_use]
    pub fn pull(mut self, value: impl Into<Change<Pull>>) -> Self {
        self.pull = value.into();
        self
    }
}
