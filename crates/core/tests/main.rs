//! Tests of jobs: the contract's table of states, the reports of workers, and every order in which commands and reports
//! can happen.

#![expect(clippy::panic, reason = "tests")]

mod job {
    mod given;
    mod model;
    mod states;
    mod work;
}
