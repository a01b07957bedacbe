//! Tables as CSV (RFC 4180).

use crate::Error;

/// Returns a writer of a table without a line of column names.
pub(crate) fn writer() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().has_headers(false).terminator(csv::Terminator::CRLF).from_writer(Vec::new())
}

/// Returns the lines that were written.
pub(crate) fn finished(table: csv::Writer<Vec<u8>>) -> Result<Vec<u8>, Error> {
    table.into_inner().map_err(|error| Error::Internal(format!("a table could not be written: {error}")))
}

/// Converts an error of the writer. Writing to memory fails only if a record cannot be encoded.
pub(crate) fn failed(error: &csv::Error) -> Error {
    Error::Internal(format!("a table could not be written: {error}"))
}

/// Puts an apostrophe before a text that a spreadsheet would take for a formula.
pub(crate) fn no_formula(text: &mut String) {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        text.insert(0, '\'');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_not_a_formula() {
        for (text, expected) in
            [("=1+1", "'=1+1"), ("@x", "'@x"), ("-1", "'-1"), ("\tx", "'\tx"), ("a=b", "a=b"), ("", "")]
        {
            let mut written = text.to_owned();
            no_formula(&mut written);
            assert_eq!(written, expected);
        }
    }
}
