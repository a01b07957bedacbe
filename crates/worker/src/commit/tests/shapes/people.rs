//! Histories and refs of people that are unusual, conflict marks that are content, and large repositories.

use super::{PLAIN, Shape, check_all};

const SHAPES: &[Shape] = &[
    Shape {
        name: "two roots, an octopus, notes, and tags of everything",
        people: r"echo 1 > a; base; git checkout -q --orphan r; git rm -q -r -f .; echo r > r; base root; git checkout -q main
            git merge -q --allow-unrelated-histories -m roots r; for i in x y z; do git checkout -q -b $i main; echo $i > $i; base $i; done
            git checkout -q main; git merge -q -m octopus x y z; git notes add -m note; git tag -a t1 -m t HEAD^{tree}
            git tag -a t2 -m t HEAD:a; git tag t3 HEAD:a; git tag -a t4 -m t t1; git tag main
            git update-ref refs/tags/$(printf 'caf\351') HEAD
            git push -q ../origin.git HEAD:refs/heads/HEAD HEAD:refs/heads/@ x:refs/heads/$(git rev-parse HEAD) refs/notes/*:refs/notes/* HEAD:refs/odd/x HEAD:refs/pull/1/head HEAD:refs/heads/a/@{x 2>/dev/null || 
            git push -q ../origin.git HEAD:refs/heads/HEAD HEAD:refs/heads/@ x:refs/heads/$(git rev-parse HEAD) 'refs/notes/*:refs/notes/*' HEAD:refs/odd/x HEAD:refs/pull/1/head",
        agent: "echo 2 > r; git log --oneline > $HOME/log; git commit -qam own; echo 1 > n",
        published: &[r"A 100644 n | 1\n", r"M 100644 r | 2\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "authors and dates that git no longer writes",
        people: r"echo 1 > a; git add .; t=$(git write-tree); c=$(odd $t ' <> -100 +0000'); 
            c=$(odd $t 'A<a@b> 0 +2561' 'no line break' '' parent' '$c'\n'); c=$(odd $t 'A <a <b@c>> 99999999999 -0060' 'x\r\n' 'encoding KLINGON\n' parent' '$c'\n')
            c=$(odd $t 'caf\0351 <a> 1 +0000' 'caf\0351\0000nul' '' parent' '$c'\n'); git update-ref refs/heads/main $c; git reset -q --hard",
        agent: "git log > $HOME/log 2>&1; echo 2 > a; git commit -qam own; echo 1 > n",
        published: &[r"M 100644 a | 2\n", r"A 100644 n | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a commit without files",
        people: "git commit -q --allow-empty -m nothing",
        agent: "echo 1 > a",
        published: &[r"A 100644 a | 1\n"],
        ..PLAIN
    },
    Shape {
        name: "marks of conflicts that were there, and headings that look like them",
        people: r"mkdir t; printf '<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n' | tee t/one > t/two; base",
        agent: r"printf 'Title\n=======\n\n>>>>>>> quoted\n' > README.rst; git mv t tests; echo more >> tests/two; echo 1 > a",
        published: &[
            r"A 100644 README.rst | Title\n=======\n\n>>>>>>> quoted\n",
            r"A 100644 a | 1\n",
            "D 100644 t/one",
            "D 100644 t/two",
            r"A 100644 tests/one | <<<<<<< a\n1\n=======\n2\n>>>>>>> b\n",
            r"A 100644 tests/two | <<<<<<< a\n1\n=======\n2\n>>>>>>> b\nmore\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "a repository that borrows its objects",
        people: r"echo 1 > a; base; git clone -q --bare . ../other.git; git push -q ../origin.git HEAD:refs/heads/main
            git -C ../origin.git repack -qad; echo ../../other.git/objects > ../origin.git/objects/info/alternates
            rm -f ../origin.git/objects/pack/*; git clone -q --shared ../origin.git ../third; cd ../third; echo 2 > a; base",
        agent: "echo 3 > a; git commit -qam own; git repack -qadl; echo 1 > b",
        published: &[r"M 100644 a | 3\n", r"A 100644 b | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "ten thousand refs",
        people: r"echo 1 > a; base; h=$(git rev-parse HEAD); seq 10000 | sed s,.*,create\ refs/heads/pr/\&\ $h, |
            git -C ../origin.git update-ref --stdin || { git push -q ../origin.git main;
            seq 10000 | sed s,.*,create\ refs/heads/pr/\&\ $h, | git -C ../origin.git update-ref --stdin; }",
        agent: "echo 2 > a; git commit -qam own; echo 1 > b",
        published: &[r"M 100644 a | 2\n", r"A 100644 b | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a folder with thousands of files, all of which the agent writes again",
        people: "mkdir d; cd d; seq 3000 | split -l 1 -a 4 -; cd ..; echo '*.x text' > .gitattributes; base",
        agent: "find d -type f -exec touch {} +; echo new > d/xzzz; rm d/xaaaa; chmod +x d/xaaab",
        published: &["D 100644 d/xaaaa", r"M 100644>100755 d/xaaab | 2\n", r"A 100644 d/xzzz | new\n"],
        ..PLAIN
    },
];

/// A turn of these takes seconds.
const LARGE: &[Shape] = &[
    Shape {
        name: "fifty thousand files in one folder, all of which the agent writes again",
        people: "mkdir d; cd d; seq 50000 | split -l 1 -a 5 -; cd ..; echo '*.x text' > .gitattributes; base",
        agent: "find d -type f -exec touch {} +; echo new > d/y; rm d/xaaaaa; mv d/xaaaab d/z; chmod +x d/xaaaac",
        published: &[
            "D 100644 d/xaaaaa",
            "D 100644 d/xaaaab",
            r"M 100644>100755 d/xaaaac | 3\n",
            r"A 100644 d/y | new\n",
            r"A 100644 d/z | 2\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "fifty thousand files that the agent moves and commits, and the folder without one of them",
        people: "mkdir d; cd d; seq 50000 | split -l 1 -a 5 -; cd ..; echo '* text=auto' > .gitattributes; base",
        agent: "git mv d e; git commit -qm moved; git mv e d; git commit -qm back; rm d/xaaaaa; echo '*.log' > .gitignore",
        published: &[r"A 100644 .gitignore | *.log\n", "D 100644 d/xaaaaa"],
        commits: 3,
        ..PLAIN
    },
    Shape {
        name: "a file of 60 MB that changes, and a new one",
        people: "head -c 60000000 /dev/zero > old; base",
        agent: "printf x >> old; head -c 60000000 /dev/urandom | tr '\\000-\\377' a > new; git add new; git commit -qm own",
        published: &[
            r"A 100644 new | aaaaaaaaaaaaaaaaaaaa (60000000 bytes)",
            r"M 100644 old | \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00 (60000001 bytes)",
        ],
        commits: 2,
        file_bytes: 100 << 20,
        ..PLAIN
    },
];

#[tokio::test]
#[ignore = "writes 100,000 files and 200 MB: make exact"]
async fn large_repositories_are_published() {
    check_all(LARGE).await;
}

#[tokio::test]
async fn repositories_of_people_may_have_any_history() {
    check_all(SHAPES).await;
}
