//! Creates a job, and sends each line of stdin as a follow-up message.
//!
//! `JOURNEYMAN_KEY=… cargo run --package journeyman-client --example chat -- PROJECT PROMPT`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "an example prints, and reads the environment")]

use std::error::Error;
use std::io::BufRead;

use journeyman_client::models::{CreateJob, EventData, SendMessage};
use journeyman_client::{Client, JobHandle};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [project, prompt] = arguments.as_slice() else { return Err("usage: chat PROJECT PROMPT".into()) };
    let url = std::env::var("JOURNEYMAN_URL").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let client = Client::new(url, std::env::var("JOURNEYMAN_KEY")?)?;

    let created = client.jobs().create(project, &CreateJob::new(prompt)).await?;
    let job = client.job(project, created.id);
    let mut seen = show(&job, 0).await?;
    for line in std::io::stdin().lock().lines() {
        job.send_message(&SendMessage::new(line?)).await?;
        seen = show(&job, seen).await?;
    }
    println!("{:?}", job.get().await?.pr_link);
    Ok(())
}

/// Prints what the agent says until the job is not active. Returns the number of the last event.
async fn show(job: &JobHandle, mut seen: u64) -> Result<u64, journeyman_client::Error> {
    let mut events = job.stream_events().after(seen);
    while let Some(event) = events.next().await? {
        if let EventData::AgentMessage(message) = &event.data {
            println!("{}", message.text.as_deref().unwrap_or_default());
        }
        seen = event.seq;
    }
    Ok(seen)
}
