//! The files of the service that every container gets: a copy of this program with the libraries and the loader that it
//! needs, so that it runs in any image, and an empty `/etc/ld.so.preload`.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The path of the files in a container.
pub(super) const INSIDE: &str = "/run/journeyman";

/// The name of their folder in the folder of the back end.
const FOLDER: &str = "runtime";

/// The name of this program in that folder.
const PROGRAM: &str = "journeyman";

/// The files of the service, in a folder on the host.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) folder: PathBuf,
    /// The loader's name, if the program needs one.
    loader: Option<String>,
}

impl Runtime {
    /// Copies this program, and the libraries that this process has loaded.
    pub(super) fn write(folder: &Path, program: &Path) -> io::Result<Self> {
        let folder = folder.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755))?;
        let libraries = libraries()?;
        for (from, name) in libraries.iter().map(|path| (path.as_path(), name(path))).chain([(program, PROGRAM.into())])
        {
            copy(from, &folder.join(name))?;
        }
        // Replaces the image's `/etc/ld.so.preload`, whose libraries would otherwise be loaded before any other.
        std::fs::write(folder.join("nothing"), "")?;
        let loader = libraries.iter().map(|path| name(path)).find(|name| name.starts_with("ld-"));
        Ok(Self { folder, loader })
    }

    /// Returns the command line that starts this program in a container.
    pub(super) fn command_line(&self) -> Vec<String> {
        let program = format!("{INSIDE}/{PROGRAM}");
        match &self.loader {
            Some(loader) => {
                let loader = format!("{INSIDE}/{loader}");
                vec![loader, "--inhibit-cache".to_owned(), "--library-path".to_owned(), INSIDE.to_owned(), program]
            }
            None => vec![program],
        }
    }

    /// Returns the command line with the program's path on the host, which [`super::Container::inner_argv`] replaces.
    pub(super) fn host_command_line(program: &Path) -> Vec<String> {
        vec![program.to_string_lossy().into_owned()]
    }
}

/// Returns the libraries that are mapped into this process, including its loader.
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

/// Copies a file atomically: another process may be using the existing copy.
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
    fn the_program_runs_with_the_copied_loader_and_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let program = std::env::current_exe().unwrap();
        let runtime = Runtime::write(dir.path(), &program).unwrap();
        let there: Vec<String> = runtime.folder.read_dir().unwrap().map(|entry| name(&entry.unwrap().path())).collect();
        assert!(there.contains(&PROGRAM.to_owned()), "{there:?}");
        assert_eq!(runtime.command_line().last().unwrap(), "/run/journeyman/journeyman");
        // Run the same command line on the host.
        let words: Vec<String> =
            runtime.command_line().iter().map(|word| word.replace(INSIDE, runtime.folder.to_str().unwrap())).collect();
        let listed =
            std::process::Command::new(&words[0]).args(&words[1..]).arg("--list").env_clear().output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    }
}
