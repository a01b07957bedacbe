//! The ports: traits that other crates implement. They need no async runtime: the streams of processes are file
//! descriptors, and bodies are [`futures_core::Stream`]s.

mod blobs;
mod code_host;
mod connection;
mod duties;
mod effects;
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
pub use duties::{DutyMeter, DutyTotals};
pub use effects::{EffectError, EffectHandler};
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
    DecideAdmin, DutyStore, Guard, HoldStore, JobCounts, JobFilter, JobStore, JobWatch, KeyStore, OutboxStore,
    PATIENCE, PROBE_TIME, Picked, PoolState, ProjectStore, PullStore, RateCharge, Retention, SessionsToEnd, Spend,
    SpendError, SpendingStore, Store, StoreError, Swept, UpdateError, UserStore,
};
