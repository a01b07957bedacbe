//! Tests of jobs: the contract's table of states, the reports of workers, and every order in which commands and reports
//! can happen; and of the load of polls.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod job {
    mod answered;
    mod checks;
    mod fixtures;
    mod model;
    mod pull_updates;
    mod pulls;
    mod states;
    mod work;
}

mod poll {
    mod load;
}
