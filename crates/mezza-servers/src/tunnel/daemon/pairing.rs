//! Pairings of a daemon: their conditions, and the steps after them.

use std::net::{SocketAddr, SocketAddrV6};

use mezza_core::{Machine, Time};
use mezza_seka::{LinkId, PairingSettings, PeerInput};
use serde_json::json;

use super::super::address::Endpoint;
use super::super::config::PairNote;
use super::super::config::refuse_name;
use super::super::control::PairAsk;
use super::super::pair::{PairingRequest, PairingRun};
use super::Daemon;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Moment;
use mezza_host::process::control::ControlAnswer;
use mezza_host::process::rng::OsRng;

impl Daemon {
    pub(super) fn start_pairing(
        &mut self,
        ask: PairAsk,
        answer: &ControlAnswer,
    ) -> Result<(), Fault> {
        if self.pairing.is_some() {
            return Err(Fault::new(Exit::Busy, "a pairing is under way", "wait for its end"));
        }
        if !(WINDOW_S_MIN..=WINDOW_S_MAX).contains(&ask.window_s) {
            let text = format!("a window of {} s", ask.window_s);
            return Err(Fault::new(Exit::Usage, text, "ask for 5 to 600 s"));
        }
        let known = self.paired_devices();
        let same = known.iter().find(|(_, (name, _))| *name == ask.name);
        if same.is_some() && !ask.replace {
            let text = format!("there is a link {} already", ask.name);
            return Err(Fault::new(Exit::No, text, "choose another --name, or add --replace"));
        }
        // Check this before the window opens; otherwise the kernel's refusal would come after the
        // pairing.
        refuse_name(&ask.name, same.is_some())?;
        let replaced = same.map(|(number, (_, id))| (*number, *id));
        let free = (0..=u16::MAX).find(|number| !known.contains_key(number)).unwrap_or(u16::MAX);
        // A new number: the link to be replaced keeps running until the new pairing is confirmed.
        let link = free;
        let own = self.folder.id();
        let mut settings = PairingSettings::new(own, &ask.name, link);
        settings.sas = ask.sas;
        settings.role = ask.role.map(Into::into);
        settings.window_ms = ask.window_s * 1_000;
        settings.peer = ask.peer.as_deref().map(peer_id).transpose()?;
        settings.known = known
            .values()
            .map(|(_, id)| *id)
            .filter(|id| replaced.is_none_or(|(_, gone)| gone != *id))
            .collect();
        let plan =
            self.options.settings.plan_link(&PairNote::new(&ask.name, &ask.on, ask.carrier))?;
        settings.peer_settings = plan.peer;
        let carrier = self.open_carrier(&ask.on, ask.carrier, plan.listen)?.carrier;
        let to = parse_target(&ask, carrier.interface(), plan.listen)?;
        if to.is_none() && carrier.all_nodes().is_none() {
            return Err(no_link_local(&ask.on));
        }
        let Moment { wall, boot } = self.read_clock();
        let key = self.folder.key();
        let request = PairingRequest { ask, carrier, answer: answer.clone(), key, to };
        let mut run = PairingRun::begin(request, settings, boot, wall);
        run.listen = plan.listen;
        self.pairing = Some(run);
        self.publish_tables();
        Ok(())
    }

    /// Acts on the state of a pairing: it failed, it succeeded, or it needs a file to be stored in.
    pub(super) fn settle_pairing(&mut self, now: Time) -> Result<(), Fault> {
        let known = self.paired_devices();
        let Some(run) = &mut self.pairing else { return Ok(()) };
        let before = run.found;
        let name = |id: &LinkId| {
            let same = known.values().find(|(_, known)| known == id);
            same.map_or_else(|| "another link".to_owned(), |(name, _)| name.clone())
        };
        let mut failed = run.settle_outputs(&self.store, &name, now);
        if let (None, Some(found)) = (before, run.found) {
            // From here on a crash leaves a record that the next start can run.
            let note = PairNote {
                listen: run.listen,
                ..PairNote::new(&run.ask.name, &run.ask.on, run.ask.carrier)
            };
            if let Some(path) = self.folder.fresh_note(found) {
                // A full disk fails this pairing and no running link.
                failed = failed.or(note.save_to(&path).err());
            }
            // The old record of a replaced pairing stays until the new one is confirmed.
            self.store.open(run.link, self.folder.fresh_file(found));
        }
        if let Some(mut fault) = failed {
            // This machine has no link-local address, so it could not send to all devices: report
            // this cause instead of silence.
            if fault.code == Exit::Busy
                && run.asks_everybody_over_udp()
                && !has_link_local(&run.ask.on)
            {
                fault = no_link_local(&run.ask.on);
            }
            run.send_fault(&fault);
            if let Some(found) = run.found {
                self.store.close_file(run.link);
                self.folder.discard_pairing(found);
            }
            self.pairing = None;
            self.publish_tables();
            return if self.options.serve { Ok(()) } else { Err(fault) };
        }
        if run.is_over(now)
            && let Some(run) = self.pairing.take()
        {
            let answer = run.answer();
            if let Err(fault) = self.keep_pairing(run, now) {
                // A pairing that cannot be stored ends no other link.
                answer.send_fault(&fault);
                self.publish_tables();
                return if self.options.serve { Ok(()) } else { Err(fault) };
            }
        }
        Ok(())
    }

    /// Completes a pairing: writes its note, removes a replaced pairing of its name, and brings the
    /// link up.
    fn keep_pairing(&mut self, run: PairingRun, now: Time) -> Result<(), Fault> {
        let ask = run.ask.clone();
        let link = run.link;
        let confirmed = run.is_confirmed();
        let (mut peer, endpoint, answer) =
            run.into_peer().ok_or_else(|| Fault::bug("a pairing that stands has no peer"))?;
        let id = peer.record().peer;
        let mut note = PairNote::new(&ask.name, &ask.on, ask.carrier);
        note.listen = self.options.settings.plan_link(&note)?.listen;
        if let Some(path) = self.folder.notes_path(id) {
            note.save_to(&path)?;
        }
        self.end_replaced(&ask.name, link, id)?;
        self.folder.promote_pairing(id)?;
        let _ = peer.handle(PeerInput::Heard(endpoint.stored_address()), now, &mut OsRng);
        let value = json!({
            "event": "paired", "name": ask.name, "peer": id.to_string(),
            "pairing": if ask.sas { "digits" } else { "unverified" }, "on": ask.on,
            "confirmed": confirmed,
        });
        if self.options.serve {
            let plan = self.options.settings.plan_link(&note)?;
            self.bring_up(*peer, plan, now);
        } else {
            self.idle.insert(link, (ask.name.clone(), id));
        }
        self.paired = true;
        self.publish_tables();
        answer.send_line(&value);
        Ok(())
    }

    /// Removes the replaced link of this name, with its record unless the new pairing is with the
    /// same device and takes its file.
    fn end_replaced(&mut self, name: &str, link: u16, id: LinkId) -> Result<(), Fault> {
        let known = self.paired_devices();
        let old = known.iter().find(|(number, (known, _))| **number != link && known == name);
        let Some((number, (_, old))) = old else { return Ok(()) };
        if let Some(running) = self.links.remove(number) {
            running.end_interface()?;
        }
        self.idle.remove(number);
        self.store.close_file(*number);
        if *old == id {
            return Ok(());
        }
        self.folder.forget_pairing(*old)
    }
}

/// The shortest and the longest window.
const WINDOW_S_MIN: u64 = 5;
const WINDOW_S_MAX: u64 = 600;

/// Returns the fault for an interface on which all devices cannot be reached over UDP.
fn no_link_local(on: &str) -> Fault {
    let text = format!("{on} has no link-local address of IPv6, which pairing over UDP needs");
    Fault::new(Exit::Config, text, "pair with --carrier ether, or with --sas --to ADDRESS")
}

/// Returns true if an interface has a link-local address of IPv6. An interface that just came up
/// gets its address a moment later.
fn has_link_local(on: &str) -> bool {
    let is_local = |address: SocketAddrV6| address.ip().is_unicast_link_local();
    let mut all = nix::ifaddrs::getifaddrs().into_iter().flatten();
    all.any(|found| {
        let address = found.address.as_ref().and_then(|address| address.as_sockaddr_in6());
        found.interface_name == on && address.is_some_and(|address| is_local((*address).into()))
    })
}

fn peer_id(text: &str) -> Result<LinkId, Fault> {
    let bytes = data_encoding::HEXLOWER_PERMISSIVE.decode(text.replace(':', "").as_bytes()).ok();
    let id = bytes.and_then(|bytes| LinkId::from_bytes(bytes.try_into().ok()?));
    id.ok_or_else(|| {
        let text = format!("{text} is no name of a device");
        Fault::new(Exit::Usage, text, "write it like 3a:91:07:c2:5e:10")
    })
}

/// Returns the address for B1 instead of all devices (SEKA-36).
fn parse_target(ask: &PairAsk, interface: u32, port: u16) -> Result<Option<Endpoint>, Fault> {
    let Some(text) = &ask.to else { return Ok(None) };
    let plain = text.split('%').next().unwrap_or_default();
    let address: Option<SocketAddr> = text
        .parse()
        .ok()
        .or_else(|| plain.parse::<std::net::IpAddr>().ok().map(|ip| (ip, port).into()));
    let Some(address) = address else {
        let text = format!("{text} is no address");
        return Err(Fault::new(Exit::Usage, text, "write ADDRESS or ADDRESS:PORT"));
    };
    let endpoint = Endpoint::from_socket(address, interface);
    if !ask.sas && !endpoint.is_on_link() {
        let text = format!("{} is not on this link", address.ip());
        return Err(Fault::new(Exit::Usage, text, "pairing across a network needs --sas"));
    }
    Ok(Some(endpoint))
}
