//! Files of a workspace that the repository keeps in Git LFS.

pub(crate) mod fill;
pub(crate) mod filter;
pub(crate) mod index;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use journeyman_core::lfs::{POINTER_BYTES, Pointer};

use crate::workspace::beneath::{open_beneath, open_folder};

/// Returns those of the files below `tree` that have other content than a pointer. An empty file needs no pointer. A
/// file that the service cannot open is left to git.
///
/// # Errors
/// The tree cannot be opened, or a file cannot be read.
pub(crate) fn without_pointer(tree: &Path, paths: Vec<PathBuf>) -> io::Result<Vec<PathBuf>> {
    let tree = open_folder(tree)?;
    let mut found = Vec::new();
    for path in paths {
        let Ok(file) = open_beneath(&tree, &path) else { continue };
        if !has_pointer(&file)? {
            found.push(path);
        }
    }
    Ok(found)
}

/// Parses the pointer in a file, and returns to its start.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn pointer_in(file: &mut File) -> io::Result<Option<Pointer>> {
    let mut content = Vec::new();
    (&*file).take(POINTER_BYTES).read_to_end(&mut content)?;
    file.rewind()?;
    Ok(Pointer::parse(&content))
}

fn has_pointer(file: &File) -> io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut content = Vec::new();
    file.take(POINTER_BYTES).read_to_end(&mut content)?;
    Ok(content.is_empty() || Pointer::parse(&content).is_some())
}

#[cfg(test)]
mod tests;
