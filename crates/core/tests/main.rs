//! Given a job, when something is asked of it, then this follows: every row of the contract's table of states, what
//! workers report, and every order in which all of it can happen.

#![expect(clippy::panic, reason = "tests")]

mod job {
    mod given;
    mod model;
    mod states;
    mod work;
}
