//! Query parameters of lists. A value that a list does not know is an error: if it selected everything, the reader would
//! mistake the whole list for the result of the filter.

use crate::failure::Failure;
use crate::words;

/// The maximum number of characters of a value in an error.
const MAX_SHOWN: usize = 80;

/// A parameter in the URL of a list.
pub(crate) struct Parameter<'a> {
    name: &'static str,
    /// The value; `None` if it is missing or blank.
    value: Option<&'a str>,
    /// The path of the list without filters.
    clear: &'a str,
}

impl<'a> Parameter<'a> {
    /// Creates a parameter. `clear` is the path of the list without filters.
    pub(crate) fn new(name: &'static str, value: Option<&'a String>, clear: &'a str) -> Self {
        let value = value.map(|value| value.trim()).filter(|value| !value.is_empty());
        Self { name, value, clear }
    }

    /// Returns the choice that the parameter names; `None` if it has no value.
    ///
    /// # Errors
    /// No choice has this name.
    pub(crate) fn one_of<N: AsRef<str>, T>(
        &self,
        choices: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.value else { return Ok(None) };
        let mut names = Vec::new();
        for (name, choice) in choices {
            if name.as_ref() == value {
                return Ok(Some(choice));
            }
            names.push(name.as_ref().to_owned());
        }
        Err(self.wrong(&words::alternatives(&names)))
    }

    /// Reads the value; returns `None` if the parameter has none. `allowed` says in words which values are allowed.
    ///
    /// # Errors
    /// `read` returns `None`.
    pub(crate) fn read<T>(&self, allowed: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Failure> {
        let Some(value) = self.value else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(allowed))
    }

    fn wrong(&self, allowed: &str) -> Failure {
        let value: String = self.value.unwrap_or_default().chars().take(MAX_SHOWN).collect();
        let text = format!("{}: {value:?} is not allowed; use {allowed}", self.name);
        Failure::Parameter { text, clear: self.clear.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_of_the_choices() {
        let choices = [("open", 1), ("closed", 2)];
        let of = |value: &str| {
            let value = Some(value.to_owned());
            Parameter::new("state", value.as_ref(), "/pulls").one_of(choices).map_err(|failure| failure.text())
        };
        assert_eq!([of("closed").unwrap(), of(" ").unwrap()], [Some(2), None]);
        assert_eq!(of("x\"").unwrap_err(), "state: \"x\\\"\" is not allowed; use open or closed.");
        assert!(of(&"x".repeat(5000)).unwrap_err().len() < 200);
        assert_eq!(Parameter::new("state", None, "/pulls").one_of(choices).unwrap(), None);
    }

    #[test]
    fn a_value_that_cannot_be_read_is_refused() {
        let (number, word) = (Some("7".to_owned()), Some("x".to_owned()));
        let of = |value: &Option<String>| {
            Parameter::new("before", value.as_ref(), "/audit").read("a number", |text| text.parse::<u64>().ok())
        };
        assert_eq!(of(&number).unwrap(), Some(7));
        assert!(matches!(of(&word).unwrap_err(), Failure::Parameter { text, clear }
            if text == "before: \"x\" is not allowed; use a number" && clear == "/audit"));
    }
}
