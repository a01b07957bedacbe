//! Tables of text.

use super::look::Look;
use super::paint::width;
use super::words::short;

/// The space between two columns.
const GAP: usize = 2;

/// The width to which texts are shortened before a table leaves out columns.
const READABLE: usize = 24;

/// The width to which texts are shortened if no more columns can be left out.
const LEAST: usize = 8;

/// A column of a table, with its title.
#[derive(Debug, Clone, Copy)]
pub(super) enum Column {
    /// A column whose cells are always shown whole, such as an ID or a URL.
    Whole(&'static str),
    /// A column with texts, which are shortened to fit the terminal.
    Text(&'static str),
    /// A column that a table leaves out if the terminal is too narrow.
    Extra(&'static str),
}

impl Column {
    const fn title(self) -> &'static str {
        match self {
            Self::Whole(title) | Self::Text(title) | Self::Extra(title) => title,
        }
    }
}

/// Returns the lines of a table, with each column as wide as its widest cell.
pub(super) fn table<const COLUMNS: usize>(head: [&str; COLUMNS], rows: Vec<[String; COLUMNS]>) -> Vec<String> {
    let all = with_head(head.map(str::to_owned), rows);
    lines(&all, widths(&all).map(Some))
}

/// Returns the lines of a table, with a head in the style of headings. On a terminal, the table fits its width if that is
/// possible; elsewhere, all cells are whole.
pub(super) fn headed<const COLUMNS: usize>(
    look: Look,
    head: [Column; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
) -> Vec<String> {
    let all = with_head(head.map(|column| look.paint.heading(column.title())), rows);
    let natural = widths(&all);
    lines(&all, look.columns.map_or(natural.map(Some), |most| fitted(head, natural, most)))
}

/// Returns the lines of a table, or `none`, a sentence, if the table has only a head.
pub(super) fn listed(table: Vec<String>, none: &str) -> Vec<String> {
    if table.len() > 1 { table } else { vec![none.to_owned()] }
}

fn with_head<const COLUMNS: usize>(head: [String; COLUMNS], rows: Vec<[String; COLUMNS]>) -> Vec<[String; COLUMNS]> {
    [head].into_iter().chain(rows).collect()
}

fn widths<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> [usize; COLUMNS] {
    std::array::from_fn(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0))
}

/// Returns lines with the columns that have a width. Longer cells are shortened.
fn lines<const COLUMNS: usize>(rows: &[[String; COLUMNS]], widths: [Option<usize>; COLUMNS]) -> Vec<String> {
    let padded = |(cell, most): (&String, &Option<usize>)| {
        let cell = short(cell, (*most)?);
        let space = most.unwrap_or(0).saturating_sub(width(&cell));
        Some(format!("{cell}{}", " ".repeat(space)))
    };
    let line = |row: &[String; COLUMNS]| {
        let cells: Vec<String> = row.iter().zip(&widths).filter_map(padded).collect();
        cells.join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Returns the widths of the columns in a terminal with `most` columns: shortens the widest texts, then leaves out the
/// extra columns one after the other, then shortens the texts further.
fn fitted<const COLUMNS: usize>(
    head: [Column; COLUMNS],
    natural: [usize; COLUMNS],
    most: usize,
) -> [Option<usize>; COLUMNS] {
    let mut kept = natural.map(Some);
    loop {
        let readable = shortened(head, kept, most, READABLE);
        if total(&readable) <= most {
            return readable;
        }
        let is_left = |index: &usize| matches!(head[*index], Column::Extra(_)) && kept[*index].is_some();
        match (0..COLUMNS).find(is_left) {
            Some(extra) => kept[extra] = None,
            None => return shortened(head, kept, most, LEAST),
        }
    }
}

/// Shortens the widest texts, one column at a time, until the line fits or all of them have the width `least`.
fn shortened<const COLUMNS: usize>(
    head: [Column; COLUMNS],
    mut widths: [Option<usize>; COLUMNS],
    most: usize,
    least: usize,
) -> [Option<usize>; COLUMNS] {
    let is_long = |index: usize, now: usize| {
        matches!(head[index], Column::Text(_)) && now > least && now > width(head[index].title())
    };
    while total(&widths) > most {
        let texts = widths.iter().enumerate().filter_map(|(index, now)| now.map(|now| (now, index)));
        let Some((now, widest)) = texts.filter(|(now, index)| is_long(*index, *now)).max() else { break };
        // A text that alone is wider than the terminal, such as a prompt, is shortened at once.
        widths[widest] = Some((now - 1).min(most.max(least)));
    }
    widths
}

/// Returns the width of a line.
fn total(widths: &[Option<usize>]) -> usize {
    let count = widths.iter().flatten().count();
    widths.iter().flatten().sum::<usize>() + GAP * count.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use journeyman_core::time::Timestamp;

    use super::Column::{Extra, Text, Whole};
    use super::*;
    use crate::cli::paint::Paint;

    const LOOK: Look = Look { paint: Paint::OFF, now: Timestamp::from_micros(0), columns: None };

    fn narrow(columns: usize) -> Look {
        Look { columns: Some(columns), ..LOOK }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table(["A", "B"], vec![["long".into(), "x".into()], ["s".into(), "ä".into()]]);
        assert_eq!(lines, ["A     B", "long  x", "s     ä"]);
        let wide = table(["A", "B"], vec![["日本".into(), "x".into()], ["s".into(), "y".into()]]);
        assert_eq!(wide, ["A     B", "日本  x", "s     y"]);
    }

    #[test]
    fn an_empty_table_is_a_sentence() {
        let rows = vec![["1".to_owned()], ["2".to_owned()]];
        assert_eq!(listed(table(["A"], rows), "No rows."), ["A", "1", "2"]);
        assert_eq!(listed(table(["A"], Vec::new()), "No rows."), ["No rows."]);
    }

    #[test]
    fn colors_do_not_make_a_column_wider() {
        let painted = Look { paint: Paint::ON, ..LOOK };
        let head = [Whole("A"), Whole("B")];
        let lines = headed(painted, head, vec![[Paint::ON.good("long"), "x".into()], ["s".into(), "y".into()]]);
        assert_eq!(lines[1..], ["\u{1b}[32mlong\u{1b}[0m  x", "s     y"]);
        let plain = headed(LOOK, head, vec![["long".into(), "x".into()]]);
        assert_eq!(plain, ["A     B", "long  x"]);
    }

    #[test]
    fn texts_are_shortened_to_the_width_of_the_terminal() {
        let title = "A title that has more than thirty columns".to_owned();
        let lines = |look| headed(look, [Whole("ID"), Text("TITLE"), Whole("STATUS")], vec![row(&title)]);
        assert!(lines(LOOK)[1].contains(&title), "a pipe gets whole texts");
        let lines = lines(narrow(40));
        assert_eq!(lines[1], "job_1  A title that has more th…  active");
        assert!(lines.iter().all(|line| width(line) <= 40), "{lines:#?}");
    }

    fn row(title: &str) -> [String; 3] {
        ["job_1".to_owned(), title.to_owned(), "active".to_owned()]
    }

    #[test]
    fn a_text_with_wide_characters_is_shortened_by_its_width() {
        let lines = headed(narrow(30), [Whole("ID"), Text("TITLE"), Whole("STATUS")], vec![row(&"日本".repeat(20))]);
        assert_eq!(lines[1], "job_1  日本日本日本日…  active");
    }

    #[test]
    fn a_table_that_fits_is_not_changed() {
        let rows = || vec![row("A title")];
        let head = [Whole("ID"), Text("TITLE"), Extra("STATUS")];
        assert_eq!(headed(narrow(80), head, rows()), headed(LOOK, head, rows()));
    }

    #[test]
    fn a_narrow_terminal_leaves_out_extra_columns_before_texts_become_short() {
        let head = [Whole("ID"), Text("TITLE"), Extra("MODEL"), Extra("CREATED")];
        let lines = |columns| {
            let row = ["job_1", "A title that has more than thirty columns", "vendor/model", "now"];
            headed(narrow(columns), head, vec![row.map(str::to_owned)])
        };
        assert!(lines(60)[1].ends_with("…  vendor/model  now"), "{:?}", lines(60));
        assert_eq!(lines(40), ["ID     TITLE                     CREATED", "job_1  A title that has more t…  now"]);
        assert_eq!(lines(35)[0].split_whitespace().collect::<Vec<_>>(), ["ID", "TITLE"]);
        assert_eq!(lines(20)[1], "job_1  A title that…");
        assert_eq!(lines(5)[1], "job_1  A title…", "a line that cannot fit keeps a readable rest");
    }
}
