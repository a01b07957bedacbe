//! From the form of a section to the merge patch that the interface takes: an empty field gives the default back.

use journeyman_core::project::{LimitSettings, Project};
use serde_json::{Map, Value, json};

use crate::fields::Fields;

/// The patch of a section.
///
/// # Errors
/// A sentence about what cannot be read.
pub(super) fn of(section: &str, fields: &Fields, project: &Project) -> Result<Value, String> {
    let text = |name: &str| fields.given(name).map_or(Value::Null, Value::String);
    match section {
        "repository" => {
            let mut host = Map::from_iter([("username".to_owned(), text("username"))]);
            if fields.is_set("no-token") {
                host.insert("token".to_owned(), Value::Null);
            } else if let Some(token) = fields.given("token") {
                host.insert("token".to_owned(), json!(token));
            }
            Ok(json!({ "repository": text("repository"), "ref": text("ref"), "codeHost": host }))
        }
        "agent" => Ok(json!({ "agent": text("agent"), "model": text("model"), "setup": long(fields, "setup") })),
        "environment" => environment(fields, project),
        "sandbox" => Ok(json!({ "sandbox": {
            "permissions": if fields.text("permissions") == "refuse" { "refuse" } else { "allow" },
            "egress": fields.lines("egress"),
            "image": text("image"),
            "pull": text("pull"),
        } })),
        "pull-requests" => Ok(json!({ "pullRequest": {
            "draft": fields.is_set("draft"),
            "base": text("base"),
            "title": text("title"),
            "body": long(fields, "body"),
            "labels": fields.text("labels").split(',').map(str::trim).filter(|label| !label.is_empty()).collect::<Vec<_>>(),
        } })),
        "limits" => limits(fields, &project.settings.limits),
        _ => Err("there is nothing to save here".to_owned()),
    }
}

/// A text of several lines, as it is.
fn long(fields: &Fields, name: &str) -> Value {
    let text = fields.text(name);
    if text.trim().is_empty() { Value::Null } else { json!(text) }
}

fn environment(fields: &Fields, project: &Project) -> Result<Value, String> {
    // What the form cannot show stays as it is.
    let shown = project.settings.environment.iter().filter(|(_, value)| is_line(value));
    let mut environment: Map<String, Value> = shown.map(|(name, _)| (name.clone(), Value::Null)).collect();
    for line in fields.lines("environment") {
        let (name, value) =
            line.split_once('=').ok_or_else(|| format!("a variable needs the form NAME=value: {line:?} has none"))?;
        environment.insert(name.trim().to_owned(), json!(value));
    }
    let (mut secrets, mut uses) = (Map::new(), Map::new());
    for name in fields.all("remove-secret") {
        uses.insert(name.clone(), Value::Null);
        secrets.insert(name, Value::Null);
    }
    if let Some(name) = fields.given("secret-name") {
        let value = fields.text("secret-value");
        if value.is_empty() {
            return Err(format!("the secret {name} needs a value"));
        }
        // A new value for the same readers.
        if !project.secret_names.contains(&name) {
            uses.insert(name.clone(), json!(fields.all("secret-use")));
        }
        secrets.insert(name, json!(value));
    } else if !fields.text("secret-value").is_empty() {
        return Err("the secret needs a name".to_owned());
    }
    Ok(json!({ "environment": environment, "secrets": secrets, "secretUses": uses }))
}

/// Whether a value fits into a line of a form.
pub(super) fn is_line(value: &str) -> bool {
    !value.chars().any(char::is_control) && value.trim() == value
}

/// Bytes as whole mebibytes, as the form has them.
pub(super) const fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

fn limits(fields: &Fields, set: &LimitSettings) -> Result<Value, String> {
    let number = |name: &str| match fields.given(name) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| format!("{name}: {text:?} is not a whole number")),
    };
    // A number of bytes that the form has rounded, and nobody has changed, stays as it is.
    let bytes = |name: &str, set: Option<u64>| {
        let given = number(name)?;
        let kept = set.filter(|set| given == Some(mebibytes(*set)));
        let too_large = || format!("{name}: that is too much");
        let given = given.map(|given| given.checked_mul(1 << 20).ok_or_else(too_large)).transpose()?;
        Ok::<_, String>(kept.or(given))
    };
    let money = |name: &str| match fields.given(name) {
        None => Ok(Value::Null),
        Some(text) => micros(&text)
            .map(|micros| json!(micros))
            .ok_or_else(|| format!("{name}: {text:?} is not an amount such as 2.50")),
    };
    Ok(json!({ "limits": {
        "runSeconds": number("runSeconds")?,
        "concurrentRuns": number("concurrentRuns")?,
        "createPerHour": number("createPerHour")?,
        "messagePerHour": number("messagePerHour")?,
        "memoryBytes": bytes("memoryBytes", set.memory_bytes)?,
        "diskBytes": bytes("diskBytes", set.disk_bytes)?,
        "outputBytes": bytes("outputBytes", set.output_bytes)?,
        "fileBytes": bytes("fileBytes", set.file_bytes)?,
        "processes": number("processes")?,
        "cpuMillis": number("cpuMillis")?,
        "continuations": number("continuations")?,
        "modelCalls": number("modelCalls")?,
        "budget": {
            "runMicros": money("runMicros")?,
            "jobMicros": money("jobMicros")?,
            "dayMicros": money("dayMicros")?,
            "projectMicros": money("projectMicros")?,
        },
    } }))
}

/// Dollars from millionths: `2.50`, `0.000001`.
pub(super) fn dollars(micros: u64) -> String {
    let all = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let short = all.trim_end_matches('0');
    let digits = short.len() - short.find('.').unwrap_or(0) - 1;
    format!("{short}{}", "0".repeat(2_usize.saturating_sub(digits)))
}

/// Millionths of a dollar from `2`, `2.5`, `$2.50`.
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
    fn amounts_are_read() {
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
    fn what_a_form_cannot_show_stays_as_it_is() {
        let mut project = crate::tests::project();
        project.settings.environment =
            [("LINE", "a"), ("LINES", "a\nb")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        project.settings.limits.memory_bytes = Some(100_000_000);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let fields =
            Fields::of(vec![pair("environment", "OTHER=b=c"), pair("memoryBytes", "95"), pair("diskBytes", "2")]);
        let environment = of("environment", &fields, &project).expect("a patch");
        assert_eq!(environment["environment"], json!({"LINE": null, "OTHER": "b=c"}));
        let limits = of("limits", &fields, &project).expect("a patch");
        assert_eq!(limits["limits"]["memoryBytes"], 100_000_000, "rounded and not changed");
        assert_eq!(limits["limits"]["diskBytes"], 2 << 20);
        assert_eq!(limits["limits"]["outputBytes"], Value::Null);
    }
}
