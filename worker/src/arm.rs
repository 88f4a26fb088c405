//! The edge to Azure Resource Manager: calls, credentials, errors, long-running operations.

pub mod call;
pub mod client;
pub mod credentials;
pub mod error;
pub mod identity;
pub mod operation;
pub mod rate;
pub mod scale;
mod token;

pub use call::{Answer, Call, Target, Verb};
pub use client::Client;
pub use error::{Category, Error, Retry, Severity};
pub use identity::Identity;
pub use scale::TimeScale;
