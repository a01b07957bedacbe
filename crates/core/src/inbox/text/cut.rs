//! Cuts texts to a length, and says so.

/// Returns the first `chars` characters of a text, and a note; `None` if the text is not longer. A block of code that
/// the cut leaves open is closed, so that what follows is not code.
pub(super) fn beginning(text: &str, chars: usize, url: &str) -> Option<(String, String)> {
    // The text may have been cut before: a host's event has a limit too. So the note does not say how long it was.
    text.chars().nth(chars)?;
    let mut kept: String = text.chars().take(chars).collect();
    if let Some(fence) = open_fence(&kept) {
        kept.push_str(&format!("\n{fence}"));
    }
    Some((kept, format!("The service cut this text after {chars} characters. All of it: {url}")))
}

/// Returns the last lines of a text with at most `chars` characters, and a note; `None` if the text is not longer.
pub(super) fn end(text: &str, chars: usize) -> Option<(String, String)> {
    let count = text.chars().count();
    if count <= chars {
        return None;
    }
    let start = text.char_indices().nth(count - chars).map_or(text.len(), |(at, _)| at);
    // A part of a line would be read as a whole one, unless there is only one.
    let start = match text[start..].find('\n') {
        Some(newline) if !text[..start].ends_with('\n') => start + newline + 1,
        _ => start,
    };
    let left_out = text[..start].chars().count();
    Some((text[start..].to_owned(), format!("The service left out the first {left_out} of {count} characters of it.")))
}

/// Returns the fence of a block of code at the end of a text that is not closed. A fence in a list or a quote needs
/// none: the end of the list or the quote closes it.
fn open_fence(text: &str) -> Option<String> {
    let start = super::code(text).into_iter().next_back().filter(|range| range.end >= text.trim_end().len())?.start;
    let fence = text[start..].chars().next().filter(|c| *c == '`' || *c == '~')?;
    let length = text[start..].chars().take_while(|c| *c == fence).count();
    let is_fence = |line: &str, length: usize| {
        let line = line.trim();
        line.len() >= length && line.chars().all(|c| c == fence)
    };
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let is_outermost = text[line..start].trim().is_empty() && length >= 3;
    let is_closed = text[start..].lines().skip(1).last().is_some_and(|last| is_fence(last, length));
    (is_outermost && !is_closed).then(|| fence.to_string().repeat(length))
}
