//! The program: reads the command line and hands over to [`cli`].

mod app;
mod cli;
mod client;
mod config;
mod lifecycle;
mod server;
mod system;
mod telemetry;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
