//! The begin and early end of a round: keys, settings, floors, aborts.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, PublicKey, Secret, Time, snapshot};
use mezza_lanes::Scalar;

use super::round::{OpenRound, OwnNoise, Round, RoundState};
use super::{Mix, MixError, Neighbour, Output};
use crate::RoundId;
use crate::config::{Config, Mode, ServicePolicy};
use crate::job::{Job, TableJob};
use crate::limits::ROUNDS_IN_FLIGHT;
use crate::onion::Layer;
use crate::privacy::{RoundsSpent, delta};
use crate::sign::{self, Purpose, Signature};
use crate::wire::frame::{COORDINATOR, abort_bytes};
use crate::wire::{AbortReason, Frame, FrameBody, Settings};

/// Largest difference between the network's clock and ours, in milliseconds.
const CLOCK_MS: u64 = 30_000;

/// The least noise for which an operator signs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoiseFloor {
    /// Any noise is accepted, including the paper's mode.
    None,
    /// The config's noise must keep this promise over all services; the paper's mode is not
    /// accepted.
    Promise {
        /// The epsilon: odds may change by a factor of at most `e^epsilon`.
        epsilon: f64,
        /// The probability with which odds may change more.
        delta: f64,
        /// The number of rounds of each service, all together.
        rounds: [u64; 3],
    },
}

snapshot!(enum NoiseFloor [None, Promise { epsilon, delta, rounds }]);

impl NoiseFloor {
    /// eps = ln 2, delta = 1e-4 over 240,000 conversation, 3,500 call and 1,000 invitation rounds
    /// together.
    pub const STANDARD: Self = Self::Promise {
        epsilon: core::f64::consts::LN_2,
        delta: 1e-4,
        rounds: [240_000, 3_500, 1_000],
    };
    /// The same rounds and delta with eps = ln 10.
    pub const RELAXED: Self = Self::Promise {
        epsilon: core::f64::consts::LN_10,
        delta: 1e-4,
        rounds: [240_000, 3_500, 1_000],
    };

    /// Returns true if the noise of a config keeps the promise of this floor over the rounds of all
    /// services together. For each service the larger one of the floor's and the config's number of
    /// rounds counts (MIX-71).
    pub fn allows_config(&self, config: &Config) -> bool {
        match self {
            Self::None => true,
            Self::Promise { delta: most, .. } => {
                // The accounting of the Vuvuzela paper is not comparable with ours, so a mix with a
                // noise floor accepts Gaussian noise only (MIX-4).
                let gauss = |policy: &ServicePolicy| policy.mode == Mode::Gauss;
                config.services.iter().all(gauss) && self.reached_delta(config) <= *most
            }
        }
    }

    /// Returns the delta that the noise of a config reaches at the epsilon of this floor; 0 without a
    /// floor.
    pub fn reached_delta(&self, config: &Config) -> f64 {
        let Self::Promise { epsilon, rounds, .. } = self else { return 0.0 };
        let spent = config.services.iter().map(|policy| {
            let least = rounds[usize::from(policy.service.number()) - 1];
            // A config with few rounds must not pass with less noise (MIX-71).
            RoundsSpent::from_policy(policy, policy.rounds.max(least))
        });
        delta(&spent.collect::<Vec<_>>(), *epsilon)
    }
}

impl<B: Backend> Mix<B> {
    /// Handles `NEW_ROUND`: draws a fresh key, which is never stored on disk (MIX-13).
    pub(super) fn begin_round(
        &mut self,
        id: RoundId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        let (config, policy, position) = self.find_place(id)?;
        let under_way = self.rounds.keys().filter(|round| round.service == id.service);
        let used = self.setup.signed.get(&id.service).is_some_and(|last| id.round <= *last);
        // A round that was signed before a restart must never get a second key (MIX-15).
        if used || self.rounds.contains_key(&id) {
            return Err(MixError::Round);
        }
        if under_way.count() >= ROUNDS_IN_FLIGHT {
            return Err(MixError::TooMany);
        }
        if !is_now(policy, id.round, now) {
            return Err(MixError::Clock);
        }
        let noise = policy.noise_max();
        let onions = u64::from(config.users_max) * u64::from(policy.slots);
        // Drawn for this round and held in memory only (MIX-13).
        let secret = Secret::<32>::random(rng);
        let round = Round {
            id,
            config: config.hash(),
            keys: config.mix_keys().copied().collect(),
            coordinator: config.coordinator.key,
            policy: policy.clone(),
            batch_max: onions + noise * u64::from(position),
            position,
            mixes: config.mixes.len() as u8,
            deadline: now.plus_ms(policy.secret_ms()),
            key: B::public_key(&B::prepare_scalar(&secret)).0,
            stage: RoundState::Keyed(Arc::new(Scalar::copy_from(secret.expose()))),
        };
        let key = Frame::Round(id, FrameBody::RoundKey(round.key));
        self.rounds.insert(id, round);
        self.outputs.push_back(Output::Frame(Neighbour::Coordinator, key));
        Ok(())
    }

    /// Returns the config of a round, the policy of its service, and our position in the chain.
    fn find_place(&self, id: RoundId) -> Result<(&Config, &ServicePolicy, u8), MixError> {
        let config = self.setup.chain.of_round(id).ok_or(MixError::NoConfig)?;
        let (_, policy) = config.find_policy(id.service).ok_or(MixError::NoConfig)?;
        let own = self.setup.signer.public_key();
        let position = config.mix_keys().position(|key| *key == own).ok_or(MixError::NoConfig)?;
        Ok((config, policy, position as u8))
    }

    /// Handles SIGN: checks everything, then stores the number of the round before the signature is
    /// sent (MIX-4, MIX-5, MIX-15).
    pub(super) fn on_settings(
        &mut self,
        id: RoundId,
        settings: Settings,
        now: Time,
    ) -> Result<(), MixError> {
        let (config, policy, _) = self.find_place(id)?;
        let round = self.rounds.get(&id);
        let own = config.hash();
        let Some(Round { stage: RoundState::Keyed(_), key, position, config: began, .. }) = round
        else {
            return Err(MixError::UnknownRound);
        };
        if !is_now(policy, id.round, now) {
            return Err(MixError::Clock);
        }
        if self.setup.signed.get(&id.service).is_some_and(|last| id.round <= *last) {
            return Err(MixError::Round);
        }
        let index = config.find_policy(id.service).map(|(index, _)| index);
        let said = (settings.collect_ms, settings.slots, settings.buckets);
        // The round draws its noise by the config under which it began.
        let agreed = settings.config == own
            && own == *began
            && Some(settings.policy) == index
            && said == (policy.collect_ms, policy.slots, policy.buckets)
            && settings.keys.len() == config.mixes.len()
            && settings.keys.get(usize::from(*position)) == Some(key);
        // Any difference could give one client other sizes or times than all others (MIX-4).
        if !agreed {
            return Err(MixError::Settings);
        }
        // The operator's floor is checked last, because it requires the accounting of all services.
        if !self.setup.floor.allows_config(config) {
            return Err(MixError::Noise);
        }
        let round = self.find_round(id)?;
        if let RoundState::Keyed(secret) = &round.stage {
            round.stage = RoundState::Storing(Arc::clone(secret), settings);
        }
        // Set now, because a second number may be on its way to disk before the first is stored.
        let last = self.setup.signed.entry(id.service).or_default();
        *last = id.round.max(*last);
        // The number must be durable before the signature leaves, or a restart could sign twice
        // (MIX-15).
        self.outputs.push_back(Output::Store(id));
        Ok(())
    }

    /// Handles the durable number: signs the settings and begins with the noise.
    pub(super) fn on_stored(&mut self, id: RoundId) -> Result<(), MixError> {
        let round = self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)?;
        let RoundState::Storing(secret, settings) = &round.stage else {
            return Err(MixError::Unasked);
        };
        let keys = settings.keys.iter().zip(0_u8..);
        let layers: Vec<Layer> =
            keys.map(|(key, position)| Layer { id, position, key: PublicKey(*key) }).collect();
        let signature = settings.sign(&self.setup.signer);
        // Noise enters after this mix, so it has the layers of the later mixes only.
        let later = layers[usize::from(round.position) + 1..].to_vec();
        let noise = OwnNoise { plan: None, parts: BTreeMap::new(), tables: None };
        let secret = Some(Arc::clone(secret));
        let open = OpenRound { layers, secret, noise, incoming: None, leaving: None, mixed: None };
        round.stage = RoundState::Open(Box::new(open));
        let has_noise = round.has_noise();
        let signed = Frame::Round(id, FrameBody::Signature(signature));
        self.outputs.push_back(Output::Frame(Neighbour::Coordinator, signed));
        if has_noise {
            self.outputs.push_back(Output::Job(Job::Table(TableJob { id, layers: later })));
        }
        Ok(())
    }

    /// Handles ABORT of another server: the round ends here, too, if its sender signed the ABORT.
    pub(super) fn on_abort(
        &mut self,
        id: RoundId,
        position: u8,
        reason: AbortReason,
        signature: &Signature,
    ) -> Result<(), MixError> {
        let round = self.find_round(id)?;
        let key = match position {
            COORDINATOR => Some(&round.coordinator),
            mix => round.keys.get(usize::from(mix)),
        };
        let bytes = abort_bytes(&round.config, id, position, reason);
        let valid = |key| sign::verify(key, Purpose::Abort, &[&bytes], signature);
        if !key.is_some_and(valid) {
            return Err(MixError::Signature);
        }
        // Dropping the round wipes it (MIX-14). The coordinator notifies all mixes, so nothing is
        // forwarded here.
        self.rounds.remove(&id);
        Ok(())
    }
}

/// Returns true if `now` is between the request for keys and the close of a round, with 30 s
/// tolerance (MIX-34). Otherwise one signature for a far round would disable a mix permanently.
fn is_now(policy: &ServicePolicy, round: u64, now: Time) -> bool {
    policy.opens_around(round, now, CLOCK_MS).is_some()
}
