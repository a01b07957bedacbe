//! Tests of malicious repositories: files that an agent leaves in its tree run no program on the host, and bring no
//! data of the host into a commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::program::fixtures::{Service, Site, git, shared};

/// A script that plants configuration and files of a repository that make git run programs (git-config(1),
/// gitattributes(5), githooks(5)). Each program leaves a mark on the host if it runs there.
const VECTORS: &str = r#"
mark() { printf 'touch %s/%s' "$MARKS" "$1"; }
program() { mkdir -p .git/programs; printf '#!/bin/sh\n%s\ncat 2>/dev/null\n' "$(mark "$1")" > ".git/programs/$1"; chmod 755 ".git/programs/$1"; echo "$PWD/.git/programs/$1"; }
git config core.fsmonitor "$(program fsmonitor)"
git config filter.evil.clean "$(program clean)"
git config filter.evil.smudge "$(program smudge)"
git config filter.evil.process "$(program process)"
git config filter.evil.required true
git config diff.external "$(program diff-external)"
git config diff.evil.textconv "$(program textconv)"
git config diff.evil.command "$(program diff-command)"
git config merge.evil.driver "$(program merge)"
git config core.sshCommand "$(program ssh)"
git config core.gitProxy "$(program proxy)"
git config core.askPass "$(program askpass)"
git config core.pager "$(program pager)"
git config core.editor "$(program editor)"
git config sequence.editor "$(program sequence)"
git config core.alternateRefsCommand "$(program alternate-refs)"
git config gpg.program "$(program gpg)"
git config commit.gpgSign true
git config trailer.evil.cmd "$(program trailer)"
git config trailer.evil.ifmissing add
git config credential.helper "$(program credential)"
git config uploadpack.packObjectsHook "$(program pack-objects)"
git config receive.procReceiveRefs refs
git config alias.status "!$(mark alias)"
git config core.worktree /
git config include.path "$MARKS/../config.toml"
for hook in pre-commit post-commit post-checkout reference-transaction post-index-change pre-push post-rewrite fsmonitor-watchman pre-receive update post-update proc-receive push-to-checkout; do
    mkdir -p .git/hooks; cp "$(program "hook-$hook")" ".git/hooks/$hook"
done
mkdir -p .git/info; echo '* filter=evil diff=evil merge=evil' > .git/info/attributes
echo '* filter=evil diff=evil merge=evil' > .gitattributes
printf '[lfs]\n\turl = http://127.0.0.1:1/\n' > .lfsconfig
"#;

struct Fixture {
    site: Site,
    service: Service,
}

fn fixture() -> Fixture {
    let (site, service) = shared("workers = 8\n");
    site.people_commit("vectors.sh", VECTORS);
    let fixture = Fixture { site, service };
    std::fs::create_dir(fixture.marks_folder()).unwrap();
    let marks = fixture.marks_folder().display().to_string();
    fixture.service.configure(json!({ "environment": { "MARKS": marks } }));
    fixture
}

impl Fixture {
    /// Returns the folder in which programs leave marks if they run on the host.
    fn marks_folder(&self) -> PathBuf {
        self.site.path(&format!("marks-{}", self.site.project))
    }

    fn marks(&self) -> Vec<String> {
        let marks = self.marks_folder().read_dir().unwrap().flatten();
        let mut marks: Vec<String> = marks.map(|mark| mark.file_name().to_string_lossy().into_owned()).collect();
        marks.sort();
        marks
    }

    /// Runs a job; returns its path, and the reason of its last run if that failed.
    fn done(&self, prompt: &str) -> (String, Value) {
        let job = self.service.create(prompt);
        let reason = self.reason(&job);
        (job, reason)
    }

    /// Waits for the end of a job; returns the reason of its last run if that failed.
    fn reason(&self, job: &str) -> Value {
        self.service.settled(job);
        let runs = self.service.get(&format!("{job}/runs"));
        runs["runs"].as_array().unwrap().last().unwrap()["reason"].clone()
    }

    fn file(&self, file: &str) -> Option<String> {
        self.site.file(&self.site.branch(), file)
    }
}

/// Runs common commands of plain git in a tree, and ignores failures.
fn plain_git(tree: &Path) {
    for arguments in
        [&["status"][..], &["add", "--all"], &["diff", "HEAD"], &["commit", "-m", "x"], &["checkout", "-f", "HEAD"]]
    {
        let mut git = Command::new("git");
        git.args(arguments).current_dir(tree);
        let _ = git.output().unwrap();
    }
}

#[test]
fn no_configuration_of_a_tree_runs_a_program_on_the_host() {
    let fixture = fixture();
    let (job, reason) = fixture.done("[[run sh vectors.sh]] [[write a|1]]");
    assert!(reason.is_null(), "{reason}");
    assert_eq!(fixture.file("a").as_deref(), Some("1\n"), "the work is published");
    fixture.service.send(&job, "[[append a|2]] [[run git config core.bare true; git config --unset core.worktree]]");
    assert_eq!(fixture.service.settled(&job)["status"], "completed", "{:#}", fixture.service.events(&job));
    assert_eq!(fixture.file("a").as_deref(), Some("1\n2\n"));
    assert_eq!(fixture.marks(), Vec::<String>::new(), "no program of the tree was run on the host");
    let (status, _) = fixture.service.call("GET", &format!("{job}/diff"), None);
    assert_eq!((status, fixture.marks().len()), (200, 0), "nor for the diff");
    // The control: plain git in such a tree runs them.
    let tree = fixture.site.people();
    let host = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("MARKS", fixture.marks_folder()).current_dir(&tree);
        assert!(command.output().unwrap().status.success(), "{program} {arguments:?}");
    };
    host("sh", &["vectors.sh"]);
    host("git", &["config", "--unset", "core.worktree"]);
    std::fs::write(tree.join("README.md"), "changed").unwrap();
    plain_git(&tree);
    // Programs that fail keep git from running others.
    for setting in ["filter.evil.process", "filter.evil.required", "commit.gpgSign"] {
        host("git", &["config", "--unset", setting]);
    }
    plain_git(&tree);
    assert!(fixture.marks().len() >= 4, "plain git runs the programs: {:?}", fixture.marks());
}

#[test]
fn a_replaced_git_directory_costs_history_but_no_work() {
    let fixture = fixture();
    for (what, command) in [
        ("a link to the host", "rm -rf .git; ln -s / .git"),
        ("a file", "rm -rf .git; echo gitdir: /etc > .git"),
        ("nothing", "rm -rf .git"),
        ("junk", "rm -rf .git; mkdir .git; echo junk > .git/HEAD; head -c 1000 /dev/urandom > .git/index"),
        ("alternates of the host", "echo /etc > .git/objects/info/alternates"),
        ("a fifo as HEAD", "rm .git/HEAD; mkfifo .git/HEAD; (sleep 2; echo x > .git/HEAD) & true"),
    ] {
        let name = what.replace(' ', "-");
        let (job, reason) = fixture.done(&format!("[[run {command}]] [[write {name}|kept]]"));
        assert!(reason.is_null(), "{what}: {reason}");
        let diff = fixture.service.text(&format!("{job}/diff"));
        assert!(diff.contains("+kept"), "{what}: {diff}");
        assert!(!diff.contains("root:"), "{what}: {diff}");
    }
}

#[test]
fn no_fifo_or_device_keeps_git_waiting() {
    let fixture = fixture();
    let commit = "echo x > own; git add own; git commit -q -m own";
    let mut jobs = Vec::new();
    for (name, plant) in [
        ("objects", "mkfifo .git/objects/info/commit-graph; mkfifo .git/objects/pack/pack-1.idx"),
        ("alternates", "rm .git/objects/info/alternates; mkfifo .git/objects/info/alternates"),
        ("further", "mkdir -p .b/pack; mkfifo .b/pack/pack-1.idx; echo $PWD/.b >> .git/objects/info/alternates"),
        ("device", "ln -s /dev/stdin .git/packed-refs; echo ref: refs/heads/none > .git/HEAD"),
        ("config", "mkfifo .git/fifo; git config include.path fifo; echo ref: refs/heads/none > .git/HEAD"),
        ("index", "rm .git/index; mkfifo .git/index"),
        ("packed", "rm -f .git/packed-refs; mkfifo .git/packed-refs"),
        ("outside", "mkfifo pipe; git config include.path ../pipe; echo ref: refs/heads/none > .git/HEAD"),
    ] {
        jobs.push((name, fixture.service.create(&format!("[[run {commit}; {plant}; true]] [[write {name}|kept]]"))));
    }
    for (name, job) in jobs {
        let reason = fixture.reason(&job);
        let text = reason["text"].as_str().unwrap_or_default();
        // The answer names the file that was left out.
        assert_eq!(text.contains("which was not published"), name == "further", "{name}: {reason}");
        assert!(fixture.service.text(&format!("{job}/diff")).contains("+kept"), "{name}");
    }
    let mut jobs = Vec::new();
    for (path, plant, is_everywhere) in [
        (".gitignore", "mkfifo .gitignore", true),
        ("a/.gitattributes", "mkdir a; mkfifo a/.gitattributes", false),
        (".gitmodules", "mkfifo .gitmodules", true),
        (".g/objects/pack/pack-1.idx", "mv .git .g; ln -s .g .git; mkfifo .g/objects/pack/pack-1.idx", false),
        ("inner", "git init -q inner; rm inner/.git/HEAD; mkfifo inner/.git/HEAD; echo x > inner/x", false),
    ] {
        let job = fixture.service.create(&format!("[[run {plant}; true]] [[write other|kept]]"));
        jobs.push((path, is_everywhere, job));
    }
    for (path, is_everywhere, job) in jobs {
        let reason = fixture.reason(&job);
        if is_everywhere {
            assert_eq!(reason["code"], "workspace_refused", "{path}: {reason} {:#}", fixture.service.events(&job));
            assert!(reason["text"].as_str().unwrap_or_default().contains(path), "{path}: {reason}");
        } else {
            // The answer may name the file that was left out.
            let text = reason["text"].as_str().unwrap_or_default();
            assert!(reason.is_null() || text.contains("which was not published"), "{path}: {reason}");
            assert!(fixture.service.text(&format!("{job}/diff")).contains("+kept"), "{path}");
            assert_eq!(fixture.service.left_out(&job), [path]);
        }
    }
}

#[test]
fn control_git_waits_for_fifos() {
    for plant in ["mkfifo .gitattributes", "mkdir i; git init -q i; rm i/.git/HEAD; mkfifo i/.git/HEAD"] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("git init -q; echo x > x; {plant}; exec timeout 1 git add --all");
        let ended = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).status().unwrap();
        assert_eq!(ended.code(), Some(124), "{plant}: without the defense git waits until it is ended");
    }
}

#[test]
fn file_modes_that_git_itself_does_not_write_are_normalized() {
    let fixture = fixture();
    let odd = "printf a > x; printf b > y; chmod 755 x y; git add x y; t=$(git cat-file tree $(git write-tree) | perl -0777 -pe \
               's/100755 x/104755 x/; s/100755 y/100777 y/' | git hash-object -t tree -w --literally --stdin); \
               c=$(git commit-tree -p HEAD -m odd $t); git update-ref HEAD $(GIT_AUTHOR_NAME=Ada git \
               commit-tree -p $c -m more $t)";
    for (what, prompt) in [
        ("only its commits", format!("[[run {odd}]]")),
        ("and another file", format!("[[run {odd}]] [[write other.txt|b]]")),
    ] {
        let (job, reason) = fixture.done(&prompt);
        assert!(reason.is_null(), "{what}: {reason} {:#}", fixture.service.events(&job));
        let branch = fixture.service.get(&format!("{job}/details"))["branch"].as_str().unwrap().to_owned();
        let repository = fixture.site.repository();
        let strict = ["-c", "fsck.badFilemode=error", "fsck", "--strict", "--no-dangling"];
        git(&repository, &strict);
        let files = git(&repository, &["ls-tree", &branch, "x", "y"]);
        assert_eq!(files.matches("100755 blob").count(), 2, "{what}: {files}");
        let log = git(&repository, &["log", "--format=%s by %an", &format!("main..{branch}")]);
        assert!(log.contains("more by Ada") && log.contains("odd by"), "{what}: {log}");
        // The next turn starts with a clean tree, where this one ended.
        fixture
            .service
            .send(&job, "[[run git status --porcelain -- x y > status.txt; git log -1 --format=%s >> status.txt]]");
        assert_eq!(fixture.service.settled(&job)["status"], "completed", "{what}: {:#}", fixture.service.events(&job));
        let status = git(&repository, &["show", &format!("{branch}:status.txt")]);
        assert_eq!(status.lines().count(), 1, "{what}: {status}");
    }
}

#[test]
fn damaged_and_unsupported_commits_are_refused() {
    let fixture = fixture();
    let commit =
        |tree: &str| format!("[[run t=$({tree}); git update-ref HEAD $(echo x | git commit-tree $t -p HEAD)]]");
    let blob = "b=$(echo evil | git hash-object -w --stdin)";
    for (what, tree) in [
        (
            "a folder .git",
            format!(
                r#"{blob}; perl -e 'print "100644 .git\0", pack("H*", $ARGV[0])' $b | git hash-object -t tree -w --literally --stdin"#
            ),
        ),
        (
            "a folder above",
            format!(
                r#"{blob}; perl -e 'print "100644 ..\0", pack("H*", $ARGV[0])' $b | git hash-object -t tree -w --literally --stdin"#
            ),
        ),
        (
            "an object that is missing",
            r#"perl -e 'print "100644 x\0", "a" x 20' | git hash-object -t tree -w --literally --stdin"#.to_owned(),
        ),
    ] {
        let (job, reason) = fixture.done(&commit(&tree));
        assert_eq!(reason["code"], "workspace_refused", "{what}: {reason} {:#}", fixture.service.events(&job));
        let pushed = git(&fixture.site.repository(), &["for-each-ref", "refs/heads/journeyman"]);
        assert_eq!(pushed, "", "{what}: nothing of it is pushed");
    }
    let many = r#"[[run perl -e 'for (1 .. 10001) { print "commit refs/heads/many\ncommitter a <a> $_ +0000\ndata 1\nx\n"; print "from $ARGV[0]\n" if $_ == 1 }' $(git rev-parse HEAD) | git fast-import --quiet; git reset -q --soft refs/heads/many]]"#;
    let (_, reason) = fixture.done(many);
    assert!(reason["text"].as_str().unwrap_or_default().contains("more than 10000"), "{reason}");
    let (job, reason) = fixture.done("[[run git init -q inner; echo x > inner/x]]");
    assert_eq!(reason["code"], "workspace_refused", "{:#}", fixture.service.events(&job));
    let modules = r"[submodule \x]\n\tpath = x\n\turl = http://127.0.0.1:1/x\n";
    let (_, reason) = fixture.done(&format!("[[run printf '{modules}' > .gitmodules]]"));
    assert!(reason["text"].as_str().unwrap_or_default().contains(".gitmodules"), "{reason}");
    // A merge whose first parent had the file: compared with that parent, nothing is new.
    fixture.site.people_commit(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = http://127.0.0.1:1/x\n");
    std::fs::remove_file(fixture.site.people().join(".gitmodules")).unwrap();
    fixture.site.people_commit("after", "x");
    let merge = "[[run old=$(git log --diff-filter=A --format=%H -- .gitmodules); git update-ref HEAD $(echo x | git \
                 commit-tree $old^{tree} -p $old -p HEAD); git reset -q --hard]]";
    let (job, reason) = fixture.done(merge);
    assert!(
        reason["text"].as_str().unwrap_or_default().contains(".gitmodules"),
        "{reason} {:#}",
        fixture.service.events(&job)
    );
}

#[test]
fn links_and_special_files_bring_no_data_of_the_host() {
    let fixture = fixture();
    let plant = "ln -s /etc/passwd link; ln -s /proc/1/environ environment; ln -s .. above; mkfifo pipe; mknod device c 1 8; \
                 mkdir closed; echo x > closed/x; chmod 000 closed; printf 'version https://git-lfs.github.com/spec/v1\\noid \
                 sha256:%064d\\nsize 9\\n' 0 > big.bin; echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes; true";
    let (job, reason) = fixture.done(&format!("[[run {plant}]] [[write a|1]]"));
    let text = reason["text"].as_str().unwrap_or_default();
    // The answer names files that were left out.
    assert!(text.contains("which was not published"), "{reason} {:#}", fixture.service.events(&job));
    assert_eq!(fixture.file("link").as_deref(), Some("/etc/passwd"), "the link itself is committed");
    assert_eq!(fixture.file("environment").as_deref(), Some("/proc/1/environ"));
    assert_eq!((fixture.file("pipe"), fixture.file("device"), fixture.file("a").as_deref()), (None, None, Some("1\n")));
    assert_eq!(fixture.file("big.bin"), None, "the code host does not have the object of the LFS pointer");
    let diff = fixture.service.text(&format!("{job}/diff"));
    assert!(!diff.contains("root:x:0"), "{diff}");
    // The next turn works although the tree has a folder without permissions.
    fixture.service.send(&job, "[[run rm -f link]]");
    assert_eq!(fixture.service.settled(&job)["status"], "completed", "{:#}", fixture.service.events(&job));
}

#[test]
fn unusual_file_names_are_committed() {
    let fixture = fixture();
    let names = r#"printf 1 > "$(printf 'a\nb')"; printf 2 > ./-rf; printf 3 > "$(printf '\377\376')"; printf 4 > '$(touch x)'; printf 5 > 'q"uo te'"#;
    let (job, reason) = fixture.done(&format!("[[run {names}]]"));
    assert!(reason.is_null(), "{reason} {:#}", fixture.service.events(&job));
    for (name, text) in [("a\nb", "1"), ("-rf", "2"), ("$(touch x)", "4"), ("q\"uo te", "5")] {
        assert_eq!(fixture.file(name).as_deref(), Some(text), "{name:?}");
    }
    assert_eq!(fixture.service.call("GET", &format!("{job}/diff"), None).0, 200);
}

#[test]
fn files_planted_in_a_home_run_nothing_on_the_host() {
    let fixture = fixture();
    // The next turn gets the same home, so programs in its sandbox read the planted files; no program outside may.
    let plant = r#"for f in .bashrc .profile .npmrc .gitconfig; do echo "touch $MARKS/$f" > ~/$f; done; mkdir -p ~/.cargo; printf '[build]\nrustc-wrapper = "touch"\n' > ~/.cargo/config.toml; printf '[core]\n\tfsmonitor = touch %s/home\n' "$MARKS" > ~/.gitconfig"#;
    let (job, reason) = fixture.done(&format!("[[run {plant}]] [[write a|1]]"));
    assert!(reason.is_null(), "{reason}");
    fixture.service.send(&job, "[[append a|2]]");
    assert_eq!(fixture.service.settled(&job)["status"], "completed");
    assert_eq!((fixture.file("a").as_deref(), fixture.marks().len()), (Some("1\n2\n"), 0));
}

/// Makes a commit of `10 ^ depth` files out of a few objects in the people's repository, and pushes it to `main`.
fn push_tree_bomb(fixture: &Fixture, depth: usize) {
    let script = format!(
        r#"set -e
entry="100644 blob $(echo x | git hash-object -w --stdin)"
for level in $(seq {depth}); do
    entry="040000 tree $(for name in 0 1 2 3 4 5 6 7 8 9; do printf '%s\t%s\n' "$entry" "$name"; done | git mktree)"
done
commit=$(echo bomb | git -c user.name=Ada -c user.email=ada@example.com commit-tree "${{entry##* }}" -p HEAD)
git -c safe.directory='*' push -q "$1" "+$commit:refs/heads/main""#
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, "sh"]).arg(fixture.site.repository()).current_dir(fixture.site.people());
    let output = shell.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_tree_of_few_objects_and_very_many_files_is_not_checked_out() {
    let fixture = fixture();
    let limit = json!({ "limits": { "diskBytes": 50 << 20 } });
    fixture.service.configure(limit);
    // The control: 1000 files made in the same way are checked out.
    push_tree_bomb(&fixture, 3);
    let (_, reason) = fixture.done("[[write a|1]]");
    assert!(reason.is_null(), "{reason}");
    push_tree_bomb(&fixture, 6);
    let (job, reason) = fixture.done("[[write a|1]]");
    assert_eq!(reason["code"], "disk_limit", "{reason}");
    assert!(reason["text"].as_str().unwrap_or_default().contains("limits.diskBytes"), "{reason}");
    let id = job.rsplit('/').next().unwrap();
    let tree = fixture.site.path("data/workspaces").join(id).join("tree");
    assert!(!tree.join("0").exists(), "no file of the tree is on the disk");
}

#[test]
fn a_path_remote_with_hooks_or_in_the_data_directory_is_refused_before_a_project_is_created() {
    let fixture = fixture();
    let far = fixture.site.path("far.git");
    git(&fixture.site.people(), &["clone", "--quiet", "--bare", ".", far.to_str().unwrap()]);
    let test = |address: &Path| {
        let asked = json!({ "id": "far", "repository": address.display().to_string() });
        let (status, body) = fixture.service.call("POST", "/v2/repository/test", Some(asked));
        format!("{status} {body}")
    };
    let without = test(&far);
    assert!(without.starts_with("200 "), "the control: {without}");
    let hook = far.join("hooks/post-receive");
    std::fs::create_dir_all(far.join("hooks")).unwrap();
    std::fs::write(&hook, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(test(&far).contains("hooks/post-receive would run"), "{}", test(&far));
    assert!(test(&fixture.site.repository()).contains("local:<name>"), "{}", test(&fixture.site.repository()));
}
