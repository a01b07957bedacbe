//! The program: reads the command line and hands over to [`cli`].

mod app;
mod backup;
mod cli;
mod client;
mod config;
mod connections;
mod lifecycle;
mod scope;
mod server;
mod system;
mod telemetry;

use std::process::ExitCode;

/// Faster than the system's for many small pieces on many threads (docs/decisions/0014).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
