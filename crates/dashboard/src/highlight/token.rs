//! What has a colour, and which scopes of the grammars mean it.

use syntect::parsing::Scope;

/// What a stretch of code is. Fewer than the scopes of the grammars, so that a theme is ten colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word of the language.
    Keyword,
    /// Text in quotes.
    String,
    /// What is not read by the machine.
    Comment,
    /// What is called or defined as such.
    Function,
    /// A type, class or module.
    Type,
    /// A number.
    Number,
    /// A value with a name, and an escape in a string.
    Constant,
    /// A variable, parameter, field or attribute.
    Variable,
    /// A sign that computes.
    Operator,
    /// An element of markup, or a key.
    Tag,
}

impl Token {
    /// All of them.
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

    /// The class in the stylesheet.
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

/// Prefixes of scopes. The first that fits decides, so the narrower ones come first.
const MEANINGS: &[(&str, Option<Token>)] = &[
    ("comment", Some(Token::Comment)),
    // Code inside a string is no string.
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

/// The table of meanings, with the scopes as the grammars have them.
pub(super) struct Scopes(Vec<(Scope, Option<Token>)>);

impl Scopes {
    pub(super) fn new() -> Self {
        Self(MEANINGS.iter().filter_map(|(prefix, token)| Some((Scope::new(prefix).ok()?, *token))).collect())
    }

    /// What text in these scopes is: the innermost with a meaning decides.
    pub(super) fn token(&self, stack: &[Scope]) -> Option<Token> {
        stack.iter().rev().find_map(|scope| self.meaning(*scope)).flatten()
    }

    /// `None` where the scope says nothing, so that the one around it is asked.
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
            // A prefix is whole words.
            (&["source.x", "constantly"], None),
        ] {
            let parsed: Vec<Scope> = stack.iter().map(|scope| Scope::new(scope).unwrap()).collect();
            assert_eq!(scopes.token(&parsed), expected, "{stack:?}");
        }
    }
}
