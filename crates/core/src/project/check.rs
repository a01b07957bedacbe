//! The validation of projects. An error names the invalid field as clients know it.

use super::{
    CODE_HOST_TOKEN, InvalidProject, LONGEST_SETTLE_SECONDS, Project, SecretChanges, WEBHOOK_SECRET, check_variable,
    parse_address,
};
use crate::branch::check_ref_name;
use crate::egress::Allowlist;

/// The maximum length of a one-line field, such as the name of an agent, model or image, in characters.
const NAME_CHARS: usize = 200;

/// The maximum length of a setup command or template, in characters.
const TEXT_CHARS: usize = 20_000;

/// The maximum number of labels, reviewers and assignees of a pull request, and of names of checks.
const NAMES: usize = 50;

/// The maximum for the limit on continuations of a turn.
const MOST_CONTINUATIONS: u64 = 100;

/// The maximum for the limit on model calls in a turn.
const MOST_MODEL_CALLS: u64 = 100_000;

/// The maximum for the limit on automatic messages.
const MOST_AUTOMATIC: u64 = 1_000;

/// The maximum for the time that comments wait for others, in seconds.
const MOST_SETTLE: u64 = LONGEST_SETTLE_SECONDS as u64;

/// The maximum for the limit on attempts to repair failed checks.
const MOST_CHECK_ATTEMPTS: u64 = 20;

/// The maximum for the time to wait for checks, in seconds: a day.
const MOST_CHECK_SETTLE: u64 = 24 * 3600;

/// The minimum memory limit, in bytes. No agent starts with less memory.
const LEAST_MEMORY: u64 = 64 << 20;

/// The maximum number of entries of `sandbox.egress`.
const DESTINATIONS: usize = 200;

/// The maximum time limit of a run, in seconds: a week.
const RUN_SECONDS: u32 = 7 * 24 * 3600;

/// Checks a project and the changes to its secrets.
///
/// # Errors
/// Returns an error for the first invalid field.
pub fn check(project: &Project, secrets: &SecretChanges) -> Result<(), InvalidProject> {
    parse_address(&project.repository)?;
    let settings = &project.settings;
    let pulls = &settings.pull_request;
    for name in [&project.reference, &pulls.base].into_iter().flatten() {
        check_ref_name(name)?;
    }
    for (field, name) in [("agent", &project.agent), ("model", &project.model)] {
        check_name(field, name)?;
    }
    if let Some(image) = &settings.sandbox.image {
        check_name("sandbox.image", image)?;
    }
    if let Some(user) = &settings.code_host.username {
        check_name("codeHost.username", user)?;
    }
    let texts = [("pullRequest.title", &pulls.title), ("pullRequest.body", &pulls.body), ("setup", &settings.setup)];
    for (field, text) in texts {
        check_text(field, text.as_deref())?;
    }
    for (field, names) in [
        ("pullRequest.labels", &pulls.labels),
        ("pullRequest.reviewers", &pulls.reviewers),
        ("pullRequest.assignees", &pulls.assignees),
        ("pullRequest.ciPaths", &pulls.ci_paths),
        ("pullRequest.protectedBranches", &pulls.protected_branches),
        ("checks.only", &settings.checks.only),
        ("checks.ignore", &settings.checks.ignore),
    ] {
        if names.len() > NAMES {
            return Err(InvalidProject::TooMany { field, most: NAMES });
        }
        names.iter().try_for_each(|name| check_name(field, name))?;
    }
    if let Some(subject) = &settings.commits.subject {
        check_name("commits.subject", subject)?;
        if !["{subject}", "{summary}"].iter().any(|name| subject.contains(name)) {
            return Err(InvalidProject::Subject);
        }
    }
    if let Some(mention) = &settings.comments.mention {
        check_name("comments.mention", mention)?;
        if mention.starts_with('@') {
            return Err(InvalidProject::Mention);
        }
    }
    if let Some(label) = settings.comments.issue_label() {
        check_name("comments.issueLabel", label)?;
    }
    let limits = &settings.limits;
    if limits.run_seconds.is_some_and(|seconds| !(1..=RUN_SECONDS).contains(&seconds)) {
        return Err(InvalidProject::Number { field: "limits.runSeconds", least: 1, most: RUN_SECONDS.into() });
    }
    if limits.file_bytes == Some(0) {
        return Err(InvalidProject::Number { field: "limits.fileBytes", least: 1, most: u64::MAX });
    }
    if limits.concurrent_runs == Some(0) {
        return Err(InvalidProject::Number { field: "limits.concurrentRuns", least: 1, most: u32::MAX.into() });
    }
    for (field, number, least, most) in [
        ("limits.memoryBytes", limits.memory_bytes, LEAST_MEMORY, u64::MAX),
        ("limits.processes", limits.processes.map(u64::from), 16, 1 << 22),
        ("limits.cpuMillis", limits.cpu_millis.map(u64::from), 100, 1_000_000),
        ("limits.diskBytes", limits.disk_bytes, 1 << 20, u64::MAX),
        ("limits.outputBytes", limits.output_bytes, 1 << 20, u64::MAX),
        ("limits.continuations", limits.continuations.map(u64::from), 0, MOST_CONTINUATIONS),
        ("limits.modelCalls", limits.model_calls.map(u64::from), 1, MOST_MODEL_CALLS),
        ("limits.automaticPerDay", limits.automatic_per_day.map(u64::from), 0, MOST_AUTOMATIC),
        ("comments.settleSeconds", settings.comments.settle_seconds.map(u64::from), 0, MOST_SETTLE),
        ("checks.attempts", settings.checks.attempts.map(u64::from), 1, MOST_CHECK_ATTEMPTS),
        ("checks.settleSeconds", settings.checks.settle_seconds.map(u64::from), 0, MOST_CHECK_SETTLE),
    ] {
        if number.is_some_and(|number| !(least..=most).contains(&number)) {
            return Err(InvalidProject::Number { field, least, most });
        }
    }
    if settings.sandbox.egress.len() > DESTINATIONS {
        return Err(InvalidProject::TooMany { field: "sandbox.egress", most: DESTINATIONS });
    }
    Allowlist::read(&settings.sandbox.egress).map_err(InvalidProject::Egress)?;
    for (name, value) in &settings.environment {
        check_variable(name, value)?;
    }
    for name in settings.secret_uses.keys() {
        check_variable(name, "")?;
    }
    check_secrets(secrets)
}

fn check_secrets(secrets: &SecretChanges) -> Result<(), InvalidProject> {
    for (name, value) in secrets {
        let value = value.as_ref().map_or("", |value| &value.0);
        // Git reads the token from a line of text, so a line break would cut it off.
        let field = match name.as_str() {
            CODE_HOST_TOKEN => "codeHost.token",
            WEBHOOK_SECRET => "codeHost.webhookSecret",
            _ => {
                check_variable(name, value)?;
                continue;
            }
        };
        if value.chars().any(char::is_control) || value.chars().count() > TEXT_CHARS {
            return Err(InvalidProject::Text { field, most: TEXT_CHARS });
        }
    }
    Ok(())
}

/// Checks that a field has one line, which is not empty.
fn check_name(field: &'static str, name: &str) -> Result<(), InvalidProject> {
    let bad = name.trim().is_empty() || name.chars().count() > NAME_CHARS || name.chars().any(char::is_control);
    if bad { Err(InvalidProject::Text { field, most: NAME_CHARS }) } else { Ok(()) }
}

/// Checks a field that may have several lines.
fn check_text(field: &'static str, text: Option<&str>) -> Result<(), InvalidProject> {
    let bad = |text: &str| text.contains('\0') || text.chars().count() > TEXT_CHARS;
    if text.is_some_and(bad) { Err(InvalidProject::Lines { field, most: TEXT_CHARS }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Settings;
    use crate::secret::SecretValue;
    use crate::time::Timestamp;

    fn project() -> Project {
        Project {
            id: "shop".parse().expect("a slug"),
            repository: "local:shop".into(),
            reference: Some("main".into()),
            agent: "journeyman".into(),
            model: "test/scripted".into(),
            created_at: Timestamp::default(),
            settings: Settings::default(),
            secret_names: vec![],
            version: 1,
            identity: None,
        }
    }

    #[test]
    fn the_error_names_the_invalid_field() {
        type Spoil = fn(&mut Project);
        let cases: [(Spoil, &str); 26] = [
            (|p| p.settings.sandbox.image = Some("a\nb".into()), "sandbox.image"),
            (|p| p.repository = "shop".into(), "repository"),
            (|p| p.reference = Some("a b".into()), "branch or ref"),
            (|p| p.settings.pull_request.base = Some("-x".into()), "branch or ref"),
            (|p| p.agent = String::new(), "agent"),
            (|p| p.model = "a\nb".into(), "model"),
            (|p| p.settings.setup = Some("\0".into()), "setup"),
            (|p| p.settings.pull_request.title = Some("x".repeat(20_001)), "pullRequest.title"),
            (|p| p.settings.pull_request.labels = vec!["x".into(); 51], "pullRequest.labels"),
            (|p| p.settings.commits.subject = Some("a\n{subject}".into()), "commits.subject"),
            (|p| p.settings.commits.subject = Some("{type}".into()), "commits.subject"),
            (|p| p.settings.comments.mention = Some("@bot".into()), "comments.mention"),
            (|p| p.settings.comments.mention = Some(String::new()), "comments.mention"),
            (|p| p.settings.limits.run_seconds = Some(0), "limits.runSeconds"),
            (|p| p.settings.limits.file_bytes = Some(0), "limits.fileBytes"),
            (|p| p.settings.limits.continuations = Some(101), "limits.continuations"),
            (|p| p.settings.limits.model_calls = Some(0), "limits.modelCalls"),
            (|p| p.settings.limits.memory_bytes = Some(1 << 20), "limits.memoryBytes"),
            (|p| p.settings.limits.processes = Some(1), "limits.processes"),
            (|p| p.settings.limits.cpu_millis = Some(1), "limits.cpuMillis"),
            (|p| p.settings.limits.disk_bytes = Some(1), "limits.diskBytes"),
            (|p| p.settings.limits.output_bytes = Some(1), "limits.outputBytes"),
            (|p| p.settings.limits.concurrent_runs = Some(0), "limits.concurrentRuns"),
            (|p| p.settings.sandbox.egress = vec!["10.0.0.1:80".into()], "sandbox.egress"),
            (|p| p.settings.sandbox.egress = vec!["npm".into(); 201], "sandbox.egress"),
            (|p| drop(p.settings.environment.insert("A B".into(), "x".into())), "A B"),
        ];
        assert_eq!(check(&project(), &SecretChanges::new()), Ok(()));
        for (spoil, named) in cases {
            let mut spoiled = project();
            spoil(&mut spoiled);
            let text = check(&spoiled, &SecretChanges::new()).expect_err(named).to_string();
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn a_text_of_several_lines_may_be_empty_and_is_refused_with_what_it_lacks() {
        let mut project = project();
        project.settings.setup = Some("npm ci\n".into());
        assert_eq!(check(&project, &SecretChanges::new()), Ok(()));
        project.settings.setup = Some("\0".into());
        let text = check(&project, &SecretChanges::new()).expect_err("a NUL character").to_string();
        assert_eq!(text, "setup must have at most 20000 characters, and no NUL character");
    }

    #[test]
    fn a_token_has_one_line_and_other_secrets_have_names_of_variables() {
        let token = |value: &str| [(CODE_HOST_TOKEN.to_owned(), Some(SecretValue(value.to_owned())))].into();
        assert_eq!(check(&project(), &token("ghp_x")), Ok(()));
        assert!(check(&project(), &token("a\nb")).is_err());
        assert!(check(&project(), &token(&"a".repeat(20_001))).is_err());
        assert!(check(&project(), &[("1A".to_owned(), None)].into()).is_err());
    }
}
