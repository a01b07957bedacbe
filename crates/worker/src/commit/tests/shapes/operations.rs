//! What an agent does with its own repository: it rewrites, replaces, moves, breaks, and leaves things unfinished.

use journeyman_core::left_out::LeftOutReason;

use super::{PLAIN, Shape, check_all, of_people};
use crate::commit::Work;

const TWO: &str = "echo 1 | tee a > b; base; echo 2 > a; base second";

const SHAPES: &[Shape] = &[
    Shape {
        name: "the commit of people is amended",
        people: TWO,
        agent: "echo 3 > a; git commit -qa --amend -m amended; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape {
        name: "the commits of people are squashed",
        people: TWO,
        agent: "git reset -q --soft HEAD~1; git commit -q --amend -m one; echo 1 > c",
        published: &[r"A 100644 c | 1\n"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape {
        name: "a commit of people is dropped",
        people: TWO,
        agent: "git reset -q --hard HEAD~1",
        published: &[r"M 100644 a | 1\n"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape { name: "an empty commit", people: TWO, agent: "git commit -q --allow-empty -m empty", ..PLAIN },
    Shape {
        name: "an empty commit with an empty message, and a file",
        people: TWO,
        agent: "git commit -q --allow-empty --allow-empty-message -m ''; echo 3 > a",
        published: &[r"M 100644 a | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a commit on another branch, which stays checked out",
        people: TWO,
        agent: "git checkout -q -b feature/x; echo 3 > a; git commit -qam own; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a commit on a detached HEAD",
        people: TWO,
        agent: "git checkout -q --detach; echo 3 > a; git commit -qam own",
        published: &[r"M 100644 a | 3\n"],
        ..PLAIN
    },
    Shape {
        name: "tags, notes, replacements and grafts",
        people: TWO,
        agent: "git tag v1; git tag -a v2 -m v2; git notes add -m n; git replace HEAD HEAD~1; \
                git rev-parse HEAD > .git/info/grafts; echo 3 > a; git commit -qam own; git replace -d $(git replace -l); \
                echo 3 > b; git commit -qam own; git rev-parse HEAD~1 > .git/shallow",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        left_out: &[("refs/tags/v1", LeftOutReason::Tag), ("refs/tags/v2", LeftOutReason::Tag)],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a replacement of the newest commit that stays",
        people: TWO,
        agent: "echo 3 > a; git commit -qam own; git replace HEAD HEAD~1; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "everything is removed",
        people: "mkdir d; echo 1 | tee a > d/b; echo '*.log' > .gitignore; base",
        agent: "git rm -q -r .; echo 1 > x.log; git commit -qm nothing",
        published: &["D 100644 .gitignore", "D 100644 a", "D 100644 d/b", r"A 100644 x.log | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "the work is discarded, and stashed",
        people: TWO,
        agent: "echo 3 > a; git checkout -q -- .; echo 4 > b; git stash -q; echo 5 > b; git stash -q",
        left_out: &[("refs/stash", LeftOutReason::OtherCommits { commits: 2 })],
        commits: 0,
        ..PLAIN
    },
    Shape {
        name: "the repository is removed",
        people: "echo '*.log' > .gitignore; mkdir d; echo 1 | tee a > d/b; base",
        agent: "rm -rf .git; echo 2 > a; rm -r d; echo 1 > x.log",
        published: &[r"M 100644 a | 2\n", "D 100644 d/b"],
        ..PLAIN
    },
    Shape {
        name: "the repository is created again",
        people: TWO,
        agent: "rm -rf .git; git init -q; echo 3 > a; git add .; git commit -qm initial; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape {
        name: "the repository is created again with SHA-256",
        people: TWO,
        agent: "rm -rf .git; git init -q --object-format=sha256; echo 3 > a; git add .; git commit -qm initial; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "the repository is moved elsewhere",
        people: TWO,
        agent: "git init -q --separate-git-dir=$HOME/elsewhere; echo 3 > a; git commit -qam own; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "the repository is a shallow clone",
        people: TWO,
        agent: "git clone -q --depth 1 file://$PWD $HOME/clone; rm -rf .git; mv ~/clone/.git .; echo 3 > a; git commit -qam own",
        published: &[r"M 100644 a | 3\n"],
        ..PLAIN
    },
    Shape {
        name: "the repository borrows objects from another folder",
        people: TWO,
        agent: "git clone -q . $HOME/clone 2>&1; cd ~/clone; echo 3 > a; git commit -qam theirs; cd $OLDPWD; \
                echo $HOME/clone/.git/objects >> .git/objects/info/alternates; git reset -q --hard $(git -C ~/clone rev-parse HEAD); \
                echo 3 > b; git commit -qam own",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape {
        name: "a file of the agent's commit borrows its content from another folder",
        people: TWO,
        agent: "git clone -q . $HOME/clone 2>&1; echo 3 > ~/clone/a; git -C ~/clone add a; \
                echo $HOME/clone/.git/objects >> .git/objects/info/alternates; echo 3 > a; git commit -qam own; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "an object is lost, and another one damaged",
        people: TWO,
        agent: "echo 3 > a; git commit -qam own; o=$(git rev-parse HEAD:a); rm -f .git/objects/$(echo $o | sed 's,..,&/,'); \
                o=$(git rev-parse HEAD^{tree}); f=.git/objects/$(echo $o | sed 's,..,&/,'); chmod +w $f; echo x > $f; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "the repository is packed",
        people: TWO,
        agent: "echo 3 > a; git commit -qam own; git repack -qad; git multi-pack-index write; git commit-graph write --reachable; \
                git pack-refs --all --prune; echo 3 > b; git commit -qam own; git gc -q --prune=now",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "refs in another format",
        people: TWO,
        agent: "rm -rf .git/logs; git refs migrate --ref-format=reftable; echo 3 > a; git commit -qam own; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "the configuration names another working tree",
        people: TWO,
        agent: "echo 3 > a; git commit -qam own; mkdir ~/t; git config core.worktree $HOME/t; echo 3 > b",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "the configuration says that the repository is bare, and marks are in the index",
        people: TWO,
        agent: "git update-index --skip-worktree a; rm a; git config core.bare true; echo 3 > b",
        published: &[r"M 100644 b | 3\n"],
        ..PLAIN
    },
    Shape {
        name: "the configuration cannot be read, and hooks fail",
        people: TWO,
        agent: "echo 3 > a; git commit -qam own; mkdir -p .git/hooks; printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; \
                chmod +x .git/hooks/pre-commit; printf '[core' >> .git/config; echo 3 > b; : > .git/index.lock",
        published: &[r"M 100644 a | 3\n", r"M 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "the index is damaged",
        people: TWO,
        agent: "echo x > .git/index; echo 3 > b; rm a",
        published: &["D 100644 a", r"M 100644 b | 3\n"],
        ..PLAIN
    },
    Shape {
        name: "a file that is created, committed, and removed or moved",
        people: TWO,
        agent: "mkdir d; echo 1 | tee x y > d/z; git add .; git commit -qm own; rm x; mv d/z w; git rm -q y",
        published: &[r"A 100644 w | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a file that is committed, and moved by git",
        people: "mkdir d; echo 1 | tee a > d/b; base",
        agent: "git mv d/b c; git commit -qm own; git mv c e; mkdir -p c; echo 1 > c/x",
        published: &[r"A 100644 c/x | 1\n", "D 100644 d/b", r"A 100644 e | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a committed file outside the sparse patterns",
        people: "mkdir -p a b; echo 1 | tee a/x > b/x; base",
        agent: "echo 1 > b/y; git add b/y; git commit -qm own; git sparse-checkout set a; echo 1 > a/y",
        published: &[r"A 100644 a/y | 1\n", r"A 100644 b/y | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a worktree, in which the agent works",
        people: TWO,
        agent: "git worktree add -q wt -b work; cd wt; echo 3 > a; git commit -qam own; cd ..; echo 3 > b; git worktree list",
        published: &[r"M 100644 b | 3\n"],
        left_out: &[
            ("wt", LeftOutReason::RepositoryInside),
            ("refs/heads/work", LeftOutReason::OtherCommits { commits: 1 }),
        ],
        ..PLAIN
    },
    Shape {
        name: "a worktree that is merged and removed",
        people: TWO,
        agent: "git worktree add -q wt -b work; cd wt; echo 3 > a; git commit -qam own; cd ..; git merge -q work; git worktree remove wt",
        published: &[r"M 100644 a | 3\n"],
        ..PLAIN
    },
];

#[tokio::test]
async fn the_repository_of_an_agent_may_be_in_any_state() {
    check_all(SHAPES).await;
}

#[tokio::test]
async fn operations_that_are_not_concluded_are_not_published() {
    let conflict = "git checkout -q -b x HEAD~1; echo x > a; git commit -qam x; git format-patch -q -1 --stdout > $HOME/p; \
                    git checkout -q -; ";
    for (name, agent, expected) in [
        (
            "bisect",
            "git bisect -q start HEAD HEAD~1 || git bisect start HEAD HEAD~1 > $HOME/o; git checkout -q HEAD~1",
            "bisect",
        ),
        ("am", &*format!("{conflict}git am -q -3 < $HOME/p || true"), "rebase"),
        ("a merge without a commit", &format!("{conflict}git merge -q --no-commit -s ours x"), "merge"),
        ("a merge of several", &format!("{conflict}git branch y x; git merge -q x y || true; echo m > a"), "merge"),
        (
            "a rebase with edit",
            "git commit -q --allow-empty -m e; GIT_SEQUENCE_EDITOR='sed -i s/pick/edit/' git rebase -q -i --root || true",
            "rebase",
        ),
        (
            "a series of cherry-picks",
            &format!("{conflict}git cherry-pick x || true; git checkout -q --theirs a; git add a"),
            "cherry-pick",
        ),
        ("a revert", "git revert -n HEAD", "revert"),
    ] {
        let (fixture, before) = of_people(TWO).await;
        fixture.run(&format!("({agent}) > $HOME/out 2>&1"));
        match fixture.work(&before).await.unwrap_or_else(|error| panic!("{name}: {error}")) {
            Work::Unfinished(unfinished) => {
                let prompt = unfinished.prompt();
                assert!(prompt.contains(&format!("a {expected} ")), "{name}: {prompt}");
            }
            Work::Committed(commits) => panic!("{name}: {} is committed", commits.head),
        }
    }
}
