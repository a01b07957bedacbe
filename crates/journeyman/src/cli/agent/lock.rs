//! Lock files: the exact packages of an agent, each with its hash, so that an installation is the same everywhere and a
//! package that was replaced at the registry is refused. The lock files of the bundled agents are compiled into the
//! program.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use journeyman_core::agent::Install;
use serde::{Deserialize, Serialize};

/// The npm lock files that `scripts/lock-agents.sh` has written, by agent.
const NPM: [(&str, &str); 7] = [
    ("claude-code", include_str!("../../../../../agents/locks/claude-code/package-lock.json")),
    ("codex", include_str!("../../../../../agents/locks/codex/package-lock.json")),
    ("gemini", include_str!("../../../../../agents/locks/gemini/package-lock.json")),
    ("kimi", include_str!("../../../../../agents/locks/kimi/package-lock.json")),
    ("opencode", include_str!("../../../../../agents/locks/opencode/package-lock.json")),
    ("pi", include_str!("../../../../../agents/locks/pi/package-lock.json")),
    ("qwen", include_str!("../../../../../agents/locks/qwen/package-lock.json")),
];

/// The lock files for Python packages, by agent.
const PIP: [(&str, &str); 1] = [("vibe", include_str!("../../../../../agents/locks/vibe/requirements.txt"))];

/// The advice in errors about an unusable lock file.
const WRITE: &str = "regenerate it with the versions of the agent's table (docs/agents.md)";

/// The lock files of one installation.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub(super) npm: Option<NpmLock>,
    pub(super) pip: Option<PipLock>,
}

impl Locks {
    /// Returns the lock files that the agent's table names, or else the bundled ones for these versions.
    ///
    /// # Errors
    /// A named file cannot be read, lacks a hash, or is for other versions.
    pub(super) fn of(id: &str, install: &Install) -> anyhow::Result<Self> {
        let npm = LockFile::choose(install.npm_lock.as_deref(), bundled(&NPM, id), &install.npm)?;
        let pip = LockFile::choose(install.pip_lock.as_deref(), bundled(&PIP, id), &install.pip)?;
        Ok(Self { npm, pip })
    }

    /// Returns whether the hashes of all packages to install are known.
    pub(super) fn are_complete(&self, install: &Install) -> bool {
        (install.npm.is_empty() || self.npm.is_some()) && (install.pip.is_empty() || self.pip.is_some())
    }
}

fn bundled<'a>(locks: &[(&str, &'a str)], id: &str) -> Option<&'a str> {
    locks.iter().find(|(of, _)| *of == id).map(|(_, text)| *text)
}

/// A lock file of one package manager.
trait LockFile: Sized {
    /// The name of the setting in an agent's table that names such a lock file.
    const SETTING: &str;

    /// Parses the text of a lock file.
    ///
    /// # Errors
    /// The text is not a lock file, or a package lacks a hash.
    fn parse(text: &str) -> anyhow::Result<Self>;

    /// Returns whether the lock file has `package` in that version; the package is named as in the agent's table.
    fn has(&self, package: &str) -> bool;

    /// Returns the lock file at `path`, or else the bundled one if it has all `wanted` packages, or `None`.
    ///
    /// # Errors
    /// The file at `path` cannot be read or parsed, or lacks a wanted package.
    fn choose(path: Option<&Path>, bundled: Option<&str>, wanted: &[String]) -> anyhow::Result<Option<Self>> {
        let lacks = |lock: &Self| wanted.iter().find(|package| !lock.has(package)).cloned();
        let Some(path) = path else {
            let lock = bundled.map(Self::parse).transpose()?;
            return Ok(lock.filter(|lock| !wanted.is_empty() && lacks(lock).is_none()));
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the lock file {} cannot be read", path.display()))?;
        let unusable = || format!("the lock file {} ({}) cannot be used; {WRITE}", path.display(), Self::SETTING);
        let lock = Self::parse(&text).with_context(unusable)?;
        match lacks(&lock) {
            Some(package) => Err(anyhow::anyhow!("{package} is not in it")).with_context(unusable),
            None => Ok(Some(lock)),
        }
    }
}

/// A `package-lock.json`, version 3 (docs.npmjs.com, package-lock-json).
#[derive(Debug)]
pub(super) struct NpmLock {
    text: String,
    packages: BTreeMap<String, NpmPackage>,
}

#[derive(Debug, Deserialize)]
struct NpmFile {
    #[serde(rename = "lockfileVersion")]
    version: u32,
    packages: BTreeMap<String, NpmPackage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NpmPackage {
    version: String,
    integrity: Option<String>,
    in_bundle: bool,
    optional: bool,
    os: Words,
    cpu: Words,
    libc: Words,
    engines: Option<serde_json::Value>,
    dependencies: BTreeMap<String, String>,
    optional_dependencies: BTreeMap<String, String>,
}

/// A JSON value that is one string or a list of strings: packages use both forms.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

impl Default for Words {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Words {
    /// Returns whether `own` is among the words, or the words allow anything. A word with `!` excludes a value.
    fn fit(&self, own: &str) -> bool {
        let words = match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Several(words) => words.as_slice(),
        };
        let is_refused = words.iter().any(|word| word.strip_prefix('!') == Some(own));
        let mut wanted = words.iter().filter(|word| !word.starts_with('!')).peekable();
        !is_refused && (wanted.peek().is_none() || wanted.any(|word| word == own))
    }

    /// Returns whether there are any words.
    const fn is_given(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Several(words) => !words.is_empty(),
        }
    }
}

/// The `package.json` that belongs to a lock file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    name: &'static str,
    private: bool,
    dependencies: &'a BTreeMap<String, String>,
    optional_dependencies: &'a BTreeMap<String, String>,
}

impl LockFile for NpmLock {
    const SETTING: &str = "npm-lock";

    fn parse(text: &str) -> anyhow::Result<Self> {
        let NpmFile { version, packages } = serde_json::from_str(text)?;
        if version != 3 {
            bail!("it has lockfileVersion {version}, not 3; npm 7 or later writes version 3");
        }
        if !packages.contains_key("") {
            bail!("it has no root package");
        }
        let lacks = |(path, one): &(&String, &NpmPackage)| {
            !path.is_empty() && !one.in_bundle && one.integrity.as_ref().is_none_or(String::is_empty)
        };
        if let Some((path, _)) = packages.iter().find(lacks) {
            bail!("{path} has no hash (integrity)");
        }
        Ok(Self { text: text.to_owned(), packages })
    }

    // A package that the registry does not have for this kind of machine is reported by `check`.
    fn has(&self, package: &str) -> bool {
        let Some((name, version)) = package.rsplit_once('@').filter(|(name, _)| !name.is_empty()) else { return false };
        let is_wanted = self
            .packages
            .get("")
            .is_some_and(|root| root.dependencies.contains_key(name) || root.optional_dependencies.contains_key(name));
        let there = self.packages.get(&format!("node_modules/{name}"));
        is_wanted && there.is_none_or(|there| there.version == version)
    }
}

impl NpmLock {
    /// Writes the files that `npm ci` reads.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let root = self.packages.get("").context("the lock file has no root package")?;
        let manifest = Manifest {
            name: "agent",
            private: true,
            dependencies: &root.dependencies,
            optional_dependencies: &root.optional_dependencies,
        };
        std::fs::write(folder.join("package.json"), serde_json::to_vec_pretty(&manifest)?)?;
        Ok(std::fs::write(folder.join("package-lock.json"), &self.text)?)
    }

    /// Checks that no package is missing: npm silently skips an optional package, even if its hash does not match the
    /// lock file.
    pub(super) fn check(&self, folder: &Path, arch: &str) -> anyhow::Result<()> {
        let is_missing =
            |(path, one): &(&String, &NpmPackage)| one.is_for(arch) && !folder.join(path.as_str()).exists();
        match self.packages.iter().find(is_missing) {
            Some((path, one)) => bail!(
                "the package {} {} was not installed: the registry does not have it, or serves a package whose hash \
                 differs from the lock file",
                path.trim_start_matches("node_modules/"),
                one.version
            ),
            None => Ok(()),
        }
    }
}

impl NpmPackage {
    /// Returns whether npm is certain to install the package on a machine of this architecture. An optional package is
    /// certain only if it names an operating system or architecture: npm skips others, such as WebAssembly builds and
    /// their dependencies. An optional package with `engines` is not certain, because this check ignores the version of
    /// Node.js.
    fn is_for(&self, arch: &str) -> bool {
        let names_machine = self.os.is_given() || self.cpu.is_given();
        let is_certain = !self.optional || (names_machine && self.engines.is_none());
        is_certain && self.os.fit("linux") && self.cpu.fit(arch) && self.libc.fit("glibc")
    }
}

/// A `requirements.txt` with hashes (pip.pypa.io, secure installs).
#[derive(Debug)]
pub(super) struct PipLock(pub(super) String);

impl LockFile for PipLock {
    const SETTING: &str = "pip-lock";

    fn parse(text: &str) -> anyhow::Result<Self> {
        // A line that ends with a backslash continues on the next.
        let whole = text.replace("\\\n", " ");
        for line in whole.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            // Options can name other indexes to install from.
            if line.starts_with('-') || !line.contains("==") || !line.contains("--hash=sha256:") {
                bail!(
                    "{:?} is not a package with a pinned version and hashes",
                    line.split(' ').next().unwrap_or_default()
                );
            }
        }
        Ok(Self(text.to_owned()))
    }

    fn has(&self, package: &str) -> bool {
        self.0.lines().any(|line| line.split([' ', ';']).next() == Some(package))
    }
}

#[cfg(test)]
mod tests;
