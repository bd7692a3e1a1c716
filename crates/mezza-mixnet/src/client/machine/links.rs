//! The connection to the entry, and the configs that come over it.

use mezza_core::{Backend, CryptoRng, Time, snapshot};

use super::{Client, ClientError, Output, dice};
use crate::client::contacts::Partner;
use crate::config::{Chain, SignedConfig};
use crate::noise::below;
use crate::privacy::Ledger;
use crate::sign::{self, Purpose, Signature};
use crate::wire::frame::{VERSION, alarm_bytes};
use crate::wire::{Frame, FrameBody};
use crate::{RoundId, Service};

/// The first wait after a failed try, and the longest one, milliseconds.
const BACKOFF_MS: (u64, u64) = (2_000, 60_000);
/// How long an entry may take for WELCOME, and for configs on a connection that carries nothing else.
const PATIENCE_MS: u64 = 30_000;
/// How often configs are asked for at most, milliseconds.
const ASK_MS: u64 = 60_000;

/// Where the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none; when to try, and how often it failed.
    Down { at: Time, failed: u32 },
    /// Somebody is connecting.
    Dialling { failed: u32 },
    /// HELLO was said; until when WELCOME is waited for.
    Greeted { trusted: bool, failed: u32, until: Option<Time> },
    /// WELCOME came; when configs were asked for, and whether they are under way. Without trust:
    /// until when they are waited for.
    Joined { trusted: bool, failed: u32, asked: Option<Time>, fetching: bool, until: Option<Time> },
}

snapshot!(enum Link [
    Down { at, failed }, Dialling { failed }, Greeted { trusted, failed, until },
    Joined { trusted, failed, asked, fetching, until },
]);

impl Link {
    pub const fn deadline(&self) -> Option<Time> {
        match self {
            Self::Down { at, .. } => Some(*at),
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

    /// Whether rounds can be taken part in.
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Joined { trusted: true, .. })
    }
}

/// When to try: after 2, 4 .. 60 s, give or take a fifth; independent of what waits.
fn backoff(failed: u32, rng: &mut dyn CryptoRng) -> u64 {
    let (first, longest) = BACKOFF_MS;
    let wait = first.checked_shl(failed.min(16)).map_or(longest, |ms| ms.min(longest));
    let fifth = wait / 5;
    wait - fifth + below(u128::from(2 * fifth) + 1, rng) as u64
}

impl<B: Backend> Client<B> {
    /// The first try: uniform in the interval of conversation rounds, at once while there is no
    /// config.
    pub(super) fn first_try(&self, now: Time, rng: &mut dyn CryptoRng) -> Time {
        let config = self.chain.as_ref().and_then(|chain| chain.current(now));
        let policy = config.and_then(|config| config.policy(Service::Conversation));
        let interval = policy.map_or(0, |(_, policy)| u128::from(policy.interval_ms));
        now.plus_ms(below(interval + 1, rng) as u64)
    }

    /// Dials when it is time, and hangs up on who says nothing.
    pub(super) fn dial(&mut self, now: Time) {
        match &mut self.link {
            Link::Down { at, failed } if *at <= now => {
                self.link = Link::Dialling { failed: *failed };
                self.outputs.push_back(Output::Dial);
            }
            Link::Greeted { until, .. } | Link::Joined { until, .. }
                if until.is_some_and(|until| until <= now) =>
            {
                *until = None;
                self.outputs.push_back(Output::Close);
            }
            _ => {}
        }
    }

    pub(super) fn up(&mut self, trusted: bool, now: Time) -> Result<(), ClientError> {
        let Link::Dialling { failed } = self.link else { return Err(ClientError::Unasked) };
        self.link = Link::Greeted { trusted, failed, until: Some(now.plus_ms(PATIENCE_MS)) };
        let config = self.head();
        self.outputs.push_back(Output::Frame(Frame::Hello { version: VERSION, config }));
        Ok(())
    }

    /// Every round under way is missed. Messages lose their request ids until they are sent again.
    pub(super) fn down(&mut self, now: Time, rng: &mut dyn CryptoRng) -> Result<(), ClientError> {
        let (at, failed) = match self.link {
            Link::Down { .. } => return Err(ClientError::Unasked),
            Link::Joined { trusted: true, .. } => {
                self.left = Some(now);
                (self.first_try(now, rng), 0)
            }
            Link::Dialling { failed }
            | Link::Greeted { failed, .. }
            | Link::Joined { failed, .. } => {
                (now.plus_ms(backoff(failed, rng)), failed.saturating_add(1))
            }
        };
        self.link = Link::Down { at, failed };
        while let Some(id) = self.rounds.keys().next().copied() {
            self.missed(id);
        }
        for line in self.contacts.all.values_mut().flat_map(Partner::lines_mut) {
            line.sender.detach();
        }
        self.invites.detach();
        self.wanted = 0;
        self.standing.users = 0;
        Ok(())
    }

    fn head(&self) -> [u8; 32] {
        self.chain.as_ref().map_or([0; 32], Chain::head_hash)
    }

    pub(super) fn frame(
        &mut self,
        frame: Frame,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        match (frame, self.link) {
            (Frame::Welcome { head, .. }, Link::Greeted { trusted, failed, .. }) => {
                let until = (!trusted).then_some(now.plus_ms(PATIENCE_MS));
                self.link = Link::Joined { trusted, failed, asked: None, fetching: false, until };
                if trusted {
                    self.outputs.push_back(Output::Joined);
                    self.come_back(now);
                }
                if head != self.head() {
                    self.ask(now);
                } else if !trusted {
                    self.outputs.push_back(Output::Close);
                }
                Ok(())
            }
            (Frame::Config { left, config }, Link::Joined { fetching: true, .. }) => {
                self.config(left, &config, now, rng)
            }
            (Frame::Round(id, body), Link::Joined { trusted: true, .. }) => match body {
                FrameBody::Settings(announced) => {
                    self.arm(&announced, now, rng);
                    Ok(())
                }
                FrameBody::Return { users, replies } => self.returned(id, users, &replies, now),
                FrameBody::Missed(_) => {
                    self.rounds.get(&id).ok_or(ClientError::UnknownRound)?;
                    self.missed(id);
                    Ok(())
                }
                FrameBody::Object(found) => self.object(id, found),
                FrameBody::Chunk { bucket, offset, bytes } => {
                    self.chunk(id, bucket, offset, &bytes, now)
                }
                FrameBody::Alarm { position, signature } => {
                    self.alarm(id, position, &signature, now)
                }
                _ => Err(ClientError::Unexpected),
            },
            _ => Err(ClientError::Unexpected),
        }
    }

    /// `ALARM`: told once for each mix and round, however often the entry repeats it (MIX-46).
    fn alarm(
        &mut self,
        id: RoundId,
        position: u8,
        signature: &Signature,
        now: Time,
    ) -> Result<(), ClientError> {
        let chain = self.chain.as_ref().ok_or(ClientError::Unexpected)?;
        let config = chain.current(now).ok_or(ClientError::Unexpected)?;
        let key = config.mix_keys().nth(position.into()).ok_or(ClientError::Malformed)?;
        let bytes = alarm_bytes(&config.hash(), id, position);
        if !sign::verify(key, Purpose::Alarm, &[&bytes], signature) {
            return Err(ClientError::Signature);
        }
        let mix = (id.service, position);
        if self.standing.alarmed.get(&mix).is_some_and(|last| id.round <= *last) {
            return Err(ClientError::Unexpected);
        }
        self.standing.alarmed.insert(mix, id.round);
        self.outputs.push_back(Output::Alarm { id, position });
        Ok(())
    }

    /// Asks for the configs behind the one that is known, once a minute at most.
    pub(super) fn ask(&mut self, now: Time) {
        let Link::Joined { asked, fetching, .. } = &mut self.link else { return };
        if asked.is_none_or(|asked| now.since_ms(asked) >= ASK_MS) {
            (*asked, *fetching) = (Some(now), true);
            self.outputs.push_back(Output::Frame(Frame::FetchConfig { from: self.head() }));
        }
    }

    /// One config, oldest first. What it says is durable before anything is done by it.
    fn config(
        &mut self,
        left: u16,
        config: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ClientError> {
        let signed = SignedConfig::decode(config).map_err(|_| ClientError::Malformed)?;
        let known = self.head();
        match &mut self.chain {
            Some(chain) => chain.accept(&signed, now)?,
            none => {
                let chain = Chain::begin(&self.setup.pin, &signed)?;
                self.ledger = Some(Ledger::new(chain.head().network, dice(rng)));
                *none = Some(chain);
            }
        }
        if self.head() != known {
            self.take_snapshot(now);
            self.outputs.push_back(Output::Config);
        }
        if let Link::Joined { trusted, fetching, .. } = &mut self.link
            && left == 0
        {
            *fetching = false;
            if !*trusted {
                self.outputs.push_back(Output::Close);
            }
        }
        Ok(())
    }
}
