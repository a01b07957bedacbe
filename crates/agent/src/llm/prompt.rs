//! The system prompt.
//!
//! Invariant: the instructions of a repository are bounded in size and come from inside the working directory.

use std::fs::File;
use std::io::Read;

use crate::workspace::Workspace;

/// The file with the instructions of a repository.
const INSTRUCTIONS: &str = "AGENTS.md";

/// The maximum number of bytes of the instructions that are used: 64 KiB.
const MAX_INSTRUCTION_BYTES: u64 = 64 * 1024;

const SYSTEM: &str = "\
You are a coding agent. You work on your own in the repository that is your working directory: nobody watches while \
you work, and nobody can answer questions. The user sees your last message and the changes in the files.

How you work:
- Find out before you change: search and read the code around the task, and follow its style.
- Do what the task asks, completely, and nothing else. Where it leaves a choice, take the simplest that fits and say so.
- Use paths relative to the working directory. Change files with edit_file and write_file, not with shell commands.
- Check your work with the project's own tests, linters and build where there are any. If something fails, find the \
cause; never weaken a test to make it pass.
- Do not commit, push or switch branches: that is done for you after your turn.
- Leave no temporary files behind. Never write secrets into files.
- For a task of several steps keep a plan with update_plan.

End with a short message: what you changed and why, how you checked it, and what is left open.";

/// Returns the system prompt for work in this directory, with the repository's instructions if it has any.
pub(crate) fn system(workspace: &Workspace) -> String {
    let root = workspace.root().display();
    let mut prompt = format!("{SYSTEM}\n\nThe working directory is {root}.");
    if let Some(instructions) = instructions(workspace) {
        prompt.push_str("\n\nThe repository gives these instructions in its AGENTS.md:\n\n");
        prompt.push_str(&instructions);
    }
    prompt
}

/// Returns the repository's instructions. A file that cannot be read, or is a link out of the repository, is ignored.
fn instructions(workspace: &Workspace) -> Option<String> {
    let path = workspace.resolve(INSTRUCTIONS).ok()?;
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_INSTRUCTION_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn instructions_of_the_repository_are_included_up_to_a_size() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        assert!(!system(&workspace).contains("AGENTS.md"));
        fs::write(directory.path().join(INSTRUCTIONS), "Use tabs.").unwrap();
        assert!(system(&workspace).contains("Use tabs."));
        fs::write(directory.path().join(INSTRUCTIONS), "x".repeat(100 * 1024)).unwrap();
        assert_eq!(instructions(&workspace).unwrap().len(), 64 * 1024);
    }

    #[test]
    fn instructions_outside_of_the_repository_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("secret"), "secret").unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        let work = directory.path().join("work");
        std::os::unix::fs::symlink("../secret", work.join(INSTRUCTIONS)).unwrap();
        let workspace = Workspace::open(&work).unwrap();
        assert_eq!(instructions(&workspace), None);
    }
}
