//! What a container is shown of us: this program with the libraries that it needs and their loader, so that it runs in
//! whatever image, and two files of `/etc`.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where it is inside.
pub(super) const INSIDE: &str = "/run/journeyman";

/// Of the folder of the back end.
const FOLDER: &str = "runtime";

/// This program's name there.
const PROGRAM: &str = "journeyman";

/// It.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) folder: PathBuf,
    /// The loader's name, if the program needs one.
    loader: Option<String>,
}

impl Runtime {
    /// Copies it as this process has it.
    pub(super) fn write(folder: &Path, program: &Path) -> io::Result<Self> {
        let folder = folder.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
        let libraries = libraries()?;
        for (from, name) in libraries.iter().map(|path| (path.as_path(), name(path))).chain([(program, PROGRAM.into())])
        {
            copy(from, &folder.join(name))?;
        }
        // An image's own would be asked before anything else is.
        std::fs::write(folder.join("nothing"), "")?;
        let loader = libraries.iter().map(|path| name(path)).find(|name| name.starts_with("ld-"));
        Ok(Self { folder, loader })
    }

    /// The words with which the program is started.
    pub(super) fn words(&self) -> Vec<String> {
        let program = format!("{INSIDE}/{PROGRAM}");
        match &self.loader {
            Some(loader) => {
                let loader = format!("{INSIDE}/{loader}");
                vec![loader, "--inhibit-cache".to_owned(), "--library-path".to_owned(), INSIDE.to_owned(), program]
            }
            None => vec![program],
        }
    }

    /// The program by the name that is put in its place ([`super::Container::started`]).
    pub(super) fn usual_words(program: &Path) -> Vec<String> {
        vec![program.to_string_lossy().into_owned()]
    }
}

/// The libraries that are mapped into this process, its loader among them.
fn libraries() -> io::Result<Vec<PathBuf>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let paths = maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| PathBuf::from(format!("/{path}")));
    let mut libraries: Vec<PathBuf> = paths.filter(|path| name(path).contains(".so")).collect();
    libraries.sort();
    libraries.dedup();
    Ok(libraries)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whole or not at all: another process may be using what is there.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let draft = to.with_extension(format!("{}.draft", std::process::id()));
    std::fs::copy(from, &draft)?;
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755))?;
    std::fs::rename(&draft, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_runs_by_its_own_loader_and_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let runtime = Runtime::write(dir.path(), &program).unwrap();
        let there: Vec<String> = runtime.folder.read_dir().unwrap().map(|entry| name(&entry.unwrap().path())).collect();
        assert!(there.contains(&PROGRAM.to_owned()), "{there:?}");
        assert_eq!(runtime.words().last().unwrap(), "/run/journeyman/journeyman");
        // The same words outside.
        let words: Vec<String> =
            runtime.words().iter().map(|word| word.replace(INSIDE, runtime.folder.to_str().unwrap())).collect();
        let listed =
            std::process::Command::new(&words[0]).args(&words[1..]).arg("--list").env_clear().output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    }
}
