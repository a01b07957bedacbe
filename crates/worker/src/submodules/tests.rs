//! Tests of submodules, with real git and a workspace without a sandbox. The repositories are next to that of the project.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use journeyman_core::ids::Sha;
use journeyman_core::project::Submodules;
use journeyman_core::submodule::{MAX_SUBMODULES, SkipReason};

use super::SubmoduleState;
use crate::fixtures::{BRANCH, Fixture, fixture, text_of};
use crate::lfs::fill::Filling as LfsFilling;

/// Functions for scripts: `commit REPOSITORY` commits everything, and `sub PATH REPOSITORY [URL]` adds a submodule at its
/// newest commit, in the current clone.
const FUNCTIONS: &str = r#"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=a@example.com
export GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=a@example.com
commit() { git add --all; git commit -qm x; git push -q "../$1.git" HEAD:main; }
make() { git init -q --bare --initial-branch=main "$top/$1.git"; git init -q --initial-branch=main "$top/$1"; cd "$top/$1"; }
sub() {
    printf '[submodule "%s"]\n\tpath = %s\n\turl = %s\n' "$1" "$1" "${3:-../$2.git}" >> .gitmodules
    mkdir -p "$1"
    git update-index --add --cacheinfo "160000,$(git -C "$top/$2.git" rev-parse main),$1"
}
move() { git update-index --cacheinfo "160000,$(git -C "$top/$2.git" rev-parse main),$1"; }
"#;

/// Runs a script of people in the clone of the project's repository, and returns the commit that it has pushed to `main`.
pub(crate) fn people(fixture: &Fixture, script: &str) -> Sha {
    let top = fixture.dir.path();
    let script = format!("{FUNCTIONS}\ntop={}\n{script}", top.display());
    text_of(Command::new("sh").args(["-ec", &script]).current_dir(top.join("clone")));
    text_of(Command::new("git").args(["rev-parse", "main"]).current_dir(top.join("origin.git"))).trim().parse().unwrap()
}

/// The repositories `lib`, with the submodule `deep/nested`, and `nested`, each with two commits.
pub(crate) const LIBRARIES: &str = "
make nested; echo n > n; commit nested; cd ..
make lib; echo 1 > l; sub deep/nested nested; commit lib; cd ../clone";

/// Returns a project whose repository has the submodule `vendor/lib`, and its newest commit.
pub(crate) async fn with_library() -> (Fixture, Sha) {
    let fixture = at_path().await;
    let head = people(&fixture, &format!("{LIBRARIES}\necho a > a; sub vendor/lib lib; commit origin"));
    (fixture, head)
}

/// Returns a project whose repository is at a path.
pub(crate) async fn at_path() -> Fixture {
    let mut fixture = fixture("true").await;
    fixture.project.repository = fixture.dir.path().join("origin.git").display().to_string();
    fixture
}

fn in_tree(fixture: &Fixture, script: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).current_dir(&fixture.sandbox.workspace.tree).env("GIT_CONFIG_GLOBAL", "/dev/null");
    text_of(&mut shell)
}

fn state(fixture: &Fixture) -> SubmoduleState {
    fixture.filling.lock().unwrap().state.clone()
}

fn skipped(fixture: &Fixture) -> BTreeMap<String, SkipReason> {
    let filling = fixture.filling.lock().unwrap();
    filling.skipped.iter().map(|one| (one.path.clone(), one.reason)).collect()
}

#[tokio::test]
async fn submodules_are_filled_as_git_submodule_update_does() {
    let (fixture, head) = with_library().await;
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!((skipped(&fixture), fixture.tree("vendor/lib/l").as_deref()), (BTreeMap::new(), Some("1\n")));
    assert_eq!(fixture.tree("vendor/lib/deep/nested/n").as_deref(), Some("n\n"));
    let status = in_tree(&fixture, "git submodule status --recursive");
    let lines: Vec<&str> = status.lines().collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with(' ')), "{status}");
    assert!(lines[0].contains(" vendor/lib") && lines[1].contains(" vendor/lib/deep/nested"), "{status}");
    assert_eq!(fixture.status(false), format!("## {BRANCH}\n"), "the agent's repository has nothing to commit");
    assert_eq!(in_tree(&fixture, "git -C vendor/lib status --porcelain"), "");
    assert_eq!(in_tree(&fixture, "git -C vendor/lib log --format=%s origin/main"), "x\n");
    assert_eq!(
        in_tree(&fixture, "git -C vendor/lib/deep/nested rev-parse --show-toplevel | sed 's,.*/,,'"),
        "nested\n"
    );
    // A path of this machine is in no configuration, and git finds nothing wrong.
    let top = fixture.dir.path().display().to_string();
    let configs = in_tree(&fixture, "find .git -name config | sort | xargs cat");
    assert!(!configs.contains(&top) && configs.contains("active = true"), "{configs}");
    in_tree(&fixture, "git submodule update --recursive; git -C vendor/lib fsck --strict");
    assert_eq!(state(&fixture).filled.len(), 2);
    assert!(!fixture.sandbox.workspace.submodule_lists().exists());
}

#[tokio::test]
async fn what_cannot_be_filled_is_told_and_stays_empty() {
    let fixture = at_path().await;
    let script = format!(
        "{LIBRARIES}
        (make private; echo p > p; commit private; chmod o-rx ../private.git)
        (make odd; echo o > o; commit odd; git commit -q --amend -m gone; git -C ../odd.git fetch -q ../odd HEAD)
        sub good lib
        sub absolute lib $top/lib.git
        sub file lib file://$top/lib.git
        sub ext lib 'ext::touch {{}}'
        sub above lib ../../lib.git
        sub elsewhere lib http://169.254.169.254/lib.git
        sub ssh lib git@host.example:lib.git
        sub dash lib --upload-pack=id
        sub missing lib ../missing.git
        sub private private
        sub away lib http://127.0.0.1:1/lib.git
        sub in/side lib
        sub gone nested
        printf '[submodule \"q\"]\\n\\tpath = no-url\\n' >> .gitmodules; mkdir no-url up twin
        git update-index --add --cacheinfo 160000,$(git -C ../lib.git rev-parse main),no-url
        git update-index --cacheinfo 160000,{missing},gone
        git config -f .gitmodules submodule.../../hooks.path up
        git config -f .gitmodules submodule.../../hooks.url ../lib.git
        git update-index --add --cacheinfo 160000,$(git -C ../lib.git rev-parse main),up
        git config -f .gitmodules submodule.in/side/hooks.path twin
        git config -f .gitmodules submodule.in/side/hooks.url ../lib.git
        git update-index --add --cacheinfo 160000,$(git -C ../lib.git rev-parse main),twin
        commit origin",
        missing = "1".repeat(40),
    );
    let head = people(&fixture, &script);
    fixture.prepare(&head, false, true).await.unwrap();
    let expected = [
        ("absolute", SkipReason::AddressRefused),
        ("file", SkipReason::AddressRefused),
        ("ext", SkipReason::AddressRefused),
        ("above", SkipReason::AddressRefused),
        ("elsewhere", SkipReason::AddressRefused),
        ("ssh", SkipReason::AddressRefused),
        ("dash", SkipReason::AddressRefused),
        ("missing", SkipReason::NotReadable),
        ("private", SkipReason::NotPermitted),
        ("away", SkipReason::AddressRefused),
        ("gone", SkipReason::CommitMissing),
        ("no-url", SkipReason::NoAddress),
        ("up", SkipReason::Unsafe),
        ("in/side", SkipReason::Unsafe),
        ("twin", SkipReason::Unsafe),
    ];
    let expected: BTreeMap<String, SkipReason> =
        expected.into_iter().map(|(path, reason)| (path.to_owned(), reason)).collect();
    assert_eq!(skipped(&fixture), expected);
    for path in expected.keys() {
        let entries = std::fs::read_dir(fixture.sandbox.workspace.tree.join(path)).unwrap().count();
        assert_eq!(entries, 0, "{path}");
    }
    assert_eq!(fixture.tree("good/l").as_deref(), Some("1\n"));
    assert_eq!(fixture.status(false), format!("## {BRANCH}\n"));
}

#[tokio::test]
async fn submodules_are_filled_up_to_a_depth_a_number_and_a_size() {
    let fixture = at_path().await;
    let many = MAX_SUBMODULES + 2;
    let script = format!(
        "make d0; echo 0 > f; commit d0
        for n in 1 2 3 4 5 6 7 8 9; do make d$n; head -c 2000000 /dev/zero > f; sub s d$((n - 1)); commit d$n; done
        cd ../clone; sub s d9; commit origin
        git rev-parse HEAD > ../deep
        git rm -q --cached s; rm .gitmodules
        for n in $(seq {many}); do mkdir m$n; printf '[submodule \"m%s\"]\\n\\tpath = m%s\\n\\turl = ../d0.git\\n' $n $n; done > .gitmodules
        at=$(git -C ../d0.git rev-parse main)
        for n in $(seq {many}); do printf '160000 %s\\tm%s\\n' $at $n; done | git update-index --index-info
        commit origin"
    );
    let head = people(&fixture, &script);
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!(skipped(&fixture).values().filter(|reason| **reason == SkipReason::TooMany).count(), 2);
    assert_eq!(state(&fixture).filled.len(), MAX_SUBMODULES);
    let deep: Sha = std::fs::read_to_string(fixture.dir.path().join("deep")).unwrap().trim().parse().unwrap();
    fixture.prepare(&deep, false, true).await.unwrap();
    assert_eq!(skipped(&fixture), BTreeMap::from([(["s"; 9].join("/"), SkipReason::TooDeep)]));
    assert_eq!(state(&fixture).filled.len(), 8);
    let mut fixture = fixture;
    // The files of the repository and the folders of git fit, those of the submodule do not.
    fixture.project.settings.limits.disk_bytes = Some(1_000_000);
    fixture.prepare(&deep, false, true).await.unwrap();
    assert_eq!(skipped(&fixture).values().collect::<Vec<_>>(), [&SkipReason::TooLarge]);
}

#[tokio::test]
async fn pointers_that_no_entry_names_are_told_and_stay_empty() {
    let fixture = at_path().await;
    // Without a `.gitmodules`, with one that names another, and in a submodule.
    let bare =
        "mkdir -p in/bare; git update-index --add --cacheinfo 160000,$(git -C ../lib.git rev-parse main),in/bare";
    let head = people(&fixture, &format!("{LIBRARIES}\n{bare}; commit origin"));
    let expected = |paths: &[&str]| -> BTreeMap<String, SkipReason> {
        paths.iter().map(|path| ((*path).to_owned(), SkipReason::NotNamed)).collect()
    };
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!(skipped(&fixture), expected(&["in/bare"]));
    let script =
        format!("(cd ../lib; {}; commit lib); sub vendor lib; commit origin", bare.replace("in/bare", "deeper"));
    let head = people(&fixture, &script);
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!(skipped(&fixture), expected(&["in/bare", "vendor/deeper"]));
    assert_eq!(fixture.tree("vendor/l").as_deref(), Some("1\n"));
    let before = state(&fixture);
    let mut fixture = fixture;
    assert_eq!(fixture.fill(&head, &before).await.unwrap().skipped, Vec::new(), "a follow-up does not look for them");
    fixture.project.settings.checkout.submodules = Submodules::Off;
    fixture.prepare(&head, false, true).await.unwrap();
    let mut off = expected(&["in/bare"]);
    off.insert("vendor".to_owned(), SkipReason::Off);
    assert_eq!(skipped(&fixture), off);
}

#[tokio::test]
async fn a_project_can_do_without_submodules() {
    let (mut fixture, head) = with_library().await;
    fixture.project.settings.checkout.submodules = Submodules::Off;
    fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!(skipped(&fixture), BTreeMap::from([("vendor/lib".to_owned(), SkipReason::Off)]));
    assert_eq!(std::fs::read_dir(fixture.sandbox.workspace.tree.join("vendor/lib")).unwrap().count(), 0);
    assert_eq!(fixture.dir.path().join("mirrors").read_dir().unwrap().count(), 1, "nothing was fetched");
}

#[tokio::test]
async fn submodules_follow_their_pointers_unless_the_agent_has_changed_them() {
    let (fixture, head) = with_library().await;
    fixture.prepare(&head, false, true).await.unwrap();
    let before = state(&fixture);
    assert_eq!(fixture.fill(&head, &before).await.unwrap().written, Vec::<String>::new(), "nothing has moved");
    let moved =
        people(&fixture, "(cd ../lib; echo 2 > l; commit lib); move vendor/lib lib; sub new nested; commit origin");
    in_tree(&fixture, "mkdir new");
    let filling = fixture.fill(&moved, &before).await.unwrap();
    assert_eq!((filling.written, filling.skipped), (vec!["new".to_owned(), "vendor/lib".to_owned()], Vec::new()));
    assert_eq!(fixture.tree("vendor/lib/l").as_deref(), Some("2\n"));
    assert_eq!(fixture.tree("new/n").as_deref(), Some("n\n"));
    let before = filling.state;
    // A file that the agent has changed, a commit of the agent, and a folder that is another repository now.
    for change in [
        "cd vendor/lib; echo mine > l",
        "cd vendor/lib; git checkout -q -- l; git -c user.name=a -c user.email=a@x commit -q --allow-empty -m own",
        "rm -rf vendor/lib; git init -q vendor/lib",
    ] {
        in_tree(&fixture, change);
        let text = fixture.tree("vendor/lib/l");
        let moved = people(&fixture, "(cd ../lib; echo more >> l; commit lib); move vendor/lib lib; commit origin");
        let filling = fixture.fill(&moved, &before).await.unwrap();
        let reasons: Vec<_> = filling.skipped.iter().map(|one| (one.path.as_str(), one.reason)).collect();
        assert_eq!(reasons, [("vendor/lib", SkipReason::Changed)], "{change}");
        assert_eq!((fixture.tree("vendor/lib/l"), filling.written), (text, Vec::new()), "{change}");
        assert_eq!(filling.state.filled["vendor/lib"].head, before.filled["vendor/lib"].head, "{change}");
    }
}

#[tokio::test]
async fn a_setup_command_with_secrets_sees_the_accepted_pointer_and_the_agent_its_own() {
    let (mut fixture, _) = with_library().await;
    fixture.project.settings.setup = Some("cat vendor/lib/l > seen".to_owned());
    let clone = fixture.dir.path().join("clone");
    let script = format!(
        "{FUNCTIONS}\ntop={}\n(cd ../lib; echo 2 > l; commit lib); move vendor/lib lib; git commit -qm x; git push -q ../origin.git HEAD:{BRANCH}",
        fixture.dir.path().display()
    );
    text_of(Command::new("sh").args(["-ec", &script]).current_dir(&clone));
    let head: Sha = fixture.in_clone(&["rev-parse", "HEAD"]).trim().parse().unwrap();
    fixture.prepare(&head, false, false).await.unwrap();
    assert_eq!((fixture.tree("seen").as_deref(), fixture.tree("vendor/lib/l").as_deref()), (Some("1\n"), Some("2\n")));
    assert_eq!(skipped(&fixture), BTreeMap::new());
    assert!(Path::new(&fixture.sandbox.workspace.tree).join(".git/modules/vendor/lib/HEAD").exists());
}

#[tokio::test]
async fn files_of_submodules_in_git_lfs_have_their_content_and_the_tree_is_clean() {
    let fixture = at_path().await;
    let (old, new, gone) = (fixture.lfs.store(b"old"), fixture.lfs.store(b"new"), fixture.lfs.store(b"gone"));
    fixture.lfs.remove(&gone.oid);
    let library = format!(
        "make lib; echo '*.bin filter=lfs -text' > .gitattributes; mkdir d; printf '%s' '{}' > d/a.bin; \
         printf '%s' '{}' > gone.bin; commit lib; cd ../clone; sub vendor/lib lib; commit origin",
        old.text(),
        gone.text()
    );
    let head = people(&fixture, &library);
    let not_fetched = fixture.prepare(&head, false, true).await.unwrap();
    assert_eq!(fixture.tree("vendor/lib/d/a.bin").as_deref(), Some("old"));
    assert_eq!(fixture.tree("vendor/lib/gone.bin").unwrap(), gone.text());
    assert_eq!(not_fetched.len(), 1, "{not_fetched:?}");
    assert_eq!(not_fetched[0].path, Path::new("vendor/lib/gone.bin"));
    assert!(not_fetched[0].detail.contains("does not have its content"), "{not_fetched:?}");
    let status = "git status --porcelain; git -C vendor/lib status --porcelain; git -C vendor/lib fsck";
    assert_eq!(in_tree(&fixture, status), "");
    // Another clean status must not depend on the times of files.
    let add = "touch vendor/lib/d/a.bin; git -C vendor/lib add --all; git -C vendor/lib status --porcelain";
    assert_eq!(in_tree(&fixture, add), "");

    let before = state(&fixture);
    let script = format!(
        "cd ../lib; printf '%s' '{}' > d/a.bin; commit lib; cd ../clone; move vendor/lib lib; commit origin",
        new.text()
    );
    let moved = people(&fixture, &script);
    let filling = fixture.fill(&moved, &before).await.unwrap();
    assert_eq!(filling.written, ["vendor/lib"]);
    assert_eq!(fixture.tree("vendor/lib/d/a.bin").as_deref(), Some("new"));
    assert_eq!(in_tree(&fixture, "git -C vendor/lib status --porcelain; git -C vendor/lib fsck"), "");
}

#[tokio::test]
async fn no_objects_are_fetched_from_the_server_of_a_submodule_elsewhere() {
    let fixture = at_path().await;
    let object = fixture.lfs.store(b"content");
    let library = format!(
        "make lib; echo '*.bin filter=lfs -text' > .gitattributes; printf '%s' '{}' > a.bin; commit lib; cd ../clone; \
         sub vendor/lib lib; commit origin",
        object.text()
    );
    let head = people(&fixture, &library);
    let (mirror, sources) = (fixture.mirror().await, fixture.sources());
    let mut found = sources.find(&mirror, &head, u64::MAX).await.unwrap().found.remove(0);
    found.is_trusted = false;
    let filling = LfsFilling {
        objects: &*fixture.lfs,
        mirror: &found.mirror,
        scratch: &fixture.sandbox.workspace.scratch,
        job: fixture.claimed.job.id,
        disk_bytes: 1 << 30,
        free: None,
    };
    let told = filling.fill_submodule(&fixture.sandbox.workspace.tree, &found).await.unwrap();
    assert_eq!(told[0].path, Path::new("vendor/lib/a.bin"));
    assert!(told[0].detail.contains("on another server"), "{told:?}");
    assert_eq!(fixture.lfs.requests(), 0);
}
