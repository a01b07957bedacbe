//! Connections to the database that a storm can cut. If the user may create network namespaces, each worker runs in
//! one, and packets are lost as on a real network. Otherwise a proxy holds the bytes back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// The connection of a machine to the database.
pub(super) enum Wire {
    /// A proxy that holds bytes back while the flag is false.
    Held(Arc<AtomicBool>),
    Namespace(Namespace),
}

impl Wire {
    /// Connects the machine to the database, or cuts the connection.
    pub(super) fn connect(&self, is_connected: bool) {
        match self {
            Self::Held(open) => open.store(is_connected, Ordering::SeqCst),
            Self::Namespace(namespace) => namespace.connect(is_connected),
        }
    }

    /// Returns the command that starts a program in the namespace; `None` if there is no namespace.
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

/// Starts a proxy to a port of this machine that can hold bytes back; returns it with its address.
pub(super) fn held(to: u16) -> (Wire, String) {
    let open = Arc::new(AtomicBool::new(true));
    let port = start_proxy(Ipv4Addr::LOCALHOST, to, &open);
    (Wire::Held(open), format!("127.0.0.1:{port}"))
}

/// Creates a namespace with a proxy to a port of this machine; returns it with the proxy's address, or `None` if the
/// user may not create namespaces.
pub(super) fn namespace(to: u16) -> Option<(Wire, String)> {
    static COUNT: AtomicU8 = AtomicU8::new(0);
    let number = COUNT.fetch_add(1, Ordering::SeqCst);
    let name = format!("jm{}-{number}", std::process::id());
    let (near, far) = (format!("jn{}", &name[2..]), format!("jf{}", &name[2..]));
    if !ip(&["netns", "add", &name]) {
        return None;
    }
    let namespace = Namespace { name: name.clone(), near: near.clone() };
    // Addresses in the block for network tests (RFC 2544); each process uses a different part of it.
    let [_, _, middle, low] = std::process::id().to_be_bytes();
    let address = |host: u8| Ipv4Addr::new(198, 18 + middle % 2, low, number % 64 * 4 + host);
    let [ours, theirs] = [1, 2].map(|host| format!("{}/30", address(host)));
    let commands = [
        vec!["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name],
        vec!["addr", "add", &ours, "dev", &near],
        vec!["link", "set", &near, "up"],
        vec!["-n", &name, "addr", "add", &theirs, "dev", &far],
        vec!["-n", &name, "link", "set", &far, "up"],
        vec!["-n", &name, "link", "set", "lo", "up"],
    ];
    // If a command fails, dropping `namespace` removes what the others have created.
    commands.iter().all(|arguments| ip(arguments)).then(|| {
        let address = address(1);
        let port = start_proxy(address, to, &Arc::new(AtomicBool::new(true)));
        (Wire::Namespace(namespace), format!("{address}:{port}"))
    })
}

pub(super) struct Namespace {
    name: String,
    /// The name of the interface at the host's end of the veth pair (veth(4)).
    near: String,
}

impl Namespace {
    fn connect(&self, is_up: bool) {
        assert!(ip(&["link", "set", &self.near, if is_up { "up" } else { "down" }]), "ip link set {}", self.near);
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // This also deletes the veth pair.
        ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).output().is_ok_and(|ran| ran.status.success())
}

/// Starts a proxy from a free port at `address` to a port of this machine; returns the free port.
fn start_proxy(address: Ipv4Addr, to: u16, open: &Arc<AtomicBool>) -> u16 {
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
                std::thread::spawn(move || forward(from, into, &open));
            }
        }
    });
    port
}

fn forward(mut from: TcpStream, mut into: TcpStream, open: &AtomicBool) {
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
