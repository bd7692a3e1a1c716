//! Inputs and outputs of a client.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{EphemeralKey, PublicKey, Secret, Time, Wiping, snapshot};

use crate::client::contacts::PartnerId;
use crate::client::job::{ClientJob, ClientJobOutput};
use crate::client::{ScheduledFrame, SettingsError};
use crate::config::ChainError;
use crate::contact::{Intent, Role};
use crate::privacy::ledger::BudgetState;
use crate::wire::Frame;
use crate::wire::invitation::{BODY_BYTES, Invitation};
use crate::{RoundId, Service};

/// Events that a client handles.
#[derive(Debug)]
pub enum Input {
    /// The entry answers, and the hello was sent. `trusted`: its key is that of the config. If not,
    /// configs are fetched and nothing else is said.
    Up {
        /// True if the key was checked.
        trusted: bool,
    },
    /// The connection is gone, or could not be made.
    Down,
    /// A frame of the entry.
    Frame {
        /// The frame.
        frame: Frame,
        /// How long ago it was read from the line, milliseconds: what follows from it keeps its time,
        /// however busy the program was (MIX-74).
        age_ms: u64,
    },
    /// A fresh pair that was asked for by [`Output::Want`].
    Give(EphemeralKey),
    /// A job ended.
    Done(ClientJob, ClientJobOutput),
    /// A job of this round will never end.
    Lost(RoundId),
    /// Everything up to this number is durable: records and messages, by whoever got them.
    Stored(u64),
    /// A contact, or a new root of one.
    Add(NewRoot),
    /// A contact is forgotten, with all that waits for it.
    Remove(PartnerId),
    /// A contact is served for ten minutes, or for as long as there is something to say.
    Activate(PartnerId),
    /// A contact is served no longer; its next cells tell it.
    Leave(PartnerId),
    /// True if a contact is served only while we have something to say: what it says, and its calls,
    /// cost rounds no longer. Not stored.
    Mute(PartnerId, bool),
    /// True if a contact is not served at all: no round, no call in either direction. It is told
    /// nothing. Not stored.
    Suspend(PartnerId, bool),
    /// This message for a contact, or this invitation, is taken back: what is not cut goes nowhere,
    /// what was begun goes on as zeros, which the partner throws away.
    Retract {
        /// For whom.
        contact: PartnerId,
        /// The message as it was given, or the body of the invitation.
        bytes: Wiping<Vec<u8>>,
    },
    /// A message of 1 to 8,998 bytes. One that is on its way already, since before a start or
    /// `Down`, goes on under its new ticket.
    Send {
        /// The name of the message in outputs.
        ticket: u64,
        /// For whom.
        contact: PartnerId,
        /// The message.
        bytes: Wiping<Vec<u8>>,
    },
    /// Ring a contact in the next call round.
    Call(PartnerId, Intent),
    /// Invite somebody in the next invitation round.
    Invite(Invite),
    /// True if contacts are served beyond the budget.
    AllowMore(bool),
}

/// A contact, or a new root of one.
#[derive(Debug)]
pub struct NewRoot {
    /// Which contact.
    pub contact: PartnerId,
    /// The root, which is used up.
    pub root: Secret<32>,
    /// The side that began the session.
    pub role: Role,
    /// The conversation round and the call round in which the chains begin.
    pub start: (u64, u64),
    /// Where the contact looks for calls.
    pub bucket: u32,
}

/// Somebody is invited. `Debug` does not say who.
pub struct Invite {
    /// Its name in outputs.
    pub ticket: u64,
    /// The dialling key of whoever is invited.
    pub to: PublicKey,
    /// For the messenger there.
    pub body: Wiping<[u8; BODY_BYTES]>,
}

snapshot!(struct Invite { ticket, to, body });

impl fmt::Debug for Invite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invite({})", self.ticket)
    }
}

/// Effects that a client requests.
#[derive(Debug)]
pub enum Output {
    /// Connect to the entry at this time, send the hello as soon as the connection is up, then say `Up`
    /// or `Down`.
    Dial {
        /// When to connect.
        at: Time,
        /// The first frame.
        hello: Frame,
        /// `None`: to the entry of the config in force, whose key it must have. Else configs alone are
        /// asked for, of whoever answers: the number counts such tries, and chooses among the addresses
        /// that are known (MIX-77).
        search: Option<u32>,
    },
    /// Hang up, then say `Down`: on a connection that nobody checked the configs are up to date, or
    /// the entry says nothing.
    Close,
    /// Rounds are taken part in from now on: all messages and invitations that were not handed are
    /// sent again, in their order.
    Joined,
    /// A frame for the [`FrameSchedule`](crate::client::FrameSchedule) of the line.
    Frame(ScheduledFrame),
    /// Give so many fresh pairs.
    Want(usize),
    /// Run a job and hand it back with its result.
    Job(ClientJob),
    /// Make a row durable and delete all rows below `first`, in one transaction; then say `Stored`.
    /// No frame behind it may leave before.
    Store {
        /// The number of the row, above all before.
        seq: u64,
        /// The first row that is needed from now on.
        first: u64,
        /// The row to store; secret.
        record: Wiping<Vec<u8>>,
    },
    /// A message came. Once it is durable, say `Stored`.
    Received {
        /// For `Stored`.
        seq: u64,
        /// From whom.
        contact: PartnerId,
        /// Ascends for each contact: a message whose number is not above the last one's came twice.
        number: u64,
        /// The message.
        bytes: Wiping<Vec<u8>>,
    },
    /// Every piece of a message was in a round in which the contact was there, or an invitation was
    /// in a round.
    Handed(u64),
    /// The contact's device has the whole message on disk.
    Acked(u64),
    /// A message, call or invitation is not taken.
    Refused(u64, RefusedReason),
    /// A contact rings; it is served from now on.
    Called(PartnerId, Intent),
    /// Somebody new invites; who it is, its body tells.
    Invited(Invitation),
    /// So many rounds in a row the contact was not where it was waited for.
    Absent(PartnerId, u32),
    /// A contact was there in a round.
    Met(PartnerId),
    /// A contact acknowledges what this client never sent, or no longer what it has acknowledged: another life
    /// of one of the two, whose state is newer, went on in their stream (MSG-131).
    Torn(PartnerId),
    /// A contact sent what nobody sends. Nothing more comes from it until it has a new root.
    Broken(PartnerId),
    /// The level of protection as the messenger counts it, 4 or 1.
    Level(u8),
    /// How much of a service's budget is used.
    Budget(Service, BudgetState),
    /// Noise of a mix did not come back.
    Alarm {
        /// In which round.
        id: RoundId,
        /// At which mix.
        position: u8,
    },
    /// This client does not take part in a round, because of its settings.
    Unfit(RoundId, SettingsError),
    /// Conversation rounds come back or not: true with the first one after WELCOME or after a pause,
    /// false when none came back for three intervals. Then messages and invitations that were not handed
    /// are to be sent again after the next `Returning(true)`.
    Returning(bool),
    /// A newer config is known: [`Client::chain`](super::Client::chain).
    Config,
}

snapshot!(enum Output [
    Dial { at, hello, search }, Close, Joined, Frame(a), Want(a), Job(a), Store { seq, first, record },
    Received { seq, contact, number, bytes }, Handed(a), Acked(a), Refused(a, b), Called(a, b),
    Invited(a), Absent(a, b), Met(a), Torn(a), Broken(a), Level(a), Budget(a, b), Alarm { id, position },
    Unfit(a, b), Returning(a), Config,
]);

/// Why a message, call or invitation is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// 1: too much waits already.
    Full,
    /// 2: longer than 8,998 bytes, or empty.
    TooBig,
    /// 3: no such contact.
    NoRoot,
    /// 4: the budget is used up.
    Budget,
    /// 5: there is no connection.
    Down,
    /// 6: the contact rests, and the budget of calls is used up.
    CallBudget,
    /// 7: zeros alone, which stand for a message that was taken back.
    Blank,
}

snapshot!(enum RefusedReason [Full, TooBig, NoRoot, Budget, Down, CallBudget, Blank]);

impl RefusedReason {
    /// The number of the specification.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// Why an input was refused. The client is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not for us: no such round is under way, or it is over.
    #[error("no such round is under way")]
    UnknownRound,
    /// The caller: nobody asked for this answer.
    #[error("nobody asked for this answer")]
    Unasked,
    /// The entry does not send such frames, or not now.
    #[error("the frame does not belong here")]
    Unexpected,
    /// The frame does not hold what it must.
    #[error("the frame does not hold what it must")]
    Malformed,
    /// A signature is wrong.
    #[error("a signature is wrong")]
    Signature,
    /// There is no such contact.
    #[error("no such contact")]
    NoContact,
    /// The chains of a contact would begin too far away, or no config is in force.
    #[error("the root begins in a round that is too far away")]
    OutOfReach,
    /// There are as many contacts as one client may have.
    #[error("no more contacts fit")]
    Full,
    /// The config is refused.
    #[error(transparent)]
    Config(#[from] ChainError),
}
