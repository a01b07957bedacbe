//! Tables of text.

use super::paint::{Paint, width};

/// Returns the lines of a table, with each column as wide as its widest cell.
pub(super) fn table<const COLUMNS: usize>(head: [&str; COLUMNS], rows: Vec<[String; COLUMNS]>) -> Vec<String> {
    let all: Vec<[String; COLUMNS]> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let widths: Vec<usize> =
        (0..COLUMNS).map(|column| all.iter().map(|row| width(&row[column])).max().unwrap_or(0)).collect();
    let line = |row: &[String; COLUMNS]| {
        let padded = row.iter().zip(&widths).map(|(cell, most)| format!("{cell}{}", " ".repeat(most - width(cell))));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

/// Like [`table`], with a head in the style of headings.
pub(super) fn headed<const COLUMNS: usize>(
    paint: Paint,
    head: [&str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
) -> Vec<String> {
    let head = head.map(|title| paint.heading(title));
    table(head.each_ref().map(String::as_str), rows)
}

/// Returns the lines of a table, or `none`, a sentence, if the table has only a head.
pub(super) fn listed(table: Vec<String>, none: &str) -> Vec<String> {
    if table.len() > 1 { table } else { vec![none.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table(["A", "B"], vec![["long".into(), "x".into()], ["s".into(), "ä".into()]]);
        assert_eq!(lines, ["A     B", "long  x", "s     ä"]);
    }

    #[test]
    fn an_empty_table_is_a_sentence() {
        let rows = vec![["1".to_owned()], ["2".to_owned()]];
        assert_eq!(listed(table(["A"], rows), "No rows."), ["A", "1", "2"]);
        assert_eq!(listed(table(["A"], Vec::new()), "No rows."), ["No rows."]);
    }

    #[test]
    fn colors_do_not_make_a_column_wider() {
        let lines = headed(Paint::ON, ["A", "B"], vec![[Paint::ON.good("long"), "x".into()], ["s".into(), "y".into()]]);
        assert_eq!(lines[1..], ["\u{1b}[32mlong\u{1b}[0m  x", "s     y"]);
        let plain = headed(Paint::OFF, ["A", "B"], vec![["long".into(), "x".into()]]);
        assert_eq!(plain, ["A     B", "long  x"]);
    }
}
