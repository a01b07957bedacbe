//! The GraphQL interface: it answers with the fields that a query selects. Errors are in the answer, with status 200 (page
//! "Forming calls with GraphQL").

mod mutations;
mod objects;
mod query;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use self::query::{Field, Selected, parse};
use super::super::state::{State, Token, User};
use super::super::{ApiRequest, Reply};
use super::access::signed_in;
use super::answers::error;

/// Why a field has no value: the type of the error, which is empty if the query is wrong, and the text.
type Refusal = (&'static str, String);

/// Answers a request.
pub(super) fn graphql(state: &mut State, call: &ApiRequest) -> Reply {
    let (user, token) = match signed_in(state, call) {
        Ok(known) => known,
        Err(reply) => return reply,
    };
    let Some(text) = call.body["query"].as_str() else {
        return error(400, "A query attribute must be specified and must be a string.");
    };
    let wrong = |message: String| Reply::json(200, &json!({"errors": [{"message": message}]}));
    let operation = match parse(text) {
        Ok(operation) => operation,
        Err(message) => return wrong(message),
    };
    let given = call.body["variables"].as_object().cloned().unwrap_or_default();
    let mut variables = Map::new();
    for (name, kind, default) in operation.variables {
        let value = given.get(&name).cloned().filter(|value| !value.is_null()).or(default).unwrap_or_default();
        if value.is_null() && kind.ends_with('!') {
            return wrong(format!("Variable ${name} of type {kind} was provided invalid value"));
        }
        variables.insert(name, value);
    }
    let mut run = Run { state, user, token, variables, fragments: operation.fragments, errors: Vec::new() };
    let root = json!({"__typename": if operation.is_mutation { "Mutation" } else { "Query" }});
    let data = run.select(&root, &operation.selection, &[]);
    let errors = run.errors;
    if errors.is_empty() {
        return Reply::json(200, &json!({"data": data}));
    }
    if errors.iter().any(|error| error["type"].is_null()) {
        return Reply::json(200, &json!({"errors": errors}));
    }
    Reply::json(200, &json!({"data": data, "errors": errors}))
}

/// The execution of an operation.
struct Run<'a> {
    state: &'a mut State,
    user: User,
    token: Token,
    variables: Map<String, Value>,
    fragments: Vec<(String, Selected)>,
    errors: Vec<Value>,
}

impl Run<'_> {
    /// Returns the selected fields of an object.
    fn select(&mut self, parent: &Value, selection: &[Selected], path: &[Value]) -> Value {
        let mut shown = Map::new();
        for selected in selection {
            match selected {
                Selected::On(kind, fields) => {
                    let fields = objects::known(parent, fields);
                    if kind.as_ref().is_none_or(|kind| objects::is_kind(parent, kind))
                        && let Value::Object(more) = self.select(parent, &fields, path)
                    {
                        shown.extend(more);
                    }
                }
                Selected::Spread(name) => {
                    let fragment = self.fragments.iter().find(|(known, _)| known == name).cloned();
                    if let Some((_, fragment)) = fragment
                        && let Value::Object(more) = self.select(parent, &[fragment], path)
                    {
                        shown.extend(more);
                    }
                }
                Selected::Field(field) => {
                    let path: Vec<Value> = path.iter().cloned().chain([field.key.clone().into()]).collect();
                    let value = self.field(parent, field, &path);
                    shown.insert(field.key.clone(), value);
                }
            }
        }
        Value::Object(shown)
    }

    fn field(&mut self, parent: &Value, field: &Field, path: &[Value]) -> Value {
        let arguments: Map<String, Value> =
            field.arguments.iter().map(|(name, value)| (name.clone(), value.with(&self.variables))).collect();
        match self.resolve(parent, field, &arguments) {
            Ok(value) => self.complete(value, field, path),
            Err((kind, message)) => {
                let mut error = json!({"message": message, "path": path, "locations": [{"line": 1, "column": 1}]});
                if !kind.is_empty() {
                    error["type"] = kind.into();
                }
                self.errors.push(error);
                Value::Null
            }
        }
    }

    fn resolve(&mut self, parent: &Value, field: &Field, arguments: &Map<String, Value>) -> Result<Value, Refusal> {
        let kind = parent["__typename"].as_str().unwrap_or_default();
        let value = match (kind, field.name.as_str()) {
            ("Mutation", name) => return mutations::run(self, name, &arguments["input"]),
            ("Query", "viewer") => objects::actor(self.state, self.user.id),
            ("Query", "node") => return self.node(arguments["id"].as_str().unwrap_or_default()),
            ("Query", "repository") => return self.repository(arguments),
            ("Repository", "pullRequest") => return self.pull(parent, arguments),
            ("Repository", "object") => objects::commit(self.state, parent, arguments),
            (_, name) => match parent.get(name) {
                Some(value) => value.clone(),
                None => return Err(("", format!("Field '{name}' doesn't exist on type '{kind}'"))),
            },
        };
        if value["__all"].is_array() { connection(&value, &field.name, arguments) } else { Ok(value) }
    }

    /// Selects fields of a value.
    fn complete(&mut self, value: Value, field: &Field, path: &[Value]) -> Value {
        match value {
            Value::Array(items) => {
                let items = items.into_iter().enumerate().map(|(at, item)| {
                    let path: Vec<Value> = path.iter().cloned().chain([at.into()]).collect();
                    self.complete(item, field, &path)
                });
                items.collect()
            }
            Value::Object(_) => self.select(&value, &field.selection, path),
            other => other,
        }
    }

    /// Finds a repository by its name, which is not case sensitive. Renames are followed unless the query forbids it
    /// (field `Query.repository`, argument `followRenames`).
    fn repository(&mut self, arguments: &Map<String, Value>) -> Result<Value, Refusal> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = format!("{}/{}", text("owner"), text("name"));
        let follows = arguments.get("followRenames").is_none_or(|follows| *follows != false);
        let renamed = self.state.renamed(&path).filter(|_| follows).map(|found| found.path.clone());
        let found = self.state.by_path(&renamed.unwrap_or_else(|| path.clone())).map(|found| found.clone());
        match found.filter(|found| super::access::may_read(found, &self.user, &self.token)) {
            Some(found) => Ok(objects::repository(self.state, &found)),
            None => Err(("NOT_FOUND", format!("Could not resolve to a Repository with the name '{path}'."))),
        }
    }

    fn pull(&mut self, repository: &Value, arguments: &Map<String, Value>) -> Result<Value, Refusal> {
        self.may("pull_requests", "read")?;
        let number = arguments.get("number").and_then(Value::as_u64).unwrap_or_default();
        let shown = repository["databaseId"].as_u64().and_then(|id| objects::pull(self.state, id, number));
        shown.ok_or_else(|| ("NOT_FOUND", format!("Could not resolve to a PullRequest with the number of {number}.")))
    }

    /// Refuses an app that lacks a permission.
    fn may(&self, permission: &str, level: &str) -> Result<(), Refusal> {
        let has = match &self.token.installation {
            Some(installation) => {
                let known = installation.permissions.get(permission).map(String::as_str);
                known == Some("write") || (known == Some("read") && level == "read")
            }
            None => level == "read" || self.token.can_write,
        };
        let who = if self.token.installation.is_some() { "integration" } else { "personal access token" };
        if has { Ok(()) } else { Err(("FORBIDDEN", format!("Resource not accessible by {who}"))) }
    }

    fn node(&mut self, id: &str) -> Result<Value, Refusal> {
        let missing = || ("NOT_FOUND", format!("Could not resolve to a node with the global id of '{id}'."));
        objects::node(self.state, id).ok_or_else(missing)
    }
}

/// Returns a part of a list. Page "Rate limits and query limits for the GraphQL API", section "Node limit": each list
/// needs `first` or `last`, from 1 to 100.
fn connection(list: &Value, name: &str, arguments: &Map<String, Value>) -> Result<Value, Refusal> {
    let states = arguments.get("states").map(|states| states.as_array().cloned().unwrap_or(vec![states.clone()]));
    let is_it = |item: &&Value| states.as_ref().is_none_or(|states| states.contains(&item["state"]));
    let all: Vec<Value> = list["__all"].as_array().into_iter().flatten().filter(is_it).cloned().collect();
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
    let cursor = |name: &str| {
        let text = String::from_utf8(STANDARD.decode(arguments.get(name)?.as_str()?).ok()?).ok()?;
        text.strip_prefix("cursor:")?.parse::<usize>().ok()
    };
    let (first, last) = (number("first"), number("last"));
    let Some(count) = first.or(last) else {
        let text = format!("You must provide a `first` or `last` value to properly paginate the `{name}` connection.");
        return Err(("MISSING_PAGINATION_BOUNDARIES", text));
    };
    if !(1..=100).contains(&count) {
        let limit = if first.is_some() { "first" } else { "last" };
        let text = format!(
            "Requesting {count} records on the `{name}` connection exceeds the `{limit}` limit of 100 records."
        );
        return Err(("EXCESSIVE_PAGINATION", text));
    }
    // A cursor is the number of the items up to it.
    let (mut from, mut to) = (cursor("after").unwrap_or(0).min(all.len()), all.len());
    to = to.min(cursor("before").map_or(to, |before| before.saturating_sub(1))).max(from);
    let count = usize::try_from(count).unwrap_or(100);
    if first.is_some() {
        to = to.min(from + count);
    } else {
        from = from.max(to.saturating_sub(count));
    }
    let name_of = |at: usize| STANDARD.encode(format!("cursor:{at}"));
    let edges: Vec<Value> =
        (from..to).map(|at| json!({"__typename": "Edge", "cursor": name_of(at + 1), "node": all[at]})).collect();
    let is_empty = from == to;
    Ok(json!({
        "__typename": list["__typename"], "totalCount": all.len(), "nodes": all[from..to], "edges": edges,
        "pageInfo": {
            "__typename": "PageInfo", "hasNextPage": to < all.len(), "hasPreviousPage": from > 0,
            "startCursor": (!is_empty).then(|| name_of(from + 1)), "endCursor": (!is_empty).then(|| name_of(to)),
        },
    }))
}
