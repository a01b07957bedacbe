//! Arguments of tools that models write in more than one way.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads an optional whole number, which may be a string, such as `"12"`.
pub(super) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let number = match &value {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.map(Some).ok_or_else(|| D::Error::custom(format!("{value} is not a whole number of 0 or more")))
}

/// Converts a number such as `12.0`, up to 2^53.
fn whole(number: f64) -> Option<u64> {
    let is_whole = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
}

/// Reads an optional truth value, which may be a string, such as `"true"`.
pub(super) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match &value {
        Value::Null => Ok(false),
        Value::Bool(flag) => Ok(*flag),
        Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
        Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(D::Error::custom(format!("{value} is neither true nor false"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Args {
        #[serde(default, deserialize_with = "number")]
        offset: Option<u64>,
        #[serde(default, deserialize_with = "flag")]
        all: bool,
    }

    fn read(value: Value) -> Result<(Option<u64>, bool), String> {
        let args: Result<Args, _> = serde_json::from_value(value);
        args.map(|args| (args.offset, args.all)).map_err(|error| error.to_string())
    }

    #[test]
    fn numbers_and_truth_values_may_be_strings() {
        for (value, expected) in [
            (json!({}), (None, false)),
            (json!({"offset": null, "all": null}), (None, false)),
            (json!({"offset": 7, "all": true}), (Some(7), true)),
            (json!({"offset": "7", "all": "true"}), (Some(7), true)),
            (json!({"offset": " 0 ", "all": "False"}), (Some(0), false)),
            (json!({"offset": 7.0}), (Some(7), false)),
            (json!({"offset": "18446744073709551615"}), (Some(u64::MAX), false)),
        ] {
            assert_eq!(read(value.clone()), Ok(expected), "{value}");
        }
    }

    #[test]
    fn other_values_are_refused_in_words() {
        for offset in
            [json!("one"), json!(""), json!(-1), json!("-1"), json!(1.5), json!("1.5"), json!([1]), json!(1e99)]
        {
            let error = read(json!({"offset": offset})).unwrap_err();
            assert!(error.contains(&format!("{offset} is not a whole number")), "{offset}: {error}");
        }
        assert!(read(json!({"all": "yes"})).unwrap_err().contains("neither true nor false"));
    }
}
