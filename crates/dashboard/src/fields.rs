//! Form fields, as a browser sends them.

use axum::Form;
use axum::extract::rejection::FormRejection;
use axum::extract::{FromRequest, Request};
use journeyman_app::Idempotency;
use journeyman_core::idempotency::Fingerprint;
use journeyman_core::version::Precondition;

use crate::Shared;

/// The names and values of a form in their order. A name can occur several times.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Returns the form's idempotency key for this request, so that a form that is sent twice takes effect once.
    pub(crate) fn once(&self, request: &str) -> Option<Idempotency> {
        let fingerprint = Fingerprint::of("form", request.as_bytes());
        self.given("once").map(|key| Idempotency { key, fingerprint })
    }

    /// Returns the condition that the resource still has the version that the form was made for (the field `version`).
    pub(crate) fn precondition(&self) -> Precondition {
        match self.given("version").map(|version| version.parse()) {
            None => Precondition::None,
            // A number that cannot be read is no version.
            Some(version) => Precondition::Version(version.into_iter().collect()),
        }
    }

    /// Returns the version that the form was made for, or `current` if it names none. A form that is shown again keeps its
    /// version, so that it cannot overwrite a change of another person.
    pub(crate) fn version(&self, current: u64) -> u64 {
        self.given("version").and_then(|version| version.parse().ok()).unwrap_or(current)
    }

    /// Creates fields for a test.
    #[cfg(test)]
    pub(crate) fn of(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Returns the value of a field with Unix newlines; empty if there is no such field.
    pub(crate) fn text(&self, name: &str) -> String {
        self.value(name).unwrap_or_default().replace("\r\n", "\n")
    }

    /// Returns the trimmed value of a field; `None` if it is missing or blank.
    pub(crate) fn given(&self, name: &str) -> Option<String> {
        let text = self.value(name)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Returns all values of a field, trimmed, without blank ones.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let values = self.0.iter().filter(|(found, value)| found == name && !value.trim().is_empty());
        values.map(|(_, value)| value.trim().to_owned()).collect()
    }

    /// Returns the lines of a field, trimmed, without blank ones.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = self.text(name);
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the parts of a field that commas separate, trimmed, without blank ones.
    pub(crate) fn separated(&self, name: &str) -> Vec<String> {
        let text = self.text(name);
        text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the form with this value in a field that is missing or blank.
    pub(crate) fn or(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value
            && self.given(name).is_none()
        {
            self.0.retain(|(found, _)| found != name);
            self.0.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Returns true if a checkbox is checked.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Returns all names and values, in their order.
    pub(crate) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

impl FromRequest<Shared> for Fields {
    type Rejection = FormRejection;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, FormRejection> {
        Form::<Vec<(String, String)>>::from_request(request, shared).await.map(|Form(fields)| Self(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_browsers_send_them() {
        let pairs = [("a", " x "), ("a", ""), ("a", "y"), ("text", "one\r\n\r\n two \r\n"), ("ticked", "")];
        let fields = Fields(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(fields.given("a").as_deref(), Some("x"));
        assert_eq!(fields.all("a"), ["x", "y"]);
        assert_eq!(fields.text("text"), "one\n\n two \n");
        assert_eq!(fields.lines("text"), ["one", "two"]);
        assert!(fields.is_set("ticked") && !fields.is_set("other"));
        assert_eq!(fields.given("ticked"), None);
        assert_eq!(Fields::of(vec![("a".into(), "x, ,y ".into())]).separated("a"), ["x", "y"]);
    }

    #[test]
    fn a_default_is_for_fields_that_are_missing_or_blank() {
        let fields = Fields::of(vec![("a".into(), "x".into()), ("b".into(), " ".into())]);
        let fields = fields.or("a", Some("1")).or("b", Some("2")).or("c", Some("3")).or("d", None);
        assert_eq!(["a", "b", "c", "d"].map(|name| fields.text(name)), ["x", "2", "3", ""]);
    }
}
