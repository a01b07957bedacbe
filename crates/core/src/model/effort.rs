//! The effort with which a model reasons about its answers.

use serde::{Deserialize, Serialize};

/// The effort of a model. Providers define what a value means, and not every model knows every value. If no effort is
/// set, nothing is sent, and the model uses its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// No reasoning.
    None,
    /// The least reasoning.
    Minimal,
    /// Little reasoning.
    Low,
    /// The middle value.
    Medium,
    /// Much reasoning.
    High,
    /// More than `high`.
    XHigh,
    /// The most reasoning that the model can do.
    Max,
}

impl Effort {
    /// All values, in ascending order.
    pub const ALL: [Self; 7] = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// Returns the name of the value, which is also its serialized form.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Finds a value by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.name() == name)
    }

    /// Returns the names of all values, separated by commas, for messages.
    #[must_use]
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_effort_is_its_serialized_form() {
        for effort in Effort::ALL {
            assert_eq!(serde_json::to_value(effort).unwrap(), effort.name());
            assert_eq!(Effort::from_name(effort.name()), Some(effort));
        }
        for other in ["", "HIGH", "zero", "x-high", " low"] {
            assert_eq!(Effort::from_name(other), None, "{other}");
        }
        assert_eq!(Effort::names(), "none, minimal, low, medium, high, xhigh, max");
    }
}
