//! The help of the program, with its commands in groups.

use clap::Command;
use clap::builder::Styles;

/// The commands by what they are for, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Work with a server", &["job", "pr", "template", "webhook", "mcp", "login", "logout", "context"]),
    ("Manage projects and access, on this machine or a server", &["project", "key", "user"]),
    ("Manage an installation on this machine", &["trust", "code-host", "slack", "agent"]),
    (
        "Run the service",
        &["serve", "config", "demo", "doctor", "migrate", "backup", "restore", "store", "key-encryption"],
    ),
    ("About the program", &["completions", "man", "openapi", "help"]),
];

/// Returns the command with its subcommands in groups.
pub(super) fn grouped(command: Command) -> Command {
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{}\n{{options}}{{after-help}}",
        commands(&command),
        heading("Options")
    );
    command.help_template(template)
}

fn commands(command: &Command) -> String {
    let literal = Styles::default().get_literal().to_owned();
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let about = |name: &str| match command.find_subcommand(name) {
        Some(found) => found.get_about().map(ToString::to_string).unwrap_or_default(),
        None => "Print this message, or the help of a command".to_owned(),
    };
    let line = |name: &&str| format!("  {literal}{name:<width$}{literal:#}  {}\n", about(name));
    let group = |(title, names): &(&str, &[&str])| {
        let lines: String = names.iter().map(line).collect();
        format!("{}\n{lines}\n", heading(title))
    };
    GROUPS.iter().map(group).collect()
}

fn heading(title: &str) -> String {
    let header = Styles::default().get_header().to_owned();
    format!("{header}{title}:{header:#}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cli::command_line;

    #[test]
    fn each_command_is_in_one_group() {
        let listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let visible = command_line();
        let visible: BTreeSet<&str> =
            visible.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        let mut expected: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(expected.len(), listed.len(), "a command is listed twice");
        expected.remove("help");
        assert_eq!(visible, expected);
    }

    #[test]
    fn the_help_has_the_groups_and_short_lines() {
        let help = command_line().render_help().to_string();
        for (title, names) in GROUPS {
            assert!(help.contains(&format!("{title}:\n")), "{title}: {help}");
            for name in names {
                assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("{name} "))), "{name}: {help}");
            }
        }
        let too_long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(too_long.is_empty(), "{too_long:#?}");
        assert!(!help.contains('{'), "{help}");
    }

    #[test]
    fn the_arguments_of_all_commands_are_consistent() {
        command_line().debug_assert();
    }
}
