//! Carries out runs. So far: the client side of the Agent Client Protocol.

pub mod acp;
