//! Commits of an agent that other programs made, or that have an unusual history.

use journeyman_core::left_out::LeftOutReason;

use super::{COMMIT, PLAIN, Shape, check_all};

const SHAPES: &[Shape] = &[
    Shape {
        name: "a merge of three branches",
        people: "echo 1 | tee a b > c; base",
        agent: "h=$(git rev-parse HEAD); for f in a b c; do git checkout -q -b $f $h; echo $f > $f; git commit -qam $f; done; \
                git checkout -q --detach $h; git merge -q -m octopus a b c; echo 1 > d",
        published: &[r"M 100644 a | a\n", r"M 100644 b | b\n", r"M 100644 c | c\n", r"A 100644 d | 1\n"],
        commits: 5,
        ..PLAIN
    },
    Shape {
        name: "an orphan branch",
        people: "echo 1 | tee a b > c; base",
        agent: "git checkout -q --orphan x; git rm -q -r --cached .; echo 2 > a; git add a; git commit -qm orphan; rm b",
        published: &[r"M 100644 a | 2\n", "D 100644 b"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape {
        name: "a merge of an unrelated history, as of a subtree",
        people: "echo 1 > a; base",
        agent: "git init -q $HOME/o; cd ~/o; mkdir lib; echo o > lib/o; git add .; git commit -qm o; cd $OLDPWD; \
                git fetch -q ~/o HEAD; git merge -q --allow-unrelated-histories -m subtree FETCH_HEAD",
        published: &[r"A 100644 lib/o | o\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "names and messages that are not UTF-8",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; m=$(printf 'caf\351'); GIT_AUTHOR_NAME=$m git commit -qam $m; echo 3 > a
                 git config i18n.commitEncoding ISO-8859-1; GIT_AUTHOR_NAME=$m git commit -qam $m",
        published: &[r"M 100644 a | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "an author without a name, and one without an address",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; git add a; t=$(git write-tree); p=$(git rev-parse HEAD); i='1700000000 +0000'
            c() { printf 'tree %s\nparent %s\nauthor %s %s\ncommitter %s %s\n\nx' $t $p $1 1 $2 | cat > /dev/null; }
            h=$(printf 'tree %s\nparent %s\nauthor  <> %s\ncommitter  <a@b> %s\n\nx' $t $p '1700000000 +0000' '1700000000 +0000' | git hash-object -t commit -w --stdin --literally)
            git reset -q --soft $h; echo 3 > b",
        published: &[r"M 100644 a | 2\n", r"A 100644 b | 3\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "an author without a name in the last commit",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; git add a; t=$(git write-tree); p=$(git rev-parse HEAD)
            h=$(printf 'tree %s\nparent %s\nauthor  <> %s\ncommitter  <a@b> %s\n\nx' $t $p '1700000000 +0000' '1700000000 +0000' | git hash-object -t commit -w --stdin --literally)
            git reset -q --soft $h",
        published: &[r"M 100644 a | 2\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "a commit that code hosts refuse: a negative time",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; git add a; t=$(git write-tree); p=$(git rev-parse HEAD)
            h=$(printf 'tree %s\nparent %s\nauthor A <a@b> -100 +0000\ncommitter A <a@b> -100 +0000\n\nx' $t $p | git hash-object -t commit -w --stdin --literally)
            git reset -q --soft $h",
        published: &[r"M 100644 a | 2\n"],
        ..PLAIN
    },
    Shape {
        name: "a commit that code hosts refuse: a NUL in the message",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; git add a; t=$(git write-tree); p=$(git rev-parse HEAD)
            h=$(printf 'tree %s\nparent %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\000y\n' $t $p | git hash-object -t commit -w --stdin --literally)
            git reset -q --soft $h; echo 1 > b",
        published: &[r"M 100644 a | 2\n", r"A 100644 b | 1\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "a commit in the history of a subtree that code hosts refuse",
        people: "echo 1 > a; base",
        agent: r"git init -q $HOME/o; cd ~/o; echo o > o; git add .; t=$(git write-tree)
            h=$(printf 'tree %s\nauthor A <a@b> 1 +0000\ncommitter A<a@b> 1 +0000\n\nx' $t | git hash-object -t commit -w --stdin --literally)
            git update-ref refs/heads/x $h; cd $OLDPWD; git fetch -q ~/o x
            git merge -q --allow-unrelated-histories -m subtree FETCH_HEAD",
        published: &[r"A 100644 o | o\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "a tree with modes that git does not write",
        people: "echo 1 > a; mkdir d; echo 1 > d/x; base",
        agent: r#"oid=$(git rev-parse HEAD:a)
            raw() { printf '%s %s\0' "$1" "$2"; printf %s "$3" | sed 's/../\\x&/g' | xargs -0 /usr/bin/printf; }
            d=$( (raw 100755 x $oid; raw 100664 y $oid) | git hash-object -t tree -w --stdin --literally)
            t=$( (raw 100644 a $oid; raw 040000 d $d; raw 104755 s $oid) | git hash-object -t tree -w --stdin --literally)
            git reset -q --hard $(git commit-tree -m odd -p HEAD $t); echo 2 > a"#,
        published: &[r"M 100644 a | 2\n", r"M 100644>100755 d/x | 1\n", r"A 100644 d/y | 1\n", r"A 100755 s | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a signature, and a merge of a signed tag",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; git add a; t=$(git write-tree); p=$(git rev-parse HEAD); i='A <a@b> 1700000000 +0100'
            h=$(printf 'tree %s\nparent %s\nauthor %s\ncommitter %s\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\nx\r\n' $t $p A' <a@b> 1700000000 +0100' A' <a@b> 1700000000 +0100' | git hash-object -t commit -w --stdin)
            git reset -q --soft $h; git checkout -q -b t $p; echo t > t; git add t; git commit -qm t; git tag -a signed -m 'a tag'
            git checkout -q -; git merge -q -m merged signed",
        published: &[r"M 100644 a | 2\n", r"A 100644 t | t\n"],
        left_out: &[("refs/tags/signed", LeftOutReason::Tag)],
        commits: 3,
        ..PLAIN
    },
    Shape {
        name: "messages with comments, scissors, trailers and CRLF",
        people: "echo 1 > a; base",
        agent: r"echo 2 > a; printf '# no comment\r\n\r\n---\n\n# ------------------------ >8 ------------------------\nSigned-off-by: A <a@b>\n\n#\n' |
            git commit -qa --cleanup=verbatim -F -",
        published: &[r"M 100644 a | 2\n"],
        ..PLAIN
    },
    Shape {
        name: "more commits than a turn may have, of an import",
        people: "echo 1 > a; base",
        agent: r"(for i in $(seq 10010); do printf 'commit refs/heads/i\ncommitter A <a@b> %d +0000\ndata 0\n' $i
            [ $i != 1 ] || printf 'M 100644 inline i\ndata 2\ni\n'; done) | git fast-import --quiet
            git merge -q --allow-unrelated-histories -m import i",
        published: &[r"A 100644 i | i\n"],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "a branch that points to a tag",
        people: "echo 1 > a; base",
        agent: "echo 2 > a; git commit -qam own; git tag -a t -m t; b=$(git symbolic-ref HEAD); \
                git rev-parse t > .git/$b; echo 1 > b",
        published: &[r"M 100644 a | 2\n", r"A 100644 b | 1\n"],
        left_out: &[("refs/tags/t", LeftOutReason::Tag)],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "commits on a branch that the agent has left, and nothing else",
        people: "echo 1 > a; base",
        agent: "git checkout -q -b fix/it; echo 2 > a; git commit -qam own; echo 3 > a; git commit -qam own; git checkout -q -",
        left_out: &[("refs/heads/fix/it", LeftOutReason::OtherCommits { commits: 2 })],
        commits: 0,
        ..PLAIN
    },
    Shape {
        name: "a commit that the agent had checked out without a branch, and has left",
        people: "echo 1 > a; base",
        agent: "git checkout -q --detach; echo 2 > a; git commit -qam own; git checkout -q -; echo 1 > b",
        published: &[r"A 100644 b | 1\n"],
        left_out: &[(COMMIT, LeftOutReason::OtherCommits { commits: 1 })],
        ..PLAIN
    },
    Shape {
        name: "refs that are packed, and one branch of many that is not merged",
        people: "echo 1 > a; base",
        agent: "for i in 1 2 3; do git checkout -q -b b$i; echo $i > f$i; git add .; git commit -qm $i; done; \
                git checkout -q -; git checkout -q -; git checkout -q b2; git branch -q -f work; git pack-refs --all",
        published: &[r"A 100644 f1 | 1\n", r"A 100644 f2 | 2\n"],
        left_out: &[("refs/heads/b3", LeftOutReason::OtherCommits { commits: 1 })],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "branches whose changes are published in another form",
        people: "echo 1 > a; base",
        agent: "h=$(git symbolic-ref --short HEAD); git checkout -q -b squashed; echo 1 > s; git add .; git commit -qm 1; echo 2 > s; \
                git commit -qam 2; git checkout -q -b picked $h; echo 1 > p; git add .; git commit -qm p; git checkout -q $h; \
                git merge -q --squash squashed; git commit -qm squashed; git cherry-pick picked; git branch backup; \
                echo 1 > b; git stash -q -u; git stash apply -q; git stash drop -q",
        published: &[r"A 100644 b | 1\n", r"A 100644 p | 1\n", r"A 100644 s | 2\n"],
        commits: 3,
        ..PLAIN
    },
    Shape {
        name: "a stash with only untracked files",
        people: "echo 1 > a; base",
        agent: "echo 1 > u; git stash -q -u; echo 1 > b",
        published: &[r"A 100644 b | 1\n"],
        left_out: &[("refs/stash", LeftOutReason::OtherCommits { commits: 3 })],
        ..PLAIN
    },
    Shape {
        name: "a published commit whose message and content were changed",
        people: "echo 1 > a; base; echo 2 > a; base second",
        agent: "echo 3 > a; git commit -q --amend -am amended",
        published: &[r"M 100644 a | 3\n"],
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
    Shape {
        name: "a published commit of which only the message was changed",
        people: "echo 1 > a; base",
        agent: "git commit -q --amend -m amended",
        commits: 0,
        replaced: Some(LeftOutReason::RewrittenHistory),
        ..PLAIN
    },
];

#[tokio::test]
async fn commits_of_an_agent_may_have_any_form() {
    check_all(SHAPES).await;
}
