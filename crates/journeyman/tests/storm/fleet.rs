//! The machines of a storm: processes that a supervisor starts again when they end, each with a clock of its own and a
//! wire to the database that can be cut.

use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::network::{Wire, held, namespace};
use crate::program::given::{Site, wrapped};

/// A machine.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) url: String,
    wire: Wire,
    /// What libfaketime reads the clock's error from.
    clock: PathBuf,
    process: Arc<Mutex<Option<Child>>>,
    over: Arc<AtomicBool>,
    supervisor: Option<JoinHandle<()>>,
}

impl Machine {
    pub(super) fn start(site: &Site, name: &'static str, role: &str, server: (u16, &str)) -> Self {
        let (port, database) = server;
        // Clients must reach a machine that serves while it is cut off from the database: it stays in our network.
        let in_namespace = if role == "worker" { namespace(port) } else { None };
        let (wire, to) = in_namespace.unwrap_or_else(|| held(port));
        let listen = format!("127.0.0.1:{}", free_port());
        let database = format!("postgres://journeyman@{to}/{database}");
        let arguments = ["serve", "--listen", &listen, "--role", role, "--database-url", &database];
        let clock = site.path(&format!("{name}.clock"));
        std::fs::write(&clock, "+0").unwrap();
        let mut command = site.command_at(name, &arguments);
        command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", &clock);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let mut command = match wire.wrapper() {
            Some(wrapper) => wrapped(wrapper, &command),
            None => command,
        };
        command.stdout(Stdio::null());
        let log = File::create(site.path(&format!("{name}.log"))).unwrap();
        let (process, over) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let supervisor = supervise(command, log, Arc::clone(&process), Arc::clone(&over));
        Self { name, url: format!("http://{listen}"), wire, clock, process, over, supervisor: Some(supervisor) }
    }

    /// Sets the machine's clock wrong by so many seconds.
    pub(super) fn set_clock(&self, ahead: i64) {
        // Replaced as a whole: the machine may be reading it.
        let draft = self.clock.with_extension("draft");
        std::fs::write(&draft, format!("{ahead:+}")).unwrap();
        std::fs::rename(draft, &self.clock).unwrap();
    }

    /// What the machine's network is, for the report.
    pub(super) const fn is_in_namespace(&self) -> bool {
        matches!(self.wire, Wire::Namespace(_))
    }

    /// Ends the process as a failing machine does; the supervisor starts another.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(process) = &*self.process.lock().unwrap() {
            // Not reaped while we hold the lock, so the number is still its own.
            let _ = kill_process(Pid::from_child(process), signal);
        }
    }

    /// Whether anything passes between the machine and the database.
    pub(super) fn connect(&self, whole: bool) {
        self.wire.connect(whole);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.signal(Signal::KILL);
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.join().unwrap();
        }
    }
}

fn supervise(
    mut command: Command,
    log: File,
    process: Arc<Mutex<Option<Child>>>,
    over: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            {
                let mut process = process.lock().unwrap();
                let ended = match process.as_mut() {
                    Some(process) => process.try_wait().unwrap().is_some(),
                    None => true,
                };
                if ended {
                    *process = Some(command.stderr(log.try_clone().unwrap()).spawn().unwrap());
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        if let Some(mut process) = process.lock().unwrap().take() {
            let _ = process.kill();
            process.wait().unwrap();
        }
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The library that tells programs another time, where Debian's package has it.
fn faketime() -> PathBuf {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    assert!(std::fs::exists(&library).unwrap(), "{library} is not installed; run: make setup-test");
    library.into()
}
