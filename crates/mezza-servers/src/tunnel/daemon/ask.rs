//! Requests over the control socket.

use std::collections::BTreeMap;

use mezza_core::Time;
use mezza_seka::{LinkId, PairingInput, PeerInput};
use serde_json::json;

use super::super::config::PairNote;
use super::super::control::{LinkAsk, describe_link};
use super::super::link::Link;
use super::super::store::DamagedPeer;
use super::{Daemon, WaitingRekey, no_link};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest};

/// How long a command waits for the exchange that it requested, ms.
const REKEY_MS: u64 = 10_000;
/// Maximum number of commands that wait for an exchange.
const REKEYS_MAX: usize = 64;

impl Daemon {
    pub(super) fn answer_request(
        &mut self,
        ControlRequest { asked, answer }: ControlRequest<LinkAsk>,
    ) {
        let now = self.read_clock().boot;
        let done = match asked {
            LinkAsk::Show { name, follow } => self.show_links(name, follow, &answer),
            LinkAsk::Rekey { name } => self.rekey_link(&name, &answer, now),
            LinkAsk::Forget { name } => self.forget_link(&name).map(|()| {
                answer.send_line(&json!({ "event": "forgotten", "name": name }));
            }),
            LinkAsk::Pair(ask) => self.start_pairing(ask, &answer),
            LinkAsk::Confirm { digits, equal } => self.confirm_digits(&digits, equal, now),
        };
        if let Err(fault) = done {
            answer.send_fault(&fault);
        }
    }

    /// Requests new keys; the response follows when the exchange is accepted or fails.
    fn rekey_link(&mut self, name: &str, answer: &ControlAnswer, now: Time) -> Result<(), Fault> {
        let link = self.link_named(name)?;
        if let Some(aside) = &link.aside {
            return Err(aside.fault.clone());
        }
        link.apply_input(PeerInput::Rekey, now);
        let waiting = WaitingRekey {
            link: link.number,
            until: now.plus_ms(REKEY_MS),
            answer: answer.clone(),
        };
        // The limit bounds the memory that repeated requests can take.
        if self.rekeys.len() >= REKEYS_MAX {
            return Err(Fault::new(Exit::Busy, "too many ask for new keys", "wait a moment"));
        }
        self.rekeys.push(waiting);
        Ok(())
    }

    /// Responds to the commands that waited for this exchange.
    pub(super) fn answer_rekeys(&mut self, link: u16, ms: u64) {
        self.rekeys.retain(|waiting| {
            if waiting.link == link {
                waiting.answer.send_line(&json!({ "event": "accepted", "exchange_ms": ms }));
            }
            waiting.link != link
        });
    }

    /// Responds to commands whose exchange was not accepted in time.
    pub(super) fn end_rekeys(&mut self, now: Time) {
        let (over, waiting) = std::mem::take(&mut self.rekeys)
            .into_iter()
            .partition::<Vec<_>, _>(|waiting| waiting.until <= now);
        self.rekeys = waiting;
        for waiting in over {
            let name = self.links.get(&waiting.link).map_or("", |link| link.plan.name.as_str());
            let text = format!("{name} has no new keys: the peer did not answer within 10 s");
            let next = format!("look at `mezza link show {name}`; it goes on trying");
            waiting.answer.send_fault(&Fault::new(Exit::Busy, text, next));
        }
    }

    /// Applies the user's decision to the digits that were shown, and to no others (SEKA-88).
    fn confirm_digits(&mut self, digits: &str, equal: bool, now: Time) -> Result<(), Fault> {
        match &mut self.pairing {
            Some(run) if run.digits.as_deref() == Some(digits) => {
                run.apply_input(PairingInput::Confirm(equal), now);
                Ok(())
            }
            _ => {
                let text =
                    format!("the pairing with the digits {digits} is over; nothing was kept of it");
                Err(Fault::new(Exit::No, text, "run `mezza link pair` again on both sides"))
            }
        }
    }

    fn link_named(&mut self, name: &str) -> Result<&mut Link, Fault> {
        let link = self.links.values_mut().find(|link| link.plan.name == name);
        link.ok_or_else(|| no_link(name))
    }

    fn show_links(
        &mut self,
        name: Option<String>,
        follow: bool,
        answer: &ControlAnswer,
    ) -> Result<(), Fault> {
        if let Some(name) = &name {
            self.link_named(name)?;
        }
        self.answer_show(name.as_deref(), answer);
        if follow {
            self.followers.push((name, answer.clone()));
        }
        Ok(())
    }

    pub(super) fn answer_show(&self, name: Option<&str>, answer: &ControlAnswer) -> bool {
        let now = self.read_clock().boot;
        let links =
            self.links.values().filter(|link| name.is_none_or(|name| link.plan.name == name));
        let mut links = links;
        links.all(|link| answer.send_line(&describe_link(link, now)))
    }

    /// Ends the link of this name and erases its pairing.
    pub fn forget_link(&mut self, name: &str) -> Result<(), Fault> {
        let running = self.links.iter().find(|(_, link)| link.plan.name == name);
        let running = running.map(|(number, link)| (*number, link.peer.record().peer));
        let idle = self.idle.iter().find(|(_, (known, _))| known == name);
        let idle = idle.map(|(number, (_, peer))| (*number, *peer));
        let Some((number, peer)) = running.or(idle) else { return self.forget_damaged(name) };
        let ended = self.links.remove(&number).map_or(Ok(()), |link| link.end_interface());
        self.idle.remove(&number);
        self.store.close_file(number);
        self.publish_tables();
        // The record is erased first: if the interface cannot be removed, it holds no keys.
        self.folder.forget_pairing(peer)?;
        ended
    }

    /// Erases a pairing whose record cannot be opened; the note beside it has the name.
    fn forget_damaged(&mut self, name: &str) -> Result<(), Fault> {
        let named = |damaged: &DamagedPeer| {
            let note = damaged.peer.and_then(|peer| PairNote::load(&self.folder.notes_path(peer)?));
            note.is_some_and(|note| note.name == name)
        };
        let at = self.damaged.iter().position(named).ok_or_else(|| no_link(name))?;
        let gone = self.damaged.remove(at);
        gone.peer.map_or(Ok(()), |peer| self.folder.forget_pairing(peer))
    }

    /// Returns all paired devices by link: name and device.
    pub(super) fn paired_devices(&self) -> BTreeMap<u16, (String, LinkId)> {
        let running = self
            .links
            .iter()
            .map(|(number, link)| (*number, (link.plan.name.clone(), link.peer.record().peer)));
        running.chain(self.idle.iter().map(|(number, known)| (*number, known.clone()))).collect()
    }
}
