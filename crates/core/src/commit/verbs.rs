//! The verbs with which answers describe changes.

use super::kind::Kind;

/// A verb that describes a change: its base form, its past form, and the kind of the change.
pub(super) type Verb = (&'static str, &'static str, Kind);

/// The verbs with which answers describe changes. A sentence that begins with another word is no subject.
pub(super) const VERBS: &[Verb] = &[
    ("add", "added", Kind::Feature),
    ("adjust", "adjusted", Kind::Other),
    ("align", "aligned", Kind::Other),
    ("allow", "allowed", Kind::Feature),
    ("apply", "applied", Kind::Other),
    ("avoid", "avoided", Kind::Fix),
    ("bump", "bumped", Kind::Build),
    ("cache", "cached", Kind::Performance),
    ("change", "changed", Kind::Other),
    ("clarify", "clarified", Kind::Documentation),
    ("clean", "cleaned", Kind::Refactoring),
    ("combine", "combined", Kind::Refactoring),
    ("convert", "converted", Kind::Refactoring),
    ("correct", "corrected", Kind::Fix),
    ("cover", "covered", Kind::Test),
    ("create", "created", Kind::Feature),
    ("define", "defined", Kind::Other),
    ("delete", "deleted", Kind::Other),
    ("deprecate", "deprecated", Kind::Other),
    ("disable", "disabled", Kind::Other),
    ("document", "documented", Kind::Documentation),
    ("drop", "dropped", Kind::Other),
    ("enable", "enabled", Kind::Feature),
    ("ensure", "ensured", Kind::Fix),
    ("expose", "exposed", Kind::Feature),
    ("extend", "extended", Kind::Feature),
    ("extract", "extracted", Kind::Refactoring),
    ("fix", "fixed", Kind::Fix),
    ("format", "formatted", Kind::Style),
    ("guard", "guarded", Kind::Fix),
    ("handle", "handled", Kind::Fix),
    ("implement", "implemented", Kind::Feature),
    ("improve", "improved", Kind::Other),
    ("include", "included", Kind::Other),
    ("increase", "increased", Kind::Other),
    ("inline", "inlined", Kind::Refactoring),
    ("introduce", "introduced", Kind::Feature),
    ("make", "made", Kind::Other),
    ("merge", "merged", Kind::Other),
    ("migrate", "migrated", Kind::Refactoring),
    ("modify", "modified", Kind::Other),
    ("move", "moved", Kind::Refactoring),
    ("normalize", "normalized", Kind::Other),
    ("optimize", "optimized", Kind::Performance),
    ("pin", "pinned", Kind::Build),
    ("port", "ported", Kind::Refactoring),
    ("prevent", "prevented", Kind::Fix),
    ("reduce", "reduced", Kind::Other),
    ("refactor", "refactored", Kind::Refactoring),
    ("reformat", "reformatted", Kind::Style),
    ("remove", "removed", Kind::Other),
    ("rename", "renamed", Kind::Refactoring),
    ("reorder", "reordered", Kind::Refactoring),
    ("reorganize", "reorganized", Kind::Refactoring),
    ("repair", "repaired", Kind::Fix),
    ("replace", "replaced", Kind::Other),
    ("resolve", "resolved", Kind::Fix),
    ("restore", "restored", Kind::Fix),
    ("restructure", "restructured", Kind::Refactoring),
    ("return", "returned", Kind::Other),
    ("revert", "reverted", Kind::Revert),
    ("rewrite", "rewrote", Kind::Refactoring),
    ("rewrite", "rewritten", Kind::Refactoring),
    ("rework", "reworked", Kind::Refactoring),
    ("set", "set", Kind::Other),
    ("simplify", "simplified", Kind::Refactoring),
    ("sort", "sorted", Kind::Other),
    ("speed", "sped", Kind::Performance),
    ("split", "split", Kind::Refactoring),
    ("support", "supported", Kind::Feature),
    ("swap", "swapped", Kind::Other),
    ("switch", "switched", Kind::Other),
    ("test", "tested", Kind::Test),
    ("tighten", "tightened", Kind::Fix),
    ("translate", "translated", Kind::Other),
    ("update", "updated", Kind::Other),
    ("upgrade", "upgraded", Kind::Build),
    ("use", "used", Kind::Other),
    ("validate", "validated", Kind::Fix),
    ("wrap", "wrapped", Kind::Other),
    ("write", "wrote", Kind::Other),
    ("write", "written", Kind::Other),
];

/// Returns the kind of change of a subject, by its verb; `None` if it does not begin with a known one.
fn kind_of(subject: &str) -> Option<Kind> {
    let first = subject.split_whitespace().next()?.to_lowercase();
    VERBS.iter().find(|(base, ..)| *base == first).map(|(.., kind)| *kind)
}

impl Kind {
    /// Returns the kind of a change with this subject. What is changed counts more than the verb: "Add a test" is a test.
    #[must_use]
    pub fn of(subject: &str) -> Self {
        let lower = subject.to_lowercase();
        let has = |words: &[&str]| lower.split(|c: char| !c.is_alphanumeric()).any(|word| words.contains(&word));
        match kind_of(subject) {
            Some(Self::Feature | Self::Other) | None if has(&["test", "tests", "spec", "specs"]) => Self::Test,
            Some(Self::Feature | Self::Other) | None
                if has(&["readme", "docs", "documentation", "changelog", "typo", "typos"]) =>
            {
                Self::Documentation
            }
            Some(Self::Other) if has(&["dependency", "dependencies", "dockerfile", "makefile"]) => Self::Build,
            Some(kind) => kind,
            None => Self::Other,
        }
    }
}
