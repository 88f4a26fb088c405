//! The edge to Azure Resource Manager: calls, credentials, errors, long-running operations.

pub mod call;
pub mod error;
pub mod operation;
pub mod rate;
pub mod scale;

pub use call::{Answer, Call, Target, Verb};
pub use error::{Category, Error, Retry, Severity};
pub use scale::TimeScale;
