//! Creates and changes projects from the bodies that clients send.
//!
//! A change is a JSON merge patch (RFC 7396) of the document that the client reads, and a creation is a patch of an
//! empty one. A field that is left out keeps its value, and `null` restores its default. Secrets are not part of the
//! document; they are removed from the patch first.

use journeyman_core::project;
use journeyman_core::project::{CODE_HOST_TOKEN, DEFAULT_AGENT, DEFAULT_MODEL, SecretChanges, WEBHOOK_SECRET};
use journeyman_core::secret::SecretValue;
use journeyman_core::time::Timestamp;
use serde_json::{Map, Value};

use super::changes::ProjectChanges;
use super::show;

/// Returns the project, and the changes of secrets, that the body of a creation describes.
///
/// # Errors
/// A field is not valid; the error is a sentence that names it.
pub fn create(body: Value, now: Timestamp) -> Result<(project::Project, SecretChanges), String> {
    let Value::Object(mut body) = body else { return Err("the body must be a JSON object".to_owned()) };
    let id = match body.remove("id") {
        Some(Value::String(id)) => id.parse().map_err(|error| format!("id: {error}"))?,
        Some(_) => return Err("id must be a string".to_owned()),
        None => return Err("id is missing".to_owned()),
    };
    let blank = project::Project::new(id, String::new(), now);
    merged(blank, Map::new(), body)
}

/// Applies a patch to a project. Returns the changed project and the changes of secrets.
///
/// # Errors
/// A field is not valid; the error is a sentence that names it.
pub fn change(current: project::Project, patch: Value) -> Result<(project::Project, SecretChanges), String> {
    let Value::Object(mut patch) = patch else { return Err("the body must be a JSON object".to_owned()) };
    if patch.remove("id").is_some_and(|id| id != Value::String(current.id.to_string())) {
        return Err("id cannot be changed; create another project".to_owned());
    }
    let Ok(Value::Object(document)) = serde_json::to_value(show(&current, "")) else {
        return Err("the project cannot be converted to JSON".to_owned());
    };
    merged(current, document, patch)
}

fn merged(
    mut project: project::Project,
    mut document: Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(project::Project, SecretChanges), String> {
    let secrets = take_secrets(&mut patch)?;
    document.remove("secrets");
    let has_repository = patch.contains_key("repository");
    merge(&mut document, patch);
    let changes: ProjectChanges = serde_path_to_error::deserialize(Value::Object(document))
        .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
    let repository = changes.repository.clone().ok_or("repository is missing")?;
    if has_repository {
        project.set_repository(&repository);
    }
    project.reference = changes.reference.clone();
    project.agent = changes.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    project.model = changes.model.clone().unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    project.settings = changes.settings()?;
    project::check::check(&project, &secrets).map_err(|error| error.to_string())?;
    Ok((project, secrets))
}

/// Merges a patch into an object (RFC 7396).
fn merge(target: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(&name);
            }
            Value::Object(inner) => {
                let slot = target.entry(name).or_insert_with(|| Value::Object(Map::new()));
                if !slot.is_object() {
                    *slot = Value::Object(Map::new());
                }
                if let Value::Object(slot) = slot {
                    merge(slot, inner);
                }
            }
            other => {
                target.insert(name, other);
            }
        }
    }
}

/// Removes `secrets`, `codeHost.token` and `codeHost.webhookSecret` from the patch, and returns the changes that they describe.
fn take_secrets(patch: &mut Map<String, Value>) -> Result<SecretChanges, String> {
    let mut changes = SecretChanges::new();
    let secret = |value: Value, path: &str| match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(SecretValue(text))),
        // The error does not contain the value, which is a secret in the wrong form.
        _ => Err(format!("{path}: must be a string, or null to remove it")),
    };
    match patch.remove("secrets") {
        None | Some(Value::Null) => {}
        Some(Value::Object(secrets)) => {
            for (name, value) in secrets {
                // Only the fields of `codeHost` set the secrets of the code host.
                if [CODE_HOST_TOKEN, WEBHOOK_SECRET].contains(&name.as_str()) {
                    return Err(format!("secrets.{name}: is not a name for a variable"));
                }
                let value = secret(value, &format!("secrets.{name}"))?;
                changes.insert(name, value);
            }
        }
        Some(_) => return Err("secrets: must be an object of names and values".to_owned()),
    }
    if let Some(Value::Object(host)) = patch.get_mut("codeHost") {
        host.remove("hasToken");
        host.remove("hasWebhookSecret");
        for (field, name) in [("token", CODE_HOST_TOKEN), ("webhookSecret", WEBHOOK_SECRET)] {
            if let Some(value) = host.remove(field) {
                changes.insert(name.to_owned(), secret(value, &format!("codeHost.{field}"))?);
            }
        }
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shop() -> project::Project {
        let body =
            json!({"id": "shop", "repository": "local:shop", "limits": {"runSeconds": 60}, "secrets": {"A": "x"}});
        let (mut project, secrets) = create(body, Timestamp::default()).expect("a project");
        assert_eq!(secrets.len(), 1);
        project.secret_names = vec!["A".into(), CODE_HOST_TOKEN.into()];
        project
    }

    #[test]
    fn a_patch_changes_the_fields_that_it_names_and_null_restores_the_default() {
        let patch = json!({
            "model": "m", "limits": {"createPerHour": 5}, "environment": {"X": "1"}, "pullRequest": {"labels": ["a"]},
        });
        let (changed, secrets) = change(shop(), patch).expect("a change");
        assert_eq!((changed.model.as_str(), secrets.len()), ("m", 0));
        let limits = &changed.settings.limits;
        assert_eq!((limits.run_seconds, limits.create_per_hour), (Some(60), Some(5)));

        let back = json!({"model": null, "limits": {"runSeconds": null}, "environment": {"X": null}, "setup": null});
        let (changed, _) = change(changed, back).expect("a change");
        assert_eq!(changed.model, DEFAULT_MODEL);
        assert_eq!(changed.settings.limits.run_seconds, None);
        assert_eq!(changed.settings.limits.create_per_hour, Some(5));
        assert!(changed.settings.environment.is_empty());
        assert_eq!(changed.settings.pull_request.labels, ["a"]);
    }

    #[test]
    fn a_patch_with_the_repository_accepts_the_one_that_has_the_address_now() {
        let seen = project::RepositoryIdentity { address: "local:shop".to_owned(), id: "7".to_owned() };
        let known = || project::Project { identity: Some(seen.clone()), ..shop() };
        let (changed, _) = change(known(), json!({"model": "m"})).expect("a change");
        assert_eq!(changed.repository_id(), Some("7"));
        let (changed, _) = change(known(), json!({"repository": "local:shop"})).expect("a change");
        assert_eq!(changed.repository_id(), None);
    }

    #[test]
    fn secrets_are_accepted_but_never_shown() {
        let patch = json!({"secrets": {"A": null, "B": "s3cret"}, "codeHost": {"token": "s3cret", "username": "me"}});
        let (changed, secrets) = change(shop(), patch).expect("a change");
        let names: Vec<(&str, bool)> = secrets.iter().map(|(name, value)| (name.as_str(), value.is_some())).collect();
        assert_eq!(names, [("A", false), ("B", true), (CODE_HOST_TOKEN, true)]);
        let shown = serde_json::to_string(&show(&changed, "http://x")).expect("JSON");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("\"hasToken\":true") && shown.contains("\"secrets\":[\"A\"]"), "{shown}");
        assert!(shown.contains("\"cloneUrl\":\"http://x/git/shop.git\""), "{shown}");
    }

    #[test]
    fn a_document_that_was_read_can_be_sent_back() {
        let document = serde_json::to_value(show(&shop(), "http://x")).expect("JSON");
        let mut document = document.as_object().expect("an object").clone();
        document.remove("secrets");
        let (same, secrets) = change(shop(), Value::Object(document)).expect("no change");
        assert_eq!((same, secrets.len()), (shop(), 0));
    }

    #[test]
    fn each_invalid_field_is_named() {
        for (patch, named) in [
            (json!([]), "JSON object"),
            (json!({"id": "other"}), "id cannot be changed"),
            (json!({"repository": null}), "repository is missing"),
            (json!({"repository": 5}), "repository"),
            (json!({"repository": "shop"}), "repository"),
            (json!({"limits": {"runSeconds": -1}}), "limits.runSeconds"),
            (json!({"limits": {"runSeconds": 0}}), "limits.runSeconds"),
            (json!({"limits": 5}), "limits"),
            (json!({"codeHost": {"kind": "sourcehut"}}), "codeHost.kind"),
            (json!({"codeHost": {"host": "a b"}}), "codeHost.host"),
            (json!({"codeHost": {"webhookSecret": 5}}), "codeHost.webhookSecret"),
            (json!({"pullRequest": {"ciFiles": "maybe"}}), "pullRequest.ciFiles"),
            (json!({"comments": {"settleSeconds": 121}}), "comments.settleSeconds"),
            (json!({"checks": {"mode": "always"}}), "checks.mode"),
            (json!({"codeHost": {"token": 5}}), "codeHost.token"),
            (json!({"secrets": "s3cret"}), "secrets"),
            (json!({"secrets": {"A": 5}}), "secrets.A"),
            (json!({"secrets": {"code-host.token": "x"}}), "secrets.code-host.token"),
            (json!({"secrets": {"A B": "x"}}), "A B"),
            (json!({"environment": {"A": 5}}), "environment.A"),
            (json!({"sandbox": {"permissions": "maybe"}}), "sandbox.permissions"),
        ] {
            let error = change(shop(), patch.clone()).expect_err(named);
            assert!(error.contains(named), "{patch}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        for (body, named) in [
            (json!({"repository": "local:a"}), "id is missing"),
            (json!({"id": 5, "repository": "local:a"}), "id must be"),
            (json!({"id": "A", "repository": "local:a"}), "id:"),
            (json!({"id": "a"}), "repository is missing"),
        ] {
            let error = create(body, Timestamp::default()).expect_err(named);
            assert!(error.contains(named), "{error}");
        }
    }
}
