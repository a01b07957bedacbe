//! Ignore rules, and the index of the agent.

use journeyman_core::left_out::LeftOutReason;

use super::{PLAIN, Shape, check_all};

const SHAPES: &[Shape] = &[
    Shape {
        name: "nested rules with exceptions",
        people: r"mkdir -p a/keep; printf '*.log\n/build/\n!important.log\n' > .gitignore; printf '!*.log\n/x.log\n' > a/.gitignore
            printf '*\n!.gitignore\n!*.c\n' > a/keep/.gitignore; base",
        agent: "mkdir -p build a/build; echo 1 | tee a.log important.log build/x a/b.log a/x.log a/build/y a/keep/c.c a/keep/d > e",
        published: &[
            r"A 100644 a/b.log | 1\n",
            r"A 100644 a/build/y | 1\n",
            r"A 100644 a/keep/c.c | 1\n",
            r"A 100644 e | 1\n",
            r"A 100644 important.log | 1\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "tracked files that rules ignore",
        people: "mkdir dist; echo 1 | tee dist/a.js dist/b.js > dist/c.js; base; echo dist > .gitignore; base",
        agent: "echo 2 > dist/a.js; rm dist/b.js; echo 2 > dist/new.js; git mv dist/c.js dist/d.js",
        published: &[
            "M 100644 dist/a.js | 2\\n",
            "D 100644 dist/b.js",
            "D 100644 dist/c.js",
            "A 100644 dist/d.js | 1\\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "files that the agent no longer tracks",
        people: "mkdir secret; echo 1 | tee .env secret/a > secret/b; base",
        agent: "printf '.env\nsecret/\n' > .gitignore; git rm -q --cached .env secret/a; git rm -q -r --cached secret",
        published: &[
            "D 100644 .env",
            r"A 100644 .gitignore | .env\nsecret/\n",
            "D 100644 secret/a",
            "D 100644 secret/b",
        ],
        ..PLAIN
    },
    Shape {
        name: "files that the agent no longer tracks, although no rule ignores them",
        people: "echo 1 > a; base",
        agent: "git rm -q --cached a; echo 1 > b",
        published: &["A 100644 b | 1\\n"],
        ..PLAIN
    },
    Shape {
        name: "ignored files that the agent has added",
        people: "printf 'dist/\n*.log\n' > .gitignore; base",
        agent: "mkdir dist; echo 1 | tee dist/a.js dist/b.js > x.log; git add -f dist/a.js; echo 2 > dist/a.js",
        published: &["A 100644 dist/a.js | 2\\n"],
        ..PLAIN
    },
    Shape {
        name: "rules that are a link",
        people: "echo '*.log' > rules; ln -s rules .gitignore; base",
        agent: "echo 1 | tee a.log > b",
        published: &["A 100644 a.log | 1\\n", "A 100644 b | 1\\n"],
        ..PLAIN
    },
    Shape {
        name: "a link to rules, and to attributes, that the agent makes",
        people: "echo '*.log' > rules; base",
        agent: "ln -s rules .gitignore; ln -s rules .gitattributes; echo 1 > b.log",
        published: &["A 120000 .gitattributes | rules", "A 120000 .gitignore | rules", "A 100644 b.log | 1\\n"],
        ..PLAIN
    },
    Shape {
        name: "rules with a byte order mark and CRLF",
        people: r"printf '\357\273\277*.log\r\n*.tmp\r\n' > .gitignore; base",
        agent: r"mkdir -p .git/info; printf '\357\273\277*.own\r\n' > .git/info/exclude; echo 1 | tee a.log a.tmp a.own > b",
        published: &["A 100644 b | 1\\n"],
        ..PLAIN
    },
    Shape {
        name: "rules and attributes that are folders",
        people: "echo 1 > a; base",
        agent: "mkdir .gitignore .gitattributes; echo 1 | tee .gitignore/x > b; echo 2 > .gitattributes/x",
        published: &["A 100644 .gitignore/x | 1\\n", "A 100644 b | 1\\n"],
        left_out: &[(".gitattributes", LeftOutReason::RefusedByGit)],
        ..PLAIN
    },
    Shape {
        name: "files that the agent intends to add",
        people: "echo '*.log' > .gitignore; base",
        agent: "echo 1 | tee a > b.log; git add -N a; git add -N -f b.log",
        published: &["A 100644 a | 1\\n", "A 100644 b.log | 1\\n"],
        ..PLAIN
    },
    Shape {
        name: "a mode that only the index has",
        people: "echo 1 > a; base",
        agent: "git update-index --chmod=+x a; git commit -qm mode; echo 1 > b",
        published: &["M 100644>100755 a | 1\\n", "A 100644 b | 1\\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "sparse with a cone and a sparse index, and files outside",
        people: "mkdir -p apps/web libs/deep; echo 1 | tee apps/web/a libs/b libs/deep/c > top; base",
        agent: "git sparse-checkout set --cone --sparse-index apps/web; echo 2 > apps/web/a; mkdir -p libs; echo 2 > libs/new; \
                git add --sparse libs/new; rm top",
        published: &["M 100644 apps/web/a | 2\\n", "A 100644 libs/new | 2\\n", "D 100644 top"],
        ..PLAIN
    },
    Shape {
        name: "sparse without a cone",
        people: "mkdir -p src docs; echo 1 | tee src/a.c src/a.h docs/d > top; base",
        agent: "git sparse-checkout set --no-cone '*.c' '/top'; rm src/a.c; echo 2 > top; git commit -qam own; echo 1 > src/b.c",
        published: &["D 100644 src/a.c", "A 100644 src/b.c | 1\\n", "M 100644 top | 2\\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "files that are assumed to be unchanged, and removed",
        people: "echo 1 | tee a b > c; base",
        agent: "git update-index --assume-unchanged a b; rm a; echo 2 | tee b > c",
        published: &["M 100644 c | 2\\n"],
        left_out: &[("a", LeftOutReason::MarkedLocal), ("b", LeftOutReason::MarkedLocal)],
        ..PLAIN
    },
    Shape {
        name: "a file that is marked as local, and moved with its mark",
        people: "echo 1 > a; base",
        agent: "git update-index --skip-worktree a; git mv a b",
        published: &["D 100644 a", r"A 100644 b | 1\n"],
        ..PLAIN
    },
    Shape {
        name: "files that the agent's git keeps out of the tree, and others in their place",
        people: "mkdir a b c; echo 1 | tee a/x b/x c/x > d; base",
        agent: "git update-index --skip-worktree a/x d; rm -r a; echo 2 > a; rm d; mkdir d; echo 2 > d/x; \
                git sparse-checkout set c; ln -s c b",
        published: &[
            r"A 100644 a | 2\n",
            "D 100644 a/x",
            "A 120000 b | c",
            "D 100644 b/x",
            "D 100644 d",
            r"A 100644 d/x | 2\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "an index of another format",
        people: "mkdir d; for i in 1 2 3 4; do echo $i > d/$i; done; echo '*.log' > .gitignore; base",
        agent: "git config core.splitIndex true; git update-index --index-version 4 --split-index --untracked-cache; \
                git update-index --skip-worktree d/1; echo x | tee d/1 d/2 a.log > d/new; git add -f a.log; git status",
        published: &["A 100644 a.log | x\\n", "M 100644 d/2 | x\\n", "A 100644 d/new | x\\n"],
        left_out: &[("d/1", LeftOutReason::MarkedLocal)],
        ..PLAIN
    },
];

#[tokio::test]
async fn rules_and_the_index_decide_as_in_git() {
    check_all(SHAPES).await;
}
