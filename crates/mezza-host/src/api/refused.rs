//! Refusals by the node: a fault for users, with a word for programs.

use crate::api::{Exit, Fault};

/// A refused request.
#[derive(Debug)]
pub struct Refused {
    /// The fault, for users and the exit code.
    pub fault: Fault,
    /// The word for programs; it does not change.
    pub word: &'static str,
}

impl Refused {
    /// Makes a refusal with its own word.
    pub fn new(word: &'static str, fault: Fault) -> Self {
        Self { fault, word }
    }

    /// Refuses because the vault is locked.
    pub fn locked() -> Self {
        let next = "unlock it with `mezza unlock` or on the page";
        Self::new("locked", Fault::new(Exit::Denied, "the vault is locked", next))
    }

    /// Refuses because there is no identity yet.
    pub fn empty() -> Self {
        let next = "make one with `mezza init` or on the page";
        Self::new("empty", Fault::new(Exit::NotFound, "there is no identity here yet", next))
    }

    /// Refuses because an identity exists already.
    pub fn exists() -> Self {
        let next = "use it, or choose another folder with `--home DIR`";
        Self::new(
            "exists",
            Fault::new(Exit::CannotWrite, "there is an identity here already", next),
        )
    }

    /// The identity is being moved to another device.
    pub fn moving() -> Self {
        let next = "finish with `mezza move out`, or give it up with `mezza move cancel`";
        Self::new("moving", Fault::new(Exit::Busy, "this identity is being moved away", next))
    }

    /// The identity has moved to another device (BACKUP-31).
    pub fn moved() -> Self {
        let text = "this identity has moved to another device, and this one is empty now";
        let next = "`mezza move out` shows its key again; `mezza purge` removes the rest";
        Self::new("moved", Fault::new(Exit::NotFound, text, next))
    }

    /// Refuses because the node is stopping.
    pub fn stopping() -> Self {
        let next = "start it again with `mezza node run`";
        Self::new("stopping", Fault::new(Exit::Unreachable, "the node is stopping", next))
    }

    /// Refuses because no contact has this number.
    pub fn no_contact() -> Self {
        let next = "`mezza contacts` lists those you have";
        Self::new("no_contact", Fault::new(Exit::NotFound, "no such contact", next))
    }

    /// Refuses because no note has this number.
    pub fn no_note() -> Self {
        let next = "`mezza outbox` lists the notes that wait, `mezza log NAME` a thread";
        Self::new("no_note", Fault::new(Exit::NotFound, "no such note", next))
    }

    /// Refuses malformed input.
    pub fn malformed(text: impl Into<String>, next: impl Into<String>) -> Self {
        Self::new("malformed", Fault::new(Exit::Malformed, text, next))
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        refused.fault
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        let word = match fault.code {
            Exit::Done => "done",
            Exit::No => "no",
            Exit::Usage => "usage",
            Exit::Malformed => "malformed",
            Exit::NotFound => "not_found",
            Exit::Unreachable => "unreachable",
            Exit::Bug => "bug",
            Exit::CannotWrite => "cannot_write",
            Exit::Busy => "busy",
            Exit::Denied => "denied",
            Exit::Config => "config",
        };
        Self { fault, word }
    }
}
