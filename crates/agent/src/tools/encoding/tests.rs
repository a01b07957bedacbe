use super::*;

const GERMAN: &str = "// Größe und Straße: äöü\nint x = 1; // naïve café\n";
const JAPANESE: &str = "# 日本語のコメントです\nvalue = 1  # カタカナとひらがな\n";
const CHINESE: &str = "# 这是中文注释，我们在这里工作\nvalue = 1  # 你好世界\n";

fn utf16(text: &str, big_endian: bool) -> Vec<u8> {
    Encoding::Utf16 { big_endian }.encode(text).unwrap()
}

fn other(encoding: &'static encoding_rs::Encoding, text: &str) -> Vec<u8> {
    Encoding::Other(encoding).encode(text).unwrap()
}

fn name_of(bytes: &[u8]) -> (&'static str, usize, bool, bool) {
    let found = detect(bytes, true);
    (found.encoding.name(), found.mark, found.guessed, found.binary)
}

#[test]
fn encodings_are_detected() {
    for (bytes, expected) in [
        (Vec::new(), ("UTF-8", 0, false, false)),
        (b"plain\n".to_vec(), ("UTF-8", 0, false, false)),
        (GERMAN.into(), ("UTF-8", 0, false, false)),
        (CHINESE.into(), ("UTF-8", 0, false, false)),
        (format!("\u{feff}{GERMAN}").into(), ("UTF-8", 3, false, false)),
        (utf16(&format!("\u{feff}{GERMAN}"), false), ("UTF-16LE", 2, false, false)),
        (utf16(&format!("\u{feff}{JAPANESE}"), true), ("UTF-16BE", 2, false, false)),
        (utf16(GERMAN, false), ("UTF-16LE", 0, true, false)),
        (utf16(GERMAN, true), ("UTF-16BE", 0, true, false)),
        (utf16(CHINESE, false), ("UTF-16LE", 0, true, false)),
        (utf16(JAPANESE, true), ("UTF-16BE", 0, true, false)),
        (other(WINDOWS_1252, GERMAN), ("windows-1252", 0, true, false)),
        (other(WINDOWS_1252, "“Quoted” – 5 € …\n"), ("windows-1252", 0, true, false)),
        (other(WINDOWS_1252, "É"), ("windows-1252", 0, true, false)),
        (other(SHIFT_JIS, JAPANESE), ("Shift_JIS", 0, true, false)),
        (other(GBK, CHINESE), ("GBK", 0, true, false)),
        // Mostly UTF-8, with other bytes, and with NUL.
        (b"gr\xc3\xb6\xc3\x9fe \xff\n".to_vec(), ("UTF-8", 0, false, false)),
        (b"a text with one \0 in it\n".to_vec(), ("UTF-8", 0, false, false)),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0".to_vec(), ("UTF-8", 0, false, true)),
        (b"\xff\xfe\0\0a\0\0\0".to_vec(), ("UTF-8", 0, false, true)),
    ] {
        assert_eq!(name_of(&bytes), expected, "{:?}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn data_without_a_pattern_is_binary() {
    // The numbers of a linear congruential generator, as in compressed data, with and without zeros.
    let mut number: u32 = 7;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        number.to_be_bytes()[0]
    })
    .take(20_000)
    .collect();
    let without_zeros: Vec<u8> = bytes.iter().copied().filter(|byte| *byte != 0).collect();
    for bytes in [bytes, without_zeros] {
        for part in bytes.chunks(1_000) {
            assert!(detect(part, true).binary, "{part:?}");
        }
    }
}

#[test]
fn the_end_of_a_sample_may_be_within_a_character() {
    let text = "ü".repeat(9);
    assert_eq!(detect(text.get(..).unwrap().as_bytes().get(..17).unwrap(), false).encoding, Encoding::Utf8);
    let bytes = other(GBK, CHINESE);
    let cut = bytes.iter().position(|byte| *byte > 0x80).unwrap() + 9;
    assert_eq!(detect(&bytes[..cut], false).encoding, Encoding::Other(GBK));
}

#[test]
fn every_byte_belongs_to_one_unit() {
    let samples = [
        GERMAN.into(),
        utf16(JAPANESE, true),
        other(SHIFT_JIS, JAPANESE),
        other(GBK, CHINESE),
        (0..=255).collect::<Vec<u8>>(),
        (0..=255).rev().collect(),
        b"\x81\x82\xff\x81\x30\x81\x30\x81\x81\xe9".to_vec(),
    ];
    let all = ["utf-8", "utf-16le", "utf-16be", "shift_jis", "gbk", "gb18030", "big5", "euc-jp", "euc-kr", "latin1"];
    for name in all {
        let encoding = Encoding::from_name(name).unwrap();
        for sample in &samples {
            for end in 0..=sample.len() {
                let part = &sample[..end];
                let mut at = 0;
                encoding.units(part, |unit, length| {
                    if let Unit::Invalid(bytes) = unit {
                        assert_eq!(bytes, &part[at..at + length], "{name}");
                    }
                    assert!(length > 0, "{name}");
                    at += length;
                });
                assert_eq!(at, part.len(), "{name}");
            }
        }
    }
}

#[test]
fn a_text_is_encoded_exactly_or_not_at_all() {
    for (name, text, expected) in [
        ("windows-1252", "é€", Ok(vec![0xe9, 0x80])),
        ("windows-1252", "日", Err('日')),
        ("windows-1252", "aŁ", Err('Ł')),
        ("shift_jis", "あa", Ok(vec![0x82, 0xa0, b'a'])),
        // The encoder would write a backslash.
        ("shift_jis", "¥", Err('¥')),
        ("shift_jis", "é", Err('é')),
        ("gbk", "你", Ok(vec![0xc4, 0xe3])),
        ("gbk", "🦀", Err('🦀')),
        ("utf-16be", "a🦀", Ok(vec![0, b'a', 0xd8, 0x3e, 0xdd, 0x80])),
        ("utf-8", "é", Ok(vec![0xc3, 0xa9])),
    ] {
        assert_eq!(Encoding::from_name(name).unwrap().encode(text), expected, "{name} {text}");
    }
    for name in ["iso-2022-jp", "hz-gb-2312", "utf-7", "nothing"] {
        assert_eq!(Encoding::from_name(name), None, "{name}");
    }
}
