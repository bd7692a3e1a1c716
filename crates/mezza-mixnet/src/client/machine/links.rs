//! The connection to the entry server, and the configs that arrive over it.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, Time, snapshot};

use super::{Client, ClientError, Output, draw_number};
use crate::client::contacts::Partner;
use crate::client::{ScheduledFrame, SendTime};
use crate::config::{Chain, SignedConfig};
use crate::noise::draw_below;
use crate::privacy::Ledger;
use crate::sign::{self, Purpose, Signature};
use crate::wire::frame::{VERSION, alarm_bytes};
use crate::wire::{Frame, FrameBody};
use crate::{RoundId, Service};

/// The first and the longest pause after failed attempts, in milliseconds.
const BACKOFF_MS: (u64, u64) = (2_000, 60_000);
/// Milliseconds that an entry server may take for WELCOME, and for configs on an untrusted
/// connection.
const PATIENCE_MS: u64 = 30_000;
/// Longest silence of a line: this number of conversation intervals, plus `SILENT_MS` milliseconds.
const SILENT_INTERVALS: u64 = 3;
const SILENT_MS: u64 = 30_000;
/// Shortest time between two requests for configs, in milliseconds.
const ASK_MS: u64 = 60_000;
/// Shortest and longest delay of a request for configs after the frame that shows them missing, in
/// milliseconds.
const ASK_DELAY_MS: (u64, u64) = (1_000, 3_000);
/// Number of consecutive failed attempts, about a minute, after which every second attempt searches
/// for configs at another address (MIX-77).
const SEARCH_AFTER: u32 = 5;
/// Milliseconds by which a dial is handed over before its time; after that no stored row changes
/// the time.
const DIAL_AHEAD_MS: u64 = 2_000;

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// No connection: time of the next attempt, and number of failed attempts.
    Down { at: Time, failed: u32 },
    /// A connection is being made, or waits for the drawn time.
    Dialling { failed: u32 },
    /// HELLO was sent; `until` is the end of the wait for WELCOME.
    Greeted { trusted: bool, failed: u32, until: Option<Time> },
    /// WELCOME arrived. `asked` is the time of the last request for configs, `fetching` is true
    /// while they arrive. Without trust, `until` ends the wait for configs. With trust, it ends the
    /// wait for conversation settings, if a config is in force.
    Joined { trusted: bool, failed: u32, asked: Option<Time>, fetching: bool, until: Option<Time> },
}

snapshot!(enum Link [
    Down { at, failed }, Dialling { failed }, Greeted { trusted, failed, until },
    Joined { trusted, failed, asked, fetching, until },
]);

impl Link {
    pub const fn deadline(&self) -> Option<Time> {
        match self {
            Self::Down { at, .. } => Some(at.minus_ms(DIAL_AHEAD_MS)),
            Self::Dialling { .. } => None,
            Self::Greeted { until, .. } | Self::Joined { until, .. } => *until,
        }
    }

    /// Moves all waiting times after the clock went back by `ms`.
    pub fn put_back(&mut self, ms: u64) {
        let back = |at: &mut Time| *at = at.minus_ms(ms);
        match self {
            Self::Down { at, .. } => back(at),
            Self::Dialling { .. } => {}
            Self::Greeted { until, .. } => until.iter_mut().for_each(back),
            Self::Joined { asked, until, .. } => {
                [asked, until].into_iter().flatten().for_each(back);
            }
        }
    }

    /// Returns true if the client can take part in rounds.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Joined { trusted: true, .. })
    }
}

/// Returns the pause before the next attempt: 2, 4 .. 60 s, give or take a fifth, independent of
/// waiting messages.
fn draw_backoff(failed: u32, rng: &mut dyn CryptoRng) -> u64 {
    let (first, longest) = BACKOFF_MS;
    // The bound keeps the shift defined, and 60 s are reached after five failures.
    let wait = first.checked_shl(failed.min(16)).map_or(longest, |ms| ms.min(longest));
    let fifth = wait / 5;
    wait - fifth + draw_below(u128::from(2 * fifth) + 1, rng) as u64
}

impl<B: Backend> Client<B> {
    /// Returns the time of the first attempt: uniform in the interval of conversation rounds, or at
    /// once without a config.
    pub(super) fn first_try(&self, now: Time, rng: &mut dyn CryptoRng) -> Time {
        let config = self.chain.as_ref().and_then(|chain| chain.current_config(now));
        let policy = config.and_then(|config| config.find_policy(Service::Conversation));
        let interval = policy.map_or(0, |(_, policy)| u128::from(policy.interval_ms));
        now.plus_ms(draw_below(interval + 1, rng) as u64)
    }

    /// Dials when the time has come, and closes a silent connection.
    pub(super) fn dial(&mut self, now: Time) {
        match &mut self.link {
            Link::Down { at, failed } if at.minus_ms(DIAL_AHEAD_MS) <= now => {
                let at = *at;
                let failed = *failed;
                self.link = Link::Dialling { failed };
                // The HELLO goes with the dial. Written later, it would show when this process was
                // busy (MIX-74).
                let hello = Frame::Hello { version: VERSION, config: self.head_hash() };
                let search = self.next_search(at, failed);
                self.outputs.push_back(Output::Dial { at, hello, search });
            }
            Link::Greeted { until, .. } if until.is_some_and(|until| until <= now) => {
                *until = None;
                self.outputs.push_back(Output::Close);
            }
            Link::Joined { until, .. } if until.is_some_and(|until| until <= now) => {
                // A line without incoming frames may be dead, and no operating system reports this
                // for a line without outgoing data (MIX-75).
                *until = None;
                self.silent_lines = self.silent_lines.saturating_add(1);
                self.outputs.push_back(Output::Close);
            }
            _ => {}
        }
    }

    /// Returns the number of the search if this attempt is one, otherwise `None`. A search only
    /// requests configs, at the next known address and from any key. The entry server may have
    /// moved, and the config with its new address is not available at the old one (MIX-77).
    fn next_search(&mut self, at: Time, failed: u32) -> Option<u32> {
        let known = self.chain.as_ref().is_some_and(|chain| chain.current_config(at).is_some());
        // A line without rounds counts as a failed try: the entry may have moved (MIX-77).
        let vain = failed.saturating_add(self.silent_lines);
        // Every second try stays with the entry, which may be back before any config is found.
        let searches = !known || vain >= SEARCH_AFTER && vain % 2 == SEARCH_AFTER % 2;
        let number = self.searches;
        self.searches = number.wrapping_add(u32::from(searches));
        searches.then_some(number)
    }

    /// Returns the addresses of the entry servers in all known configs, newest first, each once.
    pub fn entry_addresses(&self) -> Vec<&str> {
        let mut addresses: Vec<&str> = Vec::new();
        for config in self.chain.iter().flat_map(Chain::newest_first) {
            let address = config.coordinator.address.as_str();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    pub(super) fn on_up(&mut self, trusted: bool, now: Time) -> Result<(), ClientError> {
        let Link::Dialling { failed } = self.link else { return Err(ClientError::Unasked) };
        self.link = Link::Greeted { trusted, failed, until: Some(now.plus_ms(PATIENCE_MS)) };
        Ok(())
    }

    /// Handles a connection that broke or could not be made.
    pub(super) fn on_down(
        &mut self,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        let (at, failed) = match self.link {
            Link::Down { .. } => return Err(ClientError::Unasked),
            Link::Joined { trusted: true, .. } if self.silent_lines == 0 => {
                // The time is uniform over an interval. Otherwise all clients of a lost entry
                // server would return at once (MIX-26).
                (self.first_try(now, rng), 0)
            }
            // No round arrived on the last lines, so they count as failed attempts.
            Link::Joined { trusted: true, .. } => {
                (now.plus_ms(draw_backoff(self.silent_lines, rng)), 0)
            }
            // A server answered the search, so the internet is reachable again and the entry server
            // is tried soon.
            Link::Joined { trusted: false, failed, .. } => {
                (now.plus_ms(draw_backoff(0, rng)), failed.saturating_add(1))
            }
            Link::Dialling { failed } | Link::Greeted { failed, .. } => {
                (now.plus_ms(draw_backoff(failed, rng)), failed.saturating_add(1))
            }
        };
        if self.link.is_up() {
            // An absence that began earlier, on a locked device, keeps its start.
            self.left.get_or_insert(now);
        }
        self.link = Link::Down { at, failed };
        // Pairs on their way belong to rounds that this connection no longer takes part in.
        self.wanted = 0;
        // Rounds are missed before anything is dialled, because none of them is made up for
        // (MIX-21).
        self.stop_waiting();
        Ok(())
    }

    /// Treats all rounds in progress as missed, because no round returns over this connection.
    fn stop_waiting(&mut self) {
        while let Some(id) = self.rounds.keys().next().copied() {
            self.miss_round(id);
        }
        self.detach_tickets();
        self.standing.stop();
    }

    /// Removes the tickets of messages and invitations until they are queued again.
    pub(super) fn detach_tickets(&mut self) {
        for line in self.contacts.all.values_mut().flat_map(Partner::lines_mut) {
            line.sender.detach_tickets();
        }
        self.invites.detach_tickets();
    }

    /// Restarts the limit of silence after settings of conversations, valid or not.
    pub(super) fn on_settings(&mut self, now: Time) {
        // Bad settings also prove that the line works. Only silence is a reason to leave it
        // (MIX-75).
        let until = self.silence_ms(now).map(|ms| now.plus_ms(ms));
        if let Link::Joined { until: end, trusted: true, .. } = &mut self.link {
            *end = until;
            self.silent_lines = 0;
        }
    }

    /// Returns the longest silence of a line in milliseconds: three conversation intervals and half
    /// a minute.
    fn silence_ms(&self, now: Time) -> Option<u64> {
        let policy = self.current_policy(Service::Conversation, now)?;
        Some(SILENT_INTERVALS * u64::from(policy.interval_ms) + SILENT_MS)
    }

    fn head_hash(&self) -> [u8; 32] {
        self.chain.as_ref().map_or([0; 32], Chain::head_hash)
    }

    pub(super) fn on_frame(
        &mut self,
        frame: Frame,
        age_ms: u64,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        let read_at = now.minus_ms(age_ms);
        match (frame, self.link) {
            (Frame::Welcome { head, .. }, Link::Greeted { trusted, failed, .. }) => {
                let wait_ms = if trusted { self.silence_ms(now) } else { Some(PATIENCE_MS) };
                let until = wait_ms.map(|ms| now.plus_ms(ms));
                self.link = Link::Joined { trusted, failed, asked: None, fetching: false, until };
                // A search accepts configs only, because the server has not proved the config's key
                // (MIX-1).
                if trusted {
                    self.outputs.push_back(Output::Joined);
                    self.await_rounds(now);
                    self.come_back(now);
                }
                // The entry server may be ahead or behind by a config. The signatures of its
                // configs decide.
                if head != self.head_hash() {
                    self.request_configs(read_at, now, rng);
                } else if !trusted {
                    self.outputs.push_back(Output::Close);
                }
                Ok(())
            }
            // A client requests configs once, at a time that it draws (MIX-74). A config without a
            // request is refused.
            (Frame::Config { left, config }, Link::Joined { fetching: true, .. }) => {
                self.on_config(left, &config, now, rng)
            }
            (Frame::Round(id, body), Link::Joined { trusted: true, .. }) => match body {
                FrameBody::Settings(announced) => {
                    if id.service == Service::Conversation {
                        self.on_settings(now);
                    }
                    self.arm_round(&announced, read_at, now, rng);
                    Ok(())
                }
                FrameBody::Return { users, replies } => self.on_return(id, users, &replies, now),
                FrameBody::Missed(_) => {
                    // MISSED of a round that is not in progress is refused, like any frame that no
                    // round waits for.
                    self.rounds.get(&id).ok_or(ClientError::UnknownRound)?;
                    self.miss_round(id);
                    Ok(())
                }
                FrameBody::Object(found) => self.on_object(id, found),
                FrameBody::Chunk { bucket, offset, bytes } => {
                    self.on_chunk(id, bucket, offset, &bytes, now)
                }
                FrameBody::Alarm { position, signature } => self.on_alarm(id, position, &signature),
                _ => Err(ClientError::Unexpected),
            },
            _ => Err(ClientError::Unexpected),
        }
    }

    /// Handles ALARM. It is reported once per mix and round, however often the entry server repeats
    /// it (MIX-46).
    fn on_alarm(
        &mut self,
        id: RoundId,
        position: u8,
        signature: &Signature,
    ) -> Result<(), ClientError> {
        let chain = self.chain.as_ref().ok_or(ClientError::Unexpected)?;
        // An alarm of the last round before a change of config arrives after the change.
        let config = chain.of_round(id).ok_or(ClientError::Unexpected)?;
        let key = config.mix_keys().nth(position.into()).ok_or(ClientError::Malformed)?;
        let bytes = alarm_bytes(&config.hash(), id, position);
        // An entry server that could forge alarms would accuse honest mixes.
        if !sign::verify(key, Purpose::Alarm, &[&bytes], signature) {
            return Err(ClientError::Signature);
        }
        let mix = (id.service, position);
        // Only ascending rounds count, so that an alarm repeated by the entry server counts once
        // (MIX-46).
        if self.standing.alarmed.get(&mix).is_some_and(|last| id.round <= *last) {
            return Err(ClientError::Unexpected);
        }
        self.standing.alarmed.insert(mix, id.round);
        self.outputs.push_back(Output::Alarm { id, position });
        Ok(())
    }

    /// Requests the configs after the known one, at most once a minute. The time is drawn from the
    /// moment at which the frame was read that shows them missing.
    pub(super) fn request_configs(&mut self, read_at: Time, now: Time, rng: &mut dyn CryptoRng) {
        let Link::Joined { asked, fetching, .. } = &mut self.link else { return };
        // The entry server closes a connection that requests configs a third time (MIX-28).
        if asked.is_none_or(|asked| now.since_ms(asked) >= ASK_MS) {
            (*asked, *fetching) = (Some(now), true);
            let (least, most) = ASK_DELAY_MS;
            let delay_ms = least + draw_below(u128::from(most - least) + 1, rng) as u64;
            let when = SendTime::At(read_at.plus_ms(delay_ms));
            let frame = Frame::FetchConfig { from: self.head_hash() };
            self.outputs.push_back(Output::Frame(ScheduledFrame { when, frame }));
        }
    }

    /// Handles one config, oldest first. It is durable before it is used.
    fn on_config(
        &mut self,
        left: u16,
        config: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        let signed = SignedConfig::decode(config).map_err(|_| ClientError::Malformed)?;
        let known = self.head_hash();
        match &mut self.chain {
            // The guardians' signatures decide, so a config may arrive over any connection.
            Some(chain) => chain.accept_config(&signed, now)?,
            none => {
                let chain = Chain::begin(&self.setup.pin, &signed)?;
                self.ledger = Some(Ledger::new(chain.head_config().network, draw_number(rng)));
                *none = Some(chain);
            }
        }
        let is_new = self.head_hash() != known;
        if is_new {
            // Stored before it is used, because a rollback must not be accepted later (MIX-3).
            self.take_snapshot(now);
            self.outputs.push_back(Output::Config);
        }
        let Link::Joined { trusted, fetching, failed, .. } = &mut self.link else { return Ok(()) };
        if is_new && !*trusted {
            // The entry server may be a different one now, so it is tried at once, as in a first
            // attempt.
            *failed = 0;
            self.silent_lines = 0;
        }
        if left == 0 {
            *fetching = false;
            if !*trusted {
                self.outputs.push_back(Output::Close);
            }
        }
        Ok(())
    }
}
