//! Commands about a job that work with the user's browser, working tree and repository.

use journeyman_client::models::PullRequestState;

use crate::cli::exit::{Exit, Failure};
use crate::cli::look::plain;
use crate::cli::pr::MethodArg;
use crate::cli::session::Session;
use crate::cli::working_tree::{RemoteBranch, WorkingTree};
use crate::cli::{browser, credential, pr, program};
use crate::config::client_environment;

impl Session {
    /// Opens the page of a job.
    pub(super) async fn open_page(&self, job: &str) -> Result<Exit, Failure> {
        // The dashboard would show an error page for a job that does not exist.
        let job = self.job(job).get().await?.id;
        browser::open(&self.page(&format!("/jobs/{job}")), &client_environment())?;
        Ok(Exit::Done)
    }

    /// Merges the open pull request of a job.
    pub(super) async fn merge(&self, job: &str, method: MethodArg) -> Result<Exit, Failure> {
        let pulls = self.job(job).pulls().all().await?;
        let Some(pull) = pulls.iter().rev().find(|pull| pull.state == PullRequestState::Open) else {
            let text = match pulls.last() {
                None => "the job has no pull request".to_owned(),
                Some(last) => format!("the job has no open pull request: #{} is {}", last.number, last.state),
            };
            return Err(Failure::State(text));
        };
        // Only the built-in code host knows the branch to merge into.
        if pull.base.is_none() {
            let text = format!("the pull request is on another code host; merge it there: {}", pull.url);
            return Err(Failure::State(text));
        }
        pr::merge(self, pull.number, method).await
    }

    /// Applies the changes of a job to the working tree.
    pub(super) async fn apply(&self, job: &str) -> Result<Exit, Failure> {
        let tree = WorkingTree::find()?;
        let diff = self.job(job).diff().await?;
        if diff.is_empty() {
            return Err(Failure::State("the job has no changes".to_owned()));
        }
        tree.apply(&diff)?;
        self.say("The changes of the job are in the working tree and staged; `git diff --cached` shows them.")?;
        Ok(Exit::Done)
    }

    /// Switches to the branch of a job.
    pub(super) async fn checkout(&self, job: &str) -> Result<Exit, Failure> {
        let tree = WorkingTree::find()?;
        let details = self.job(job).details().await?;
        let Some(branch) = details.branch else {
            return Err(Failure::State("the job has no branch yet; its first turn creates it".to_owned()));
        };
        let project = self.client.projects().get(&self.project).await?;
        // The server may be reached at another URL than its public one.
        let own = project.clone_url.as_ref().map(|_| format!("{}git/{}.git", self.client.url(), self.project));
        let urls: Vec<String> = own.into_iter().chain(project.clone_url).chain([project.repository]).collect();
        let program = program::anywhere(&client_environment().path)?;
        let settings = credential::settings(self.client.url(), &program);
        let settings: Vec<String> = settings.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        tree.switch_to(&RemoteBranch { urls: &urls, branch: &branch, settings: &settings })?;
        self.say(&format!("Switched to the branch {} of the job.", plain(&branch)))?;
        Ok(Exit::Done)
    }
}
