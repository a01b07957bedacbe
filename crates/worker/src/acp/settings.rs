//! Which request sets a session's mode or model.
//!
//! Agents tell both in one of two ways: in `configOptions`, or in the older `modes` and `models`. Some do it in both,
//! and then the options count.
//!
//! Invariant: only a value that the agent itself lists is ever set.

use serde_json::Value;

/// Something that can be chosen for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// How the agent works, such as without asking for permissions.
    Mode,
    /// The model that it uses.
    Model,
}

impl Setting {
    /// The category of the option, which is the word for the log too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
        }
    }
}

/// What has to be done for a setting to have its wanted value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing: it has it.
    None,
    /// `session/set_config_option` for the option of this id.
    Option(String),
    /// `session/set_mode`.
    Mode,
    /// `session/set_model`.
    Model,
    /// The agent does not offer the value.
    Unknown,
}

/// Finds out how `setting` becomes `wanted`, from what the agent answered when the session was opened.
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
    };
    let offered = state.get(offered)?;
    if is(offered, current, wanted) {
        return Some(Change::None);
    }
    let mut listed = offered.get(list)?.as_array()?.iter();
    listed.any(|one| is(one, id, wanted)).then_some(change)
}

fn concerns(option: &Value, setting: Setting) -> bool {
    is(option, "category", setting.name()) || is(option, "id", setting.name())
}

/// Whether a list of values, or of groups of values, has `wanted`.
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
    fn an_agent_that_offers_nothing_gets_nothing() {
        for state in [Value::Null, json!({}), json!({ "modes": [], "configOptions": {} })] {
            assert_eq!(change(&state, Setting::Mode, "yolo"), Change::Unknown);
        }
    }
}
