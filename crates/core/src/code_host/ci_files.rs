//! Files that define CI pipelines. A pushed branch that changes them runs with the repository's secrets, before anyone
//! has reviewed the change.

/// The folders with workflows of GitHub, Gitea and Forgejo.
const FOLDERS: [&str; 3] = [".github/workflows/", ".gitea/workflows/", ".forgejo/workflows/"];

/// The files of GitLab and Bitbucket.
const FILES: [&str; 2] = [".gitlab-ci.yml", "bitbucket-pipelines.yml"];

/// Returns whether code hosts run pipelines that the file at `path` defines. The path is relative to the root of the
/// repository. An entry in place of a folder counts too, such as a symbolic link with the name `.github`. Some hosts
/// ignore case, so this does too.
#[must_use]
pub fn is_ci_file(path: &str) -> bool {
    let path = path.to_lowercase();
    let in_place_of = |folder: &str| folder.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'));
    FOLDERS.iter().any(|folder| path.starts_with(folder) || in_place_of(folder)) || FILES.contains(&path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_pipelines_are_recognized() {
        for ci in [".github/workflows/a.yml", ".GitHub/Workflows/a.yml", ".gitlab-ci.yml", "bitbucket-pipelines.yml"] {
            assert!(is_ci_file(ci), "{ci}");
        }
        for replaced in [".github", ".github/workflows", ".Gitea", ".forgejo/workflows"] {
            assert!(is_ci_file(replaced), "{replaced}");
        }
        for other in [
            "",
            ".git",
            ".github/work",
            ".github/CODEOWNERS",
            "docs/.github/workflows/a.yml",
            "x.gitlab-ci.yml",
            "workflows/a.yml",
        ] {
            assert!(!is_ci_file(other), "{other}");
        }
    }
}
