//! The text of a prompt, and the title that is made of it.

/// Returns a title for a prompt: its first line that is not blank, at most 120 characters.
#[must_use]
pub fn title_of(prompt: &str) -> String {
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Job");
    let mut title: String = line.chars().take(120).collect();
    if line.chars().nth(120).is_some() {
        title.pop();
        title.push('…');
    }
    title
}

/// The maximum length of a prompt, in characters.
pub const MAX_PROMPT_CHARS: usize = 100_000;

/// An error in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrompt {
    /// The prompt is empty.
    #[error("prompt must have at least 1 character")]
    Empty,
    /// The prompt has more than [`MAX_PROMPT_CHARS`] characters.
    #[error("prompt has {0} characters; the maximum is {MAX_PROMPT_CHARS}")]
    TooLong(usize),
    /// The prompt has a NUL character, which PostgreSQL cannot store in text and which has no use in a prompt.
    #[error("prompt must not contain the NUL character")]
    Nul,
}

/// Checks the length of a prompt, and that it has no NUL character.
///
/// # Errors
/// Returns an error if the prompt is not valid.
pub fn check_prompt(prompt: &str) -> Result<(), InvalidPrompt> {
    if prompt.is_empty() {
        return Err(InvalidPrompt::Empty);
    }
    if prompt.contains('\0') {
        return Err(InvalidPrompt::Nul);
    }
    // A prompt has at most as many characters as bytes, so most prompts need not be counted.
    if prompt.len() > MAX_PROMPT_CHARS {
        let chars = prompt.chars().count();
        if chars > MAX_PROMPT_CHARS {
            return Err(InvalidPrompt::TooLong(chars));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_measured_in_characters() {
        assert_eq!(check_prompt("x"), Ok(()));
        assert_eq!(check_prompt(" "), Ok(()));
        assert_eq!(check_prompt(""), Err(InvalidPrompt::Empty));
        assert_eq!(check_prompt("a\0b"), Err(InvalidPrompt::Nul));
        assert_eq!(check_prompt(&"ä".repeat(MAX_PROMPT_CHARS)), Ok(()));
        assert_eq!(check_prompt(&"ä".repeat(MAX_PROMPT_CHARS + 1)), Err(InvalidPrompt::TooLong(MAX_PROMPT_CHARS + 1)));
    }
}
