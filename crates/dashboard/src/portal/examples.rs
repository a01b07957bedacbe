//! The examples in Python and TypeScript: regions of programs, which the tests of the client libraries run.

/// The programs in `sdk/python/examples/operations`.
const PYTHON: [&str; 3] = [
    include_str!("../../../../sdk/python/examples/operations/administration.py"),
    include_str!("../../../../sdk/python/examples/operations/integrations.py"),
    include_str!("../../../../sdk/python/examples/operations/jobs.py"),
];

/// The programs in `sdk/typescript/examples/operations`.
const TYPESCRIPT: [&str; 3] = [
    include_str!("../../../../sdk/typescript/examples/operations/administration.ts"),
    include_str!("../../../../sdk/typescript/examples/operations/integrations.ts"),
    include_str!("../../../../sdk/typescript/examples/operations/jobs.ts"),
];

/// The regions of programs, each with its name.
pub(super) struct Regions(Vec<(&'static str, String)>);

impl Regions {
    pub(super) fn python() -> Self {
        Self(PYTHON.into_iter().flat_map(|program| parse(program, "# region ", "# endregion")).collect())
    }

    pub(super) fn typescript() -> Self {
        Self(TYPESCRIPT.into_iter().flat_map(|program| parse(program, "// #region ", "// #endregion")).collect())
    }

    /// Returns the example of an operation. A test checks that each operation has one.
    pub(super) fn get(&self, operation: &str) -> &str {
        self.0.iter().find(|(name, _)| *name == operation).map_or("", |(_, code)| code)
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }
}

/// Returns the regions between the markers, without their indentation and the comments for linters.
fn parse(program: &'static str, begin: &str, end: &str) -> Vec<(&'static str, String)> {
    let mut regions = Vec::new();
    let mut open: Option<(&'static str, usize, String)> = None;
    for line in program.lines() {
        let content = line.trim_start();
        if let Some(name) = content.strip_prefix(begin) {
            open = Some((name.trim_end(), line.len() - content.len(), String::new()));
        } else if content == end {
            regions.extend(open.take().map(|(name, _, code)| (name, code)));
        } else if let Some((_, indent, code)) = &mut open {
            let line = line.get(*indent..).unwrap_or_default();
            code.push_str(line.split("  # noqa").next().unwrap_or(line));
            code.push('\n');
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_lose_their_indentation() {
        let program = "x\n    # region a\n    if x:\n        y()  # noqa: S106\n\n    # endregion\nz\n";
        assert_eq!(parse(program, "# region ", "# endregion"), [("a", "if x:\n    y()\n\n".to_owned())]);
    }
}
