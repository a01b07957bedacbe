//! Checks the guarantees that must hold once all jobs are finished.

use std::collections::BTreeSet;

use journeyman_core::code_host::PullState;
use journeyman_core::ids::{MessageId, Sha};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::{DeliveryMode, Message, MessageStatus};
use journeyman_core::ports::{JobStore, OutboxStore};
use journeyman_core::run::{ReasonCode, Run};
use journeyman_store::MemoryStore;

use super::client::{Acceptance, ClientRecord};
use super::world::{CodeHost, Line, MAIN, World};

/// Returns the violated guarantees, as text; none if all hold.
pub(super) async fn violations(world: &World, store: &MemoryStore, records: &[ClientRecord]) -> Vec<String> {
    let mut violations = world.violations();
    for record in records {
        let job = store.job(record.job).await.unwrap().unwrap();
        let messages = store.messages(record.job).await.unwrap();
        let mut violation = |text: String| violations.push(format!("{}: {text}", record.job));
        let runs = store.runs(record.job).await.unwrap();
        let order = check_log(store, &job, &runs, &mut violation).await;
        check_messages(record, &messages, &runs, &order, &mut violation);
        let was_interrupted = record.sent.iter().any(|sent| sent.delivery == DeliveryMode::Interrupt);
        check_branch(&world.host(), &job, &messages, was_interrupted, &order, &mut violation);
        if job.status() == JobStatus::Active {
            violation(format!("is still active: {:?}", job.state));
        }
    }
    check_pulls(&world.host(), &mut violations);
    let backlog = store.backlog().await.unwrap();
    if backlog.tasks > 0 {
        violations.push(format!("tasks are left in the outbox: {backlog:?}"));
    }
    violations
}

/// Checks that the log has no gaps, and that at most one run is active at a time. Returns the messages in the order in
/// which runs first took them.
async fn check_log(store: &MemoryStore, job: &Job, runs: &[Run], violation: &mut impl FnMut(String)) -> Vec<MessageId> {
    let (mut open, mut order) = (None, Vec::new());
    let log = store.log(job.id, 0, usize::MAX).await.unwrap();
    if !log.iter().map(|line| line.seq).eq(1..=job.last_seq) {
        violation("the log has gaps".to_owned());
    }
    for line in &log {
        match line.kind.as_ref() {
            "run.started" => {
                if open.is_some() {
                    violation(format!("{:?} begins while {open:?} runs", line.run_id));
                }
                open = line.run_id;
                let message = runs.iter().find(|run| Some(run.id) == line.run_id).unwrap().message;
                if !order.contains(&message) {
                    order.push(message);
                }
            }
            "run.finished" => {
                if open.is_none() || open != line.run_id {
                    violation(format!("{:?} ends, but {open:?} runs", line.run_id));
                }
                open = None;
            }
            _ if line.run_id.is_some() && line.run_id != open && line.kind.starts_with("agent.") => {
                violation(format!("{} of {:?}, which has ended", line.kind, line.run_id));
            }
            _ => {}
        }
    }
    if open.is_some() {
        violation(format!("the run {open:?} did not end"));
    }
    order
}

/// Checks that every accepted message is stored once and in order, that no refused message is stored, and that each
/// message has ended for a valid reason.
fn check_messages(
    record: &ClientRecord,
    messages: &[Message],
    runs: &[Run],
    order: &[MessageId],
    violation: &mut impl FnMut(String),
) {
    let name = |message: &Message| message.author.clone().unwrap();
    let stored: Vec<String> = messages.iter().map(name).collect();
    let is_expected = |acceptance: Acceptance, author: &String| match acceptance {
        Acceptance::Accepted => true,
        Acceptance::Refused => false,
        Acceptance::Unclear => stored.contains(author),
    };
    let expected = record.sent.iter().filter(|sent| is_expected(sent.acceptance, &sent.author));
    let expected: Vec<&String> = expected.map(|sent| &sent.author).collect();
    if stored.iter().collect::<Vec<_>>() != expected {
        violation(format!("answered: {expected:?}, stored: {stored:?}"));
    }
    for message in messages {
        let name = name(message);
        let last = runs.iter().find(|run| Some(run.id) == message.run);
        let code = last.and_then(|run| run.reason.as_ref()).map(|reason| reason.code);
        let has_valid_reason = match message.status {
            MessageStatus::Queued | MessageStatus::Delivered => false,
            // A message that is cancelled between two attempts has the reason of the first.
            MessageStatus::Finished | MessageStatus::Withdrawn | MessageStatus::Cancelled => true,
            MessageStatus::Failed => matches!(
                code,
                Some(
                    ReasonCode::AgentExited
                        | ReasonCode::AgentRefused
                        | ReasonCode::RepositoryUnreachable
                        | ReasonCode::PullRequestFailed
                        | ReasonCode::Internal
                        | ReasonCode::WorkerLost
                )
            ),
        };
        if !has_valid_reason {
            violation(format!("{name} is {:?} because of {code:?}", message.status));
        }
    }
    let queued: Vec<MessageId> = messages
        .iter()
        .filter(|message| {
            let sent = record.sent.iter().find(|sent| sent.author == name(message));
            sent.is_some_and(|sent| sent.delivery == DeliveryMode::Queue) && order.contains(&message.id)
        })
        .map(|message| message.id)
        .collect();
    let delivered: Vec<MessageId> = order.iter().filter(|id| queued.contains(id)).copied().collect();
    if queued != delivered {
        violation(format!("accepted in the order {queued:?}, delivered in the order {delivered:?}"));
    }
}

/// Checks that finished messages have their whole effect once and in order, in the commits that their receipts name.
fn check_branch(
    host: &CodeHost,
    job: &Job,
    messages: &[Message],
    was_interrupted: bool,
    order: &[MessageId],
    violation: &mut impl FnMut(String),
) {
    let mut commits: BTreeSet<Sha> = host.history(&host.branches[MAIN]);
    let mut lines: Vec<Line> = host.lines(&host.branches[MAIN]).to_vec();
    if let Some(branch) = &job.branch {
        if let Some(head) = host.branches.get(&branch.name) {
            commits.extend(host.history(head));
            lines.extend(host.lines(head).iter().filter(|line| !lines.contains(line)).copied().collect::<Vec<_>>());
        }
        if let Some(pushed) = &branch.pushed
            && !commits.contains(pushed)
        {
            violation(format!("{pushed} is recorded as pushed to {}, which does not have it", branch.name));
        }
    }
    if let (Some(branch), Some(pull)) = (&job.branch, &job.pull) {
        let head = &host.pulls[usize::try_from(pull.number).unwrap() - 1].head;
        if *head != branch.name {
            violation(format!("the job is on {}, but its pull request is for {head}", branch.name));
        }
    }
    for commit in &commits {
        let twice = host.lines(commit).len() != host.lines(commit).iter().collect::<BTreeSet<_>>().len();
        if twice {
            violation(format!("an effect was applied twice: {:?}", host.lines(commit)));
        }
    }
    let of = |id: MessageId| {
        lines.iter().filter(move |line| matches!(line, Line::Work(message, _) if *message == id)).copied()
    };
    let mut receipts = BTreeSet::new();
    for message in messages {
        let name = message.author.as_deref().unwrap();
        if let Some(commit) = message.commits.iter().find(|commit| !commits.contains(*commit)) {
            violation(format!("the receipt of {name} names {commit}, which no branch has"));
            continue;
        }
        if !message.commits.iter().all(|commit| receipts.insert(commit.clone())) {
            violation(format!("two receipts name the same commit: {:?}", message.commits));
        }
        let steps: u32 = message.prompt.parse().unwrap();
        let whole: Vec<Line> = (0..steps).map(|step| Line::Work(message.id, step)).collect();
        if message.status == MessageStatus::Finished {
            if !of(message.id).eq(whole.iter().copied()) {
                violation(format!("{name} is finished, but its effect is {:?}", of(message.id).collect::<Vec<_>>()));
            }
            let named: BTreeSet<Line> = message.commits.iter().flat_map(|commit| host.added(commit)).collect();
            if !whole.iter().all(|line| named.contains(line)) {
                violation(format!("the receipt of {name} names {named:?}, but its effect is {whole:?}"));
            }
        }
        // The changes of a turn that did not finish are discarded, unless the turn was interrupted. A turn that
        // finished may have been pushed before it was cancelled.
        let effect = of(message.id).count();
        if effect > 0 && effect < whole.len() && !was_interrupted {
            violation(format!("{name} is {:?}, but has a part of its effect", message.status));
        }
        // The next turn includes uncommitted changes of an interrupted turn.
        let has_no_commits = message.status == MessageStatus::Cancelled && message.commits.is_empty();
        if has_no_commits && effect > 0 && !was_interrupted {
            violation(format!("{name} was cancelled and its receipt names no commit, but it has an effect"));
        }
        if matches!(message.status, MessageStatus::Withdrawn) && of(message.id).next().is_some() {
            violation(format!("{name} was withdrawn, but has an effect"));
        }
    }
    let finished: BTreeSet<MessageId> =
        messages.iter().filter(|message| message.status == MessageStatus::Finished).map(|message| message.id).collect();
    if let Some(branch) = job.branch.as_ref().and_then(|branch| host.branches.get(&branch.name)) {
        let works = host.lines(branch).iter().filter_map(|line| match line {
            Line::Work(message, _) if finished.contains(message) => order.iter().position(|id| id == message),
            _ => None,
        });
        let works: Vec<usize> = works.collect();
        if !works.is_sorted() {
            violation(format!("the effects are not in order: {works:?}"));
        }
    }
    for commit in commits.difference(&receipts) {
        for line in host.added(commit) {
            if let Line::Work(message, _) = line
                && finished.contains(&message)
                && host.commits[commit].parents.len() == 1
            {
                violation(format!("{commit} has an effect of {message}, whose receipt does not name it"));
            }
        }
    }
}

fn check_pulls(host: &CodeHost, violations: &mut Vec<String>) {
    let open = host.pulls.iter().filter(|pull| pull.state == PullState::Open);
    let heads: Vec<&String> = open.map(|pull| &pull.head).collect();
    if heads.len() != heads.iter().collect::<BTreeSet<_>>().len() {
        violations.push(format!("two pull requests for one branch: {heads:?}"));
    }
    // Lines that a branch had are never lost.
    for (name, head) in &host.branches {
        let history = host.history(head);
        for commit in &history {
            if let Some(line) = host.lines(commit).iter().find(|line| !host.lines(head).contains(line)) {
                violations.push(format!("{line:?} was lost from {name}"));
            }
        }
    }
}
