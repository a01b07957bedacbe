//! The pages of the reference.

use askama::Template;
use serde_json::Value;

use super::curl;
use super::examples::Regions;
use super::schema;
use super::spec::{Operation, text};
use super::writer::{Code, Content, Writer, section};
use crate::fragment::Fragment;
use crate::icons::Icon;
use crate::markdown::{Markup, Section};

/// A response of an operation.
struct Response {
    status: String,
    text: Markup,
    kind: String,
    headers: Option<Fragment>,
    fields: Option<Fragment>,
    example: Option<Code>,
}

#[derive(Template)]
#[template(path = "docs_operation.html")]
struct OperationPage<'a> {
    operation: &'a Operation,
    description: Markup,
    samples: Vec<Code>,
    /// The parameters in the path, the query and the headers, each with its title.
    parameters: Vec<(&'static str, Fragment)>,
    body: Option<Fragment>,
    body_kind: String,
    responses: Vec<Response>,
    errors: Vec<(String, Markup)>,
}

impl OperationPage<'_> {
    #[expect(clippy::unused_self, reason = "templates call the method")]
    fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }
}

/// Returns the request of an operation in the three languages.
pub(super) fn samples(writer: &mut Writer<'_>, python: &Regions, typescript: &Regions, id: &str) -> Vec<Code> {
    let spec = writer.spec();
    let curl = spec.operations.iter().find(|one| one.id == id).map(|one| curl::request(spec, one));
    vec![
        writer.code("example-curl", "curl", "sh", &curl.unwrap_or_default()),
        writer.code("example-python", "Python", "python", python.get(id)),
        writer.code("example-typescript", "TypeScript", "typescript", typescript.get(id)),
    ]
}

/// Renders the page of an operation.
pub(super) fn operation(
    writer: &mut Writer<'_>,
    python: &Regions,
    typescript: &Regions,
    operation: &Operation,
) -> askama::Result<Content> {
    let mut sections = vec![section("request", "Request")];
    let parameters = parameters(writer, operation)?;
    let schema = operation.value.pointer("/requestBody/content/application~1json/schema");
    let (mut body, mut body_kind) = (None, String::new());
    if let Some(schema) = schema {
        sections.push(section("body", "Body"));
        body = schema::fields(writer, schema, &[])?;
        body_kind = schema::kind(writer, schema, 0);
    }
    let (mut responses, mut errors) = (Vec::new(), Vec::new());
    for (status, found) in operation.value["responses"].as_object().into_iter().flatten() {
        if status.starts_with('4') || status.starts_with('5') {
            errors.push((status.clone(), writer.markdown(text(found, "description"))));
        } else {
            responses.push(response(writer, status, found)?);
        }
    }
    sections.extend([section("responses", "Responses"), section("errors", "Errors")]);
    let page = OperationPage {
        operation,
        description: writer.markdown(&operation.description),
        samples: samples(writer, python, typescript, &operation.id),
        parameters,
        body,
        body_kind,
        responses,
        errors,
    };
    Ok(Content { body: Fragment::of(&page)?, sections })
}

fn parameters(writer: &mut Writer<'_>, operation: &Operation) -> askama::Result<Vec<(&'static str, Fragment)>> {
    let spec = writer.spec();
    let mut groups = Vec::new();
    for (location, title) in [("path", "Path"), ("query", "Query"), ("header", "Headers")] {
        let mut fields = Vec::new();
        for parameter in operation.parameters().iter().map(|parameter| spec.resolve(parameter)) {
            if parameter["in"] == location {
                let mut field = schema::field(writer, text(parameter, "name"), &parameter["schema"], false, &[])?;
                field.required = parameter["required"] == true;
                field.text = writer.markdown(text(parameter, "description"));
                fields.push(field);
            }
        }
        groups.extend(schema::list(&fields)?.map(|list| (title, list)));
    }
    Ok(groups)
}

fn response(writer: &mut Writer<'_>, status: &str, response: &Value) -> askama::Result<Response> {
    let spec = writer.spec();
    let response = spec.resolve(response);
    let mut headers = Vec::new();
    for (name, header) in response["headers"].as_object().into_iter().flatten() {
        let header = spec.resolve(header);
        let mut field = schema::field(writer, name, &header["schema"], false, &[])?;
        field.text = writer.markdown(text(header, "description"));
        headers.push(field);
    }
    let content = response["content"].as_object().and_then(|content| content.iter().next());
    let (mut kind, mut fields, mut example) = (String::new(), None, None);
    if let Some((name, content)) = content {
        kind.clone_from(name);
        fields = schema::fields(writer, &content["schema"], &[])?;
        let (language, text) = match &content["example"] {
            Value::Null => ("", String::new()),
            Value::String(text) => ("diff", text.clone()),
            value => ("json", serde_json::to_string_pretty(value).unwrap_or_default()),
        };
        if !text.is_empty() {
            example = Some(writer.code(&format!("response-{status}"), "Example", language, &text));
        }
    }
    let text = writer.markdown(text(response, "description"));
    let headers = schema::list(&headers)?;
    Ok(Response { status: status.to_owned(), text, kind, headers, fields, example })
}

#[derive(Template)]
#[template(path = "docs_reference.html")]
struct IndexPage<'a> {
    /// The tags with their ID, name, description and operations.
    tags: Vec<(String, &'a str, &'a str, Vec<&'a Operation>)>,
}

/// Renders the list of all operations.
pub(super) fn index(writer: &Writer<'_>) -> askama::Result<Content> {
    let spec = writer.spec();
    let mut tags = Vec::new();
    for (tag, description) in &spec.tags {
        let id = tag.to_ascii_lowercase().replace(' ', "-");
        let operations = spec.operations.iter().filter(|one| one.tag == *tag).collect();
        tags.push((id, tag.as_str(), description.as_str(), operations));
    }
    let sections = tags.iter().map(|(id, tag, ..)| section(id, tag)).collect();
    Ok(Content { body: Fragment::of(&IndexPage { tags })?, sections })
}

/// A type of event.
struct EventType {
    id: String,
    name: String,
    text: Markup,
    fields: Option<Fragment>,
    example: Code,
}

#[derive(Template)]
#[template(path = "docs_events.html")]
struct EventsPage<'a> {
    feed: Vec<(&'a str, &'a str)>,
    feed_fields: Option<Fragment>,
    example: Code,
    types: Vec<EventType>,
}

impl EventsPage<'_> {
    #[expect(clippy::unused_self, reason = "templates call the method")]
    fn icon(&self, name: &str) -> Icon {
        crate::icons::icon(name)
    }
}

/// Renders the events of all jobs, which are also sent to webhooks, and the events of one job.
pub(super) fn events(writer: &mut Writer<'_>) -> askama::Result<Content> {
    let spec = writer.spec();
    let sent = spec.document.pointer("/webhooks/event/post/requestBody/content/application~1json/example");
    let sent = sent.map(|sent| serde_json::to_string_pretty(sent).unwrap_or_default());
    let mut sections = vec![section("feed", "Events of all jobs"), section("events-of-a-job", "Events of a job")];
    let mut types = Vec::new();
    for variant in spec.schema("Event")["oneOf"].as_array().into_iter().flatten() {
        let found = spec.resolve(variant);
        let kind = spec.resolve(&found["properties"]["type"]);
        let name = kind["enum"][0].as_str().or(kind["const"].as_str()).unwrap_or_default().to_owned();
        let id = name.replace(['.', '_'], "-");
        sections.push(Section { level: 3, id: id.clone(), title: name.clone() });
        let fields = schema::fields(writer, &found["properties"]["data"], &[])?;
        let example = serde_json::to_string_pretty(&schema::example(spec, found, 0)).unwrap_or_default();
        let example = writer.code(&format!("example-{id}"), "Example", "json", &example);
        types.push(EventType { id, name, text: writer.markdown(text(found, "description")), fields, example });
    }
    let page = EventsPage {
        feed: spec.values("ProjectEventType"),
        feed_fields: schema::fields(writer, spec.schema("ProjectEvent"), &[])?,
        example: writer.code("example-event", "A request to a webhook", "json", &sent.unwrap_or_default()),
        types,
    };
    Ok(Content { body: Fragment::of(&page)?, sections })
}

#[derive(Template)]
#[template(path = "docs_errors.html")]
struct ErrorsPage<'a> {
    /// The codes with their statuses and their meaning.
    codes: Vec<(&'a str, String, Markup)>,
    /// The statuses with their meaning, which is the same for all operations.
    statuses: Vec<(&'a str, Markup)>,
}

/// Renders the error codes and the statuses.
pub(super) fn errors(writer: &mut Writer<'_>) -> askama::Result<Content> {
    let spec = writer.spec();
    let mut statuses: Vec<(&str, &str)> = Vec::new();
    for operation in &spec.operations {
        for (status, response) in operation.value["responses"].as_object().into_iter().flatten() {
            if status.starts_with(['4', '5']) && statuses.iter().all(|(known, _)| known != status) {
                statuses.push((status.as_str(), text(response, "description")));
            }
        }
    }
    statuses.sort_unstable();
    let statuses = statuses.into_iter().map(|(status, text)| (status, writer.markdown(text))).collect();
    let codes = spec.values("ErrorCode").into_iter();
    let codes = codes.map(|(code, text)| (code, spec.statuses(code), writer.markdown(text))).collect();
    let sections = vec![section("statuses", "Statuses"), section("codes", "Codes")];
    Ok(Content { body: Fragment::of(&ErrorsPage { codes, statuses })?, sections })
}
