//! Chooses the request that sets a session's mode, model or effort.
//!
//! Agents list modes and models in one of two ways: in `configOptions`, or in the older `modes` and `models`. If an agent
//! uses both ways, the options take precedence. They list efforts only in `configOptions`.
//!
//! Invariant: only a value that the agent itself lists is ever set.

use serde_json::Value;

/// A setting of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// The agent's mode, such as the one without requests for permission.
    Mode,
    /// The model that the agent uses.
    Model,
    /// The effort of the model.
    Effort,
}

impl Setting {
    /// Returns the name of the setting for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => "effort",
        }
    }

    /// Returns the category of the option.
    fn category(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Effort => "thought_level",
        }
    }
}

/// The change that gives a setting its wanted value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// No change: the setting has the value already.
    None,
    /// `session/set_config_option` for the option with this ID.
    Option(String),
    /// `session/set_mode`.
    Mode,
    /// `session/set_model`.
    Model,
    /// The agent does not offer the value.
    Unknown,
}

/// Returns the change that sets `setting` to `wanted`, based on the agent's answer when the session was opened.
pub(super) fn change(state: &Value, setting: Setting, wanted: &str) -> Change {
    by_option(state, setting, wanted).or_else(|| by_list(state, setting, wanted)).unwrap_or(Change::Unknown)
}

fn by_option(state: &Value, setting: Setting, wanted: &str) -> Option<Change> {
    let options = state.get("configOptions")?.as_array()?;
    let option = options.iter().find(|option| concerns(option, setting) && offers(option.get("options"), wanted))?;
    if is(option, "currentValue", wanted) {
        return Some(Change::None);
    }
    Some(Change::Option(option.get("id")?.as_str()?.to_owned()))
}

fn by_list(state: &Value, setting: Setting, wanted: &str) -> Option<Change> {
    let (offered, current, list, id, change) = match setting {
        Setting::Mode => ("modes", "currentModeId", "availableModes", "id", Change::Mode),
        Setting::Model => ("models", "currentModelId", "availableModels", "modelId", Change::Model),
        Setting::Effort => return None,
    };
    let offered = state.get(offered)?;
    if is(offered, current, wanted) {
        return Some(Change::None);
    }
    let mut listed = offered.get(list)?.as_array()?.iter();
    listed.any(|item| is(item, id, wanted)).then_some(change)
}

fn concerns(option: &Value, setting: Setting) -> bool {
    is(option, "category", setting.category()) || is(option, "id", setting.category())
}

/// Returns whether a list of values, or of groups of values, contains `wanted`.
fn offers(values: Option<&Value>, wanted: &str) -> bool {
    values.and_then(Value::as_array).is_some_and(|values| {
        values.iter().any(|value| is(value, "value", wanted) || offers(value.get("options"), wanted))
    })
}

fn is(value: &Value, field: &str, text: &str) -> bool {
    value.get(field).and_then(Value::as_str) == Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_found_by_category_or_id_flat_or_in_groups() {
        let state = json!({ "configOptions": [
            { "id": "thinking", "category": "thought_level", "type": "select", "currentValue": "low",
              "options": [{ "value": "yolo", "name": "Not a mode" }] },
            { "id": "m", "category": "mode", "type": "select", "currentValue": "ask",
              "options": [{ "value": "ask", "name": "Ask" }, { "value": "yolo", "name": "Yolo" }] },
            { "id": "model", "type": "select", "currentValue": "small",
              "options": [{ "group": "g", "name": "G", "options": [{ "value": "large", "name": "L" }] }] },
        ] });
        assert_eq!(change(&state, Setting::Mode, "yolo"), Change::Option("m".to_owned()));
        assert_eq!(change(&state, Setting::Mode, "ask"), Change::None);
        assert_eq!(change(&state, Setting::Model, "large"), Change::Option("model".to_owned()));
        assert_eq!(change(&state, Setting::Model, "huge"), Change::Unknown);
    }

    #[test]
    fn an_effort_is_the_value_of_an_option_for_the_thought_level() {
        let levels = json!([{ "value": "low", "name": "Low" }, { "value": "xhigh", "name": "Extra high" }]);
        for option in [
            json!({ "id": "reasoning_effort", "category": "thought_level", "currentValue": "low", "options": levels }),
            json!({ "id": "thought_level", "currentValue": "low", "options": levels }),
        ] {
            let state = json!({ "configOptions": [option], "models": { "currentModelId": "max" } });
            let id = option["id"].as_str().unwrap().to_owned();
            assert_eq!(change(&state, Setting::Effort, "xhigh"), Change::Option(id));
            assert_eq!(change(&state, Setting::Effort, "low"), Change::None);
            assert_eq!(change(&state, Setting::Effort, "max"), Change::Unknown, "only a listed value is set");
        }
    }

    #[test]
    fn the_older_lists_are_read_too() {
        let state = json!({
            "modes": { "currentModeId": "ask", "availableModes": [{ "id": "ask" }, { "id": "yolo" }] },
            "models": { "currentModelId": "small", "availableModels": [{ "modelId": "large" }] },
            "configOptions": null,
        });
        assert_eq!(change(&state, Setting::Mode, "yolo"), Change::Mode);
        assert_eq!(change(&state, Setting::Mode, "ask"), Change::None);
        assert_eq!(change(&state, Setting::Mode, "none"), Change::Unknown);
        assert_eq!(change(&state, Setting::Model, "large"), Change::Model);
        assert_eq!(change(&state, Setting::Model, "small"), Change::None);
    }

    #[test]
    fn nothing_is_set_if_the_agent_offers_nothing() {
        for state in [Value::Null, json!({}), json!({ "modes": [], "configOptions": {} })] {
            assert_eq!(change(&state, Setting::Mode, "yolo"), Change::Unknown);
        }
    }
}
