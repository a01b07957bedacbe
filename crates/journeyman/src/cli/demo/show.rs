//! The output of the demo on stderr. With `--exit`, stdout gets only the final record.

use std::cell::Cell;
use std::io::{self, Write};

use serde_json::Value;

use crate::cli::look::plain;
use crate::cli::paint::Paint;

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
        self.line(&format!("$ {command}"))
    }

    /// Prints a request as a curl command that works in a shell.
    pub(super) fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<()> {
        let key = "-H \"Authorization: Bearer $JOURNEYMAN_KEY\"";
        let url = format!("{}{path}", self.url);
        let command = match body {
            None => format!("curl -s '{url}' {key}"),
            Some(body) => {
                let kind = "-H 'Content-Type: application/json'";
                let quoted = body.to_string().replace('\'', "'\\''");
                format!("curl -s -X {method} '{url}' {key} {kind} -d '{quoted}'")
            }
        };
        self.line(&self.paint.dim(&format!("$ {command}")))
    }

    /// Prints the fields of a response that matter here.
    pub(super) fn document(&self, document: &Value, fields: &[&str]) -> io::Result<()> {
        self.line(&trimmed(self.paint, document, fields))
    }

    /// Prints the lines of a transcript.
    pub(super) fn lines(&self, lines: &[String]) -> io::Result<()> {
        lines.iter().try_for_each(|line| writeln!(io::stderr(), "     {line}"))
    }

    /// Prints a diff.
    pub(super) fn diff(&self, diff: &str) -> io::Result<()> {
        self.paint.diff(&plain(diff)).lines().try_for_each(|line| writeln!(io::stderr(), "     {line}"))
    }

    /// Prints commands to continue with.
    pub(super) fn onward(&self, url: &str, key: &str, job: &str) -> io::Result<()> {
        let program = &self.program;
        self.step("Next steps")?;
        self.line("The service runs until Ctrl-C. In another terminal, in the same folder:")?;
        self.command(&format!("export JOURNEYMAN_URL={url} JOURNEYMAN_PROJECT=demo JOURNEYMAN_KEY={key}"))?;
        self.command(&format!("{program} job send {job} 'Say goodbye [[append greet.sh|echo Goodbye]]' --watch"))?;
        self.command(&format!("{program} job merge {job}"))?;
        self.line(&format!("With a real model and your own repository, on your own service ({program} serve):"))?;
        self.command(&format!(
            "{program} project create mine --local --repository https://github.com/you/repository.git \\"
        ))?;
        self.line("      --token-file TOKEN-FILE --model anthropic/claude-sonnet-4-5 --secret-file ANTHROPIC_API_KEY=KEY-FILE")?;
        self.command(&format!("{program} job create --project mine 'Add a test for the parser' --watch"))
    }
}

/// Formats fields of a document as JSON; an ellipsis stands for the others.
fn trimmed(paint: Paint, document: &Value, fields: &[&str]) -> String {
    let field = |name: &&str| format!("\"{name}\": {}", plain(&document[*name].to_string()));
    let shown = fields.iter().map(field).collect::<Vec<_>>().join(", ");
    let has_more = document.as_object().is_some_and(|all| all.len() > fields.len());
    let more = if has_more { paint.dim(", …") } else { String::new() };
    format!("{{{shown}{more}}}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_trimmed_to_what_matters() {
        let document = json!({"id": "job_1", "status": "active", "prLink": null, "model": "m"});
        assert_eq!(trimmed(Paint::OFF, &document, &["id", "prLink"]), r#"{"id": "job_1", "prLink": null, …}"#);
        assert_eq!(trimmed(Paint::OFF, &json!({"id": 1}), &["id"]), r#"{"id": 1}"#);
        let painted = trimmed(Paint::ON, &document, &["id"]);
        assert_eq!(painted, "{\"id\": \"job_1\"\u{1b}[2m, …\u{1b}[0m}");
    }
}
