//! People who use the dashboard: the first one's link, and the command line.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::given::site;

#[test]
fn the_first_start_prints_a_link_and_it_makes_one_administrator() {
    let site = site();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--log", "error"];
    let mut process = site.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let printed: Vec<String> =
        BufReader::new(process.stdout.take().unwrap()).lines().take(2).map(Result::unwrap).collect();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(printed[0].starts_with("Nobody administers this server yet."), "{printed:?}");
    assert!(printed[1].contains("/setup?link="), "{printed:?}");

    let service = site.start();
    assert!(!service.log().contains("link="), "whoever reads the log is no administrator: {}", service.log());
    let cookie = service.use_link(&printed[1]);
    assert!(cookie.starts_with("journeyman="), "{cookie}");
    let users = site.succeed(&["user", "list"]);
    assert!(users.contains("ada") && users.contains("administrator"), "{users}");
    let again = site.run(&["user", "link"]);
    assert!(!again.status.success());
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(said.contains("there is an administrator, ada; say whose password is to be set"), "{said}");
}

#[test]
fn people_are_added_and_given_links_at_the_command_line() {
    let site = site();
    let service = site.start();
    let first = site.succeed(&["user", "add", "Bob@example.com", "--role", "viewer"]);
    let second = site.succeed(&["user", "link", "bob@example.com"]);
    service.use_link(&second);
    assert_ne!(first, second);
    let listed = site.succeed(&["user", "list"]);
    assert!(listed.lines().any(|line| line.starts_with("bob@example.com  viewer  password")), "{listed}");
    for (arguments, text) in [
        (vec!["user", "add", "bob@example.com"], "there is a user with this name already"),
        (vec!["user", "add", "b b"], "a name has 1 to 100"),
        (vec!["user", "link", "nobody"], "there is no user nobody; `journeyman user list` shows all"),
    ] {
        let output = site.run(&arguments);
        assert!(!output.status.success(), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(text), "{arguments:?}: {said}");
    }
}
