//! The pull request of a job.

use journeyman_core::job::command::Published;
use journeyman_core::job::turn::Ending;
use journeyman_core::job::{Branch, Job};
use journeyman_core::ports::{Forge, ForgeError};
use journeyman_core::project::Project;
use journeyman_core::pull::{Ensured, NewPull, ensure};
use journeyman_repository::History;
use journeyman_repository::branch::base_of;

use crate::error::RunError;

/// Ensures that the branch has a pull request.
pub(crate) async fn pull_request(
    forge: &dyn Forge,
    job: &Job,
    project: &Project,
    history: &dyn History,
    branch: &Branch,
    prompt: &str,
) -> Result<Published, RunError> {
    let new = NewPull { base: Some(base_of(job, project, history)), ..new_pull(job, project, branch, prompt) };
    match ensure(forge, &new).await {
        Ok(Ensured::Opened(pull)) => Ok(Published::Opened(pull)),
        Ok(Ensured::Found(pull)) => Ok(Published::Updated(pull)),
        Ok(Ensured::NoChanges) => Ok(Published::Nothing),
        Err(ForgeError::NoPulls(reason)) => Ok(Published::NotPossible(reason)),
        Err(error) => Err(error.into()),
    }
}

fn new_pull(job: &Job, project: &Project, branch: &Branch, prompt: &str) -> NewPull {
    let settings = &project.settings.pull_request;
    // Unfinished work must not be merged by mistake.
    let ending = job.in_flight().and_then(|message| message.progress.ending());
    let is_cut_short = matches!(ending, Some(Ending::CutShort(_)));
    let id = job.id.to_string();
    let values = [("{title}", job.title.as_str()), ("{prompt}", prompt), ("{job}", &id), ("{branch}", &branch.name)];
    let default_body = "{prompt}\n\n---\nMade by Journeyman, job `{job}`.";
    NewPull {
        title: job
            .options
            .title
            .clone()
            .unwrap_or_else(|| fill(settings.title.as_deref().unwrap_or("{title}"), &values)),
        body: fill(settings.body.as_deref().unwrap_or(default_body), &values),
        head: branch.name.clone(),
        base: None,
        draft: is_cut_short || job.options.draft.unwrap_or(settings.draft),
        labels: settings.labels.clone(),
    }
}

/// Replaces placeholders in one pass, so that `{job}` in a prompt is not replaced.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(place) = rest.find('{') {
        text.push_str(&rest[..place]);
        rest = &rest[place..];
        match values.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in_one_pass() {
        let values = [("{title}", "{job}"), ("{job}", "job_1")];
        assert_eq!(fill("a {title} {job} {other} {", &values), "a {job} job_1 {other} {");
    }
}
