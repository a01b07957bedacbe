//! Line endings, encodings and other conversions of content.

use journeyman_core::left_out::LeftOutReason;

use super::{PLAIN, Shape, check_all};

/// Files with CRLF that were committed before `.gitattributes` existed, as in projects that began on Windows.
const OLD_CRLF: &str = r"printf 'a\r\nb\r\n' > old.cs; printf 'a\r\nb\n' > mixed.cs; printf 'a\nb\n' > lf.cs; base
     echo '* text=auto' > .gitattributes; base attributes";

const SHAPES: &[Shape] = &[
    Shape {
        name: "old CRLF and mixed endings under text=auto",
        people: OLD_CRLF,
        agent: r"sed -i 's/^b/B/' old.cs mixed.cs lf.cs; printf 'n\r\n' > new.cs; printf '\000\r\n' > new.bin",
        published: &[
            r"M 100644 lf.cs | a\nB\n",
            r"M 100644 mixed.cs | a\r\nB\n",
            r"A 100644 new.bin | \x00\r\n",
            r"A 100644 new.cs | n\n",
            r"M 100644 old.cs | a\r\nB\r\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "old CRLF files that are moved under text=auto",
        people: OLD_CRLF,
        agent: r"mkdir src; git mv old.cs src/old.cs; mv mixed.cs 'src/mixed 2.cs'",
        published: &[
            "D 100644 mixed.cs",
            "D 100644 old.cs",
            r"A 100644 src/mixed 2.cs | a\r\nb\n",
            r"A 100644 src/old.cs | a\r\nb\r\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "old CRLF files that are moved and edited under text=auto",
        people: OLD_CRLF,
        agent: r"git mv old.cs new.cs; printf 'c\r\n' >> new.cs; git mv mixed.cs gone.cs; rm gone.cs",
        published: &["D 100644 mixed.cs", r"A 100644 new.cs | a\r\nb\r\nc\r\n", "D 100644 old.cs"],
        ..PLAIN
    },
    Shape {
        name: "eol=crlf",
        people: r"echo '*.bat text eol=crlf' > .gitattributes; printf 'one\ntwo\n' > run.bat; printf 'x\n' > same.bat; base",
        agent: r"grep -q '^x.$' same.bat; printf 'one\r\nTWO\r\n' > run.bat; printf 'x\n' > same.bat; printf 'n\n' > new.bat",
        published: &[r"A 100644 new.bat | n\n", r"M 100644 run.bat | one\nTWO\n"],
        ..PLAIN
    },
    Shape {
        name: "CRLF without attributes",
        people: r"printf 'a\r\nb\n' > a; base",
        agent: r"printf 'A\r\nb\n' > a; printf 'n\r\n' > n; sed -i 's/x/y/' a",
        published: &[r"M 100644 a | A\r\nb\n", r"A 100644 n | n\r\n"],
        ..PLAIN
    },
    Shape {
        name: "the agent sets core.autocrlf, and commits nothing",
        people: r"printf 'a\r\n' > a; printf 'b\n' > b; base",
        agent: r"git config core.autocrlf true; printf 'n\r\n' > n; touch a; git add .; echo b2 >> b",
        published: &[r"M 100644 b | b\nb2\n", r"A 100644 n | n\n"],
        ..PLAIN
    },
    Shape {
        name: "the agent sets core.autocrlf, and commits",
        people: r"printf 'a\n' > a; base",
        agent: r"git config --global core.autocrlf input; printf 'n\r\n' > n; git add .; git commit -qm own",
        published: &[r"A 100644 n | n\n"],
        ..PLAIN
    },
    Shape {
        name: "UTF-16 with working-tree-encoding",
        people: r"printf '*.rc text working-tree-encoding=UTF-16LE-BOM eol=crlf\n' > .gitattributes
            printf '\377\376a\000\r\000\n\000' > a.rc; printf '\377\376b\000\r\000\n\000' > b.rc; base",
        agent: r"printf '\377\376A\000\r\000\n\000' > a.rc; touch b.rc; printf '\377\376n\000' > n.rc; git mv b.rc c.rc",
        published: &[r"M 100644 a.rc | A\n", "D 100644 b.rc", r"A 100644 c.rc | b\n", "A 100644 n.rc | n"],
        ..PLAIN
    },
    Shape {
        name: "UTF-16 without attributes",
        people: r"printf '\377\376a\000\r\000\n\000' > a.rc; echo '* text=auto' > .gitattributes; base",
        agent: r"printf '\377\376A\000\r\000\n\000' > a.rc; printf '\376\377\000n\000\r\000\n' > n.rc",
        published: &[r"M 100644 a.rc | \xff\xfeA\x00\r\x00\n\x00", r"A 100644 n.rc | \xfe\xff\x00n\x00\r\x00\n"],
        ..PLAIN
    },
    Shape {
        name: "a byte order mark where the encoding has none, and an encoding that nobody knows",
        people: "printf '*.u working-tree-encoding=UTF-16LE\\n*.w working-tree-encoding=UTF-16\\n\
                 *.k working-tree-encoding=KLINGON\\n' > .gitattributes; base",
        agent: r"printf '\377\376a\000' > a.u; printf 'a\000' > a.w; echo 1 > a.k; echo 1 > b",
        published: &[r"A 100644 b | 1\n"],
        left_out: &[
            ("a.k", LeftOutReason::NotEncodable),
            ("a.u", LeftOutReason::NotEncodable),
            ("a.w", LeftOutReason::NotEncodable),
        ],
        ..PLAIN
    },
    Shape {
        name: "$Id$ and $Format$",
        people: r"printf '*.h ident\n*.v export-subst\n' > .gitattributes; printf '$Id$\none\n' > a.h; cp a.h b.h
            printf '$Format:%%H$\n' > a.v; base",
        agent: r"grep -q 'Id: ' a.h; sed -i s/one/two/ a.h; cp b.h t; mv t b.h; git mv b.h c.h; echo more >> a.v",
        published: &[
            r"M 100644 a.h | $Id$\ntwo\n",
            r"M 100644 a.v | $Format:%H$\nmore\n",
            "D 100644 b.h",
            r"A 100644 c.h | $Id$\none\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "filters that nobody has, drivers for diff and merge, and macros",
        people: r"printf '[attr]mine -text diff=hex\n*.sec filter=git-crypt diff=git-crypt\n*.m mine\n*.log merge=union\n*.ipynb filter=nbstripout\n' > .gitattributes
            printf 'a\r\n' | tee a.sec a.m a.ipynb > CHANGES.log; base",
        agent: r"for f in a.sec a.m a.ipynb CHANGES.log; do printf 'b\r\n' >> $f; done; git config filter.git-crypt.clean false",
        published: &[
            r"M 100644 CHANGES.log | a\r\nb\r\n",
            r"M 100644 a.ipynb | a\r\nb\r\n",
            r"M 100644 a.m | a\r\nb\r\n",
            r"M 100644 a.sec | a\r\nb\r\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "attributes of folders, which differ",
        people: r"mkdir -p a/b; echo '* text' > .gitattributes; echo '* -text' > a/.gitattributes
            echo '*.x text eol=crlf' > a/b/.gitattributes; printf 'a\n' | tee top a/a a/b/b.x > a/b/b; base",
        agent: r"for f in top a/a a/b/b a/b/b.x; do printf 'b\r\n' > $f; done",
        published: &[
            r"M 100644 a/a | b\r\n",
            r"M 100644 a/b/b | b\r\n",
            r"M 100644 a/b/b.x | b\n",
            r"M 100644 top | b\n",
        ],
        ..PLAIN
    },
    Shape {
        name: "attributes that only the agent has",
        people: "echo a > a; base",
        agent: r"mkdir -p .git/info ~/.config/git; echo '* text' > .git/info/attributes; echo '* text' > ~/.config/git/attributes
                 printf 'b\r\n' > b",
        published: &[r"A 100644 b | b\r\n"],
        ..PLAIN
    },
    Shape {
        name: "line endings that the agent normalizes",
        people: r"printf 'a\r\n' > a.txt; printf 'b\r\n' > b.txt; base",
        agent: r"echo '* text=auto' > .gitattributes; git add --renormalize .; sed -i 's/\r$//' a.txt",
        published: &[r"A 100644 .gitattributes | * text=auto\n", r"M 100644 a.txt | a\n"],
        ..PLAIN
    },
    Shape {
        name: "line endings that the agent normalizes and commits",
        people: r"printf 'a\r\n' > a.txt; printf 'b\r\n' > b.txt; base",
        agent: r"echo '* text=auto' > .gitattributes; git add --renormalize .; git add .; git commit -qm normalized; touch a.txt",
        published: &[r"A 100644 .gitattributes | * text=auto\n", r"M 100644 a.txt | a\n", r"M 100644 b.txt | b\n"],
        ..PLAIN
    },
    Shape {
        name: "attributes that code hosts refuse",
        people: "echo a > a; base",
        agent: "mkdir d; head -c 900 /dev/zero | tr '\\0' a > t; cat t t t > d/.gitattributes; rm t; echo 1 > b",
        published: &[r"A 100644 b | 1\n"],
        left_out: &[("d/.gitattributes", LeftOutReason::RefusedByGit)],
        file_bytes: 1 << 20,
        ..PLAIN
    },
    Shape {
        name: "pointers of LFS that were never converted",
        people: r"printf '*.bin filter=lfs -text\n' > .gitattributes; printf 'raw\r\n' > old.bin; base",
        agent: r"touch old.bin; chmod +x old.bin; echo 1 > b",
        published: &[r"A 100644 b | 1\n", r"M 100644>100755 old.bin | raw\r\n"],
        ..PLAIN
    },
];

#[tokio::test]
async fn content_is_published_as_git_stores_it() {
    check_all(SHAPES).await;
}
