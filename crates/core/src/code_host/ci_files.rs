//! Files that define CI pipelines. A pushed branch that changes them runs with the repository's secrets, before anyone
//! has reviewed the change.
//!
//! The names are those that the documentation of each system gives as its defaults. A system can be configured to read
//! other files: those that the code host names ([`crate::code_host::HostRepository::ci_paths`]), those that the files of
//! pipelines include ([`included`]), and those that a project names (`pullRequest.ciPaths`).

mod included;

use crate::pattern;

pub use included::included;

/// Folders in which every file may define a pipeline, or an action that pipelines run.
const FOLDERS: [&str; 17] = [
    // GitHub, Gitea and Forgejo: workflows, and the actions that these use from the same repository.
    ".github/workflows/",
    ".github/actions/",
    ".gitea/workflows/",
    ".gitea/actions/",
    ".forgejo/workflows/",
    ".forgejo/actions/",
    ".woodpecker/",
    ".circleci/",
    ".azure-pipelines/",
    ".azuredevops/",
    ".buildkite/",
    "buildkite/",
    ".semaphore/",
    ".teamcity/",
    // SourceHut and Tekton.
    ".builds/",
    ".tekton/",
    // Files that GitLab includes by convention. Those that are not YAML are templates of issues and merge requests.
    GITLAB,
];

const GITLAB: &str = ".gitlab/";

/// Files at the top of a repository.
const FILES: [&str; 27] = [
    ".gitlab-ci.yml",
    "bitbucket-pipelines.yml",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    ".travis.yml",
    ".vsts-ci.yml",
    ".drone.yml",
    ".drone.yaml",
    ".drone.star",
    ".drone.jsonnet",
    "buildkite.yml",
    "buildkite.yaml",
    "buildkite.json",
    ".cirrus.yml",
    ".cirrus.star",
    "appveyor.yml",
    ".appveyor.yml",
    // SourceHut, Google Cloud Build, AWS CodeBuild, Codefresh, Bitrise and Codemagic.
    ".build.yml",
    "cloudbuild.yaml",
    "cloudbuild.yml",
    "cloudbuild.json",
    "buildspec.yml",
    "buildspec.yaml",
    "codefresh.yml",
    "bitrise.yml",
    "codemagic.yaml",
    "codemagic.yml",
];

/// The folders at the top of a repository in which files of CI pipelines are, in lower case, without a slash.
#[must_use]
pub fn top_folders() -> Vec<&'static str> {
    let mut names: Vec<&str> = FOLDERS.iter().filter_map(|folder| folder.split('/').next()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The files that count as files of CI pipelines: those of the known systems, and those that a project or links name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CiFileNames {
    /// Patterns of paths ([`pattern::matches`]) in lower case. A pattern that ends with `/` stands for all files in the
    /// folder.
    more: Vec<String>,
}

impl CiFileNames {
    /// Returns the known files, and those of a project (`pullRequest.ciPaths`).
    #[must_use]
    pub fn new(patterns: &[String]) -> Self {
        let more = patterns.iter().map(|pattern| pattern.trim_start_matches('/').to_lowercase()).collect();
        Self { more }
    }

    /// Adds the path that a link in the place of such a file or folder leads to.
    pub fn add_target(&mut self, path: &str) {
        let path = path.to_lowercase();
        self.more.push(format!("{path}/"));
        self.more.push(path);
    }

    /// Adds files that a file of pipelines includes ([`included`]).
    pub fn add_included(&mut self, patterns: &[String]) {
        for pattern in patterns.iter().map(|pattern| pattern.to_lowercase()) {
            if !self.more.contains(&pattern) {
                self.more.push(pattern);
            }
        }
    }

    /// Returns the paths that were added, in lower case.
    #[must_use]
    pub fn added(&self) -> &[String] {
        &self.more
    }

    /// Returns whether CI systems run pipelines that the file at `path` defines. The path is relative to the root of the
    /// repository. An entry in place of a folder counts too, such as a symbolic link with the name `.github`. Some hosts
    /// ignore case, so this does too.
    #[must_use]
    pub fn contain(&self, path: &str) -> bool {
        let path = path.to_lowercase();
        is_known(&path) || self.more.iter().any(|pattern| names(pattern, &path))
    }
}

/// Returns whether a pattern names a path, or a path in place of one of its folders. Both are in lower case.
fn names(pattern: &str, path: &str) -> bool {
    let fixed = pattern.split('*').next().unwrap_or_default();
    let is_in_place = fixed.strip_prefix(path).is_some_and(|rest| !path.is_empty() && rest.starts_with('/'));
    let is_in = pattern.ends_with('/') && pattern::matches(&format!("{pattern}**"), path);
    is_in_place || is_in || pattern::matches(pattern, path)
}

/// Returns whether a known system reads the file, whose path is in lower case.
fn is_known(path: &str) -> bool {
    let is_yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    let in_place_of = |folder: &str| folder.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
    let is_in = |folder: &str| path.starts_with(folder) && (is_yaml || folder != GITLAB);
    let is_azure = is_yaml && path.starts_with("azure-pipelines") && !path.contains('/');
    // Jenkins reads the file at the top by default; many jobs name one in a folder.
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_jenkins = name == "jenkinsfile" || name.starts_with("jenkinsfile.") || name.ends_with(".jenkinsfile");
    FOLDERS.iter().any(|folder| is_in(folder) || in_place_of(folder)) || FILES.contains(&path) || is_azure || is_jenkins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_pipelines_are_recognized() {
        for ci in [
            ".github/workflows/a.yml",
            ".GitHub/Workflows/a.yml",
            ".github/actions/build/action.yml",
            ".github/actions/build/run.sh",
            ".gitlab-ci.yml",
            ".gitlab/ci/test.yml",
            "bitbucket-pipelines.yml",
            ".woodpecker.yaml",
            ".woodpecker/test.yml",
            ".circleci/config.yml",
            ".travis.yml",
            "azure-pipelines.yml",
            "Azure-Pipelines-nightly.yaml",
            ".azure-pipelines/steps.yml",
            "Jenkinsfile",
            "ci/Jenkinsfile.release",
            "ci/test.jenkinsfile",
            ".drone.yml",
            ".buildkite/pipeline.yml",
            ".buildkite/hooks/pre-command",
            ".semaphore/semaphore.yml",
            ".cirrus.yml",
            "appveyor.yml",
            ".teamcity/settings.kts",
            "cloudbuild.yaml",
        ] {
            assert!(CiFileNames::default().contain(ci), "{ci}");
        }
        for replaced in [
            ".github",
            ".github/workflows",
            ".github/actions",
            ".Gitea",
            ".forgejo/workflows",
            ".circleci",
            ".gitlab",
            ".buildkite",
        ] {
            assert!(CiFileNames::default().contain(replaced), "{replaced}");
        }
        for other in [
            "",
            ".git",
            ".github/work",
            ".github/CODEOWNERS",
            ".github/ISSUE_TEMPLATE/bug.yml",
            "docs/.github/workflows/a.yml",
            "x.gitlab-ci.yml",
            ".gitlab/issue_templates/bug.md",
            "workflows/a.yml",
            "docs/azure-pipelines.yml",
            "azure-pipelines.md",
            "src/jenkinsfile_parser.rs",
            "circleci/config.yml",
        ] {
            assert!(!CiFileNames::default().contain(other), "{other}");
        }
    }
    #[test]
    fn a_project_names_more_files() {
        let patterns = ["/ci/*.yml", "deploy/", "**/pipeline.json", "Tools/CI.sh"].map(str::to_owned);
        let mut names = CiFileNames::new(&patterns);
        for (path, expected) in [
            ("ci/a.yml", true),
            ("ci/a/b.yml", false),
            ("CI/A.YML", true),
            ("ci", true),
            ("ci/a.sh", false),
            ("deploy/a/b", true),
            ("deploy", true),
            ("deploys/a", false),
            ("a/b/pipeline.json", true),
            ("tools/ci.sh", true),
            ("tools", true),
            ("tools/other.sh", false),
            (".github/workflows/a.yml", true),
            ("", false),
        ] {
            assert_eq!(names.contain(path), expected, "{path}");
        }
        assert!(!names.contain("build/Real.yml"));
        names.add_target("build/Real.yml");
        assert!(names.contain("build/real.yml") && names.contain("build/Real.yml/a") && names.contain("build"));
    }

    #[test]
    fn the_top_folders_are_those_of_the_known_systems() {
        let folders = top_folders();
        assert!(folders.contains(&".github") && folders.contains(&".gitlab"), "{folders:?}");
        assert!(folders.iter().all(|folder| !folder.contains('/')), "{folders:?}");
    }
}
