//! Decides what an event means: whether it is ignored, ends at once, or becomes part of a message.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Outcome;
use super::text::{self, Dialect};
use super::version::text_hash;
use crate::conversation::LineComment;
use crate::hook::{CommentAction, CommentKind, HookContent, HookEvent, HostComment, HostReview, HostUser, IssueAction};
use crate::project::{CommentSettings, Reviews};
use crate::pull::comment::service;

/// The beginning of the markers in the comments of the service. A host keeps HTML comments and does not show them.
pub const MARKER: &str = "<!-- journeyman:";

/// The name that people can always mention, whatever the service's user is called.
const ALIAS: &str = "journeyman";

/// The identity of the service on a code host, and the bots that it trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The service's user; `None` if it is not known.
    pub me: Option<HostUser>,
    /// The other names with which the host writes a mention of that user, such as `{557058:…}` on Bitbucket Cloud.
    pub aliases: Vec<String>,
    /// The IDs of bots whose comments count. A name is not enough: anyone can have a name that ends with `[bot]`.
    pub trusted_bots: BTreeSet<String>,
    /// The Markdown of the host, which says what text people see.
    pub dialect: Dialect,
    /// `true` if the host reports submitted reviews ([`HostKind::reports_reviews`](crate::code_host::HostKind::reports_reviews)).
    /// Otherwise, a comment on lines is a review of its own.
    pub has_reviews: bool,
}

impl Identity {
    /// Returns the identity of the service on the built-in code host.
    #[must_use]
    pub fn local() -> Self {
        let (aliases, trusted_bots) = (Vec::new(), BTreeSet::new());
        Self { me: Some(service()), aliases, trusted_bots, dialect: Dialect::of(None), has_reviews: true }
    }

    /// Returns why an event is ignored whatever it says: the service itself or a bot caused it.
    #[must_use]
    pub fn ignores(&self, author: &HostUser, body: &str) -> Option<Outcome> {
        // A person may quote a comment of the service, or write about the marker within a line.
        let has_marker = body.lines().any(|line| line.trim_start().starts_with(MARKER));
        if self.me.as_ref().is_some_and(|me| me.id == author.id) || has_marker {
            return Some(Outcome::IgnoredSelf);
        }
        (is_bot(author) && !self.trusted_bots.contains(&author.id)).then_some(Outcome::IgnoredBot)
    }

    /// Returns the names by which people address the service. Another name in the settings replaces those of its user.
    fn names(&self, settings: &CommentSettings) -> Vec<String> {
        let own = self.me.as_ref().map(|me| me.name.strip_suffix("[bot]").unwrap_or(&me.name).to_owned());
        let own: Vec<String> = own.into_iter().chain(self.aliases.iter().cloned()).collect();
        let is_own = |name: &String| own.iter().any(|known| known.eq_ignore_ascii_case(name));
        let names = match &settings.mention {
            Some(name) if !is_own(name) => vec![name.clone()],
            _ => own,
        };
        names.into_iter().chain([ALIAS.to_owned()]).filter(|name| !name.is_empty()).collect()
    }

    /// Returns what a text asks of the service. Text that people do not see asks for nothing.
    #[must_use]
    pub fn request(&self, settings: &CommentSettings, body: &str) -> Request {
        let (names, body) = (self.names(settings), text::visible(body, self.dialect));
        if !body.contains('@') {
            return Request::None;
        }
        let code = text::code(&body);
        let Some(rest) = names.iter().find_map(|name| mentioned(&body, &code, name)) else { return Request::None };
        match rest.trim().trim_end_matches(['.', '!']).to_lowercase().as_str() {
            "stop" | "cancel" => Request::Stop,
            "help" => Request::Help,
            _ => Request::Message,
        }
    }

    /// Returns what a comment asks of the service. A comment that has nothing but the mention asks for help.
    #[must_use]
    pub fn comment_request(&self, settings: &CommentSettings, body: &str) -> Request {
        let body = text::visible(body, self.dialect);
        let is_mention =
            |name: &String| body.trim().strip_prefix('@').is_some_and(|rest| rest.eq_ignore_ascii_case(name));
        match self.request(settings, &body) {
            Request::Message if self.names(settings).iter().any(is_mention) => Request::Help,
            request => request,
        }
    }

    /// Returns whether a text asks for a review: its first word after the mention is `review`.
    #[must_use]
    pub fn asks_for_review(&self, settings: &CommentSettings, body: &str) -> bool {
        let (names, body) = (self.names(settings), text::visible(body, self.dialect));
        let code = text::code(&body);
        let rest = names.iter().find_map(|name| mentioned(&body, &code, name));
        let word = rest.map(|rest| rest.trim_start().chars().take_while(|c| c.is_alphanumeric()).collect::<String>());
        word.is_some_and(|word| word.eq_ignore_ascii_case("review"))
    }

    /// Returns what a comment on a pull request asks of the job of the pull request. A comment on lines may be a review.
    #[must_use]
    pub fn pull_comment_request(&self, settings: &CommentSettings, comment: &HostComment) -> Request {
        let is_on_lines = comment.kind == CommentKind::Line || comment.position.is_some();
        let is_review = is_on_lines && !self.has_reviews;
        match (self.comment_request(settings, &comment.body), settings.reviews) {
            (Request::None, Reviews::All) if is_review => Request::Message,
            (Request::Message, Reviews::Off) if is_on_lines => Request::None,
            (request, _) => request,
        }
    }

    /// Returns what a review asks of the service with its text and its comments on lines. An approval with nothing but
    /// a text without a mention is praise, not a task.
    #[must_use]
    pub fn review_request(&self, settings: &CommentSettings, review: &Review<'_>) -> Request {
        let Review { text, lines, approves } = review;
        let texts = std::iter::once(text).chain(lines);
        let requests: BTreeSet<Request> = texts.map(|text| self.request(settings, text)).collect();
        let request = requests.last().copied().unwrap_or(Request::None);
        let is_task = settings.reviews == Reviews::All && !(*approves && lines.is_empty());
        match request {
            Request::Message if settings.reviews == Reviews::Off => Request::None,
            Request::Help if !lines.is_empty() && is_task => Request::Message,
            Request::None if is_task => Request::Message,
            request => request,
        }
    }
}

fn is_bot(user: &HostUser) -> bool {
    user.is_bot || user.name.ends_with("[bot]")
}

/// The texts of a submitted review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review<'a> {
    /// The text of the review itself, which may be empty.
    pub text: &'a str,
    /// The texts of its comments on lines.
    pub lines: Vec<&'a str>,
    /// `true` if the reviewer approves.
    pub approves: bool,
}

impl<'a> Review<'a> {
    /// Returns the texts of a review on a code host.
    #[must_use]
    pub fn new(review: &'a HostReview, lines: &'a [LineComment]) -> Self {
        let lines = lines.iter().map(|line| line.body.as_str()).collect();
        Self { text: &review.body, lines, approves: review.approves }
    }
}

/// The request of a comment to the service. Of several in a review, the last in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Request {
    /// The comment does not mention the service.
    None,
    /// The service answers with a list of the commands.
    Help,
    /// The comment is a message to the job.
    Message,
    /// The job is canceled.
    Stop,
}

/// Returns the text after the first mention of a name outside of code and quotes, if there is one. `code` are the parts
/// of the text that are code. The lines of a quote begin with `>`: hosts show a line below them as part of the quote,
/// but people write their answer there.
fn mentioned<'a>(body: &'a str, code: &[Range<usize>], name: &str) -> Option<&'a str> {
    let mut offset = 0;
    for line in body.split_inclusive(['\n', '\r']) {
        let from = offset;
        offset += line.len();
        if line.trim_start().starts_with('>') {
            continue;
        }
        for (at, _) in line.match_indices('@') {
            let Some(rest) = without_prefix(&body[from + at + 1..], name) else { continue };
            let before = line[..at].chars().next_back();
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
            // A brace ends the name.
            let is_longer = !name.ends_with('}') && rest.chars().next().is_some_and(|c| is_word(c) || c == '/');
            let in_code = text::is_within(code, from + at);
            if !in_code && !before.is_some_and(|c| is_word(c) || c == '/') && !is_longer {
                return Some(rest);
            }
        }
    }
    None
}

/// Returns the text after a prefix in upper or lower case.
fn without_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let mut chars = text.chars();
    for wanted in prefix.chars() {
        if !chars.next()?.to_lowercase().eq(wanted.to_lowercase()) {
            return None;
        }
    }
    Some(chars.as_str())
}

/// The subject of an event that can become a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed<'a> {
    /// The number of the pull request or issue.
    pub number: u64,
    /// The author.
    pub author: &'a HostUser,
    /// The key of the comment or review in this version.
    pub subject: String,
    /// `true` for a submitted review.
    pub is_review: bool,
    /// `true` if the comment was edited or deleted.
    pub is_change: bool,
}

/// Returns what an event is about if it is a comment or a review, with the key of the comment without its version.
#[must_use]
pub fn addressed(event: &HookEvent) -> Option<(Addressed<'_>, String)> {
    match &event.content {
        HookContent::Comment { number, action, comment } => {
            let key = format!("{:?}/{}", comment.kind, comment.id).to_lowercase();
            let subject = format!("{key}/{}/{action:?}/{}", comment.version, text_hash(&event.content));
            let is_change = *action != CommentAction::Created;
            Some((Addressed { number: *number, author: &comment.author, subject, is_review: false, is_change }, key))
        }
        HookContent::Review { number, action, review } => {
            // Without an ID, only the version tells two reviews apart.
            let id = if review.id.is_empty() { &review.version } else { &review.id };
            let key = format!("review/{number}/{id}");
            let subject = format!("{key}/{}/{action:?}/{}", review.version, text_hash(&event.content));
            let is_change = *action != CommentAction::Created;
            Some((Addressed { number: *number, author: &review.author, subject, is_review: true, is_change }, key))
        }
        _ => None,
    }
}

/// Returns what a new comment or review on a pull request of the service asks of its job. `lines` are the comments of a
/// review on lines.
#[must_use]
pub fn request_of(
    identity: &Identity,
    settings: &CommentSettings,
    event: &HookEvent,
    lines: &[LineComment],
) -> Request {
    let request = match &event.content {
        HookContent::Comment { comment, .. } => identity.pull_comment_request(settings, comment),
        HookContent::Review { review, .. } => identity.review_request(settings, &Review::new(review, lines)),
        _ => Request::None,
    };
    match (request, event.author()) {
        // Two services that ask each other for help would not stop.
        (Request::Help, Some(author)) if is_bot(author) || identity.trusted_bots.contains(&author.id) => Request::None,
        (request, _) => request,
    }
}

/// Returns what a new comment or review asks of the service by a mention, whatever the setting of reviews is. `lines` are
/// the comments of a review on lines.
#[must_use]
pub fn mentioned_request(
    identity: &Identity,
    settings: &CommentSettings,
    event: &HookEvent,
    lines: &[LineComment],
) -> Request {
    request_of(identity, &CommentSettings { reviews: Reviews::Mentioned, ..settings.clone() }, event, lines)
}

/// Returns whether an issue becomes a job: it has the label, is assigned to the service, or mentions it.
#[must_use]
pub fn is_for_new_job(identity: &Identity, settings: &CommentSettings, event: &HookEvent) -> bool {
    let HookContent::Issue { action, issue } = &event.content else { return false };
    let is_label = |name: &String| settings.issue_label().is_some_and(|label| label.eq_ignore_ascii_case(name));
    let is_me = |user: &HostUser| identity.me.as_ref().is_some_and(|me| me.id == user.id);
    let asks = |labels: &[String], users: &[HostUser]| labels.iter().any(is_label) || users.iter().any(is_me);
    match action {
        IssueAction::Opened => {
            let text = format!("{}\n{}", issue.title, issue.body);
            asks(&issue.labels, &issue.assignees) || identity.request(settings, &text) == Request::Message
        }
        IssueAction::Labeled(name) => is_label(name),
        IssueAction::Assigned(user) => is_me(user),
        IssueAction::Changed { labels, users } => asks(labels, users),
        IssueAction::Updated => asks(&issue.labels, &issue.assignees),
        IssueAction::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::{HostIssue, HostReview};

    fn user(id: &str, name: &str) -> HostUser {
        HostUser { id: id.to_owned(), name: name.to_owned(), is_bot: false }
    }

    fn identity() -> Identity {
        let me = Some(user("7", "acme-agent[bot]"));
        let trusted_bots = ["9".to_owned()].into();
        Identity { me, aliases: Vec::new(), trusted_bots, dialect: Dialect::Github, has_reviews: true }
    }

    #[test]
    fn the_service_and_strange_bots_are_ignored() {
        for (author, body, expected) in [
            (user("7", "acme-agent[bot]"), "hi", Some(Outcome::IgnoredSelf)),
            // The name was changed, or the marker was removed: each of the two is enough.
            (user("7", "renamed"), "hi", Some(Outcome::IgnoredSelf)),
            (user("8", "ada"), "Done.\n\n<!-- journeyman:answer -->", Some(Outcome::IgnoredSelf)),
            (user("8", "ada"), "What is `<!-- journeyman:answer -->`?", None),
            (user("8", "ada"), "> Done.\n> <!-- journeyman:answer -->\n\nNo.", None),
            (user("8", "ada"), "hi", None),
            (user("8", "dependabot[bot]"), "hi", Some(Outcome::IgnoredBot)),
            (HostUser { is_bot: true, ..user("8", "ci") }, "hi", Some(Outcome::IgnoredBot)),
            (HostUser { is_bot: true, ..user("9", "ci") }, "hi", None),
        ] {
            assert_eq!(identity().ignores(&author, body), expected, "{author:?} {body}");
        }
    }

    #[test]
    fn a_mention_addresses_the_service() {
        let settings = CommentSettings::default();
        for (body, expected) in [
            ("@acme-agent please rename it", Request::Message),
            ("Could you, @Journeyman, rename it?", Request::Message),
            ("@acme-agent stop", Request::Stop),
            ("@journeyman Cancel!", Request::Stop),
            ("@journeyman help", Request::Help),
            ("@journeyman stop using tabs", Request::Message),
            ("@acme-agents look", Request::None),
            ("mail@journeyman", Request::None),
            ("@journeyman/team", Request::None),
            ("`@journeyman` is the name", Request::None),
            ("> @journeyman rename it\n\nNo.", Request::None),
            ("```\n@journeyman x\n```", Request::None),
            ("no mention", Request::None),
            ("İ @JOURNEYMAN go", Request::Message),
            ("İ", Request::None),
            ("<!-- @journeyman rename it -->no", Request::None),
            ("@journeyman<!-- --> stop", Request::Stop),
            ("@journeyman stop <!-- for now -->", Request::Stop),
            ("@<!-- -->journeyman stop", Request::None),
            ("@\u{200b}journeyman stop", Request::None),
            ("@jour\u{202e}neyman stop", Request::None),
            ("write `<!--`, @journeyman, not `-->`", Request::Message),
            ("````\n```\n@journeyman x\n```\n````", Request::None),
            ("- a\n\n  ~~~\n  @journeyman x\n  ~~~", Request::None),
            ("a\n\n    @journeyman x", Request::None),
            ("`a\n@journeyman` x", Request::None),
            ("``a ` b`` @journeyman go", Request::Message),
            ("> Do it?\n@journeyman go", Request::Message),
            ("[//]: # (@journeyman go)", Request::None),
        ] {
            assert_eq!(identity().request(&settings, body), expected, "{body}");
        }
        let escaped = Identity { dialect: Dialect::Escaped, ..identity() };
        assert_eq!(escaped.request(&settings, "<!-- @journeyman rename it -->"), Request::Message, "people see it");
        let named = CommentSettings { mention: Some("bob".to_owned()), ..settings };
        assert_eq!(identity().request(&named, "@bob go"), Request::Message);
        assert_eq!(identity().request(&named, "@acme-agent go"), Request::None);
    }

    #[test]
    fn a_mention_may_be_written_with_the_id_of_the_user() {
        let aliases = ["{557058:2a63-F0}", "Acme Agent", ""].map(str::to_owned).to_vec();
        let identity = Identity { aliases, ..identity() };
        let usual = CommentSettings::default();
        let own = CommentSettings { mention: Some("ACME-agent".to_owned()), ..usual.clone() };
        let other = CommentSettings { mention: Some("bob".to_owned()), ..usual.clone() };
        for (body, expected) in [
            ("@{557058:2a63-f0} rename it", Request::Message),
            ("Please,@{557058:2a63-f0}stop", Request::Stop),
            ("@{557058:2a63-f1} rename it", Request::None),
            ("@Acme Agent stop", Request::Stop),
            ("@Acme Agents stop", Request::None),
            ("a @ b", Request::None),
        ] {
            assert_eq!(identity.request(&usual, body), expected, "{body}");
            assert_eq!(identity.request(&own, body), expected, "{body}");
            assert_eq!(identity.request(&other, body), Request::None, "{body}");
        }
        assert_eq!(identity.comment_request(&usual, "@{557058:2A63-f0}"), Request::Help);
    }

    #[test]
    fn a_review_is_asked_for_by_the_first_word() {
        let settings = CommentSettings::default();
        for (body, expected) in [
            ("@journeyman review", true),
            ("Please, @acme-agent Review: the locks!", true),
            ("@journeyman\nreview this", true),
            ("@journeyman reviewers", false),
            ("@journeyman please review", false),
            ("`@journeyman review`", false),
            ("review", false),
        ] {
            assert_eq!(identity().asks_for_review(&settings, body), expected, "{body}");
        }
    }

    #[test]
    fn a_comment_with_only_the_mention_asks_for_help() {
        let settings = CommentSettings::default();
        for (body, of_comment, of_review) in [
            (" @Journeyman\n", Request::Help, Request::Message),
            ("@acme-agent", Request::Help, Request::Message),
            ("@journeyman go", Request::Message, Request::Message),
            ("go", Request::None, Request::Message),
        ] {
            assert_eq!(identity().comment_request(&settings, body), of_comment, "{body}");
            assert_eq!(identity().review_request(&settings, &of_text(body)), of_review, "{body}");
        }
    }

    #[test]
    fn a_bot_gets_no_help() {
        let comment = |author: HostUser| HookEvent {
            repository: None,
            sender: None,
            content: HookContent::Review {
                number: 1,
                action: CommentAction::Created,
                review: HostReview {
                    id: "1".to_owned(),
                    version: "1".to_owned(),
                    url: String::new(),
                    author,
                    body: "@journeyman help".to_owned(),
                    approves: false,
                },
            },
        };
        let settings = CommentSettings::default();
        for (author, expected) in
            [(user("8", "ada"), Request::Help), (user("9", "ci"), Request::None), (user("10", "x[bot]"), Request::None)]
        {
            assert_eq!(request_of(&identity(), &settings, &comment(author.clone()), &[]), expected, "{author:?}");
        }
    }

    #[test]
    fn comments_on_lines_count_as_part_of_their_review() {
        let all = CommentSettings::default();
        let mentioned = CommentSettings { reviews: Reviews::Mentioned, ..CommentSettings::default() };
        for (text, approves, lines, of_all, of_mentioned) in [
            ("", false, &["rename it"][..], Request::Message, Request::None),
            ("", false, &["a", "@journeyman rename it"], Request::Message, Request::Message),
            ("", false, &["@journeyman stop"], Request::Stop, Request::Stop),
            ("@journeyman fix it", false, &["a", "@journeyman stop"], Request::Stop, Request::Stop),
            ("@journeyman help", false, &["rename it"], Request::Message, Request::Help),
            ("LGTM!", true, &[], Request::None, Request::None),
            ("LGTM, @journeyman, but rename it", true, &[], Request::Message, Request::Message),
            ("LGTM, with a nit", true, &["rename it"], Request::Message, Request::None),
        ] {
            let review = Review { text, lines: lines.to_vec(), approves };
            assert_eq!(identity().review_request(&all, &review), of_all, "{review:?}");
            assert_eq!(identity().review_request(&mentioned, &review), of_mentioned, "{review:?}");
        }
    }

    fn of_text(text: &str) -> Review<'_> {
        Review { text, lines: Vec::new(), approves: false }
    }

    #[test]
    fn reviews_are_messages_unless_only_mentions_count() {
        let all = CommentSettings::default();
        let mentioned = CommentSettings { reviews: Reviews::Mentioned, ..CommentSettings::default() };
        for (body, of_all, of_mentioned) in [
            ("", Request::Message, Request::None),
            ("@journeyman fix it", Request::Message, Request::Message),
            ("@journeyman stop", Request::Stop, Request::Stop),
        ] {
            assert_eq!(identity().review_request(&all, &of_text(body)), of_all, "{body}");
            assert_eq!(identity().review_request(&mentioned, &of_text(body)), of_mentioned, "{body}");
        }
    }

    #[test]
    fn reviews_are_treated_alike_on_hosts_that_report_them_and_on_others() {
        let on = |reviews| CommentSettings { reviews, ..CommentSettings::default() };
        for (body, is_on_lines, has_reviews, expected) in [
            // All, mentioned, off.
            ("rename it", true, false, [Request::Message, Request::None, Request::None]),
            ("@journeyman rename it", true, false, [Request::Message, Request::Message, Request::None]),
            ("@journeyman stop", true, false, [Request::Stop; 3]),
            ("@journeyman", true, false, [Request::Help; 3]),
            // It is part of a review, or was written outside of one for people.
            ("rename it", true, true, [Request::None; 3]),
            ("@journeyman rename it", true, true, [Request::Message, Request::Message, Request::None]),
            ("rename it", false, false, [Request::None; 3]),
            ("@journeyman rename it", false, false, [Request::Message; 3]),
        ] {
            let comment = HostComment {
                kind: if is_on_lines { CommentKind::Line } else { CommentKind::Pull },
                id: "1".to_owned(),
                version: "1".to_owned(),
                url: String::new(),
                author: user("8", "ada"),
                body: body.to_owned(),
                position: None,
                hunk: None,
                thread: None,
                review: None,
            };
            let identity = Identity { has_reviews, ..identity() };
            let found = [Reviews::All, Reviews::Mentioned, Reviews::Off]
                .map(|reviews| identity.pull_comment_request(&on(reviews), &comment));
            assert_eq!(found, expected, "{body} {is_on_lines} {has_reviews}");
        }
        let off = on(Reviews::Off);
        for (body, expected) in [
            ("fix it", Request::None),
            ("@journeyman fix it", Request::None),
            ("@journeyman stop", Request::Stop),
            ("@journeyman help", Request::Help),
        ] {
            assert_eq!(identity().review_request(&off, &of_text(body)), expected, "{body}");
        }
    }

    #[test]
    fn an_issue_becomes_a_job_by_label_assignment_or_mention() {
        let event = |action: IssueAction, labels: &[&str], body: &str| HookEvent {
            repository: None,
            sender: None,
            content: HookContent::Issue {
                action,
                issue: HostIssue {
                    number: 1,
                    title: "T".to_owned(),
                    body: body.to_owned(),
                    url: String::new(),
                    author: user("8", "ada"),
                    labels: labels.iter().map(|label| (*label).to_owned()).collect(),
                    assignees: Vec::new(),
                },
            },
        };
        let usual = CommentSettings::default();
        let none = CommentSettings { issue_label: Some(String::new()), ..CommentSettings::default() };
        for (action, labels, body, settings, expected) in [
            (IssueAction::Opened, vec!["Journeyman"], "", &usual, true),
            (IssueAction::Opened, vec!["bug"], "", &usual, false),
            (IssueAction::Opened, vec![], "@journeyman do it", &usual, true),
            (IssueAction::Labeled("journeyman".to_owned()), vec!["journeyman"], "", &usual, true),
            (IssueAction::Labeled("bug".to_owned()), vec!["journeyman", "bug"], "", &usual, false),
            (IssueAction::Labeled("journeyman".to_owned()), vec![], "", &none, false),
            (IssueAction::Assigned(user("7", "x")), vec![], "", &usual, true),
            (IssueAction::Assigned(user("8", "acme-agent[bot]")), vec![], "", &usual, false),
            (IssueAction::Other, vec!["journeyman"], "@journeyman", &usual, false),
            (IssueAction::Updated, vec!["bug", "journeyman"], "", &usual, true),
            (IssueAction::Updated, vec!["bug"], "@journeyman", &usual, false),
        ] {
            let event = event(action.clone(), &labels, body);
            assert_eq!(is_for_new_job(&identity(), settings, &event), expected, "{action:?} {labels:?} {body}");
        }
        let (ada, me) = (user("8", "ada"), user("7", "x"));
        for (labels, users, expected) in [
            (vec!["bug", "Journeyman"], vec![ada.clone()], true),
            (vec!["bug"], vec![ada.clone(), me.clone()], true),
            (vec!["bug"], vec![ada.clone()], false),
        ] {
            let labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
            let changed = event(IssueAction::added(labels, users), &[], "");
            assert_eq!(is_for_new_job(&identity(), &usual, &changed), expected, "{changed:?}");
        }
        for action in [IssueAction::Opened, IssueAction::Updated] {
            for (assignees, expected) in [(vec![ada.clone(), me.clone()], true), (vec![ada.clone()], false)] {
                let mut event = event(action.clone(), &[], "");
                if let HookContent::Issue { issue, .. } = &mut event.content {
                    issue.assignees = assignees;
                }
                assert_eq!(is_for_new_job(&identity(), &usual, &event), expected, "{event:?}");
            }
        }
    }
}
