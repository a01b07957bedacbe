//! The messages of commits that the service makes. They are read in the history of the project, so a subject says what was
//! changed, and never repeats a prompt that the service wrote.
//!
//! | module | task |
//! |---|---|
//! | [`summary`] | finds a subject in the agent's answer |
//! | [`subject`] | chooses the subject, and fills the project's template |

pub mod kind;
pub mod subject;
pub mod summary;
mod verbs;
