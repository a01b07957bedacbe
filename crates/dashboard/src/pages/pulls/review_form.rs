//! The form that submits a review, on the conversation and on the changed files.

use journeyman_core::job::Job;
use journeyman_core::project::Reviews;
use journeyman_core::pull::Verdict;

use super::{Target, bar};

/// The readers of a review, apart from people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The agent of the job gets each review.
    Agent,
    /// The agent of the job gets reviews that mention the service.
    Mentioned,
    /// No job has opened the pull request.
    People,
    /// The job that has opened the pull request is archived.
    Archived,
    /// Reviews do not become messages in this project.
    Off,
}

impl Audience {
    /// Returns the audience of the reviews of a pull request that this job has opened.
    pub(super) fn of(at: &Target, job: Option<&Job>) -> Self {
        match (job, at.project.settings.comments.reviews) {
            (None, _) => Self::People,
            (Some(job), _) if !bar::is_open(job) => Self::Archived,
            (Some(_), Reviews::All) => Self::Agent,
            (Some(_), Reviews::Mentioned) => Self::Mentioned,
            (Some(_), Reviews::Off) => Self::Off,
        }
    }

    /// Returns the explanation of the buttons of the form for a comment on a line.
    pub(super) const fn of_line(self) -> &'static str {
        match self {
            Self::Agent => {
                "Add to review: only you see the comment until you finish the review, which goes to the agent as one \
                 message. For people: everyone sees it at once, and the agent gets it only if it mentions @journeyman."
            }
            Self::Mentioned => {
                "Add to review: only you see the comment until you finish the review, which goes to the agent if it \
                 mentions @journeyman. For people: everyone sees it at once."
            }
            Self::People => {
                "Add to review: only you see the comment until you finish the review. For people: everyone sees it at \
                 once. A comment that mentions @journeyman starts a job."
            }
            Self::Archived => {
                "Add to review: only you see the comment until you finish the review. For people: everyone sees it at \
                 once. The agent gets no comments, because its job is archived."
            }
            Self::Off => {
                "Add to review: only you see the comment until you finish the review. For people: everyone sees it at \
                 once. The agent gets no comments on lines, because comments.reviews is off."
            }
        }
    }

    /// Returns what a review with a verdict does.
    const fn of_review(self, verdict: Verdict) -> &'static str {
        match (verdict, self) {
            (Verdict::Comment, Self::Agent) => "The summary and the comments on lines go to the agent as one message.",
            (Verdict::Comment, Self::Mentioned) => "The agent gets the comments only if one mentions @journeyman.",
            (Verdict::Comment, Self::People) => {
                "For people: no job works on this pull request. A mention of @journeyman starts one."
            }
            (Verdict::Comment, Self::Archived) => "For people: the job of this pull request is archived.",
            (Verdict::Comment, Self::Off) => "For people: comments.reviews is off, so the agent gets no reviews.",
            (Verdict::Approve, Self::Agent) => {
                "The pull request counts as approved. The agent gets a message only if there are comments on lines, or \
                 if one mentions @journeyman."
            }
            (Verdict::Approve, Self::Mentioned) => {
                "The pull request counts as approved. The agent gets the comments only if one mentions @journeyman."
            }
            (Verdict::Approve, Self::People | Self::Archived | Self::Off) => "The pull request counts as approved.",
            (Verdict::RequestChanges, Self::Agent) => {
                "The pull request must be changed. The agent gets the summary and the comments as one message."
            }
            (Verdict::RequestChanges, Self::Mentioned) => {
                "The pull request must be changed. The agent gets the comments only if one mentions @journeyman."
            }
            (Verdict::RequestChanges, Self::People | Self::Archived | Self::Off) => "The pull request must be changed.",
        }
    }
}

/// The form, with the entered values if it was refused.
pub(super) struct ReviewForm {
    audience: Audience,
    verdict: Verdict,
    pub(super) draft: String,
    /// The reason of the refusal.
    pub(super) error: Option<String>,
}

/// A verdict that can be chosen.
pub(super) struct Choice {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    /// The effect of the verdict.
    pub(super) text: &'static str,
    pub(super) is_chosen: bool,
}

impl ReviewForm {
    pub(super) const fn new(audience: Audience) -> Self {
        Self { audience, verdict: Verdict::Comment, draft: String::new(), error: None }
    }

    /// Returns the form with the values that were refused, and the reason.
    pub(super) fn refused(audience: Audience, verdict: Verdict, draft: String, error: String) -> Self {
        Self { audience, verdict, draft, error: Some(error) }
    }

    pub(super) fn choices(&self) -> [Choice; 3] {
        let verdicts = [
            (Verdict::Comment, "Comment"),
            (Verdict::Approve, "Approve"),
            (Verdict::RequestChanges, "Request changes"),
        ];
        verdicts.map(|(verdict, label)| Choice {
            name: verdict.name(),
            label,
            text: self.audience.of_review(verdict),
            is_chosen: verdict == self.verdict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_form_keeps_its_verdict() {
        let form = ReviewForm::refused(Audience::People, Verdict::Approve, "No".to_owned(), "Refused".to_owned());
        assert_eq!(form.choices().map(|choice| choice.is_chosen), [false, true, false]);
        assert_eq!(ReviewForm::new(Audience::People).choices().map(|choice| choice.is_chosen), [true, false, false]);
    }

    #[test]
    fn only_a_review_that_reaches_the_agent_names_it() {
        let named = |audience| ReviewForm::new(audience).choices().map(|choice| choice.text.contains("agent"));
        assert_eq!(named(Audience::Agent), [true, true, true]);
        assert_eq!(named(Audience::Mentioned), [true, true, true]);
        assert_eq!(named(Audience::People), [false, false, false]);
        assert_eq!(named(Audience::Archived), [false, false, false]);
        assert!(!Audience::People.of_line().contains("agent"));
    }
}
