//! Co-random mode: the guard offers a slot, and lets the frame pass that holds the key of both.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, Snapshot, Writer};

use super::session::{Link, Session, Stage};
use super::settings::LANES;
use super::{CloseReason, Guard, GuardConnection, GuardEvent, GuardSide, Output, StrictPolicy};
use crate::coin::{SlotIndex, SlotName};
use crate::keys::GuardClientId;
use crate::ledger::{LearnedName, LedgerRecord};
use crate::rule::{FrameRuleError, Judge};
use crate::wire::control::{Control, RefusalCode, SlotValue};

/// A handshake with coins.
pub(super) struct Coined {
    /// The slot that is offered.
    slot: Option<SlotIndex>,
    /// The key that must stand in the frame; there once Z is stored.
    public: Option<[u8; 32]>,
    /// The step of the handshake that comes next, 0 to 2.
    step: usize,
    /// The first frame of the handshake, for echoes.
    first: Vec<u8>,
    /// The frame that went out last: a repeat is byte for byte the same.
    last_out: Vec<u8>,
}

impl Coined {
    const fn new() -> Self {
        Self { slot: None, public: None, step: 0, first: Vec::new(), last_out: Vec::new() }
    }
}

/// Callers of a client whose names are learned, at most.
const LEARNED_CALLERS_MAX: usize = 16;

/// The owner of the names in a handshake: a destination, or the caller.
fn learned_name(guard: &Guard, client: GuardClientId, dest: u16, first: &[u8]) -> LearnedName {
    // A destination is one peer of the owner's list, so no caller has to be told apart.
    if !LANES.contains(&dest) {
        return LearnedName { client, dest, caller: [0; 6] };
    }
    let rule = guard.settings.table.rule_at(0);
    let caller = rule.map_or([0; 6], |rule| rule.read_pins(first).own);
    LearnedName { client, dest: LANES.start, caller }
}

impl Session {
    /// SLOT: the number that is next, and the commitment to its coin.
    pub(super) fn offer_slot(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
    ) -> Result<(), CloseReason> {
        let (client, dest) = self.pair().ok_or(CloseReason::Control)?;
        let (slot, point) =
            guard.ledger.find_slot(SlotName { client, purpose: self.purpose(), dest });
        // A slot with a point keeps the era of that point, or its rho would change (GUARD-20,
        // GUARD-22).
        let era = point.map_or(guard.era, |(_, era)| era);
        let h = guard.key.in_era(&era).derive_rho(&slot).commitment(&slot);
        if !matches!(self.stage, Stage::Coins(_)) {
            self.stage = Stage::Coins(alloc::boxed::Box::new(Coined::new()));
        }
        if let Stage::Coins(coined) = &mut self.stage {
            coined.slot = Some(slot);
        }
        self.send_control(conn, &mut guard.out, &Control::Slot(SlotValue::for_slot(&slot, h)));
        Ok(())
    }

    /// POINT: stored durably, then the coin is revealed (GUARD-20, GUARD-21).
    pub(super) fn on_point(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        point: &SlotValue,
    ) -> Result<(), CloseReason> {
        let refused = |code| Err(CloseReason::Refused(code));
        let Stage::Coins(coined) = &mut self.stage else { return refused(RefusalCode::OutOfOrder) };
        // A second POINT in one handshake would try further keys.
        let (Some(slot), None) = (coined.slot, coined.public) else {
            return refused(RefusalCode::OutOfOrder);
        };
        // Another session of the same slot may have moved on meanwhile.
        let (current, stored) = guard.ledger.find_slot(slot.name);
        let is_of_slot = (point.purpose, point.index) == (slot.name.purpose, slot.index);
        if !is_of_slot || current != slot {
            return refused(RefusalCode::OutOfOrder);
        }
        let era = stored.map_or(guard.era, |(_, era)| era);
        let rho = guard.key.in_era(&era).derive_rho(&slot);
        // Computed before it is stored: a malformed point must not take the slot.
        let public = rho.public_key(guard.settings.encoding, &point.value);
        let Ok(public) = public else { return refused(RefusalCode::OutOfOrder) };
        match stored {
            // A client that sees rho and changes Z would choose X (GUARD-21).
            Some((z, _)) if z != point.value => return refused(RefusalCode::SlotTaken),
            Some(_) => {}
            // Durable before COIN: after a crash the same Z must be asked for (GUARD-20).
            None => guard.persist_record(conn, LedgerRecord::Point(slot, point.value, era)),
        }
        coined.public = Some(public);
        let first = if self.is_dialling { None } else { Some(coined.first.clone()) };
        let coin = SlotValue::for_slot(&slot, *rho.encode());
        self.send_control(conn, &mut guard.out, &Control::Coin(coin));
        match first {
            // The destination is dialled only now, so that an unfinished client causes no
            // connection.
            None => self.request_link(guard, conn),
            Some(frame) => guard.out.push_back(Output::Send(conn, GuardSide::Inside, frame)),
        }
        Ok(())
    }

    /// A frame of the client on its way to the wire.
    pub(super) fn pass_outgoing(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        match &self.stage {
            Stage::New if guard.settings.policy == StrictPolicy::Report => {
                self.pass_uncovered(guard, conn, GuardSide::Wire, frame)
            }
            // Nothing of the client leaves before its rule is known (GUARD-31, GUARD-33).
            Stage::New => Err(CloseReason::Frame(FrameRuleError::Form)),
            Stage::Blind(..) => self.pass_blind(guard, conn, GuardSide::Inside, frame, rng),
            Stage::Coins(_) => self.coined_out(guard, conn, frame),
            Stage::Forward => self.pass_record(guard, conn, GuardSide::Wire, frame),
        }
    }

    /// A frame that no rule covers passes under `report`, if the other side stands.
    pub(super) fn pass_uncovered(
        &self,
        guard: &mut Guard,
        conn: GuardConnection,
        to: GuardSide,
        frame: &[u8],
    ) -> Result<(), CloseReason> {
        // There is no connection that the frame could leave by.
        if self.link != Link::Both {
            return Err(CloseReason::Frame(FrameRuleError::Form));
        }
        guard.out.push_back(Output::Event(GuardEvent::Uncovered(conn)));
        guard.out.push_back(Output::Send(conn, to, frame.to_vec()));
        Ok(())
    }

    fn coined_out(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        frame: &[u8],
    ) -> Result<(), CloseReason> {
        let (client, dest) = self.pair().ok_or(CloseReason::Control)?;
        let is_ready = self.link == Link::Both;
        let Stage::Coins(coined) = &mut self.stage else { return Err(CloseReason::Control) };
        // X leaves only with its point stored and the other side connected (GUARD-22).
        let (true, Some(slot), Some(public)) = (is_ready, coined.slot, &coined.public) else {
            return Err(CloseReason::Refused(RefusalCode::OutOfOrder));
        };
        // A repeat is byte for byte the same, so it carries nothing new.
        if !coined.last_out.is_empty() && coined.last_out == frame {
            guard.out.push_back(Output::Send(conn, GuardSide::Wire, frame.to_vec()));
            return Ok(());
        }
        // Frames out of turn would be handshakes without an answer in between.
        let own_turn = coined.step.is_multiple_of(2) == self.is_dialling;
        let rule = guard.settings.table.rule_at(coined.step).filter(|_| own_turn);
        let rule = rule.ok_or(CloseReason::Frame(FrameRuleError::Form))?;
        let settings = guard.settings.find_destination(dest);
        let name = learned_name(guard, client, dest, &coined.first);
        // What the owner pinned comes before what was learned (GUARD-44).
        let known =
            settings.and_then(|dest| dest.pins.as_ref()).or(guard.ledger.learned_pins(&name));
        let learns = known.is_none();
        if learns && !self.is_dialling {
            // A confederate on the wire would bring a fresh name, and with it 16 bits, each time.
            let callers = guard.ledger.learned_callers(client, name.dest);
            if callers >= LEARNED_CALLERS_MAX {
                return Err(CloseReason::Frame(FrameRuleError::Form));
            }
        }
        let judge = Judge {
            pins: known,
            public: Some(public),
            first: if coined.step == 0 { frame } else { &coined.first },
            counter: guard
                .ledger
                .last_counter(client, dest)
                .or(settings.and_then(|dest| dest.counter)),
        };
        let judged = rule.judge_frame(frame, &judge).map_err(CloseReason::Frame)?;
        let held = rule.read_pins(frame);
        // The first frame of this end is the one that carries X: the slot moves on (GUARD-22).
        let carries_key = coined.step <= 1;
        // Another session of the same slot may have used it up meanwhile.
        if carries_key && guard.ledger.find_slot(slot.name).0 != slot {
            return Err(CloseReason::Refused(RefusalCode::OutOfOrder));
        }
        if coined.step == 0 {
            coined.first = frame.to_vec();
        }
        coined.step += 1;
        coined.last_out = frame.to_vec();
        let is_over = coined.step > 2;
        // A gap of the counter is a channel of 4 bits, so it counts as a refusal (GUARD-35).
        self.owed.gap |= judged.has_gap;
        self.owed.answer |= judged.has_mac;
        self.owed.frame = false;
        if carries_key {
            // Durable before the frame leaves: otherwise a crash could reuse the slot for a second
            // X (GUARD-22).
            guard.persist_record(conn, LedgerRecord::Advanced(slot, judged.counter));
            // Names are free once: all later handshakes hold what the first one held.
            if learns {
                guard.persist_record(conn, LedgerRecord::Learned(name, held));
            }
        }
        guard.out.push_back(Output::Send(conn, GuardSide::Wire, frame.to_vec()));
        if is_over {
            self.begin_forwarding(guard, conn);
        }
        Ok(())
    }

    /// A frame of the wire on its way to the client.
    pub(super) fn pass_incoming(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        match &mut self.stage {
            // The client has not named itself, so no frame of the wire has an addressee.
            Stage::New if self.is_dialling => Err(CloseReason::Frame(FrameRuleError::Form)),
            Stage::New => self.first_inbound(guard, conn, frame, rng),
            Stage::Blind(..) => self.pass_blind(guard, conn, GuardSide::Wire, frame, rng),
            Stage::Forward => self.pass_record(guard, conn, GuardSide::Inside, frame),
            Stage::Coins(coined) => {
                let their_turn = coined.step.is_multiple_of(2) != self.is_dialling;
                let rule = guard.settings.table.rule_at(coined.step).filter(|_| their_turn);
                // A repeat of theirs passes; what it means is for the ends to say.
                let repeats =
                    coined.step.checked_sub(1).and_then(|at| guard.settings.table.rule_at(at));
                let is_repeat = !their_turn && repeats.is_some_and(|rule| rule.fits_frame(frame));
                if !is_repeat {
                    // What an answer repeats is right, or nobody who heard the question has made it.
                    let fits = |rule: &crate::rule::FrameRule| {
                        rule.fits_frame(frame) && rule.echoes_first(frame, &coined.first)
                    };
                    if !rule.is_some_and(fits) {
                        return Err(CloseReason::Frame(FrameRuleError::Form));
                    }
                    // KE2 answers t1, KE3 answers t2.
                    coined.step += 1;
                    // Only a peer that accepted the MAC answers, so the handshake does not count as
                    // refused (GUARD-35).
                    self.owed.answer = false;
                }
                let is_over = coined.step > 2;
                guard.out.push_back(Output::Send(conn, GuardSide::Inside, frame.to_vec()));
                if is_over {
                    self.begin_forwarding(guard, conn);
                }
                Ok(())
            }
        }
    }

    /// The first frame of an inbound connection: the client is dialled after it has passed its rule.
    fn first_inbound(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        frame: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), CloseReason> {
        // A second frame would arrive before the client is there, and nothing is queued for it
        // (GUARD-36).
        if self.link != Link::One {
            return Err(CloseReason::Frame(FrameRuleError::Form));
        }
        if self.mode == crate::wire::control::GuardMode::Blind {
            self.stage = Stage::blind(crate::gkx::GkxGuard::for_answering());
            return self.pass_blind(guard, conn, GuardSide::Wire, frame, rng);
        }
        // A caller outside of the rule must not wake the client.
        if !guard.settings.table.rule_at(0).is_some_and(|rule| rule.fits_frame(frame)) {
            return Err(CloseReason::Frame(FrameRuleError::Form));
        }
        let coined = Coined { first: frame.to_vec(), step: 1, ..Coined::new() };
        self.stage = Stage::Coins(alloc::boxed::Box::new(coined));
        self.request_link(guard, conn);
        Ok(())
    }
}

impl Snapshot for Coined {
    fn snapshot_into(&self, w: &mut Writer) {
        let Self { slot, public, step, first, last_out } = self;
        w.put_u64(slot.map_or(0, |slot| slot.index + 1)).put_bytes(&public.unwrap_or_default());
        w.put_u64(*step as u64).put_var16(first).put_var16(last_out);
    }
}
