//! Whole-program tests: real git, real processes. `whole` drives the parts over a store in memory, `program` the program
//! as people run it, `hostile` has agents and repositories that mean harm.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod binary;

mod hostile {
    mod agents;
    mod egress;
    mod escape;
    mod limits;
    mod models;
    mod paused;
    mod quota;
    mod repository;
    mod setup;
}

mod inside;

pub(crate) mod program {
    mod agents;
    mod backup;
    mod client;
    mod commands;
    mod connections;
    mod container;
    mod containment;
    mod disk;
    pub(crate) mod given;
    mod leftovers;
    mod machines;
    pub(crate) mod models;
    mod outage;
    mod power;
    mod real;
    mod replication;
    mod secrets;
    mod service;
    mod turns;
    mod users;
}

mod storm;

mod whole {
    mod arrows;
    mod dying;
    mod given;
    mod warm;
    mod way;
}
