//! Names that other systems, shells and lists do not expect.

use journeyman_core::left_out::LeftOutReason;

use super::{PLAIN, Shape, check_all};

const SHAPES: &[Shape] = &[
    Shape {
        name: "names with special characters, in the repository and new",
        people: r#"for n in 'a b' 'q"q' "s's" 'b\b' -d . .. 'c:c' 'dot.' 'sp ' "$(printf 't\tt')" "$(printf 'n\nn')"; do
            case $n in .|..) ;; *) echo 1 > "./$n";; esac; done; base"#,
        agent: r#"for f in *; do echo 2 > "./$f"; done; mv ./-d ./--e; mv 'b\b' 'b\c'; rm 'c:c'"#,
        published: &[
            r"A 100644 --e | 2\n",
            "D 100644 -d",
            r"M 100644 a b | 2\n",
            r"D 100644 b\\b",
            r"A 100644 b\\c | 2\n",
            "D 100644 c:c",
            r"M 100644 dot. | 2\n",
            r"M 100644 n\nn | 2\n",
            r#"M 100644 q\"q | 2\n"#,
            r"M 100644 s\'s | 2\n",
            r"M 100644 sp  | 2\n",
            r"M 100644 t\tt | 2\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "names of two normal forms, emoji, and bytes that are not UTF-8",
        people: r"printf 1 > $(printf 'caf\303\251'); printf 1 > $(printf 'cafe\314\201'); printf 1 > $(printf 'x\200'); base",
        agent: r"git config core.precomposeUnicode true; printf 2 > $(printf 'cafe\314\201'); rm $(printf 'x\200')
                 printf 1 > $(printf '\360\237\246\200'); printf 1 > $(printf '\377\376')",
        published: &[
            r"M 100644 cafe\xcc\x81 | 2",
            r"D 100644 x\x80",
            r"A 100644 \xf0\x9f\xa6\x80 | 1",
            r"A 100644 \xff\xfe | 1",
        ],
        ..PLAIN
    },
    Shape {
        name: "names that differ only in case",
        people: "mkdir Doc; echo 1 | tee README readme Doc/a > Case; base",
        agent: "git config core.ignoreCase true; echo 2 > README; git mv Case case; mkdir doc; echo 1 > doc/a; echo 1 > Doc/A",
        published: &[
            "D 100644 Case",
            "A 100644 Doc/A | 1\\n",
            "M 100644 README | 2\\n",
            "A 100644 case | 1\\n",
            "A 100644 doc/a | 1\\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "names that some systems take for .git",
        people: "echo 1 > a; base",
        agent: r#"for n in .GIT git~1 '.git ' '.git...' '.git::x' "$(printf '.g\342\200\214it')" 'd\.git\x' ; do echo 1 > "$n"; done
                  mkdir 'Git~1x' .gitx; echo 1 | tee 'Git~1x/a' .gitx/a > b"#,
        published: &["A 100644 .gitx/a | 1\\n", "A 100644 Git~1x/a | 1\\n", "A 100644 b | 1\\n"],
        left_out: &[
            (".GIT", LeftOutReason::RefusedByGit),
            (".git ", LeftOutReason::RefusedByGit),
            (".git...", LeftOutReason::RefusedByGit),
            (".git::x", LeftOutReason::RefusedByGit),
            (r".g\xe2\x80\x8cit", LeftOutReason::RefusedByGit),
            (r"d\\.git\\x", LeftOutReason::RefusedByGit),
            ("git~1", LeftOutReason::RefusedByGit),
        ],
        ..PLAIN
    },
    Shape {
        name: "such a name in a commit of the agent",
        people: "echo 1 > a; base",
        agent: r#"n="$(printf '.g\342\200\214it')"; echo 1 > "$n"; echo 1 > b; git -c core.protectHFS=false add .; git commit -qm own"#,
        published: &["A 100644 b | 1\\n"],
        left_out: &[(r".g\xe2\x80\x8cit", LeftOutReason::RefusedByGit)],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
    Shape {
        name: "the longest names and paths",
        people: "echo 1 > a; base",
        agent: r"n=$(head -c 255 /dev/zero | tr '\0' n); echo 1 > $n; for i in $(seq 15); do mkdir d$i${n%nnn}; cd d$i${n%nnn}; done
                 echo 1 > $(head -c 200 /dev/zero | tr '\0' o)",
        published: &[
            r"A 100644 d1nnnnnnnnnnnnnnnnnn (4031 bytes) | 1\n",
            r"A 100644 nnnnnnnnnnnnnnnnnnnn (255 bytes) | 1\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "a path that is too long",
        people: "echo 1 > a; base",
        agent: r"n=$(head -c 250 /dev/zero | tr '\0' n); mkdir deep; (cd deep; echo 1 > y; for i in $(seq 17); do mkdir $n; cd -P $n; done; echo 1 > x)
                 echo 1 > b",
        published: &[r"A 100644 b | 1\n", r"A 100644 deep/y | 1\n"],
        left_out: &[("deep", LeftOutReason::PathTooLong)],
        ..PLAIN
    },
    Shape {
        name: "a tree of 300 levels",
        people: "(for i in $(seq 300); do mkdir d; cd d; done; echo 1 > f); base",
        agent: "f=$(find . -name f); echo 2 > $f; mkdir -p d/d/e; git mv $f d/d/e/g",
        published: &["D 100644 d/d/d/d/d/d/d/d/d/d/ (601 bytes)", r"A 100644 d/d/e/g | 2\n"],
        ..PLAIN
    },
];

#[tokio::test]
async fn names_are_bytes() {
    check_all(SHAPES).await;
}
