//! The fields of bodies that are passed on to providers, in groups. Some groups are allowed for a provider only if its
//! operator says so, because their fields change what a call costs, who answers it, or what the provider keeps.
//!
//! Sources: the request types of the official libraries (anthropic 2.14, openai 3.57, google-genai 3.6, ollama 0.6), and
//! for other servers with OpenAI's interface <https://openrouter.ai/docs/api/reference/parameters> and the documents of
//! vLLM and SGLang.

use std::collections::BTreeSet;

use super::path::Shape;

/// A group of fields that an operator can allow or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldGroup {
    /// The provider shortens a long conversation by itself.
    ContextManagement,
    /// Another model answers if the first one does not. The models must be allowed.
    Fallbacks,
    /// Caches that last for hours, which cost more to fill.
    LongCaches,
    /// A broker chooses the provider, by price or by region.
    Routing,
    /// Faster or cheaper processing, and regions with another price.
    ServiceTiers,
}

impl FieldGroup {
    /// All groups.
    pub const ALL: [Self; 5] =
        [Self::ContextManagement, Self::Fallbacks, Self::LongCaches, Self::Routing, Self::ServiceTiers];

    /// Returns the name of the group in the configuration file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ContextManagement => "context-management",
            Self::Fallbacks => "fallbacks",
            Self::LongCaches => "long-caches",
            Self::Routing => "routing",
            Self::ServiceTiers => "service-tiers",
        }
    }

    /// Returns the groups that are allowed unless the operator denies them.
    #[must_use]
    pub fn usual() -> BTreeSet<Self> {
        [Self::ContextManagement].into()
    }
}

/// A field of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// It is always passed on.
    Known,
    /// It is passed on if the group is allowed.
    Grouped(FieldGroup),
    /// It is not passed on.
    Unknown,
}

/// Returns what is known about a field.
pub(crate) fn field(shape: Shape, name: &str) -> Field {
    let grouped = GROUPS.iter().find(|(of, _, names)| *of == shape && names.contains(&name));
    match grouped {
        Some((_, group, _)) => Field::Grouped(*group),
        None if known(shape).contains(&name) => Field::Known,
        None => Field::Unknown,
    }
}

/// The fields of the groups. The lifetimes of caches are inside of other fields.
const GROUPS: &[(Shape, FieldGroup, &[&str])] = &[
    (Shape::Messages, FieldGroup::ContextManagement, &["context_management", "compaction"]),
    (Shape::Messages, FieldGroup::Fallbacks, &["fallbacks", "fallback_credit_token"]),
    (Shape::Messages, FieldGroup::ServiceTiers, &["service_tier", "speed", "inference_geo"]),
    (Shape::Chat, FieldGroup::Fallbacks, &["models"]),
    (Shape::Chat, FieldGroup::Routing, &["provider", "route", "transforms"]),
    (Shape::Chat, FieldGroup::ServiceTiers, &["service_tier"]),
    (Shape::Responses, FieldGroup::ContextManagement, &["context_management"]),
    (Shape::Responses, FieldGroup::Fallbacks, &["models"]),
    (Shape::Responses, FieldGroup::Routing, &["provider", "route", "transforms"]),
    (Shape::Responses, FieldGroup::ServiceTiers, &["service_tier"]),
    (Shape::Contents, FieldGroup::ServiceTiers, &["serviceTier", "service_tier"]),
];

/// Returns the fields that are always passed on.
const fn known(shape: Shape) -> &'static [&'static str] {
    match shape {
        Shape::Messages => &[
            "model",
            "messages",
            "system",
            "max_tokens",
            "metadata",
            "stop_sequences",
            "stream",
            "temperature",
            "thinking",
            "tool_choice",
            "tools",
            "top_k",
            "top_p",
            "output_config",
            "output_format",
            "cache_control",
        ],
        Shape::Chat => &[
            "model",
            "messages",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "stream",
            "stream_options",
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "max_tokens",
            "max_completion_tokens",
            "n",
            "stop",
            "seed",
            "presence_penalty",
            "frequency_penalty",
            "repetition_penalty",
            "logit_bias",
            "logprobs",
            "top_logprobs",
            "response_format",
            "reasoning_effort",
            "reasoning",
            "include_reasoning",
            "verbosity",
            "user",
            "metadata",
            "store",
            "prediction",
            "functions",
            "function_call",
            "modalities",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "thinking",
            "enable_thinking",
            "thinking_budget",
            "chat_template_kwargs",
        ],
        Shape::Responses => &[
            "model",
            "input",
            "instructions",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "reasoning",
            "store",
            "stream",
            "stream_options",
            "include",
            "temperature",
            "top_p",
            "max_output_tokens",
            "metadata",
            "text",
            "truncation",
            "user",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "safety_identifier",
            "max_tool_calls",
            "top_logprobs",
            "client_metadata",
        ],
        Shape::Contents => &[
            "model",
            "contents",
            "tools",
            "toolConfig",
            "tool_config",
            "systemInstruction",
            "system_instruction",
            "generationConfig",
            "generation_config",
            "safetySettings",
            "safety_settings",
            "labels",
        ],
        Shape::Ollama => &[
            "model", "name", "messages", "prompt", "suffix", "images", "tools", "format", "options", "stream",
            "system", "template", "raw", "think", "verbose",
        ],
    }
}

/// The properties of a call that change its price, as a body asks for them or as a provider reports them. `None` is a
/// property that nothing was said about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tier {
    service: Option<String>,
    speed: Option<String>,
    region: Option<String>,
}

impl Tier {
    /// Creates a tier of the names that a body or an answer has. `auto` leaves the choice to the provider, and says
    /// nothing about what it chose.
    pub(crate) fn new(service: Option<&str>, speed: Option<&str>, region: Option<&str>) -> Self {
        let short = |name: &str| name.chars().take(NAME_CHARS).collect::<String>();
        let service = service.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("auto"));
        Self { service: service.map(short), speed: speed.map(short), region: region.map(short) }
    }

    /// Returns this tier, with the properties of another where this one says nothing.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            service: self.service.or_else(|| other.service.clone()),
            speed: self.speed.or_else(|| other.speed.clone()),
            region: self.region.or_else(|| other.region.clone()),
        }
    }

    /// Returns the name of the tier as the table of prices has it; `None` is the usual tier. The names of several
    /// properties are joined with `+`.
    pub(crate) fn name(&self) -> Option<String> {
        let [service, region] = [&self.service, &self.region].map(|name| name.as_deref().and_then(tier));
        let all: Vec<String> = [service, self.speed.as_deref().and_then(speed), region].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("+"))
    }
}

/// The maximum length of a name in [`Tier`], in characters.
const NAME_CHARS: usize = 60;

/// Returns the name of a service tier as the table of prices has it; `None` is the usual tier.
fn tier(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_prefix("on_demand_").or_else(|| name.strip_prefix("service_tier_")).unwrap_or(&name);
    match name {
        "" | "auto" | "default" | "standard" | "standard_only" | "on_demand" | "unspecified" | "global"
        | "not_available" => None,
        "fast" => Some("priority".to_owned()),
        other => Some(other.chars().take(40).collect()),
    }
}

/// Returns the tier that the speed of Anthropic's interface stands for.
fn speed(name: &str) -> Option<String> {
    (name != "standard").then(|| name.chars().take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_belongs_to_one_group_of_its_shape() {
        for (shape, name, expected) in [
            (Shape::Messages, "model", Field::Known),
            (Shape::Messages, "service_tier", Field::Grouped(FieldGroup::ServiceTiers)),
            (Shape::Messages, "fallbacks", Field::Grouped(FieldGroup::Fallbacks)),
            (Shape::Responses, "prompt_cache_options", Field::Known),
            (Shape::Responses, "context_management", Field::Grouped(FieldGroup::ContextManagement)),
            (Shape::Chat, "provider", Field::Grouped(FieldGroup::Routing)),
            (Shape::Chat, "contents", Field::Unknown),
            (Shape::Contents, "SERVICE_TIER", Field::Unknown),
        ] {
            assert_eq!(field(shape, name), expected, "{shape:?} {name}");
        }
    }

    #[test]
    fn the_names_of_tiers_are_those_of_the_table_of_prices() {
        for (name, expected) in [
            ("default", None),
            ("standard", None),
            ("ON_DEMAND", None),
            ("priority", Some("priority")),
            ("fast", Some("priority")),
            ("flex", Some("flex")),
            ("ON_DEMAND_PRIORITY", Some("priority")),
            ("us", Some("us")),
        ] {
            assert_eq!(tier(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn what_a_provider_reports_takes_precedence_over_what_a_body_asks_for() {
        let asked = Tier::new(Some("priority"), None, Some("us"));
        assert_eq!(asked.name().as_deref(), Some("priority+us"));
        for (service, speed, region, expected) in [
            (None, None, None, Some("priority+us")),
            (Some("auto"), None, None, Some("priority+us")),
            (Some("default"), None, None, Some("us")),
            (Some("standard"), Some("standard"), Some("global"), None),
            (Some("flex"), Some("fast"), Some("us"), Some("flex+fast+us")),
        ] {
            let used = Tier::new(service, speed, region).or(&asked);
            assert_eq!(used.name().as_deref(), expected, "{service:?} {speed:?} {region:?}");
        }
        assert_eq!(Tier::new(Some("auto"), None, None), Tier::default());
    }
}
