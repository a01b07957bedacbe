//! The entry point of the program. [`cli`] parses the command line and runs the command.

mod app;
mod backup;
mod cli;
mod config;
mod connections;
mod core_dumps;
mod duties;
mod folders;
mod lifecycle;
mod presence;
mod scope;
mod server;
mod startup;
mod system;
mod telemetry;

use std::process::ExitCode;

/// The global allocator. jemalloc is faster than the system's allocator for many small allocations on many threads
/// (docs/decisions/0014).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    cli::run()
}
