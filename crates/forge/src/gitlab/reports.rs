//! The failed tests of CI jobs, from the reports that jobs upload (`artifacts:reports:junit`).

use journeyman_core::checks::{Check, CheckState};
use journeyman_core::code_host::HostRepository;
use journeyman_core::ports::ForgeError;
use serde::Deserialize;
use serde_json::Value;

use super::Gitlab;
use crate::json::or_default;
use crate::report;

/// The beginning of the ID of a report, before the pipeline and the name of the job.
const REPORT: &str = "test-report/";

/// The maximum number of failed tests in a report.
const TESTS: usize = 100;

/// The test report of a pipeline (`GET /projects/:id/pipelines/:pipeline_id/test_report`).
#[derive(Default, Deserialize)]
#[serde(default)]
struct TestReport {
    test_suites: Vec<Suite>,
}

/// The tests of a job, or of all parts of a parallel job.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Suite {
    name: String,
    total_count: u64,
    #[serde(deserialize_with = "or_default")]
    test_cases: Vec<Test>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Test {
    /// `success`, `failed`, `error` or `skipped`.
    #[serde(deserialize_with = "or_default")]
    status: String,
    #[serde(deserialize_with = "or_default")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    classname: String,
    #[serde(deserialize_with = "or_default")]
    file: String,
    /// A text, or an object with its parts.
    system_output: Value,
}

impl Suite {
    /// Returns whether the suite has the tests of a job. The parts of a parallel job are named like `test 1/2`.
    fn is_of(&self, job: &str) -> bool {
        let rest = job.strip_prefix(self.name.as_str());
        !self.name.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ':']))
    }
}

impl Test {
    fn has_failed(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "error")
    }

    fn text(&self) -> String {
        let names = [&self.classname, &self.name].into_iter().filter(|name| !name.is_empty());
        let name = names.cloned().collect::<Vec<_>>().join(" ");
        let file = if self.file.is_empty() { String::new() } else { format!(" ({})", self.file) };
        let output = match &self.system_output {
            Value::Null => String::new(),
            Value::String(text) => format!("\n{}", text.trim()),
            other => format!("\n{other}"),
        };
        format!("{name}{file}{output}")
    }
}

/// Adds the report of a failed job to its check. `job` is its name in the pipeline.
pub(super) fn with_report(check: Check, pipeline: u64, job: &str) -> Check {
    let report = (check.state == CheckState::Failed).then(|| format!("{REPORT}{pipeline}/{job}"));
    Check { report, ..check }
}

/// Reads a report, at most `limit` bytes; `None` if the ID is not that of a report. The inner value is `None` if no test has
/// failed, or if the job has uploaded no report.
pub(super) async fn read(
    client: &Gitlab,
    repository: &HostRepository,
    id: &str,
    limit: usize,
) -> Option<Result<Option<Vec<u8>>, ForgeError>> {
    let (pipeline, job) = id.strip_prefix(REPORT)?.split_once('/')?;
    let pipeline: u64 = pipeline.parse().ok()?;
    let found = client.get::<TestReport>(repository, &format!("/pipelines/{pipeline}/test_report")).await;
    Some(match found {
        Ok(found) => Ok(failed_tests(&found, job).and_then(|text| report::file(text, limit))),
        Err(ForgeError::NotFound(_) | ForgeError::Denied(_)) => Ok(None),
        Err(error) => Err(error),
    })
}

fn failed_tests(found: &TestReport, job: &str) -> Option<String> {
    let suite = found.test_suites.iter().find(|suite| suite.is_of(job))?;
    let failed: Vec<&Test> = suite.test_cases.iter().filter(|test| test.has_failed()).collect();
    if failed.is_empty() {
        return None;
    }
    let mut parts = vec![format!("{} of {} tests failed.", failed.len(), suite.total_count)];
    parts.extend(failed.iter().take(TESTS).map(|test| test.text()));
    if failed.len() > TESTS {
        parts.push(format!("[these are the first {TESTS}]"));
    }
    Some(parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_failed_tests_of_a_job_are_listed() {
        let report: TestReport = serde_json::from_value(json!({
            "total_count": 5,
            "test_suites": [
                {"name": "lint", "total_count": 1, "test_cases": [{"status": "failed", "name": "other"}]},
                {"name": "unit", "total_count": 4, "test_cases": [
                    {"status": "success", "name": "adds", "system_output": null},
                    {"status": "failed", "name": "subtracts", "classname": "Cart", "file": "cart_test.rb",
                     "system_output": "expected 1\n"},
                    {"status": "error", "name": "divides", "system_output": {"message": "zero"}},
                ]},
            ],
        }))
        .unwrap();
        let expected =
            "2 of 4 tests failed.\n\nCart subtracts (cart_test.rb)\nexpected 1\n\ndivides\n{\"message\":\"zero\"}";
        assert_eq!(failed_tests(&report, "unit").as_deref(), Some(expected));
        assert_eq!(failed_tests(&report, "unit 1/2").as_deref(), Some(expected));
        for other in ["units", "un", "missing"] {
            assert_eq!(failed_tests(&report, other), None, "{other}");
        }
    }
}
