//! The files that an agent needs in its home.

use std::collections::BTreeMap;

use journeyman_core::agent::{AgentSpec, PlaceholderValues};

use super::models::needs_endpoint;

/// Returns a command that writes the agent's files and then starts the agent. The files are written inside the sandbox,
/// because links in the agent's home may lead anywhere.
pub(super) fn with_files(
    argv: Vec<String>,
    environment: &mut BTreeMap<String, String>,
    spec: &AgentSpec,
    values: &PlaceholderValues,
    has_endpoint: bool,
) -> Vec<String> {
    let written = spec.files.iter().filter(|(_, text)| has_endpoint || !needs_endpoint(text));
    let files: Vec<_> = written.filter_map(|(path, text)| Some((path, values.fill(text)?))).collect();
    if files.is_empty() {
        return argv;
    }
    let mut script = String::new();
    for (number, (path, text)) in files.into_iter().enumerate() {
        let name = format!("JOURNEYMAN_FILE_{number}");
        environment.insert(format!("{name}_PATH"), format!("{}/{path}", values.home));
        environment.insert(name.clone(), text);
        script.push_str(&format!(
            "mkdir -p \"$(dirname \"${name}_PATH\")\" && printf %s \"${name}\" > \"${name}_PATH\" || exit 1\n\
             unset {name} {name}_PATH\n"
        ));
    }
    script.push_str("exec \"$@\"");
    ["/bin/sh", "-c", &script, "sh"].map(str::to_owned).into_iter().chain(argv).collect()
}
