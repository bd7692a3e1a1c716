//! The mixnet as the device sees it: one network that was joined, one client machine in it.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, DecodeError, PublicKey, Reader, Secret, StaticKey, Time, Wiping, Writer,
};
use mezza_lanes::Kernel;
use mezza_mixnet::client::{Client, ClientJob, ClientOptions, RestoreError};
use mezza_mixnet::config::{Config, ServicePolicy};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::wire::Frame;
use mezza_mixnet::{RoundId, Service, client};

use crate::carriers::CarrierCaps;
use crate::identity::text;
use crate::io::ContactId;

/// Version of the stored form.
const VERSION: u8 = 1;
/// Bytes of one piece: the body of a cell.
pub(crate) const PIECE_BYTES: usize = 225;
/// Most pieces of one parcel.
pub(crate) const PIECES_MAX: usize = 40;
/// What the carrier's own stream puts in front of a parcel.
pub(crate) const LENGTH_BYTES: usize = 2;

/// Hours until somebody is called again who did not come.
const AGAIN_HOURS: [u64; 3] = [1, 4, 12];
/// The longest that an invitation waits before it goes again.
const INVITED_AGAIN_MS: u64 = 12 * Time::HOUR_MS;

/// When to call somebody again who was called at `last`, so many times before.
pub(crate) fn again(last: Time, times: u8) -> Time {
    let hours = AGAIN_HOURS[usize::from(times).min(AGAIN_HOURS.len() - 1)];
    last.plus_ms(hours * Time::HOUR_MS)
}

/// When an invitation goes again whose round is over now, after so many before: in the next round,
/// since it reaches only who takes part in its own; then it lets 1, 3, 7 .. rounds pass.
pub(crate) fn invited_again(now: Time, times: u8, interval_ms: u32) -> Time {
    let rounds = (1 << times.min(24)) - 1;
    now.plus_ms(INVITED_AGAIN_MS.min(rounds * u64::from(interval_ms)))
}

/// Which network: the link that a person opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkAddress {
    /// The hash of its first config.
    pub pin: [u8; 32],
    /// `host:port` of the entry that the link names.
    pub address: String,
}

/// What the driver tells the device about its connection to the network.
pub enum MixnetInput {
    /// Join this network.
    Join(NetworkAddress),
    /// Ask who it is that invites: their hello and card come in cells (messenger 4.4).
    AskWho(ContactId),
    /// The entry answers; `trusted`: its key is the one of the config.
    Up {
        /// Whether the key was checked.
        trusted: bool,
    },
    /// The connection is gone, or could not be made.
    Down,
    /// A frame of the entry.
    Frame(Frame),
    /// A job ended.
    Done(ClientJob, client::ClientJobOutput),
    /// A job of this round will never end.
    Lost(RoundId),
    /// What stood before [`MixnetOutput::Durable`] of this number is durable.
    Stored(u64),
}

/// What the device wants of the network.
#[derive(Debug)]
pub enum MixnetOutput {
    /// Connect, then say `Up` or `Down`.
    Connect {
        /// `host:port` of the entry.
        address: String,
        /// Its key; `None`: any key, and `Up` is not trusted.
        key: Option<[u8; 32]>,
    },
    /// Hang up, then say `Down`.
    Disconnect,
    /// Send a frame.
    Frame(Frame),
    /// Run a job and hand it back.
    Job(ClientJob),
    /// Once everything before this is durable, say so: [`MixnetInput::Stored`].
    Durable(u64),
}

/// What is stored of a network besides the client's own rows: the link, and the dialling key.
pub(crate) struct Membership {
    pub link: NetworkAddress,
    pub dialling: StaticKey,
}

impl Membership {
    /// The stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(128 + self.link.address.len());
        w.u8(VERSION).bytes(&self.link.pin).var8(self.link.address.as_bytes());
        w.bytes(self.dialling.scalar().expose()).bytes(&self.dialling.public().0);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let link = NetworkAddress { pin: r.array()?, address: text(r.var8()?)? };
            let scalar = Secret::read(r)?;
            Ok(Self { link, dialling: StaticKey::from_stored(scalar, PublicKey::read(r)?) })
        })
    }

    fn setup(&self, kernel: &'static dyn Kernel) -> ClientOptions {
        ClientOptions {
            pin: self.link.pin,
            dialling: self.dialling.duplicate(),
            floor: NoiseFloor::STANDARD,
            kernel,
        }
    }
}

/// The network that was joined.
pub(crate) struct JoinedNetwork<B: Backend> {
    pub member: Membership,
    pub client: Client<B>,
    /// Rows of the client that are stored.
    pub rows: BTreeSet<u64>,
    /// Rounds are taken part in.
    pub joined: bool,
    pub level: u8,
    /// The newest number of the client that the next commit makes durable.
    pub durable: Option<u64>,
    /// Alarms of mixes since the start.
    pub alarms: u32,
    /// This clock and the network's differ.
    pub clock_off: bool,
    /// The noise of the config in force is below what protects anybody.
    pub demo: bool,
}

impl<B: Backend> JoinedNetwork<B> {
    pub fn new(member: Membership, kernel: &'static dyn Kernel, now: Time) -> Self {
        let client = Client::new(member.setup(kernel), now);
        Self::of(member, client, BTreeSet::new())
    }

    /// Puts the client together from its rows, ascending.
    pub fn restore(
        member: Membership,
        kernel: &'static dyn Kernel,
        rows: &[(u64, Wiping<Vec<u8>>)],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        if rows.is_empty() {
            return Ok(Self::new(member, kernel, now));
        }
        let slices = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let client = Client::restore(member.setup(kernel), slices, now, rng)?;
        Ok(Self::of(member, client, rows.iter().map(|(seq, _)| *seq).collect()))
    }

    fn of(member: Membership, client: Client<B>, rows: BTreeSet<u64>) -> Self {
        Self {
            member,
            client,
            rows,
            joined: false,
            level: 1,
            durable: None,
            alarms: 0,
            clock_off: false,
            demo: false,
        }
    }

    /// Looks at the noise of the config that is in force now.
    pub fn weigh(&mut self, now: Time) {
        self.demo = self.policy(now).is_some_and(|policy| !NoiseFloor::STANDARD.allows(policy));
    }

    /// The config in force.
    pub fn config(&self, now: Time) -> Option<&Config> {
        self.client.chain()?.current(now)
    }

    /// What the config says of conversations.
    pub fn policy(&self, now: Time) -> Option<&ServicePolicy> {
        self.config(now)?.policy(Service::Conversation).map(|(_, policy)| policy)
    }

    /// Where to connect, and to whom.
    pub fn place(&self, now: Time) -> (String, Option<[u8; 32]>) {
        match self.config(now) {
            Some(config) => (config.coordinator.address.clone(), Some(config.coordinator.key)),
            None => (self.member.link.address.clone(), None),
        }
    }

    /// What the carrier can do now.
    pub fn caps(&self, now: Time) -> CarrierCaps {
        let round_ms = self
            .policy(now)
            .map_or(5_000, |policy| policy.interval_ms.saturating_add(policy.collect_ms));
        CarrierCaps {
            piece_bytes: PIECE_BYTES,
            pieces_max: PIECES_MAX,
            level: self.level,
            delay_ms: round_ms,
            delay_p99_ms: round_ms.saturating_mul(4),
            receipts: true,
            store_h: 0,
            needs_internet: true,
            demo: self.demo,
        }
    }
}
