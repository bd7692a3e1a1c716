//! One user: a connection that is reopened when it is lost, and the user's partner.

use std::sync::Arc;
use std::time::Duration;

use mezza_core::{CryptoRng, Secret};
use mezza_mixnet::Service;
use mezza_mixnet::client::Access;
use mezza_mixnet::contact::{ConversationKeywheel, Role};
use mezza_mixnet::noise::draw_below;
use mezza_mixnet::wire::cell::Piece;
use mezza_mixnet::wire::frame::VERSION;
use mezza_mixnet::wire::{Cell, Frame};
use rand_core::Rng as _;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::{Event, Load};
use crate::mixnet::client::EntryClient;
use mezza_host::backend::AwsLc;
use mezza_host::connection::link::{
    self, CLIENT_FRAMES_MAX, FrameSizeClass, LinkEvent, carry_frames, make_parcel,
};
use mezza_host::process::rng::OsRng;

/// Maximum number of connections begun per second.
const CONNECTS_PER_S: u64 = 2_000;
/// Longest pause between two attempts to connect.
const PAUSE_MS_MAX: u64 = 60_000;

/// Keeps a user connected. The first attempt is spread over time; later ones wait for a random
/// time, then 2, 4, .. 60 s.
pub(super) async fn keep_connected(
    number: u32,
    load: Arc<Load>,
    entry: Arc<EntryClient>,
    events: mpsc::Sender<Event>,
    mut gone: watch::Receiver<()>,
) {
    sleep(Duration::from_millis(u64::from(number) * 1_000 / CONNECTS_PER_S)).await;
    let policy = load.chain.head_config().find_policy(Service::Conversation);
    let interval_ms = policy.map_or(1_000, |(_, policy)| u64::from(policy.interval_ms));
    let mut pause_ms = 0;
    loop {
        let connected = tokio::select! {
            _ = gone.changed() => return,
            connected = entry.connect() => connected,
        };
        if let Ok(stream) = connected {
            let link = link::next_link_number();
            let (outbox, parcels) = mpsc::channel(CLIENT_FRAMES_MAX);
            let hello = Frame::Hello { version: VERSION, config: load.chain.head_hash() };
            if let Some(hello) = make_parcel(hello) {
                let _ = outbox.try_send(hello);
            }
            if events.send(Event::User(number, link, LinkEvent::Up(outbox))).await.is_err() {
                return;
            }
            let frame = |frame| Event::User(number, link, LinkEvent::Frame(frame));
            tokio::select! {
                _ = gone.changed() => return,
                _ = carry_frames(stream, FrameSizeClass::LongAndMany, parcels, &events, frame) => {}
            }
            if events.send(Event::User(number, link, LinkEvent::Down)).await.is_err() {
                return;
            }
            pause_ms = 0;
        }
        let wait_ms = if pause_ms == 0 {
            draw_below(u128::from(interval_ms) + 1, &mut OsRng) as u64
        } else {
            // 20 % jitter, so that thousands of users do not reconnect at once.
            pause_ms * 9 / 10 + OsRng.next_u64() % (pause_ms / 5).max(1)
        };
        pause_ms = (pause_ms * 2).clamp(2_000, PAUSE_MS_MAX);
        sleep(Duration::from_millis(wait_ms)).await;
    }
}

/// The pairs in conversations: users 0 and 1, 2 and 3, up to a number.
pub(super) struct Pairs {
    chains: Vec<Chain>,
}

/// One end of a conversation; the conversation begins with the first round that uses it.
struct Chain {
    root: Secret<32>,
    role: Role,
    conversation: Option<ConversationKeywheel>,
}

impl Pairs {
    /// Pairs the first `conversing` users, rounded down to an even number.
    pub(super) fn new(conversing: u32) -> Self {
        let pair = |_| {
            let root = Secret::random(&mut OsRng);
            let end = |role| Chain { root: root.duplicate(), role, conversation: None };
            [end(Role::Initiator), end(Role::Responder)]
        };
        Self { chains: (0..conversing / 2).flat_map(pair).collect() }
    }

    /// Returns the partner of a user, if any.
    pub(super) fn partner(&self, user: u32) -> Option<u32> {
        ((user as usize) < self.chains.len()).then_some(user ^ 1)
    }

    /// Returns the access of a user in a round: a cell for the partner, or that of an idle slot.
    pub(super) fn make_access(&mut self, user: u32, round: u64, rng: &mut dyn CryptoRng) -> Access {
        let Some(chain) = self.chains.get_mut(user as usize) else {
            return Access::for_idle_slot::<AwsLc>(round, rng);
        };
        let root = &chain.root;
        let role = chain.role;
        let conversation = chain
            .conversation
            .get_or_insert_with(|| ConversationKeywheel::begin(root, role, round));
        match conversation.advance_to(round, u64::MAX) {
            Ok(true) => {
                Access::seal_cell::<AwsLc>(conversation.take_round_keys(), &make_cell(user, round))
            }
            _ => Access::for_idle_slot::<AwsLc>(round, rng),
        }
    }
}

/// Returns the cell of a user in a round.
pub(super) fn make_cell(user: u32, round: u64) -> Cell {
    let piece = Piece::new(format!("user {user}, round {round}").as_bytes());
    Cell { leaving: false, seq: round as u32, ack: 0, sack: 0, piece }
}
