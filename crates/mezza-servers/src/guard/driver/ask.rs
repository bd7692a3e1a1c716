//! Requests over the control socket.

use std::collections::BTreeSet;

use mezza_guard::coin::{CoinPurpose, SlotName};
use mezza_guard::guard::{GuardConnection, Input};
use serde_json::{Value, json};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest};

use super::super::control::{GuardAsk, GuardStatusJson, describe_ledger};
use super::{GuardShell, not_durable};

/// The number that stands for the owner in outputs.
const OWNER: GuardConnection = GuardConnection(0);

/// A response that waits until its record is durable.
pub(super) struct WaitingAnswer {
    answer: ControlAnswer,
    line: Value,
}

impl GuardShell {
    pub(super) fn answer_request(&mut self, request: ControlRequest<GuardAsk>) {
        let ControlRequest { asked, answer } = request;
        let done = match asked {
            GuardAsk::Status => {
                answer.send_line(&self.describe_status());
                return;
            }
            GuardAsk::Reload => self.reload_lists(),
            GuardAsk::Unblock { dest } => Ok(self.unblock_dest(dest)),
            GuardAsk::ResetSlot { client, dest, purpose } => {
                self.reset_slot(&client, dest, purpose)
            }
        };
        match done {
            Ok(line) => self.answers.push(WaitingAnswer { answer, line }),
            Err(fault) => answer.send_fault(&fault),
        }
    }

    /// Responds to commands whose records are durable now, or could not be written.
    pub(super) fn finish_answers(&mut self, failed: &BTreeSet<GuardConnection>) {
        for WaitingAnswer { answer, line } in self.answers.drain(..) {
            if failed.contains(&OWNER) {
                answer.send_fault(&not_durable());
            } else {
                answer.send_line(&line);
            }
        }
    }

    fn describe_status(&self) -> GuardStatusJson {
        GuardStatusJson {
            running: true,
            policy: self.config.policy,
            sessions: self.machine.session_count(),
            ledger_fails: self.ledger.is_stale(),
            events: self.events.list(),
            ..describe_ledger(self.machine.ledger(), &self.peers, self.boot())
        }
    }

    fn reload_lists(&mut self) -> Result<Value, Fault> {
        let peers = self.folder.read_peers()?;
        let lists = peers.for_machine(&self.folder)?;
        self.peers = peers;
        let super::super::peers::MachineLists { clients, destinations } = lists;
        self.give(Input::Lists { clients, destinations });
        Ok(json!({ "event": "reloaded" }))
    }

    fn unblock_dest(&mut self, dest: u16) -> Value {
        for client in self.peers.client_ids().collect::<Vec<_>>() {
            self.give(Input::Unblock(client, dest));
        }
        json!({ "event": "unblocked", "dest": dest })
    }

    fn reset_slot(&mut self, client: &str, dest: u16, purpose: u8) -> Result<Value, Fault> {
        let client = self.peers.find_client(client)?;
        let purpose = CoinPurpose::from_byte(purpose).ok_or_else(|| {
            let text = format!("there is no purpose {purpose}");
            Fault::new(Exit::Usage, text, "write 1 for dialling or 2 for answering")
        })?;
        self.give(Input::ResetSlot(SlotName { client, purpose, dest }));
        Ok(json!({ "event": "reset", "dest": dest }))
    }
}
