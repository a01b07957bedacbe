//! Answers an agent's requests for permission.
//!
//! Invariant: an option is chosen by its `kind`, never by its position or its name, and only a known kind is chosen.
//! One agent lists `allow_always` first; another sends `allow_once` twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::lines::head;
use super::translate::{Stop, Update};

/// The maximum number of tool calls whose kinds are remembered. At the limit, all are forgotten, because agents ask for
/// permission for their latest calls.
const MAX_CALLS: usize = 10_000;

/// The maximum number of characters that are kept of a tool call's title.
const TITLE_CHARS: usize = 500;

/// The answers to an agent's requests for permission. The sandbox protects the host, not these answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The answer for the kinds that `by_tool` does not contain.
    pub usual: Answer,
    /// The answers by `kind` of tool call; `other` stands for a missing or unknown kind.
    pub by_tool: BTreeMap<String, Answer>,
}

/// The answer to a request for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Allow: once if the agent offers that, otherwise always. Refuse if it offers neither.
    AllowOnce,
    /// Refuse: once if the agent offers that, otherwise always.
    Refuse,
}

/// The kind of tool calls whose kind is missing or unknown.
const OTHER: &str = "other";

/// The kinds of tool calls in version 1 of the protocol.
const TOOL_KINDS: [&str; 9] = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode"];

impl Policy {
    /// Allows everything.
    pub const ALLOW: Self = Self { usual: Answer::AllowOnce, by_tool: BTreeMap::new() };

    /// Refuses everything.
    pub const REFUSE: Self = Self { usual: Answer::Refuse, by_tool: BTreeMap::new() };

    /// Returns whether the policy refuses anything. If so, the agent must ask for permission.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.usual == Answer::Refuse || self.by_tool.values().any(|answer| *answer == Answer::Refuse)
    }

    /// Returns the answer to a request.
    pub(super) fn answer(&self, params: &Value, calls: &Calls) -> Answer {
        let kind = params.pointer("/toolCall/kind").and_then(Value::as_str).or_else(|| {
            let id = params.pointer("/toolCall/toolCallId").and_then(Value::as_str)?;
            calls.0.get(id).map(String::as_str)
        });
        let kind = kind.filter(|kind| TOOL_KINDS.contains(kind));
        self.by_tool.get(kind.unwrap_or(OTHER)).copied().unwrap_or(self.usual)
    }
}

/// The kinds of the agent's latest tool calls, by ID. In the protocol, a permission request contains only the changed
/// fields of its tool call, so the kind may be only in an earlier update.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<String, String>);

impl Calls {
    /// Remembers the kind of a tool call.
    pub(super) fn note(&mut self, update: &Update) {
        let Update::ToolCall(call) = update else { return };
        if let (Some(id), Some(kind)) = (call["toolCallId"].as_str(), call["kind"].as_str())
            && TOOL_KINDS.contains(&kind)
        {
            if self.0.len() >= MAX_CALLS {
                self.0.clear();
            }
            self.0.insert(id.to_owned(), kind.to_owned());
        }
    }
}

/// The last permission that the policy refused in the current turn. It is shared by the turn and the reader of the
/// agent's output, which answers requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<Option<Refusal>>>);

#[derive(Debug)]
struct Refusal {
    /// The title of the refused tool call.
    title: String,
    /// Set when the agent sends a message or starts a tool call after the refusal.
    continued: bool,
}

impl Refusals {
    fn set(&self, refusal: Option<Refusal>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
    }

    /// Discards the refusal of the previous turn.
    pub(super) fn clear(&self) {
        self.set(None);
    }

    /// Records a refusal, or what the agent does after a refusal.
    pub(super) fn note(&self, update: &Update) {
        let continues = match update {
            Update::Permission { title, granted: false, .. } => {
                return self.set(Some(Refusal { title: title.clone(), continued: false }));
            }
            Update::Message(text) => !text.trim().is_empty(),
            Update::ToolCall(call) => call.get("update").is_none(),
            _ => false,
        };
        if let Some(refusal) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            refusal.continued |= continues;
        }
    }

    /// Returns the title of the refused tool call if the turn ended because of the refusal: the agent stopped early, or
    /// sent no message and started no tool call after it.
    pub(super) fn ended(&self, stop: &Stop) -> Option<String> {
        let refusal = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let is_cause = match stop {
            Stop::EndTurn => !refusal.continued,
            Stop::Cancelled | Stop::Refusal | Stop::Unknown(_) => true,
            Stop::MaxTokens | Stop::MaxTurnRequests => false,
        };
        is_cause.then_some(refusal.title)
    }
}

impl Answer {
    /// Returns the kinds of options that may be chosen, best first.
    pub(super) fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::AllowOnce => &["allow_once", "allow_always", "reject_once", "reject_always"],
            Self::Refuse => &["reject_once", "reject_always"],
        }
    }
}

/// An answer, and the update that reports it.
#[derive(Debug)]
pub(super) struct Decision {
    /// The result of the request `session/request_permission`.
    pub(super) answer: Value,
    /// The [`Update::Permission`] for the caller.
    pub(super) update: Update,
}

/// Answers a request for permission with the first option of the first of `kinds` that the agent offers. If it offers
/// none of them, the outcome is `cancelled`, which agents treat as a refusal.
pub(super) fn decide(params: &Value, kinds: &[&str]) -> Decision {
    let options = params.get("options").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let choice = kinds.iter().find_map(|kind| first_of_kind(options, kind).map(|id| (id, *kind)));
    let outcome = match choice {
        Some((id, _)) => json!({ "outcome": "selected", "optionId": id }),
        None => json!({ "outcome": "cancelled" }),
    };
    Decision {
        answer: json!({ "outcome": outcome }),
        update: Update::Permission {
            title: title(params),
            chosen: choice.map(|(id, _)| id.to_owned()),
            kind: choice.map(|(_, kind)| kind.to_owned()),
            granted: choice.is_some_and(|(_, kind)| kind.starts_with("allow_")),
        },
    }
}

fn first_of_kind<'a>(options: &'a [Value], kind: &str) -> Option<&'a str> {
    options.iter().find(|option| option.get("kind").and_then(Value::as_str) == Some(kind))?.get("optionId")?.as_str()
}

fn title(params: &Value) -> String {
    let call = params.get("toolCall");
    let text = |field: &str| call.and_then(|call| call.get(field)).and_then(Value::as_str);
    let title = text("title").or_else(|| text("toolCallId"));
    head(title.unwrap_or_default(), TITLE_CHARS).to_owned()
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::{RequestPermissionOutcome, RequestPermissionResponse};

    use super::*;

    /// Returns the option that is chosen from options of these kinds, and whether it gives the permission. The options
    /// have the IDs `0`, `1`, …
    fn chosen(kinds: &[&str], policy: Answer) -> Option<(String, bool)> {
        let options: Vec<Value> = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| json!({ "optionId": index.to_string(), "name": "n", "kind": kind }))
            .collect();
        let params = json!({ "toolCall": { "toolCallId": "c1" }, "options": options });
        let decision = decide(&params, policy.kinds());
        // The protocol's own type must be able to parse the answer.
        let answer: RequestPermissionResponse = serde_json::from_value(decision.answer).unwrap();
        let answered = match answer.outcome {
            RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.0.to_string()),
            _ => None,
        };
        let Update::Permission { title, chosen, granted, .. } = decision.update else {
            return None;
        };
        assert_eq!(title, "c1");
        assert_eq!(chosen, answered);
        chosen.map(|id| (id, granted))
    }

    #[test]
    fn the_kind_decides_regardless_of_the_order() {
        let always_first = ["allow_always", "reject_once", "allow_once", "allow_once"];
        assert_eq!(chosen(&always_first, Answer::AllowOnce), Some(("2".to_owned(), true)));
        assert_eq!(chosen(&always_first, Answer::Refuse), Some(("1".to_owned(), false)));
        assert_eq!(chosen(&["reject_once", "allow_always"], Answer::AllowOnce), Some(("1".to_owned(), true)));
        assert_eq!(chosen(&["allow_once", "reject_always"], Answer::Refuse), Some(("1".to_owned(), false)));
    }

    #[test]
    fn unknown_kinds_are_refused() {
        assert_eq!(chosen(&["allow_forever", "reject_once"], Answer::AllowOnce), Some(("1".to_owned(), false)));
        assert_eq!(chosen(&["allow_forever"], Answer::AllowOnce), None);
        assert_eq!(chosen(&["allow_once"], Answer::Refuse), None);
        assert_eq!(chosen(&[], Answer::AllowOnce), None);
    }

    #[test]
    fn a_malformed_request_is_refused() {
        for params in [Value::Null, json!([]), json!({ "options": "all" })] {
            let decision = decide(&params, Answer::AllowOnce.kinds());
            assert_eq!(decision.answer, json!({ "outcome": { "outcome": "cancelled" } }));
        }
    }

    #[test]
    fn the_kind_of_the_tool_call_decides() {
        let by_tool = [("fetch", Answer::Refuse), ("other", Answer::Refuse)];
        let by_tool = by_tool.map(|(kind, answer)| (kind.to_owned(), answer)).into();
        let policy = Policy { usual: Answer::AllowOnce, by_tool };
        let mut calls = Calls::default();
        calls.note(&Update::ToolCall(json!({ "toolCallId": "c1", "kind": "fetch" })));
        let answer = |call: Value| policy.answer(&json!({ "toolCall": call }), &calls);
        assert_eq!(answer(json!({ "kind": "edit" })), Answer::AllowOnce);
        for refused in [
            json!({ "kind": "fetch" }),
            json!({ "kind": "teleport" }),
            json!({ "kind": 1 }),
            json!({}),
            json!({ "toolCallId": "c1" }),
            json!({ "toolCallId": "c2" }),
        ] {
            assert_eq!(answer(refused.clone()), Answer::Refuse, "{refused}");
        }
        assert_eq!(answer(json!({ "toolCallId": "c1", "kind": "read" })), Answer::AllowOnce);
        assert!(policy.refuses() && Policy::REFUSE.refuses() && !Policy::ALLOW.refuses());
    }

    #[test]
    fn a_refusal_is_the_cause_if_the_agent_stops_early_or_does_nothing_more() {
        let refused = || Update::Permission { title: "rm x".to_owned(), chosen: None, kind: None, granted: false };
        let allowed = Update::Permission { title: "ls".to_owned(), chosen: None, kind: None, granted: true };
        let message = Update::Message("Then I stop.".to_owned());
        let later = Update::ToolCall(json!({ "toolCallId": "c1", "status": "failed", "update": true }));
        let call = Update::ToolCall(json!({ "toolCallId": "c2" }));
        for (updates, stop, is_cause) in [
            (vec![refused()], Stop::EndTurn, true),
            (vec![refused(), later, Update::Message("\n".to_owned())], Stop::EndTurn, true),
            (vec![refused(), message.clone()], Stop::EndTurn, false),
            (vec![refused(), call], Stop::EndTurn, false),
            (vec![message.clone(), refused()], Stop::EndTurn, true),
            (vec![refused(), message.clone()], Stop::Cancelled, true),
            (vec![refused(), message], Stop::MaxTokens, false),
            (vec![allowed], Stop::Cancelled, false),
        ] {
            let refusals = Refusals::default();
            updates.iter().for_each(|update| refusals.note(update));
            assert_eq!(refusals.ended(&stop).is_some(), is_cause, "{updates:?} {stop:?}");
        }
    }
}
