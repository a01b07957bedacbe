//! Parses sizes with units: `500MiB`, `5GiB`, `1073741824`.

use std::str::FromStr;

use serde::Deserialize;

/// The units, each with the binary logarithm of its size in bytes.
const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unit = UNITS.into_iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
        let (digits, bits) = unit.unwrap_or((text, 0));
        let number: Option<u64> = digits.trim().parse().ok();
        let bytes = number.and_then(|number| number.checked_mul(1 << bits));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is not a size; write it like 500MiB, 5GiB or 1073741824"))
    }
}

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        for (text, bytes) in [("0", 0), ("17", 17), ("500MiB", 500 << 20), ("5 GiB", 5 << 30), ("1TiB", 1 << 40)] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GiB", "5GB", "-1", "1.5GiB", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().unwrap_err().contains("5GiB"), "{text}");
        }
    }
}
