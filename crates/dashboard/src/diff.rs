//! Parsing and display of git's diffs.
//!
//! Invariant: within a hunk, the counts in the hunk's header determine which lines belong to it. A removed line
//! `-- a/x` looks like the header of a file, but is not one.

mod appearance;
mod blocks;
mod compare;
mod file;
mod gaps;
mod line_key;
mod lines;
mod links;
mod nav;
mod parse;
mod pieces;
mod shown;
#[cfg(test)]
mod tests;
mod tree;
mod whitespace;
mod words;

pub(crate) use self::appearance::{Appearance, DiffView};
pub(crate) use self::file::{Change, FileDiff, Line, LineClass};
pub(crate) use self::gaps::Gap;
pub(crate) use self::line_key::LineKey;
pub(crate) use self::lines::{Outline, PageLine, position_of};
pub(crate) use self::nav::{Choice, Nav};
use self::parse::parse;
pub(crate) use self::pieces::{Piece, of_lines};
pub(crate) use self::shown::DiffShown;
pub(crate) use self::tree::Step;
