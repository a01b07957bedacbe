//! The filters of the audit log, which are in the URL.

use std::fmt::Write as _;
use std::time::Duration;

use journeyman_app::AuditFormat;
use journeyman_core::audit::AuditFilter;
use journeyman_core::ids::ProjectId;
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use super::people::People;
use crate::Shared;
use crate::failure::Failure;
use crate::parameter::Parameter;
use crate::words::in_query;

/// The kinds of actions: the beginning of the name of the action, and the label.
pub(super) const KINDS: [(&str, &str); 14] = [
    ("key.", "API keys"),
    ("user.", "Users"),
    ("session.", "Sign-ins"),
    ("project.", "Projects"),
    ("job.", "Jobs"),
    ("pull.", "Pull requests"),
    ("webhook.", "Webhooks"),
    ("template.", "Templates"),
    ("trust.", "Trusts"),
    ("oidc.", "Exchanged tokens"),
    ("code_host.", "Code hosts"),
    ("repository.", "Tests of repositories"),
    ("slack_workspace.", "Slack workspaces"),
    ("slack_", "Slack"),
];

/// The maximum number of webhooks of a project whose entries are found.
const MAX_WEBHOOKS: usize = 1000;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns the value of a filter; `None` if it is missing or blank.
pub(super) fn given(value: Option<&String>) -> Option<&str> {
    value.map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// The query of the page and of the export.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct AuditParameters {
    /// The ID of a user or of a key, `cli`, or `service`.
    pub(super) who: Option<String>,
    /// The selected kind of action, one of [`KINDS`].
    pub(super) what: Option<String>,
    pub(super) project: Option<String>,
    /// The first day, in UTC.
    pub(super) from: Option<String>,
    /// The last day, in UTC.
    pub(super) to: Option<String>,
    /// The number of the last entry of the previous page.
    pub(super) before: Option<String>,
    /// The format of an export.
    pub(super) format: Option<String>,
}

impl AuditParameters {
    fn filters(&self) -> [(&'static str, Option<&str>); 5] {
        [
            ("who", given(self.who.as_ref())),
            ("what", given(self.what.as_ref())),
            ("project", given(self.project.as_ref())),
            ("from", given(self.from.as_ref())),
            ("to", given(self.to.as_ref())),
        ]
    }

    pub(super) fn is_filtered(&self) -> bool {
        self.filters().iter().any(|(_, value)| value.is_some())
    }

    /// Returns a path with the filters, and `more` in its query.
    pub(super) fn path(&self, page: &str, more: &str) -> String {
        let mut path = format!("{page}?{more}");
        for (name, value) in self.filters() {
            if let Some(value) = value {
                let separator = if path.ends_with('?') { "" } else { "&" };
                // Writing to a text cannot fail.
                let _ = write!(path, "{separator}{name}={}", in_query(value));
            }
        }
        path.trim_end_matches('?').to_owned()
    }

    /// Returns the filter.
    ///
    /// # Errors
    /// A parameter has a value that is not allowed, or the store failed.
    pub(super) async fn filter(&self, shared: &Shared, people: &People) -> Result<AuditFilter, Failure> {
        let project = parameter("project", self.project.as_ref());
        let about = match project.read("the ID of a project", |id| id.parse::<ProjectId>().ok())? {
            Some(project) => Some(objects_of(shared, project).await?),
            None => None,
        };
        let before =
            parameter("before", self.before.as_ref()).read("the number of an entry", |text| text.parse().ok())?;
        let action = parameter("what", self.what.as_ref()).one_of(KINDS.map(|(kind, _)| (kind, kind)))?;
        let (from, until) = self.dates()?;
        Ok(AuditFilter {
            actors: given(self.who.as_ref()).map(|who| people.actors_of(who)),
            action: action.map(str::to_owned),
            about,
            from,
            until,
            before,
            ..AuditFilter::default()
        })
    }

    /// Returns the format of an export, which is a table if none is given.
    ///
    /// # Errors
    /// There is no such format.
    pub(super) fn format(&self) -> Result<AuditFormat, Failure> {
        let known = [("csv", AuditFormat::Csv), ("jsonl", AuditFormat::JsonLines)];
        Ok(parameter("format", self.format.as_ref()).one_of(known)?.unwrap_or(AuditFormat::Csv))
    }

    fn dates(&self) -> Result<(Option<Timestamp>, Option<Timestamp>), Failure> {
        let midnight = |name: &'static str, value: Option<&String>| {
            parameter(name, value).read("a date such as 2026-11-23", |text| {
                format!("{text}T00:00:00Z").parse::<Timestamp>().ok().filter(|_| text.len() == 10)
            })
        };
        let last = midnight("to", self.to.as_ref())?;
        Ok((midnight("from", self.from.as_ref())?, last.map(|last| last + DAY)))
    }
}

fn parameter<'a>(name: &'static str, value: Option<&'a String>) -> Parameter<'a> {
    Parameter::new(name, value, "/audit")
}

/// Returns the subjects of entries about a project: the project itself, and its webhooks.
async fn objects_of(shared: &Shared, id: ProjectId) -> Result<Vec<String>, Failure> {
    let webhooks = shared.services.store.webhooks_after(id.clone(), None, MAX_WEBHOOKS).await?;
    Ok([id.to_string()].into_iter().chain(webhooks.into_iter().map(|webhook| webhook.id.to_string())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_stay_in_the_paths_of_pages_and_of_the_export() {
        let query = AuditParameters {
            who: Some("key_1 &".to_owned()),
            project: Some(" ".to_owned()),
            from: Some("2026-11-01".to_owned()),
            before: Some("7".to_owned()),
            ..AuditParameters::default()
        };
        assert!(query.is_filtered() && !AuditParameters::default().is_filtered());
        assert_eq!(query.path("/audit", "before=3"), "/audit?before=3&who=key_1%20%26&from=2026-11-01");
        assert_eq!(query.path("/audit", ""), "/audit?who=key_1%20%26&from=2026-11-01");
        assert_eq!(AuditParameters::default().path("/audit", ""), "/audit");
    }

    #[test]
    fn the_last_day_is_included() {
        let query = |from: &str, to: &str| {
            let [from, to] = [from, to].map(|day| Some(day.to_owned()));
            AuditParameters { from, to, ..AuditParameters::default() }.dates()
        };
        let (from, until) = query("2026-11-01", "2026-11-01").unwrap();
        assert_eq!(until.unwrap().since(from.unwrap()), DAY);
        assert_eq!(query("", "").unwrap(), (None, None));
        for (from, to, text) in [("2026-11-1", "", "from: \"2026-11-1\""), ("", "soon", "to: \"soon\"")] {
            assert!(query(from, to).unwrap_err().text().starts_with(text), "{text}");
        }
    }
}
