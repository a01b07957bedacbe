//! The value of `--effort`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use journeyman_core::model::Effort;

/// Returns a parser for the name of an effort.
pub(crate) fn parser() -> impl TypedValueParser<Value = Effort> {
    let unknown = || format!("the effort must be one of {}", Effort::names());
    PossibleValuesParser::new(Effort::ALL.map(Effort::name))
        .try_map(move |name| Effort::from_name(&name).ok_or_else(unknown))
}
