//! The kind of a change, with which the subject of a commit can begin.

/// The maximum length of a subject from an answer, in characters. Git's own documentation recommends about 50, and tools
/// wrap or cut lines that are longer than 72 (git-commit(1), DISCUSSION).
pub const SUBJECT_CHARS: usize = 72;

/// The kind of a change, as in Conventional Commits 1.0.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `feat`
    Feature,
    /// `fix`
    Fix,
    /// `docs`
    Documentation,
    /// `test`
    Test,
    /// `refactor`
    Refactoring,
    /// `perf`
    Performance,
    /// `style`
    Style,
    /// `build`
    Build,
    /// `revert`
    Revert,
    /// `chore`
    Other,
}

impl Kind {
    /// Returns the type in a subject.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Feature => "feat",
            Self::Fix => "fix",
            Self::Documentation => "docs",
            Self::Test => "test",
            Self::Refactoring => "refactor",
            Self::Performance => "perf",
            Self::Style => "style",
            Self::Build => "build",
            Self::Revert => "revert",
            Self::Other => "chore",
        }
    }
}
