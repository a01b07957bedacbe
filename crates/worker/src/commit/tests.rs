//! Tests of what is committed, with real git and a workspace without a sandbox.

mod lfs;
mod merges;
mod messages;
mod random;
mod shapes;
mod submodules;

use journeyman_core::ids::Sha;
use journeyman_core::left_out::{LeftOut, LeftOutReason};
use journeyman_core::run::ReasonCode;

use crate::error::RunError;
use crate::fixtures::{Built, Fixture, fixture};
use crate::workspace::left_out::Extent;
use crate::workspace::session::Session;
use crate::workspace::state::TreeState;

/// What people have committed, what the agent does, and what is published then.
struct Case {
    name: &'static str,
    base: &'static str,
    agent: &'static str,
    /// The changes, as `git diff --name-status` prints them.
    published: &'static [&'static str],
    left_out: &'static [(&'static str, LeftOutReason)],
}

const CASES: &[Case] = &[
    Case {
        name: "files with line endings that the attributes do not allow",
        base: r"printf 'a\r\nb\r\n' > crlf.txt; git add .; git commit -qm a; echo '*.txt text' > .gitattributes",
        agent: "touch crlf.txt; chmod 644 crlf.txt; echo x > new.md",
        published: &["A\tnew.md"],
        left_out: &[],
    },
    Case {
        name: "a file whose mode changes, and whose bytes a conversion would change",
        base: r"printf 'a\r\n' > crlf.txt; git add .; git commit -qm a; echo '*.txt text' > .gitattributes",
        agent: "chmod +x crlf.txt",
        published: &["M\tcrlf.txt"],
        left_out: &[],
    },
    Case {
        name: "a sparse checkout",
        base: "mkdir -p apps/web libs; echo 1 > apps/web/a; echo 1 > libs/b; echo 1 > top",
        agent: "git sparse-checkout set apps/web; echo 1 > apps/web/new; rm top",
        published: &["A\tapps/web/new", "D\ttop"],
        left_out: &[],
    },
    Case {
        name: "a sparse checkout whose index was rebuilt",
        base: "mkdir -p apps/web libs; echo 1 > apps/web/a; echo 1 > libs/b",
        agent: "git sparse-checkout set apps/web; rm .git/index; git read-tree HEAD; echo 1 > apps/web/new",
        published: &["A\tapps/web/new"],
        left_out: &[],
    },
    Case {
        name: "ignore rules of the agent",
        base: "echo '*.log' > .gitignore",
        agent: "mkdir -p ~/.config/git s; echo local.json > ~/.config/git/ignore; echo s/ >> .git/info/exclude; \
                echo 1 | tee local.json s/x a.log b",
        published: &["A\tb"],
        left_out: &[],
    },
    Case {
        name: "ignore rules in a file that the configuration names",
        base: "echo 1 > a",
        agent: "printf '[core]\\n\\texcludesFile = ~/mine\\n' > ~/.gitconfig; echo '*.tmp' > ~/mine; echo 1 | tee x.tmp b",
        published: &["A\tb"],
        left_out: &[],
    },
    Case {
        name: "files that are marked as local",
        base: "echo 1 > a; echo 1 > b; echo 1 > c",
        agent: "git update-index --skip-worktree a; git update-index --assume-unchanged b; echo 2 | tee a b c; git status",
        published: &["M\tc"],
        left_out: &[("a", LeftOutReason::MarkedLocal), ("b", LeftOutReason::MarkedLocal)],
    },
    Case {
        name: "a working tree and a repository inside",
        base: "echo 1 > a",
        agent: "git worktree add -q .claude/worktrees/probe -b probe; git init -q inside; echo 1 | tee inside/x b; \
                mkdir fixture; git init -q fixture; rm fixture/.git/HEAD; echo 1 > fixture/y",
        published: &["A\tb", "A\tfixture/y"],
        left_out: &[
            (".claude/worktrees/probe", LeftOutReason::RepositoryInside),
            ("inside", LeftOutReason::RepositoryInside),
        ],
    },
    Case {
        name: "a repository inside that git ignores",
        base: "echo node_modules > .gitignore",
        agent: "mkdir -p node_modules/x; git init -q node_modules/x; echo 1 | tee node_modules/x/y b",
        published: &["A\tb"],
        left_out: &[],
    },
    Case {
        name: "a repository inside that the agent has committed",
        base: "echo 1 > a",
        agent: "git init -q inside; echo 1 | tee inside/x b; git -C inside add x; git -C inside commit -qm x; \
                git add . 2>&1; git commit -qm 'with a link'",
        published: &["A\tb"],
        left_out: &[("inside", LeftOutReason::RepositoryInside)],
    },
    Case {
        name: "special files, also in the place of a file",
        base: "echo 1 > a; echo 1 > b",
        agent: "rm a; mkfifo a c; echo 2 > b",
        published: &["M\tb"],
        left_out: &[("a", LeftOutReason::Special), ("c", LeftOutReason::Special)],
    },
    Case {
        name: "a pipe that git would read",
        base: "echo 1 > a",
        agent: "mkdir d; mkfifo d/.gitattributes; echo 1 | tee d/x b",
        published: &["A\tb"],
        left_out: &[("d/.gitattributes", LeftOutReason::Special)],
    },
    Case {
        name: "a pipe in the place of the ignore rules",
        base: "echo 1 > a; echo '*.log' > .gitignore",
        agent: "rm .gitignore; mkfifo .gitignore; echo 1 > b",
        published: &[],
        left_out: &[(".gitignore", LeftOutReason::Special)],
    },
    Case {
        name: "large files",
        base: "echo large.log > .gitignore",
        agent: "head -c 2000 /dev/zero | tee large.log > large; echo 1 > b",
        published: &["A\tb"],
        left_out: &[("large", LeftOutReason::TooLarge { bytes: 2000 })],
    },
    Case {
        name: "a large file that the agent has committed",
        base: "echo 1 > a",
        agent: "head -c 2000 /dev/zero > large; echo 1 > b; git add .; git commit -qm large",
        published: &["A\tb"],
        left_out: &[("large", LeftOutReason::TooLarge { bytes: 2000 })],
    },
    Case {
        name: "a file that its encoding cannot express",
        base: "echo '*.u16 working-tree-encoding=UTF-16LE' > .gitattributes",
        agent: r"printf '\000\330x' > bad.u16; printf 'a\000' > good.u16; echo 1 > b",
        published: &["A\tb", "A\tgood.u16"],
        left_out: &[("bad.u16", LeftOutReason::NotEncodable)],
    },
    Case {
        name: "a file that is too large only in the encoding of its commit",
        base: "echo '*.sj working-tree-encoding=SHIFT-JIS' > .gitattributes",
        agent: r"head -c 400 /dev/zero | tr '\000' '\261' | tee large.sj > copy.txt; head -c 300 large.sj > small.sj",
        published: &["A\tcopy.txt", "A\tsmall.sj"],
        left_out: &[("large.sj", LeftOutReason::TooLarge { bytes: 1200 })],
    },
    Case {
        name: "a file that the agent has committed and that is too large only in the encoding of its commit",
        base: "echo '*.sj working-tree-encoding=SHIFT-JIS' > .gitattributes",
        agent: r"head -c 400 /dev/zero | tr '\000' '\261' > large.sj; echo 1 > b; git add .; git commit -qm large",
        published: &["A\tb"],
        left_out: &[("large.sj", LeftOutReason::TooLarge { bytes: 1200 })],
    },
    Case {
        name: "files that are in LFS, with pointers and with other content",
        base: "echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes; echo raw > old.bin; echo raw > same.bin",
        agent: r"echo x > new.bin; echo y > old.bin; touch same.bin; : > empty.bin; ln -s b link.bin; echo 1 > b; \
                 printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 1\n' 0 > pointer.bin",
        published: &["A\tb", "A\tempty.bin", "A\tlink.bin", "A\tnew.bin", "M\told.bin"],
        left_out: &[("pointer.bin", LeftOutReason::LfsContent)],
    },
    Case {
        name: "a file in LFS whose content the agent has committed",
        base: "echo '*.bin filter=lfs -text' > .gitattributes",
        agent: "echo x > new.bin; echo 1 > b; git add . ; git commit -qm own",
        published: &["A\tb", "A\tnew.bin"],
        left_out: &[],
    },
    Case {
        name: "a name that git refuses",
        base: "echo 1 > a",
        agent: "mkdir .GIT; echo 1 > .GIT/x; echo 1 > b",
        published: &["A\tb"],
        left_out: &[(".GIT/x", LeftOutReason::RefusedByGit)],
    },
    Case {
        name: "files and folders that replace each other",
        base: "mkdir d; echo 1 > d/x; echo 1 > f; ln -s f l",
        agent: "rm -r d f l; echo 2 > d; mkdir f; echo 2 > f/y; ln -s d l",
        published: &["A\td", "D\td/x", "D\tf", "A\tf/y", "M\tl"],
        left_out: &[],
    },
    Case {
        name: "the settings of submodules",
        base: "echo 1 > a",
        agent: "printf '[submodule \"x\"]\\n' > .gitmodules; echo 1 > b",
        published: &["A\tb"],
        left_out: &[(".gitmodules", LeftOutReason::SubmoduleSettings)],
    },
    Case {
        name: "commits of the agent, and changes after them",
        base: "echo 1 > a; echo '*.log' > .gitignore",
        agent: "echo 2 > a; echo 1 > f.log; git add -f a f.log; git commit -qm own; echo 2 > f.log; echo 1 > b; git add b",
        published: &["M\ta", "A\tb", "A\tf.log"],
        left_out: &[],
    },
    Case {
        name: "names of all kinds",
        base: "echo 1 > a",
        agent: r#"echo 1 > "$(printf 'new\nline')"; echo 1 > "$(printf 'caf\351')"; echo 1 > ' "q" '; echo 1 > -- ; echo 1 > ':(top)*'"#,
        published: &["A\t \"q\" ", "A\t--", "A\t:(top)*", "A\tcaf\\xe9", "A\tnew\nline"],
        left_out: &[],
    },
    Case {
        name: "nothing",
        base: "echo 1 > a",
        agent: "touch a; git status; echo 1 > a",
        published: &[],
        left_out: &[],
    },
];

/// Returns the difference of the published tree from the base, sorted by path.
async fn published(fixture: &Fixture, before: &Built, head: &str) -> Vec<String> {
    let mirror = fixture.mirror().await;
    let difference = ["diff", "--name-status", "--no-renames", "-z", before.head.as_str(), head];
    let output = mirror.git.at(&mirror.path, difference).run().await.unwrap().stdout;
    let text = journeyman_core::left_out::path_text(&output);
    let fields: Vec<&str> = text.split_terminator('\0').collect();
    fields.chunks(2).map(|pair| pair.join("\t")).collect()
}

/// Returns what was left out, as paths and reasons. A commit has no path, so its ID is the same word in all tests.
fn told(left_out: &[LeftOut]) -> Vec<(&str, LeftOutReason)> {
    let path = |one: &LeftOut| one.path.parse::<Sha>().is_ok();
    left_out.iter().map(|one| (if path(one) { COMMIT } else { one.path.as_str() }, one.reason)).collect()
}

/// The path of what was left out that stands for the ID of a commit.
const COMMIT: &str = "(a commit)";

async fn with_base(commands: &str) -> (Fixture, Built) {
    let fixture = fixture("true").await;
    let clone = fixture.dir.path().join("clone");
    let script = format!(
        "git config user.name Ada; git config user.email ada@example.com; {commands}; git add --all; git commit -qm base; \
         git push -q ../origin.git HEAD:main"
    );
    let done = std::process::Command::new("sh").args(["-ec", &script]).current_dir(clone).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    let before = fixture.build().await;
    (fixture, before)
}

#[tokio::test]
async fn a_change_of_the_mode_keeps_the_bytes_that_a_conversion_would_change() {
    let base = r"printf 'a\r\n' > crlf.txt; git add .; git commit -qm a; echo '*.txt text' > .gitattributes";
    let (fixture, before) = with_base(base).await;
    fixture.run("chmod +x crlf.txt");
    let collected = fixture.collect(&before).await.unwrap();
    let mirror = fixture.mirror().await;
    let raw = ["diff-tree", "--raw", "--no-abbrev", before.head.as_str(), collected.head.as_str()];
    let raw = mirror.git.at(&mirror.path, raw).run().await.unwrap().text().unwrap();
    let fields: Vec<&str> = raw.split_whitespace().collect();
    assert_eq!((fields[0], fields[1], fields[2] == fields[3]), (":100644", "100755", true), "{raw}");
}

#[tokio::test]
async fn exactly_what_the_agent_changed_is_published() {
    for Case { name, base, agent, published: expected, left_out } in CASES {
        let (fixture, before) = with_base(base).await;
        fixture.run(agent);
        let collected = fixture.collect(&before).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = published(&fixture, &before, collected.head.as_str()).await;
        assert_eq!(found, *expected, "{name}");
        assert_eq!(told(&collected.left_out), *left_out, "{name}");
        // A second turn without a change publishes nothing.
        let next = fixture.next(&before, collected);
        let again = fixture.collect(&next).await.unwrap_or_else(|error| panic!("{name}, again: {error}"));
        assert_eq!(again.head, next.head, "{name}, again");
        assert_eq!(told(&again.left_out), *left_out, "{name}, again");
    }
}

#[tokio::test]
async fn a_file_of_people_that_git_refuses_is_not_blamed_on_the_agent() {
    let settings = r#"printf '[submodule "x"]\n\tpath = x\n\turl = -u./payload\n' > .gitmodules"#;
    let (fixture, before) = with_base(settings).await;
    fixture.run("echo 1 > b");
    let Err(RunError::Failed { reason, retry: false }) = fixture.collect(&before).await else { panic!("published") };
    assert_eq!(reason.code, ReasonCode::RepositoryUnsupported, "{}", reason.text);
    assert!(reason.text.contains(r#"".gitmodules", which the repository has had before"#), "{}", reason.text);
}

#[tokio::test]
async fn what_was_left_out_is_published_once_it_can_be() {
    let (fixture, before) = with_base("echo 1 > a; echo '*.log' > .gitignore").await;
    fixture.run("git init -q inside; echo 1 | tee inside/x b.log; git update-index --skip-worktree a; echo 2 > a");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!((collected.head.clone(), collected.left_out.len()), (before.head.clone(), 2));
    let next = fixture.next(&before, collected);
    fixture.run("rm -r inside/.git; git update-index --no-skip-worktree a; rm .gitignore");
    let collected = fixture.collect(&next).await.unwrap();
    let found = published(&fixture, &next, collected.head.as_str()).await;
    assert_eq!(found, ["D\t.gitignore", "M\ta", "A\tb.log", "A\tinside/x"]);
    assert_eq!(collected.left_out, []);
}

#[tokio::test]
async fn files_next_to_a_pipe_that_git_would_read_are_published_once_it_is_gone() {
    let (fixture, before) = with_base("mkdir d; echo 1 > d/old; echo 1 > d/gone").await;
    fixture.run("mkfifo d/.gitignore; echo 1 > d/x; echo 2 > d/old; rm d/gone; echo 1 > b");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["A\tb"]);
    let [held] = &collected.held_back[..] else { panic!("{:?}", collected.held_back) };
    assert_eq!((held.path.to_str(), held.extent), (Some("d/.gitignore"), Extent::Part));
    assert_eq!((&held.files, &held.removed), (&vec!["d/old".into(), "d/x".into()], &vec!["d/gone".into()]));
    let next = fixture.next(&before, collected);
    fixture.run("rm d/.gitignore");
    let collected = fixture.collect(&next).await.unwrap();
    assert_eq!(published(&fixture, &next, collected.head.as_str()).await, ["D\td/gone", "M\td/old", "A\td/x"]);
    assert_eq!(collected.left_out, []);
}

#[tokio::test]
async fn what_was_left_out_is_a_change_of_a_rebuilt_tree() {
    let (fixture, before) = with_base("echo 1 > a; echo 1 > b; echo 1 > c").await;
    fixture.run(
        "git init -q inside; echo 1 > inside/x; head -c 2000 /dev/zero | tee large > b; \
         git update-index --assume-unchanged a c; echo 2 > a; rm c",
    );
    let collected = fixture.collect(&before).await.unwrap();
    let told: Vec<_> = collected.left_out.iter().map(|one| (one.path.clone(), one.reason)).collect();
    let names: Vec<&str> = told.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "inside", "large"]);
    let workspace = &fixture.sandbox.workspace;
    let saved = workspace.save_left_out(&fixture.blobs, "session.tar.gz", &before.head, collected.held_back).await;
    assert_eq!(saved.unwrap().kept.len(), 5);
    let rebuilt = fixture.build().await;
    assert_eq!((fixture.tree("a").as_deref(), fixture.tree("large")), (Some("1\n"), None));
    let session = Session { blobs: &fixture.blobs, archive: Some("session.tar.gz"), prepared: None };
    let mirror = fixture.mirror().await;
    let expected = [&collected.left_out[..], &[LeftOut { path: "gone".to_owned(), ..collected.left_out[0].clone() }]];
    let restored = workspace.restore_left_out(&session, &mirror, &before.head, &expected.concat()).await.unwrap();
    let missing: Vec<_> = restored.missing.iter().map(|one| (one.path.as_str(), one.reason.code())).collect();
    assert_eq!(missing, [("gone", "lost")]);
    assert!(restored.has_changed && restored.has_marks && restored.left_out.len() == 5);
    assert_eq!((fixture.tree("a").as_deref(), fixture.tree("c")), (Some("2\n"), None));
    // As in the workspace that was lost, a turn without changes leaves out the same for the same reasons.
    let state = TreeState { unmarked_index: None, ..rebuilt.state.clone() };
    let collected = fixture.collect(&Built { state, ..rebuilt }).await.unwrap();
    assert_eq!(collected.head, before.head);
    assert_eq!(collected.left_out.iter().map(|one| (one.path.clone(), one.reason)).collect::<Vec<_>>(), told);
}

#[tokio::test]
async fn what_existed_before_the_turn_is_no_change() {
    let (fixture, mut before) = with_base("echo 1 > a; echo 1 > b").await;
    // As a setup command does.
    fixture.run("echo 2 > a; echo 1 > made; rm b");
    before.listing = fixture.scan().listing;
    fixture.run("echo 1 > new");
    let collected = fixture.collect(&before).await.unwrap();
    assert_eq!(published(&fixture, &before, collected.head.as_str()).await, ["A\tnew"]);
}
