//! The choices of agents, models and efforts in forms.

use journeyman_core::model::price::Price;
use journeyman_core::model::{Effort, ProviderInfo, TEST};
use journeyman_core::project::{DEFAULT_MODEL, Project};

use crate::fields::Fields;
use crate::{Shared, visible, words};

/// The value of the model field for a model that is not in the list. The names of models have a slash.
const OTHER: &str = "other";

/// The agents and models of a form.
pub(crate) struct Choices {
    /// The agent and the model of the project, which the form need not choose; `None` in the forms of projects.
    pub(crate) usual: Option<Usual>,
    pub(crate) agents: Vec<AgentChoice>,
    /// The models by provider. Providers that have a key come first.
    pub(crate) providers: Vec<ProviderChoice>,
    /// The name of the chosen model, if it is not in the list.
    pub(crate) other: Option<String>,
    /// The efforts; `None` in the form of a template, which has none.
    pub(crate) efforts: Option<Efforts>,
    /// The names of the agents that must be installed before use.
    pub(crate) not_installed: Vec<String>,
}

/// The agent and the model of a project.
pub(crate) struct Usual {
    pub(crate) agent: String,
    pub(crate) model: String,
    /// True if the model is a built-in test model, whose prompts are scripts.
    pub(crate) is_test: bool,
}

/// The efforts of a form.
pub(crate) struct Efforts {
    /// The label of the choice of none.
    pub(crate) usual: String,
    /// The names, and whether they are chosen.
    pub(crate) all: [(&'static str, bool); Effort::ALL.len()],
}

impl Efforts {
    fn new(usual: String, chosen: &str) -> Self {
        Self { usual, all: Effort::ALL.map(|effort| (effort.name(), effort.name() == chosen)) }
    }
}

/// An agent to choose.
pub(crate) struct AgentChoice {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) is_chosen: bool,
}

/// A provider with its models.
pub(crate) struct ProviderChoice {
    pub(crate) label: String,
    pub(crate) models: Vec<ModelChoice>,
}

/// A model to choose.
pub(crate) struct ModelChoice {
    pub(crate) name: String,
    pub(crate) label: String,
    pub(crate) is_chosen: bool,
    pub(crate) is_test: bool,
}

/// Returns the model that a form chooses; `None` means the project's.
pub(crate) fn chosen_model(fields: &Fields) -> Option<String> {
    fields.given("model").and_then(|model| if model == OTHER { fields.given("model-other") } else { Some(model) })
}

/// Returns the effort that a form chooses; `None` means the default.
///
/// # Errors
/// The value is not the name of an effort. The error is a sentence.
pub(crate) fn chosen_effort(fields: &Fields) -> Result<Option<Effort>, String> {
    let effort = |name: String| {
        Effort::from_name(&name).ok_or_else(|| format!("effort: {name:?} is not one of {}", Effort::names()))
    };
    fields.given("effort").map(effort).transpose()
}

/// Returns true for the name of a built-in test model.
pub(crate) fn is_test(model: &str) -> bool {
    model.split_once('/').is_some_and(|(provider, _)| provider == TEST)
}

impl Choices {
    /// Returns the choices of the form of a project, in which this agent, model and effort are chosen. `project` is the
    /// existing project.
    pub(crate) fn of_project(
        shared: &Shared,
        project: Option<&Project>,
        (agent, model, effort): (&str, &str, &str),
    ) -> Self {
        let efforts = Efforts::new("the model's default".to_owned(), effort);
        Self { efforts: Some(efforts), ..Self::new(shared, project, None, agent, model) }
    }

    /// Adds the efforts to the choices of the form of a job. An empty effort means the project's.
    pub(crate) fn with_effort(self, project: &Project, effort: &str) -> Self {
        let usual = project.settings.effort.map_or("the model's default", Effort::name);
        Self { efforts: Some(Efforts::new(format!("{usual} (the project's)"), effort)), ..self }
    }

    /// Returns the choices of the form of a job. An empty agent or model means the project's.
    pub(crate) fn of_job(shared: &Shared, project: &Project, agent: &str, model: &str) -> Self {
        let usual = Usual {
            agent: name_of(shared, &project.agent),
            model: visible::line(&project.model).into_owned(),
            is_test: is_test(&project.model),
        };
        Self::new(shared, Some(project), Some(usual), agent, model)
    }

    fn new(shared: &Shared, project: Option<&Project>, usual: Option<Usual>, agent: &str, model: &str) -> Self {
        let installed = &shared.services.installed;
        let is_missing = |id: &str| installed.as_ref().is_some_and(|installed| !installed.is_installed(id));
        let mut agents: Vec<AgentChoice> = shared.settings.agents.keys().map(|id| choice(shared, id, agent)).collect();
        for agent in &mut agents {
            if is_missing(&agent.id) {
                agent.label.push_str(" (not installed)");
            }
        }
        // The agent of the project, or of a refused form, may not be configured any more.
        if !agent.is_empty() && !shared.settings.agents.contains_key(agent) {
            agents.push(choice(shared, agent, agent));
        }
        let not_installed = shared.settings.agents.keys().filter(|id| is_missing(id));
        let secrets = project.map(|project| project.secret_names.as_slice()).unwrap_or_default();
        let providers = providers(&shared.settings.providers, secrets, model);
        let is_listed = providers.iter().any(|provider| provider.models.iter().any(|model| model.is_chosen));
        Self {
            usual,
            agents,
            providers,
            other: (!is_listed && !model.is_empty()).then(|| model.to_owned()),
            efforts: None,
            not_installed: not_installed.map(|id| name_of(shared, id)).collect(),
        }
    }
}

/// Returns the name of an agent; its ID if it has no name, or is not configured.
pub(crate) fn name_of(shared: &Shared, id: &str) -> String {
    let name = shared.settings.agents.get(id).and_then(|spec| spec.name.as_deref());
    visible::line(name.unwrap_or(id)).into_owned()
}

fn choice(shared: &Shared, id: &str, chosen: &str) -> AgentChoice {
    AgentChoice { id: id.to_owned(), label: name_of(shared, id), is_chosen: id == chosen }
}

/// Returns the providers that have models to list: those with a price, and the built-in test model.
fn providers(known: &[ProviderInfo], secrets: &[String], chosen: &str) -> Vec<ProviderChoice> {
    let has_key = |provider: &&ProviderInfo| {
        provider.is_ready || provider.key_variable.as_ref().is_some_and(|variable| secrets.contains(variable))
    };
    let (ready, others): (Vec<_>, Vec<_>) = known.iter().partition(has_key);
    let ready = ready.into_iter().map(|provider| of_provider(provider, String::new(), chosen));
    let others = others.into_iter().map(|provider| {
        let note = provider.key_variable.as_ref().map(|variable| format!(" (needs the secret {variable})"));
        of_provider(provider, note.unwrap_or_default(), chosen)
    });
    let test = ModelChoice {
        name: DEFAULT_MODEL.to_owned(),
        label: format!("{DEFAULT_MODEL} · follows the script in the prompt"),
        is_chosen: chosen == DEFAULT_MODEL,
        is_test: true,
    };
    let test = ProviderChoice { label: "Built-in test model".to_owned(), models: vec![test] };
    ready.chain([test]).chain(others).filter(|provider| !provider.models.is_empty()).collect()
}

fn of_provider(provider: &ProviderInfo, note: String, chosen: &str) -> ProviderChoice {
    // Prices are also configured for prefixes of names.
    let named = provider.prices.iter().filter(|(name, _)| !name.ends_with('*'));
    let model = |(name, price): &(String, Price)| ModelChoice {
        label: format!(
            "{name} · {} in, {} out per million tokens",
            words::money(price.input),
            words::money(price.output)
        ),
        name: name.clone(),
        is_chosen: name == chosen,
        is_test: false,
    };
    ProviderChoice { label: format!("{}{note}", provider.prefix), models: named.map(model).collect() }
}

#[cfg(test)]
mod tests {
    use journeyman_core::model::Dialect;

    use super::*;

    fn provider(prefix: &str, is_ready: bool, models: &[&str]) -> ProviderInfo {
        let price = Price { input: 3_000_000, output: 15_000_000, ..Price::default() };
        ProviderInfo {
            prefix: prefix.to_owned(),
            dialect: Dialect::Anthropic,
            is_ready,
            key_variable: Some(format!("{}_KEY", prefix.to_uppercase())),
            context_tokens: None,
            prices: models.iter().map(|model| ((*model).to_owned(), price)).collect(),
            prices_date: None,
        }
    }

    #[test]
    fn providers_with_a_key_come_first_and_prefixes_of_models_are_not_listed() {
        let known = [
            provider("alpha", false, &["alpha/one"]),
            provider("beta", true, &["beta/*", "beta/two"]),
            provider("gamma", false, &["gamma/three"]),
            provider("delta", true, &["delta/*"]),
        ];
        let listed = providers(&known, &["GAMMA_KEY".to_owned()], "gamma/three");
        let labels: Vec<&str> = listed.iter().map(|provider| provider.label.as_str()).collect();
        assert_eq!(labels, ["beta", "gamma", "Built-in test model", "alpha (needs the secret ALPHA_KEY)"]);
        assert_eq!(listed[0].models[0].label, "beta/two · $3.00 in, $15.00 out per million tokens");
        assert!(listed[1].models[0].is_chosen && !listed[0].models[0].is_chosen);
    }

    #[test]
    fn a_form_chooses_a_listed_model_another_one_or_none() {
        let fields = |pairs: &[(&str, &str)]| {
            Fields::of(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(chosen_model(&fields(&[("model", ""), ("model-other", "a/b")])), None);
        assert_eq!(chosen_model(&fields(&[("model", "a/b"), ("model-other", "c/d")])).as_deref(), Some("a/b"));
        assert_eq!(chosen_model(&fields(&[("model", "other"), ("model-other", " c/d ")])).as_deref(), Some("c/d"));
        assert_eq!(chosen_model(&fields(&[("model", "other")])), None);
        assert!(is_test("test/scripted") && !is_test("testing/x") && !is_test("test"));
    }
}
