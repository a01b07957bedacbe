//! The query of a list of jobs: its filters, and the URLs that change one of them.

use std::collections::BTreeSet;

use journeyman_core::code_host::PullState;
use journeyman_core::ids::ProjectId;
use journeyman_core::job::JobStatus;
use journeyman_core::job::label::Attribute;
use journeyman_core::ports::{Cursor, JobFilter, StatusCounts};
use journeyman_core::time::Timestamp;
use serde::Deserialize;

use crate::failure::Failure;
use crate::parameter::Parameter;
use crate::{visible, words};

/// The number of jobs on a page.
pub(super) const ON_PAGE: usize = 50;

/// The number of jobs at which the count of a status stops.
pub(super) const MAX_COUNT: usize = 1000;

/// The choices of the status filter: the values in URLs, and the labels.
const STATUSES: [(&str, &str); 5] =
    [("", "All"), ("active", "Active"), ("failed", "Failed"), ("completed", "Completed"), ("archived", "Archived")];

/// The choices of the filter by the state of a pull request.
const PULLS: [(&str, &str); 3] = [("open", "Open"), ("merged", "Merged"), ("closed", "Closed")];

/// The filters of a list, and the position in it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ListQuery {
    /// The project; only in the list of all projects.
    project: Option<String>,
    status: Option<String>,
    q: Option<String>,
    author: Option<String>,
    label: Option<String>,
    agent: Option<String>,
    pull: Option<String>,
    /// The last job of the previous page, as `<microseconds>-<job>`.
    after: Option<String>,
}

/// A menu that sets one filter.
pub(super) struct Menu {
    /// The name of the parameter.
    pub(super) name: &'static str,
    /// The name of the property, such as `Author`.
    pub(super) title: &'static str,
    /// The selected value.
    pub(super) value: Option<String>,
    /// The URL without this filter.
    pub(super) any: String,
    pub(super) choices: Vec<Choice>,
    /// The other parameters of the form for a value that is not listed; `None` if all values are listed.
    pub(super) form: Option<Vec<(&'static str, String)>>,
}

/// The values that the menus offer, in addition to those on the page.
pub(super) struct Known<'a> {
    /// The name of the viewer.
    pub(super) viewer: &'a str,
    /// The IDs of the projects; empty in the list of a project.
    pub(super) projects: &'a [String],
    /// The IDs and names of the configured agents.
    pub(super) agents: &'a [(String, String)],
}

/// A filter of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The name of the property, such as `Author`.
    pub(super) title: &'static str,
    pub(super) value: String,
    /// The URL of the list without the filter.
    pub(super) href: String,
}

/// A link to a list.
pub(super) struct Choice {
    pub(super) href: String,
    pub(super) text: String,
    pub(super) is_chosen: bool,
}

impl ListQuery {
    /// Returns the query of the list of a project, which has no filter by project.
    #[must_use]
    pub(super) fn in_project(self) -> Self {
        Self { project: None, ..self }
    }

    /// Returns the project to which the filter restricts the list of all projects.
    pub(super) fn project(&self) -> Option<ProjectId> {
        self.value("project").parse().ok()
    }

    /// Checks the parameters that have few values. `path` is the path of the list.
    ///
    /// # Errors
    /// A value is not allowed.
    pub(super) fn check(&self, path: &str) -> Result<(), Failure> {
        let known = STATUSES.into_iter().filter(|(value, _)| !value.is_empty());
        let project = Parameter::new("project", self.project.as_ref(), path);
        project.read("the ID of a project", |id| id.parse::<ProjectId>().ok())?;
        Parameter::new("status", self.status.as_ref(), path).one_of(known)?;
        Parameter::new("pull", self.pull.as_ref(), path).one_of(PULLS)?;
        Parameter::new("after", self.after.as_ref(), path).read("the links to other pages", cursor)?;
        Ok(())
    }

    /// Returns the filter for the jobs of a project, or of the selected or all projects, with one job more than a page has.
    pub(super) fn filter(&self, project: Option<&ProjectId>) -> JobFilter {
        let states = [PullState::Open, PullState::Merged, PullState::Closed];
        let pull = self.value("pull");
        let given = |name: &str| Some(self.value(name)).filter(|value| !value.is_empty());
        // The rarest attributes come first, because a list is read in the order of the first one.
        let attributes = [
            given("label").map(Attribute::Label),
            given("author").map(Attribute::Author),
            given("agent").map(Attribute::Agent),
        ];
        JobFilter {
            projects: project.cloned().or_else(|| self.project()).map(|project| vec![project]),
            status: self.status(),
            attributes: attributes.into_iter().flatten().collect(),
            pull_state: states.into_iter().find(|state| state.name() == pull),
            title_contains: given("q"),
            after: self.after.as_deref().and_then(cursor),
            limit: ON_PAGE + 1,
            ..JobFilter::default()
        }
    }

    /// Returns the selected status.
    pub(super) fn status(&self) -> Option<JobStatus> {
        let status = self.value("status");
        JobStatus::ALL.into_iter().find(|known| known.name() == status)
    }

    /// Returns the value of a parameter; empty if it is not given.
    pub(super) fn value(&self, name: &str) -> String {
        let value = match name {
            "project" => &self.project,
            "status" => &self.status,
            "q" => &self.q,
            "author" => &self.author,
            "label" => &self.label,
            "agent" => &self.agent,
            "pull" => &self.pull,
            "after" => &self.after,
            _ => &None,
        };
        value.as_deref().unwrap_or_default().trim().replace('\0', "")
    }

    /// Returns whether a filter restricts the list.
    pub(super) fn is_filtered(&self) -> bool {
        self.pairs("").into_iter().any(|(name, _)| name != "after")
    }

    /// Returns whether the list shows the number of jobs of each status. With other filters than project and status it does
    /// not, because no index serves such a count.
    pub(super) fn has_counts(&self) -> bool {
        self.pairs("").into_iter().all(|(name, _)| matches!(name, "project" | "status" | "after"))
    }

    /// Returns whether the list begins at its first page.
    pub(super) const fn is_first(&self) -> bool {
        self.after.is_none()
    }

    /// Returns whether this is the first page of the list of all jobs.
    pub(super) fn is_whole(&self) -> bool {
        !self.is_filtered() && self.is_first()
    }

    /// Returns the given parameters, without the parameter `except`.
    pub(super) fn pairs(&self, except: &str) -> Vec<(&'static str, String)> {
        let names = ["project", "status", "q", "label", "author", "agent", "pull", "after"];
        let all = names.into_iter().map(|name| (name, self.value(name)));
        all.filter(|(name, value)| *name != except && !value.is_empty()).collect()
    }

    /// Returns the parameters that a form must keep which sets the parameter `name`.
    pub(super) fn kept(&self, name: &str) -> Vec<(&'static str, String)> {
        self.pairs(name).into_iter().filter(|(name, _)| *name != "after").collect()
    }

    /// Returns the URL of the list at `path` with another value of the parameter `name`. Another filter leads to the
    /// first page.
    pub(super) fn href(&self, path: &str, name: &'static str, value: &str) -> String {
        let mut pairs = self.kept(name);
        if !value.is_empty() {
            pairs.push((name, value.to_owned()));
        }
        url(path, &pairs)
    }

    /// Returns the links that set the status, with the numbers of jobs.
    pub(super) fn statuses(&self, path: &str, counts: Option<StatusCounts>) -> Vec<(Choice, Option<String>)> {
        let chosen = self.status().map(JobStatus::name).unwrap_or_default();
        let count = |value: &str| {
            let status = JobStatus::ALL.into_iter().find(|status| status.name() == value);
            counts.and_then(|counts| count_text(status.map_or(counts.total(), |status| counts.of(status))))
        };
        let link = |(value, text): (&str, &str)| {
            let href = self.href(path, "status", value);
            (Choice { href, text: text.to_owned(), is_chosen: value == chosen }, count(value))
        };
        STATUSES.map(link).into()
    }

    /// Returns the menus of the other filters. `seen` has the attributes of the jobs on the page.
    pub(super) fn menus(&self, path: &str, seen: &[Attribute], known: &Known<'_>) -> Vec<Menu> {
        let mut authors = BTreeSet::new();
        let mut labels = BTreeSet::new();
        for attribute in seen {
            match attribute {
                Attribute::Author(author) => authors.insert(author.clone()),
                Attribute::Label(label) => labels.insert(label.clone()),
                Attribute::Metadata(..) | Attribute::Agent(_) => false,
            };
        }
        authors.remove(known.viewer);
        let own = |values: BTreeSet<String>| values.into_iter().map(|value| (value.clone(), value));
        let me = (known.viewer.to_owned(), "Me".to_owned());
        let projects: Vec<(String, String)> = own(known.projects.iter().cloned().collect()).collect();
        let pulls = PULLS.map(|(value, text)| (value.to_owned(), text.to_owned()));
        let of_project = self.menu(path, "project", "Project", projects, false);
        let others = [
            self.menu(path, "author", "Author", [me].into_iter().chain(own(authors)).collect(), true),
            self.menu(path, "label", "Label", own(labels).collect(), true),
            self.menu(path, "agent", "Agent", known.agents.to_vec(), false),
            self.menu(path, "pull", "Pull request", pulls.into(), false),
        ];
        // The list of a project has no such menu.
        Some(of_project).filter(|menu| !menu.choices.is_empty()).into_iter().chain(others).collect()
    }

    /// Returns the filters of the list, each with its name, its value, and the URL of the list without it.
    pub(super) fn chosen(&self, path: &str, menus: &[Menu]) -> Vec<Chosen> {
        let status = STATUSES.into_iter().find(|(value, _)| !value.is_empty() && *value == self.value("status"));
        let status = status.map(|(_, text)| ("status", "Status", text.to_owned()));
        let title = Some(self.value("q")).filter(|text| !text.is_empty());
        let title = title.map(|text| ("q", "Title", visible::line(&text).into_owned()));
        let own = [status, title].into_iter().flatten().map(|(name, title, value)| {
            let href = self.href(path, name, "");
            Chosen { title, value, href }
        });
        let of_menu =
            |menu: &Menu| Some(Chosen { title: menu.title, value: menu.value.clone()?, href: menu.any.clone() });
        own.chain(menus.iter().filter_map(of_menu)).collect()
    }

    fn menu(
        &self,
        path: &str,
        name: &'static str,
        title: &'static str,
        values: Vec<(String, String)>,
        has_form: bool,
    ) -> Menu {
        let chosen = self.value(name);
        let shown = values.iter().find(|(value, _)| *value == chosen).map_or(&chosen, |(_, text)| text);
        let shown = visible::line(shown).into_owned();
        let choice = |(value, text): (String, String)| Choice {
            href: self.href(path, name, &value),
            text: visible::line(&text).into_owned(),
            is_chosen: value == chosen,
        };
        Menu {
            name,
            title,
            value: Some(shown).filter(|value| !value.is_empty()),
            any: self.href(path, name, ""),
            choices: values.into_iter().map(choice).collect(),
            form: has_form.then(|| self.kept(name)),
        }
    }
}

/// Formats a number of jobs that stops at [`MAX_COUNT`]: `7`, `999+`. Returns `None` if there are none.
fn count_text(count: u64) -> Option<String> {
    let most = MAX_COUNT as u64;
    match count {
        0 => None,
        _ if count < most => Some(count.to_string()),
        _ => Some(format!("{}+", most - 1)),
    }
}

/// Returns a URL with these parameters.
pub(super) fn url(path: &str, pairs: &[(&'static str, String)]) -> String {
    let query: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", words::in_query(value))).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

fn cursor(text: &str) -> Option<Cursor> {
    let (micros, id) = text.split_once('-')?;
    Some(Cursor { created_at: Timestamp::from_micros(micros.parse().ok()?), id: id.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> ListQuery {
        let own = |text: &str| Some(text.to_owned());
        ListQuery {
            status: own("failed"),
            q: own(" a b "),
            author: own("ada"),
            after: own("5-x"),
            ..ListQuery::default()
        }
    }

    #[test]
    fn each_filter_is_in_the_url_and_another_filter_leads_to_the_first_page() {
        let query = query();
        assert_eq!(query.href("/jobs", "status", ""), "/jobs?q=a%20b&author=ada");
        assert_eq!(query.href("/jobs", "label", "ü"), "/jobs?status=failed&q=a%20b&author=ada&label=%C3%BC");
        assert_eq!(url("/jobs", &query.pairs("after")), "/jobs?status=failed&q=a%20b&author=ada");
        assert!(query.is_filtered() && !query.is_first());
        assert!(!ListQuery { after: Some("5-x".to_owned()), ..ListQuery::default() }.is_filtered());
    }

    #[test]
    fn unknown_values_are_refused() {
        let own = |text: &str| Some(text.to_owned());
        for (query, text) in [
            (
                ListQuery { status: own("nope"), ..ListQuery::default() },
                "status: \"nope\" is not allowed; use active, failed, completed or archived",
            ),
            (
                ListQuery { pull: own("nope"), ..ListQuery::default() },
                "pull: \"nope\" is not allowed; use open, merged or closed",
            ),
            (
                ListQuery { project: own("No such"), ..ListQuery::default() },
                "project: \"No such\" is not allowed; use the ID of a project",
            ),
            (
                ListQuery { after: own("nope"), ..ListQuery::default() },
                "after: \"nope\" is not allowed; use the links to other pages",
            ),
        ] {
            assert_eq!(query.check("/jobs").unwrap_err().to_string(), text);
        }
        assert!(ListQuery { status: own(" "), ..ListQuery::default() }.check("/jobs").is_ok());
    }

    #[test]
    fn parameters_select_jobs() {
        let filter = self::query().filter(None);
        assert_eq!(filter.attributes, [Attribute::Author("ada".to_owned())]);
        assert_eq!((filter.status, filter.title_contains.as_deref()), (Some(JobStatus::Failed), Some("a b")));
    }

    #[test]
    fn statuses_have_the_numbers_of_jobs_up_to_a_limit() {
        let texts = |counts| {
            let links = query().statuses("/jobs", counts).into_iter();
            links.map(|(choice, count)| format!("{} {}", choice.text, count.unwrap_or_default())).collect::<Vec<_>>()
        };
        let counts = StatusCounts { active: 2, completed: 900, archived: 0, failed: 97 };
        assert_eq!(texts(Some(counts)), ["All 999", "Active 2", "Failed 97", "Completed 900", "Archived "]);
        let many = StatusCounts { completed: 999, archived: 1000, ..counts };
        assert_eq!(texts(Some(many)), ["All 999+", "Active 2", "Failed 97", "Completed 999", "Archived 999+"]);
        assert_eq!(texts(None), ["All ", "Active ", "Failed ", "Completed ", "Archived "]);
    }

    #[test]
    fn lists_with_a_filter_other_than_the_status_have_no_counts() {
        let own = |text: &str| Some(text.to_owned());
        let of_status = ListQuery { status: own("failed"), after: own("5-x"), ..ListQuery::default() };
        assert!(of_status.has_counts() && ListQuery::default().has_counts());
        assert!(!ListQuery { pull: own("open"), ..of_status }.has_counts());
        assert!(!query().has_counts());
    }

    #[test]
    fn a_menu_offers_the_values_on_the_page_and_marks_the_chosen_one() {
        let seen = [Attribute::Author("bob".to_owned()), Attribute::Label("bug".to_owned())];
        let agents = [("pi".to_owned(), "Pi".to_owned())];
        let known = Known { viewer: "ada", projects: &[], agents: &agents };
        let menus = query().menus("/jobs", &seen, &known);
        let texts = |menu: &Menu| menu.choices.iter().map(|choice| choice.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&menus[0]), ["Me", "bob"], "the viewer is first");
        assert_eq!(menus[0].value.as_deref(), Some("Me"));
        assert!(menus[0].choices[0].is_chosen && !menus[0].choices[1].is_chosen);
        assert_eq!(menus[0].any, "/jobs?status=failed&q=a%20b");
        assert_eq!((texts(&menus[1]), texts(&menus[2])), (vec!["bug".to_owned()], vec!["Pi".to_owned()]));
        let chosen = ListQuery { agent: Some("pi".to_owned()), ..ListQuery::default() };
        assert_eq!(chosen.menus("/jobs", &seen, &known)[2].value.as_deref(), Some("Pi"));
        assert_eq!(texts(&menus[3]), ["Open", "Merged", "Closed"]);
        assert!(menus[1].form.is_some() && menus[3].form.is_none());
        let projects = ["api".to_owned(), "shop".to_owned()];
        let all = query().menus("/jobs", &seen, &Known { projects: &projects, ..known });
        assert_eq!((all[0].title, texts(&all[0])), ("Project", projects.to_vec()));
        assert_eq!(all[0].choices[1].href, "/jobs?status=failed&q=a%20b&author=ada&project=shop");
    }

    #[test]
    fn each_filter_can_be_removed() {
        let query = query();
        let menus = query.menus("/jobs", &[], &Known { viewer: "bob", projects: &[], agents: &[] });
        let chosen = |title, value: &str, href: &str| Chosen { title, value: value.to_owned(), href: href.to_owned() };
        let expected = [
            chosen("Status", "Failed", "/jobs?q=a%20b&author=ada"),
            chosen("Title", "a b", "/jobs?status=failed&author=ada"),
            chosen("Author", "ada", "/jobs?status=failed&q=a%20b"),
        ];
        assert_eq!(query.chosen("/jobs", &menus), expected);
        assert_eq!(ListQuery::default().chosen("/jobs", &[]), []);
    }

    #[test]
    fn the_filter_by_project_applies_to_the_list_of_all_projects() {
        let query = ListQuery { project: Some("shop".to_owned()), ..ListQuery::default() };
        let shop: ProjectId = "shop".parse().unwrap();
        assert_eq!(query.filter(None).projects, Some(vec![shop]));
        assert!(query.is_filtered() && query.has_counts());
        let other: ProjectId = "other".parse().unwrap();
        let query = query.in_project();
        assert_eq!(query.filter(Some(&other)).projects, Some(vec![other]));
        assert!(!query.is_filtered());
    }
}
