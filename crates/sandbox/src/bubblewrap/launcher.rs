//! The thread that starts all sandboxes, and lives as long as any of them may.
//!
//! A sandbox dies with the thread that started it, not only with the process (`PR_SET_PDEATHSIG`, prctl(2)), and the
//! threads of an async runtime come and go.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

/// A handle of the thread, which exits when the last handle is dropped.
#[derive(Debug, Clone)]
pub(super) struct Launcher(Sender<Order>);

enum Order {
    Launch(Box<Command>, oneshot::Sender<io::Result<Child>>),
    /// Reaps a killed process, and then drops the value that is given with it.
    Reap(Box<Child>, Box<dyn Send>),
}

impl Launcher {
    pub(super) fn start() -> io::Result<Self> {
        let (orders, given) = channel();
        std::thread::Builder::new().name("launcher".to_owned()).spawn(move || run(&given))?;
        Ok(Self(orders))
    }

    pub(super) async fn launch(&self, command: Command) -> io::Result<Child> {
        let (answer, launched) = oneshot::channel();
        let exited = || io::Error::other("the thread that starts sandboxes has exited; restart the service");
        self.0.send(Order::Launch(Box::new(command), answer)).map_err(|_| exited())?;
        launched.await.map_err(|_| exited())?
    }

    pub(super) fn reap(&self, child: Child, with: Box<dyn Send>) {
        // If the thread has exited, the kernel kills the process.
        let _ = self.0.send(Order::Reap(Box::new(child), with));
    }
}

fn run(orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Launch(mut command, answer) => {
                // The caller has stopped waiting.
                if let Err(Ok(mut child)) = answer.send(command.spawn()) {
                    let _ = child.kill();
                    let _ = child.wait();
                }
            }
            Order::Reap(mut child, with) => {
                let _ = child.wait();
                drop(with);
            }
        }
    }
}
