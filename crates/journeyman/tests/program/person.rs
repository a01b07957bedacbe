//! A user of the command line, with a home folder of their own.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::fixtures::{Service, Site};
use crate::binary::program;

/// A user on another machine than that of the service.
pub(crate) struct RemoteUser {
    pub(crate) home: tempfile::TempDir,
}

/// The variables of the person who runs the tests that would reach the commands.
const FOREIGN: [&str; 11] = [
    "BROWSER",
    "CLICOLOR_FORCE",
    "DISPLAY",
    "GIT_CONFIG_GLOBAL",
    "JOURNEYMAN_CONFIG",
    "JOURNEYMAN_KEY",
    "JOURNEYMAN_PROJECT",
    "JOURNEYMAN_URL",
    "NO_COLOR",
    "WAYLAND_DISPLAY",
    "XDG_CONFIG_HOME",
];

impl RemoteUser {
    pub(crate) fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// Returns a person who has logged in to a service, with the project `shop`.
    pub(crate) fn at(site: &Site, service: &Service) -> Self {
        let person = Self::new();
        let output = person.log_in(&service.url, &site.key, &["--name", "tests", "--project", "shop"]);
        assert!(output.status.success(), "{}", err(&output));
        person
    }

    /// Runs `journeyman login` with a key on stdin.
    pub(crate) fn log_in(&self, url: &str, key: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(&[&["login", url, "--key-stdin"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A command that refuses its arguments does not read the key.
        let _ = writeln!(child.stdin.take().unwrap(), "{key}");
        child.wait_with_output().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Returns a command of the program, in the home folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(program());
        command.args(arguments);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        out(&output)
    }

    /// Runs git in a folder below the home folder, and returns its output.
    pub(crate) fn git(&self, folder: &str, arguments: &[&str]) -> String {
        let output = self.program("git").args(arguments).current_dir(self.path(folder)).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", err(&output));
        out(&output)
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        for variable in FOREIGN {
            command.env_remove(variable);
        }
        command.env("HOME", self.home.path()).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
        for (name, value) in [("NAME", "Ada"), ("EMAIL", "ada@example.com")] {
            command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
        }
        command.current_dir(self.home.path()).stdin(Stdio::null());
        command
    }
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
