//! The objects of the interface.
//!
//! The models are lenient, so that this version works with later versions of the server: unknown fields are ignored, an
//! unknown value becomes `Unknown`, and an event of an unknown type keeps its JSON. Times are texts in ISO 8601 (UTC).

/// Defines an enum of texts that keeps unknown ones.
macro_rules! open_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value that a later version of the server has added.
            Unknown(String),
        }

        impl $name {
            /// Returns the value as the interface spells it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Unknown(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Unknown(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer).map(|text| Self::from(text.as_str()))
            }
        }
    };
}

mod code_host;
mod create_project;
mod error_code;
mod event;
mod event_agent;
mod event_job;
mod feed;
mod job;
mod key;
mod limit_changes;
mod message;
mod project;
mod project_changes;
mod pull;
mod query;
mod review_changes;
mod slack;
mod system;
mod template;
mod trust;
mod user;
mod values;
mod webhook;

pub use self::code_host::*;
pub use self::create_project::*;
pub use self::error_code::*;
pub use self::event::*;
pub use self::event_agent::*;
pub use self::event_job::*;
pub use self::feed::*;
pub use self::job::*;
pub use self::key::*;
pub use self::limit_changes::*;
pub use self::message::*;
pub use self::project::*;
pub use self::project_changes::*;
pub use self::pull::*;
pub use self::query::*;
pub use self::review_changes::*;
pub use self::slack::*;
pub use self::system::*;
pub use self::template::*;
pub use self::trust::*;
pub use self::user::*;
pub use self::values::*;
pub use self::webhook::*;
