//! Tests of the whole program with real git and real processes. `whole` runs workers in the test process, with a store
//! in memory; `program` runs the built program; `hostile` uses malicious agents and repositories; `storm` injects
//! faults into several machines.

#![expect(clippy::unwrap_used, clippy::panic, reason = "test helpers")]

mod binary;

mod hostile {
    mod agents;
    mod allocation;
    mod egress;
    mod escape;
    mod limits;
    mod models;
    mod packs;
    mod paused;
    mod quota;
    mod repository;
    mod setup;
}

mod inside;

pub(crate) mod program {
    mod a2a;
    mod agents;
    mod backup;
    mod branches;
    mod changes;
    mod client;
    mod code_host_commands;
    mod code_hosts;
    mod commands;
    mod conflicts;
    mod connections;
    mod container;
    mod containment;
    mod contexts;
    mod core_dumps;
    mod curl_examples;
    mod disk;
    mod epochs;
    pub(crate) mod fixtures;
    mod git_maintenance;
    mod homes;
    mod imports;
    mod key_encryption;
    mod left_out;
    mod leftovers;
    mod lfs;
    mod limits;
    mod machines;
    mod mcp;
    pub(crate) mod models;
    mod outage;
    mod person;
    mod power;
    mod prepared_homes;
    mod real;
    mod remote;
    mod replication;
    mod repository_changes;
    mod results;
    mod reviews;
    mod rust_client;
    mod secrets;
    mod service;
    mod slack;
    mod slack_commands;
    mod storage;
    mod submodules;
    mod templates;
    mod traces;
    mod trusts;
    mod turns;
    mod users;
    mod webhooks;
}

mod storm;

mod whole {
    mod crashing;
    mod fixtures;
    mod idle_agents;
    mod results;
    mod sandbox;
    mod storage;
    mod takeover;
}
