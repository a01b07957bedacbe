//! The tokens that have a color, and their scopes in the grammars.

use syntect::parsing::Scope;

/// The kinds of highlighted code. There are fewer than scopes in the grammars, so that a theme needs only ten colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword of the language.
    Keyword,
    /// A string literal.
    String,
    /// A comment.
    Comment,
    /// A function or macro, in a call or a definition.
    Function,
    /// A type, class or module.
    Type,
    /// A number.
    Number,
    /// A named constant, or an escape sequence in a string.
    Constant,
    /// A variable, parameter, field or attribute.
    Variable,
    /// An operator.
    Operator,
    /// A tag in markup, a key in YAML, or a deleted line in a diff.
    Tag,
}

impl Token {
    /// The list of all tokens.
    pub(crate) const ALL: [Self; 10] = [
        Self::Keyword,
        Self::String,
        Self::Comment,
        Self::Function,
        Self::Type,
        Self::Number,
        Self::Constant,
        Self::Variable,
        Self::Operator,
        Self::Tag,
    ];

    /// Returns the class in the stylesheet.
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Keyword => "hl-keyword",
            Self::String => "hl-string",
            Self::Comment => "hl-comment",
            Self::Function => "hl-function",
            Self::Type => "hl-type",
            Self::Number => "hl-number",
            Self::Constant => "hl-constant",
            Self::Variable => "hl-variable",
            Self::Operator => "hl-operator",
            Self::Tag => "hl-tag",
        }
    }
}

/// The tokens of scopes, by prefix. The first match decides, so specific prefixes come first.
const MEANINGS: &[(&str, Option<Token>)] = &[
    ("comment", Some(Token::Comment)),
    // Interpolated code inside a string is not a string.
    ("meta.interpolation", None),
    ("source", None),
    ("text", None),
    ("string", Some(Token::String)),
    ("constant.numeric", Some(Token::Number)),
    ("constant", Some(Token::Constant)),
    ("keyword.operator.word", Some(Token::Keyword)),
    ("keyword.operator", Some(Token::Operator)),
    ("keyword", Some(Token::Keyword)),
    ("storage", Some(Token::Keyword)),
    ("entity.name.function", Some(Token::Function)),
    ("entity.name.macro", Some(Token::Function)),
    ("entity.name.tag", Some(Token::Tag)),
    ("entity.name.constant", Some(Token::Constant)),
    ("entity.name.section", Some(Token::Keyword)),
    ("entity.name", Some(Token::Type)),
    ("entity.other.attribute-name", Some(Token::Variable)),
    ("entity.other.inherited-class", Some(Token::Type)),
    ("support.function", Some(Token::Function)),
    ("support.macro", Some(Token::Function)),
    ("support.constant", Some(Token::Constant)),
    ("support.variable", Some(Token::Variable)),
    ("support.type.property-name", Some(Token::Variable)),
    ("support", Some(Token::Type)),
    ("variable.function", Some(Token::Function)),
    ("variable.language", Some(Token::Keyword)),
    ("variable.other.constant", Some(Token::Constant)),
    ("variable", Some(Token::Variable)),
    ("markup.heading", Some(Token::Keyword)),
    ("markup.raw", Some(Token::String)),
    ("markup.inserted", Some(Token::String)),
    ("markup.deleted", Some(Token::Tag)),
];

/// The table [`MEANINGS`] with parsed scopes.
pub(super) struct Scopes(Vec<(Scope, Option<Token>)>);

impl Scopes {
    pub(super) fn new() -> Self {
        Self(MEANINGS.iter().filter_map(|(prefix, token)| Some((Scope::new(prefix).ok()?, *token))).collect())
    }

    /// Returns the token of text in these scopes. The innermost scope with a meaning decides.
    pub(super) fn token(&self, stack: &[Scope]) -> Option<Token> {
        stack.iter().rev().find_map(|scope| self.meaning(*scope)).flatten()
    }

    /// Returns the meaning of a scope; `None` if it has none, so that the enclosing scope decides.
    fn meaning(&self, scope: Scope) -> Option<Option<Token>> {
        self.0.iter().find(|(prefix, _)| prefix.is_prefix_of(scope)).map(|(_, token)| *token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prefix_is_a_scope() {
        assert_eq!(Scopes::new().0.len(), MEANINGS.len());
    }

    #[test]
    fn the_innermost_scope_with_a_meaning_decides() {
        let scopes = Scopes::new();
        for (stack, expected) in [
            (&["source.rust"] as &[&str], None),
            (&["source.rust", "string.quoted.double.rust"], Some(Token::String)),
            (&["source.rust", "string.quoted", "punctuation.definition.string.begin"], Some(Token::String)),
            (&["source.rust", "string.quoted", "constant.character.escape.rust"], Some(Token::Constant)),
            (&["source.js", "string.quoted", "meta.interpolation.js"], None),
            (&["source.c", "meta.function", "keyword.operator.c"], Some(Token::Operator)),
            (&["source.rust", "constant.numeric.integer"], Some(Token::Number)),
            (&["text.html", "source.css.embedded", "comment.block"], Some(Token::Comment)),
            // A prefix matches whole words only.
            (&["source.x", "constantly"], None),
        ] {
            let parsed: Vec<Scope> = stack.iter().map(|scope| Scope::new(scope).unwrap()).collect();
            assert_eq!(scopes.token(&parsed), expected, "{stack:?}");
        }
    }
}
