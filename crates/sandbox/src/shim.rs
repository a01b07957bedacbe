//! The first program in a sandbox: `journeyman sandbox-shim`.
//!
//! The shim is process 1 of its namespace. In this order, it:
//!
//! 1. reads from a socket what to start, so that neither its arguments nor its environment contain anything of the job;
//!    the socket is its standard input, or is at a path;
//! 2. opens the listeners on the sandbox's loopback and sends them to the service, which therefore needs no path into
//!    the sandbox;
//! 3. drops the rights that programs do not need;
//! 4. starts the program, and reaps orphans.
//!
//! When the shim exits, the kernel kills everything in the namespace.

mod confine;
mod syscalls;
mod wire;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, WaitOptions, wait};

use crate::inspect;
pub(crate) use wire::{Answer, Pass, Plan, handshake};

/// The exit code of a sandbox whose service has exited.
const SERVICE_EXITED: u8 = 1;

/// The stack size of the thread that waits for the service to exit.
const WATCHER_STACK_BYTES: usize = 64 << 10;

/// The argument that makes this program the shim.
pub(crate) const SUBCOMMAND: &str = "sandbox-shim";

/// Runs the shim, or the inspection of a probe, if the arguments ask for it. `arguments` are those of the process,
/// without the name of the program.
///
/// Call this before anything else: the process must have one thread, and no descriptors except the standard streams and
/// inherited ones.
pub fn run_if_asked(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let asked = arguments.next()?;
    if asked == inspect::SUBCOMMAND {
        return Some(inspect::run(arguments.next()?.to_str()?));
    }
    if asked != SUBCOMMAND {
        return None;
    }
    Some(match serve(arguments.next()) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: the sandbox could not be set up: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Runs the shim. The service is at the other end of the socket at a path, or of the standard input.
fn serve(socket: Option<OsString>) -> io::Result<u8> {
    // Descriptors of the service must not reach the program.
    // The system call is named, because glibc has a function for it only since version 2.34.
    // SAFETY: the call only marks descriptors; none is used or closed here.
    #[expect(unsafe_code, reason = "the call has no safe form")]
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_container = socket.is_some();
    let mut service = match socket {
        Some(path) => UnixStream::connect(path)?,
        None => UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?),
    };
    let plan: Plan = wire::read(&mut service)?;
    let listeners = listen(&plan.listen)?;
    let sockets: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    wire::hello(&service, &sockets)?;
    let Pass { streams, entries } = wire::wait_for_go(&service)?;
    for mut entry in entries {
        entry.write_all(b"0")?;
    }
    drop(listeners);
    let child = match start(&plan, streams) {
        Ok(child) => child,
        Err(error) => {
            let not_found = error.kind() == io::ErrorKind::NotFound;
            wire::write(&mut service, &Answer::Failed { not_found, detail: error.to_string() })?;
            return Ok(127);
        }
    };
    wire::write(&mut service, &Answer::Started)?;
    if !is_container {
        // bwrap kills the sandbox when the service exits (`--die-with-parent`).
        drop(service);
        return reap_until(child);
    }
    let watched = service.try_clone()?;
    std::thread::Builder::new().stack_size(WATCHER_STACK_BYTES).spawn(move || exit_with(watched))?;
    let code = reap_until(child)?;
    // The service may have exited.
    let _ = service.write_all(&[code]);
    Ok(code)
}

/// Exits when the service closes its end of the socket. The service sends nothing more on it.
fn exit_with(mut service: UnixStream) {
    let _ = service.read(&mut [0]);
    std::process::exit(SERVICE_EXITED.into());
}

fn listen(ports: &[u16]) -> io::Result<Vec<TcpListener>> {
    ports.iter().map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port))).collect()
}

fn start(plan: &Plan, [stdin, stdout, stderr]: [OwnedFd; 3]) -> io::Result<Pid> {
    confine::apply(plan).map_err(|error| io::Error::other(error.to_string()))?;
    let (program, arguments) = plan.argv.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&plan.environment).current_dir(&plan.directory);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    let child = command.spawn()?;
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("the program has no ID"))
}

/// Reaps processes until the program exits. Returns its exit code by the convention of shells: 128 + the signal's
/// number, if a signal killed it.
fn reap_until(child: Pid) -> io::Result<u8> {
    loop {
        let Some((pid, status)) = wait(WaitOptions::empty())? else { continue };
        if pid != child {
            continue;
        }
        let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?)).unwrap_or(1);
        return Ok(u8::try_from(code).unwrap_or(1));
    }
}
