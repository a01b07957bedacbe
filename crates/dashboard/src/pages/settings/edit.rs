//! Conversion of the form of a section to an edit of the project. An empty field restores the default.

use std::collections::BTreeSet;
use std::sync::Arc;

use journeyman_app::ProjectEdit;
use journeyman_core::decision::project::Proposal;
use journeyman_core::model::budget::Budgets;
use journeyman_core::project::{
    Answers, CODE_HOST_TOKEN, CheckMode, CheckSettings, CheckoutSettings, CiFiles, DEFAULT_AGENT, DEFAULT_MODEL,
    KeepUpToDate, Lfs, LimitSettings, PermissionPolicy, Project, PullPolicy, Resolve, ReviewRequests, Reviews,
    SecretChanges, SecretUse, Submodules,
};
use journeyman_core::secret::SecretValue;

use crate::choices::{chosen_effort, chosen_model};
use crate::fields::Fields;

/// A change of a project, which can be applied several times.
pub(super) type Edit = Arc<dyn Fn(Project) -> Result<Proposal, String> + Send + Sync>;

/// Returns the edit as a use case takes it.
pub(super) fn boxed(edit: &Edit) -> ProjectEdit {
    let edit = Arc::clone(edit);
    Box::new(move |project| edit(project))
}

/// Returns an edit that changes fields and no secrets.
fn fields_only(change: impl Fn(&mut Project) + Send + Sync + 'static) -> Edit {
    Arc::new(move |mut project| {
        change(&mut project);
        Ok((project, SecretChanges::new()))
    })
}

/// Reads the form of a section. `project` is the project that the form was made for.
///
/// # Errors
/// A sentence about the field that cannot be read.
pub(super) fn of(section: &str, fields: &Fields, project: &Project) -> Result<Edit, String> {
    match section {
        "repository" => repository(fields),
        "agent" => {
            let (agent, model, setup) = (fields.given("agent"), chosen_model(fields), long(fields, "setup"));
            let effort = chosen_effort(fields)?;
            Ok(fields_only(move |project| {
                project.agent = agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned());
                project.model = model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
                project.settings.effort = effort;
                project.settings.setup.clone_from(&setup);
            }))
        }
        "environment" => environment(fields, project),
        "sandbox" => sandbox(fields),
        "pull-requests" => pull_requests(fields),
        "comments" => comments(fields),
        "limits" => {
            let limits = limits(fields, &project.settings.limits)?;
            Ok(fields_only(move |project| project.settings.limits = limits.clone()))
        }
        _ => Err("this section has no settings to save".to_owned()),
    }
}

fn repository(fields: &Fields) -> Result<Edit, String> {
    let repository = fields.given("repository").ok_or("repository is missing")?;
    let (reference, username) = (fields.given("ref"), fields.given("username"));
    let token = match fields.is_set("no-token") {
        true => Some(None),
        false => fields.given("token").map(|token| Some(SecretValue(token))),
    };
    let accepts = fields.is_set("accept-repository");
    let checkout = CheckoutSettings {
        submodules: if fields.is_set("submodules") { Submodules::Read } else { Submodules::Off },
        lfs: if fields.is_set("lfs") { Lfs::Fetch } else { Lfs::Off },
    };
    let allow_force_push = fields.is_set("allowForcePush");
    Ok(Arc::new(move |mut project| {
        // Setting the same URL again accepts the repository that has it now, which may be another one.
        if accepts || project.repository != repository {
            project.set_repository(&repository);
        }
        project.reference.clone_from(&reference);
        project.settings.code_host.username.clone_from(&username);
        project.settings.checkout = checkout;
        // Only the form of a repository on the built-in code host has it.
        if project.repository.starts_with("local:") {
            project.settings.code_host.allow_force_push = allow_force_push;
        }
        let secrets = token.clone().map(|token| (CODE_HOST_TOKEN.to_owned(), token));
        Ok((project, secrets.into_iter().collect()))
    }))
}

fn sandbox(fields: &Fields) -> Result<Edit, String> {
    let refuses = fields.text("permissions") == "refuse";
    let permissions = if refuses { PermissionPolicy::Refuse } else { PermissionPolicy::Allow };
    let pull = match fields.text("pull").as_str() {
        "" | "missing" => PullPolicy::Missing,
        "always" => PullPolicy::Always,
        "never" => PullPolicy::Never,
        other => return Err(format!("sandbox.pull: {other:?} is not missing, always or never")),
    };
    let (egress, image) = (fields.lines("egress"), fields.given("image"));
    Ok(fields_only(move |project| {
        let sandbox = &mut project.settings.sandbox;
        (sandbox.permissions, sandbox.pull) = (permissions, pull);
        sandbox.egress.clone_from(&egress);
        sandbox.image.clone_from(&image);
    }))
}

fn pull_requests(fields: &Fields) -> Result<Edit, String> {
    let (draft, base, title) = (fields.is_set("draft"), fields.given("base"), fields.given("title"));
    let body = long(fields, "body");
    let [labels, reviewers, assignees] = ["labels", "reviewers", "assignees"].map(|name| fields.separated(name));
    let ci_files = if fields.is_set("ciFiles") { CiFiles::Allow } else { CiFiles::Refuse };
    let [ci_paths, protected_branches] = ["ciPaths", "protectedBranches"].map(|name| fields.lines(name));
    let (commit_subject, co_authors) = (fields.given("commitSubject"), fields.is_set("coAuthors"));
    let (archive_on_merge, auto_merge) = (fields.is_set("archiveOnMerge"), fields.is_set("autoMerge"));
    let keep_up_to_date = match fields.text("keepUpToDate").as_str() {
        "" | "off" => KeepUpToDate::Off,
        "conflicts" => KeepUpToDate::Conflicts,
        "always" => KeepUpToDate::Always,
        other => return Err(format!("pullRequest.keepUpToDate: {other:?} is not off, conflicts or always")),
    };
    Ok(fields_only(move |project| {
        let commits = &mut project.settings.commits;
        commits.subject.clone_from(&commit_subject);
        commits.co_authors = co_authors;
        let pulls = &mut project.settings.pull_request;
        pulls.draft = draft;
        pulls.base.clone_from(&base);
        pulls.title.clone_from(&title);
        pulls.body.clone_from(&body);
        pulls.labels.clone_from(&labels);
        pulls.reviewers.clone_from(&reviewers);
        pulls.assignees.clone_from(&assignees);
        pulls.ci_paths.clone_from(&ci_paths);
        pulls.protected_branches.clone_from(&protected_branches);
        (pulls.ci_files, pulls.archive_on_merge) = (ci_files, archive_on_merge);
        pulls.keep_up_to_date = keep_up_to_date;
        pulls.auto_merge = auto_merge;
    }))
}

/// Reads the form about comments, issues and checks. The built-in code host has no issues and no checks, so the form of
/// its projects does not have their fields.
fn comments(fields: &Fields) -> Result<Edit, String> {
    let reviews = match fields.text("reviews").as_str() {
        "" | "all" => Reviews::All,
        "mentioned" => Reviews::Mentioned,
        "off" => Reviews::Off,
        other => return Err(format!("comments.reviews: {other:?} is not all, mentioned or off")),
    };
    let mode = match fields.text("mode").as_str() {
        "off" => CheckMode::Off,
        "" | "report" => CheckMode::Report,
        "fix" => CheckMode::Fix,
        other => return Err(format!("checks.mode: {other:?} is not off, report or fix")),
    };
    let review_requests = match fields.text("reviewRequests").as_str() {
        "" | "write" => ReviewRequests::Write,
        "read" => ReviewRequests::Read,
        "off" => ReviewRequests::Off,
        other => return Err(format!("comments.reviewRequests: {other:?} is not write, read or off")),
    };
    let issue_label = if fields.is_set("issues") { fields.given("issueLabel") } else { Some(String::new()) };
    let mention = fields.given("mention").map(|name| name.trim_start_matches('@').to_owned());
    let mention = mention.filter(|name| !name.is_empty());
    let answers = if fields.is_set("answers") { Answers::Full } else { Answers::Quiet };
    let resolve = if fields.is_set("resolve") { Resolve::Answered } else { Resolve::Never };
    let settle_seconds = small(fields, "comments", "settleSeconds")?;
    let checks = CheckSettings {
        mode,
        attempts: small(fields, "checks", "attempts")?,
        settle_seconds: small(fields, "checks", "checkSettleSeconds")?,
        only: fields.lines("only"),
        ignore: fields.lines("ignore"),
    };
    let automatic_per_day = small(fields, "limits", "automaticPerDay")?;
    Ok(fields_only(move |project| {
        let is_hosted = project.repository.starts_with("local:");
        let settings = &mut project.settings;
        let comments = &mut settings.comments;
        (comments.reviews, comments.settle_seconds) = (reviews, settle_seconds);
        comments.mention.clone_from(&mention);
        settings.limits.automatic_per_day = automatic_per_day;
        if !is_hosted {
            (comments.answers, comments.review_requests) = (answers, review_requests);
            comments.resolve = resolve;
            comments.issue_label.clone_from(&issue_label);
            settings.checks = checks.clone();
        }
    }))
}

/// Reads a whole number; `None` if the field is blank.
fn number(fields: &Fields, name: &str) -> Result<Option<u64>, String> {
    match fields.given(name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| format!("{name}: {text:?} is not a whole number")),
    }
}

/// Reads a number of up to 32 bits; `None` if the field is blank.
fn small(fields: &Fields, group: &str, name: &str) -> Result<Option<u32>, String> {
    let number = number(fields, name)?.map(u32::try_from).transpose();
    number.map_err(|_| format!("{group}.{name}: must be at most {}", u32::MAX))
}

/// Returns a text of several lines unchanged; `None` if it is blank.
fn long(fields: &Fields, name: &str) -> Option<String> {
    Some(fields.text(name)).filter(|text| !text.trim().is_empty())
}

fn environment(fields: &Fields, project: &Project) -> Result<Edit, String> {
    // Variables that the form cannot show are kept.
    let shown = project.settings.environment.iter().filter(|(_, value)| is_line(value));
    let shown: Vec<String> = shown.map(|(name, _)| name.clone()).collect();
    let mut variables = Vec::new();
    for line in fields.lines("environment") {
        let (name, value) =
            line.split_once('=').ok_or_else(|| format!("a variable must have the form NAME=value: {line:?}"))?;
        variables.push((name.trim().to_owned(), value.to_owned()));
    }
    let removed = fields.all("remove-secret");
    let mut secrets: SecretChanges = removed.iter().map(|name| (name.clone(), None)).collect();
    let mut uses = None;
    if let Some(name) = fields.given("secret-name") {
        let value = fields.text("secret-value");
        if value.is_empty() {
            return Err(format!("the secret {name} needs a value"));
        }
        if name == CODE_HOST_TOKEN {
            return Err(format!("secrets.{name}: is not a name for a variable"));
        }
        // A new value of an existing secret keeps its uses.
        if !project.secret_names.contains(&name) {
            uses = Some((name.clone(), secret_uses(&fields.all("secret-use"))?));
        }
        secrets.insert(name, Some(SecretValue(value)));
    } else if !fields.text("secret-value").is_empty() {
        return Err("the secret needs a name".to_owned());
    }
    Ok(Arc::new(move |mut project| {
        let settings = &mut project.settings;
        settings.environment.retain(|name, _| !shown.contains(name));
        settings.environment.extend(variables.clone());
        settings.secret_uses.retain(|name, _| !removed.contains(name));
        settings.secret_uses.extend(uses.clone());
        Ok((project, secrets.clone()))
    }))
}

fn secret_uses(names: &[String]) -> Result<BTreeSet<SecretUse>, String> {
    let known = |name: &String| match name.as_str() {
        "setup" => Ok(SecretUse::Setup),
        "agent" => Ok(SecretUse::Agent),
        "model" => Ok(SecretUse::Model),
        other => Err(format!("secretUses: {other:?} is not setup, agent or model")),
    };
    names.iter().map(known).collect()
}

/// Returns true if a value fits into a line of the form.
pub(super) fn is_line(value: &str) -> bool {
    !value.chars().any(char::is_control) && value.trim() == value
}

/// Converts bytes to whole mebibytes, the unit of the form.
pub(super) const fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

fn limits(fields: &Fields, set: &LimitSettings) -> Result<LimitSettings, String> {
    let small = |name: &str| small(fields, "limits", name);
    // A number of bytes that the form rounded is kept unless it was edited.
    let bytes = |name: &str, set: Option<u64>| {
        let given = number(fields, name)?;
        let kept = set.filter(|set| given == Some(mebibytes(*set)));
        let too_large = || format!("{name}: the number is too large");
        let given = given.map(|given| given.checked_mul(1 << 20).ok_or_else(too_large)).transpose()?;
        Ok::<_, String>(kept.or(given))
    };
    let money = |name: &str| match fields.given(name) {
        None => Ok(None),
        Some(text) => micros(&text).map(Some).ok_or_else(|| format!("{name}: {text:?} is not an amount such as 2.50")),
    };
    Ok(LimitSettings {
        run_seconds: small("runSeconds")?,
        concurrent_runs: small("concurrentRuns")?,
        create_per_hour: small("createPerHour")?,
        message_per_hour: small("messagePerHour")?,
        memory_bytes: bytes("memoryBytes", set.memory_bytes)?,
        disk_bytes: bytes("diskBytes", set.disk_bytes)?,
        output_bytes: bytes("outputBytes", set.output_bytes)?,
        file_bytes: bytes("fileBytes", set.file_bytes)?,
        processes: small("processes")?,
        cpu_millis: match fields.given("cpuCores") {
            None => None,
            Some(text) => {
                let wrong = || format!("CPU cores: {text:?} is not a number from 0.1 to 1000, such as 0.5");
                Some(millis(&text).filter(|millis| (100..=1_000_000).contains(millis)).ok_or_else(wrong)?)
            }
        },
        continuations: small("continuations")?,
        model_calls: small("modelCalls")?,
        // The form about comments has it.
        automatic_per_day: set.automatic_per_day,
        budget: Budgets {
            run: money("runMicros")?,
            job: money("jobMicros")?,
            day: money("dayMicros")?,
            project: money("projectMicros")?,
        },
    })
}

/// Formats thousandths of a core as cores: `0.5`, `2`.
pub(super) fn cores(millis: u32) -> String {
    let all = format!("{}.{:03}", millis / 1000, millis % 1000);
    all.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parses cores, such as `2` or `0.5`, into thousandths of a core.
fn millis(text: &str) -> Option<u32> {
    let millis = micros(text).filter(|_| !text.contains('$'))?;
    u32::try_from(millis / 1000).ok().filter(|_| millis.is_multiple_of(1000))
}

/// Formats millionths of a dollar as dollars: `2.50`, `0.000001`.
pub(super) fn dollars(micros: u64) -> String {
    let all = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let short = all.trim_end_matches('0');
    let digits = short.len() - short.find('.').unwrap_or(0) - 1;
    format!("{short}{}", "0".repeat(2_usize.saturating_sub(digits)))
}

/// Parses dollars, such as `2`, `2.5` or `$2.50`, into millionths of a dollar.
fn micros(text: &str) -> Option<u64> {
    let text = text.trim().trim_start_matches('$');
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || part.len() > 6 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_and_formatted() {
        for (text, read) in [
            ("2", Some(2_000_000)),
            ("$2.50", Some(2_500_000)),
            (".5", Some(500_000)),
            ("0.000001", Some(1)),
            ("0.0000001", None),
            ("-1", None),
            ("1e3", None),
            ("", None),
            (".", None),
        ] {
            assert_eq!(micros(text), read, "{text:?}");
        }
        for (number, shown) in [(2_000_000, "2.00"), (2_500_000, "2.50"), (1, "0.000001"), (0, "0.00")] {
            assert_eq!(dollars(number), shown);
            assert_eq!(micros(shown), Some(number));
        }
    }

    #[test]
    fn cores_are_parsed_and_formatted() {
        for (text, read) in
            [("0.5", Some(500)), ("2", Some(2000)), ("0.001", Some(1)), ("0.0005", None), ("half", None)]
        {
            assert_eq!(millis(text), read, "{text:?}");
        }
        for (number, shown) in [(500, "0.5"), (2000, "2"), (1250, "1.25"), (10_000, "10")] {
            assert_eq!(cores(number), shown);
        }
        let project = crate::tests::project();
        let limits = |cores: &str| {
            let fields = Fields::of(vec![("cpuCores".to_owned(), cores.to_owned())]);
            of("limits", &fields, &project).map(|edit| edit(project.clone()).unwrap().0.settings.limits.cpu_millis)
        };
        assert_eq!((limits("0.5"), limits("")), (Ok(Some(500)), Ok(None)));
        for wrong in ["0.05", "1001", "x"] {
            assert!(limits(wrong).unwrap_err().contains("is not a number from 0.1 to 1000"), "{wrong}");
        }
    }

    #[test]
    fn values_that_a_form_cannot_show_are_kept() {
        let mut project = crate::tests::project();
        project.settings.environment =
            [("LINE", "a"), ("LINES", "a\nb")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        project.settings.limits.memory_bytes = Some(100_000_000);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields =
            Fields::of(vec![pair("environment", "OTHER=b=c"), pair("memoryBytes", "95"), pair("diskBytes", "2")]);
        let edited = |section: &str| {
            let edit = of(section, &fields, &project).expect("an edit");
            edit(project.clone()).expect("a proposal").0.settings
        };
        let environment = edited("environment").environment;
        assert_eq!(environment, [pair("LINES", "a\nb"), pair("OTHER", "b=c")].into());
        let limits = edited("limits").limits;
        assert_eq!(limits.memory_bytes, Some(100_000_000), "rounded in the form and not edited");
        assert_eq!((limits.disk_bytes, limits.output_bytes), (Some(2 << 20), None));
    }
}
