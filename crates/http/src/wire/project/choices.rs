//! The enums of a project's fields, each of which mirrors an enum of the core.

use journeyman_core::{model, project};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Defines an enum, and its conversions from and to the enum of the core. A variant that one of them lacks is a compile
/// error.
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
    model::Effort;
    /// The effort with which a model reasons about its answers. Not every model knows every value.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Effort {
        /// No reasoning.
        None,
        /// The least reasoning.
        Minimal,
        /// Little reasoning.
        Low,
        /// The middle value.
        Medium,
        /// Much reasoning.
        High,
        /// More than `high`.
        XHigh,
        /// The most reasoning that the model can do.
        Max,
    }
}

mirror! {
    project::CodeHostKind;
    /// The kind of code host of a repository.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CodeHostKind {
        /// The built-in code host.
        Local,
        /// A git remote without pull requests.
        Plain,
        /// GitHub.
        Github,
        /// GitLab.
        Gitlab,
        /// Gitea.
        Gitea,
        /// Forgejo.
        Forgejo,
        /// Bitbucket Cloud.
        Bitbucket,
        /// Bitbucket Data Center.
        BitbucketDataCenter,
    }
}

mirror! {
    project::CiFiles;
    /// The policy for commits that change files of CI pipelines.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CiFiles {
        /// The commits are not pushed, and the message fails.
        #[default]
        Refuse,
        /// The commits are pushed.
        Allow,
    }
}

mirror! {
    project::KeepUpToDate;
    /// The reaction to new commits of the branch that an open pull request is merged into.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum KeepUpToDate {
        /// There is none.
        #[default]
        Off,
        /// If the pull request conflicts with them, they become a message to the job.
        Conflicts,
        /// They always become a message to the job.
        Always,
    }
}

mirror! {
    project::Submodules;
    /// The treatment of submodules.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Submodules {
        /// The folders of submodules are empty.
        Off,
        /// Submodules are filled, and agents can read them.
        #[default]
        Read,
    }
}

mirror! {
    project::Lfs;
    /// The treatment of files in Git LFS.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Lfs {
        /// The files have their pointers as content.
        Off,
        /// The content of the files is fetched.
        #[default]
        Fetch,
    }
}

mirror! {
    project::Reviews;
    /// The reviews that become messages: submitted reviews, and comments on lines on code hosts that report no submitted
    /// reviews (GitLab and Bitbucket).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Reviews {
        /// All reviews that have a text or comments.
        #[default]
        All,
        /// Reviews that mention the service.
        Mentioned,
        /// None. Comments in the conversation still become messages.
        Off,
    }
}

mirror! {
    project::ReviewRequests;
    /// The people who may ask for a review of a pull request.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ReviewRequests {
        /// People who may push to the repository.
        #[default]
        Write,
        /// People who may read the repository. For a public one, this is everyone.
        Read,
        /// No one: a mention that asks for a review is an ordinary task.
        Off,
    }
}

mirror! {
    project::Resolve;
    /// The threads of comments that the service marks as resolved.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Resolve {
        /// None.
        #[default]
        Never,
        /// Those in which the service has replied, if commits answer the comments.
        Answered,
    }
}

mirror! {
    project::Answers;
    /// What people are told at the code host whose comments led to nothing.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Answers {
        /// The service reacts to the comment, and writes the reason once for each person, conversation and kind of reason.
        /// It also shows the progress of the messages that comments led to.
        #[default]
        Full,
        /// The service only reacts to the comment, and writes nothing before a message has ended.
        Quiet,
    }
}

mirror! {
    project::CheckMode;
    /// The reaction to failed checks.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum CheckMode {
        /// Checks are not read.
        Off,
        /// The result is shown.
        #[default]
        Report,
        /// Failed checks become a message to the job.
        Fix,
    }
}

mirror! {
    project::PermissionPolicy;
    /// The answer to permission requests of an agent.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Permissions {
        /// Each request is allowed once.
        #[default]
        Allow,
        /// Each request is refused.
        Refuse,
    }
}

mirror! {
    project::SecretUse;
    /// A process that may get secrets.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SecretUse {
        /// The setup command.
        Setup,
        /// The agent, and therefore every program that its model runs.
        Agent,
        /// Calls of models, outside the sandbox. The secret is the key of a provider, and has the name of its variable.
        Model,
    }
}

mirror! {
    project::ToolKind;
    /// The kind of a tool call, as reported by the agent.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ToolKind {
        /// Reads files or data.
        Read,
        /// Changes files.
        Edit,
        /// Removes files or data.
        Delete,
        /// Moves or renames files.
        Move,
        /// Searches for information.
        Search,
        /// Runs commands.
        Execute,
        /// Reasons or plans.
        Think,
        /// Fetches data from elsewhere.
        Fetch,
        /// Switches the session to another mode.
        SwitchMode,
        /// Any other kind, or a tool call for which the agent reports no kind.
        Other,
    }
}

mirror! {
    project::PullPolicy;
    /// The policy for pulling an image.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Pull {
        /// Pulls the image if it is not present.
        #[default]
        Missing,
        /// Pulls the image at the first use, and again if the last pull was more than ten minutes ago.
        Always,
        /// Never pulls the image; an operator must pull it.
        Never,
    }
}
