//! The content of commit objects.

use std::collections::HashMap;

use journeyman_core::ids::Sha;

/// The content of a commit object: header fields, and the rest, which begins with an empty line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit<'a> {
    /// The fields as they are written, without the last line break. Further lines of a field begin with a space.
    fields: Vec<Vec<u8>>,
    rest: &'a [u8],
}

impl<'a> Commit<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Self {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n").map_or(bytes.len(), |end| end + 1);
        let (head, rest) = bytes.split_at(end);
        let mut fields: Vec<Vec<u8>> = Vec::new();
        for line in head.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match fields.last_mut() {
                Some(field) if line.starts_with(b" ") => {
                    field.push(b'\n');
                    field.extend(line);
                }
                _ => fields.push(line.to_vec()),
            }
        }
        Self { fields, rest }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in &self.fields {
            bytes.extend(field);
            bytes.push(b'\n');
        }
        bytes.extend(self.rest);
        bytes
    }

    pub(super) fn replace_parents(&mut self, replaced: &HashMap<Sha, Sha>) -> bool {
        let mut has_changed = false;
        for field in &mut self.fields {
            let parent = field.strip_prefix(b"parent ").and_then(|sha| std::str::from_utf8(sha).ok()?.parse().ok());
            if let Some(new) = parent.and_then(|parent: Sha| replaced.get(&parent)) {
                *field = format!("parent {new}").into_bytes();
                has_changed = true;
            }
        }
        has_changed
    }

    /// Replaces the committer's name and address, and keeps the time.
    pub(super) fn set_committer(&mut self, who: &str) {
        for field in self.fields.iter_mut().filter(|field| field.starts_with(b"committer ")) {
            let time = field.iter().rposition(|byte| *byte == b'>').map_or(&[][..], |end| &field[end + 1..]);
            *field = [format!("committer {who}").as_bytes(), time].concat();
        }
    }

    pub(super) fn is_signed(&self) -> bool {
        self.fields.iter().any(|field| is_signature(field))
    }

    pub(super) fn remove_signatures(&mut self) {
        self.fields.retain(|field| !is_signature(field));
    }

    pub(super) fn set_signature(&mut self, signature: &str) {
        self.fields.push(format!("gpgsig {}", signature.trim_end().replace('\n', "\n ")).into_bytes());
    }
}

fn is_signature(field: &[u8]) -> bool {
    field.starts_with(b"gpgsig ") || field.starts_with(b"gpgsig-sha256 ")
}
