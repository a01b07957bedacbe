//! What must hold when all is quiet.

use std::collections::BTreeSet;

use journeyman_core::ids::{MessageId, Sha};
use journeyman_core::job::{Job, JobStatus};
use journeyman_core::message::{DeliveryMode, Message, MessageStatus};
use journeyman_core::ports::JobStore;
use journeyman_core::pull::PullState;
use journeyman_core::run::{ReasonCode, Run};
use journeyman_store::MemoryStore;

use super::client::{Known, Memory};
use super::world::{CodeHost, Line, MAIN, World};

/// The breaches of a promise, in words; none if all is well.
pub(super) async fn breaches(world: &World, store: &MemoryStore, memories: &[Memory]) -> Vec<String> {
    let mut breaches = world.breaches();
    for memory in memories {
        let job = store.job(memory.job).await.unwrap().unwrap();
        let messages = store.messages(memory.job).await.unwrap();
        let mut breach = |text: String| breaches.push(format!("{}: {text}", memory.job));
        let runs = store.runs(memory.job).await.unwrap();
        let order = check_log(store, &job, &runs, &mut breach).await;
        check_messages(memory, &messages, &runs, &order, &mut breach);
        let was_interrupted = memory.sent.iter().any(|sent| sent.delivery == DeliveryMode::Interrupt);
        check_branch(&world.host(), &job, &messages, was_interrupted, &order, &mut breach);
        if job.status() == JobStatus::Active {
            breach(format!("is active although the system is quiet: {:?}", job.state));
        }
    }
    check_pulls(&world.host(), &mut breaches);
    breaches
}

/// The log has no gaps and one run at a time; answers the messages in the order in which runs first took them.
async fn check_log(store: &MemoryStore, job: &Job, runs: &[Run], breach: &mut impl FnMut(String)) -> Vec<MessageId> {
    let (mut open, mut order) = (None, Vec::new());
    let log = store.log(job.id, 0, usize::MAX).await.unwrap();
    if !log.iter().map(|line| line.seq).eq(1..=job.last_seq) {
        breach("the log has gaps".to_owned());
    }
    for line in &log {
        match line.kind.as_ref() {
            "run.started" => {
                if open.is_some() {
                    breach(format!("{:?} begins while {open:?} runs", line.run_id));
                }
                open = line.run_id;
                let message = runs.iter().find(|run| Some(run.id) == line.run_id).unwrap().message;
                if !order.contains(&message) {
                    order.push(message);
                }
            }
            "run.finished" => {
                if open.is_none() || open != line.run_id {
                    breach(format!("{:?} ends, but {open:?} runs", line.run_id));
                }
                open = None;
            }
            _ if line.run_id.is_some() && line.run_id != open && line.kind.starts_with("agent.") => {
                breach(format!("{} of {:?}, which is over", line.kind, line.run_id));
            }
            _ => {}
        }
    }
    if open.is_some() {
        breach(format!("the run {open:?} never ended"));
    }
    order
}

/// Every accepted message is there once and in order, no refused one is, and each is final for a reason.
fn check_messages(
    memory: &Memory,
    messages: &[Message],
    runs: &[Run],
    order: &[MessageId],
    breach: &mut impl FnMut(String),
) {
    let name = |message: &Message| message.author.clone().unwrap();
    let stored: Vec<String> = messages.iter().map(name).collect();
    let is_there = |known: Known, author: &String| match known {
        Known::Accepted => true,
        Known::Refused => false,
        Known::Unclear => stored.contains(author),
    };
    let expected = memory.sent.iter().filter(|sent| is_there(sent.known, &sent.author));
    let expected: Vec<&String> = expected.map(|sent| &sent.author).collect();
    if stored.iter().collect::<Vec<_>>() != expected {
        breach(format!("answered: {expected:?}, stored: {stored:?}"));
    }
    for message in messages {
        let name = name(message);
        let last = runs.iter().find(|run| Some(run.id) == message.run);
        let code = last.and_then(|run| run.reason.as_ref()).map(|reason| reason.code);
        let for_a_reason = match message.status {
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
        if !for_a_reason {
            breach(format!("{name} is {:?} because of {code:?}", message.status));
        }
    }
    let queued: Vec<MessageId> = messages
        .iter()
        .filter(|message| {
            let sent = memory.sent.iter().find(|sent| sent.author == name(message));
            sent.is_some_and(|sent| sent.delivery == DeliveryMode::Queue) && order.contains(&message.id)
        })
        .map(|message| message.id)
        .collect();
    let delivered: Vec<MessageId> = order.iter().filter(|id| queued.contains(id)).copied().collect();
    if queued != delivered {
        breach(format!("accepted in the order {queued:?}, delivered in the order {delivered:?}"));
    }
}

/// Finished messages have their whole effect once and in order, in the commits that their receipts name.
fn check_branch(
    host: &CodeHost,
    job: &Job,
    messages: &[Message],
    was_interrupted: bool,
    order: &[MessageId],
    breach: &mut impl FnMut(String),
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
            breach(format!("{pushed} is believed to be on {}", branch.name));
        }
    }
    if let (Some(branch), Some(pull)) = (&job.branch, &job.pull) {
        let head = &host.pulls[usize::try_from(pull.number).unwrap() - 1].head;
        if *head != branch.name {
            breach(format!("the job is on {}, its pull request is of {head}", branch.name));
        }
    }
    for commit in &commits {
        let twice = host.lines(commit).len() != host.lines(commit).iter().collect::<BTreeSet<_>>().len();
        if twice {
            breach(format!("an effect is there twice: {:?}", host.lines(commit)));
        }
    }
    let of = |id: MessageId| {
        lines.iter().filter(move |line| matches!(line, Line::Work(message, _) if *message == id)).copied()
    };
    let mut receipts = BTreeSet::new();
    for message in messages {
        let name = message.author.as_deref().unwrap();
        if let Some(commit) = message.commits.iter().find(|commit| !commits.contains(*commit)) {
            breach(format!("the receipt of {name} names {commit}, which is nowhere"));
            continue;
        }
        if !message.commits.iter().all(|commit| receipts.insert(commit.clone())) {
            breach(format!("two receipts name the same commit: {:?}", message.commits));
        }
        let steps: u32 = message.prompt.parse().unwrap();
        let whole: Vec<Line> = (0..steps).map(|step| Line::Work(message.id, step)).collect();
        if message.status == MessageStatus::Finished {
            if !of(message.id).eq(whole.iter().copied()) {
                breach(format!("{name} is finished, its effect is {:?}", of(message.id).collect::<Vec<_>>()));
            }
            let named: BTreeSet<Line> = message.commits.iter().flat_map(|commit| host.added(commit)).collect();
            if !whole.iter().all(|line| named.contains(line)) {
                breach(format!("the receipt of {name} names {named:?}, its effect is {whole:?}"));
            }
        }
        // What a turn that was not finished left behind is gone, unless it was interrupted. One that was finished may
        // have been pushed before it was cancelled.
        let effect = of(message.id).count();
        if effect > 0 && effect < whole.len() && !was_interrupted {
            breach(format!("{name} is {:?} and has a part of its effect", message.status));
        }
        // The next turn includes uncommitted changes of an interrupted turn.
        let denied = message.status == MessageStatus::Cancelled && message.commits.is_empty();
        if denied && effect > 0 && !was_interrupted {
            breach(format!("{name} was cancelled, its receipt names no commit, and its effect is there"));
        }
        if matches!(message.status, MessageStatus::Withdrawn) && of(message.id).next().is_some() {
            breach(format!("{name} was withdrawn and has an effect"));
        }
    }
    let finished: BTreeSet<MessageId> =
        messages.iter().filter(|message| message.status == MessageStatus::Finished).map(|message| message.id).collect();
    if let Some(branch) = job.branch.as_ref().and_then(|branch| host.branches.get(&branch.name)) {
        let works = host.lines(branch).iter().filter_map(|line| match line {
            Line::Work(message, _) if finished.contains(message) => order.iter().position(|one| one == message),
            _ => None,
        });
        let works: Vec<usize> = works.collect();
        if !works.is_sorted() {
            breach(format!("the effects are not in order: {works:?}"));
        }
    }
    for commit in commits.difference(&receipts) {
        for line in host.added(commit) {
            if let Line::Work(message, _) = line
                && finished.contains(&message)
                && host.commits[commit].parents.len() == 1
            {
                breach(format!("{commit} has an effect of {message}, whose receipt does not name it"));
            }
        }
    }
}

fn check_pulls(host: &CodeHost, breaches: &mut Vec<String>) {
    let open = host.pulls.iter().filter(|pull| pull.state == PullState::Open);
    let heads: Vec<&String> = open.map(|pull| &pull.head).collect();
    if heads.len() != heads.iter().collect::<BTreeSet<_>>().len() {
        breaches.push(format!("two pull requests for one branch: {heads:?}"));
    }
    // What people put there stays.
    for (name, head) in &host.branches {
        let history = host.history(head);
        for commit in &history {
            if let Some(line) = host.lines(commit).iter().find(|line| !host.lines(head).contains(line)) {
                breaches.push(format!("{line:?} was on {name} and is gone"));
            }
        }
    }
}
