//! Tests of the commit and the secrets with which a setup command runs, and of the workspace that the agent finds
//! afterward.

use journeyman_core::ports::Blobs as _;
use journeyman_core::run::ReasonCode;

use crate::error::RunError;
use crate::fixtures::{BRANCH, Fixture, VALUE, fixture};

/// An attempt of an agent to run its code with a secret of the setup command.
struct Attack {
    name: &'static str,
    /// The project's setup command, which writes the length of its secret to `made`.
    setup: &'static str,
    /// Files that people have committed.
    base: &'static [(&'static str, &'static str)],
    /// Files that the agent has committed.
    tree: &'static [(&'static str, &'static str)],
    /// Files that the agent has put into its home.
    home: &'static [(&'static str, &'static str)],
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "a script of the repository",
        setup: "sh setup.sh",
        base: &[("setup.sh", "echo ${#TOKEN} > made")],
        tree: &[("setup.sh", "echo ${#TOKEN} > made; echo $TOKEN > leak")],
        home: &[],
    },
    Attack {
        name: "a script that a package names",
        setup: r#"sh -c "$(sed -n 's/.*"preinstall": "\(.*\)".*/\1/p' package.json)"; echo ${#TOKEN} > made"#,
        base: &[("package.json", r#"{"scripts": {"preinstall": "true"}}"#)],
        tree: &[("package.json", r#"{"scripts": {"preinstall": "echo $TOKEN > leak"}}"#)],
        home: &[],
    },
    Attack {
        name: "a hook of the repository",
        setup: "git config core.hooksPath .hooks; git checkout -q -b other; git checkout -q -; echo ${#TOKEN} > made",
        base: &[("README.md", "x")],
        tree: &[(".hooks/post-checkout", "#!/bin/sh\necho $TOKEN > leak\n")],
        home: &[],
    },
    Attack {
        name: "a file that a shell reads",
        setup: "[ ! -f ~/.profile ] || . ~/.profile; echo ${#TOKEN} > made",
        base: &[("README.md", "x")],
        tree: &[],
        home: &[(".profile", "echo $TOKEN > ~/leak")],
    },
    Attack {
        name: "a program of the same name",
        setup: "PATH=~/.local/bin:$PATH; uname > /dev/null; echo ${#TOKEN} > made",
        base: &[("README.md", "x")],
        tree: &[],
        home: &[(".local/bin/uname", "#!/bin/sh\necho $TOKEN > ~/leak\n")],
    },
    Attack {
        name: "a setting of git",
        setup: "git status > /dev/null; echo ${#TOKEN} > made",
        base: &[("README.md", "x")],
        tree: &[],
        home: &[(".gitconfig", "[core]\n\tfsmonitor = \"sh ~/monitor\"\n"), ("monitor", "echo $TOKEN > ~/leak")],
    },
    Attack {
        name: "a filter of git",
        setup: "rm README.md; git checkout README.md; echo ${#TOKEN} > made",
        base: &[("README.md", "x")],
        tree: &[(".gitattributes", "* filter=evil\n")],
        home: &[(".gitconfig", "[filter \"evil\"]\n\tsmudge = \"echo $TOKEN > ~/leak; cat\"\n")],
    },
];

impl Attack {
    /// Returns a fixture with the agent's files, and the head of its branch.
    async fn planted(&self) -> (Fixture, journeyman_core::ids::Sha) {
        let fixture = fixture(self.setup).await;
        fixture.commit("main", self.base);
        let head = fixture.commit(BRANCH, self.tree);
        fixture.store_home(self.home).await;
        (fixture, head)
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, RunError>) -> String {
    let Err(RunError::Failed { reason, retry: false }) = result else { panic!("{result:?}") };
    assert_eq!(reason.code, ReasonCode::SetupFailed);
    assert!(!reason.text.contains(VALUE), "{}", reason.text);
    reason.text
}

#[tokio::test]
async fn code_of_an_agent_does_not_run_with_a_secret_that_the_agent_does_not_get() {
    for attack in ATTACKS {
        let (fixture, head) = attack.planted().await;
        fixture.prepare(&head, true, false).await.unwrap();
        assert_eq!(fixture.tree("made").as_deref(), Some("18\n"), "{}: the setup command had the secret", attack.name);
        assert!(!fixture.is_leaked(), "{}", attack.name);
        for (file, text) in attack.tree {
            assert_eq!(fixture.tree(file).as_deref(), Some(*text), "{}: the agent finds its work", attack.name);
        }
        for (file, text) in attack.home {
            assert_eq!(fixture.home(file).as_deref(), Some(*text), "{}: the agent finds its home", attack.name);
        }
        // The control case: if the agent gets the secret too, the setup command runs on the agent's work, in its home.
        fixture.prepare(&head, true, true).await.unwrap();
        assert!(fixture.is_leaked(), "{}: the attack works", attack.name);
    }
}

#[tokio::test]
async fn a_prepared_home_is_the_agents_and_no_setup_command_with_other_secrets_sees_it() {
    for attack in ATTACKS.iter().filter(|attack| !attack.home.is_empty()) {
        let (fixture, head) = attack.planted().await;
        // The stored home is what the agent has unpacked when it was prepared.
        let stored = fixture.sandbox.workspace.scratch.file(fixture.claimed.job.id, "stored").await.unwrap();
        assert!(fixture.blobs.get("home", &stored).await.unwrap());
        std::fs::rename(stored, fixture.prepared_home()).unwrap();
        fixture.prepare(&head, false, false).await.unwrap();
        assert_eq!(fixture.tree("made").as_deref(), Some("18\n"), "{}: the setup command had the secret", attack.name);
        assert!(!fixture.is_leaked(), "{}", attack.name);
        for (file, text) in attack.home {
            assert_eq!(fixture.home(file).as_deref(), Some(*text), "{}: the agent finds its home", attack.name);
        }
        fixture.prepare(&head, false, true).await.unwrap();
        assert!(fixture.is_leaked(), "{}: the attack works", attack.name);
    }
}

#[tokio::test]
async fn commits_of_people_on_top_of_an_agents_commits_do_not_make_those_accepted() {
    let fixture = fixture("sh setup.sh").await;
    fixture.commit("main", &[("setup.sh", "echo ${#TOKEN} > made")]);
    fixture.commit(BRANCH, &[("setup.sh", "echo $TOKEN > leak")]);
    let head = fixture.commit(BRANCH, &[("people", "1")]);
    fixture.prepare(&head, false, false).await.unwrap();
    assert_eq!((fixture.tree("made").as_deref(), fixture.tree("people").as_deref()), (Some("18\n"), Some("1")));
    assert!(!fixture.is_leaked());
}

#[tokio::test]
async fn a_job_that_starts_from_the_branch_of_another_is_set_up_on_an_accepted_commit() {
    let fixture = fixture("sh setup.sh").await;
    fixture.commit("main", &[("setup.sh", "echo ${#TOKEN} > made")]);
    // Neither the name of the branch nor the author of its commits matters.
    let head = fixture.commit("looks-harmless", &[("setup.sh", "echo $TOKEN > leak")]);
    fixture.prepare(&head, false, false).await.unwrap();
    assert_eq!(fixture.tree("made").as_deref(), Some("18\n"));
    assert!(!fixture.is_leaked());
}

#[tokio::test]
async fn code_that_people_have_merged_runs_with_the_secrets() {
    let fixture = fixture("sh setup.sh").await;
    fixture.commit("main", &[("setup.sh", "echo ${#TOKEN} > made")]);
    let merged = fixture.commit(BRANCH, &[("setup.sh", "echo merged ${#TOKEN} > made")]);
    fixture.in_clone(&["push", "--quiet", "../origin.git", "HEAD:main"]);
    for (head, what) in [(merged.clone(), "the merged commit"), (fixture.commit(BRANCH, &[("a", "1")]), "one after it")]
    {
        fixture.prepare(&head, false, false).await.unwrap();
        assert_eq!(fixture.tree("made").as_deref(), Some("merged 18\n"), "{what}");
    }
    // If the project names another branch, commits accepted there count too.
    let mut fixture = fixture;
    let stable = fixture.commit("stable", &[("setup.sh", "echo stable ${#TOKEN} > made")]);
    for (what, base, expected) in [("none", None, "merged 18\n"), ("stable", Some("stable"), "stable 18\n")] {
        fixture.project.settings.pull_request.base = base.map(str::to_owned);
        fixture.prepare(&stable, false, false).await.unwrap();
        assert_eq!(fixture.tree("made").as_deref(), Some(expected), "{what}");
    }
    fixture.project.settings.pull_request.base = Some(BRANCH.to_owned());
    let own = fixture.commit(BRANCH, &[("setup.sh", "echo $TOKEN > leak")]);
    fixture.prepare(&own, false, false).await.unwrap();
    assert!(!fixture.is_leaked(), "the job's own branch accepts nothing");
}

/// Like `npm ci`: installs the packages of a lock file into a folder that git ignores, and fails without the token.
const INSTALL: &str = "[ -n \"$TOKEN\" ] || exit 1; rm -rf node_modules; mkdir node_modules; \
                       while read -r name; do echo module > node_modules/$name; done < package-lock.json; \
                       mkdir -p ~/.npm/_cacache; echo fresh > ~/.npm/_cacache/setup; echo fresh > ~/.npmrc; \
                       echo touched >> README.md; echo untracked > report; echo $TOKEN | wc -c > ~/.npm/length";

#[tokio::test]
async fn installed_files_are_kept_at_a_later_head_of_the_branch() {
    let fixture = fixture(INSTALL).await;
    let files = [("package-lock.json", "a\nb\n"), (".gitignore", "node_modules\n"), ("README.md", "1\n"), ("old", "x")];
    let first = fixture.commit("main", &files);
    fixture.prepare(&first, false, false).await.unwrap();
    assert_eq!(
        (fixture.tree("node_modules/b").as_deref(), fixture.home(".npmrc").as_deref()),
        (Some("module\n"), Some("fresh\n"))
    );
    assert_eq!(fixture.tree("README.md").as_deref(), Some("1\ntouched\n"), "the first turn commits its changes");

    let changed = [("package-lock.json", "a\nb\nc\n"), ("README.md", "2\n"), ("old", ""), ("report", "of the agent\n")];
    let head = fixture.commit(BRANCH, &changed);
    fixture.store_home(&[(".npm/_cacache/agent", "kept"), (".npmrc", "stale"), ("sessions/one", "kept")]).await;
    fixture.prepare(&head, true, false).await.unwrap();
    for (file, text) in [
        ("node_modules/a", Some("module\n")),
        ("node_modules/b", Some("module\n")),
        ("node_modules/c", None),
        ("package-lock.json", Some("a\nb\nc\n")),
        ("README.md", Some("2\n")),
        ("report", Some("of the agent\n")),
        ("old", None),
    ] {
        assert_eq!(fixture.tree(file).as_deref(), text, "{file}");
    }
    for (file, text) in [
        (".npm/_cacache/setup", "fresh\n"),
        (".npm/_cacache/agent", "kept"),
        (".npmrc", "fresh\n"),
        ("sessions/one", "kept"),
    ] {
        assert_eq!(fixture.home(file).as_deref(), Some(text), "{file}");
    }
    assert_eq!(fixture.status(false), format!("## {BRANCH}\n"), "the agent's repository has nothing to commit");
    assert_eq!(fixture.status(true), "## HEAD (no branch)\n", "nor has the committer's repository");
    assert_eq!(fixture.head().await, head.as_str());
}

#[tokio::test]
async fn without_an_accepted_commit_the_setup_command_does_not_run() {
    let fixture = fixture("echo ran > ran").await;
    fixture.commit("main", &[("a", "1")]);
    fixture.in_clone(&["checkout", "--quiet", "--orphan", "alone"]);
    let alone = fixture.commit("alone", &[("b", "1")]);
    let text = refused(fixture.prepare(&alone, false, false).await);
    assert!(text.contains("no commit in common with main") && text.contains("pullRequest.base"), "{text}");
    assert_eq!(fixture.tree("ran"), None);
    // A guessed default branch accepts nothing: it may be a job's branch.
    let origin = fixture.dir.path().join("origin.git/HEAD");
    std::fs::write(origin, "ref: refs/heads/gone\n").unwrap();
    let text = refused(fixture.prepare(&alone, false, false).await);
    assert!(text.contains("names no default branch"), "{text}");
    // If no secret is withheld, no accepted commit is needed.
    fixture.prepare(&alone, false, true).await.unwrap();
    assert_eq!(fixture.tree("ran").as_deref(), Some("ran\n"));
}

#[tokio::test]
async fn a_failure_names_the_commit_that_the_setup_command_ran_on() {
    let fixture = fixture("cat work || { echo no such tool; exit 7; }").await;
    let accepted = fixture.commit("main", &[("a", "1")]);
    let head = fixture.commit(BRANCH, &[("work", "1")]);
    let text = refused(fixture.prepare(&head, false, false).await);
    assert!(text.contains(&accepted.as_str()[..8]) && text.contains("no such tool"), "{text}");
    fixture.prepare(&head, false, true).await.unwrap();
}

#[tokio::test]
async fn a_repository_that_the_setup_command_has_broken_is_reported() {
    let fixture = fixture("rm -rf .git").await;
    fixture.commit("main", &[("a", "1")]);
    let head = fixture.commit(BRANCH, &[("b", "1")]);
    let text = refused(fixture.prepare(&head, false, false).await);
    assert!(text.contains("could not be switched from it to the job's branch"), "{text}");
}

#[test]
fn the_reason_of_a_failed_command_shows_whole_lines_or_says_why_not() {
    let text = |printed: &str| match super::failed(journeyman_core::ports::Exit::Code(1), printed.as_bytes()) {
        RunError::Failed { reason, .. } => reason.text,
        other => panic!("{other:?}"),
    };
    let long = "x".repeat(5000);
    assert!(text("one\ntwo\n").ends_with("it printed last: one\ntwo"), "{}", text("one\ntwo\n"));
    assert!(text(&format!("{long}\ntwo\n")).ends_with("it printed last: two"));
    assert!(text("").ends_with("it printed nothing"));
    for one_line in [long.clone(), format!("a\n{long}\n")] {
        let text = text(&one_line);
        assert!(text.ends_with("is not shown, because it has more than 2000 characters"), "{text}");
    }
}
