//! The tree of the files of a diff, in their order.

use crate::visible;

/// A step through the tree, in the order in which a template writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// A folder begins.
    Open(String),
    /// The file with this number, from 1, and its name.
    File(usize, String),
    /// The folder ends.
    Close,
}

/// Returns the steps through the tree of these paths. A folder that occurs twice in the list is in the tree twice.
pub(super) fn of_paths<'p>(paths: impl Iterator<Item = &'p str>) -> Vec<Step> {
    let (mut steps, mut open): (Vec<Step>, Vec<&str>) = (Vec::new(), Vec::new());
    for (number, path) in (1..).zip(paths) {
        let (folders, name) = path.rsplit_once('/').map_or((None, path), |(folders, name)| (Some(folders), name));
        let folders: Vec<&str> = folders.map(|folders| folders.split('/').collect()).unwrap_or_default();
        let shared = open.iter().zip(&folders).take_while(|(one, other)| one == other).count();
        steps.extend(open.drain(shared..).map(|_| Step::Close));
        for folder in folders.into_iter().skip(shared) {
            steps.push(Step::Open(visible::line(folder).into_owned()));
            open.push(folder);
        }
        steps.push(Step::File(number, visible::line(name).into_owned()));
    }
    steps.extend(open.iter().map(|_| Step::Close));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(paths: &[&str]) -> String {
        let steps = of_paths(paths.iter().copied());
        let step = |step: Step| match step {
            Step::Open(name) => format!("{name}("),
            Step::File(number, name) => format!("{number}:{name} "),
            Step::Close => ")".to_owned(),
        };
        steps.into_iter().map(step).collect()
    }

    #[test]
    fn files_are_in_their_folders_and_in_their_order() {
        assert_eq!(written(&["a/b/x", "a/b/y", "a/z", "c"]), "a(b(1:x 2:y )3:z )4:c ");
        assert_eq!(written(&["a/x", "b/x", "a/y"]), "a(1:x )b(2:x )a(3:y )");
        assert_eq!(written(&["a/b/x", "c/b/x"]), "a(b(1:x ))c(b(2:x ))");
        assert_eq!(written(&[]), "");
    }

    #[test]
    fn hidden_characters_are_shown() {
        assert_eq!(written(&["a\n/x\u{202e}"]), "a␊(1:x⟨U+202E⟩ )");
    }
}
