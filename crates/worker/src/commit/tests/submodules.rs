//! Tests of what is published of the changes that an agent makes to submodules.

use journeyman_core::left_out::LeftOutReason;

use super::published;
use crate::fixtures::Fixture;
use crate::submodules::tests::{at_path, people, with_library};

/// What the agent does, and what is published then. `$TOP` is the folder of the repositories, and `$OLD` and `$NEW` are the
/// commits of the submodule `vendor/lib` at first and now.
struct Case {
    name: &'static str,
    agent: &'static str,
    published: &'static [&'static str],
    left_out: &'static [(&'static str, LeftOutReason)],
}

const CASES: &[Case] = &[
    Case {
        name: "a pointer that is moved to a commit of the remote",
        agent: "git -C vendor/lib checkout -q $NEW",
        published: &["M\tvendor/lib"],
        left_out: &[],
    },
    Case {
        name: "a pointer that the agent has moved and committed",
        agent: "git -C vendor/lib checkout -q origin/main; git add vendor/lib; echo b > b; git add b; git commit -qm move",
        published: &["A\tb", "M\tvendor/lib"],
        left_out: &[],
    },
    Case {
        name: "a pointer to a commit that exists only here",
        agent: "cd vendor/lib; echo mine > l; git commit -qam mine; cd ../..; echo b > b",
        published: &["A\tb"],
        left_out: &[("vendor/lib", LeftOutReason::SubmoduleCommit)],
    },
    Case {
        name: "a pointer to a commit that exists only here, which the agent has committed",
        agent: "cd vendor/lib; git commit -q --allow-empty -m mine; cd ../..; echo b > b; git add .; git commit -qm move",
        published: &["A\tb"],
        left_out: &[("vendor/lib", LeftOutReason::SubmoduleCommit)],
    },
    Case {
        name: "work in a submodule",
        agent: "echo mine > vendor/lib/l; echo new > vendor/lib/new; echo b > b",
        published: &["A\tb"],
        left_out: &[("vendor/lib", LeftOutReason::Submodule)],
    },
    Case {
        name: "work in a submodule of a submodule",
        agent: "echo mine > vendor/lib/deep/nested/n; echo b > b",
        published: &["A\tb"],
        left_out: &[("vendor/lib", LeftOutReason::Submodule)],
    },
    Case {
        name: "work in a submodule whose pointer is moved too",
        agent: "git -C vendor/lib checkout -q $NEW; echo mine > vendor/lib/l",
        published: &["M\tvendor/lib"],
        left_out: &[("vendor/lib", LeftOutReason::Submodule)],
    },
    Case {
        name: "files that the submodule ignores, and files that are written again",
        agent: "echo log > vendor/lib/x.log; cat vendor/lib/l > t; cat t > vendor/lib/l; rm t; echo b > b",
        published: &["A\tb"],
        left_out: &[],
    },
    Case {
        name: "a submodule that is replaced by a repository of the agent",
        agent: "rm -rf vendor/lib; git init -q vendor/lib; cd vendor/lib; echo x > x; git add x; git commit -qm x",
        published: &[],
        left_out: &[("vendor/lib", LeftOutReason::SubmoduleCommit)],
    },
    Case {
        name: "a submodule that is removed",
        agent: "git rm -q vendor/lib",
        published: &["M\t.gitmodules", "D\tvendor/lib"],
        left_out: &[],
    },
    Case {
        name: "a submodule whose folder is removed",
        agent: "rm -rf vendor; echo b > b",
        published: &["A\tb", "D\tvendor/lib"],
        left_out: &[],
    },
    Case {
        name: "a submodule that gets another path",
        agent: "git mv vendor/lib lib; git commit -qm moved",
        published: &["M\t.gitmodules", "A\tlib", "D\tvendor/lib"],
        left_out: &[],
    },
    Case {
        name: "a new submodule that everyone may read",
        agent: "git clone -q $TOP/nested.git extra; git config -f .gitmodules submodule.extra.path extra; \
                git config -f .gitmodules submodule.extra.url ../nested.git",
        published: &["M\t.gitmodules", "A\textra"],
        left_out: &[],
    },
    Case {
        name: "a new submodule that the agent has committed",
        agent: "git clone -q $TOP/nested.git extra; git config -f .gitmodules submodule.extra.path extra; \
                git config -f .gitmodules submodule.extra.url ../nested.git; git add .; git commit -qm add",
        published: &["M\t.gitmodules", "A\textra"],
        left_out: &[],
    },
    Case {
        name: "a new submodule at an address that the agent cannot reach",
        agent: "git clone -q $TOP/nested.git extra; git config -f .gitmodules submodule.extra.path extra; \
                git config -f .gitmodules submodule.extra.url https://secret.example/x; git add .; git commit -qm add; \
                echo b > b",
        published: &["A\tb"],
        left_out: &[(".gitmodules", LeftOutReason::SubmoduleSettings), ("extra", LeftOutReason::RepositoryInside)],
    },
    Case {
        name: "a new submodule with a commit that exists only here",
        agent: "git clone -q $TOP/nested.git extra; git -C extra commit -q --allow-empty -m mine; \
                git config -f .gitmodules submodule.extra.path extra; \
                git config -f .gitmodules submodule.extra.url ../nested.git; echo b > b",
        published: &["A\tb"],
        left_out: &[(".gitmodules", LeftOutReason::SubmoduleSettings), ("extra", LeftOutReason::RepositoryInside)],
    },
    Case {
        name: "another address for a submodule, and a program to update it",
        agent: "git config -f .gitmodules submodule.vendor/lib.url https://secret.example/x; echo b > b; \
                git config -f .gitmodules submodule.vendor/lib.update '!id'",
        published: &["A\tb"],
        left_out: &[(".gitmodules", LeftOutReason::SubmoduleSettings)],
    },
    Case {
        name: "the entry of a submodule that stays",
        agent: "rm .gitmodules; echo b > b",
        published: &["A\tb"],
        left_out: &[(".gitmodules", LeftOutReason::SubmoduleSettings)],
    },
    Case {
        name: "a pipe in the place of the entries",
        agent: "rm .gitmodules; mkfifo .gitmodules",
        published: &[],
        left_out: &[(".gitmodules", LeftOutReason::Special)],
    },
];

/// Returns a project with the submodule `vendor/lib`, whose repository has a newer commit, and these two commits.
async fn moved() -> (Fixture, String, String) {
    let (fixture, _) = with_library().await;
    let lib = fixture.dir.path().join("lib.git");
    let newest = || {
        let mut git = std::process::Command::new("git");
        crate::fixtures::text_of(git.args(["rev-parse", "main"]).current_dir(&lib)).trim().to_owned()
    };
    people(
        &fixture,
        "cd ../lib; echo '*.log' > .gitignore; commit lib; cd ../clone; move vendor/lib lib; commit origin",
    );
    let old = newest();
    people(&fixture, "cd ../lib; echo 2 > l; commit lib");
    let new = newest();
    (fixture, old, new)
}

fn told(left_out: &[journeyman_core::left_out::LeftOut]) -> Vec<(&str, LeftOutReason)> {
    left_out.iter().map(|one| (one.path.as_str(), one.reason)).collect()
}

#[tokio::test]
async fn pointers_are_published_if_their_commits_are() {
    let (fixture, old, new) = moved().await;
    let top = fixture.dir.path().display().to_string();
    for Case { name, agent, published: expected, left_out } in CASES {
        let before = fixture.build().await;
        fixture.run(&format!("TOP={top} OLD={old} NEW={new}; {agent}"));
        let collected = fixture.collect(&before).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(published(&fixture, &before, collected.head.as_str()).await, *expected, "{name}");
        assert_eq!(told(&collected.left_out), *left_out, "{name}");
        // A second turn without a change publishes nothing.
        let next = fixture.next(&before, collected);
        let again = fixture.collect(&next).await.unwrap_or_else(|error| panic!("{name}, again: {error}"));
        assert_eq!(again.head, next.head, "{name}, again");
        assert_eq!(told(&again.left_out), *left_out, "{name}, again");
        // What was published is filled already.
        let filling = fixture.fill(&next.head, &next.state.submodules).await.unwrap();
        assert_eq!((filling.written, filling.skipped), (Vec::new(), Vec::new()), "{name}");
    }
}

#[tokio::test]
async fn a_pointer_that_only_the_index_has_is_gone_after_it_was_told() {
    let (fixture, ..) = moved().await;
    let before = fixture.build().await;
    let nowhere = "1".repeat(40);
    fixture.run(&format!("git update-index --cacheinfo 160000,{nowhere},vendor/lib; git commit -qm x; echo b > b"));
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["A\tb"]);
    assert_eq!(told(&collected.left_out), [("vendor/lib", LeftOutReason::SubmoduleCommit)]);
    let next = fixture.next(&before, collected);
    let again = fixture.collect(&next).await.unwrap();
    assert_eq!((told(&again.left_out), again.head), (Vec::new(), next.head));
}

#[tokio::test]
async fn a_pointer_is_published_once_its_commit_is() {
    let (fixture, ..) = moved().await;
    let before = fixture.build().await;
    fixture.run("cd vendor/lib; echo mine > l; git commit -qam mine");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(told(&collected.left_out), [("vendor/lib", LeftOutReason::SubmoduleCommit)]);
    let next = fixture.next(&before, collected);
    fixture.run(&format!("git -C vendor/lib push -q {}/lib.git HEAD:refs/heads/mine", fixture.dir.path().display()));
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(published(&fixture, &next, collected.head.as_str()).await, ["M\tvendor/lib"]);
    assert_eq!(told(&collected.left_out), []);
}

#[tokio::test]
async fn a_pointer_that_people_have_moved_and_the_agent_has_merged_is_kept_and_followed() {
    let (fixture, _, new) = moved().await;
    let before = fixture.build().await;
    let main = people(&fixture, "move vendor/lib lib; sub extra nested; echo c > c; commit origin");
    // The agent has the objects of the mirror.
    fixture.mirror().await;
    fixture.run(&format!("echo b > b; git add b; git commit -qm own; git merge -q -m merge {main}"));
    let collected = fixture.collect(&before).await.unwrap();
    let expected = ["M\t.gitmodules", "A\tb", "A\tc", "A\textra", "M\tvendor/lib"];
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, expected);
    assert_eq!(told(&collected.left_out), []);
    let next = fixture.next(&before, collected);
    let filling = fixture.fill(&next.head, &next.state.submodules).await.unwrap();
    assert_eq!(filling.written, ["extra", "vendor/lib"]);
    assert_eq!(filling.state.filled["vendor/lib"].head.as_str(), new);
    assert_eq!(fixture.tree("vendor/lib/l").as_deref(), Some("2\n"));
}

#[tokio::test]
async fn a_repository_gets_its_first_submodule() {
    let fixture = at_path().await;
    people(&fixture, "make nested; echo n > n; commit nested; cd ../clone; echo a > a; commit origin");
    let before = fixture.build().await;
    fixture.run(&format!(
        "git clone -q {}/nested.git extra; printf '[submodule \"extra\"]\\n\\tpath = extra\\n\\turl = ../nested.git\\n' > \
         .gitmodules; git clone -q extra other; git init -q third",
        fixture.dir.path().display()
    ));
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["A\t.gitmodules", "A\textra"]);
    assert_eq!(told(&collected.left_out), [("other", LeftOutReason::RepositoryInside)]);
}
