//! Where agents run. So far one back end, [`NoSandbox`], which contains nothing and is named so.

mod none;

pub use none::NoSandbox;
