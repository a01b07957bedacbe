//! The choice between a language model and the test model.

use std::sync::Arc;

use crate::llm::Llm;
use crate::model::{Model, ModelError};
use crate::options::Options;
use crate::scripted::Scripted;
use crate::store::SessionFile;
use crate::turn::{Turn, TurnEnd, TurnError};

/// The implementation that answers prompts.
pub(crate) enum Brain {
    /// The test model.
    Scripted(Scripted),
    /// A language model.
    Llm(Box<Llm>),
}

impl Brain {
    /// Creates the brain for the model of the options.
    pub(crate) fn new(options: &Arc<Options>) -> Result<Self, ModelError> {
        Ok(match Model::parse(&options.model)? {
            Model::Scripted => Self::Scripted(Scripted::new(Arc::clone(options))),
            Model::Llm { dialect, name } => Self::Llm(Box::new(Llm::new(options, dialect, &name)?)),
        })
    }

    /// Answers one prompt. Saves `file` at every step; the caller holds its lock.
    pub(crate) async fn turn(
        &self,
        turn: &Turn<'_>,
        file: &mut SessionFile,
        prompt: &str,
    ) -> Result<TurnEnd, TurnError> {
        match self {
            Self::Scripted(scripted) => scripted.turn(turn, file, prompt).await,
            Self::Llm(llm) => llm.turn(turn, file, prompt).await,
        }
    }

    /// Makes a stored conversation usable for this brain, regardless of the model that it was held with before.
    pub(crate) fn adopt(&self, file: &mut SessionFile, model: &str) {
        match self {
            Self::Scripted(_) => crate::scripted::adopt(file),
            Self::Llm(_) => crate::llm::adopt(file, model),
        }
        file.model = model.to_owned();
    }
}
