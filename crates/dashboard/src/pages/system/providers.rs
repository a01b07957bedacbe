//! The providers of models: which have a key, what they cost this week, and the errors that hold projects.

use std::collections::BTreeMap;

use journeyman_core::model::price::day;
use journeyman_core::model::{ProviderInfo, TEST, split};
use journeyman_core::project::Project;
use journeyman_core::project::hold::{Hold, HoldCause};
use journeyman_core::usage::{UsageGroup, UsageQuery};

use super::data::SystemData;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::{Shared, visible, words};

/// The names of known providers by their prefixes.
const NAMES: [(&str, &str); 5] = [
    ("anthropic", "Anthropic"),
    ("gemini", "Google Gemini"),
    ("ollama", "Ollama"),
    ("openai", "OpenAI"),
    ("openai-responses", "OpenAI, Responses"),
];

/// The maximum number of models whose cost is read.
const MAX_MODELS: usize = 1000;

pub(super) struct Providers {
    pub(super) rows: Vec<ProviderRow>,
    /// The providers without a key: the name, and the secret of a project that would be one.
    pub(super) without_key: Vec<(String, String)>,
}

/// A provider that can be called, or a project whose calls fail.
pub(super) struct ProviderRow {
    /// The class and the text of the mark.
    pub(super) mark: (&'static str, &'static str),
    pub(super) title: String,
    pub(super) text: String,
    /// The time since which calls have failed.
    pub(super) since: Option<Moment>,
    /// The cost in the last seven days.
    pub(super) cost: Option<String>,
    /// The label and the page of the button.
    pub(super) button: Option<(&'static str, String)>,
}

impl Providers {
    pub(super) async fn read(shared: &Shared, frame: &Frame, found: &SystemData) -> Result<Self, Failure> {
        let today = day(frame.now);
        let query = UsageQuery {
            first_day: today - 6,
            last_day: today,
            groups: vec![UsageGroup::Model],
            limit: MAX_MODELS,
            ..UsageQuery::default()
        };
        let mut costs: BTreeMap<String, u64> = BTreeMap::new();
        for line in frame.cases().usage(&frame.caller(), query).await? {
            if let Some((prefix, _)) = line.model.as_deref().and_then(split) {
                let sum = costs.entry(prefix.to_owned()).or_default();
                *sum = sum.saturating_add(line.sum.cost_micros);
            }
        }
        let mut rows = Vec::new();
        let mut without_key = Vec::new();
        for provider in &shared.settings.providers {
            let cost = costs.get(&provider.prefix).copied().filter(|cost| *cost > 0).map(words::money);
            match source_of_key(provider, &found.projects) {
                Some(text) => rows.push(ProviderRow {
                    mark: ("completed", "ready"),
                    title: name(&provider.prefix),
                    text,
                    since: None,
                    cost,
                    button: None,
                }),
                None => without_key.push((
                    name(&provider.prefix),
                    visible::line(provider.key_variable.as_deref().unwrap_or_default()).into_owned(),
                )),
            }
            rows.extend(failures(frame, found, &provider.prefix));
        }
        Ok(Self { rows, without_key })
    }
}

/// Returns where the key of a provider is; `None` if there is none.
fn source_of_key(provider: &ProviderInfo, projects: &[Project]) -> Option<String> {
    let Some(variable) = &provider.key_variable else { return Some("needs no key".to_owned()) };
    if provider.is_ready {
        return Some("key of the service".to_owned());
    }
    match projects.iter().filter(|project| project.secret_names.contains(variable)).count() {
        0 => None,
        count => Some(format!("keys of {}", words::counted(count, "project"))),
    }
}

/// Returns a row for each project on hold because of its model at a provider.
fn failures(frame: &Frame, found: &SystemData, prefix: &str) -> Vec<ProviderRow> {
    let of_provider = |project: &&Project| split(&project.model).is_some_and(|(of, _)| of == prefix && of != TEST);
    let held = found.projects.iter().filter(of_provider).filter_map(|project| {
        let hold = found.holds.get(&project.id).filter(|hold| hold.cause == HoldCause::Model)?;
        Some((project, hold))
    });
    held.map(|(project, hold)| failure(frame, project, hold, prefix)).collect()
}

fn failure(frame: &Frame, project: &Project, hold: &Hold, prefix: &str) -> ProviderRow {
    let page = format!("/projects/{}/settings/environment", project.id);
    ProviderRow {
        mark: ("failed", "failed"),
        title: format!("{}, {}", name(prefix), project.id),
        text: words::sentence(&visible::line(&hold.reason.text)),
        since: Some(frame.moment(hold.since)),
        cost: None,
        button: frame.viewer.is_administrator().then_some(("Fix key", page)),
    }
}

/// Returns the name of a provider.
fn name(prefix: &str) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == prefix);
    known.map_or_else(|| visible::line(prefix).into_owned(), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use journeyman_core::model::Dialect;
    use journeyman_core::time::Timestamp;

    use super::*;

    #[test]
    fn a_key_is_the_services_or_a_secret_of_projects() {
        let provider = |is_ready, key_variable: Option<&str>| ProviderInfo {
            prefix: "anthropic".to_owned(),
            dialect: Dialect::Anthropic,
            is_ready,
            key_variable: key_variable.map(str::to_owned),
            context_tokens: None,
            prices: Vec::new(),
            prices_date: None,
        };
        let mut project = Project::new("shop".parse().unwrap(), "local:shop", Timestamp::default());
        project.secret_names = vec!["A_KEY".to_owned()];
        let projects = [project];
        let of = |is_ready, variable| source_of_key(&provider(is_ready, variable), &projects);
        assert_eq!(of(true, None).as_deref(), Some("needs no key"));
        assert_eq!(of(true, Some("B_KEY")).as_deref(), Some("key of the service"));
        assert_eq!(of(false, Some("A_KEY")).as_deref(), Some("keys of 1 project"));
        assert_eq!(of(false, Some("B_KEY")), None);
        assert_eq!([name("openai"), name("mine")], ["OpenAI", "mine"]);
    }
}
