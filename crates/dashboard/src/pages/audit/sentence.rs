//! Entries of the audit log as sentences: "ada revoked the key ci with the key admin from 10.0.0.7".

use journeyman_core::audit::AuditEntry;

use super::people::{OTHERS, People};
use crate::visible;

/// The parts of a sentence.
pub(super) struct Sentence {
    /// The subject of the sentence.
    pub(super) who: String,
    /// The verb, with the kind of the object.
    pub(super) did: String,
    /// The name of the object; empty if the verb says all.
    pub(super) object: String,
    /// The ID of the object, if it has a name.
    pub(super) id: Option<String>,
    /// The page of the object.
    pub(super) href: Option<String>,
    /// The end of the sentence, such as an adjective.
    pub(super) how: String,
    /// The name of the key that was used.
    pub(super) key: Option<String>,
    pub(super) address: Option<String>,
}

impl Sentence {
    pub(super) fn new(entry: &AuditEntry, people: &People) -> Self {
        let text = |text: &str| visible::line(text).into_owned();
        let (who, key) = actor(&entry.actor, people);
        let (did, how) = verb(&entry.action);
        // Subjects can have a note in parentheses after the ID.
        let (id, note) = entry.subject.split_once(' ').unwrap_or((&entry.subject, ""));
        let is_own = entry.subject == entry.actor;
        let name = people.name(id);
        let (object, id) = match name {
            _ if is_own && entry.action.starts_with("session.") => (String::new(), None),
            Some(name) => (name, Some(text(id))),
            None => (text(&entry.subject), None),
        };
        let has_name = id.is_some() && !note.is_empty();
        Self {
            who,
            did,
            href: href(&entry.action, &entry.subject),
            how: if has_name { format!("{how} {}", text(note)).trim().to_owned() } else { how },
            object,
            id,
            key,
            address: entry.address.as_deref().map(text),
        }
    }
}

/// Returns who acted, and the name of the key with which a person did.
fn actor(actor: &str, people: &People) -> (String, Option<String>) {
    if let Some((_, words)) = OTHERS.iter().find(|(id, _)| *id == actor) {
        return ((*words).to_owned(), None);
    }
    let Some(key) = people.keys.get(actor) else {
        let name = people.name(actor).unwrap_or_else(|| visible::line(actor).into_owned());
        let name = if actor.starts_with("trust_") { format!("The trust {name}") } else { name };
        return (name, None);
    };
    let key_name = visible::line(&key.name).into_owned();
    match key.owner.and_then(|owner| people.name(&owner.to_string())) {
        Some(owner) => (owner, Some(key_name)),
        None => (format!("The key {key_name}"), None),
    }
}

/// Returns the verb of an action with the kind of its object, and the end of the sentence. An unknown action is shown as
/// it is stored.
fn verb(action: &str) -> (String, String) {
    if let Some(role) = action.strip_prefix("user.role.") {
        return ("gave the user".to_owned(), format!("the role {}", visible::line(role)));
    }
    if action == "webhook.disabled" {
        return ("disabled the webhook".to_owned(), "because its endpoint accepted nothing".to_owned());
    }
    let known = [
        ("code_host.changed", "changed the code host"),
        ("code_host.created", "added the code host"),
        ("code_host.removed", "removed the code host"),
        ("code_host.tested", "tested the code host"),
        ("job.deleted", "deleted the job"),
        ("key.created", "created the key"),
        ("key.revoked", "revoked the key"),
        ("key.rotated", "replaced the secret of the key"),
        ("key_encryption.required", "made services require the master key"),
        ("key_encryption.rotated", "encrypted stored secrets with the master key"),
        ("oidc.exchanged", "exchanged a token for the key"),
        ("project.changed", "changed the project"),
        ("project.created", "created the project"),
        ("project.deleted", "deleted the project"),
        ("project.import_started", "started to import a repository into the project"),
        ("project.import_ended", "ended the import of a repository into the project"),
        ("pull.closed", "closed the pull request"),
        ("pull.commented", "commented on the pull request"),
        ("pull.comments_reopened", "reopened comments on the pull request"),
        ("pull.comments_resolved", "resolved comments on the pull request"),
        ("pull.merged", "merged the pull request"),
        ("pull.reviewed", "reviewed the pull request"),
        ("repository.reached", "reached the repository of"),
        ("repository.tested", "tested the repository of"),
        ("session.code_refused", "entered a wrong code of the second factor"),
        ("session.confirmed", "confirmed who they are"),
        ("session.ended", "signed out"),
        ("session.passkey_refused", "used a passkey that was refused"),
        ("session.recovery_code", "used a recovery code"),
        ("session.refused", "entered a wrong password for the user"),
        ("session.started", "signed in"),
        ("session.unconfirmed", "did not confirm who they are"),
        ("slack_account.connected", "connected the Slack account"),
        ("slack_code.created", "made a code that links a Slack account for the user"),
        ("slack_workspace.changed", "changed the Slack workspace"),
        ("slack_workspace.created", "connected the Slack workspace"),
        ("slack_workspace.removed", "removed the Slack workspace"),
        ("template.changed", "changed the template"),
        ("template.created", "created the template"),
        ("template.removed", "removed the template"),
        ("trust.changed", "changed the trust"),
        ("trust.created", "created the trust"),
        ("trust.removed", "removed the trust"),
        ("user.created", "added the user"),
        ("user.disabled", "disabled the user"),
        ("user.enabled", "enabled the user"),
        ("user.identity.connected", "connected an account of the identity provider with the user"),
        ("user.identity.disconnected", "disconnected the account of the identity provider from the user"),
        ("user.link", "made a sign-in link for"),
        ("user.passkey.added", "added a passkey of the user"),
        ("user.passkey.removed", "removed a passkey of the user"),
        ("user.passkey.renamed", "renamed a passkey of the user"),
        ("user.password", "set a new password of the user"),
        ("user.second_factor.added", "set up a second factor of the user"),
        ("user.second_factor.codes", "made new recovery codes of the user"),
        ("user.second_factor.removed", "removed the second factor of the user"),
        ("webhook.changed", "changed the webhook"),
        ("webhook.created", "created the webhook"),
        ("webhook.removed", "removed the webhook"),
        ("webhook.rotated", "replaced the secret of the webhook"),
    ];
    let found = known.iter().find(|(name, _)| *name == action);
    let did = found.map_or_else(|| visible::line(action).into_owned(), |(_, words)| (*words).to_owned());
    (did, String::new())
}

/// Returns the page of an object whose path its name says.
fn href(action: &str, subject: &str) -> Option<String> {
    let id = subject.split(' ').next().unwrap_or_default();
    let is_path = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    match action.split_once('.')? {
        ("project", "changed" | "created" | "import_started") if is_path(id) => Some(format!("/projects/{id}/jobs")),
        ("template", _) => {
            let (project, _) = id.split_once('/')?;
            is_path(project).then(|| format!("/projects/{project}/settings/templates"))
        }
        ("pull", _) => {
            let (project, number) = id.split_once('#')?;
            (is_path(project) && is_path(number)).then(|| format!("/projects/{project}/pulls/{number}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use journeyman_core::time::Timestamp;

    use super::*;

    fn said(actor: &str, action: &str, subject: &str) -> Sentence {
        let names = [("user_1", "ada"), ("user_2", "<b>bob")].map(|(id, name)| (id.to_owned(), name.to_owned()));
        let people = People { names: names.into(), keys: HashMap::new(), users: Vec::new() };
        let [actor, action, subject] = [actor, action, subject].map(str::to_owned);
        let entry = AuditEntry { at: Timestamp::default(), actor, action, subject, address: Some("10.0.0.7".into()) };
        Sentence::new(&entry, &people)
    }

    #[test]
    fn an_entry_is_a_sentence() {
        let role = said("user_1", "user.role.viewer", "user_2");
        assert_eq!(
            (role.who.as_str(), role.did.as_str(), role.how.as_str()),
            ("ada", "gave the user", "the role viewer")
        );
        assert_eq!((role.object.as_str(), role.id.as_deref()), ("<b>bob", Some("user_2")));
        let out = said("user_1", "session.ended", "user_1");
        assert_eq!((out.did.as_str(), out.object.as_str(), out.id), ("signed out", "", None));
        let refused = said("nobody", "session.refused", "user_1");
        assert_eq!((refused.who.as_str(), refused.object.as_str()), ("A person who was not signed in", "ada"));
        let made = said("cli", "project.created", "shop (repository at 169.254.0.1)");
        assert_eq!((made.who.as_str(), made.href.as_deref()), ("The command line", Some("/projects/shop/jobs")));
        assert_eq!(made.object, "shop (repository at 169.254.0.1)");
        assert_eq!(said("user_1", "pull.merged", "shop#7").href.as_deref(), Some("/projects/shop/pulls/7"));
        assert_eq!(said("user_1", "pull.merged", "../x#7").href, None);
        let template = said("user_1", "template.removed", "shop/tpl_1 (Fix a bug)");
        assert_eq!(
            (template.did.as_str(), template.object.as_str()),
            ("removed the template", "shop/tpl_1 (Fix a bug)")
        );
        assert_eq!(template.href.as_deref(), Some("/projects/shop/settings/templates"));
        assert_eq!(said("user_1", "moon.landed", "it").did, "moon.landed");
        assert_eq!(said("trust_1", "oidc.exchanged", "key_1 (iss x)").who, "The trust trust_1");
    }
}
