//! Reads documents of GraphQL: operations with variables, fields with arguments and aliases, and fragments. Directives
//! are not supported. The grammar is that of the GraphQL specification, section "Language".

use serde_json::{Map, Value};

/// An operation.
#[derive(Debug, Default)]
pub(super) struct Operation {
    /// `true` for a mutation.
    pub(super) is_mutation: bool,
    /// The variables: the name, the type, and the default value.
    pub(super) variables: Vec<(String, String, Option<Value>)>,
    /// The fields.
    pub(super) selection: Vec<Selected>,
    /// The named fragments.
    pub(super) fragments: Vec<(String, Selected)>,
}

/// A part of a selection.
#[derive(Debug, Clone)]
pub(super) enum Selected {
    /// A field.
    Field(Field),
    /// Fields that only objects of a type have.
    On(Option<String>, Vec<Selected>),
    /// The fields of a named fragment.
    Spread(String),
}

/// A field.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// The name in the answer.
    pub(super) key: String,
    /// The name.
    pub(super) name: String,
    /// The arguments.
    pub(super) arguments: Vec<(String, Literal)>,
    /// The fields of the result.
    pub(super) selection: Vec<Selected>,
}

/// A value in a document.
#[derive(Debug, Clone)]
pub(super) enum Literal {
    /// A variable.
    Variable(String),
    /// A number, a text, a choice, a truth value or `null`.
    Value(Value),
    /// A list.
    List(Vec<Literal>),
    /// An object.
    Object(Vec<(String, Literal)>),
}

impl Literal {
    /// Returns the value with these variables.
    pub(super) fn with(&self, variables: &Map<String, Value>) -> Value {
        match self {
            Self::Variable(name) => variables.get(name).cloned().unwrap_or_default(),
            Self::Value(value) => value.clone(),
            Self::List(items) => items.iter().map(|item| item.with(variables)).collect(),
            Self::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value.with(variables))).collect(),
        }
    }
}

/// Reads a document with one operation.
pub(super) fn parse(text: &str) -> Result<Operation, String> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0 };
    let mut operation = Operation::default();
    while let Some(token) = reader.peek().map(str::to_owned) {
        match token.as_str() {
            "fragment" => {
                reader.next()?;
                let name = reader.next()?;
                reader.expect("on")?;
                let kind = reader.next()?;
                operation.fragments.push((name, Selected::On(Some(kind), reader.selection()?)));
            }
            "{" => operation.selection = reader.selection()?,
            "query" | "mutation" => {
                operation.is_mutation = reader.next()? == "mutation";
                if reader.peek().is_some_and(|next| next != "{" && next != "(") {
                    reader.next()?;
                }
                operation.variables = reader.variables()?;
                operation.selection = reader.selection()?;
            }
            other => return Err(format!("Expected one of SCHEMA, QUERY, MUTATION, actual: {other}")),
        }
    }
    Ok(operation)
}

struct Reader {
    tokens: Vec<String>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<&str> {
        self.tokens.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Result<String, String> {
        self.at += 1;
        self.tokens.get(self.at - 1).cloned().ok_or_else(|| "Unexpected end of document".to_owned())
    }

    fn skip(&mut self, token: &str) -> bool {
        let is_it = self.peek() == Some(token);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        let next = self.next()?;
        if next == token { Ok(()) } else { Err(format!("Expected {token}, actual: {next}")) }
    }

    fn variables(&mut self) -> Result<Vec<(String, String, Option<Value>)>, String> {
        let mut variables = Vec::new();
        if self.skip("(") {
            while !self.skip(")") {
                self.expect("$")?;
                let name = self.next()?;
                self.expect(":")?;
                let mut kind = String::new();
                while self.peek().is_some_and(|next| !matches!(next, "$" | ")" | "=")) {
                    kind.push_str(&self.next()?);
                }
                let default = if self.skip("=") { Some(self.literal()?.with(&Map::new())) } else { None };
                variables.push((name, kind, default));
            }
        }
        Ok(variables)
    }

    fn selection(&mut self) -> Result<Vec<Selected>, String> {
        let mut selection = Vec::new();
        self.expect("{")?;
        while !self.skip("}") {
            if self.skip("...") {
                selection.push(match self.peek() {
                    Some("on") => {
                        self.next()?;
                        let kind = self.next()?;
                        Selected::On(Some(kind), self.selection()?)
                    }
                    Some("{") => Selected::On(None, self.selection()?),
                    _ => Selected::Spread(self.next()?),
                });
                continue;
            }
            let key = self.next()?;
            let name = if self.skip(":") { self.next()? } else { key.clone() };
            let arguments = if self.skip("(") { self.fields(")")? } else { Vec::new() };
            let selection_of = if self.peek() == Some("{") { self.selection()? } else { Vec::new() };
            selection.push(Selected::Field(Field { key, name, arguments, selection: selection_of }));
        }
        Ok(selection)
    }

    fn fields(&mut self, end: &str) -> Result<Vec<(String, Literal)>, String> {
        let mut fields = Vec::new();
        while !self.skip(end) {
            let name = self.next()?;
            self.expect(":")?;
            fields.push((name, self.literal()?));
        }
        Ok(fields)
    }

    fn literal(&mut self) -> Result<Literal, String> {
        let token = self.next()?;
        Ok(match token.as_str() {
            "$" => Literal::Variable(self.next()?),
            "[" => {
                let mut items = Vec::new();
                while !self.skip("]") {
                    items.push(self.literal()?);
                }
                Literal::List(items)
            }
            "{" => Literal::Object(self.fields("}")?),
            // Texts, numbers and truth values are written as in JSON; everything else is a choice.
            _ => Literal::Value(serde_json::from_str(&token).unwrap_or(Value::String(token))),
        })
    }
}

/// Splits a document into tokens.
fn tokens(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_ignored);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' => string_length(rest).ok_or("Expected a string, actual: an unterminated one")?,
            '.' => 3.min(rest.len()),
            _ if first.is_ascii_alphanumeric() || matches!(first, '_' | '-') => {
                let ends = |one: char| !(one.is_ascii_alphanumeric() || matches!(one, '_' | '-' | '.'));
                rest.find(ends).unwrap_or(rest.len())
            }
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        if first != '#' {
            tokens.push(token.to_owned());
        }
        rest = after.trim_start_matches(is_ignored);
    }
    Ok(tokens)
}

fn is_ignored(one: char) -> bool {
    one.is_whitespace() || one == ','
}

/// Returns the length of a text in quotes at the start, with the quotes.
fn string_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    for (at, one) in text.char_indices().skip(1) {
        match one {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}
