//! The files of the same repository that a file of pipelines includes.
//!
//! The syntax is read line by line, because only a few keys matter:
//!
//! - GitLab: `include`, whose entries are paths, or have the keys `local` or `file` ("`include`" in GitLab's CI/CD YAML
//!   reference). Paths are those of the repository, and may have `*`, `**` and variables.
//! - GitHub, Gitea and Forgejo: `uses: ./<path>` of a job or a step, which names a workflow, or the folder of an action.
//! - Azure Pipelines: `template: <path>`, relative to the file, or to the repository with `/` at its beginning.

/// Returns patterns of the files that the text of a file of pipelines includes. A pattern with `/` at its end is a folder.
/// `path` is the path of the file. A pattern may name more than the system reads, and never less.
#[must_use]
pub fn included(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut block: Option<Block> = None;
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if block.as_ref().is_some_and(|block| !block.contains(indent, content)) {
            block = None;
        }
        // The key of an item of a list: `- uses: ./a`.
        let item = content.strip_prefix("- ").map(str::trim_start);
        let entry = item.unwrap_or(content);
        let Some((key, value)) = key_of(entry) else {
            if let (Some(block), Some(item)) = (&mut block, item)
                && block.is_entry(indent)
            {
                found.extend(values(item).filter_map(of_root));
            }
            continue;
        };
        match key {
            "include" => {
                found.extend(values(value).filter_map(of_root));
                block = Some(Block { indent, entries: None });
            }
            "local" | "file" if block.is_some() => {
                if let Some(block) = &mut block {
                    block.is_entry(indent);
                }
                found.extend(values(value).filter_map(of_root));
            }
            "uses" => found.extend(values(value).filter_map(action)),
            "template" => found.extend(values(value).filter_map(|value| template(path, value))),
            _ => {
                if let (Some(block), Some(_)) = (&mut block, item) {
                    block.is_entry(indent);
                }
            }
        }
    }
    found
}

/// The lines below `include:`.
struct Block {
    /// The indentation of the key.
    indent: usize,
    /// The indentation of its entries, once one was seen.
    entries: Option<usize>,
}

impl Block {
    /// Returns whether a line is in the block. Items of a list may have the indentation of the key.
    fn contains(&self, indent: usize, content: &str) -> bool {
        indent > self.indent || (indent == self.indent && content.starts_with("- "))
    }

    /// Returns whether a line with an item is an entry, and not an item below one, such as a pattern of `rules`.
    fn is_entry(&mut self, indent: usize) -> bool {
        *self.entries.get_or_insert(indent) == indent
    }
}

/// Splits `key: value`. The value may be empty.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    (is_key && (value.is_empty() || value.starts_with(char::is_whitespace))).then_some((key, value.trim()))
}

/// Returns the texts of a value: a text, or those of `[a, b]`, `{local: a}` and `[{local: a}]`.
fn values(value: &str) -> impl Iterator<Item = &str> {
    let is_flow = value.starts_with(['[', '{']);
    let parts = value.split(move |c: char| is_flow && "[]{},".contains(c));
    parts.filter_map(move |part| {
        let part = match key_of(part.trim()) {
            Some(("local" | "file", inner)) if is_flow => inner,
            Some(_) if is_flow => return None,
            _ => part,
        };
        let part = part.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
        Some(part).filter(|part| !part.is_empty() && !part.contains(char::is_whitespace))
    })
}

/// Returns the pattern of a path from the root of the repository.
fn of_root(path: &str) -> Option<String> {
    if path.contains("://") {
        return None;
    }
    let path = without_variables(path);
    normalized("", path.trim_start_matches('/')).filter(|path| path.contains(['.', '/', '*']))
}

/// Returns the pattern of an action or a workflow of the same repository.
fn action(path: &str) -> Option<String> {
    let path = normalized("", path.strip_prefix("./")?)?;
    let is_file = path.ends_with(".yml") || path.ends_with(".yaml");
    Some(if is_file || path.is_empty() { path } else { format!("{path}/") }).filter(|path| !path.is_empty())
}

/// Returns the pattern of a template. One of another repository has `@` and its name.
fn template(path: &str, template: &str) -> Option<String> {
    let template = match template.split_once('@') {
        None | Some((_, "self")) => template.split('@').next().unwrap_or_default(),
        Some(_) => return None,
    };
    if !(template.ends_with(".yml") || template.ends_with(".yaml")) {
        return None;
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match template.strip_prefix('/') {
        Some(of_root) => normalized("", of_root),
        None => normalized(folder, template),
    }
}

/// Replaces variables such as `$NAME`, `${NAME}`, `$[[ inputs.a ]]` and `${{ a }}` with `**`.
fn without_variables(path: &str) -> String {
    let mut rest = path;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once('$') {
        text.push_str(before);
        text.push_str("**");
        let end = match after.chars().next() {
            Some('{') => after.rfind('}').map_or(after.len(), |end| end + 1),
            Some('[') => after.rfind(']').map_or(after.len(), |end| end + 1),
            _ => after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len()),
        };
        rest = &after[end..];
    }
    text + rest
}

/// Joins a path to a folder, without `.` and `..`; `None` if it leads out of the repository.
fn normalized(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_gitlab_includes_are_found() {
        for (text, expected) in [
            ("include: /ci/a.yml", vec!["ci/a.yml"]),
            ("include: 'ci/a.yml' # why", vec!["ci/a.yml"]),
            ("include:\n  - /ci/a.yml\n  - local: \"/ci/b.yml\"\n", vec!["ci/a.yml", "ci/b.yml"]),
            (
                "include:\n- ci/a.yml\n- local: ci/b.yml\n  rules:\n    - exists:\n        - docs/x.yml\nx: 1",
                vec!["ci/a.yml", "ci/b.yml"],
            ),
            ("include:\n  local: /ci/*.yml", vec!["ci/*.yml"]),
            ("include: ['/a.yml', {local: /b.yml}, { project: p/q, file: c.yml }]", vec!["a.yml", "b.yml", "c.yml"]),
            (
                "include:\n  - remote: https://x.example/a.yml\n  - template: Auto-DevOps.gitlab-ci.yml\n",
                vec!["Auto-DevOps.gitlab-ci.yml"],
            ),
            ("include: 'https://x.example/a.yml'", vec![]),
            ("include:\n  - local: /ci/$ENV/${PART}.yml", vec!["ci/**/**.yml"]),
            ("job:\n  trigger:\n    include:\n      - local: child.yml\n  script: run", vec!["child.yml"]),
            ("job:\n  rules:\n    - changes: ['**/*.yml']\n  script:\n    - cat a.yml\n", vec![]),
            ("include: ../up.yml", vec![]),
        ] {
            assert_eq!(included(".gitlab-ci.yml", text), expected, "{text}");
        }
    }

    #[test]
    fn actions_and_workflows_of_the_repository_are_found() {
        let text = "jobs:\n  a:\n    uses: ./.github/workflows/b.yml\n  c:\n    steps:\n      - uses: ./tools/setup\n      \
                    - name: x\n        uses: './build/../run/'\n      - uses: actions/checkout@v4\n      - uses: ./\n";
        assert_eq!(included(".github/workflows/a.yml", text), [".github/workflows/b.yml", "tools/setup/", "run/"]);
    }

    #[test]
    fn templates_of_azure_pipelines_are_found() {
        let text = "steps:\n- template: steps/build.yml\n- template: /ci/test.yml@self\n- template: a.yml@other\n";
        assert_eq!(included("pipelines/azure-pipelines.yml", text), ["pipelines/steps/build.yml", "ci/test.yml"]);
    }
}
