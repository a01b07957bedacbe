//! What the service and the shim say to each other: the plan, the listeners, the word to go with the
//! doors of control groups, the answer.

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

/// Descriptors with one word at most.
const MOST_DESCRIPTORS: usize = 8;

/// A plan may have so many bytes: arguments and environment are far below (execve(2): 128 KiB each, 2 MiB in all).
const MOST_BYTES: usize = 16 << 20;

/// What to start.
#[derive(Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) argv: Vec<String>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Where to.
    pub(crate) directory: PathBuf,
    pub(crate) listen: Vec<u16>,
    pub(crate) processes: Option<u32>,
    pub(crate) file_bytes: Option<u64>,
    /// Folders that may be written.
    pub(crate) writable: Vec<PathBuf>,
}

/// Whether it was started.
#[derive(Serialize, Deserialize)]
pub(crate) enum Answer {
    Started,
    Failed { not_found: bool, detail: String },
}

pub(super) fn read<T: DeserializeOwned>(socket: &mut UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MOST_BYTES {
        return Err(io::Error::other("a message that is too long"));
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

/// The shim's first word, with its listeners.
pub(super) fn hello(socket: &UnixStream, listeners: &[BorrowedFd<'_>]) -> io::Result<()> {
    send(socket, b"h", listeners)
}

fn send(socket: &UnixStream, word: &[u8; 1], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors"));
    }
    // With a time limit a socket is interrupted by any signal (signal(7)).
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(word)], &mut control, SendFlags::empty()))?;
    Ok(())
}

/// What the service lets the shim go with.
pub(crate) struct Pass {
    /// The program's input, output and complaints.
    pub(crate) streams: [OwnedFd; 3],
    /// The files through which control groups are entered.
    pub(crate) doors: Vec<File>,
}

/// The service's first word after that.
fn go(socket: &UnixStream, pass: &Pass) -> io::Result<()> {
    let all: Vec<BorrowedFd<'_>> =
        pass.streams.iter().map(AsFd::as_fd).chain(pass.doors.iter().map(AsFd::as_fd)).collect();
    send(socket, b"g", &all)
}

pub(super) fn wait_for_go(socket: &UnixStream) -> io::Result<Pass> {
    let mut given = receive(socket)?.0.into_iter();
    let mut stream = || given.next().ok_or_else(|| io::Error::other("the service gave too few streams"));
    let streams = [stream()?, stream()?, stream()?];
    Ok(Pass { streams, doors: given.map(File::from).collect() })
}

/// The service's side: sends the plan, takes the listeners, tells `meet` the shim's process, and lets it go.
pub(crate) fn converse(
    socket: &mut UnixStream,
    plan: &Plan,
    pass: &Pass,
    meet: impl FnOnce(Pid) -> io::Result<()>,
) -> io::Result<(Vec<OwnedFd>, Answer)> {
    sockopt::set_socket_passcred(&*socket, true)?;
    write(socket, plan)?;
    let (listeners, shim) = receive(socket)?;
    meet(shim.ok_or_else(|| io::Error::other("the sandbox did not say who it is"))?)?;
    go(socket, pass)?;
    Ok((listeners, read(socket)?))
}

/// The descriptors that come with a word, and, if the socket is told to say, the process that sent it as we see it: the
/// kernel says who it is, not the sender (unix(7)).
fn receive(socket: &UnixStream) -> io::Result<(Vec<OwnedFd>, Option<Pid>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS), ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let mut words = [IoSliceMut::new(&mut word)];
    let received = retry_on_intr(|| recvmsg(socket, &mut words, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("more descriptors came than were asked for"));
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
