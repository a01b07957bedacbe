//! The agents that are compiled into the program, and the paths of agents on this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use journeyman_core::agent::{AgentSpec, Agents, Install, unknown_word};
use journeyman_core::project::DEFAULT_AGENT;

/// The definitions of the bundled agents by ID, from the folder `agents` of the source tree.
const BUNDLED: [(&str, &str); 9] = [
    (DEFAULT_AGENT, include_str!("../../../../agents/journeyman.toml")),
    ("claude-code", include_str!("../../../../agents/claude-code.toml")),
    ("codex", include_str!("../../../../agents/codex.toml")),
    ("gemini", include_str!("../../../../agents/gemini.toml")),
    ("kimi", include_str!("../../../../agents/kimi.toml")),
    ("opencode", include_str!("../../../../agents/opencode.toml")),
    ("pi", include_str!("../../../../agents/pi.toml")),
    ("qwen", include_str!("../../../../agents/qwen.toml")),
    ("vibe", include_str!("../../../../agents/vibe.toml")),
];

/// Parses the bundled agents.
pub(super) fn bundled() -> anyhow::Result<Agents> {
    let read = |(id, text): (&str, &str)| {
        let spec = toml::from_str(text).with_context(|| format!("agents/{id}.toml"))?;
        Ok((id.to_owned(), spec))
    };
    BUNDLED.into_iter().map(read).collect()
}

/// Returns the folder in which an agent is installed.
pub(crate) fn folder(data_dir: &Path, id: &str) -> PathBuf {
    data_dir.join("agents").join(id)
}

/// Returns the packages that are installed in an agent's folder; `None` if no installation is complete.
pub(crate) fn installed(folder: &Path) -> Option<Install> {
    serde_json::from_slice(&std::fs::read(folder.join(Install::NOTE)).ok()?).ok()
}

/// Returns the architecture of this machine, as the names of npm packages spell it.
pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Replaces the placeholders `{install}`, `{program}`, `{arch}` and `{path}` in agents by the values of this machine.
/// Lets each agent that can be installed read its installation folder.
pub(super) fn fill_placeholders(agents: Agents, data_dir: &Path, program: &Path, path: &str) -> anyhow::Result<Agents> {
    let program = text(program)?;
    let fill_agent = |(id, spec): (String, AgentSpec)| {
        let install = text(&folder(data_dir, &id))?;
        let words = [("{install}", install.as_str()), ("{program}", &program), ("{arch}", arch()), ("{path}", path)];
        let fill = |text: &String| words.iter().fold(text.clone(), |text, (word, value)| text.replace(word, value));
        let filled = |texts: &[String]| texts.iter().map(fill).collect::<Vec<_>>();
        let mut readable: Vec<PathBuf> =
            spec.readable.iter().map(|path| Ok(fill(&text(path)?).into())).collect::<anyhow::Result<_>>()?;
        if spec.install.is_some() {
            readable.push(install.clone().into());
        }
        let install = spec.install.map(|mut install| {
            install.npm = filled(&install.npm);
            install.pip = filled(&install.pip);
            install
        });
        let values =
            |pairs: BTreeMap<String, String>| pairs.into_iter().map(|(name, value)| (name, fill(&value))).collect();
        let command = filled(&spec.command);
        let (environment, files): (BTreeMap<_, _>, BTreeMap<_, _>) = (values(spec.environment), values(spec.files));
        let mut texts = command.iter().chain(environment.values()).chain(files.values());
        if let Some(word) = texts.find_map(|text| unknown_word(text)) {
            bail!("[agents.{id}] has the unknown placeholder {word}; docs/agents.md lists the known ones");
        }
        Ok((id, AgentSpec { command, readable, install, environment, files, ..spec }))
    };
    agents.into_iter().map(fill_agent).collect()
}

/// Returns a path as UTF-8 text, the only form in which this program passes paths to agents and git.
fn text(path: &Path) -> anyhow::Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("the path {} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_unknown_placeholder() {
        let spec: AgentSpec = toml::from_str("command = [\"x\", \"--key\", \"{model_tokn}\"]").expect("a table");
        let agents = [("mine".to_owned(), spec)].into();
        let error =
            fill_placeholders(agents, Path::new("/data"), Path::new("/bin/journeyman"), "/bin").expect_err("refused");
        assert!(error.to_string().contains("mine") && error.to_string().contains("{model_tokn}"), "{error}");
    }

    #[test]
    fn each_bundled_agent_can_be_parsed_and_its_placeholders_are_replaced() {
        let data = Path::new("/var/lib/journeyman");
        let all = fill_placeholders(bundled().expect("bundled"), data, Path::new("/usr/bin/journeyman"), "/bin")
            .expect("filled");
        assert_eq!(all.len(), BUNDLED.len());
        for (id, spec) in &all {
            assert!(spec.name.is_some() && spec.calls_models(), "{id}");
            let own = [spec.command.join(" "), format!("{:?}{:?}", spec.environment, spec.install)].concat();
            for word in ["{install}", "{program}", "{arch}", "{path}"] {
                assert!(!own.contains(word), "{id}: {own}");
            }
            // Other processes can read arguments, so the token is only in the environment and in files.
            assert!(!spec.command.join(" ").contains("{model_token}"), "{id}");
            assert_eq!(spec.install.is_some(), id != DEFAULT_AGENT, "{id}");
            if let Some(install) = &spec.install {
                let exact = |package: &String| package.trim_start_matches('@').contains('@') || package.contains("==");
                assert!(install.npm.iter().chain(&install.pip).all(exact), "{id}: {install:?}");
            }
        }
        let claude = &all["claude-code"];
        assert!(claude.command[0].starts_with("/var/lib/journeyman/agents/claude-code/"), "{claude:?}");
        assert_eq!(claude.readable, [data.join("agents/claude-code")]);
    }
}
