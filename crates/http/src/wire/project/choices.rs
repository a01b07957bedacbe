//! Choices that a field of a project offers: each the mirror of one of the core's.

use journeyman_core::project;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An enum and its way to and from that of the core, variant by variant: a variant that one of them lacks does not compile.
macro_rules! mirror {
    (
        $core:path;
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$of:meta])* $variant:ident,)* }
    ) => {
        $(#[$meta])*
        pub enum $name { $($(#[$of])* $variant,)* }

        impl From<$core> for $name {
            fn from(value: $core) -> Self {
                use $core as Core;
                match value { $(Core::$variant => Self::$variant,)* }
            }
        }

        impl From<$name> for $core {
            fn from(value: $name) -> Self {
                match value { $($name::$variant => Self::$variant,)* }
            }
        }
    };
}

mirror! {
    project::CodeHostKind;
    /// Which code host a repository lives on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CodeHostKind {
        /// The built-in one.
        Local,
        /// A git remote without pull requests.
        Plain,
    }
}

mirror! {
    project::PermissionPolicy;
    /// How permission requests of an agent are answered.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Permissions {
        /// Each is allowed, once.
        #[default]
        Allow,
        /// Each is refused.
        Refuse,
    }
}

mirror! {
    project::SecretUse;
    /// A process that secrets may be for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SecretUse {
        /// The setup command.
        Setup,
        /// The agent, and so whatever its model makes it run.
        Agent,
        /// Calls of models, outside of the sandbox: the key of a provider, under the name of its variable.
        Model,
    }
}

mirror! {
    project::ToolKind;
    /// What an agent wants to do, as it says itself.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ToolKind {
        /// Read files or data.
        Read,
        /// Change files.
        Edit,
        /// Remove files or data.
        Delete,
        /// Move or rename files.
        Move,
        /// Search.
        Search,
        /// Run commands.
        Execute,
        /// Think.
        Think,
        /// Get something from elsewhere.
        Fetch,
        /// Work in another mode.
        SwitchMode,
        /// Anything else, and what it gives no kind for.
        Other,
    }
}

mirror! {
    project::PullPolicy;
    /// When an image is fetched.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Pull {
        /// When it is not there.
        #[default]
        Missing,
        /// At the first use, and again after ten minutes.
        Always,
        /// By hand.
        Never,
    }
}
