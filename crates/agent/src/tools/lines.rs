//! Reads the lines of a text file in any known encoding, without reading the whole file into memory.
//!
//! Invariant: a [`Piece`] is made of at most the given number of bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use super::encoding::{Detected, Encoding, SAMPLE_BYTES, Unit, detect};

/// A line of a file, or a part of a long line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// The text, without the line break. Bytes that are no text are shown as `\xNN`.
    pub(super) text: String,
    /// Set if the line ends here.
    pub(super) ends_line: bool,
    /// Set if the line ends with CRLF.
    pub(super) crlf: bool,
    /// Set if there is a line break, which the last line of a file may lack.
    pub(super) has_break: bool,
    /// The number of bytes that are no text.
    pub(super) invalid: usize,
}

/// The lines of a file.
pub(super) struct Lines<R: Read> {
    reader: BufReader<R>,
    /// The encoding of the file.
    pub(super) detected: Detected,
    /// The maximum number of bytes of a piece.
    most: usize,
    /// Bytes that were read and belong to the next piece.
    carried: Vec<u8>,
}

impl Lines<File> {
    /// Opens a file of `length` bytes.
    pub(super) fn open(file: File, length: u64, most: usize) -> io::Result<Self> {
        let capacity = usize::try_from(length).unwrap_or(SAMPLE_BYTES).saturating_add(1).min(SAMPLE_BYTES);
        Self::new(file, capacity, most)
    }
}

impl<R: Read> Lines<R> {
    fn new(reader: R, capacity: usize, most: usize) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(capacity, reader);
        let sample = reader.fill_buf()?;
        let detected = detect(sample, sample.len() < capacity);
        reader.consume(detected.mark);
        Ok(Self { reader, detected, most, carried: Vec::new() })
    }

    /// Reads from memory.
    #[cfg(test)]
    pub(super) fn of(reader: R, most: usize) -> io::Result<Self> {
        Self::new(reader, 1 << 16, most)
    }

    /// Reads all lines as `detected` says.
    pub(super) fn with_encoding(self, detected: Detected) -> Self {
        Self { detected, ..self }
    }

    /// Returns the next piece; `None` at the end of the file.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece>> {
        let mut bytes = std::mem::take(&mut self.carried);
        let encoding = self.detected.encoding;
        let line_break: &[u8] = match encoding {
            Encoding::Utf8 | Encoding::Other(_) => b"\n",
            Encoding::Utf16 { big_endian: true } => &[0, b'\n'],
            Encoding::Utf16 { big_endian: false } => &[b'\n', 0],
        };
        let width = line_break.len();
        let ends = |bytes: &[u8]| bytes.len().is_multiple_of(width) && bytes.ends_with(line_break);
        let last = line_break.last().copied().unwrap_or(b'\n');
        while !ends(&bytes) && bytes.len() < self.most {
            let room = (self.most - bytes.len()) as u64;
            // In UTF-16, this byte may also be a part of another character.
            if (&mut self.reader).take(room).read_until(last, &mut bytes)? == 0 {
                break;
            }
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let has_break = ends(&bytes);
        let ends_line = has_break || self.reader.fill_buf()?.is_empty();
        if has_break {
            bytes.truncate(bytes.len() - width);
        }
        let mut piece = Piece { ends_line, has_break, ..Piece::default() };
        let mut rest = 0;
        let plain = if encoding == Encoding::Utf8 { std::str::from_utf8(&bytes).ok() } else { None };
        if let Some(plain) = plain.filter(|plain| !plain.contains('\0')) {
            piece.text = plain.to_owned();
        } else {
            encoding.units(&bytes, |unit, length| {
                unit.show(&mut piece.text);
                match unit {
                    Unit::Text(_) => rest = 0,
                    Unit::Invalid(_) => {
                        rest += length;
                        piece.invalid += length;
                    }
                }
            });
        }
        if !ends_line && (1..4).contains(&rest) && bytes.len() > rest {
            // The piece ends within a character.
            piece.invalid -= rest;
            piece.text.truncate(piece.text.len() - rest * "\\x00".len());
            self.carried = bytes.split_off(bytes.len() - rest);
        }
        if has_break && piece.text.ends_with('\r') {
            piece.text.pop();
            piece.crlf = true;
        }
        Ok(Some(piece))
    }

    /// Skips the rest of a line whose beginning was a piece that does not end it.
    pub(super) fn skip_line(&mut self) -> io::Result<()> {
        while let Some(piece) = self.next()? {
            if piece.ends_line {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether the file has no more bytes.
    pub(super) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.carried.is_empty() && self.reader.fill_buf()?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bytes: &[u8], most: usize) -> Vec<(String, bool, bool)> {
        let mut lines = Lines::of(bytes, most).unwrap();
        let mut found = Vec::new();
        while let Some(piece) = lines.next().unwrap() {
            found.push((piece.text, piece.ends_line, piece.crlf));
        }
        found
    }

    #[test]
    fn lines_end_with_lf_or_crlf_or_the_file() {
        let line = |text: &str, crlf| (text.to_owned(), true, crlf);
        for (bytes, expected) in [
            ("", vec![]),
            ("a", vec![line("a", false)]),
            ("a\n", vec![line("a", false)]),
            ("a\r\nb\nc", vec![line("a", true), line("b", false), line("c", false)]),
            ("\n\r\n", vec![line("", false), line("", true)]),
            ("a\rb\r", vec![line("a\rb\r", false)]),
        ] {
            assert_eq!(pieces(bytes.as_bytes(), 99), expected, "{bytes:?}");
            let little: Vec<u8> = format!("\u{feff}{bytes}").encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(pieces(&little, 99), expected, "{bytes:?} in UTF-16LE");
            let big: Vec<u8> = format!("\u{feff}{bytes}").encode_utf16().flat_map(u16::to_be_bytes).collect();
            assert_eq!(pieces(&big, 99), expected, "{bytes:?} in UTF-16BE");
        }
    }

    #[test]
    fn a_character_whose_byte_is_a_line_break_does_not_end_a_line_of_utf_16() {
        let text = "\u{feff}a\u{0a0a}\u{010a}\u{0a01}b\nc";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(pieces(&little, 99).len(), 2);
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(pieces(&big, 99).len(), 2);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let text = "ü".repeat(50);
        for most in 4..9 {
            let found = pieces(text.as_bytes(), most);
            assert!(found.iter().all(|(text, ..)| !text.contains('\\')), "{found:?}");
            assert_eq!(found.iter().map(|(text, ..)| text.as_str()).collect::<String>(), text);
            assert!(found.iter().rev().skip(1).all(|(_, ends, _)| !ends) && found.last().unwrap().1);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown() {
        let mut lines = Lines::of(&b"gr\xc3\xbc\xff n\0l\n"[..], 99).unwrap();
        let piece = lines.next().unwrap().unwrap();
        assert_eq!((piece.text.as_str(), piece.invalid), ("grü\\xff n\\x00l", 1));
    }
}
