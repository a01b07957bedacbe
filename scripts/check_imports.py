"""Counts the circles of imports, and fails if there are more than the limits at the beginning of this file.

A file that uses a name depends on the file that defines it; a re-export is followed to the definition. Files that depend
on each other are a circle: none of them can be read or changed alone. Code of tests does not count.

    python3 scripts/check_imports.py [--list]
"""

import pathlib
import re
import sys

# The largest numbers that are accepted. They may only become smaller.
FILE_CIRCLES = 15
CORE_CIRCLE = 0
CORE_PAIRS = 0

TOP = pathlib.Path(__file__).resolve().parent.parent
USE = re.compile(r"^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
PATH = re.compile(r"(?<![\w:])((?:crate|super|self|journeyman_\w+)(?:::\w+)+)")
TEST_MODULE = re.compile(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*([;{])")


def without_comments(text):
    """Removes comments and the contents of strings, which may look like code."""
    part = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"', re.DOTALL)
    return part.sub(lambda found: "" if found[0].startswith("/") else '""', text)


def without_tests(text):
    """Removes the modules of tests; returns the names of those that have a file."""
    files = set()
    while found := TEST_MODULE.search(text):
        end = found.end()
        if found[2] == ";":
            files.add(found[1])
        else:
            depth = 1
            while depth and end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
        text = text[: found.start()] + text[end:]
    return text, files


def expanded(tree, prefix=()):
    """Yields the path and the new name of each item of a use declaration."""
    tree = tree.strip()
    if "{" in tree:
        head, body = tree.split("{", 1)
        prefix += tuple(part.strip() for part in head.split("::") if part.strip())
        depth, item = 0, ""
        for letter in body[: body.rindex("}")]:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                yield from expanded(item, prefix)
                item = ""
            else:
                item += letter
        if item.strip():
            yield from expanded(item, prefix)
        return
    path, _, alias = tree.partition(" as ")
    parts = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
    if parts and parts[-1] == "self":
        parts = parts[:-1]
    if parts:
        yield parts, alias.strip() or parts[-1]


class Module:
    """A file with a module: what it imports, and what it exports of others."""

    def __init__(self, name, file, text):
        self.name, self.file = name, file
        self.exports, self.globs, self.imports, self.text = {}, [], [], text
        for public, tree in USE.findall(text):
            for parts, alias in expanded(tree):
                if parts[-1] == "*":
                    self.globs.append(parts[:-1])
                    continue
                if public:
                    self.exports[alias] = parts
                self.imports.append((parts, alias, bool(public)))
        self.body = USE.sub("", text)


class Crates:
    """The modules of all crates, by the path of their names."""

    def __init__(self):
        self.modules = {}
        for root in sorted(TOP.glob("crates/*/src")):
            crate = "journeyman" if root.parent.name == "journeyman" else f"journeyman_{root.parent.name}"
            start = root / ("lib.rs" if (root / "lib.rs").exists() else "main.rs")
            self.add((crate,), start, root)

    def add(self, name, file, folder):
        text, tests = without_tests(without_comments(file.read_text()))
        self.modules[name] = Module(name, file, text)
        for child in re.findall(r"\bmod\s+(\w+)\s*;", text):
            below = folder / f"{child}.rs"
            if child not in tests and below.exists():
                self.add((*name, child), below, folder / child)

    def target(self, module, parts, depth=0):
        """Returns the module whose file defines what a path names; None if it is of another library."""
        if depth > 20:
            return None
        at, parts = module.name, list(parts)
        match parts[0]:
            case "crate":
                at, parts = at[:1], parts[1:]
            case "self":
                parts = parts[1:]
            case "super":
                while parts and parts[0] == "super":
                    at, parts = at[:-1], parts[1:]
            case first if (first,) in self.modules:
                at, parts = (first,), parts[1:]
            case first if (*at, first) in self.modules:
                pass
            case _:
                return None
        while parts and (*at, parts[0]) in self.modules:
            at, parts = (*at, parts[0]), parts[1:]
        found = self.modules.get(at)
        if not found or not parts:
            return found
        if parts[0] in found.exports:
            return self.target(found, found.exports[parts[0]] + tuple(parts[1:]), depth + 1) or found
        if not re.search(rf"\b(?:fn|struct|enum|trait|type|const|static|union|macro_rules!)\s+{parts[0]}\b", found.text):
            for glob in found.globs:
                other = self.target(found, (*glob, parts[0]), depth + 1)
                if other and other is not found:
                    return other
        return found

    def edges(self):
        """Returns the modules that each module depends on."""
        edges = {}
        for module in self.modules.values():
            names = {parts for parts, alias, public in module.imports
                     if not public or re.search(rf"\b{re.escape(alias)}\b", module.body)}
            names |= {tuple(path.split("::")) for path in PATH.findall(module.body)}
            targets = {self.target(module, parts) for parts in names}
            edges[module.name] = {to.name for to in targets if to and to.name != module.name}
        return edges


def circles(edges):
    """Returns the strongly connected components with several members (Tarjan's algorithm)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            members = []
            while not members or members[-1] != node:
                members.append(stack.pop())
                on_stack.discard(members[-1])
            if len(members) > 1:
                found.append(sorted(members))

    sys.setrecursionlimit(10_000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found)


def main():
    crates = Crates()
    edges = crates.edges()
    files = circles(edges)
    tops = {}
    for module, others in edges.items():
        if module[0] == "journeyman_core" and len(module) > 1:
            own = {other[1] for other in others if other[0] == "journeyman_core" and len(other) > 1}
            tops.setdefault(module[1], set()).update(own - {module[1]})
    largest = max((len(circle) for circle in circles(tops)), default=0)
    pairs = sum(one < other for one in tops for other in tops[one] if one in tops.get(other, ()))
    if "--list" in sys.argv:
        for circle in files:
            print("circle:", ", ".join(str(crates.modules[name].file.relative_to(TOP)) for name in circle))
            for name in circle:
                for other in sorted(edges[name] & set(circle)):
                    print("   ", "::".join(name[1:]) or "lib", "->", "::".join(other[1:]) or "lib")
        for circle in circles(tops):
            print("modules of core:", ", ".join(circle))
        print("pairs:", ", ".join(sorted(f"{one}-{other}" for one in tops for other in tops[one]
                                         if one < other and one in tops.get(other, ()))))
    failed = False
    for what, number, most in [
        ("circles of files", len(files), FILE_CIRCLES),
        ("modules in the largest circle of core", largest, CORE_CIRCLE),
        ("pairs of modules of core that import each other", pairs, CORE_PAIRS),
    ]:
        print(f"{what}: {number}, at most {most}")
        failed |= number > most
    if failed:
        print("python3 scripts/check_imports.py --list shows them; move what both need to a file that imports neither")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
