//! The joined network, with its client machine.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{
    Backend, CryptoRng, DecodeError, PublicKey, Reader, Secret, StaticKey, Time, Wiping, Writer,
    snapshot,
};
use mezza_lanes::Kernel;
use mezza_mixnet::Service;
use mezza_mixnet::client::{Client, ClientOptions, Output, RestoreError, SettingsError};
use mezza_mixnet::config::{Config, ServicePolicy};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::privacy::{Ledger, NetworkPromise, reached_delta};

use super::NetworkAddress;
use crate::card::{Card, MIXNET_PART};
use crate::io::{CarrierCaps, CarrierHides, Effects, NoiseGrade, RecordKind, key64, read_text};
use crate::view::{BudgetView, NetworkTrouble, NetworkView};

/// Version of the stored form.
const VERSION: u8 = 1;
/// Bytes of one piece, which fills the body of a cell.
pub(super) const PIECE_BYTES: usize = 225;
/// Most pieces of one parcel.
pub(super) const PIECES_MAX: usize = 40;
/// Bytes of the length field that the carrier's stream puts before a parcel.
pub(super) const LENGTH_BYTES: usize = 2;

/// The stored state of a network besides the rows of the client: link and dialling key.
pub(crate) struct Membership {
    pub link: NetworkAddress,
    pub dialling: StaticKey,
}

snapshot!(struct Membership { link, dialling });

impl Membership {
    /// Encodes the stored form.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(128 + self.link.address.len());
        w.put_u8(VERSION).put_bytes(&self.link.pin).put_var8(self.link.address.as_bytes());
        w.put_bytes(self.dialling.scalar().expose()).put_bytes(&self.dialling.public_key().0);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let link = NetworkAddress { pin: r.read_array()?, address: read_text(r.read_var8()?)? };
            let scalar = Secret::read_from(r)?;
            Ok(Self { link, dialling: StaticKey::from_stored(scalar, PublicKey::read_from(r)?) })
        })
    }

    fn client_options(&self, kernel: &'static dyn Kernel) -> ClientOptions {
        ClientOptions {
            pin: self.link.pin,
            dialling: self.dialling.duplicate(),
            floor: NoiseFloor::STANDARD,
            kernel,
        }
    }
}

/// A joined network and its state.
pub(crate) struct JoinedNetwork<B: Backend> {
    pub member: Membership,
    pub client: Client<B>,
    /// Numbers of the stored client rows.
    pub rows: BTreeSet<u64>,
    /// True while the line to the entry server is up.
    pub up: bool,
    pub level: u8,
    /// The newest of the client's record numbers that the next commit makes durable.
    pub durable: Option<u64>,
    /// Number of alarms from mixes since the start.
    pub alarms: u32,
    /// True if our clock and the network's clock differ.
    pub clock_off: bool,
    /// True if the entry server announces rounds under a config of another network.
    pub foreign: bool,
    /// Grade of the noise of the current config.
    pub noise: Option<NoiseGrade>,
}

snapshot!(struct JoinedNetwork<B> {
    member, client, rows, up, level, durable, alarms, clock_off, foreign, noise,
});

impl<B: Backend> JoinedNetwork<B> {
    pub fn new(member: Membership, kernel: &'static dyn Kernel, now: Time) -> Self {
        let client = Client::new(member.client_options(kernel), now);
        Self::with_client(member, client, BTreeSet::new())
    }

    /// Restores the client from its rows, ascending by number.
    pub fn restore(
        member: Membership,
        kernel: &'static dyn Kernel,
        rows: &[(u64, Wiping<Vec<u8>>)],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        // No row means that the client has stored nothing since the network was joined.
        if rows.is_empty() {
            return Ok(Self::new(member, kernel, now));
        }
        let slices = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let client = Client::restore(member.client_options(kernel), slices, now, rng)?;
        Ok(Self::with_client(member, client, rows.iter().map(|(seq, _)| *seq).collect()))
    }

    /// Joins a network again that was left before, with its stored state.
    pub fn rejoin(
        member: Membership,
        kernel: &'static dyn Kernel,
        remembered: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, RestoreError> {
        let client = Client::rejoin(member.client_options(kernel), remembered, now, rng)?;
        Ok(Self::with_client(member, client, BTreeSet::new()))
    }

    /// Returns true if [`rejoin`](Self::rejoin) would succeed with this state.
    pub fn can_rejoin(
        member: &Membership,
        kernel: &'static dyn Kernel,
        remembered: &[u8],
        now: Time,
    ) -> bool {
        Client::<B>::can_rejoin(member.client_options(kernel), remembered, now)
    }

    fn with_client(member: Membership, client: Client<B>, rows: BTreeSet<u64>) -> Self {
        Self {
            member,
            client,
            rows,
            up: false,
            level: 1,
            durable: None,
            alarms: 0,
            clock_off: false,
            foreign: false,
            noise: None,
        }
    }

    /// Stores a row of the client, in the same commit as the other effects of the input. Rows before
    /// `first` are removed.
    pub fn store_row(
        &mut self,
        seq: u64,
        first: u64,
        record: Wiping<Vec<u8>>,
        effects: &mut Effects,
    ) {
        self.durable = Some(seq);
        // The client continues from row `first`, so older rows leave in the same commit.
        let kept = self.rows.split_off(&first);
        let old = core::mem::replace(&mut self.rows, kept);
        self.rows.insert(seq);
        effects.put(RecordKind::NetworkRow, key64(seq), record);
        for row in old {
            effects.drop_row(RecordKind::NetworkRow, key64(row));
        }
    }

    /// Applies an output of the client that reports on the network.
    pub fn apply_output(&mut self, output: &Output) {
        match output {
            Output::Level(level) => self.level = *level,
            Output::Alarm { .. } => self.alarms = self.alarms.saturating_add(1),
            Output::Unfit(_, error) => {
                self.clock_off = *error == SettingsError::Clock;
                // Settings of a past round or late settings are of our config, so they are not
                // foreign.
                self.foreign = matches!(error, SettingsError::NoConfig | SettingsError::Differ);
            }
            _ => {}
        }
    }

    /// Returns true if a conversation round was returned less than three intervals ago, which
    /// proves that the network works (MIX-75).
    pub fn is_proven(&self) -> bool {
        self.up && self.client.is_returning()
    }

    /// Returns true if the line to the entry server is up and a config is in force.
    pub fn is_up(&self, now: Time) -> bool {
        self.up && self.config(now).is_some()
    }

    /// Returns the reason why no round returns, or `None` if rounds return or no reason is known
    /// (MSG-123).
    pub fn find_trouble(&self, now: Time) -> Option<NetworkTrouble> {
        let ended = self.client.chain().map(|chain| chain.head_config().valid_until);
        if let Some(ended) = ended.filter(|ended| *ended <= now) {
            return Some(NetworkTrouble::Ended { ago_ms: now.since_ms(ended) });
        }
        match (self.is_proven(), self.clock_off, self.foreign) {
            (true, ..) => None,
            (false, true, _) => Some(NetworkTrouble::Clock),
            (false, false, foreign) => foreign.then_some(NetworkTrouble::Foreign),
        }
    }

    /// Forgets what earlier settings showed, because the line is new or a round returned.
    pub fn forget_unfit(&mut self) {
        (self.clock_off, self.foreign) = (false, false);
    }

    /// Returns the view of the network for the user.
    pub fn view(&self, now: Time) -> NetworkView {
        let config = self.config(now);
        let policy = self.policy(now);
        let ledger = self.client.ledger();
        let promise = config.map(NetworkPromise::from_config);
        NetworkView {
            link: self.member.link.clone(),
            network: config.map(|config| config.network),
            up: self.is_proven(),
            level: self.level,
            noise: self.noise,
            trouble: self.find_trouble(now),
            policy: policy.cloned(),
            round: policy.and_then(|policy| policy.round_at(now)),
            users: self.client.users(),
            mixes: config.map_or(0, |config| config.mixes.len()),
            rounds_used: ledger.zip(policy).map_or(0, |(ledger, policy)| ledger.count_used(policy)),
            budgets: config.zip(ledger).map_or_else(Vec::new, |(config, ledger)| {
                let services = config.services.iter();
                services.map(|policy| budget_view(ledger, policy)).collect()
            }),
            spent: promise
                .as_ref()
                .zip(ledger)
                .map(|(promise, ledger)| reached_delta(&ledger.all_spent(), promise.epsilon)),
            promise,
            alarms: self.alarms,
            clock_off: self.clock_off,
        }
    }

    /// Grades the noise of the config that is in force now.
    pub fn grade_noise(&mut self, now: Time) {
        self.noise = self.config(now).map(grade_config);
    }

    /// Returns the config in force, or `None` if there is none.
    pub fn config(&self, now: Time) -> Option<&Config> {
        self.client.chain()?.current_config(now)
    }

    /// Returns true if the card shows that its owner is not in this network. A mixnet part that is
    /// listed but left out proves nothing.
    pub fn is_elsewhere(&self, card: &Card, now: Time) -> bool {
        let Some(config) = self.config(now) else { return false };
        match card.mixnet() {
            Some(part) => part.network != config.network,
            None => card.lacks_part(MIXNET_PART),
        }
    }

    /// Returns the policy of the conversation service in the current config.
    pub fn policy(&self, now: Time) -> Option<&ServicePolicy> {
        self.config(now)?.find_policy(Service::Conversation).map(|(_, policy)| policy)
    }

    /// Returns the address of the entry server and its expected key.
    pub fn entry_address(&self, now: Time) -> (String, Option<[u8; 32]>) {
        dial_address(&self.member.link, &self.client, now)
    }

    /// Returns the address that is asked for configs in search number `number`. The first search
    /// uses the address of the link. Later ones use the addresses of all known configs in turn,
    /// newest first (MIX-77).
    pub fn search_address(&self, number: u32) -> String {
        search_address(&self.member.link, &self.client, number)
    }

    /// Returns the present abilities of the carrier.
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
            around_bytes: LENGTH_BYTES,
            parcel_bytes_max: PIECES_MAX * PIECE_BYTES - LENGTH_BYTES,
            store_h: 0,
            needs_internet: true,
            demo: false,
            noise: self.noise,
            hides: CarrierHides {
                partners_from_provider: self.level >= 3,
                partners_from_operator: self.level >= 2,
                talk_from_observer: self.level >= 4,
            },
        }
    }
}

/// Returns address and key of the entry server in the config in force. Without a config returns the
/// address of the link and `None`, which accepts any key.
pub(super) fn dial_address<B: Backend>(
    link: &NetworkAddress,
    client: &Client<B>,
    now: Time,
) -> (String, Option<[u8; 32]>) {
    match client.chain().and_then(|chain| chain.current_config(now)) {
        Some(config) => (config.coordinator.address.clone(), Some(config.coordinator.key)),
        None => (link.address.clone(), None),
    }
}

/// Returns the address for a search, see [`JoinedNetwork::search_address`].
pub(super) fn search_address<B: Backend>(
    link: &NetworkAddress,
    client: &Client<B>,
    number: u32,
) -> String {
    let known = client.entry_addresses().into_iter().filter(|address| *address != link.address);
    let all: Vec<&str> = core::iter::once(link.address.as_str()).chain(known).collect();
    all[number as usize % all.len()].into()
}

/// Grades the noise of a config (MSG-122).
fn grade_config(config: &Config) -> NoiseGrade {
    let promise = NetworkPromise::from_config(config);
    if NoiseFloor::STANDARD.allows_config(config) {
        NoiseGrade::Standard
    } else if promise.is_none() || !promise.is_kept() || promise.delta >= 1.0 {
        NoiseGrade::Nothing
    } else {
        NoiseGrade::Weak
    }
}

fn budget_view(ledger: &Ledger, policy: &ServicePolicy) -> BudgetView {
    let service = policy.service;
    BudgetView { service, used: ledger.count_used(policy), rounds: policy.rounds }
}
