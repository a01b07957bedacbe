//! Prompts on the command line or on stdin.

use std::io::Read;

/// Returns the prompt, or reads it from stdin if the argument is `-`.
pub(super) fn prompt(argument: String) -> std::io::Result<String> {
    if argument != "-" {
        return Ok(argument);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}
