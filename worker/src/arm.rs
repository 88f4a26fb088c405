//! The edge to Azure Resource Manager: calls, credentials, errors, long-running operations.
//!
//! Modules build on one another in this order: `scale`, `rate`, `call`, `error`, `cloud`, `token`, `identity`, `client`,
//! `credentials`; `operation` needs `scale`, `call` and `error` alone.

mod call;
pub mod client;
mod cloud;
pub mod credentials;
pub mod error;
pub mod identity;
pub mod operation;
mod rate;
mod scale;
mod token;

pub use call::{Answer, Call, Target, Verb};
pub use client::Client;
pub use error::{Category, Error, Retry, Severity};
pub use identity::Identity;
pub use scale::TimeScale;
