//! Labels and metadata of jobs, and the other attributes by which lists select jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The maximum number of labels of a job.
pub const MAX_LABELS: usize = 20;

/// The maximum length of a label, in characters.
pub const MAX_LABEL_CHARS: usize = 50;

/// The maximum number of entries in the metadata of a job. This limit and the two below are those of Stripe's API
/// (<https://docs.stripe.com/api/metadata>), so that clients can pass on what they have.
pub const MAX_METADATA: usize = 50;

/// The maximum length of a key of the metadata, in characters.
pub const MAX_KEY_CHARS: usize = 40;

/// The maximum length of a value of the metadata, in characters.
pub const MAX_VALUE_CHARS: usize = 500;

/// The reason why labels or metadata are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLabel {
    /// There are too many labels.
    #[error("labels: a job can have at most {MAX_LABELS}, not {0}")]
    TooManyLabels(usize),
    /// A label is not valid.
    #[error(
        "labels: {0:?} is not valid; a label has 1 to {MAX_LABEL_CHARS} characters, no control characters, and no \
         space at its beginning or end"
    )]
    Label(String),
    /// There are too many entries.
    #[error("metadata: a job can have at most {MAX_METADATA} entries, not {0}")]
    TooManyEntries(usize),
    /// A key is not valid.
    #[error("metadata: the key {0:?} is not valid; a key has 1 to {MAX_KEY_CHARS} letters, digits, `_`, `-` or `.`")]
    Key(String),
    /// A value is not valid.
    #[error(
        "metadata.{0}: the value is not valid; it can have up to {MAX_VALUE_CHARS} characters, and no control characters"
    )]
    Value(String),
}

/// The labels of a job: valid, sorted, and each only once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(BTreeSet<String>);

impl Labels {
    /// Checks labels. Repeated labels count once.
    ///
    /// # Errors
    /// Returns an error if a label is not valid, or if there are more than [`MAX_LABELS`].
    pub fn new(labels: impl IntoIterator<Item = String>) -> Result<Self, InvalidLabel> {
        let labels: BTreeSet<String> = labels.into_iter().collect();
        if let Some(label) = labels.iter().find(|label| !is_label(label)) {
            return Err(InvalidLabel::Label(short(label)));
        }
        if labels.len() > MAX_LABELS {
            return Err(InvalidLabel::TooManyLabels(labels.len()));
        }
        Ok(Self(labels))
    }

    /// Returns whether there are no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the labels, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.chars().count() <= MAX_LABEL_CHARS
        && label.trim() == label
        && !label.chars().any(char::is_control)
}

/// The metadata of a job: valid entries, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata(BTreeMap<String, String>);

impl Metadata {
    /// Checks metadata.
    ///
    /// # Errors
    /// Returns an error if a key or value is not valid, or if there are more than [`MAX_METADATA`] entries.
    pub fn new(entries: BTreeMap<String, String>) -> Result<Self, InvalidLabel> {
        if entries.len() > MAX_METADATA {
            return Err(InvalidLabel::TooManyEntries(entries.len()));
        }
        for (key, value) in &entries {
            if !is_key(key) {
                return Err(InvalidLabel::Key(short(key)));
            }
            if value.chars().count() > MAX_VALUE_CHARS || value.chars().any(char::is_control) {
                return Err(InvalidLabel::Value(key.clone()));
            }
        }
        Ok(Self(entries))
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the keys and values, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=MAX_KEY_CHARS).contains(&key.len()) && key.bytes().all(allowed)
}

/// Returns the beginning of a text, for an error.
fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// A property by which lists select jobs. Its text is what a store searches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// A label.
    Label(String),
    /// A key and value of the metadata.
    Metadata(String, String),
    /// The agent.
    Agent(String),
    /// The author of the first message.
    Author(String),
}

impl Attribute {
    /// Returns the attributes of a new job.
    #[must_use]
    pub fn of_job(labels: &Labels, metadata: &Metadata, author: Option<&str>, agent: &str) -> Vec<Self> {
        let labels = labels.iter().map(|label| Self::Label(label.to_owned()));
        let metadata = metadata.iter().map(|(key, value)| Self::Metadata(key.to_owned(), value.to_owned()));
        let author = author.map(|author| Self::Author(author.to_owned()));
        labels.chain(metadata).chain(author).chain([Self::Agent(agent.to_owned())]).collect()
    }

    /// Parses the text of an attribute; `None` if this version does not know its kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, value) = text.split_once(':')?;
        match kind {
            "label" => Some(Self::Label(value.to_owned())),
            "metadata" => value.split_once('=').map(|(key, value)| Self::Metadata(key.to_owned(), value.to_owned())),
            "agent" => Some(Self::Agent(value.to_owned())),
            "author" => Some(Self::Author(value.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(label) => write!(f, "label:{label}"),
            // A key has no equals sign.
            Self::Metadata(key, value) => write!(f, "metadata:{key}={value}"),
            Self::Agent(agent) => write!(f, "agent:{agent}"),
            Self::Author(author) => write!(f, "author:{author}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[&str]) -> Result<Labels, InvalidLabel> {
        Labels::new(labels.iter().map(|label| (*label).to_owned()))
    }

    #[test]
    fn labels_are_checked_and_stored_once() {
        let known = labels(&["b", "a", "b", "needs review", "größer"]).unwrap();
        assert_eq!(known.iter().collect::<Vec<_>>(), ["a", "b", "größer", "needs review"]);
        assert!(labels(&[&"ä".repeat(MAX_LABEL_CHARS)]).is_ok());
        for wrong in ["", " a", "a ", "a\nb", &"ä".repeat(MAX_LABEL_CHARS + 1)] {
            assert!(matches!(labels(&[wrong]), Err(InvalidLabel::Label(_))), "{wrong:?}");
        }
        let many: Vec<String> = (0..=MAX_LABELS).map(|number| number.to_string()).collect();
        assert_eq!(Labels::new(many.clone()), Err(InvalidLabel::TooManyLabels(MAX_LABELS + 1)));
        assert!(Labels::new(many[..MAX_LABELS].to_vec()).is_ok());
    }

    #[test]
    fn metadata_is_checked() {
        let entry = |key: &str, value: &str| Metadata::new([(key.to_owned(), value.to_owned())].into());
        assert!(entry("ticket", "ABC-1").is_ok());
        assert!(entry(&"k".repeat(MAX_KEY_CHARS), &"ä".repeat(MAX_VALUE_CHARS)).is_ok());
        assert!(entry("a.b_c-1", "").is_ok());
        for wrong in ["", "a b", "a=b", "ä", "a:b", &"k".repeat(MAX_KEY_CHARS + 1)] {
            assert!(matches!(entry(wrong, "x"), Err(InvalidLabel::Key(_))), "{wrong:?}");
        }
        for wrong in ["a\0b", "a\nb", &"ä".repeat(MAX_VALUE_CHARS + 1)] {
            assert_eq!(entry("key", wrong), Err(InvalidLabel::Value("key".to_owned())), "{wrong:?}");
        }
        let many = (0..=MAX_METADATA).map(|number| (number.to_string(), String::new())).collect();
        assert_eq!(Metadata::new(many), Err(InvalidLabel::TooManyEntries(MAX_METADATA + 1)));
    }

    #[test]
    fn different_attributes_have_different_texts_that_can_be_read() {
        let own = |text: &str| text.to_owned();
        let all = [
            Attribute::Label(own("a")),
            Attribute::Agent(own("a")),
            Attribute::Author(own("a")),
            Attribute::Metadata(own("a"), own("b=c")),
            Attribute::Metadata(own("a"), own("")),
            Attribute::Label(own("metadata:a=")),
        ];
        let texts: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), all.len(), "{texts:?}");
        for attribute in all {
            assert_eq!(Attribute::parse(&attribute.to_string()), Some(attribute));
        }
        assert_eq!(Attribute::parse("color:red"), None);
    }
}
