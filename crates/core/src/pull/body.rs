//! The title and the description of a job's pull request.
//!
//! The description has a section between two markers, which the service writes again after each follow-up. What people
//! write outside the markers stays; if they remove a marker, the service no longer changes the description.

use crate::left_out::{self, LeftOut};
use crate::markdown::{self, cut, gfm, gfm_line, gfm_template};
use crate::message::{Message, MessageStatus, Origin};
use crate::placeholders;

/// The beginning of the section that the service writes. Hosts do not show HTML comments.
const BEGIN: &str = "<!-- journeyman:begin -->";

/// The end of that section.
const END: &str = "<!-- journeyman:end -->";

/// The template of a description if the project has none.
pub const DEFAULT_BODY: &str = "{summary}\n\n### Prompt\n\n{prompt}\n\n---\nMade by Journeyman, [job {job}]({url}).";

/// Returns a description without the markers, for a page that shows HTML comments as text.
#[must_use]
pub fn without_markers(text: &str) -> String {
    text.replace(BEGIN, "").replace(END, "").trim().to_owned()
}

/// The maximum length of a section, in characters. GitHub accepts 65,536 for the description, Bitbucket 32,768.
const SECTION_CHARS: usize = 30_000;

/// The number of characters of the repository's template that there is always space for. With the section, it is short
/// enough for all hosts, so that none cuts it within code.
const TEMPLATE_CHARS: usize = 2000;

/// The number of characters of a text of others below which it is not cut further.
const LEAST_CHARS: usize = 100;

/// The maximum length of a title, in characters. GitHub and GitLab accept 255.
const TITLE_CHARS: usize = 250;

/// The maximum number of follow-ups in a summary. The newest ones are kept.
const FOLLOW_UPS: usize = 20;

/// A finished message of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// What was asked for.
    pub prompt: String,
    /// The number of the issue that asked for it, which the pull request closes.
    pub issue: Option<u64>,
    /// The final text of the turn, if it has one.
    pub answer: Option<String>,
}

impl Done {
    /// Returns a message for a description. The readers know comments and issues, so these are named; the prompt that
    /// was made of them also has instructions for the agent.
    #[must_use]
    pub fn new(message: &Message, answer: Option<String>) -> Self {
        let issue = message.source.as_ref().filter(|source| source.origin == Origin::Issue).map(|source| source.number);
        let prompt = match &message.source {
            Some(source) if source.origin == Origin::Issue => closes(source.number),
            Some(source) if !source.comments.is_empty() => match source.comments.as_slice() {
                [comment] => comment.title.clone(),
                several => {
                    let by = source.author.as_ref().map(|author| format!(" by {}", author.name)).unwrap_or_default();
                    match source.origin {
                        Origin::Review => format!("Review{by} ({} comments)", several.len()),
                        _ => format!("{} comments{by}", several.len()),
                    }
                }
            },
            _ => message.prompt.clone(),
        };
        Self { prompt, issue, answer }
    }

    /// Returns what was asked for in Markdown of code hosts, with at most `most` characters.
    fn asked(&self, most: usize) -> String {
        self.issue.map_or_else(|| gfm(&self.prompt, most), closes)
    }
}

/// Returns the sentence with which all hosts close an issue when the pull request is merged.
fn closes(issue: u64) -> String {
    format!("Closes #{issue}.")
}

/// Returns the finished messages whose work is in the pull request with the number `current`, or in a new one: those
/// after the last message whose work is in another pull request.
#[must_use]
pub fn of_pull(messages: &[Message], current: Option<u64>) -> Vec<&Message> {
    // The rest of the URL changes if the repository is renamed.
    let number = |link: &String| link.rsplit('/').find_map(|part| part.parse::<u64>().ok());
    let is_in_other =
        |message: &Message| message.pr_link.is_some() && message.pr_link.as_ref().and_then(number) != current;
    let from = messages.iter().rposition(is_in_other).map_or(0, |index| index + 1);
    messages[from..].iter().filter(|message| message.status == MessageStatus::Finished).collect()
}

/// The content of a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The title of the job.
    pub title: String,
    /// The title that the pull request must have whatever the template says.
    pub given_title: Option<String>,
    /// The finished messages, oldest first.
    pub done: Vec<Done>,
    /// The ID of the job.
    pub job: String,
    /// The branch.
    pub branch: String,
    /// The page of the job.
    pub url: String,
    /// The cost of the model calls in millionths of a US dollar, if it is known.
    pub cost_micros: Option<u64>,
    /// What the last turn changed, but its commits do not have.
    pub left_out: Vec<LeftOut>,
}

impl Content {
    /// Returns the given title, or one from a template; `None` means `{title}`.
    #[must_use]
    pub fn title(&self, template: Option<&str>) -> String {
        if let Some(title) = &self.given_title {
            return cut(&markdown::title(title), TITLE_CHARS);
        }
        let answers: Vec<&str> = self.done.iter().filter_map(|done| done.answer.as_deref()).collect();
        let prompt = self.done.first().map(|done| done.prompt.as_str()).unwrap_or_default();
        let line = |text: &str| markdown::title(&cut(text, 4 * TITLE_CHARS));
        let filled = self.fill(
            template.unwrap_or("{title}"),
            &[line(&self.title), line(&answers.join(" ")), line(prompt), line(&self.branch)],
        );
        let line = filled.split_whitespace().collect::<Vec<_>>().join(" ");
        cut(&line, TITLE_CHARS)
    }

    /// Returns the description of a new pull request: the section from a template, and below it the repository's own
    /// template for pull requests, if there is one.
    #[must_use]
    pub fn body(&self, template: Option<&str>, of_repository: Option<&str>) -> String {
        let section = self.section(template);
        match of_repository.map(str::trim).filter(|text| !text.is_empty()) {
            Some(text) => {
                let most = SECTION_CHARS.saturating_sub(section.chars().count()).max(TEMPLATE_CHARS);
                format!("{section}\n\n{}", gfm_template(text, most))
            }
            None => section,
        }
    }

    /// Returns a description with a new section, or `None` if nothing has changed or people have removed a marker.
    #[must_use]
    pub fn updated(&self, template: Option<&str>, current: &str) -> Option<String> {
        let from = current.find(BEGIN)?;
        let to = from + current[from..].find(END)? + END.len();
        let section = self.section(template);
        // Some hosts store line breaks as CR LF.
        let is_same = current[from..to].replace("\r\n", "\n") == section;
        (!is_same).then(|| format!("{}{section}{}", &current[..from], &current[to..]))
    }

    fn section(&self, template: Option<&str>) -> String {
        let left_out = left_out::markdown(&self.left_out, 0).map(|list| format!("{list}\n\n")).unwrap_or_default();
        let room = SECTION_CHARS.saturating_sub(left_out.chars().count());
        let mut most = room;
        let text = loop {
            let text = self.filled(template.unwrap_or(DEFAULT_BODY), most);
            // The texts of others are cut, because a cut in the whole could leave their code open.
            if text.chars().count() <= room || most < LEAST_CHARS {
                break cut(text.trim(), room);
            }
            most = most * 2 / 3;
        };
        format!("{BEGIN}\n{left_out}{text}\n{END}")
    }

    /// Returns the filled template of a description. Each text of others has at most `most` characters.
    fn filled(&self, template: &str, most: usize) -> String {
        let prompt = self.done.first().map(|done| done.asked(most)).unwrap_or_default();
        self.fill(template, &[gfm_line(&self.title), self.summary(most), prompt, gfm_line(&self.branch)])
    }

    /// Returns the summary: the answer to the first message, then those to the follow-ups, each with at most `most`
    /// characters.
    fn summary(&self, most: usize) -> String {
        let answer =
            |done: &Done| done.answer.as_deref().map(|text| gfm(text.trim(), most)).filter(|text| !text.is_empty());
        let mut parts = Vec::new();
        parts.extend(self.done.first().and_then(answer));
        let follow_ups = self.done.get(1..).unwrap_or_default();
        let skipped = follow_ups.len().saturating_sub(FOLLOW_UPS);
        for done in &follow_ups[skipped..] {
            if let Some(answer) = answer(done) {
                let title = done.issue.map_or_else(|| gfm_line(&crate::prompt::title_of(&done.prompt)), closes);
                parts.push(format!("**Follow-up: {title}**\n\n{answer}"));
            }
        }
        parts.join("\n\n")
    }

    /// Replaces placeholders in one pass, so that `{job}` in a prompt is not replaced. `texts` are those of others, as
    /// they may be where the result is shown: the title, the summary, the prompt and the branch.
    fn fill(&self, template: &str, texts: &[String; 4]) -> String {
        let cost = self.cost_micros.map_or_else(|| "unknown".to_owned(), dollars);
        let [title, summary, prompt, branch] = texts;
        let values = [
            ("{title}", title.as_str()),
            ("{summary}", summary),
            ("{prompt}", prompt),
            ("{job}", &self.job),
            ("{branch}", branch),
            ("{url}", &self.url),
            ("{cost}", &cost),
        ];
        placeholders::fill(template, &values)
    }
}

/// Formats an amount of money, in cents, or in hundredths of a cent if it is small.
fn dollars(micros: u64) -> String {
    match micros {
        0..10_000 => format!("${}.{:04}", micros / 1_000_000, micros % 1_000_000 / 100),
        _ => format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::code_host::{HostName, PullRepository};
    use crate::conversation::Permission;
    use crate::hook::CommentKind;
    use crate::ids::{JobId, MessageId};
    use crate::message::{DeliveryMode, MessageSource, SourceAuthor, SourceComment};
    use crate::time::Timestamp;

    #[test]
    fn what_was_left_out_comes_first() {
        let left_out =
            vec![LeftOut { path: "lib".to_owned(), reason: left_out::LeftOutReason::Submodule, is_kept: true }];
        let body = Content { left_out, ..content(&[("Do it.", Some("Done."))]) }.body(None, None);
        assert!(body.starts_with(&format!("{BEGIN}\n⚠️ Not published:\n\n- `lib` is a submodule")), "{body}");
        assert!(body.contains("\n\nDone.\n"), "{body}");
    }

    #[test]
    fn markers_are_not_shown() {
        assert_eq!(without_markers(&format!("Mine.\n\n{BEGIN}\nText.\n{END}\n")), "Mine.\n\n\nText.");
    }

    fn content(answers: &[(&str, Option<&str>)]) -> Content {
        let done = |(prompt, answer): &(&str, Option<&str>)| Done {
            prompt: (*prompt).to_owned(),
            issue: None,
            answer: answer.map(str::to_owned),
        };
        Content {
            title: "Add a page".to_owned(),
            given_title: None,
            done: answers.iter().map(done).collect(),
            job: "job_1".to_owned(),
            branch: "journeyman/a-1".to_owned(),
            url: "https://j.example/1".to_owned(),
            cost_micros: Some(420_000),
            left_out: Vec::new(),
        }
    }

    fn message(status: MessageStatus, link: Option<&str>) -> Message {
        let id = Uuid::from_u128(7);
        Message {
            id: MessageId::from_uuid(id),
            job: JobId::from_uuid(id),
            prompt: "Do it.".to_owned(),
            origin: Origin::Api,
            author: None,
            key: None,
            delivery: DeliveryMode::Queue,
            status,
            created_at: Timestamp::default(),
            delivered_at: None,
            finished_at: None,
            run: None,
            commits: Vec::new(),
            pr_link: link.map(str::to_owned),
            diff: None,
            published_with: None,
            answer: None,
            traceparent: None,
            source: None,
        }
    }

    #[test]
    fn only_messages_of_the_same_pull_request_are_described() {
        let (finished, failed) = (MessageStatus::Finished, MessageStatus::Failed);
        let (first, second) = ("https://h.example/a/pulls/1", "https://h.example/b/pulls/2");
        let messages = [
            message(finished, Some(first)),
            message(finished, None),
            message(finished, Some(first)),
            message(failed, None),
            message(finished, None),
            message(finished, Some(second)),
        ];
        for (until, current, expected) in
            [(2, None, 1), (5, None, 1), (5, Some(1), 4), (6, Some(2), 2), (6, Some(3), 0), (0, None, 0)]
        {
            assert_eq!(of_pull(&messages[..until], current).len(), expected, "{until} {current:?}");
        }
    }

    #[test]
    fn comments_and_issues_are_named_instead_of_the_prompt_about_them() {
        let comment = |title: &str| SourceComment {
            kind: CommentKind::Line,
            id: "1".to_owned(),
            url: String::new(),
            title: title.to_owned(),
            thread: None,
            review: None,
            path: None,
        };
        let author = || SourceAuthor { id: "1".to_owned(), name: "ada".to_owned(), permission: Permission::Write };
        for (origin, comments, author, expected) in [
            (Origin::Issue, vec![], None, "Closes #5."),
            (Origin::Issue, vec![comment("Go.")], Some(author()), "Closes #5."),
            (Origin::Comment, vec![comment("Rename it")], Some(author()), "Rename it"),
            (Origin::Review, vec![comment("a"), comment("b")], Some(author()), "Review by ada (2 comments)"),
            (Origin::Review, vec![comment("a"), comment("b")], None, "Review (2 comments)"),
            (Origin::Comment, vec![comment("a"), comment("b")], Some(author()), "2 comments by ada"),
            (Origin::Check, vec![], None, "Do it."),
        ] {
            let source = MessageSource {
                origin,
                newer: None,
                repository: PullRepository { host: HostName("h.example".to_owned()), id: "1".to_owned() },
                number: 5,
                id: "5".to_owned(),
                url: String::new(),
                author,
                comments,
                inbox: Vec::new(),
                logs: Vec::new(),
                files: Vec::new(),
            };
            let message = Message { source: Some(source), ..message(MessageStatus::Finished, None) };
            assert_eq!(Done::new(&message, None).prompt, expected);
        }
    }

    #[test]
    fn templates_are_filled_in_one_pass() {
        let content = content(&[("a {job}", Some("Done {cost}."))]);
        let title = content.title(Some("{title}: {prompt}\n {other} {"));
        assert_eq!(title, "Add a page: a {job} {other} {");
        let given = Content { given_title: Some("Mine".to_owned()), ..content.clone() };
        assert_eq!(given.title(Some("{title}")), "Mine");
        let body = content.body(Some("{summary} {job} {branch} {cost}"), None);
        assert_eq!(body, format!("{BEGIN}\nDone \\{{cost}}. job_1 journeyman/a-1 $0.42\n{END}"));
    }

    #[test]
    fn follow_ups_are_added_to_the_summary() {
        let one = content(&[("a", Some("Added."))]);
        let two = content(&[("a", Some("Added.")), ("fix the typo\nin x", Some("Fixed.")), ("b", None)]);
        let body = one.body(None, Some("## Checklist\n- [ ] tested\n"));
        assert!(body.starts_with(&format!("{BEGIN}\nAdded.\n")) && body.ends_with("- [ ] tested"), "{body}");
        let edited = body.replace("- [ ]", "- [x]");
        let updated = two.updated(None, &edited).unwrap();
        assert!(updated.contains("Added.\n\n**Follow-up: fix the typo**\n\nFixed.\n"), "{updated}");
        assert!(updated.ends_with("- [x] tested"), "{updated}");
        assert_eq!(two.updated(None, &updated.replace('\n', "\r\n")), None);
    }

    #[test]
    fn a_description_without_markers_stays() {
        let content = content(&[("a", Some("b"))]);
        for body in ["", "Rewritten.", END, BEGIN, &format!("{END} {BEGIN}")] {
            assert_eq!(content.updated(None, body), None, "{body}");
        }
    }

    #[test]
    fn an_answer_cannot_end_the_section() {
        let content = content(&[("a", Some(&format!("x {END} y {BEGIN} z")))]);
        let body = content.body(None, None);
        assert_eq!((body.matches(BEGIN).count(), body.matches(END).count()), (1, 1));
    }

    #[test]
    fn long_texts_are_cut() {
        let content = content(&[("a", Some(&"ä".repeat(100_000)))]);
        let body = content.body(None, None);
        assert!(body.chars().count() < SECTION_CHARS + 100 && body.ends_with(END));
        assert_eq!(content.title(Some(&"x".repeat(300))).chars().count(), TITLE_CHARS);
    }

    #[test]
    fn money_is_rounded_to_cents() {
        for (micros, expected) in [(0, "$0.0000"), (1_234, "$0.0012"), (420_000, "$0.42"), (12_345_678, "$12.34")] {
            assert_eq!(dollars(micros), expected);
        }
    }
}
