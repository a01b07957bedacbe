//! Pointers of Git LFS: the text that a repository has in place of a large file.
//!
//! Source: <https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>, version 1.

use std::io::{self, Read, Write};
use std::str;

use sha2::{Digest, Sha256};

/// The size that a pointer does not reach, in bytes.
pub const POINTER_BYTES: u64 = 1024;

/// The size of the pieces in which content is read, in bytes.
pub const PIECE_BYTES: usize = 64 << 10;

const VERSION: &str = "version https://git-lfs.github.com/spec/v1";

/// The number of hexadecimal digits of an SHA-256.
const OID_DIGITS: usize = 64;

/// A pointer to an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    /// The SHA-256 of the content, as 64 lowercase hexadecimal digits.
    pub oid: String,
    /// The size of the content, in bytes.
    pub bytes: u64,
}

impl Pointer {
    /// Returns the content of a pointer file.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{VERSION}\noid sha256:{}\nsize {}\n", self.oid, self.bytes)
    }

    /// Returns the key of the object of a repository of the built-in code host in the blob store.
    #[must_use]
    pub fn blob_key(&self, repository: &str) -> String {
        blob_key(repository, &self.oid)
    }

    /// Parses the content of a file. Returns `None` if it is not a pointer in the form that the specification requires.
    #[must_use]
    pub fn parse(content: &[u8]) -> Option<Self> {
        if content.len() as u64 >= POINTER_BYTES {
            return None;
        }
        let lines = str::from_utf8(content).ok()?.strip_suffix('\n')?;
        let mut lines = lines.split('\n');
        if lines.next()? != VERSION {
            return None;
        }
        let (mut oid, mut bytes, mut last) = (None, None, "");
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            // The keys are in alphabetical order, and each occurs once.
            if key <= last {
                return None;
            }
            last = key;
            match key {
                "oid" => oid = Some(value.strip_prefix("sha256:").filter(|oid| is_oid(oid))?),
                "size" => bytes = Some(size_of(value)?),
                // The filters of an extension changed the content that the object has.
                _ if key.starts_with("ext-") => {}
                _ => return None,
            }
        }
        Some(Self { oid: oid?.to_owned(), bytes: bytes? })
    }
}

/// Computes the pointer of content that arrives in pieces.
#[derive(Debug, Clone, Default)]
pub struct Hasher {
    hash: Sha256,
    bytes: u64,
}

impl Hasher {
    /// Adds the next piece of the content.
    pub fn update(&mut self, piece: &[u8]) {
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
    }

    /// Returns the number of bytes so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the pointer of the content.
    #[must_use]
    pub fn pointer(self) -> Pointer {
        let oid = self.hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Pointer { oid, bytes: self.bytes }
    }
}

/// Copies all of `from`, and returns the pointer of its content.
///
/// # Errors
/// The content has more than `most` bytes ([`io::ErrorKind::FileTooLarge`]), or reading or writing failed.
pub fn copy(from: &mut impl Read, to: &mut impl Write, most: u64) -> io::Result<Pointer> {
    let (mut hasher, mut piece) = (Hasher::default(), vec![0; PIECE_BYTES]);
    loop {
        let read = from.read(&mut piece)?;
        let piece = piece.get(..read).unwrap_or_default();
        if piece.is_empty() {
            return Ok(hasher.pointer());
        }
        hasher.update(piece);
        if hasher.bytes() > most {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("the content is longer than {most} bytes"),
            ));
        }
        to.write_all(piece)?;
    }
}

/// Returns the pointer of all content that is read.
///
/// # Errors
/// Reading failed.
pub fn pointer_of(content: &mut impl Read) -> io::Result<Pointer> {
    copy(content, &mut io::sink(), u64::MAX)
}

/// Returns the names of the objects that a file may name: the hexadecimal digits after each `sha256:`. It finds more than
/// [`Pointer::parse`], because other programs accept other forms of pointers.
pub fn named_oids(content: &[u8]) -> impl Iterator<Item = String> {
    const MARK: &[u8] = b"sha256:";
    let starts = content.windows(MARK.len()).enumerate().filter(|(_, part)| *part == MARK).map(|(at, _)| at);
    starts.filter_map(|at| {
        let start = at + MARK.len();
        let digits = content.get(start..start + OID_DIGITS)?;
        Some(str::from_utf8(digits).ok()?.to_ascii_lowercase()).filter(|oid| is_oid(oid))
    })
}

/// The path of the LFS server of a repository of the built-in code host, below the repository.
pub const SERVER: &str = "/info/lfs/";

/// The folder of the blob store with the objects of the built-in code host. It has a folder for each repository.
pub const HOSTED: &str = "lfs";

/// Returns the folder of the blob store with the objects of a repository of the built-in code host.
#[must_use]
pub fn blob_folder(repository: &str) -> String {
    format!("{HOSTED}/{repository}")
}

/// Returns the key of an object of a repository of the built-in code host in the blob store.
#[must_use]
pub fn blob_key(repository: &str, oid: &str) -> String {
    format!("{HOSTED}/{repository}/{oid}")
}

/// Returns whether a text is the SHA-256 of an object in the form that pointers have.
#[must_use]
pub fn is_oid(text: &str) -> bool {
    text.len() == OID_DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn size_of(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

    #[test]
    fn a_pointer_names_the_object_and_its_size() {
        let expected = Some(Pointer { oid: OID.to_owned(), bytes: 12345 });
        assert_eq!(Pointer::parse(format!("{VERSION}\noid sha256:{OID}\nsize 12345\n").as_bytes()), expected);
        let extended = format!("{VERSION}\next-0-foo sha256:{OID}\noid sha256:{OID}\nsize 12345\n");
        assert_eq!(Pointer::parse(extended.as_bytes()), expected);
    }

    #[test]
    fn the_pointer_of_content_is_its_hash_and_size() {
        let mut hasher = Hasher::default();
        hasher.update(b"ab");
        hasher.update(b"c");
        let oid = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        assert_eq!(hasher.pointer(), Pointer { oid, bytes: 3 });
    }

    #[test]
    fn copied_content_has_its_pointer_and_a_limit() {
        let mut copied = Vec::new();
        let pointer = copy(&mut b"abc".as_slice(), &mut copied, 3).unwrap();
        assert_eq!((copied.as_slice(), &pointer), (b"abc".as_slice(), &pointer_of(&mut b"abc".as_slice()).unwrap()));
        let error = copy(&mut b"abcd".as_slice(), &mut Vec::new(), 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn objects_are_found_in_pointers_of_other_forms() {
        let oids = |text: &str| named_oids(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(oids(&format!("version 1\r\noid sha256:{}\r\nsize 7", OID.to_uppercase())), [OID]);
        let other = "0".repeat(64);
        assert_eq!(oids(&format!("ext-0-x sha256:{other}\noid sha256:{OID}\n")), [other.as_str(), OID]);
        assert_eq!(oids(&format!("sha256:{}", &OID[1..])), [] as [&str; 0]);
        assert_eq!(oids("sha256:sha256:"), [] as [&str; 0]);
    }

    #[test]
    fn a_pointer_that_is_written_can_be_parsed() {
        let pointer = Pointer { oid: OID.to_owned(), bytes: 0 };
        assert_eq!(Pointer::parse(pointer.text().as_bytes()), Some(pointer));
    }

    #[test]
    fn other_content_is_not_a_pointer() {
        for content in [
            String::new(),
            "\u{0}".to_owned(),
            format!("{VERSION}\n"),
            format!("{VERSION}\noid sha256:{OID}\n"),
            format!("{VERSION}\nsize 1\n"),
            format!("{VERSION}\noid sha256:{OID}\nsize 1"),
            format!("{VERSION}\r\noid sha256:{OID}\r\nsize 1\r\n"),
            format!("{VERSION}\nsize 1\noid sha256:{OID}\n"),
            format!("{VERSION}\noid sha256:{OID}\noid sha256:{OID}\nsize 1\n"),
            format!("{VERSION}\noid sha256:{}\nsize 1\n", OID.to_uppercase()),
            format!("{VERSION}\noid sha256:{}\nsize 1\n", &OID[1..]),
            format!("{VERSION}\noid md5:{OID}\nsize 1\n"),
            format!("{VERSION}\noid sha256:{OID}\nsize +1\n"),
            format!("{VERSION}\noid sha256:{OID}\nsize 01\n"),
            format!("{VERSION}\noid sha256:{OID}\nsize 18446744073709551616\n"),
            format!("{VERSION}\noid sha256:{OID}\nsize \n"),
            format!("{VERSION}\noid sha256:{OID}\nsize 1\nzone x\n"),
            format!("{VERSION}\next-0-{} x\noid sha256:{OID}\nsize 1\n", "a".repeat(1024)),
            format!("version 2\noid sha256:{OID}\nsize 1\n"),
        ] {
            assert_eq!(Pointer::parse(content.as_bytes()), None, "{content:?}");
        }
        assert_eq!(Pointer::parse(b"\xff\n"), None);
    }
}
