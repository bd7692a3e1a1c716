//! The keys of a card next to a mesh node: erased in time in any state of the node.
//!
//! Erasing comes first. It depends neither on lines of the node, nor on the date, nor on free disk
//! space. Boot time alone erases keys, and the node's clock may only erase them sooner. Moves of
//! the node's clock that neighbours caused erase nothing (HIBE-74).

use mezza_hibe::floor::{ClockTrust, FloorHeld};
use mezza_hibe::{FloorRules, HeldKeys, Life, LifeFloor, System, Tick};
use serde_json::Value;

use crate::faces::cli::hibe;
use crate::faces::cli::show::Out;
use mezza_host::api::Fault;
use mezza_host::process::rng::OsRng;
use mezza_host::store::tree_folder::{TreeFolder, tree_fault};

#[cfg(test)]
mod tests;

/// Future epochs whose keys are prepared.
const AHEAD: u32 = 2;

/// The node's clock, as one of its lines reports it.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct NodeClock {
    /// The tick of network time, on which neighbours agree.
    cur: Tick,
    /// The tick of the node's own clock.
    own: Tick,
    trust: ClockTrust,
    /// True if the clock's time is used as it is. Otherwise the time minus its maximum error is
    /// used.
    settled: bool,
}

impl NodeClock {
    /// Decodes a line whose event is `clock`.
    pub(in super::super) fn of_line(line: &Value) -> Self {
        let tick = |key: &str| line[key].as_u64().and_then(|tick| u32::try_from(tick).ok());
        let cur = tick("cur").unwrap_or(0);
        // Keys outlive their time by the maximum error of the clock in ms, not by that of its grade
        // (HIBE-77).
        let trust = line["within_ms"].as_u64().map_or(ClockTrust::POOR, ClockTrust::within);
        let settled = line["grade"] == "good" || line["state"] == "agreed";
        Self { cur: Tick(cur), own: Tick(tick("anchor_tick").unwrap_or(cur)), trust, settled }
    }

    /// Returns the tick that may erase keys: neighbours can delay it, but never advance it.
    pub(in super::super) fn erasing_tick(self) -> Tick {
        self.trust.earliest_tick(Tick(self.cur.0.min(self.own.0)), self.settled)
    }

    /// Describes how long keys outlive their time.
    fn describe_lifetime(self) -> String {
        let late = if self.settled { 0 } else { self.trust.uncertainty_ticks };
        let minutes = (late + 3).div_ceil(2);
        if self.settled {
            return format!("keys live for {minutes} minutes");
        }
        format!(
            "keys live for {minutes} minutes: nobody vouches for this clock; \
             `mezza mesh clock --confirm` makes that fewer"
        )
    }
}

/// The tree with its current keys.
pub(super) struct Keys {
    folder: TreeFolder,
    system: System,
    held: HeldKeys,
    rules: FloorRules,
    told: Option<FloorHeld>,
    lives: String,
    /// True if it was reported that the keys run ahead of the clock.
    is_ahead: bool,
    /// A fault of the disk that was reported, until the disk accepts a step again.
    fault: Option<Fault>,
}

impl Keys {
    pub(super) fn new(folder: TreeFolder, boot_ms: u64) -> Self {
        let tree = folder.tree();
        // Until the node reports how accurate the clock is, it counts as the least accurate one.
        let rules = FloorRules::new(tree, ClockTrust::POOR, boot_ms);
        Self {
            folder,
            system: System::new(),
            held: HeldKeys::new(),
            rules,
            told: None,
            lives: String::new(),
            is_ahead: false,
            fault: None,
        }
    }

    pub(super) fn system(&self) -> &System {
        &self.system
    }

    pub(super) fn held(&self) -> &HeldKeys {
        &self.held
    }

    /// Erases the keys that boot time alone erases, after a time without a line from the node.
    ///
    /// # Errors
    /// If the tree is damaged.
    pub(super) fn on_time(&mut self, boot_ms: u64, out: Out) -> Result<(), Fault> {
        let floors = self.rules.update_floors(self.folder.tree(), None, boot_ms);
        self.erase_below(&floors, out)
    }

    /// Handles a new time of the node: erases expired keys, then loads the present ones.
    ///
    /// # Errors
    /// If the tree is damaged.
    pub(super) fn on_clock(
        &mut self,
        clock: NodeClock,
        boot_ms: u64,
        out: Out,
    ) -> Result<(), Fault> {
        self.rules.set_trust(clock.trust);
        let asked = Some(clock.erasing_tick());
        let floors = self.rules.update_floors(self.folder.tree(), asked, boot_ms);
        self.erase_below(&floors, out)?;
        self.warn_held(clock, &floors, out);
        let lives: Vec<Life> = self.folder.tree().card().lives().collect();
        for life in lives {
            self.expand_early(life, clock.cur, out);
            let tree = self.folder.tree();
            tree.hold_keys(&self.system, life, clock.cur, &mut self.held, &mut OsRng)
                .map_err(tree_fault)?;
        }
        Ok(())
    }

    fn warn_held(&mut self, clock: NodeClock, floors: &[LifeFloor], out: Out) {
        let confirms = floors.iter().find(|of| of.held == Some(FloorHeld::Confirm));
        let held = confirms.or(floors.first()).and_then(|of| of.held);
        if held != self.told && held == Some(FloorHeld::Confirm) {
            out.print_aside(
                "the clock is more than a day ahead of the keys: none is erased on its word; if the date \
                 is right, stop `listen` and run `mezza hibe advance --yes`",
            );
        }
        self.told = held;
        let ahead = hibe::ahead_text(self.folder.tree(), clock.cur);
        if ahead.is_some() != self.is_ahead {
            self.is_ahead = ahead.is_some();
            out.print_aside(ahead.as_deref().unwrap_or("the clock has caught up with the keys"));
        }
        let lives = clock.describe_lifetime();
        if lives != self.lives {
            out.print_aside(&lives);
            self.lives = lives;
        }
    }

    fn erase_below(&mut self, floors: &[LifeFloor], out: Out) -> Result<(), Fault> {
        for LifeFloor { life, floor, .. } in floors {
            self.held.drop_below(*life, *floor);
        }
        self.folder.tree_mut().erase_below_floors(floors, &mut OsRng).map_err(tree_fault)?;
        self.store_folder(out);
        Ok(())
    }

    /// Makes changes durable. A disk error is reported once and retried each half minute. Keys
    /// erased in memory stay erased, and messages are still shown (HIBE-75).
    fn store_folder(&mut self, out: Out) {
        match self.folder.store(&mut OsRng) {
            Ok(()) if self.fault.take().is_some() => {
                out.print_aside("the erased keys are off the disk now");
            }
            Ok(()) => (),
            Err(fault) if self.fault.as_ref() == Some(&fault) => (),
            Err(fault) => {
                out.print_aside(&format!("erased keys are still on the disk: {fault}"));
                self.fault = Some(fault);
            }
        }
    }

    /// Early expansion. It needs room on the disk, so it comes after erasing, and its faults undo nothing.
    fn expand_early(&mut self, life: Life, now: Tick, out: Out) {
        // Before the first day of a card, and after its last one, there are no keys to prepare.
        let Ok(current) = self.folder.tree().card().find_epoch(life, now) else { return };
        if !self.folder.has_room() {
            return;
        }
        let tree = self.folder.tree_mut();
        if let Err(error) = tree.prepare_life(life, current.plus(AHEAD), u32::MAX, &mut OsRng) {
            let fault = tree_fault(error);
            if self.fault.as_ref() != Some(&fault) {
                out.print_aside(&format!("keys ahead cannot be made ready: {fault}"));
                self.fault = Some(fault);
            }
            return;
        }
        self.store_folder(out);
    }
}
