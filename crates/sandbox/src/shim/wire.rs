//! The protocol of the service and the shim. Its messages are, in order: the plan, the shim's listeners, the program's
//! streams with the entries of control groups, and the answer.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};
use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The maximum number of descriptors in one message.
const MAX_DESCRIPTORS: usize = 8;

/// The maximum size of a plan in bytes. Arguments and environment are far below it (execve(2): 128 KiB each, 2 MiB in
/// total).
const MAX_BYTES: usize = 16 << 20;

/// The program to start, with its environment and limits.
#[derive(Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// The working directory.
    pub(crate) directory: PathBuf,
    pub(crate) listen: Vec<u16>,
    pub(crate) processes: Option<u32>,
    pub(crate) file_bytes: Option<u64>,
    /// `true` if the program may allocate disk space without writing to it: the kernel limits what its user owns.
    pub(crate) may_allocate: bool,
    /// The folders that the program may write.
    pub(crate) writable: Vec<PathBuf>,
}

/// The shim's answer: the program was started, or why not.
#[derive(Serialize, Deserialize)]
pub(crate) enum Answer {
    Started,
    Failed { not_found: bool, detail: String },
}

pub(super) fn read<T: DeserializeOwned>(socket: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(io::Error::other("the message is too long"));
    }
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

pub(super) fn write(socket: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    socket.write_all(&length.to_be_bytes())?;
    socket.write_all(&text)
}

/// Sends the shim's first message, with its listeners.
pub(super) fn hello(socket: &UnixStream, listeners: &[BorrowedFd<'_>]) -> io::Result<()> {
    send(socket, b"h", listeners)
}

fn send(socket: &UnixStream, word: &[u8; 1], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    // Every signal interrupts a call on a socket that has a time limit (signal(7)).
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(word)], &mut control, SendFlags::empty()))?;
    Ok(())
}

/// The descriptors that the shim needs to start the program.
pub(crate) struct Pass {
    /// The program's standard input, output and error.
    pub(crate) streams: [OwnedFd; 3],
    /// The files through which control groups are entered.
    pub(crate) entries: Vec<File>,
}

/// Sends the service's message after the shim's first one, with the descriptors of `pass`.
fn go(socket: &UnixStream, pass: &Pass) -> io::Result<()> {
    let all: Vec<BorrowedFd<'_>> =
        pass.streams.iter().map(AsFd::as_fd).chain(pass.entries.iter().map(AsFd::as_fd)).collect();
    send(socket, b"g", &all)
}

pub(super) fn wait_for_go(socket: &UnixStream) -> io::Result<Pass> {
    let mut given = receive(socket)?.0.into_iter();
    let mut stream = || given.next().ok_or_else(|| io::Error::other("the service sent too few descriptors"));
    let streams = [stream()?, stream()?, stream()?];
    Ok(Pass { streams, entries: given.map(File::from).collect() })
}

/// Runs the service's side of the protocol: sends the plan, receives the listeners, passes the shim's process ID to
/// `on_shim`, sends the descriptors, and receives the answer.
pub(crate) fn handshake(
    socket: &mut UnixStream,
    plan: &Plan,
    pass: &Pass,
    on_shim: impl FnOnce(Pid) -> io::Result<()>,
) -> io::Result<(Vec<OwnedFd>, Answer)> {
    sockopt::set_socket_passcred(&*socket, true)?;
    write(socket, plan)?;
    let (listeners, shim) = receive(socket)?;
    on_shim(shim.ok_or_else(|| io::Error::other("the message of the shim has no process ID"))?)?;
    go(socket, pass)?;
    Ok((listeners, read(socket)?))
}

/// Receives a message. Returns its descriptors and, if the socket asks for credentials, the ID of the sending process.
/// The kernel provides this ID as the service sees it, so the sender cannot forge it (unix(7)).
fn receive(socket: &UnixStream) -> io::Result<(Vec<OwnedFd>, Option<Pid>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let mut words = [IoSliceMut::new(&mut word)];
    let received = retry_on_intr(|| recvmsg(socket, &mut words, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("the message has too many descriptors"));
    }
    let (mut descriptors, mut sender) = (Vec::new(), None);
    for message in control.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(given) => descriptors.extend(given),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials.pid),
            _ => {}
        }
    }
    Ok((descriptors, sender))
}
