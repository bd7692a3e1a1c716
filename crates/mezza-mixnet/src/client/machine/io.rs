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
    /// The entry server answered, and the hello was sent. If `trusted` is false, its key is not
    /// that of the config, and only configs are fetched.
    Up {
        /// True if the key was checked.
        trusted: bool,
    },
    /// The connection broke or could not be made.
    Down,
    /// A frame from the entry server.
    Frame {
        /// The received frame.
        frame: Frame,
        /// Milliseconds since the frame was read from the line. Times that follow from the frame
        /// are counted from that moment, however busy the program was (MIX-74).
        age_ms: u64,
    },
    /// A fresh key pair that [`Output::Want`] requested.
    Give(EphemeralKey),
    /// A job ended.
    Done(ClientJob, ClientJobOutput),
    /// A job of this round was lost and will not end.
    Lost(RoundId),
    /// All records and messages up to this number are durable.
    Stored(u64),
    /// Add a contact, or a new root of a contact.
    Add(NewRoot),
    /// Forget a contact and all messages to it.
    Remove(PartnerId),
    /// Serve a contact for ten minutes, or for as long as messages wait for it.
    Activate(PartnerId),
    /// End the service of a contact; the next cells tell it.
    Leave(PartnerId),
    /// True: serve a contact only while we have messages for it; its cells and calls no longer cost
    /// rounds. Not stored.
    Mute(PartnerId, bool),
    /// True: do not serve a contact at all, neither in rounds nor by calls. The contact is not
    /// notified. Not stored.
    Suspend(PartnerId, bool),
    /// Withdraw a message to a contact, or an invitation. Pieces not cut yet are not sent. A
    /// message that was begun continues as zeros, which the partner drops.
    Retract {
        /// The recipient.
        contact: PartnerId,
        /// The bytes of the message, or the body of the invitation.
        bytes: Wiping<Vec<u8>>,
    },
    /// Send a message of 1 to 8,998 bytes. A message that is already on its way, since before a
    /// start or `Down`, continues under its new ticket.
    Send {
        /// Identifier of the message in outputs.
        ticket: u64,
        /// The recipient.
        contact: PartnerId,
        /// Bytes of the message.
        bytes: Wiping<Vec<u8>>,
    },
    /// Call a contact in the next call round.
    Call(PartnerId, Intent),
    /// Send an invitation in the next invitation round.
    Invite(Invite),
    /// True: serve contacts beyond the budget.
    AllowMore(bool),
}

/// The rounds in which the chains of a root begin.
#[derive(Clone, Copy, Debug)]
pub struct StartRounds {
    /// The conversation round.
    pub conversation: u64,
    /// The call round.
    pub call: u64,
}

snapshot!(struct StartRounds { conversation, call });

/// A new root for a new or known contact.
#[derive(Debug)]
pub struct NewRoot {
    /// The contact.
    pub contact: PartnerId,
    /// The root, which is consumed.
    pub root: Secret<32>,
    /// Our role in the session.
    pub role: Role,
    /// The rounds in which the chains begin.
    pub start: StartRounds,
    /// The bucket in which the contact looks for calls.
    pub bucket: u32,
}

/// An invitation to send. `Debug` does not show the recipient.
pub struct Invite {
    /// Identifier of the invitation in outputs.
    pub ticket: u64,
    /// Dialling key of the recipient.
    pub to: PublicKey,
    /// Content for the recipient's messenger.
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
    /// Connect to the entry server at this time, send the hello as soon as the connection is up,
    /// then report `Up` or `Down`.
    Dial {
        /// Time of the connection attempt.
        at: Time,
        /// The hello, which is the first frame.
        hello: Frame,
        /// `None`: connect to the entry server of the config in force, which must prove its key.
        /// Otherwise only configs are requested, from any server. The number counts these attempts
        /// and selects one of the known addresses (MIX-77).
        search: Option<u32>,
    },
    /// Close the connection, then report `Down`: an untrusted connection has delivered all configs,
    /// or the entry server is silent.
    Close,
    /// Rounds are taken part in from now on. The messenger must send all messages and invitations
    /// again that were not handed over, in their order.
    Joined,
    /// A frame for the [`FrameSchedule`](crate::client::FrameSchedule) of the line.
    Frame(ScheduledFrame),
    /// Supply this number of fresh key pairs.
    Want(usize),
    /// Run a job and return it with its result.
    Job(ClientJob),
    /// Store a row durably and delete all rows below `first`, in one transaction, then report
    /// `Stored`. No later frame may be sent before.
    Store {
        /// Number of the row, above all earlier ones.
        seq: u64,
        /// Number of the first row that is still needed.
        first: u64,
        /// The row to store; it is secret.
        record: Wiping<Vec<u8>>,
    },
    /// A message arrived. Report `Stored` once it is durable.
    Received {
        /// Number for `Stored`.
        seq: u64,
        /// The sender.
        contact: PartnerId,
        /// Ascending number per contact. A message whose number is not above the last one is a
        /// repetition.
        number: u64,
        /// Bytes of the message.
        bytes: Wiping<Vec<u8>>,
    },
    /// A message or invitation was handed over: every piece was in a round in which the contact was
    /// met, or the invitation was in a round.
    Handed(u64),
    /// The contact's device has the whole message on disk.
    Acked(u64),
    /// A message, call or invitation was refused.
    Refused(u64, RefusedReason),
    /// A contact called; it is served from now on.
    Called(PartnerId, Intent),
    /// A new inviter; the body of the invitation identifies it.
    Invited(Invitation),
    /// The contact was missing in this number of consecutive rounds.
    Absent(PartnerId, u32),
    /// A contact was there in a round.
    Met(PartnerId),
    /// A contact acknowledges pieces that this client never sent, or no longer acknowledges earlier
    /// ones. Another copy of one of the two, with a newer state, continued their stream (MSG-131).
    Torn(PartnerId),
    /// A contact sent an invalid stream. Nothing more is read from it until there is a new root.
    Broken(PartnerId),
    /// The level of protection in the messenger's numbers, 4 or 1.
    Level(u8),
    /// The state of a service's budget.
    Budget(Service, BudgetState),
    /// The noise of a mix did not return.
    Alarm {
        /// The round of the alarm.
        id: RoundId,
        /// Position of the mix in the chain.
        position: u8,
    },
    /// This client does not take part in a round because of its settings.
    Unfit(RoundId, SettingsError),
    /// True with the first conversation round that returns after WELCOME or after a pause; false
    /// when none returned for three intervals. After false, the messenger must send messages and
    /// invitations that were not handed over again after the next `Returning(true)`.
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

/// The reason why a message, call or invitation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedReason {
    /// 1: too many messages or calls wait.
    Full,
    /// 2: the message is empty or longer than 8,998 bytes.
    TooBig,
    /// 3: there is no such contact.
    NoRoot,
    /// 4: the budget is exhausted.
    Budget,
    /// 5: there is no connection.
    Down,
    /// 6: the contact rests, and the budget of calls is exhausted.
    CallBudget,
    /// 7: the message has only zeros, which mean a withdrawn message.
    Blank,
}

snapshot!(enum RefusedReason [Full, TooBig, NoRoot, Budget, Down, CallBudget, Blank]);

impl RefusedReason {
    /// Returns the number in the specification.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }
}

/// The reason why an input is refused. The client is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// No such round is in progress.
    #[error("no such round is under way")]
    UnknownRound,
    /// The caller answered a request that was not made.
    #[error("nobody asked for this answer")]
    Unasked,
    /// The entry server may not send such a frame, or not now.
    #[error("the frame does not belong here")]
    Unexpected,
    /// The frame does not have the required content.
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
    /// The client already has the largest number of contacts.
    #[error("no more contacts fit")]
    Full,
    /// The config is refused.
    #[error(transparent)]
    Config(#[from] ChainError),
}
