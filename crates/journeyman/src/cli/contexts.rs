//! The stored contexts: servers with the API keys that `journeyman login` has verified.
//!
//! They are in one file, which only its owner can read and which is replaced as a whole (docs/decisions/0049).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::config::ClientEnvironment;

/// The maximum size of the file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A server, and the key to use there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Context {
    /// The URL of the server.
    pub(super) url: String,
    /// The API key.
    pub(super) key: String,
    /// The name of the key on the server.
    pub(super) key_name: String,
    /// The project of commands that name none.
    #[serde(default)]
    pub(super) project: Option<String>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("url", &self.url).field("key_name", &self.key_name).finish_non_exhaustive()
    }
}

impl Context {
    /// Returns whether this context is for the server at `url`.
    pub(super) fn is_at(&self, url: &str) -> bool {
        matches!((base(&self.url), base(url)), (Some(own), Some(other)) if own == other)
    }
}

/// Parses the URL of a server, and adds the slash at its end.
pub(super) fn base(url: &str) -> Option<Url> {
    let mut base = Url::parse(url).ok()?;
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    Some(base)
}

/// All contexts by their names.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Contexts {
    /// The name of the context that commands use by default.
    #[serde(default)]
    pub(super) current: Option<String>,
    /// The contexts.
    #[serde(default)]
    pub(super) contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Returns the current context with its name.
    pub(super) fn current(&self) -> Option<(&str, &Context)> {
        let (name, context) = self.contexts.get_key_value(self.current.as_ref()?)?;
        Some((name.as_str(), context))
    }

    /// Returns the contexts, the current one first.
    pub(super) fn by_preference(&self) -> impl Iterator<Item = (&str, &Context)> {
        let others = self.contexts.iter().filter(|(name, _)| self.current.as_ref() != Some(*name));
        self.current().into_iter().chain(others.map(|(name, context)| (name.as_str(), context)))
    }

    /// Adds or replaces a context, and makes it the current one.
    pub(super) fn put(&mut self, name: &str, context: Context) {
        self.contexts.insert(name.to_owned(), context);
        self.current = Some(name.to_owned());
    }

    /// Removes a context. Without a current context, commands use none until one is chosen.
    pub(super) fn remove(&mut self, name: &str) -> Option<Context> {
        if self.current.as_deref() == Some(name) {
            self.current = None;
        }
        self.contexts.remove(name)
    }

    /// Returns the error for a context that does not exist.
    pub(super) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
        match names.is_empty() {
            true => format!("there is no context {name:?}; `journeyman login` creates one"),
            false => format!("there is no context {name:?}; the contexts are {}", names.join(", ")),
        }
    }
}

/// The file with the contexts.
#[derive(Debug)]
pub(super) struct ContextFile {
    path: PathBuf,
}

impl ContextFile {
    /// Returns the file of the user.
    ///
    /// # Errors
    /// The user has no folder for configuration.
    pub(super) fn of(environment: &ClientEnvironment) -> anyhow::Result<Self> {
        let home = environment.config_home.as_ref();
        let home = home.context("there is no folder for the contexts: set HOME or XDG_CONFIG_HOME")?;
        Ok(Self { path: home.join("journeyman/contexts.json") })
    }

    /// Reads the contexts of the user; there are none without the file.
    ///
    /// # Errors
    /// The file cannot be read, or others could have read or written it.
    pub(super) fn read_of(environment: &ClientEnvironment) -> anyhow::Result<Contexts> {
        match &environment.config_home {
            Some(_) => Self::of(environment)?.read(),
            None => Ok(Contexts::default()),
        }
    }

    /// Returns the path, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the contexts; there are none without the file.
    ///
    /// # Errors
    /// The file cannot be read, or others could have read or written it.
    pub(super) fn read(&self) -> anyhow::Result<Contexts> {
        let path = self.path.display();
        let mut file = match open(&self.path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(Contexts::default()),
            Err(Errno::LOOP) => {
                bail!(
                    "{path} is a symbolic link; it contains API keys, so it must be a file: replace it with its target"
                )
            }
            Err(error) => return Err(error).with_context(|| format!("{path} cannot be opened")),
        };
        check(&file.metadata().with_context(|| format!("{path} cannot be read"))?, &self.path)?;
        let mut text = String::new();
        Read::by_ref(&mut file)
            .take(MAX_BYTES)
            .read_to_string(&mut text)
            .with_context(|| format!("{path} cannot be read"))?;
        // The error of the parser could contain a part of a key.
        serde_json::from_str(&text)
            .ok()
            .with_context(|| format!("{path} is not valid; correct it, or remove it and run `journeyman login` again"))
    }

    /// Changes the contexts, while no other process does.
    ///
    /// # Errors
    /// The file cannot be read or written, or others could have read it.
    pub(super) fn change<T>(&self, edit: impl FnOnce(&mut Contexts) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let folder = self.path.parent().context("the path of the contexts has no folder")?;
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("{} cannot be created", folder.display()))?;
        check_folder(folder)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = open(folder.join("contexts.lock"), flags, Mode::RUSR | Mode::WUSR);
        let lock = lock.with_context(|| format!("{} cannot be locked", folder.display()))?;
        flock(&lock, FlockOperation::LockExclusive)
            .with_context(|| format!("{} cannot be locked", folder.display()))?;
        let mut contexts = self.read()?;
        let done = edit(&mut contexts)?;
        self.write(folder, &contexts).with_context(|| format!("{} cannot be written", self.path.display()))?;
        Ok(done)
    }

    /// Replaces the file as a whole. Only its owner can read it, also while it is written.
    fn write(&self, folder: &Path, contexts: &Contexts) -> anyhow::Result<()> {
        let permissions = std::fs::Permissions::from_mode(0o600);
        let mut file = tempfile::Builder::new().prefix(".contexts.").permissions(permissions).tempfile_in(folder)?;
        file.write_all(&serde_json::to_vec_pretty(contexts)?)?;
        file.as_file().sync_all()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

/// Refuses a file that others may have read or written.
fn check(found: &std::fs::Metadata, path: &Path) -> anyhow::Result<()> {
    let path = path.display();
    if !found.is_file() {
        bail!("{path} is not a file");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        bail!("{path} belongs to another user; it contains API keys, so it must belong to you");
    }
    if found.mode() & 0o077 != 0 {
        bail!(
            "other users can access {path} (mode {:o}), which contains API keys: run `chmod 600 {path}`, and replace the \
             keys if others may have read them",
            found.mode() & 0o777
        );
    }
    Ok(())
}

/// Refuses a folder in which others could replace the file.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let found = std::fs::metadata(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let folder = folder.display();
    if found.uid() != rustix::process::geteuid().as_raw() {
        bail!("{folder} belongs to another user; it is to contain API keys, so it must belong to you");
    }
    if found.mode() & 0o022 != 0 {
        bail!("other users can write to {folder}, which is to contain API keys: run `chmod 700 {folder}`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(url: &str) -> Context {
        Context { url: url.to_owned(), key: "jmn_s3cret".to_owned(), key_name: "me".to_owned(), project: None }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    fn file(dir: &tempfile::TempDir) -> ContextFile {
        let config_home = Some(dir.path().join("config"));
        ContextFile::of(&ClientEnvironment { config_home, ..ClientEnvironment::default() }).unwrap()
    }

    fn put(file: &ContextFile, name: &str, url: &str) -> anyhow::Result<()> {
        file.change(|contexts| {
            contexts.put(name, context(url));
            Ok(())
        })
    }

    #[test]
    fn contexts_are_written_for_their_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        assert_eq!(file.read().unwrap(), Contexts::default());
        put(&file, "home", "http://localhost:8080").unwrap();
        put(&file, "work", "https://work.example.com").unwrap();
        let contexts = file.read().unwrap();
        assert_eq!(contexts.current().map(|(name, _)| name), Some("work"));
        assert_eq!(contexts.by_preference().map(|(name, _)| name).collect::<Vec<_>>(), ["work", "home"]);
        assert_eq!((mode(&file.path), mode(file.path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&dir.path().join("config")), 0o700);
        assert!(!format!("{contexts:?}").contains("s3cret"));
        let left = std::fs::read_dir(file.path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 2, "only the file and the lock are left");
    }

    #[test]
    fn a_file_that_others_can_read_or_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        put(&file, "home", "http://localhost:8080").unwrap();
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:o}")), "{error}");
            assert!(put(&file, "work", "http://b").is_err(), "it is not replaced either");
        }
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let target = dir.path().join("target");
        std::fs::rename(&file.path, &target).unwrap();
        std::os::unix::fs::symlink(&target, &file.path).unwrap();
        let error = file.read().unwrap_err().to_string();
        assert!(error.contains("is a symbolic link"), "{error}");
        assert!(put(&file, "work", "http://b").is_err());
        std::fs::remove_file(&file.path).unwrap();
        std::fs::create_dir(&file.path).unwrap();
        assert!(file.read().unwrap_err().to_string().contains("is not a file"));
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        put(&file, "home", "http://localhost:8080").unwrap();
        let folder = file.path.parent().unwrap();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o770)).unwrap();
        let error = put(&file, "work", "http://b").unwrap_err().to_string();
        assert!(error.contains("chmod 700"), "{error}");
    }

    #[test]
    fn a_broken_file_is_reported_without_its_text() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir);
        put(&file, "home", "http://localhost:8080").unwrap();
        std::fs::write(&file.path, "{\"contexts\": {\"home\": \"jmn_s3cret\"}}").unwrap();
        let error = format!("{:#}", file.read().unwrap_err());
        assert!(error.contains("is not valid") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn contexts_are_compared_by_their_normalized_urls() {
        let home = context("https://h.example/jm");
        for (url, same) in [
            ("https://H.example:443/jm/", true),
            ("https://h.example/", false),
            ("http://h.example/jm", false),
            ("nonsense", false),
        ] {
            assert_eq!(home.is_at(url), same, "{url}");
        }
        assert!(!context("nonsense").is_at("nonsense"));
    }

    #[test]
    fn removing_the_current_context_leaves_none_chosen() {
        let mut contexts = Contexts::default();
        assert!(contexts.unknown("x").contains("journeyman login"));
        contexts.put("a", context("http://a"));
        contexts.put("b", context("http://b"));
        assert!(contexts.unknown("x").contains("a, b"));
        assert!(contexts.remove("b").is_some() && contexts.remove("b").is_none());
        assert_eq!(contexts.current(), None);
    }
}
