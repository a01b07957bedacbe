//! The machines of a storm: processes that a supervisor starts again when they end, each with a wire to the database that
//! can be cut.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::given::Site;

/// A machine.
pub(super) struct Machine {
    pub(super) name: &'static str,
    pub(super) url: String,
    wire: Arc<AtomicBool>,
    process: Arc<Mutex<Option<Child>>>,
    over: Arc<AtomicBool>,
    supervisor: Option<JoinHandle<()>>,
}

impl Machine {
    pub(super) fn start(site: &Site, name: &'static str, role: &str, server: (u16, &str)) -> Self {
        let (port, database) = server;
        let wire = Arc::new(AtomicBool::new(true));
        let to = lay(port, Arc::clone(&wire));
        let listen = format!("127.0.0.1:{}", free_port());
        let database = format!("postgres://journeyman@127.0.0.1:{to}/{database}");
        let arguments = ["serve", "--listen", &listen, "--role", role, "--database-url", &database];
        let (process, over) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let log = File::create(site.path(&format!("{name}.log"))).unwrap();
        let mut command = site.command_at(name, &arguments);
        command.stdout(Stdio::null());
        let supervisor = supervise(command, log, Arc::clone(&process), Arc::clone(&over));
        Self { name, url: format!("http://{listen}"), wire, process, over, supervisor: Some(supervisor) }
    }

    /// Ends the process as a failing machine does; the supervisor starts another.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(process) = &*self.process.lock().unwrap() {
            // Not reaped while we hold the lock, so the number is still its own.
            let _ = kill_process(Pid::from_child(process), signal);
        }
    }

    /// Whether bytes pass between the machine and the database; without, they are held back, as by a network that
    /// swallows packets.
    pub(super) fn connect(&self, whole: bool) {
        self.wire.store(whole, Ordering::SeqCst);
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

/// A wire to a port of this machine; where it begins.
fn lay(to: u16, whole: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let Ok(near) = near else { return };
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (from, into) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
                let (Ok(from), Ok(into)) = (from, into) else { continue };
                let whole = Arc::clone(&whole);
                std::thread::spawn(move || pass(from, into, &whole));
            }
        }
    });
    port
}

fn pass(mut from: TcpStream, mut into: TcpStream, whole: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while !whole.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if into.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
