//! Networks of machines that can be cut: a network namespace each, where this user may make one, so that packets are lost
//! as on a real wire; else a wire that holds bytes back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// A machine's way to the database.
pub(super) enum Wire {
    /// Bytes are held back while it is false.
    Held(Arc<AtomicBool>),
    Namespace(Namespace),
}

impl Wire {
    /// Whether anything passes.
    pub(super) fn connect(&self, whole: bool) {
        match self {
            Self::Held(open) => open.store(whole, Ordering::SeqCst),
            Self::Namespace(namespace) => namespace.connect(whole),
        }
    }

    /// How a program is started behind it.
    pub(super) fn wrapper(&self) -> Option<Command> {
        match self {
            Self::Held(_) => None,
            Self::Namespace(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &namespace.name]);
                Some(command)
            }
        }
    }
}

/// A wire that holds bytes back, to a port of this machine; and where it begins.
pub(super) fn held(to: u16) -> (Wire, String) {
    let open = Arc::new(AtomicBool::new(true));
    let port = lay(Ipv4Addr::LOCALHOST, to, &open);
    (Wire::Held(open), format!("127.0.0.1:{port}"))
}

/// A namespace from which a port of this machine can be reached; and where. `None` where this user may not make one.
pub(super) fn namespace(to: u16) -> Option<(Wire, String)> {
    static COUNT: AtomicU8 = AtomicU8::new(0);
    let number = COUNT.fetch_add(1, Ordering::SeqCst);
    let name = format!("jm{}-{number}", std::process::id());
    let (near, far) = (format!("jn{}", &name[2..]), format!("jf{}", &name[2..]));
    if !ip(&["netns", "add", &name]) {
        return None;
    }
    let namespace = Namespace { name: name.clone(), near: near.clone() };
    // From the block for tests of networks (RFC 2544): another place in it for each process.
    let [_, _, place, low] = std::process::id().to_be_bytes();
    let address = |host: u8| Ipv4Addr::new(198, 18 + place % 2, low, number % 64 * 4 + host);
    let [ours, theirs] = [1, 2].map(|host| format!("{}/30", address(host)));
    let made = [
        vec!["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name],
        vec!["addr", "add", &ours, "dev", &near],
        vec!["link", "set", &near, "up"],
        vec!["-n", &name, "addr", "add", &theirs, "dev", &far],
        vec!["-n", &name, "link", "set", &far, "up"],
        vec!["-n", &name, "link", "set", "lo", "up"],
    ];
    // Dropped, it takes away what was made.
    made.iter().all(|arguments| ip(arguments)).then(|| {
        let address = address(1);
        let port = lay(address, to, &Arc::new(AtomicBool::new(true)));
        (Wire::Namespace(namespace), format!("{address}:{port}"))
    })
}

pub(super) struct Namespace {
    name: String,
    /// Our end of its wire.
    near: String,
}

impl Namespace {
    fn connect(&self, whole: bool) {
        assert!(ip(&["link", "set", &self.near, if whole { "up" } else { "down" }]), "ip link set {}", self.near);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The wire goes with it.
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|ran| ran.status.success())
}

/// A wire from a free port at `address` to a port of this machine; where it begins.
fn lay(address: Ipv4Addr, to: u16, open: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let open = Arc::clone(open);
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let Ok(near) = near else { return };
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            for (from, into) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
                let (Ok(from), Ok(into)) = (from, into) else { continue };
                let open = Arc::clone(&open);
                std::thread::spawn(move || pass(from, into, &open));
            }
        }
    });
    port
}

fn pass(mut from: TcpStream, mut into: TcpStream, open: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while !open.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if into.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
