//! How an object stands for those that depend on it.

/// An object that others depend on, as its record or the API server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Its UID.
    pub uid: String,
    /// Ready=True.
    pub ready: bool,
    /// Azure has had it.
    pub created: bool,
    /// Its ARM id.
    pub arm_id: Option<String>,
}
