//! The key of the client, agents, models, the system, usage, and the audit log.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::call::Call;
use crate::client::Client;
use crate::models::{Agent, AuditEntry, Me, Provider, System, UsageQuery, UsageReport};
use crate::pager::Pager;

impl Client {
    /// Returns the API key of this client, and what it may do.
    pub fn me(&self) -> Call<Me> {
        self.get(&["v2", "me"])
    }

    /// Returns the agents that a project or a job can name, by ID.
    pub fn agents(&self) -> Call<Vec<Agent>> {
        #[derive(Deserialize)]
        struct List {
            agents: Vec<Agent>,
        }
        let call: Call<Value> = self.get(&["v2", "agents"]);
        call.read_with(|response| Ok(response.json::<List>()?.agents))
    }

    /// Returns the providers of models with their prices.
    pub fn models(&self) -> Call<Vec<Provider>> {
        #[derive(Deserialize)]
        struct List {
            providers: Vec<Provider>,
        }
        let call: Call<Value> = self.get(&["v2", "models"]);
        call.read_with(|response| Ok(response.json::<List>()?.providers))
    }

    /// Returns the version of the service, and the sandbox of the machine that answers.
    pub fn system(&self) -> Call<System> {
        self.get(&["v2", "system"])
    }
}

/// The reports on usage.
#[derive(Debug, Clone)]
pub struct UsageReports {
    pub(crate) client: Client,
}

impl UsageReports {
    /// Returns the tokens and the cost of the runs that ended in a period.
    pub fn report(&self, query: &UsageQuery) -> Call<UsageReport> {
        self.client.get(&["v2", "usage"]).pairs(query.pairs())
    }

    /// Returns the report as CSV.
    pub fn csv(&self, query: &UsageQuery) -> Call<Bytes> {
        self.client.call_bytes(&["v2", "usage"], "text/csv").query("format", "csv").pairs(query.pairs())
    }
}

/// The operations on the audit log.
#[derive(Debug, Clone)]
pub struct Audit {
    pub(crate) client: Client,
}

impl Audit {
    /// Lists the entries, newest first.
    pub fn list(&self) -> Pager<AuditEntry> {
        self.client.list(&["v2", "audit"], "entries")
    }

    /// Returns all entries as CSV, newest first.
    pub fn export(&self) -> Call<Bytes> {
        self.client.call_bytes(&["v2", "audit", "export"], "text/csv")
    }
}
