//! Why the node says no: a fault for people, with a word for programs.

use crate::api::{Exit, Fault};

/// A question that was refused.
#[derive(Debug)]
pub struct Refused {
    /// For people and for the exit code.
    pub fault: Fault,
    /// For programs: a word that does not change.
    pub word: &'static str,
}

impl Refused {
    /// A refusal with its own word.
    pub fn new(word: &'static str, fault: Fault) -> Self {
        Self { fault, word }
    }

    /// The vault is locked.
    pub fn locked() -> Self {
        let fault = Fault::new(
            Exit::Denied,
            "the vault is locked",
            "unlock it with `mezza unlock` or on the page",
        );
        Self::new("locked", fault)
    }

    /// There is no identity yet.
    pub fn empty() -> Self {
        let fault = Fault::new(
            Exit::NotFound,
            "there is no identity here yet",
            "make one with `mezza init` or on the page",
        );
        Self::new("empty", fault)
    }

    /// There is an identity already.
    pub fn exists() -> Self {
        let fault = Fault::new(
            Exit::CannotWrite,
            "there is an identity here already",
            "use it, or choose another folder with `--home DIR`",
        );
        Self::new("exists", fault)
    }

    /// The node is on its way out.
    pub fn stopping() -> Self {
        let fault = Fault::new(
            Exit::Unreachable,
            "the node is stopping",
            "start it again with `mezza node run`",
        );
        Self::new("stopping", fault)
    }

    /// No contact of that number.
    pub fn no_contact() -> Self {
        let fault =
            Fault::new(Exit::NotFound, "no such contact", "`mezza contacts` lists those you have");
        Self::new("no_contact", fault)
    }

    /// A mixnet was joined before.
    pub fn joined() -> Self {
        let fault = Fault::new(
            Exit::No,
            "this home is in a mixnet already",
            "`mezza mixnet status` shows it, `mezza mixnet leave` leaves it",
        );
        Self::new("joined", fault)
    }

    /// No mixnet was joined.
    pub fn no_mixnet() -> Self {
        let fault = Fault::new(
            Exit::NotFound,
            "this home is in no mixnet",
            "join one with `mezza mixnet join LINK`; its operator gives you the link",
        );
        Self::new("no_mixnet", fault)
    }

    /// No note of that number.
    pub fn no_note() -> Self {
        let fault = Fault::new(
            Exit::NotFound,
            "no such note",
            "`mezza outbox` lists the notes that wait, `mezza log NAME` a thread",
        );
        Self::new("no_note", fault)
    }

    /// Input that cannot be read.
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
