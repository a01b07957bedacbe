//! The signature of a failure, by which a failure that an attempt did not change is recognized.

use std::collections::BTreeSet;

use super::text::FailedCheck;
use crate::idempotency::Fingerprint;

/// The number of lines at the end of a log that count.
const LINES: usize = 200;

/// Returns the signature of a failure: the same for two failures of the same checks whose logs differ only in numbers,
/// hashes and the order of lines. Logs have times, durations, addresses and paths of temporary files, which differ
/// between two runs of the same failure, and concurrent tests print in any order.
#[must_use]
pub fn signature(failed: &[FailedCheck]) -> String {
    let mut parts: Vec<String> = failed.iter().map(part).collect();
    parts.sort_unstable();
    let digest = Fingerprint::of("failed checks", parts.join("\n\n").as_bytes());
    digest.0.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn part(failed: &FailedCheck) -> String {
    let told = || failed.report.as_deref().or(failed.check.summary.as_deref());
    let text = failed.log.as_deref().or_else(told).unwrap_or_default();
    let lines: BTreeSet<String> = text.lines().rev().take(LINES).map(stable).collect();
    let lines: Vec<String> = lines.into_iter().collect();
    format!("{}\n{}", failed.check.name, lines.join("\n"))
}

/// Replaces each word with a digit, because it may be a number, a time or a hash.
fn stable(line: &str) -> String {
    let mut kept = String::new();
    for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        kept.push_str(if word.chars().any(|c| c.is_ascii_digit()) { "0" } else { word });
        kept.push(' ');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Check, CheckState};

    fn failed(name: &str, log: Option<&str>, summary: Option<&str>) -> FailedCheck {
        let check = Check { summary: summary.map(str::to_owned), ..Check::new(name, CheckState::Failed) };
        FailedCheck { check, log: log.map(str::to_owned), report: None }
    }

    #[test]
    fn a_repeated_failure_has_the_same_signature() {
        let first = "2026-11-22T10:00:01Z test a ... ok\ntest b ... FAILED\nassertion at /tmp/x1f9/b.rs:7\n12.3 s";
        let again = "2026-11-22T11:30:59Z test b ... FAILED\ntest a ... ok\nassertion at /tmp/q77/b.rs:7\n9.9 s";
        // The time stands before another line, but the words of the lines are the same.
        let again =
            again.replace("2026-11-22T11:30:59Z test b", "test b").replace("test a", "2026-11-22T11:30:59Z test a");
        let one = signature(&[failed("test", Some(first), None), failed("lint", None, None)]);
        assert_eq!(one, signature(&[failed("lint", None, None), failed("test", Some(&again), None)]));
    }

    #[test]
    fn another_failure_has_another_signature() {
        let one = signature(&[failed("test", Some("test b ... FAILED"), None)]);
        for other in [
            failed("test", Some("test c ... FAILED"), None),
            failed("lint", Some("test b ... FAILED"), None),
            failed("test", None, Some("1 test failed")),
        ] {
            assert_ne!(signature(std::slice::from_ref(&other)), one, "{other:?}");
        }
    }
}
