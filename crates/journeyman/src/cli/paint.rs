//! Colors of the output for people.

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use unicode_width::UnicodeWidthStr;

/// The choice of whether the output has colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// If the output is a terminal, unless `NO_COLOR` is set, and always if `CLICOLOR_FORCE` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Adds colors to texts, or returns them as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paint {
    is_on: bool,
}

impl Paint {
    /// The paint that adds no colors.
    #[cfg(test)]
    pub(super) const OFF: Self = Self { is_on: false };

    /// The paint that adds colors.
    #[cfg(test)]
    pub(super) const ON: Self = Self { is_on: true };

    /// Returns the paint for stdout.
    pub(super) fn for_stdout(when: ColorWhen) -> Self {
        Self::of(when, &std::io::stdout())
    }

    /// Returns the paint for stderr.
    pub(super) fn for_stderr(when: ColorWhen) -> Self {
        Self::of(when, &std::io::stderr())
    }

    fn of<S: RawStream>(when: ColorWhen, stream: &S) -> Self {
        let is_on = match when {
            ColorWhen::Auto => AutoStream::choice(stream) != ColorChoice::Never,
            ColorWhen::Always => true,
            ColorWhen::Never => false,
        };
        Self { is_on }
    }

    /// Returns whether the paint adds colors.
    pub(super) fn is_on(self) -> bool {
        self.is_on
    }

    fn add(self, style: Style, text: &str) -> String {
        if self.is_on && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn color(self, color: AnsiColor, text: &str) -> String {
        self.add(color.on_default(), text)
    }

    /// Formats a heading.
    pub(super) fn heading(self, text: &str) -> String {
        self.add(Style::new().bold(), text)
    }

    /// Formats a text that matters less than the others.
    pub(super) fn dim(self, text: &str) -> String {
        self.add(Style::new().dimmed(), text)
    }

    /// Formats a success, or an added line.
    pub(super) fn good(self, text: &str) -> String {
        self.color(AnsiColor::Green, text)
    }

    /// Formats something that is under way, or needs attention.
    pub(super) fn warn(self, text: &str) -> String {
        self.color(AnsiColor::Yellow, text)
    }

    /// Formats a failure, or a removed line.
    pub(super) fn bad(self, text: &str) -> String {
        self.color(AnsiColor::Red, text)
    }

    /// Formats a link, or the position of a change.
    pub(super) fn link(self, text: &str) -> String {
        self.color(AnsiColor::Cyan, text)
    }

    /// Formats the status of a job, a message, a run or a pull request.
    pub(super) fn status(self, status: &str) -> String {
        match status {
            "completed" | "finished" | "succeeded" | "merged" => self.good(status),
            "active" | "running" | "queued" | "delivered" | "open" | "waiting" => self.warn(status),
            "failed" | "cancelled" | "timed_out" => self.bad(status),
            "archived" | "closed" | "withdrawn" => self.dim(status),
            _ => status.to_owned(),
        }
    }

    /// Formats a unified diff. Lines keep their texts.
    pub(super) fn diff(self, diff: &str) -> String {
        if !self.is_on {
            return diff.to_owned();
        }
        diff.split_inclusive('\n')
            .map(|line| {
                let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
                format!("{}{end}", self.diff_line(text))
            })
            .collect()
    }

    fn diff_line(self, line: &str) -> String {
        const HEADS: [&str; 5] = ["diff --git ", "index ", "--- ", "+++ ", "new file mode "];
        if HEADS.iter().any(|head| line.starts_with(head)) {
            return self.heading(line);
        }
        match line.chars().next() {
            Some('+') => self.good(line),
            Some('-') => self.bad(line),
            Some('@') => self.link(line),
            _ => line.to_owned(),
        }
    }
}

/// Returns the number of columns that a text takes on a terminal, without the sequences that [`Paint`] adds.
pub(super) fn width(text: &str) -> usize {
    let mut is_in_sequence = false;
    let is_shown = |c: &char| {
        let is_part = is_in_sequence || *c == '\u{1b}';
        is_in_sequence = is_part && *c != 'm';
        !is_part
    };
    let shown: String = text.chars().filter(is_shown).collect();
    UnicodeWidthStr::width(shown.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_colors_only_if_they_are_on() {
        assert_eq!(Paint::OFF.bad("x"), "x");
        assert_eq!(Paint::ON.bad("x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Paint::ON.dim(""), "", "nothing is wrapped around nothing");
        for (status, color) in [("completed", "32"), ("active", "33"), ("failed", "31")] {
            assert_eq!(Paint::ON.status(status), format!("\u{1b}[{color}m{status}\u{1b}[0m"));
            assert_eq!(Paint::OFF.status(status), status);
        }
        assert_eq!(Paint::ON.status("of_a_later_version"), "of_a_later_version");
    }

    #[test]
    fn a_diff_has_colors_and_keeps_its_lines() {
        let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n c";
        assert_eq!(Paint::OFF.diff(diff), diff);
        let painted = Paint::ON.diff(diff);
        assert!(painted.contains("\u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n c"), "{painted:?}");
        assert!(painted.starts_with("\u{1b}[1m--- a/x\u{1b}[0m\n"), "{painted:?}");
    }

    #[test]
    fn the_width_of_a_text_is_that_without_colors() {
        assert_eq!(width(&Paint::ON.good("äbc")), 3);
        assert_eq!(width("m[31m"), 5);
    }

    #[test]
    fn the_width_of_a_text_is_that_on_a_terminal() {
        for (text, columns) in [("日本", 4), ("e\u{301}", 1), ("🙂", 2), ("", 0)] {
            assert_eq!(width(text), columns, "{text}");
        }
    }

    #[test]
    fn a_choice_on_the_command_line_decides() {
        assert_eq!(Paint::for_stdout(ColorWhen::Always), Paint::ON);
        assert_eq!(Paint::for_stderr(ColorWhen::Never), Paint::OFF);
    }
}
