//! The one thread that starts processes, and lasts as long as they may.
//!
//! A sandbox dies with the thread that started it, not only with the process (`PR_SET_PDEATHSIG`, prctl(2)); the threads
//! of a runtime come and go.

use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::oneshot;

/// A handle of the thread, which ends with the last one.
#[derive(Debug, Clone)]
pub(super) struct Launcher(Sender<Order>);

enum Order {
    Launch(Box<Command>, oneshot::Sender<io::Result<Child>>),
    /// Waits for one that was killed, so that nothing of it stays; what is given with it goes then.
    Reap(Box<Child>, Box<dyn Send>),
}

impl Launcher {
    pub(super) fn start() -> io::Result<Self> {
        let (orders, given) = channel();
        std::thread::Builder::new().name("launcher".to_owned()).spawn(move || work(&given))?;
        Ok(Self(orders))
    }

    pub(super) async fn launch(&self, command: Command) -> io::Result<Child> {
        let (answer, launched) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts sandboxes is gone");
        self.0.send(Order::Launch(Box::new(command), answer)).map_err(|_| gone())?;
        launched.await.map_err(|_| gone())?
    }

    pub(super) fn reap(&self, child: Child, with: Box<dyn Send>) {
        // Where the thread is gone the process is about to be.
        let _ = self.0.send(Order::Reap(Box::new(child), with));
    }
}

fn work(orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Launch(mut command, answer) => {
                // Nobody listens any more: the child is killed, and waited for, as any other.
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
