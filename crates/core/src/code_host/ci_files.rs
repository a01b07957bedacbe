//! Files that define CI pipelines. A pushed branch that changes them runs with the repository's secrets, before anyone
//! has reviewed the change.
//!
//! The names are those that the documentation of each system gives as its defaults. A system can be configured to read
//! other files, which are not known here.

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

/// Returns whether CI systems run pipelines that the file at `path` defines. The path is relative to the root of the
/// repository. An entry in place of a folder counts too, such as a symbolic link with the name `.github`. Some hosts
/// ignore case, so this does too.
#[must_use]
pub fn is_ci_file(path: &str) -> bool {
    let path = path.to_lowercase();
    let is_yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    let in_place_of = |folder: &str| folder.strip_prefix(&path).is_some_and(|rest| rest.starts_with('/'));
    let is_in = |folder: &str| path.starts_with(folder) && (is_yaml || folder != GITLAB);
    let is_azure = is_yaml && path.starts_with("azure-pipelines") && !path.contains('/');
    // Jenkins reads the file at the top by default; many jobs name one in a folder.
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_jenkins = name == "jenkinsfile" || name.starts_with("jenkinsfile.") || name.ends_with(".jenkinsfile");
    FOLDERS.iter().any(|folder| is_in(folder) || in_place_of(folder))
        || FILES.contains(&path.as_str())
        || is_azure
        || is_jenkins
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
            assert!(is_ci_file(ci), "{ci}");
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
            assert!(is_ci_file(replaced), "{replaced}");
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
            assert!(!is_ci_file(other), "{other}");
        }
    }
}
