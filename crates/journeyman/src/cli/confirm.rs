//! The confirmation of commands that delete or revoke something.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::bail;
use clap::Args;

use super::exit::usage;
use super::look::plain;

/// The option of a command that asks for confirmation.
#[derive(Debug, Args)]
pub(super) struct ConfirmArgs {
    /// Do not ask for confirmation; required if stdin is not a terminal
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Asks the user to type `name` to confirm `effect`, a sentence about what the command does. With `--yes`, asks
    /// nothing.
    ///
    /// # Errors
    /// Stdin is not a terminal, or the user typed something else.
    pub(super) fn confirm(&self, effect: &str, name: &str) -> anyhow::Result<()> {
        let input = std::io::stdin();
        let is_terminal = input.is_terminal();
        self.confirm_on(is_terminal, input.lock(), std::io::stderr(), (effect, name))
    }

    fn confirm_on(
        &self,
        is_terminal: bool,
        mut input: impl BufRead,
        mut output: impl Write,
        (effect, name): (&str, &str),
    ) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !is_terminal {
            return Err(usage(format!("{effect}: confirm with --yes, because stdin is not a terminal")));
        }
        write!(output, "{}.\nType {} to confirm: ", plain(effect), plain(name))?;
        output.flush()?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        if line.trim() != name {
            bail!("not confirmed, so nothing was changed");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::exit::{Exit, of_local};

    const EFFECT: &str = "This deletes the project shop";

    fn confirm(yes: bool, is_terminal: bool, typed: &str) -> (anyhow::Result<()>, String) {
        let mut asked = Vec::new();
        let result = ConfirmArgs { yes }.confirm_on(is_terminal, typed.as_bytes(), &mut asked, (EFFECT, "shop"));
        (result, String::from_utf8(asked).unwrap())
    }

    #[test]
    fn the_name_is_typed_to_confirm() {
        let (confirmed, asked) = confirm(false, true, "shop\n");
        confirmed.unwrap();
        assert_eq!(asked, "This deletes the project shop.\nType shop to confirm: ");
        for typed in ["y\n", "Shop\n", "\n", ""] {
            let error = confirm(false, true, typed).0.unwrap_err();
            assert_eq!((of_local(&error), error.to_string().contains("nothing was changed")), (Exit::Failed, true));
        }
    }

    #[test]
    fn without_a_terminal_the_option_is_required() {
        let (refused, asked) = confirm(false, false, "shop\n");
        let error = refused.unwrap_err();
        assert_eq!((of_local(&error), asked.as_str()), (Exit::Usage, ""));
        assert!(error.to_string().contains("--yes") && error.to_string().contains(EFFECT), "{error}");
    }

    #[test]
    fn with_the_option_nothing_is_asked() {
        for is_terminal in [false, true] {
            let (confirmed, asked) = confirm(true, is_terminal, "");
            assert_eq!((confirmed.is_ok(), asked.as_str()), (true, ""));
        }
    }
}
