//! The effects of an input: early events, one commit, late events and orders.

use std::collections::BTreeSet;

use mezza_messenger::io::KeyringStep;
use mezza_messenger::{CarrierInput, Event, Input, Output, RecordChange, RecordKind, WriteBatch};

use super::beside::Beside;
use super::{DeferredCommit, LATER_MS, NodeShell, UnlockedVault, ask, load_device};
use crate::node::event_log;
use crate::node::plan::{self, CommitPlan};
use mezza_host::api::json::EventKind;
use mezza_host::api::{Fault, Refused};
use mezza_host::backup::BackupState;

impl NodeShell {
    /// Collects the device's outputs, and publishes events that need not wait for the commit.
    pub(super) fn drain_outputs(&mut self) -> Result<CommitPlan, Refused> {
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        let turn = plan::drain_device(&mut open.device);
        if !turn.batches.is_empty() {
            self.tell_early(&turn.early);
        }
        Ok(turn)
    }

    /// Commits once, then carries out the rest in order (messenger 5.1), and reports durable rows
    /// to the device. Facts that may wait are committed with the next plan.
    pub(super) fn finish_plan(&mut self, mut plan: CommitPlan) -> Result<(), Refused> {
        if plan.is_empty() {
            return Ok(());
        }
        self.look_for_changes(&mut plan);
        if plan.may_wait && plan.late.is_empty() && !plan.batches.is_empty() {
            self.later.shows.extend(plan.early);
            self.later.batches.extend(plan.batches);
            self.later.end.get_or_insert(self.options.clock.boot().plus_ms(LATER_MS));
            return Ok(());
        }
        self.commit_batches(plan.early, plan.batches)?;
        self.perform_outputs(plan.late);
        for (carrier, number) in std::mem::take(&mut self.durable) {
            self.run_command(Input::Stored(carrier, number))?;
        }
        for generation in std::mem::take(&mut self.keyrings) {
            self.run_command(Input::Carrier(CarrierInput::keyring_stored(generation)))?;
        }
        Ok(())
    }

    /// Adds the rows for changes of the contacts in a plan.
    fn look_for_changes(&mut self, plan: &mut CommitPlan) {
        let now = self.date();
        let Some(UnlockedVault { device, beside, .. }) = &mut self.open else { return };
        let late = plan.late.iter().filter_map(|output| match output {
            Output::Notify(event) => Some(event),
            _ => None,
        });
        let ids = plan.early.iter().chain(late).filter_map(|event| match event {
            Event::Contact(id) | Event::ContactGone(id) => Some(*id),
            _ => None,
        });
        for id in ids.collect::<BTreeSet<_>>() {
            let batch = beside.compare_contact(id, device.contact(id).as_ref(), plan.own, now);
            if !batch.0.is_empty() {
                plan.batches.push(batch);
            }
        }
    }

    pub(super) fn commit_later(&mut self) -> Result<(), Refused> {
        if self.later.end.is_none() { Ok(()) } else { self.commit_batches(Vec::new(), Vec::new()) }
    }

    /// Commits waiting and new batches as one transaction.
    pub(super) fn commit_batches(
        &mut self,
        shows: Vec<Event>,
        new: Vec<WriteBatch>,
    ) -> Result<(), Refused> {
        let mut later = std::mem::take(&mut self.later);
        later.batches.extend(new);
        later.shows.extend(shows);
        if later.batches.is_empty() {
            later.shows.into_iter().for_each(|event| self.push_event(event));
            return Ok(());
        }
        let began = self.options.clock.boot();
        let open = self.open.as_mut().ok_or_else(Refused::locked)?;
        later.batches.extend(open.witness_batch(&later.batches));
        later.batches.extend(open.due_date_batch(began));
        if let Err(fault) = open.vault.commit(&later.batches) {
            return Err(self.reload_device(fault));
        }
        open.settle_witness();
        open.date.adopt_next();
        self.commit_ms = self.options.clock.boot().since_ms(began);
        later.shows.into_iter().for_each(|event| self.push_event(event));
        self.show_thief(&later.batches);
        Ok(())
    }

    fn tell_early(&self, shows: &[Event]) {
        let Some(open) = &self.open else { return };
        for event in shows {
            self.events.tell_early(ask::describe_event(&open.device, *event, self.date()));
        }
    }

    fn push_event(&self, event: Event) {
        let Some(open) = &self.open else { return };
        self.events.push_event(ask::describe_event(&open.device, event, self.date()));
    }

    /// Passes the stored form of new notes to the observer.
    fn show_thief(&self, batches: &[WriteBatch]) {
        let observer = self.options.observer.as_ref().filter(|observer| observer.is_on());
        let (Some(observer), Some(open)) = (observer, &self.open) else { return };
        let changes = batches.iter().flat_map(|batch| &batch.0);
        // A turn may store one note several times; only the last version is on disk.
        let notes: BTreeSet<&[u8]> = changes
            .filter_map(|change| match change {
                RecordChange::Put { kind: RecordKind::Note, key, .. } => Some(key.as_slice()),
                _ => None,
            })
            .collect();
        for key in notes {
            if let Ok(Some((place, body))) = open.vault.sealed_row(RecordKind::Note, key) {
                observer.record_disk_row(place, &body);
            }
        }
    }

    pub(super) fn perform_outputs(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match (output, &self.open) {
                (Output::Notify(event), _) => self.push_event(event),
                (Output::Carrier(order), open) => {
                    let doubted = open.as_ref().is_some_and(UnlockedVault::is_doubted);
                    match order.into_keyring_step() {
                        Ok(step) => self.store_keyring(step),
                        Err(order) => self.adapters.carry_out_order(*order, doubted),
                    }
                }
                (Output::Durable(carrier, number), _) => self.durable.push((carrier, number)),
                (Output::Store(_), _) => {}
            }
        }
    }

    /// Stores a step of a keyring (MSG-135). A disk that refuses is logged, and the next step
    /// contains this one: erased keys are erased in memory already (HIBE-75). A tree that was never
    /// stored is on no card yet (MSG-135), so that a crash before the next step loses nothing.
    fn store_keyring(&mut self, step: KeyringStep) {
        let Some(open) = &mut self.open else { return };
        let KeyringStep { generation, before, keyring, after } = step;
        let stored = open
            .vault
            .commit(&[before])
            .and_then(|()| open.vault.store_tree_ring(&keyring))
            .and_then(|()| open.vault.commit(&[after]));
        match stored {
            Ok(()) => self.keyrings.push(generation),
            Err(fault) => {
                tracing::warn!(code = fault.code.number(), "erased keys are still on the disk");
            }
        }
    }

    /// Treats a failed commit as a crash: loads the device from the vault again.
    pub(super) fn reload_device(&mut self, fault: Fault) -> Refused {
        tracing::warn!(code = fault.code.number(), "a commit failed; loading again");
        self.adapters.lock_relay();
        // Pending inputs and outputs of the old device are dropped with it.
        (self.later, self.heard) = (DeferredCommit::default(), None);
        self.durable.clear();
        self.keyrings.clear();
        let Some(open) = self.open.take() else {
            self.adapters.on_device_gone();
            return fault.into();
        };
        // Use the date of the vault and not of the clock: a correction may not be stored yet.
        let now = open.date.current_date(self.options.clock.boot());
        let doubted = open.is_doubted();
        if open.is_first_commit {
            // A vault that was restored begins with a new era in its first commit. Without it the device
            // would seal under numbers of another life (MSG-91).
            self.adapters.on_device_gone();
            self.events.push_event(event_log::plain_event(EventKind::Locked));
            return fault.into();
        }
        let UnlockedVault { mut vault, device, witness, mut date, put_back, .. } = open;
        // A failing disk must show observers as little as a lock does, so the line to the mixnet
        // continues (MIX-78).
        let line = device.into_carriers().into_line(now).filter(|_| !doubted);
        let loaded = vault.reload_records().and_then(|mut records| {
            let backups = BackupState::of_records(&records);
            let beside = Beside::take_rows(&mut records);
            Ok((beside, backups, load_device(&vault, records, now, line)?))
        });
        match loaded {
            Ok((mut beside, backups, mut device)) => {
                beside.begin_looks(&device);
                date.forget_stored();
                let turn = plan::drain_device(&mut device);
                // The first batches of a fresh device are small. If even these cannot be committed,
                // the node stays locked.
                if vault.commit(&turn.batches).is_ok() {
                    let open = UnlockedVault::new(vault, device, date);
                    let is_first_commit = false;
                    self.open = Some(UnlockedVault {
                        beside,
                        witness,
                        put_back,
                        backups,
                        is_first_commit,
                        ..open
                    });
                    turn.early.into_iter().for_each(|event| self.push_event(event));
                    self.perform_outputs(turn.late);
                    self.serve_device();
                } else {
                    self.adapters.lock_but_for(device.into_carriers().into_line(now), now);
                }
            }
            Err(_) => self.adapters.on_device_gone(),
        }
        let kind = if self.open.is_some() { EventKind::Reload } else { EventKind::Locked };
        self.events.push_event(event_log::plain_event(kind));
        fault.into()
    }
}
