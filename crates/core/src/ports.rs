//! The ports: traits that other crates implement. They need no async runtime: the streams of processes are file
//! descriptors, and bodies are [`futures_core::Stream`]s.

mod agents;
mod base_comparison;
mod blobs;
mod code_host;
mod connection;
mod duties;
mod effects;
mod forge;
mod gateway;
mod hooks;
mod host_admin;
mod identity;
mod lfs;
mod sandbox;
mod seal;
mod slack;
mod store;
mod webhooks;

pub use agents::InstalledAgents;
pub use base_comparison::{BaseComparisons, Effort, NotCompared, OpenedRepository};
pub use blobs::{Blob, BlobContent, BlobError, Blobs};
pub use code_host::{
    CommitLine, DiffError, Diffs, GitBody, GitHttpRequest, GitHttpResponse, GitServer, GitServerError, MAX_BRANCHES,
    PullDetail, PullMerge, PullPages, PullPagesError, beginning,
};
pub use connection::{ClientConnection, ConnectionMeter, ConnectionTotals};
pub use duties::{CredentialTotals, DutyMeter, DutyTotals, PollTotals};
pub use effects::{EffectError, EffectHandler};
pub use forge::{
    Changes, Checks, CommentFile, CreatedPull, Credential, Discussion, Forge, ForgeError, Forges, ImportFailed, Reach,
    ReachedServers, Remote,
};
pub use gateway::{
    EgressDecision, EgressLog, Gate, Gateway, ModelAccount, ModelCall, ModelFailure, ModelLog, ModelMeter, ModelProxy,
    ModelRoute, ModelTotals, ModelUse, ProviderTotals,
};
pub use hooks::{HookRefusal, Hooks, RawHook, VerifiedHook};
pub use host_admin::{DescribedHost, HostAdmin};
pub use identity::{
    BegunSignIn, NotProven, Passwords, PasswordsFailed, ProvenPerson, ReturnedSignIn, SignInProvider, TokenRefusal,
    TokenVerifier,
};
pub use lfs::{HostedObjects, ImportedObjects, LfsError, LfsFailure, LfsObjects, LfsServer, LfsUpload};
pub use sandbox::{Containing, Exhausted, Exit, Image, Layout, Process, Sandbox, SandboxError, Spawn, Spawned};
pub use seal::{Seal, SealFailed};
pub use slack::{
    SignedRequest, Slack, SlackDelivery, SlackEnvelope, SlackError, SlackIdentity, SlackMessage, SlackSocket,
};
pub use store::{
    AVOIDANCE, Accepted, AdminError, AdminStore, Administered, Answer, CheckStore, ClaimFn, ClaimQuery, CodeHostStore,
    ComparisonStore, Cursor, Decide, Decided, DeliveryBacklog, DeliveryFilter, DutyStore, FeedStore, GONE, Guard,
    HoldStore, ImportStore, InboxFilter, InboxStore, JobCounts, JobExtras, JobFilter, JobLists, JobOverview, JobStore,
    JobWatch, KeyStore, LockStore, MessageFilter, NewReservation, OutboxStore, PATIENCE, PROBE_TIME, Picked, PollStore,
    PoolState, ProjectJobs, ProjectStore, PullCounts, PullCursor, PullFilter, PullIndex, PullStore, RECENT_EVENTS,
    RateCharge, Resealed, Reservation, ReserveError, ResourceStore, Retention, SealedCensus, SealedCounts, SealedKind,
    SealedPage, SealedRow, SealedStore, SlackEventFilter, SlackStore, SpendingStore, StatusCounts, Store, StoreError,
    Sums, Swept, TaskQuery, UNREADABLE_ROWS, UpdateError, UsageStore, UserStore, WebhookStore, WorkStore, WorkerStore,
};
pub use webhooks::WebhookSender;
