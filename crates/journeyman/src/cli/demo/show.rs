//! The output of the demo on stderr. With `--exit`, stdout gets only the final record.

use std::cell::Cell;
use std::io::{self, Write};

use serde_json::Value;

use super::super::job::plain;

/// Prints the demo as numbered steps.
pub(super) struct Printer {
    url: String,
    /// The command that starts this program in a shell.
    pub(super) program: String,
    steps: Cell<u32>,
}

impl Printer {
    pub(super) fn new(url: &str, program: String) -> Self {
        Self { url: url.to_owned(), program, steps: Cell::new(0) }
    }

    pub(super) fn line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "   {text}")
    }

    pub(super) fn step(&self, title: &str) -> io::Result<()> {
        self.steps.set(self.steps.get() + 1);
        writeln!(io::stderr(), "\n{}. {title}", self.steps.get())
    }

    pub(super) fn command(&self, command: &str) -> io::Result<()> {
        self.line(&format!("$ {command}"))
    }

    /// Prints a request as a curl command that works in a shell.
    pub(super) fn curl(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<()> {
        let key = "-H \"Authorization: Bearer $JOURNEYMAN_KEY\"";
        let url = format!("{}{path}", self.url);
        match body {
            None => self.command(&format!("curl -s '{url}' {key}")),
            Some(body) => {
                let kind = "-H 'Content-Type: application/json'";
                let quoted = body.to_string().replace('\'', "'\\''");
                self.command(&format!("curl -s -X {method} '{url}' {key} {kind} -d '{quoted}'"))
            }
        }
    }

    pub(super) fn document(&self, document: &Value) -> io::Result<()> {
        self.block(&serde_json::to_string_pretty(document).unwrap_or_default())
    }

    pub(super) fn block(&self, text: &str) -> io::Result<()> {
        plain(text).lines().try_for_each(|line| writeln!(io::stderr(), "     {line}"))
    }

    /// Prints commands to continue with.
    pub(super) fn onward(&self, url: &str, key: &str, job: &str) -> io::Result<()> {
        let program = &self.program;
        self.step("Next steps")?;
        self.line("The service runs until Ctrl-C. In another terminal:")?;
        self.command(&format!("export JOURNEYMAN_URL={url} JOURNEYMAN_PROJECT=demo JOURNEYMAN_KEY={key}"))?;
        self.command(&format!("{program} job send {job} 'Say goodbye [[append greet.sh|echo Goodbye]]' --watch"))?;
        self.line(&format!("With a real model and your own repository, on your own service ({program} serve):"))?;
        self.command(&format!("{program} project create mine --repository https://github.com/you/repository.git \\"))?;
        self.line("      --token-file TOKEN-FILE --model anthropic/claude-sonnet-4-5 --secret-file ANTHROPIC_API_KEY=KEY-FILE")?;
        self.command(&format!("{program} job create --project mine 'Add a test for the parser' --watch"))
    }
}
