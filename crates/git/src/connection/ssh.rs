//! The settings of ssh for a host, which the configuration of the service's user may change.

use journeyman_net::Target;
use std::time::Duration;

use crate::command::Git;
use crate::shell::quoted;

/// The time limit for reading the configuration.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The usual port of ssh.
const PORT: u16 = 22;

/// The settings of ssh for a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SshSettings {
    /// The destination that ssh would connect to.
    pub(super) target: Target,
    /// The name in the file of known hosts, if the configuration has another one than the destination.
    alias: Option<String>,
    /// True if ssh connects through a program or a host of the configuration.
    pub(super) is_proxied: bool,
}

/// Reads the settings of ssh for a host. An ssh that does not print them uses the host itself.
pub(super) async fn settings(git: &Git, user: &str, host: &str, port: Option<u16>) -> SshSettings {
    let mut arguments = vec!["-G".to_owned(), "-oBatchMode=yes".to_owned()];
    arguments.extend(port.map(|port| format!("-p{port}")));
    if !user.is_empty() {
        arguments.push(format!("-l{user}"));
    }
    arguments.extend(["--".to_owned(), host.to_owned()]);
    let asked = git.with_program("ssh").command(arguments).timeout(TIMEOUT).run().await;
    let printed = asked.ok().and_then(|output| output.text().ok()).unwrap_or_default();
    parse(&printed, host, port)
}

fn parse(printed: &str, host: &str, port: Option<u16>) -> SshSettings {
    let mut target = Target { host: host.to_owned(), port: port.unwrap_or(PORT) };
    let (mut alias, mut is_proxied) = (None, false);
    for (name, value) in printed.lines().filter_map(|line| line.trim().split_once(' ')) {
        match name {
            "hostname" => target.host = value.trim_matches(['[', ']']).to_lowercase(),
            "port" => target.port = value.parse().unwrap_or(target.port),
            "hostkeyalias" => alias = Some(value.to_owned()),
            "proxycommand" | "proxyjump" => is_proxied |= value != "none",
            _ => {}
        }
    }
    SshSettings { target, alias, is_proxied }
}

impl SshSettings {
    /// Returns the command with which git starts ssh, so that it connects to a port of this machine and expects the host
    /// key of the destination.
    pub(super) fn command(&self, port: u16) -> String {
        let Target { host, port: own } = &self.target;
        let known = match &self.alias {
            Some(alias) => alias.clone(),
            // As ssh writes it into the file of known hosts.
            None if *own == PORT => host.clone(),
            None => format!("[{host}]:{own}"),
        };
        let alias = quoted(&format!("-oHostKeyAlias={known}"));
        // A connection that another process shares leads to an address that was not checked now.
        format!(
            "ssh -oBatchMode=yes -oHostName=127.0.0.1 -oPort={port} {alias} -oCheckHostIP=no -oControlPath=none \
             -oControlMaster=no -oCanonicalizeHostname=no -oProxyCommand=none"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16) -> Target {
        Target { host: host.to_owned(), port }
    }

    #[test]
    fn the_configuration_of_ssh_names_the_destination() {
        let none = parse("", "git.example", None);
        assert_eq!(none, SshSettings { target: target("git.example", 22), alias: None, is_proxied: false });
        assert!(none.command(4000).contains("-oPort=4000 '-oHostKeyAlias=git.example' "), "{}", none.command(4000));
        let other = parse("host work\nhostname Git.Example\nport 2222\nproxycommand none\n", "work", None);
        assert_eq!(other.target, target("git.example", 2222));
        assert!(other.command(1).contains("'-oHostKeyAlias=[git.example]:2222'"), "{}", other.command(1));
        let alias = parse("hostname git.example\nport 2222\nhostkeyalias key\n", "git.example", Some(2222));
        assert!(alias.command(1).contains("'-oHostKeyAlias=key'"), "{}", alias.command(1));
        for proxied in ["proxycommand nc %h %p", "proxyjump jump.example"] {
            assert!(parse(&format!("hostname x\n{proxied}\n"), "x", None).is_proxied, "{proxied}");
        }
    }
}
