//! The number of added and removed lines, as pages show it.

use std::fmt;

use askama::filters::HtmlSafe;

/// The number of added and removed lines. A zero is not shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChangedLines {
    /// The number of added lines.
    pub(crate) added: usize,
    /// The number of removed lines.
    pub(crate) removed: usize,
}

impl ChangedLines {
    /// Returns the size as plain text, such as `+145 −18`; empty if nothing changed.
    pub(crate) fn text(self) -> String {
        match (self.added, self.removed) {
            (0, 0) => String::new(),
            (added, 0) => format!("+{added}"),
            (0, removed) => format!("−{removed}"),
            (added, removed) => format!("+{added} −{removed}"),
        }
    }
}

impl fmt::Display for ChangedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, removed } = *self;
        if added > 0 {
            write!(f, "<span class=\"plus\">+{added}</span>")?;
        }
        if added > 0 && removed > 0 {
            f.write_str(" ")?;
        }
        if removed > 0 {
            write!(f, "<span class=\"minus\">−{removed}</span>")?;
        }
        Ok(())
    }
}

/// Safe because the markup has only numbers and fixed text.
impl HtmlSafe for ChangedLines {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_is_left_out() {
        for (added, removed, text, markup) in [
            (1, 2, "+1 −2", "<span class=\"plus\">+1</span> <span class=\"minus\">−2</span>"),
            (1, 0, "+1", "<span class=\"plus\">+1</span>"),
            (0, 2, "−2", "<span class=\"minus\">−2</span>"),
            (0, 0, "", ""),
        ] {
            let size = ChangedLines { added, removed };
            assert_eq!((size.text().as_str(), size.to_string().as_str()), (text, markup));
        }
    }
}
