//! Repositories of unusual shapes, as public ones have them: what people have committed, what an agent does, and exactly
//! what is published then, with the bytes that git stores.

mod content;
mod history;
mod ignores;
mod kinds;
mod names;
mod operations;
mod people;

use std::process::Command;

use journeyman_core::left_out::{LeftOut, LeftOutReason};

use super::{COMMIT, told};
use crate::commit::Work;
use crate::fixtures::{Built, Fixture, fixture, text_of};

/// A repository and a turn in it.
struct Shape {
    name: &'static str,
    /// What people do in their clone. `base` commits all files, and the last commit is pushed to `main`.
    people: &'static str,
    agent: &'static str,
    /// The changes: the kind of change, the modes, the path, and what git stores. Bytes that are not ASCII have escapes.
    published: &'static [&'static str],
    left_out: &'static [(&'static str, LeftOutReason)],
    /// The number of commits that are published.
    commits: usize,
    /// Why the agent's own commits are not among them.
    replaced: Option<LeftOutReason>,
    /// The maximum size of a file, in bytes.
    file_bytes: u64,
}

/// What every shape does not have.
const PLAIN: Shape = Shape {
    name: "",
    people: "base",
    agent: "true",
    published: &[],
    left_out: &[],
    commits: 1,
    replaced: None,
    file_bytes: 1000,
};

/// Functions of the scripts of people. `odd` creates a commit of the tree `$1` with the author and committer `$2`.
const FUNCTIONS: &str = r#"
base() { git add --all; git commit -qm "${1:-base}" --allow-empty; }
odd() { printf 'tree %s\n%bauthor %b\ncommitter %b\n%b\n%b' "$1" "${5:-}" "$2" "$2" "${4:-}" "${3:-odd\n}" |
	git hash-object -t commit -w --stdin --literally; }
"#;

/// The contents of which more bytes are not shown.
const SHOWN: usize = 80;

/// The longest path that is shown.
const SHOWN_PATH: usize = 100;

/// Runs a script of people, and returns the tree before the turn of an agent.
async fn of_people(people: &str) -> (Fixture, Built) {
    let fixture = fixture("true").await;
    let clone = fixture.dir.path().join("clone");
    let script = format!(
        "{FUNCTIONS}{people}\ngit push -q ../origin.git HEAD:refs/heads/main; git push -q --tags ../origin.git"
    );
    let mut shell = Command::new("sh");
    shell.args(["-ec", &script]).current_dir(clone).env("GIT_CONFIG_GLOBAL", "/dev/null");
    for role in ["AUTHOR", "COMMITTER"] {
        shell.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.com");
    }
    text_of(&mut shell);
    let before = fixture.build().await;
    (fixture, before)
}

/// Returns what is published, in the form of [`Shape::published`].
async fn changes(fixture: &Fixture, before: &Built, head: &str) -> Vec<String> {
    let mirror = fixture.mirror().await;
    let difference = ["diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", "-z", before.head.as_str(), head];
    let output = mirror.git.at(&mirror.path, difference).run().await.unwrap().stdout;
    let fields: Vec<&[u8]> = output.split(|byte| *byte == 0).filter(|field| !field.is_empty()).collect();
    let mut found = Vec::new();
    for pair in fields.chunks(2) {
        let header = String::from_utf8(pair[0].to_vec()).unwrap();
        let [old_mode, new_mode, _, object, kind] = header.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{header}")
        };
        let modes = match kind {
            "A" => new_mode.to_owned(),
            "D" => old_mode[1..].to_owned(),
            _ if old_mode[1..] == *new_mode => new_mode.to_owned(),
            _ => format!("{}>{new_mode}", &old_mode[1..]),
        };
        let content = match new_mode {
            "000000" => String::new(),
            "160000" => " | a commit".to_owned(),
            _ => {
                let blob = ["cat-file", "blob", object];
                let bytes = mirror.git.at(&mirror.path, blob).run().await.unwrap().stdout;
                format!(" | {}", shown(&bytes, SHOWN))
            }
        };
        found.push(format!("{kind} {modes} {}{content}", shown(pair[1], SHOWN_PATH)));
    }
    found
}

/// Returns bytes as text; only the first ones and the number, if there are many.
fn shown(bytes: &[u8], most: usize) -> String {
    match bytes.get(..most) {
        Some(start) if bytes.len() > most => format!("{} ({} bytes)", start[..20].escape_ascii(), bytes.len()),
        _ => bytes.escape_ascii().to_string(),
    }
}

/// Checks the shapes, and reports all that differ.
async fn check_all(shapes: &'static [Shape]) {
    let mut failures = Vec::new();
    for shape in shapes {
        // A panic is a failure of this shape only.
        let checked = tokio::spawn(check(shape)).await;
        if let Err(text) = checked.unwrap_or_else(|panic| Err(format!("  {panic}"))) {
            failures.push(format!("{}:\n{text}", shape.name));
        }
    }
    assert!(failures.is_empty(), "{} of {} shapes differ\n{}", failures.len(), shapes.len(), failures.join("\n"));
}

async fn check(shape: &'static Shape) -> Result<(), String> {
    let Shape { people, agent, published, left_out, commits, .. } = shape;
    let (mut fixture, before) = of_people(people).await;
    fixture.file_bytes = shape.file_bytes;
    fixture.run(agent);
    let collected = match fixture.work(&before).await.map_err(|error| format!("  {error}"))? {
        Work::Committed(collected) => collected,
        Work::Unfinished(unfinished) => return Err(format!("  {unfinished:?}")),
    };
    let number = collected.commits.len();
    let found = changes(&fixture, &before, collected.head.as_str()).await;
    let left_out: Vec<_> = left_out.iter().map(|(path, reason)| format!("{path}: {reason:?}")).collect();
    let lines = |left_out: &[LeftOut]| -> Vec<_> {
        told(left_out)
            .iter()
            .map(|(path, reason)| format!("{}: {reason:?}", shown(path.as_bytes(), SHOWN_PATH)))
            .collect()
    };
    let found_left_out = lines(&collected.left_out);
    let replaced_for = format!("{:?}", collected.replaced.as_ref().map(|one| one.reason));
    let mut text = String::new();
    let mut compare = |what: &str, found: &[String], expected: &[String]| {
        if found != expected {
            text += &format!("  {what}\n    {}\n  expected\n    {}\n", found.join("\n    "), expected.join("\n    "));
        }
    };
    compare("published", &found, &published.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
    compare("left out", &found_left_out, &left_out);
    compare("commits", &[number.to_string()], &[commits.to_string()]);
    compare("replaced", &[replaced_for], &[format!("{:?}", shape.replaced)]);
    // A second turn without a change publishes nothing.
    let next = fixture.next(&before, collected);
    let again = fixture.collect(&next).await.map_err(|error| format!("  again: {error}"))?;
    compare("again, the head", &[again.head.to_string()], &[next.head.to_string()]);
    // Commits are replaced once.
    let stays: Vec<_> = shape.left_out.iter().filter(|(_, reason)| reason.is_only_in_workspace()).collect();
    let stays: Vec<_> = stays.iter().map(|(path, reason)| format!("{path}: {reason:?}")).collect();
    compare("again, left out", &lines(&again.left_out), &stays);
    if text.is_empty() { Ok(()) } else { Err(text) }
}
