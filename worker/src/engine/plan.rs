//! The next step for an object, in words.

use std::fmt;

use jiff::Timestamp;

use super::condition::Ready;
use super::object::Id;
use super::queue::Class;
use super::trouble::Trouble;

/// The next step. Each prints itself with its reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Somebody else's object: touch nothing.
    Ignore {
        /// The installation that owns it.
        owner: String,
    },
    /// Find out what the object needs: credential, owner, references, the body to send.
    Resolve,
    /// Write finalizer, ARM id, owner and intent to the object, in one patch.
    Claim {
        /// Why.
        why: &'static str,
    },
    /// Read the resource from Azure.
    Read {
        /// Why.
        why: &'static str,
    },
    /// Send the body.
    Put {
        /// Why.
        why: &'static str,
    },
    /// Ask how far the operation is.
    Poll,
    /// Write the status and Ready=True.
    Finish,
    /// Remove the ended operation's handle from the object.
    DropOperation,
    /// Delete the resource.
    Delete {
        /// Why.
        why: &'static str,
    },
    /// Release the object.
    RemoveFinalizer {
        /// Why.
        why: &'static str,
    },
    /// Say what is wrong, then wait as its retry rule says.
    Refuse(Trouble),
    /// Say what is waited for, and end the reconcile.
    Wait {
        /// What the condition says, if there is something to say; it is written only if that is news.
        ready: Option<Ready>,
        /// Reconciled again then.
        until: Timestamp,
        /// In this class.
        class: Class,
        /// Earlier if one of these changes.
        waits_for: Vec<Id>,
    },
    /// All is as it should be; end the reconcile.
    Nothing,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Ignore { owner } => write!(f, "ignore (owned by the installation in {owner})"),
            Plan::Resolve => f.write_str("resolve"),
            Plan::Claim { why } => write!(f, "claim ({why})"),
            Plan::Read { why } => write!(f, "read ({why})"),
            Plan::Put { why } => write!(f, "put ({why})"),
            Plan::Poll => f.write_str("poll"),
            Plan::Finish => f.write_str("finish"),
            Plan::DropOperation => f.write_str("drop-operation"),
            Plan::Delete { why } => write!(f, "delete ({why})"),
            Plan::RemoveFinalizer { why } => write!(f, "remove-finalizer ({why})"),
            Plan::Refuse(trouble) => write!(f, "refuse ({})", trouble.ready),
            Plan::Wait { ready, until, class, waits_for } => {
                f.write_str("wait (")?;
                if let Some(ready) = ready {
                    write!(f, "{ready}; ")?;
                }
                write!(f, "until {until}, {class}")?;
                for (index, id) in waits_for.iter().enumerate() {
                    write!(f, "{}{id}", if index == 0 { "; for " } else { ", " })?;
                }
                f.write_str(")")
            }
            Plan::Nothing => f.write_str("nothing"),
        }
    }
}

impl Plan {
    /// Its word, as a metric label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Plan::Ignore { .. } => "ignore",
            Plan::Resolve => "resolve",
            Plan::Claim { .. } => "claim",
            Plan::Read { .. } => "read",
            Plan::Put { .. } => "put",
            Plan::Poll => "poll",
            Plan::Finish => "finish",
            Plan::DropOperation => "drop_operation",
            Plan::Delete { .. } => "delete",
            Plan::RemoveFinalizer { .. } => "remove_finalizer",
            Plan::Refuse(_) => "refuse",
            Plan::Wait { .. } => "wait",
            Plan::Nothing => "nothing",
        }
    }
}
