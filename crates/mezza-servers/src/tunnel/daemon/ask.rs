//! What is asked over the control socket.

use std::collections::BTreeMap;

use mezza_seka::{LinkId, PairingInput, PeerInput};
use serde_json::json;

use super::super::config::PairNote;
use super::super::control::{LinkAsk, show};
use super::super::link::Link;
use super::super::netlink;
use super::super::store::DamagedPeer;
use super::{Daemon, no_link};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest};

impl Daemon {
    pub(super) fn asked(&mut self, ControlRequest { asked, answer }: ControlRequest<LinkAsk>) {
        let now = self.moment().boot;
        let done = match asked {
            LinkAsk::Show { name, follow } => self.show(name, follow, &answer),
            LinkAsk::Rekey { name } => self.link_named(&name).map(|link| {
                link.input(PeerInput::Rekey, now);
                answer.line(&json!({ "event": "asked" }));
            }),
            LinkAsk::Forget { name } => self.forget(&name).map(|()| {
                answer.line(&json!({ "event": "forgotten", "name": name }));
            }),
            LinkAsk::Pair(ask) => self.pair(ask, &answer),
            LinkAsk::Confirm { equal } => match &mut self.pairing {
                Some(run) => {
                    run.input(PairingInput::Confirm(equal), now);
                    Ok(())
                }
                None => Err(Fault::new(Exit::No, "no pairing is under way", "begin one")),
            },
        };
        if let Err(fault) = done {
            answer.fault(&fault);
        }
    }

    fn link_named(&mut self, name: &str) -> Result<&mut Link, Fault> {
        let link = self.links.values_mut().find(|link| link.plan.name == name);
        link.ok_or_else(|| no_link(name))
    }

    fn show(
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
        let now = self.moment().boot;
        let links =
            self.links.values().filter(|link| name.is_none_or(|name| link.plan.name == name));
        let mut links = links;
        links.all(|link| answer.line(&show(link, now)))
    }

    /// Ends the link of this name and erases its pairing.
    pub fn forget(&mut self, name: &str) -> Result<(), Fault> {
        let running = self.links.iter().find(|(_, link)| link.plan.name == name);
        let running = running.map(|(number, link)| (*number, link.peer.record().peer));
        let idle = self.idle.iter().find(|(_, (known, _))| known == name);
        let idle = idle.map(|(number, (_, peer))| (*number, *peer));
        let Some((number, peer)) = running.or(idle) else { return self.forget_damaged(name) };
        if let Some(link) = self.links.remove(&number) {
            link.shared.send_under(None);
            netlink::delete(link.shared.tap.name())?;
        }
        self.idle.remove(&number);
        self.store.close(number);
        self.publish();
        self.folder.forget(peer)
    }

    /// A pairing that does not open is known by the note beside it.
    fn forget_damaged(&mut self, name: &str) -> Result<(), Fault> {
        let named = |damaged: &DamagedPeer| {
            let note = damaged.peer.and_then(|peer| PairNote::load(&self.folder.notes(peer)?));
            note.is_some_and(|note| note.name == name)
        };
        let at = self.damaged.iter().position(named).ok_or_else(|| no_link(name))?;
        let gone = self.damaged.remove(at);
        gone.peer.map_or(Ok(()), |peer| self.folder.forget(peer))
    }

    /// Everybody who is paired, by link: name and device.
    pub(super) fn known(&self) -> BTreeMap<u16, (String, LinkId)> {
        let running = self
            .links
            .iter()
            .map(|(number, link)| (*number, (link.plan.name.clone(), link.peer.record().peer)));
        running.chain(self.idle.iter().map(|(number, known)| (*number, known.clone()))).collect()
    }
}
