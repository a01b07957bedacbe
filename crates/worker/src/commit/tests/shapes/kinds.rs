//! Links, modes, repositories inside, and other kinds of entries.

use journeyman_core::left_out::LeftOutReason;

use super::{PLAIN, Shape, check_all};

const SHAPES: &[Shape] = &[
    Shape {
        name: "links: absolute, dangling, to a folder, in a loop, and out of the tree",
        people: "mkdir d; echo 1 > d/x; ln -s d to-folder; ln -s loop loop; ln -s nowhere dangling; ln -s d/x stays; base",
        agent: "ln -sfn /etc/passwd to-folder; ln -s ../../.. out; ln -sf nowhere2 dangling; ln -s loop2 loop2; \
                ln -sf d/x t; mv t stays; echo 2 > loop3; ln -s /dev/zero zero; ln -s /proc/self/fd/0 stdin",
        published: &[
            "M 120000 dangling | nowhere2",
            "A 120000 loop2 | loop2",
            r"A 100644 loop3 | 2\n",
            "A 120000 out | ../../..",
            "A 120000 stdin | /proc/self/fd/0",
            "M 120000 to-folder | /etc/passwd",
            "A 120000 zero | /dev/zero",
        ],
        ..PLAIN
    },
    Shape {
        name: "links and folders that replace each other",
        people: "mkdir -p d/e real; echo 1 | tee d/e/x d/y real/x > real/y; ln -s real l; base",
        agent: "rm -r d; ln -s real d; rm l; mkdir l; echo 1 > l/x; rm -r real/y; mkdir real/y; ln -s ../x real/y/z",
        published: &[
            "A 120000 d | real",
            "D 100644 d/e/x",
            "D 100644 d/y",
            "D 120000 l",
            r"A 100644 l/x | 1\n",
            "D 100644 real/y",
            "A 120000 real/y/z | ../x",
        ],
        ..PLAIN
    },
    Shape {
        name: "files that become links, and files again",
        people: "echo 1 | tee a b > c; base",
        agent: "rm a b; ln -s c a; ln -s c b; rm a; echo 1 > a; git add b; git commit -qm link; rm b; echo 1 > b",
        published: &[],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "links that become files in a repository with attributes",
        people: "echo 1 > a; ln -s a l; echo '*.txt text' > .gitattributes; base",
        agent: "rm l; echo 1 > l",
        published: &[r"T 120000>100644 l | 1\n"],
        ..PLAIN
    },
    Shape {
        name: "links that the agent's git writes as files",
        people: "echo 1 > a; ln -s a l; ln -s a m; base",
        agent: "git config core.symlinks false; rm l m; git checkout -- l; ln -s a m; git status",
        published: &["T 120000>100644 l | a"],
        ..PLAIN
    },
    Shape {
        name: "modes, with core.fileMode=false",
        people: "printf '#!/bin/sh\\n' | tee run plain > both; chmod +x run; base",
        agent: "git config core.fileMode false; chmod -x run; chmod 755 plain; chmod 2711 both; chmod 600 both; echo 1 > n; chmod 611 n",
        published: &[r"A 100644 n | 1\n", r"M 100644>100755 plain | #!/bin/sh\n", r"M 100755>100644 run | #!/bin/sh\n"],
        ..PLAIN
    },
    Shape {
        name: "modes of old trees",
        people: r#"mkdir d e; echo 1 | tee a d/x d/y > e/z; base
            oid=$(git rev-parse HEAD:a); bytes() { printf "$(echo $1 | sed 's/../\\x&/g')" ; }
            raw() { printf '%s %s\0' "$1" "$2"; printf %s "$3" | sed 's/../\\x&/g' | xargs -0 /usr/bin/printf; }
            d=$( (raw 100664 x $oid; raw 100600 y $oid) | git hash-object -t tree -w --stdin --literally)
            e=$( (raw 100664 z $oid) | git hash-object -t tree -w --stdin --literally)
            top=$( (raw 100664 a $oid; raw 040000 d $d; raw 040000 e $e) | git hash-object -t tree -w --stdin --literally)
            git update-ref HEAD $(git commit-tree -m old -p HEAD $top); git reset -q --hard"#,
        agent: "echo 2 > d/x; echo 1 > n",
        published: &[r"M 100644 d/x | 2\n", r"A 100644 n | 1\n"],
        ..PLAIN
    },
    Shape {
        name: "empty files and folders",
        people: ": > e; mkdir d; : > d/.gitkeep; base",
        agent: "mkdir -p x/y/z; : > f; echo 1 > e; rm d/.gitkeep",
        published: &["D 100644 d/.gitkeep", r"M 100644 e | 1\n", "A 100644 f | "],
        ..PLAIN
    },
    Shape {
        name: "hard links",
        people: "echo 1 | tee a > c; base",
        agent: "ln a b; rm c; ln a c; ln a t; rm t",
        published: &[r"A 100644 b | 1\n"],
        ..PLAIN
    },
    Shape {
        name: "a bare repository, and files called .git",
        people: "mkdir f g; echo 1 | tee f/a > g/a; base",
        agent: "git init -q --bare fixture.git; rm -r fixture.git/hooks fixture.git/info; echo 'gitdir: nowhere' > f/.git; echo 2 > f/a; \
                mkdir g/.git; echo 2 > g/a; : > g/.git/config",
        published: &[
            r"A 100644 fixture.git/HEAD | ref: refs/heads/master\n",
            r"A 100644 fixture.git/config | [core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
            r"A 100644 fixture.git/description | Unnamed repository; edit this file \'description\' to name the repository.\n",
            r"M 100644 g/a | 2\n",
        ],
        left_out: &[("f", LeftOutReason::RepositoryInside)],
        ..PLAIN
    },
    Shape {
        name: "a folder of the repository that becomes a clone",
        people: "mkdir -p vendor/lib; echo 1 | tee vendor/lib/a > vendor/b; base",
        agent: "rm -r vendor/lib; git clone -q . vendor/lib 2>&1; echo 2 > vendor/b",
        published: &[r"M 100644 vendor/b | 2\n"],
        left_out: &[("vendor/lib", LeftOutReason::RepositoryInside)],
        ..PLAIN
    },
    Shape {
        name: "a pointer without .gitmodules",
        people: "echo 1 > a; mkdir d; echo 1 > d/x; git add .; git update-index --add --cacheinfo 160000,$(printf %040d 1),sub; git commit -qm base; mkdir -p sub",
        agent: "echo 2 > a; git mv d e; git commit -qam own; echo 1 > b",
        published: &[r"M 100644 a | 2\n", r"A 100644 b | 1\n", "D 100644 d/x", r"A 100644 e/x | 1\n"],
        commits: 2,
        ..PLAIN
    },
    Shape {
        name: "a pointer without .gitmodules, which the agent removes and commits",
        people: "echo 1 > a; git add .; git update-index --add --cacheinfo 160000,$(printf %040d 1),sub; git commit -qm base; mkdir -p sub",
        agent: "git rm -q sub; git commit -qm own",
        published: &["D 160000 sub"],
        ..PLAIN
    },
    Shape {
        name: ".gitmodules without pointers",
        people: "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = ../x\\n' > .gitmodules; base",
        agent: "echo 1 > b; mkdir x; echo 1 > x/a",
        published: &[r"A 100644 b | 1\n", r"A 100644 x/a | 1\n"],
        ..PLAIN
    },
    Shape {
        name: "a fixture with .gitmodules that code hosts refuse",
        people: "echo 1 > a; base",
        agent: "mkdir -p t/x t/y; printf '[submodule \"../x\"]\\n\\turl = -u\\n' > t/x/.gitmodules; ln -s x t/y/.gitmodules; echo 1 > b",
        published: &[r"A 100644 b | 1\n"],
        left_out: &[("t/x/.gitmodules", LeftOutReason::RefusedByGit), ("t/y/.gitmodules", LeftOutReason::RefusedByGit)],
        ..PLAIN
    },
    Shape {
        name: "a fixture with .gitmodules that code hosts refuse, which the agent commits",
        people: "echo 1 > a; base",
        agent: "mkdir t; printf '[submodule \"../x\"]\\n\\turl = -u\\n' > t/.gitmodules; echo 1 > b; git add .; git commit -qm own",
        published: &[r"A 100644 b | 1\n"],
        left_out: &[("t/.gitmodules", LeftOutReason::RefusedByGit)],
        replaced: Some(LeftOutReason::ReplacedCommits),
        ..PLAIN
    },
];

#[tokio::test]
async fn entries_are_published_as_what_they_are() {
    check_all(SHAPES).await;
}
