//! A row of the inbox.

use std::collections::HashMap;

use journeyman_core::code_host::{CodeHost, CodeHostId, RepositoryPath};
use journeyman_core::ids::{JobId, ProjectId};
use journeyman_core::inbox::text::{Dialect, Shown};
use journeyman_core::inbox::{InboxEvent, Outcome};
use journeyman_core::project::Project;
use journeyman_core::prompt::title_of;

use super::words;
use crate::failure::Failure;
use crate::frame::Frame;
use crate::moment::Moment;
use crate::words::{in_query, is_page};
use crate::{Shared, visible};

/// An event, as the template shows it.
pub(super) struct Row {
    pub(super) at: Moment,
    /// The action on the code host.
    pub(super) kind: String,
    /// The page of the comment, review or issue.
    pub(super) href: Option<String>,
    pub(super) author: Option<String>,
    /// The first line of the text.
    pub(super) excerpt: Option<String>,
    pub(super) host: String,
    pub(super) repository: Option<String>,
    /// The name of the event, as the host writes it.
    pub(super) event: String,
    /// The path and the ID of the project, on the page of all projects.
    pub(super) project: Option<(String, String)>,
    /// The path and the title of the job.
    pub(super) job: Option<(String, String)>,
    /// The path of the message.
    pub(super) message: Option<String>,
    pub(super) badge: (&'static str, &'static str),
    pub(super) outcome: &'static str,
    pub(super) advice: &'static str,
    pub(super) detail: Option<String>,
    /// Repositories without a project: the path, and the URL of the form for a new project.
    pub(super) unknown: Vec<(String, String)>,
}

/// Reads what rows show, each job and code host once.
pub(super) struct Reader<'a> {
    shared: &'a Shared,
    frame: &'a Frame,
    shows_projects: bool,
    jobs: HashMap<JobId, Option<(ProjectId, String)>>,
    hosts: HashMap<CodeHostId, Option<CodeHost>>,
    projects: Option<Vec<Project>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(shared: &'a Shared, frame: &'a Frame, shows_projects: bool) -> Self {
        Self { shared, frame, shows_projects, jobs: HashMap::new(), hosts: HashMap::new(), projects: None }
    }

    pub(super) async fn row(&mut self, event: &InboxEvent) -> Result<Row, Failure> {
        let line = |text: &str| visible::line(text).into_owned();
        let read = event.read();
        let dialect = match self.host(event).await? {
            // The code host was removed.
            None if event.code_host.is_some() => Dialect::Github,
            host => Dialect::of(host.map(|host| host.kind)),
        };
        let excerpt = read.and_then(|read| read.text()).map(|text| Shown::markdown(text, dialect).text);
        let excerpt = excerpt.filter(|text| !text.trim().is_empty());
        let (outcome, advice) = event.outcome.map_or_else(|| (words::pending(event.state), ""), words::outcome);
        let job = self.job(event).await?;
        let unknown = self.unknown(event).await?;
        Ok(Row {
            at: self.frame.moment(event.received_at),
            kind: line(&read.map_or_else(|| "Event".to_owned(), |read| words::kind(&read.content))),
            href: read.and_then(|read| read.url()).filter(|url| is_page(url)).map(str::to_owned),
            author: read.and_then(|read| read.author()).map(|author| line(&author.name)),
            excerpt: excerpt.map(|text| line(&title_of(&text))),
            host: event.code_host.as_ref().map_or_else(|| "this server".to_owned(), |_| line(&event.host.0)),
            repository: read.and_then(|read| read.repository.as_ref()).map(|repository| line(&repository.path)),
            event: line(&event.event),
            project: (event.project.as_ref())
                .filter(|_| self.shows_projects)
                .map(|project| (format!("/projects/{project}/inbox"), project.to_string())),
            message: job.as_ref().and_then(|(path, _)| Some(format!("{path}#m-{}", event.message?))),
            job,
            badge: (words::badge(event.state), event.state.name()),
            outcome,
            advice,
            // The path of the repository is already in the row.
            detail: event.detail.as_deref().filter(|_| event.outcome != Some(Outcome::NoProject)).map(line),
            unknown,
        })
    }

    async fn job(&mut self, event: &InboxEvent) -> Result<Option<(String, String)>, Failure> {
        let Some(id) = event.job else { return Ok(None) };
        if !self.jobs.contains_key(&id) {
            let job = self.shared.services.store.job(id).await?;
            self.jobs.insert(id, job.map(|job| (job.project, visible::line(&job.title).into_owned())));
        }
        let job = self.jobs.get(&id).and_then(Option::as_ref);
        Ok(job.map(|(project, title)| (format!("/projects/{project}/jobs/{id}"), title.clone())))
    }

    /// Returns the repositories of an event that had no project and still have none. Only administrators create
    /// projects.
    async fn unknown(&mut self, event: &InboxEvent) -> Result<Vec<(String, String)>, Failure> {
        let (Some(Outcome::NoProject), Some(paths), true) =
            (event.outcome, &event.detail, self.frame.viewer.is_administrator())
        else {
            return Ok(Vec::new());
        };
        let Some(host) = self.host(event).await? else { return Ok(Vec::new()) };
        if self.projects.is_none() {
            self.projects = Some(self.shared.services.store.projects().await?);
        }
        let projects = self.projects.as_deref().unwrap_or_default();
        let has_project = |path: &RepositoryPath| {
            projects.iter().any(|project| {
                let known = host.path_of(&project.repository);
                known.is_some_and(|known| known.as_str().eq_ignore_ascii_case(path.as_str()))
            })
        };
        let paths = paths.split(", ").filter_map(RepositoryPath::parse).filter(|path| !has_project(path));
        let form = |path: &RepositoryPath| format!("/projects/new?repository={}", in_query(&host.clone_url(path)));
        Ok(paths.map(|path| (path.as_str().to_owned(), form(&path))).collect())
    }

    async fn host(&mut self, event: &InboxEvent) -> Result<Option<CodeHost>, Failure> {
        let Some(id) = &event.code_host else { return Ok(None) };
        if !self.hosts.contains_key(id) {
            let host = self.frame.cases().code_host_of(event).await?;
            self.hosts.insert(id.clone(), host);
        }
        Ok(self.hosts.get(id).cloned().flatten())
    }
}
