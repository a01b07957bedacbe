//! The traits that the outside implements. Nothing here needs an async runtime: streams of processes are file
//! descriptors, bodies are [`futures_core::Stream`]s.

mod blobs;
mod code_host;
mod connection;
mod gateway;
mod identity;
mod sandbox;
mod store;

pub use blobs::{Blob, BlobError, Blobs};
pub use code_host::{
    CommitLine, Credential, DiffError, Diffs, Forge, ForgeError, Forges, GitBody, GitHttpRequest, GitHttpResponse,
    GitServer, GitServerError, PullDetail, PullPages, PullPagesError, Remote,
};
pub use connection::{ClientConnection, ConnectionMeter, ConnectionTotals};
pub use gateway::{
    EgressDecision, EgressLog, Gate, Gateway, ModelAccount, ModelCall, ModelFailure, ModelLog, ModelMeter, ModelProxy,
    ModelRoute, ModelTotals, ModelUse, ProviderTotals,
};
pub use identity::{BegunSignIn, NotProven, Passwords, PasswordsFailed, ProvenPerson, ReturnedSignIn, SignInProvider};
pub use sandbox::{
    Containing, Containment, Exhausted, Exit, FreeSpace, Guarantee, Image, Layout, Process, Resources, Sandbox,
    SandboxError, Spawn, Spawned,
};
pub use store::{
    AVOIDANCE, Accepted, AdminStore, Administered, AuditEntry, AuditLine, ClaimFn, ClaimQuery, Cursor, Decide,
    DecideAdmin, Guard, HoldStore, JobFilter, JobStore, JobWatch, KeyStore, PATIENCE, PROBE_TIME, Picked, ProjectStore,
    PullStore, RateCharge, Retention, SessionsToEnd, Spend, SpendError, SpendingStore, Store, StoreError, Swept,
    UpdateError, UserStore,
};
