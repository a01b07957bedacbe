//! From the form of a section to the merge patch that the interface takes: an empty field gives the default back.

use journeyman_core::project::Project;
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
        "limits" => limits(fields),
        _ => Err("there is nothing to save here".to_owned()),
    }
}

/// A text of several lines, as it is.
fn long(fields: &Fields, name: &str) -> Value {
    let text = fields.text(name);
    if text.trim().is_empty() { Value::Null } else { json!(text) }
}

fn environment(fields: &Fields, project: &Project) -> Result<Value, String> {
    let mut environment: Map<String, Value> =
        project.settings.environment.keys().map(|name| (name.clone(), Value::Null)).collect();
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
        uses.insert(name.clone(), json!(fields.all("secret-use")));
        secrets.insert(name, json!(value));
    } else if !fields.text("secret-value").is_empty() {
        return Err("the secret needs a name".to_owned());
    }
    Ok(json!({ "environment": environment, "secrets": secrets, "secretUses": uses }))
}

fn limits(fields: &Fields) -> Result<Value, String> {
    let number = |name: &str, unit: u64| match fields.given(name) {
        None => Ok(Value::Null),
        Some(text) => {
            let read = text.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
            read.map(|number| json!(number)).ok_or_else(|| format!("{name}: {text:?} is not a whole number"))
        }
    };
    let money = |name: &str| match fields.given(name) {
        None => Ok(Value::Null),
        Some(text) => micros(&text)
            .map(|micros| json!(micros))
            .ok_or_else(|| format!("{name}: {text:?} is not an amount such as 2.50")),
    };
    Ok(json!({ "limits": {
        "runSeconds": number("runSeconds", 1)?,
        "concurrentRuns": number("concurrentRuns", 1)?,
        "createPerHour": number("createPerHour", 1)?,
        "messagePerHour": number("messagePerHour", 1)?,
        "memoryBytes": number("memoryBytes", 1 << 20)?,
        "diskBytes": number("diskBytes", 1 << 20)?,
        "outputBytes": number("outputBytes", 1 << 20)?,
        "fileBytes": number("fileBytes", 1 << 20)?,
        "processes": number("processes", 1)?,
        "cpuMillis": number("cpuMillis", 1)?,
        "budget": {
            "runMicros": money("runMicros")?,
            "jobMicros": money("jobMicros")?,
            "dayMicros": money("dayMicros")?,
            "projectMicros": money("projectMicros")?,
        },
    } }))
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
    }
}
