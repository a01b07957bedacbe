//! Reads all small files of a repository, such as the pointers of Git LFS.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use crate::command::Git;
use crate::maintenance::MaintenanceError;

/// The time limit of a command.
const TIMEOUT: Duration = Duration::from_secs(1200);

impl Git {
    /// Passes the content of each blob with fewer than `bytes` bytes to `take`, whether or not a ref leads to it. Objects
    /// that a push has in quarantine are not read. `list` is the path of a temporary file, which the caller removes: the
    /// names of the blobs may not fit into memory.
    ///
    /// # Errors
    /// Git failed, or the disk.
    pub async fn small_blobs(
        &self,
        repository: &Path,
        bytes: u64,
        list: &Path,
        take: impl FnMut(&[u8]) + Send,
    ) -> Result<(), MaintenanceError> {
        let mut names =
            Names { file: BufWriter::new(File::create(list)?), line: Vec::new(), bytes, count: 0, error: None };
        let format = "--batch-check=%(objecttype) %(objectsize) %(objectname)";
        let listing = self.at(repository, ["cat-file", "--batch-all-objects", "--unordered", format]);
        listing.timeout(TIMEOUT).low_priority().run_while(|piece| names.read(piece)).await?;
        let count = names.finish()?;
        let mut contents = Contents::new(take);
        let reading = self.at(repository, ["cat-file", "--batch", "--buffer"]).stdin_file(File::open(list)?);
        reading.timeout(TIMEOUT).low_priority().run_while(|piece| contents.read(piece)).await?;
        match contents.finish()? {
            // Callers decide by what they have not seen.
            read if read != count => Err(io::Error::other(format!("git has read {read} of {count} objects")).into()),
            _ => Ok(()),
        }
    }
}

/// Collects the names of small blobs.
struct Names {
    file: BufWriter<File>,
    line: Vec<u8>,
    bytes: u64,
    count: u64,
    error: Option<io::Error>,
}

impl Names {
    /// Reads the next piece of the listing. Returns false if the disk failed.
    fn read(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            if let Some(name) = small_blob(&self.line, self.bytes) {
                self.count += 1;
                if let Err(error) = self.file.write_all(name).and_then(|()| self.file.write_all(b"\n")) {
                    self.error = Some(error);
                    return false;
                }
            }
            self.line.clear();
        }
        true
    }

    /// Returns the number of names.
    fn finish(mut self) -> io::Result<u64> {
        match self.error {
            Some(error) => Err(error),
            None => self.file.flush().map(|()| self.count),
        }
    }
}

/// Returns the name of a blob with fewer than `bytes` bytes.
fn small_blob(line: &[u8], bytes: u64) -> Option<&[u8]> {
    let mut words = line.split(|byte| *byte == b' ');
    let (kind, size, name) = (words.next()?, words.next()?, words.next()?);
    let size: u64 = std::str::from_utf8(size).ok()?.parse().ok()?;
    (kind == b"blob" && size < bytes).then_some(name)
}

/// Splits the output of `git cat-file --batch`.
struct Contents<T> {
    header: Vec<u8>,
    content: Vec<u8>,
    /// The bytes of the content that are still to be read, and the line feed after it; `None` in a header.
    left: Option<usize>,
    damage: Option<String>,
    count: u64,
    take: T,
}

impl<T: FnMut(&[u8])> Contents<T> {
    const fn new(take: T) -> Self {
        Self { header: Vec::new(), content: Vec::new(), left: None, damage: None, count: 0, take }
    }

    /// Reads the next piece of the output. Returns false if an object cannot be read.
    fn read(&mut self, mut piece: &[u8]) -> bool {
        while let Some((first, rest)) = piece.split_first() {
            match self.left {
                None if *first == b'\n' => {
                    let header = String::from_utf8_lossy(&self.header).into_owned();
                    let mut words = header.split(' ');
                    let size = match (words.next(), words.next(), words.next()) {
                        (Some(_), Some("blob"), Some(size)) => size.parse::<usize>().ok(),
                        _ => None,
                    };
                    let Some(size) = size else {
                        self.damage = Some(header);
                        return false;
                    };
                    self.left = Some(size + 1);
                    self.header.clear();
                    piece = rest;
                }
                None => {
                    self.header.push(*first);
                    piece = rest;
                }
                Some(left) => {
                    let (now, later) = piece.split_at(left.min(piece.len()));
                    self.content.extend_from_slice(now);
                    self.left = Some(left - now.len());
                    if now.len() == left {
                        self.content.pop();
                        (self.take)(&self.content);
                        self.count += 1;
                        self.content.clear();
                        self.left = None;
                    }
                    piece = later;
                }
            }
        }
        true
    }

    /// Returns the number of contents.
    fn finish(self) -> Result<u64, MaintenanceError> {
        let text = match self.damage {
            Some(header) => format!("an object cannot be read: {header}"),
            None if self.left.is_some() || !self.header.is_empty() => "the output of git cat-file is cut".to_owned(),
            None => return Ok(self.count),
        };
        Err(io::Error::other(text).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runner;

    #[tokio::test]
    async fn small_blobs_are_read_whether_or_not_a_ref_leads_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = "/usr/local/bin:/usr/bin:/bin".into();
        let git = Git::new(Runner { program: "git".into(), path, environment: vec![], askpass: None });
        let repository = dir.path().join("a.git");
        git.at(&repository, ["init", "--quiet", "--bare"]).run().await.unwrap();
        let read = async || {
            let mut found = Vec::new();
            let list = dir.path().join("list");
            git.small_blobs(&repository, 10, &list, |content| found.push(content.to_vec())).await.unwrap();
            found.sort();
            found
        };
        assert_eq!(read().await, [b""; 0], "the repository is empty");
        for content in ["", "a", "two\nlines", "of ten bts", "123456789"] {
            git.at(&repository, ["hash-object", "-w", "--stdin"]).stdin(content).run().await.unwrap();
        }
        let tree = git.at(&repository, ["mktree"]).run().await.unwrap().text().unwrap();
        git.at(&repository, ["commit-tree", "-m", "c", &tree]).run().await.unwrap();
        assert_eq!(read().await, [b"".as_slice(), b"123456789", b"a", b"two\nlines"]);
        std::fs::write(repository.join("HEAD"), "damaged").unwrap();
        assert!(git.small_blobs(&repository, 10, &dir.path().join("list"), |_| {}).await.is_err());
    }

    #[test]
    fn output_is_split_at_any_byte() {
        let output = b"aa blob 3\na\nb\nbb blob 0\n\ncc blob 1\nc\n";
        for size in 1..output.len() {
            let mut found = Vec::new();
            let take = |content: &[u8]| found.push(content.to_vec());
            let mut contents = Contents::new(take);
            assert!(output.chunks(size).all(|piece| contents.read(piece)));
            assert_eq!(contents.finish().unwrap(), 3);
            assert_eq!(found, [b"a\nb".as_slice(), b"", b"c"]);
        }
        for damaged in [b"aa missing\n".as_slice(), b"aa blob 3\na", b"aa bl"] {
            let mut contents = Contents::new(|_: &[u8]| {});
            contents.read(damaged);
            assert!(contents.finish().is_err());
        }
    }
}
