//! A relay as small as it can be: what the device may count on, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use mezza_core::Secret;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{
    CarrierOutput, Input, MailboxId, Output, RelayConnectionId, RelayInput, RelayOutput, RequestId,
};
use mezza_ratchet::OneTimePrekey;

/// Kinds of requests, as [`Model::refuses`] names them.
pub const OPEN: u64 = 0;
pub const CLOSE: u64 = 1;
pub const PUT: u64 = 3;
pub const SET: u64 = 4;

/// The answer of a relay that wants patience.
const SLOW_DOWN: u8 = 4;

/// The number of a connected device.
pub type Who = usize;
/// Something for somebody.
pub type Told = (Who, Tell);

/// A request of a device, without the relay's name.
#[derive(Clone, Debug)]
pub enum Ask {
    Hello,
    Open(RequestId, [u8; 32]),
    Close(RequestId, [u8; 32]),
    Watch(RequestId, MailboxId, [u8; 32]),
    Put(RequestId, MailboxAddress, Vec<u8>),
    Set(RequestId, [u8; 32], Vec<u8>, Vec<OneTimePrekey>, bool),
    Get(RequestId, MailboxAddress),
    Taken(MailboxId, u64),
}

impl Ask {
    /// The request in an output, if it is one for a relay.
    pub fn from_output(output: Output) -> Option<Self> {
        let Output::Carrier(CarrierOutput::Relay(output)) = output else { return None };
        Some(match output {
            RelayOutput::Open { ticket, token, .. } => Self::Open(ticket, *token.expose()),
            RelayOutput::Close { ticket, token, .. } => Self::Close(ticket, *token.expose()),
            RelayOutput::Watch { ticket, mailbox, token, .. } => {
                Self::Watch(ticket, mailbox, *token.expose())
            }
            RelayOutput::Put { ticket, address, envelope, .. } => {
                Self::Put(ticket, address, envelope)
            }
            RelayOutput::Publish { ticket, token, bundle, one_time, replace, .. } => {
                Self::Set(ticket, *token.expose(), bundle, one_time, replace)
            }
            RelayOutput::Fetch { ticket, address, .. } => Self::Get(ticket, address),
            RelayOutput::Acknowledge { mailbox, mail } => Self::Taken(mailbox, mail),
            RelayOutput::Connect { .. } => Self::Hello,
            RelayOutput::Disconnect { .. } => return None,
        })
    }
}

impl Ask {
    /// A number for each kind of request that has an answer, and its ticket.
    fn kind(&self) -> Option<(u64, RequestId)> {
        Some(match self {
            Self::Open(ticket, _) => (OPEN, *ticket),
            Self::Close(ticket, _) => (CLOSE, *ticket),
            Self::Watch(ticket, ..) => (2, *ticket),
            Self::Put(ticket, ..) => (PUT, *ticket),
            Self::Set(ticket, ..) => (SET, *ticket),
            Self::Get(ticket, _) => (5, *ticket),
            Self::Hello | Self::Taken(..) => return None,
        })
    }
}

/// A frame of the relay to a device.
#[derive(Clone, Debug)]
pub enum Tell {
    Up,
    Done(RequestId, u8),
    Mail(MailboxId, u64, Vec<u8>),
    Bundle(RequestId, Vec<u8>, Option<OneTimePrekey>),
    Stock(u16),
    Displaced(MailboxId, bool),
}

impl Tell {
    /// The device's input.
    pub fn into_input(self, connection: RelayConnectionId) -> Input {
        let input = match self {
            Self::Up => RelayInput::Up { connection, level: 1, demo: false },
            Self::Done(ticket, 0) => RelayInput::Done { ticket },
            Self::Done(ticket, SLOW_DOWN) => {
                RelayInput::Refused { ticket, code: SLOW_DOWN, retry_s: 30 }
            }
            Self::Done(ticket, code) => RelayInput::Refused { ticket, code, retry_s: 1 },
            Self::Mail(mailbox, mail, envelope) => RelayInput::Mail { mailbox, mail, envelope },
            Self::Bundle(ticket, bytes, one_time) => RelayInput::Bundle { ticket, bytes, one_time },
            Self::Stock(left) => RelayInput::Stock { connection, left },
            Self::Displaced(mailbox, over) => RelayInput::Displaced { mailbox, over },
        };
        input.into()
    }
}

/// The state of the relay that survives a crash.
#[derive(Clone, Debug, Default)]
pub struct Store {
    pub boxes: BTreeMap<MailboxAddress, BTreeMap<u64, Vec<u8>>>,
    pub bundles: BTreeMap<MailboxAddress, (Vec<u8>, Vec<OneTimePrekey>)>,
    given: BTreeSet<(MailboxAddress, u32)>,
    next: u64,
}

/// The relay with its connections.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub store: Store,
    pub watchers: BTreeMap<MailboxAddress, (Who, MailboxId)>,
    /// Watchers in whose place another one reads a mailbox (MSG-90).
    pub displaced: BTreeSet<(MailboxAddress, Who, MailboxId)>,
    /// A relay that says DONE and forgets.
    pub liar: bool,
    /// Kinds of requests that are refused once, for 30 s: by [`Ask::kind`].
    pub refuses: BTreeSet<u64>,
    /// Mail per box.
    pub capacity: usize,
    /// Drawn at each start: a number given out before a crash may name other mail afterwards.
    pub life: u32,
}

impl Model {
    pub fn new(store: Store) -> Self {
        Self { store, capacity: 1_000, ..Self::default() }
    }

    /// Answers that may leave before the store is durable, and those that may not.
    pub fn ask(&mut self, who: Who, ask: Ask) -> (Vec<Told>, Vec<Told>) {
        let mut early = Vec::new();
        if let Some((kind, ticket)) = ask.kind()
            && self.refuses.remove(&kind)
        {
            return (early, vec![(who, Tell::Done(ticket, SLOW_DOWN))]);
        }
        let done = match ask {
            Ask::Hello => vec![Tell::Up],
            Ask::Open(ticket, token) => {
                self.store.boxes.entry(slot(&token)).or_default();
                vec![Tell::Done(ticket, 0)]
            }
            Ask::Close(ticket, token) => {
                let known = self.store.boxes.remove(&slot(&token)).is_some();
                vec![Tell::Done(ticket, u8::from(!known))]
            }
            Ask::Watch(ticket, id, token) => {
                early.extend(self.displace(who, slot(&token)));
                self.watch(who, ticket, id, &token)
            }
            Ask::Put(ticket, address, bytes) => {
                let (mail, code) = self.put(address, bytes);
                early.extend(mail);
                vec![Tell::Done(ticket, code)]
            }
            Ask::Set(ticket, token, bundle, one_time, replace) => {
                let code = self.set(slot(&token), bundle, one_time, replace);
                vec![Tell::Done(ticket, code)]
            }
            Ask::Get(ticket, address) => vec![self.bundle(ticket, address)],
            Ask::Taken(_, nr) if nr >> 32 != u64::from(self.life) => vec![],
            Ask::Taken(id, nr) => {
                let nr = nr & 0xffff_ffff;
                let ours = self.watchers.iter().filter(|(_, watcher)| **watcher == (who, id));
                for (address, _) in ours {
                    self.store.boxes.entry(*address).or_default().remove(&nr);
                }
                vec![]
            }
        };
        (early, done.into_iter().map(|tell| (who, tell)).collect())
    }

    /// A device reads a mailbox in place of another one, which is told.
    fn displace(&mut self, who: Who, address: MailboxAddress) -> Option<Told> {
        self.displaced.retain(|(at, other, _)| (*at, *other) != (address, who));
        let (other, id) = *self.watchers.get(&address).filter(|(other, _)| *other != who)?;
        self.displaced.insert((address, other, id));
        Some((other, Tell::Displaced(id, false)))
    }

    fn watch(&mut self, who: Who, ticket: RequestId, id: MailboxId, token: &[u8; 32]) -> Vec<Tell> {
        let address = slot(token);
        let Some(mails) = self.store.boxes.get(&address) else {
            return vec![Tell::Done(ticket, 1)];
        };
        self.watchers.insert(address, (who, id));
        let mut tells = vec![Tell::Done(ticket, 0)];
        let life = u64::from(self.life) << 32;
        tells.extend(mails.iter().map(|(nr, bytes)| Tell::Mail(id, life | *nr, bytes.clone())));
        if let Some((_, keys)) = self.store.bundles.get(&address) {
            tells.push(Tell::Stock(keys.len() as u16));
        }
        tells
    }

    fn put(&mut self, address: MailboxAddress, bytes: Vec<u8>) -> (Option<(Who, Tell)>, u8) {
        if self.liar {
            return (None, 0);
        }
        let Some(mails) = self.store.boxes.get_mut(&address) else { return (None, 1) };
        if mails.len() >= self.capacity {
            return (None, 2);
        }
        self.store.next += 1;
        let nr = self.store.next;
        mails.insert(nr, bytes.clone());
        let life = u64::from(self.life) << 32;
        let push = self.watchers.get(&address);
        let push = push.map(|(who, id)| (*who, Tell::Mail(*id, life | nr, bytes)));
        (push, 0)
    }

    fn set(
        &mut self,
        at: MailboxAddress,
        bundle: Vec<u8>,
        keys: Vec<OneTimePrekey>,
        replace: bool,
    ) -> u8 {
        if !self.store.boxes.contains_key(&at) {
            return 1;
        }
        let entry = self.store.bundles.entry(at).or_default();
        if replace {
            entry.1.clear();
            self.store.given.retain(|(address, _)| *address != at);
        }
        entry.0 = bundle;
        for key in keys {
            let known = entry.1.iter().any(|other| other.id == key.id);
            if !known && !self.store.given.contains(&(at, key.id)) {
                entry.1.push(key);
            }
        }
        0
    }

    fn bundle(&mut self, ticket: RequestId, address: MailboxAddress) -> Tell {
        let Some((bundle, keys)) = self.store.bundles.get_mut(&address) else {
            return Tell::Done(ticket, 1);
        };
        let one_time = keys.pop();
        self.store.given.extend(one_time.map(|key| (address, key.id)));
        Tell::Bundle(ticket, bundle.clone(), one_time)
    }

    /// No device is connected any more under this name. Those whose mailboxes it read may watch them again.
    pub fn leave(&mut self, who: Who) -> Vec<Told> {
        self.displaced.retain(|(_, other, _)| *other != who);
        let free = self.watchers.iter().filter(|(_, (watcher, _))| *watcher == who);
        let free: BTreeSet<MailboxAddress> = free.map(|(address, _)| *address).collect();
        self.watchers.retain(|_, (watcher, _)| *watcher != who);
        let told = self.displaced.iter().filter(|(address, ..)| free.contains(address));
        told.map(|(_, other, id)| (*other, Tell::Displaced(*id, true))).collect()
    }
}

fn slot(token: &[u8; 32]) -> MailboxAddress {
    MailboxAddress::from_token(&Secret::copy_from(token))
}
