//! The output of the demo on stderr. With `--exit`, stdout gets only the final record.

use std::cell::Cell;
use std::io::{self, Write};

use serde_json::Value;

use crate::cli::look::plain;
use crate::cli::paint::{Paint, width};

/// Prints the demo as numbered steps.
pub(super) struct Printer {
    url: String,
    /// The command that starts this program in a shell.
    pub(super) program: String,
    pub(super) paint: Paint,
    steps: Cell<u32>,
}

impl Printer {
    pub(super) fn new(url: &str, program: String, paint: Paint) -> Self {
        Self { url: url.to_owned(), program, paint, steps: Cell::new(0) }
    }

    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "   {text}")
    }

    pub(super) fn step(&self, title: &str) -> io::Result<()> {
        self.steps.set(self.steps.get() + 1);
        writeln!(io::stderr(), "\n{}", self.paint.heading(&format!("{}. {title}", self.steps.get())))
    }

    /// Prints a command that people can type.
    pub(super) fn command(&self, command: &str) -> io::Result<()> {
        self.commands(&[command])
    }

    /// Prints a command that people can paste, on several lines.
    pub(super) fn commands(&self, parts: &[&str]) -> io::Result<()> {
        continued(parts).iter().try_for_each(|line| self.line(line))
    }

    /// Prints a request as a curl command that works in a shell.
    pub(super) fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<()> {
        let parts = request(method, &format!("{}{path}", self.url), body);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        continued(&parts).iter().try_for_each(|line| self.line(&self.paint.dim(line)))
    }

    /// Prints the fields of a response that matter here.
    pub(super) fn document(&self, document: &Value, fields: &[&str]) -> io::Result<()> {
        trimmed(self.paint, document, fields).iter().try_for_each(|line| self.line(line))
    }

    /// Prints the lines of a transcript.
    pub(super) fn lines(&self, lines: &[String]) -> io::Result<()> {
        lines.iter().try_for_each(|line| writeln!(io::stderr(), "     {line}"))
    }

    /// Prints a diff.
    pub(super) fn diff(&self, diff: &str) -> io::Result<()> {
        self.paint.diff(&plain(diff)).lines().try_for_each(|line| writeln!(io::stderr(), "     {line}"))
    }

    /// Prints the commands for the next steps: first on the server of the demo, then on another one.
    pub(super) fn next_steps(&self, key: &str, job: &str) -> io::Result<()> {
        let (program, url) = (&self.program, &self.url);
        self.step(&format!("Continue with the demo's server ({url})"))?;
        self.line("It runs until Ctrl-C. In another terminal, in the same folder:")?;
        self.command(&format!("export JOURNEYMAN_URL={url} JOURNEYMAN_PROJECT=demo"))?;
        self.command(&format!("export JOURNEYMAN_KEY={key}"))?;
        self.commands(&[&format!("{program} job send {job}"), "'Say goodbye [[append hi.sh|echo Goodbye]]' --watch"])?;
        self.command(&format!("{program} job merge {job}"))?;
        self.step("Your own server, with a real model and your repository")?;
        self.line("End the demo with Ctrl-C, and start a server, which keeps its data:")?;
        self.command(&format!("{program} serve"))?;
        self.line("In a new terminal, without the variables above:")?;
        self.commands(&[
            &format!("{program} project create mine --local"),
            "--repository https://github.com/you/repository.git --token-file TOKEN-FILE",
            "--model anthropic/claude-sonnet-5-5 --secret-file ANTHROPIC_API_KEY=KEY-FILE",
        ])?;
        self.command(&format!("export JOURNEYMAN_KEY=$({program} key create --local --name me)"))?;
        self.command(&format!("{program} job create --project mine 'Add a test for the parser' --watch"))
    }
}

/// Returns the parts of a curl command, one option each.
fn request(method: &str, url: &str, body: Option<&Value>) -> Vec<String> {
    let key = "-H \"Authorization: Bearer $JOURNEYMAN_KEY\"".to_owned();
    let url = format!("'{url}'");
    match body {
        None => vec!["curl -s".to_owned(), url, key],
        Some(body) => {
            let quoted = body.to_string().replace('\'', "'\\''");
            let kind = "-H 'Content-Type: application/json'".to_owned();
            vec![format!("curl -s -X {method}"), url, key, kind, format!("-d '{quoted}'")]
        }
    }
}

/// Returns the lines of a command with these parts: each but the last ends with a backslash.
fn continued(parts: &[&str]) -> Vec<String> {
    let line = |(index, part): (usize, &&str)| {
        let begin = if index == 0 { "$ " } else { "    " };
        let end = if index + 1 < parts.len() { " \\" } else { "" };
        format!("{begin}{part}{end}")
    };
    parts.iter().enumerate().map(line).collect()
}

/// The maximum width of a line with fields of a document.
const WIDTH: usize = 96;

/// Formats fields of a document as lines of JSON, without those that are null; an ellipsis stands for the others.
fn trimmed(paint: Paint, document: &Value, fields: &[&str]) -> Vec<String> {
    let named = fields.iter().filter(|name| !document[**name].is_null());
    let shown: Vec<String> = named.map(|name| format!("\"{name}\": {}", plain(&document[*name].to_string()))).collect();
    let has_more = document.as_object().is_some_and(|all| all.len() > shown.len());
    let (mut lines, mut line) = (Vec::new(), "{".to_owned());
    for (index, field) in shown.iter().enumerate() {
        if index > 0 {
            line.push(',');
            if width(&line) + width(field) > WIDTH {
                lines.push(std::mem::take(&mut line));
            }
            line.push(' ');
        }
        line.push_str(field);
    }
    if has_more {
        line.push_str(&paint.dim(", …"));
    }
    line.push('}');
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_trimmed_to_what_matters() {
        let document = json!({"id": "job_1", "status": "active", "prLink": null, "model": "m"});
        assert_eq!(trimmed(Paint::OFF, &document, &["id", "prLink", "model"]), [r#"{"id": "job_1", "model": "m", …}"#]);
        assert_eq!(trimmed(Paint::OFF, &json!({"id": 1}), &["id"]), [r#"{"id": 1}"#]);
        let painted = trimmed(Paint::ON, &document, &["id"]);
        assert_eq!(painted, ["{\"id\": \"job_1\"\u{1b}[2m, …\u{1b}[0m}"]);
        let long = "x".repeat(WIDTH);
        let lines = trimmed(Paint::OFF, &json!({"a": 1, "b": long, "c": 2}), &["a", "b", "c"]);
        assert_eq!(lines, ["{\"a\": 1,".to_owned(), format!(" \"b\": \"{long}\","), " \"c\": 2}".to_owned()]);
    }

    #[test]
    fn a_request_is_a_command_on_several_lines() {
        let body = json!({"prompt": "It's"});
        let parts = request("POST", "http://h/x", Some(&body));
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let lines = [
            "$ curl -s -X POST \\",
            "    'http://h/x' \\",
            "    -H \"Authorization: Bearer $JOURNEYMAN_KEY\" \\",
            "    -H 'Content-Type: application/json' \\",
            "    -d '{\"prompt\":\"It'\\''s\"}'",
        ];
        assert_eq!(continued(&parts), lines);
        assert_eq!(request("GET", "http://h/x", None)[..2], ["curl -s", "'http://h/x'"]);
        assert_eq!(continued(&["job list"]), ["$ job list"]);
    }
}
