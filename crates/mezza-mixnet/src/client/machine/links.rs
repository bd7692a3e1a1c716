//! The connection to the entry, and the configs that come over it.

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

/// The first wait after a failed try, and the longest one, milliseconds.
const BACKOFF_MS: (u64, u64) = (2_000, 60_000);
/// How long an entry may take for WELCOME, and for configs on a connection that carries nothing else.
const PATIENCE_MS: u64 = 30_000;
/// How long a line may be silent: so many intervals of conversations, and so many milliseconds.
const SILENT_INTERVALS: u64 = 3;
const SILENT_MS: u64 = 30_000;
/// How often configs are asked for at most, milliseconds.
const ASK_MS: u64 = 60_000;
/// How long after the frame that shows them missing, at least and at most, milliseconds.
const ASK_DELAY_MS: (u64, u64) = (1_000, 3_000);
/// Tries in a row without a round, after which every second one looks for configs at another address: about
/// a minute (MIX-77).
const SEARCH_AFTER: u32 = 5;
/// How long before its time a dial is handed over, milliseconds: then nothing that is stored moves it.
const DIAL_AHEAD_MS: u64 = 2_000;

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none; when to try, and how often it failed.
    Down { at: Time, failed: u32 },
    /// A dial is under way, or waits for the time that was drawn.
    Dialling { failed: u32 },
    /// HELLO was said; until when WELCOME is waited for.
    Greeted { trusted: bool, failed: u32, until: Option<Time> },
    /// WELCOME came; when configs were asked for, and whether they are under way. `until`: without trust
    /// until when configs are waited for, with trust until when settings of conversations are, if a config
    /// is in force.
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

    /// The clock was put back by so much.
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

    /// Returns true if rounds can be taken part in.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Joined { trusted: true, .. })
    }
}

/// When to try: after 2, 4 .. 60 s, give or take a fifth; independent of what waits.
fn draw_backoff(failed: u32, rng: &mut dyn CryptoRng) -> u64 {
    let (first, longest) = BACKOFF_MS;
    // The bound keeps the shift defined, and 60 s are reached after five failures.
    let wait = first.checked_shl(failed.min(16)).map_or(longest, |ms| ms.min(longest));
    let fifth = wait / 5;
    wait - fifth + draw_below(u128::from(2 * fifth) + 1, rng) as u64
}

impl<B: Backend> Client<B> {
    /// The first try: uniform in the interval of conversation rounds, at once while there is no
    /// config.
    pub(super) fn first_try(&self, now: Time, rng: &mut dyn CryptoRng) -> Time {
        let config = self.chain.as_ref().and_then(|chain| chain.current_config(now));
        let policy = config.and_then(|config| config.find_policy(Service::Conversation));
        let interval = policy.map_or(0, |(_, policy)| u128::from(policy.interval_ms));
        now.plus_ms(draw_below(interval + 1, rng) as u64)
    }

    /// Dials when it is time, and hangs up on who says nothing.
    pub(super) fn dial(&mut self, now: Time) {
        match &mut self.link {
            Link::Down { at, failed } if at.minus_ms(DIAL_AHEAD_MS) <= now => {
                let at = *at;
                let failed = *failed;
                self.link = Link::Dialling { failed };
                // The HELLO goes with the dial: written later, it would show when this process was
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
                // A line on which nothing comes may be dead: no system tells that of a line on which
                // nothing is sent (MIX-75).
                *until = None;
                self.silent_lines = self.silent_lines.saturating_add(1);
                self.outputs.push_back(Output::Close);
            }
            _ => {}
        }
    }

    /// Returns the number of the search if this try is one: it asks for configs alone, at the next of the
    /// known addresses and with any key. The entry in force may have moved, and the config that says so
    /// comes by no line to its old place (MIX-77).
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

    /// Returns the addresses of the entries of all known configs, the newest first, each once.
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

    /// The connection is gone, or could not be made.
    pub(super) fn on_down(
        &mut self,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        let (at, failed) = match self.link {
            Link::Down { .. } => return Err(ClientError::Unasked),
            Link::Joined { trusted: true, .. } if self.silent_lines == 0 => {
                // Uniform over an interval: all clients of a lost entry would otherwise return at
                // once (MIX-26).
                (self.first_try(now, rng), 0)
            }
            // Nothing came by the last lines: they are as good as tries that failed.
            Link::Joined { trusted: true, .. } => {
                (now.plus_ms(draw_backoff(self.silent_lines, rng)), 0)
            }
            // Somebody answered a search: the way out is there again, and the entry is tried at once.
            Link::Joined { trusted: false, failed, .. } => {
                (now.plus_ms(draw_backoff(0, rng)), failed.saturating_add(1))
            }
            Link::Dialling { failed } | Link::Greeted { failed, .. } => {
                (now.plus_ms(draw_backoff(failed, rng)), failed.saturating_add(1))
            }
        };
        if self.link.is_up() {
            // A locked device has missed calls for longer than that.
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

    /// No round comes back by this connection: what is under way is missed.
    fn stop_waiting(&mut self) {
        while let Some(id) = self.rounds.keys().next().copied() {
            self.miss_round(id);
        }
        self.detach_tickets();
        self.standing.stop();
    }

    /// Messages and invitations lose their tickets until they are given again.
    pub(super) fn detach_tickets(&mut self) {
        for line in self.contacts.all.values_mut().flat_map(Partner::lines_mut) {
            line.sender.detach_tickets();
        }
        self.invites.detach_tickets();
    }

    /// The line lives: settings of conversations came, good or not.
    pub(super) fn on_settings(&mut self, now: Time) {
        // Bad settings also prove that the line works. Only silence is a reason to leave it
        // (MIX-75).
        let until = self.silence_ms(now).map(|ms| now.plus_ms(ms));
        if let Link::Joined { until: end, trusted: true, .. } = &mut self.link {
            *end = until;
            self.silent_lines = 0;
        }
    }

    /// How long a line may be silent, milliseconds: three intervals of conversations and half a minute.
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
                // A search accepts configs alone: the peer proved no key of the config (MIX-1).
                if trusted {
                    self.outputs.push_back(Output::Joined);
                    self.await_rounds(now);
                    self.come_back(now);
                }
                // The entry may be ahead or behind by a config. The signatures of what it sends
                // decide.
                if head != self.head_hash() {
                    self.request_configs(read_at, now, rng);
                } else if !trusted {
                    self.outputs.push_back(Output::Close);
                }
                Ok(())
            }
            // A client asks once, at a time that it draws (MIX-74). A config without a request is
            // refused.
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
                    // A MISSED of a round that is not under way is refused, as any frame that no
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

    /// `ALARM`: told once for each mix and round, however often the entry repeats it (MIX-46).
    fn on_alarm(
        &mut self,
        id: RoundId,
        position: u8,
        signature: &Signature,
    ) -> Result<(), ClientError> {
        let chain = self.chain.as_ref().ok_or(ClientError::Unexpected)?;
        // An alarm of the last round before a change comes after it.
        let config = chain.of_round(id).ok_or(ClientError::Unexpected)?;
        let key = config.mix_keys().nth(position.into()).ok_or(ClientError::Malformed)?;
        let bytes = alarm_bytes(&config.hash(), id, position);
        // An entry that could forge alarms would accuse honest mixes.
        if !sign::verify(key, Purpose::Alarm, &[&bytes], signature) {
            return Err(ClientError::Signature);
        }
        let mix = (id.service, position);
        // Ascending rounds only, so that one alarm repeated by the entry counts once (MIX-46).
        if self.standing.alarmed.get(&mix).is_some_and(|last| id.round <= *last) {
            return Err(ClientError::Unexpected);
        }
        self.standing.alarmed.insert(mix, id.round);
        self.outputs.push_back(Output::Alarm { id, position });
        Ok(())
    }

    /// Asks for the configs behind the one that is known, once a minute at most, at a time drawn from
    /// when the frame was read that shows them missing.
    pub(super) fn request_configs(&mut self, read_at: Time, now: Time, rng: &mut dyn CryptoRng) {
        let Link::Joined { asked, fetching, .. } = &mut self.link else { return };
        // The entry closes a connection that requests configs a third time (MIX-28).
        if asked.is_none_or(|asked| now.since_ms(asked) >= ASK_MS) {
            (*asked, *fetching) = (Some(now), true);
            let (least, most) = ASK_DELAY_MS;
            let delay_ms = least + draw_below(u128::from(most - least) + 1, rng) as u64;
            let when = SendTime::At(read_at.plus_ms(delay_ms));
            let frame = Frame::FetchConfig { from: self.head_hash() };
            self.outputs.push_back(Output::Frame(ScheduledFrame { when, frame }));
        }
    }

    /// One config, oldest first. What it says is durable before anything is done by it.
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
            // Guardians' signatures decide, so a config may come over any connection.
            Some(chain) => chain.accept_config(&signed, now)?,
            none => {
                let chain = Chain::begin(&self.setup.pin, &signed)?;
                self.ledger = Some(Ledger::new(chain.head_config().network, draw_number(rng)));
                *none = Some(chain);
            }
        }
        let is_new = self.head_hash() != known;
        if is_new {
            // Stored before anything is done by it: a rollback must not be accepted later (MIX-3).
            self.take_snapshot(now);
            self.outputs.push_back(Output::Config);
        }
        let Link::Joined { trusted, fetching, failed, .. } = &mut self.link else { return Ok(()) };
        if is_new && !*trusted {
            // The entry may be another one now: that is tried at once, and as if for the first time.
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
