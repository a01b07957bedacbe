//! Tests of the place and the secrets of a setup command, and of the workspace that the agent finds afterwards.

mod given;

use journeyman_core::run::ReasonCode;

use self::given::{BRANCH, Place, VALUE, place};
use crate::failure::Stopped;

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
        name: "a hook that the repository brings",
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
    /// Returns a place with the agent's files, and the head of its branch.
    async fn planted(&self) -> (Place, journeyman_core::ids::Sha) {
        let place = place(self.setup).await;
        place.commit("main", self.base);
        let head = place.commit(BRANCH, self.tree);
        place.store_home(self.home).await;
        (place, head)
    }
}

fn refused(result: Result<(), Stopped>) -> String {
    let Err(Stopped::Failed { reason, retry: false }) = result else { panic!("{result:?}") };
    assert_eq!(reason.code, ReasonCode::SetupFailed);
    assert!(!reason.text.contains(VALUE), "{}", reason.text);
    reason.text
}

#[tokio::test]
async fn what_an_agent_has_written_does_not_run_with_a_secret_that_it_does_not_get() {
    for attack in ATTACKS {
        let (place, head) = attack.planted().await;
        place.prepare(&head, true, false).await.unwrap();
        assert_eq!(place.tree("made").as_deref(), Some("18\n"), "{}: the setup command had it", attack.name);
        assert!(!place.is_leaked(), "{}", attack.name);
        for (file, text) in attack.tree {
            assert_eq!(place.tree(file).as_deref(), Some(*text), "{}: the agent finds its work", attack.name);
        }
        for (file, text) in attack.home {
            assert_eq!(place.home(file).as_deref(), Some(*text), "{}: the agent finds its home", attack.name);
        }
        // The control case: if the agent gets the secret too, the setup command runs on the agent's work, in its home.
        place.prepare(&head, true, true).await.unwrap();
        assert!(place.is_leaked(), "{}: it would work", attack.name);
    }
}

#[tokio::test]
async fn commits_of_people_on_top_of_an_agents_do_not_make_those_accepted() {
    let place = place("sh setup.sh").await;
    place.commit("main", &[("setup.sh", "echo ${#TOKEN} > made")]);
    place.commit(BRANCH, &[("setup.sh", "echo $TOKEN > leak")]);
    let head = place.commit(BRANCH, &[("people", "1")]);
    place.prepare(&head, false, false).await.unwrap();
    assert_eq!((place.tree("made").as_deref(), place.tree("people").as_deref()), (Some("18\n"), Some("1")));
    assert!(!place.is_leaked());
}

#[tokio::test]
async fn a_job_that_starts_from_the_branch_of_another_is_set_up_on_what_people_have_accepted() {
    let place = place("sh setup.sh").await;
    place.commit("main", &[("setup.sh", "echo ${#TOKEN} > made")]);
    // Neither the name of the branch nor the author of its commits matters.
    let head = place.commit("looks-harmless", &[("setup.sh", "echo $TOKEN > leak")]);
    place.prepare(&head, false, false).await.unwrap();
    assert_eq!(place.tree("made").as_deref(), Some("18\n"));
    assert!(!place.is_leaked());
}

#[tokio::test]
async fn what_people_have_merged_runs_with_the_secrets() {
    let place = place("sh setup.sh").await;
    place.commit("main", &[("setup.sh", "echo ${#TOKEN} > made")]);
    let merged = place.commit(BRANCH, &[("setup.sh", "echo merged ${#TOKEN} > made")]);
    place.in_clone(&["push", "--quiet", "../origin.git", "HEAD:main"]);
    for (head, what) in [(merged.clone(), "the merged commit"), (place.commit(BRANCH, &[("a", "1")]), "one after it")] {
        place.prepare(&head, false, false).await.unwrap();
        assert_eq!(place.tree("made").as_deref(), Some("merged 18\n"), "{what}");
    }
    // If the project names another branch, commits accepted there count too.
    let mut place = place;
    let stable = place.commit("stable", &[("setup.sh", "echo stable ${#TOKEN} > made")]);
    for (what, says, expected) in [("none", None, "merged 18\n"), ("stable", Some("stable"), "stable 18\n")] {
        place.project.settings.pull_request.base = says.map(str::to_owned);
        place.prepare(&stable, false, false).await.unwrap();
        assert_eq!(place.tree("made").as_deref(), Some(expected), "{what}");
    }
    place.project.settings.pull_request.base = Some(BRANCH.to_owned());
    let own = place.commit(BRANCH, &[("setup.sh", "echo $TOKEN > leak")]);
    place.prepare(&own, false, false).await.unwrap();
    assert!(!place.is_leaked(), "the job's own branch accepts nothing");
}

/// Like `npm ci`: installs the packages of a lock file into a folder that git ignores, and fails without the token.
const INSTALL: &str = "[ -n \"$TOKEN\" ] || exit 1; rm -rf node_modules; mkdir node_modules; \
                       while read -r name; do echo module > node_modules/$name; done < package-lock.json; \
                       mkdir -p ~/.npm/_cacache; echo fresh > ~/.npm/_cacache/setup; echo fresh > ~/.npmrc; \
                       echo touched >> README.md; echo untracked > report; echo $TOKEN | wc -c > ~/.npm/length";

#[tokio::test]
async fn an_installation_is_there_at_a_later_head_of_the_branch() {
    let place = place(INSTALL).await;
    let files = [("package-lock.json", "a\nb\n"), (".gitignore", "node_modules\n"), ("README.md", "1\n"), ("old", "x")];
    let first = place.commit("main", &files);
    place.prepare(&first, false, false).await.unwrap();
    assert_eq!(
        (place.tree("node_modules/b").as_deref(), place.home(".npmrc").as_deref()),
        (Some("module\n"), Some("fresh\n"))
    );
    assert_eq!(
        place.tree("README.md").as_deref(),
        Some("1\ntouched\n"),
        "what it changes is the first turn's to commit"
    );

    let changed = [("package-lock.json", "a\nb\nc\n"), ("README.md", "2\n"), ("old", ""), ("report", "of the agent\n")];
    let head = place.commit(BRANCH, &changed);
    place.store_home(&[(".npm/_cacache/agent", "kept"), (".npmrc", "stale"), ("sessions/one", "kept")]).await;
    place.prepare(&head, true, false).await.unwrap();
    for (file, text) in [
        ("node_modules/a", Some("module\n")),
        ("node_modules/b", Some("module\n")),
        ("node_modules/c", None),
        ("package-lock.json", Some("a\nb\nc\n")),
        ("README.md", Some("2\n")),
        ("report", Some("of the agent\n")),
        ("old", None),
    ] {
        assert_eq!(place.tree(file).as_deref(), text, "{file}");
    }
    for (file, text) in [
        (".npm/_cacache/setup", "fresh\n"),
        (".npm/_cacache/agent", "kept"),
        (".npmrc", "fresh\n"),
        ("sessions/one", "kept"),
    ] {
        assert_eq!(place.home(file).as_deref(), Some(text), "{file}");
    }
    assert_eq!(place.status(false), format!("## {BRANCH}\n"), "the agent's repository has nothing to commit");
    assert_eq!(place.status(true), "## HEAD (no branch)\n", "nor has that on the desk");
    assert_eq!(place.head().await, head.as_str());
}

#[tokio::test]
async fn without_an_accepted_commit_the_setup_command_does_not_run() {
    let place = place("echo ran > ran").await;
    place.commit("main", &[("a", "1")]);
    place.in_clone(&["checkout", "--quiet", "--orphan", "alone"]);
    let alone = place.commit("alone", &[("b", "1")]);
    let text = refused(place.prepare(&alone, false, false).await);
    assert!(text.contains("no commit in common with main") && text.contains("pullRequest.base"), "{text}");
    assert_eq!(place.tree("ran"), None);
    // A guessed default branch accepts nothing: it may be a job's branch.
    let origin = place.dir.path().join("origin.git/HEAD");
    std::fs::write(origin, "ref: refs/heads/gone\n").unwrap();
    let text = refused(place.prepare(&alone, false, false).await);
    assert!(text.contains("names no default branch"), "{text}");
    // If no secret is withheld, no accepted commit is needed.
    place.prepare(&alone, false, true).await.unwrap();
    assert_eq!(place.tree("ran").as_deref(), Some("ran\n"));
}

#[tokio::test]
async fn a_failure_names_the_commit_that_the_setup_command_ran_on() {
    let place = place("cat work || { echo no such tool; exit 7; }").await;
    let accepted = place.commit("main", &[("a", "1")]);
    let head = place.commit(BRANCH, &[("work", "1")]);
    let text = refused(place.prepare(&head, false, false).await);
    assert!(text.contains(&accepted.as_str()[..8]) && text.contains("no such tool"), "{text}");
    place.prepare(&head, false, true).await.unwrap();
}

#[tokio::test]
async fn a_repository_that_the_setup_command_has_broken_is_told() {
    let place = place("rm -rf .git").await;
    place.commit("main", &[("a", "1")]);
    let head = place.commit(BRANCH, &[("b", "1")]);
    let text = refused(place.prepare(&head, false, false).await);
    assert!(text.contains("could not be switched from it to the job's branch"), "{text}");
}
