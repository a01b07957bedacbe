//! Answers of a stand-in to polls: lists of what has changed since a time.

use std::collections::BTreeMap;

use http::Method;
use journeyman_core::time::Timestamp;
use serde_json::{Value, json};

use super::exchange::{ApiRequest, Product, Reply};
use super::products;
use super::stamp::{issue_key, stamp};
use super::state::{CommentedOn, PullState, Repository, Review, State, User};

fn written(seconds: i64) -> String {
    Timestamp::from_micros(seconds * 1_000_000).to_string().replace(".000", "")
}

/// A poll of a repository.
struct Poll<'a> {
    state: &'a mut State,
    call: &'a ApiRequest,
    product: Product,
    found: Repository,
    since: i64,
}

/// Answers a request of a poll of Gitea or Forgejo; `None` for other requests. The lists of the other products are the
/// same for polls and other requests.
pub(super) fn answer(product: Product, state: &mut State, call: &ApiRequest) -> Option<Reply> {
    stamp(state);
    if call.method != Method::GET {
        return None;
    }
    let parts: Vec<&str> = call.segments.iter().map(String::as_str).collect();
    let (path, below) = match (product, parts.as_slice()) {
        (Product::Gitea | Product::Forgejo, ["api", "v1", "repos", owner, name, below @ ..]) => {
            (format!("{owner}/{name}"), below)
        }
        _ => return None,
    };
    let found = state.by_path(&path)?.clone();
    let time = |name: &str| call.parameter(name).map(str::to_owned);
    let since = time("since").map_or(0, |text| text.parse::<Timestamp>().unwrap().as_micros() / 1_000_000);
    let poll = Poll { state, call, product, found, since };
    poll.gitea(below)
}

impl Poll<'_> {
    /// Returns the refusal of a request with this credential.
    fn refusal(&mut self, path: &[&str]) -> Option<Reply> {
        let mut call = self.call.clone();
        call.segments = path.iter().map(|part| (*part).to_owned()).collect();
        let reply = products::answer(self.product, self.state, &call);
        (reply.status != 200).then_some(reply)
    }

    fn of(&self, number: u64) -> (i64, i64) {
        self.state.times.of(&format!("{}/{number}", self.found.id))
    }

    fn of_issue(&self, number: u64) -> (i64, i64) {
        self.state.times.of(&issue_key(&self.found, number))
    }

    fn comment(&self, id: &Value) -> (i64, i64) {
        self.state.times.of(&format!("comment/{id}"))
    }

    fn user(&self, id: u64) -> Value {
        let User { id, name, .. } = self.state.user(id);
        json!({"id": id, "login": name, "username": name})
    }

    /// Returns the user who added the labels of issues.
    fn labeler(&self) -> Value {
        self.user(self.state.labeler)
    }

    /// Returns the issues and pull requests that have changed, oldest first.
    fn entries(&self) -> Vec<Value> {
        let mut listed = Vec::new();
        for pull in &self.found.pulls {
            let merged_at = (pull.state == PullState::Merged).then_some("2027-01-15T08:00:00Z");
            listed.push(json!({
                "number": pull.number,
                "title": pull.title,
                "body": pull.body,
                "html_url": format!("{}/{}/pulls/{}", self.state.url, self.found.path, pull.number),
                "state": if pull.state == PullState::Open { "open" } else { "closed" },
                "user": self.user(pull.author),
                "labels": [],
                "pull_request": {"merged_at": merged_at},
            }));
        }
        for issue in &self.found.issues {
            listed.push(json!({
                "number": issue.number,
                "title": issue.title,
                "body": issue.body,
                "state": "open",
                "html_url": format!("{}/{}/issues/{}", self.state.url, self.found.path, issue.number),
                "user": self.user(issue.author),
                "labels": issue.labels.iter().map(|label| json!({"name": label})).collect::<Vec<_>>(),
            }));
        }
        let mut times = BTreeMap::new();
        for mut entry in listed {
            let number = entry["number"].as_u64().unwrap();
            let is_pull = !entry["pull_request"].is_null();
            let (created, updated) = if is_pull { self.of(number) } else { self.of_issue(number) };
            entry["created_at"] = written(created).into();
            entry["updated_at"] = written(updated).into();
            if updated >= self.since {
                times.insert((updated, number), entry);
            }
        }
        times.into_values().collect()
    }

    /// Returns an issue or a pull request.
    fn entry(&self, number: &str) -> Reply {
        let number: Option<u64> = number.parse().ok();
        let entry = self.entries().into_iter().find(|entry| entry["number"].as_u64() == number);
        entry.map_or_else(|| Reply::json(404, &json!({"message": "Not Found"})), |entry| Reply::json(200, &entry))
    }

    /// Returns the comments of conversations that have changed.
    fn comments(&self) -> Vec<Value> {
        let mut listed = Vec::new();
        for comment in &self.found.comments {
            let (created, updated) = self.comment(&comment.id.into());
            let (kind, number) = match comment.target {
                CommentedOn::Pull(number) => ("pulls", number),
                CommentedOn::Issue(number) => ("issues", number),
            };
            let page = format!("{}/{}/{kind}/{number}", self.state.url, self.found.path);
            let is_pull = kind != "issues";
            let mut shown = json!({
                "id": comment.id,
                "body": comment.body,
                "user": self.user(comment.author),
                "html_url": format!("{page}#issuecomment-{}", comment.id),
                "created_at": written(created),
                "updated_at": written(updated),
            });
            shown["pull_request_url"] = if is_pull { page.clone() } else { String::new() }.into();
            shown["issue_url"] = if is_pull { String::new() } else { page }.into();
            if updated >= self.since {
                listed.push(shown);
            }
        }
        listed
    }

    /// Returns the reviews of a pull request.
    fn reviews(&self, number: &str) -> Vec<Value> {
        let is_it = |pull: u64| pull.to_string() == number;
        let reviews = self.found.reviews.iter().filter(|review| is_it(review.pull));
        let show = |review: &Review| {
            let (created, _) = self.state.times.of(&format!("review/{}", review.id));
            let page = format!("{}/{}/pull/{number}", self.state.url, self.found.path);
            json!({
                "id": review.id,
                "user": self.user(review.author),
                "state": "COMMENT",
                "body": review.body,
                "html_url": format!("{page}#pullrequestreview-{}", review.id),
                "submitted_at": written(created),
                "dismissed": false,
            })
        };
        reviews.map(show).collect()
    }

    fn gitea(mut self, below: &[&str]) -> Option<Reply> {
        let polls = matches!(below, ["issues"] | ["issues", _] | ["pulls", _, "reviews"] | ["issues", _, "timeline"]);
        if !polls {
            return None;
        }
        let base: Vec<&str> = self.call.segments.iter().take(5).map(String::as_str).collect();
        if let Some(refusal) = self.refusal(&base) {
            return Some(refusal);
        }
        if let ["issues", number] = below
            && *number != "comments"
        {
            return Some(self.entry(number));
        }
        let listed = match below {
            ["issues"] => self.entries(),
            ["issues", "comments"] => self.comments(),
            ["pulls", number, _] => self.reviews(number),
            [_, number, _] => {
                let issue = self.found.issues.iter().find(|issue| issue.number.to_string() == *number)?;
                let (at, user) = (written(self.of_issue(issue.number).1), self.labeler());
                let show = |label| json!({"type": "label", "body": "1", "user": user, "label": {"name": label}, "created_at": at});
                issue.labels.iter().map(show).collect()
            }
            _ => return None,
        };
        let number = |name: &str| self.call.parameter(name).and_then(|text| text.parse::<usize>().ok());
        let (limit, at) = (number("limit").unwrap_or(30).min(50), number("page").unwrap_or(1));
        let chosen: Vec<&Value> = listed.iter().skip((at - 1) * limit).take(limit).collect();
        Some(Reply::json(200, &json!(chosen)).header("x-total-count", listed.len().to_string()))
    }
}
