//! Tables of text.

/// Returns the lines of a table, with each column as wide as its widest cell.
pub(super) fn table<const COLUMNS: usize>(head: [&str; COLUMNS], rows: Vec<[String; COLUMNS]>) -> Vec<String> {
    let all: Vec<[String; COLUMNS]> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let widths: Vec<usize> =
        (0..COLUMNS).map(|column| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; COLUMNS]| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let lines = table(["A", "B"], vec![["long".into(), "x".into()], ["s".into(), "ä".into()]]);
        assert_eq!(lines, ["A     B", "long  x", "s     ä"]);
    }
}
