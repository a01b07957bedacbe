//! The terminal that shows the output.

use std::io::IsTerminal;

use rustix::termios::tcgetwinsize;

use crate::config::client_environment;

/// Returns the number of columns of the terminal: `COLUMNS`, or else that of the window. Returns `None` if stdout is not
/// a terminal, or if the number is not known.
pub(super) fn columns() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let window = || tcgetwinsize(&out).ok().map(|size| usize::from(size.ws_col));
    chosen(client_environment().columns, window)
}

/// Returns the number of columns of the variable, or else of the window. 0 means that the number is not known.
fn chosen(variable: Option<usize>, window: impl FnOnce() -> Option<usize>) -> Option<usize> {
    variable.filter(|columns| *columns > 0).or_else(window).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_comes_before_the_window() {
        for (variable, window, expected) in [
            (Some(60), Some(80), Some(60)),
            (None, Some(80), Some(80)),
            (Some(0), Some(80), Some(80)),
            (None, Some(0), None),
            (None, None, None),
        ] {
            assert_eq!(chosen(variable, || window), expected, "{variable:?} {window:?}");
        }
    }
}
