//! Storms: tests that inject faults while clients record every answer. Machines are killed, frozen, cut off, restarted
//! and given wrong clocks, and the database crashes. Afterward, no promise of the service may be broken.
//! `make chaos SECONDS=60 SEED=1` runs a storm of any length.

mod check;
mod client;
mod fleet;
mod network;

use std::io::Write;
use std::time::{Duration, Instant};

use journeyman_testkit::Postgres;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

use self::check::breaches;
use self::client::{Client, SentJob};
use self::fleet::Machine;
pub(crate) use self::fleet::faketime;
use crate::program::fixtures::cluster;

/// The maximum time from the end of a storm until no job is active.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(900);

const CLIENTS: u64 = 4;

#[test]
fn a_short_storm_breaks_no_promise() {
    storm(1, Duration::from_secs(10));
}

/// Reads `SECONDS` and `SEED` from the environment; see the Makefile.
#[test]
#[ignore = "runs for SECONDS: make chaos SECONDS=60 SEED=1"]
fn a_storm_of_any_length_breaks_no_promise() {
    storm(parameter("SEED", 1), Duration::from_secs(parameter("SECONDS", 60)));
}

/// Returns a number from the environment.
pub(crate) fn parameter(name: &str, usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the parameters of a test")]
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap())
}

fn storm(seed: u64, length: Duration) {
    let server = Postgres::durable();
    // Some faults last longer than a lease, so it must be short.
    let more = "lease = \"3s\"\ncreate-per-hour = 0\nmessage-per-hour = 0\nlog = \"info\"\n";
    let url = server.database();
    let site = cluster(&url, more);
    let database = (server.port(), url.rsplit('/').next().unwrap());
    let machines = [
        Machine::start(&site, "api-one", "api", database),
        Machine::start(&site, "api-two", "api", database),
        Machine::start(&site, "worker-one", "worker", database),
        Machine::start(&site, "worker-two", "worker", database),
    ];
    let urls: Vec<String> = machines.iter().take(2).map(|machine| machine.url.clone()).collect();
    let begun = Instant::now();
    let mut faults = Vec::new();
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let work = |number| {
            let mut client = Client::new(number, seed, &site.key, &urls);
            move || {
                client.work(begun + length);
                client
            }
        };
        let working: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(work(number))).collect();
        inject_faults(seed, &machines, &server, begun + length, &mut faults);
        working.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (jobs, logs): (Vec<Vec<SentJob>>, Vec<Vec<String>>) =
        clients.into_iter().map(|client| (client.jobs, client.log)).unzip();
    let jobs: Vec<SentJob> = jobs.into_iter().flatten().collect();
    let service = site.start_machine("witness", "api");
    let end = Instant::now() + SETTLE_TIMEOUT;
    let active = || jobs.iter().filter(|job| service.get(&job.path)["status"] == "active").count();
    while active() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(500));
    }
    let breaches = breaches(&site, &service, &jobs);
    let messages: usize = jobs.iter().map(|job| job.messages.len()).sum();
    let mut report = std::io::stderr().lock();
    let spaces = machines.iter().filter(|machine| machine.is_in_namespace()).count();
    writeln!(
        report,
        "seed {seed}: {spaces} machines in network namespaces, {} jobs, {messages} messages, {} faults: {faults:?}",
        jobs.len(),
        faults.len()
    )
    .unwrap();
    if !breaches.is_empty() {
        let folder = std::env::temp_dir().join(format!("journeyman-storm-{seed}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("clients.log"), logs.concat().join("\n")).unwrap();
        for machine in &machines {
            let name = format!("{}.log", machine.name);
            std::fs::copy(site.path(&name), folder.join(name)).unwrap();
        }
        panic!("{} promises were broken; logs are in {}:\n{}", breaches.len(), folder.display(), breaches.join("\n"));
    }
}

/// An action that ends a fault of a machine.
#[derive(Debug, Clone, Copy)]
enum Recovery {
    Thaw,
    Connect,
    SetClock,
}

impl Recovery {
    fn apply(self, machine: &Machine) {
        match self {
            Self::Thaw => machine.signal(Signal::CONT),
            Self::Connect => machine.connect(true),
            Self::SetClock => machine.set_clock(0),
        }
    }
}

/// Injects faults until `end`, and then ends those that still last. Faults that last for some time may overlap.
fn inject_faults(seed: u64, machines: &[Machine], server: &Postgres, end: Instant, faults: &mut Vec<String>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut lasting: Vec<(Instant, usize, Recovery)> = Vec::new();
    // Let the first jobs start.
    std::thread::sleep(Duration::from_millis(1500));
    while Instant::now() < end {
        let index = rng.random_range(0..machines.len());
        let machine = &machines[index];
        // Some faults are shorter than a lease, and some are longer.
        let length = Duration::from_millis(rng.random_range(500..7000));
        let left = end.saturating_duration_since(Instant::now()).as_secs_f64();
        let fault = match rng.random_range(0..100) {
            0..60 => {
                machine.signal(Signal::KILL);
                "kill"
            }
            60..66 => {
                machine.signal(Signal::TERM);
                "terminate"
            }
            66..78 => {
                machine.signal(Signal::STOP);
                lasting.push((Instant::now() + length, index, Recovery::Thaw));
                "freeze"
            }
            78..84 => {
                // The error may exceed a lease, the delay between two attempts, and the wait for the machine with the
                // workspace.
                machine.set_clock(rng.random_range(-60..60));
                lasting.push((Instant::now() + length, index, Recovery::SetClock));
                "wrong clock"
            }
            84..94 => {
                machine.connect(false);
                lasting.push((Instant::now() + length, index, Recovery::Connect));
                "cut off"
            }
            94..98 => {
                server.crash();
                std::thread::sleep(length / 4);
                server.up();
                "database crash"
            }
            _ => {
                server.stop();
                server.up();
                "database restart"
            }
        };
        faults.push(format!("{left:.1}s before the end: {fault} {}", machine.name));
        std::thread::sleep(Duration::from_millis(rng.random_range(50..900)));
        lasting.retain(|(until, index, recovery)| {
            let is_over = *until <= Instant::now();
            if is_over {
                recovery.apply(&machines[*index]);
            }
            !is_over
        });
    }
    for (_, index, recovery) in lasting {
        recovery.apply(&machines[index]);
    }
}
