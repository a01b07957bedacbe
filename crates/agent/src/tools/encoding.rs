//! The encodings of text files: their detection, and the conversion between bytes and text.
//!
//! Invariants: every byte of a file belongs to exactly one [`Unit`]; text that an encoding cannot express is never
//! replaced by other text.

use encoding_rs::{DecoderResult, EncoderResult, GBK, ISO_2022_JP, REPLACEMENT, SHIFT_JIS, UTF_8, WINDOWS_1252};
use encoding_rs::{UTF_16BE, UTF_16LE};

/// The number of bytes at the beginning of a file by which its encoding is detected: 4 MiB.
pub(super) const SAMPLE_BYTES: usize = 4 * 1024 * 1024;

/// The encoding of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// UTF-8. A file may also have bytes that are not.
    Utf8,
    /// UTF-16 with this order of bytes.
    Utf16 {
        /// Set if the more significant byte is the first.
        big_endian: bool,
    },
    /// An encoding in which the bytes of ASCII stand for themselves, except after a byte that is not ASCII.
    Other(&'static encoding_rs::Encoding),
}

/// The result of the detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detected {
    /// The encoding.
    pub(super) encoding: Encoding,
    /// The number of bytes of the byte order mark; 0 if there is none.
    pub(super) mark: usize,
    /// Set if the encoding was guessed from the text.
    pub(super) guessed: bool,
    /// Set if the file is no text in any known encoding.
    pub(super) binary: bool,
}

/// A part of a file: a character, or a byte sequence that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit<'a> {
    /// One character, or several that stand for one byte sequence.
    Text(&'a str),
    /// Bytes that are not valid in the encoding.
    Invalid(&'a [u8]),
}

impl Unit<'_> {
    /// Appends the unit as a text to look at.
    pub(super) fn show(self, text: &mut String) {
        match self {
            Unit::Text("\0") => text.push_str("\\x00"),
            Unit::Text(part) => text.push_str(part),
            Unit::Invalid(bytes) => bytes.iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}"))),
        }
    }
}

impl Detected {
    /// Returns the encoding in words; `None` if it is UTF-8 without a byte order mark.
    pub(super) fn in_words(self) -> Option<String> {
        if self.encoding == Encoding::Utf8 && self.mark == 0 {
            return None;
        }
        let mark = if self.mark > 0 { " with a byte order mark" } else { "" };
        let guessed = if self.guessed { " (guessed; set encoding if it is another)" } else { "" };
        Some(format!("{}{mark}{guessed}", self.encoding.name()))
    }
}

impl Encoding {
    /// Finds an encoding by its name on the web, such as `shift_jis`. Encodings with a state are not supported.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let found = encoding_rs::Encoding::for_label(name.as_bytes())?;
        if found == UTF_8 {
            Some(Self::Utf8)
        } else if found == UTF_16LE || found == UTF_16BE {
            Some(Self::Utf16 { big_endian: found == UTF_16BE })
        } else {
            (found != ISO_2022_JP && found != REPLACEMENT).then_some(Self::Other(found))
        }
    }

    /// Returns the name of the encoding.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 { big_endian: false } => "UTF-16LE",
            Self::Utf16 { big_endian: true } => "UTF-16BE",
            Self::Other(encoding) => encoding.name(),
        }
    }

    /// Splits bytes into units.
    pub(super) fn units(self, bytes: &[u8], mut unit: impl FnMut(Unit<'_>, usize)) {
        match self {
            Self::Utf8 => units_of_utf8(bytes, unit),
            Self::Utf16 { big_endian } => units_of_utf16(bytes, big_endian, unit),
            Self::Other(encoding) => units_of_other(bytes, encoding, &mut unit),
        }
    }

    /// Returns bytes as a text to look at. Bytes that are no text are shown as `\xNN`.
    pub(super) fn shown(self, bytes: &[u8]) -> String {
        let mut shown = String::with_capacity(bytes.len());
        self.units(bytes, |unit, _| unit.show(&mut shown));
        shown
    }

    /// Encodes a text.
    ///
    /// # Errors
    /// Returns the first character that the encoding does not have.
    pub(super) fn encode(self, text: &str) -> Result<Vec<u8>, char> {
        match self {
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Utf16 { big_endian: true } => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Self::Utf16 { big_endian: false } => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Self::Other(encoding) => {
                let mut bytes = Vec::with_capacity(text.len());
                for character in text.chars() {
                    let encoded = encode_char(encoding, character).ok_or(character)?;
                    // Some encoders have a replacement for a character, such as a backslash for the yen sign.
                    let mut is_same = false;
                    units_of_other(&encoded, encoding, &mut |unit, _| {
                        is_same = matches!(unit, Unit::Text(text) if text.chars().eq([character]));
                    });
                    if !is_same {
                        return Err(character);
                    }
                    bytes.extend(encoded);
                }
                Ok(bytes)
            }
        }
    }
}

fn encode_char(encoding: &'static encoding_rs::Encoding, character: char) -> Option<Vec<u8>> {
    let mut text = [0; 4];
    let mut bytes = [0; 16];
    let text = character.encode_utf8(&mut text);
    match encoding.new_encoder().encode_from_utf8_without_replacement(text, &mut bytes, true) {
        (EncoderResult::InputEmpty, _, written) => Some(bytes.get(..written)?.to_vec()),
        (EncoderResult::OutputFull | EncoderResult::Unmappable(_), ..) => None,
    }
}

fn units_of_utf8(bytes: &[u8], mut unit: impl FnMut(Unit<'_>, usize)) {
    for chunk in bytes.utf8_chunks() {
        let mut buffer = [0; 4];
        for character in chunk.valid().chars() {
            unit(Unit::Text(character.encode_utf8(&mut buffer)), character.len_utf8());
        }
        for byte in chunk.invalid() {
            unit(Unit::Invalid(std::slice::from_ref(byte)), 1);
        }
    }
}

fn units_of_utf16(bytes: &[u8], big_endian: bool, mut unit: impl FnMut(Unit<'_>, usize)) {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let numbers = pairs.iter().map(|pair| match big_endian {
        true => u16::from_be_bytes(*pair),
        false => u16::from_le_bytes(*pair),
    });
    let mut at = 0;
    let mut buffer = [0; 4];
    for decoded in char::decode_utf16(numbers) {
        let length = match decoded {
            Ok(character) => {
                let length = character.len_utf16() * 2;
                unit(Unit::Text(character.encode_utf8(&mut buffer)), length);
                length
            }
            Err(_) => {
                unit(Unit::Invalid(bytes.get(at..at + 2).unwrap_or_default()), 2);
                2
            }
        };
        at += length;
    }
    if !rest.is_empty() {
        unit(Unit::Invalid(rest), rest.len());
    }
}

fn units_of_other(bytes: &[u8], encoding: &'static encoding_rs::Encoding, unit: &mut dyn FnMut(Unit<'_>, usize)) {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let (mut start, mut at) = (0, 0);
    loop {
        let next = bytes.get(at..at + 1).unwrap_or_default();
        let mut text = [0; 32];
        let (result, read, written) = decoder.decode_to_utf8_without_replacement(next, &mut text, next.is_empty());
        at += read;
        let text = text.get(..written).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        if !text.is_empty() {
            unit(Unit::Text(text), at - start);
            start = at;
        }
        if let DecoderResult::Malformed(_, behind) = result {
            let end = at.saturating_sub(usize::from(behind)).max(start);
            if end > start {
                unit(Unit::Invalid(bytes.get(start..end).unwrap_or_default()), end - start);
                start = end;
            }
        } else if next.is_empty() {
            break;
        }
    }
    if start < bytes.len() {
        unit(Unit::Invalid(bytes.get(start..).unwrap_or_default()), bytes.len() - start);
    }
}

/// Detects the encoding of a file by its beginning. `is_whole` is set if the file has no other bytes.
pub(super) fn detect(sample: &[u8], is_whole: bool) -> Detected {
    let certain = |encoding, mark| Detected { encoding, mark, guessed: false, binary: false };
    let (little, big) = (Encoding::Utf16 { big_endian: false }, Encoding::Utf16 { big_endian: true });
    match sample {
        [0xef, 0xbb, 0xbf, ..] => return certain(Encoding::Utf8, 3),
        // The mark of UTF-32, which no known encoding is.
        [0xff, 0xfe, 0, 0, ..] => return Detected { binary: true, ..certain(Encoding::Utf8, 0) },
        [0xff, 0xfe, ..] => return certain(little, 2),
        [0xfe, 0xff, ..] => return certain(big, 2),
        _ => {}
    }
    let guessed = |encoding| Detected { guessed: true, ..certain(encoding, 0) };
    let (mut multi_byte, mut invalid, mut left) = (0, 0, sample.len());
    units_of_utf8(sample, |unit, length| {
        left -= length;
        match unit {
            Unit::Text(text) => multi_byte += usize::from(text.len() > 1),
            // The sample may end within a character.
            Unit::Invalid(_) => invalid += usize::from(is_whole || left > 3),
        }
    });
    let zeros = sample.iter().filter(|byte| **byte == 0).count();
    let controls = sample.iter().filter(|byte| is_control(**byte)).count();
    let has_controls = controls * 50 > sample.len();
    // A tenth of compressed data looks like control characters.
    let binary = controls * 10 > sample.len() || (has_controls && invalid * 5 > sample.len());
    let utf8 = Detected { binary, ..certain(Encoding::Utf8, 0) };
    // In UTF-16, each character of ASCII has a zero.
    if zeros > 0 && (invalid > multi_byte || zeros * 4 >= sample.len()) {
        let found = [little, big].into_iter().max_by_key(|encoding| utf16_score(*encoding, sample));
        return found.filter(|encoding| utf16_score(*encoding, sample) > 0).map_or(utf8, guessed);
    }
    if has_controls || zeros > 0 || invalid <= multi_byte {
        return utf8;
    }
    let fitting = |encoding: &&'static encoding_rs::Encoding| fits(encoding, sample, is_whole);
    if let Some(encoding) = [SHIFT_JIS, GBK].into_iter().find(fitting) {
        return guessed(Encoding::Other(encoding));
    }
    // Other bytes rarely happen to be characters of UTF-8.
    if invalid > multi_byte * 4 && fits(WINDOWS_1252, sample, is_whole) {
        return guessed(Encoding::Other(WINDOWS_1252));
    }
    utf8
}

/// Returns whether a byte is a control character that texts do not have.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0..=6 | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f)
}

/// Returns the number of characters of ASCII if the sample is plausible as UTF-16, and otherwise 0.
fn utf16_score(encoding: Encoding, sample: &[u8]) -> usize {
    let (mut ascii, mut all, mut is_plausible) = (0, 0, sample.len().is_multiple_of(2));
    encoding.units(sample, |unit, _| {
        all += 1;
        match unit {
            Unit::Text(text) => {
                is_plausible &= !text.contains(|c: char| {
                    (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}'))
                        || matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..='\u{ffff}')
                });
                ascii += usize::from(text.is_ascii());
            }
            Unit::Invalid(_) => is_plausible = false,
        }
    });
    // A text of at least one line has a line break or a space among 200 characters.
    if is_plausible && ascii * 200 >= all { ascii } else { 0 }
}

/// Returns whether a sample, which is not UTF-8, is plausible as text in an encoding.
fn fits(encoding: &'static encoding_rs::Encoding, sample: &[u8], is_whole: bool) -> bool {
    let (mut all, mut usual, mut invalid) = (0, 0, 0);
    let mut at = 0;
    units_of_other(sample, encoding, &mut |unit, length| {
        let start = at;
        at += length;
        match unit {
            Unit::Text(text) if text.is_ascii() => {}
            Unit::Text(text) => {
                all += 1;
                let bytes = sample.get(start..at).unwrap_or_default();
                usual += usize::from(text.chars().all(|c| is_usual(encoding, c, bytes)));
            }
            Unit::Invalid(_) => invalid += usize::from(is_whole || at < sample.len()),
        }
    });
    let (part, of) = if encoding == SHIFT_JIS { (1, 5) } else { (7, 10) };
    invalid == 0 && all > 0 && usual * of >= all * part
}

/// Returns whether a character is usual in texts in an encoding, and unusual in those in other encodings.
fn is_usual(encoding: &'static encoding_rs::Encoding, character: char, bytes: &[u8]) -> bool {
    if encoding == SHIFT_JIS {
        // Hiragana and katakana, which no Japanese text is without.
        return matches!(character, '\u{3041}'..='\u{30ff}');
    }
    if encoding == GBK {
        // Punctuation, full-width forms, and the first level of GB 2312.
        return matches!(bytes, [0xa1..=0xa3 | 0xb0..=0xd7, 0xa1..=0xfe]);
    }
    // Letters, and the punctuation of Western languages.
    character.is_alphabetic() || "\u{a0}§©«®°±²³·»–—‘’‚“”„•…€™£".contains(character)
}

#[cfg(test)]
mod tests;
