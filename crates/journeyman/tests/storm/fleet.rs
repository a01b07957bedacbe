//! The machines of a storm: processes that a supervisor restarts when they end. Each has a separate clock and a
//! connection to the database that the storm can cut.

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
use crate::program::fixtures::{Site, wrapped};

/// A machine of the service, with its supervisor.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) url: String,
    wire: Wire,
    /// The file from which libfaketime reads the error of the clock.
    clock: PathBuf,
    process: Arc<Mutex<Option<Child>>>,
    is_over: Arc<AtomicBool>,
    supervisor: Option<JoinHandle<()>>,
}

impl Machine {
    pub(super) fn start(site: &Site, name: &'static str, role: &str, server: (u16, &str)) -> Self {
        let (port, database) = server;
        // Clients must reach an API machine even when it is cut off from the database, so it stays in their network.
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
        let (process, is_over) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let supervisor = supervise(command, log, Arc::clone(&process), Arc::clone(&is_over));
        Self { name, url: format!("http://{listen}"), wire, clock, process, is_over, supervisor: Some(supervisor) }
    }

    /// Sets the machine's clock ahead by a number of seconds, or behind if the number is negative.
    pub(super) fn set_clock(&self, ahead: i64) {
        // Replace the file atomically, because the machine may be reading it.
        let draft = self.clock.with_extension("draft");
        std::fs::write(&draft, format!("{ahead:+}")).unwrap();
        std::fs::rename(draft, &self.clock).unwrap();
    }

    /// Returns whether the machine is in a network namespace, for the report.
    pub(super) const fn is_in_namespace(&self) -> bool {
        matches!(self.wire, Wire::Namespace(_))
    }

    /// Sends a signal to the process. If the process ends, the supervisor starts another.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(process) = &*self.process.lock().unwrap() {
            // The supervisor reaps processes only while it holds the lock, so the process ID is still valid.
            let _ = kill_process(Pid::from_child(process), signal);
        }
    }

    /// Connects the machine to the database, or cuts the connection.
    pub(super) fn connect(&self, is_connected: bool) {
        self.wire.connect(is_connected);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
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
    is_over: Arc<AtomicBool>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
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

/// Returns the path of libfaketime, which changes the time that programs see, as Debian installs it.
pub(crate) fn faketime() -> PathBuf {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    assert!(std::fs::exists(&library).unwrap(), "{library} is not installed; run: make setup-test");
    library.into()
}
