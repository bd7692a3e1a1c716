//! The links of a node: which are up, how many frames each accepts, and from which addresses
//! streams are accepted.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mezza_core::Time;
use mezza_mesh::limits::{CAST_BYTES_MAX, CASTS_MAX, STREAM_BYTES_MAX, STREAMS_MAX};
use mezza_mesh::node::{Input, LinkKind, LinkNumber, Source};
use tokio::sync::Semaphore;

use super::ble::{Ble, BleIdentity};
use super::link::{FrameLink, FramePeer, LinkSender, MeshLinkEvent};
use super::places::{CastPlaces, PlaceChanges};
use super::tcp::{self, StreamDoor};
use super::udp::{self, CastInterface, CastLink};

/// Maximum number of remembered beacon sources, and how long a stream is accepted from each, ms.
const HEARD_MAX: usize = 256;
const HEARD_MS: u64 = 10_000;
/// The label of the Bluetooth radio for users.
pub const RADIO: &str = "Bluetooth LE";
/// Maximum number of streams from one IP address.
const STREAMS_OF_ONE: usize = 2;

/// The links that a node has.
pub struct LinkChoice {
    /// Names of the interfaces to use; empty: all interfaces with multicast.
    pub interfaces: Vec<String>,
    /// The port of groups and of streams.
    pub port: u16,
    /// True if the node multicasts on interfaces.
    pub casts: bool,
}

/// A link that is up.
struct UpLink {
    frames: Box<dyn FrameLink>,
    peer: Option<FramePeer>,
    /// Number of frames that were passed to the link and are not sent yet.
    waiting: usize,
}

/// All links of a node.
pub(super) struct Links {
    choice: LinkChoice,
    sender: LinkSender,
    up: BTreeMap<LinkNumber, UpLink>,
    cast: CastPlaces,
    /// True if the warning about interfaces without a slot was logged.
    told_of_waiting: bool,
    hasher: RandomState,
    heard: BTreeMap<Source, (SocketAddr, Time)>,
    /// True if the node holds the port for streams. Its beacons then announce that streams are
    /// accepted.
    takes_streams: bool,
    /// True if another program took the port for streams on one of the interfaces since then.
    refused_streams: bool,
    /// The stream listeners, one for each broadcast link and address family; the `bool` of the key
    /// is true for IPv6.
    doors: BTreeMap<(LinkNumber, bool), StreamDoor>,
    incoming: Arc<Semaphore>,
    ble: Option<Ble>,
}

impl Links {
    pub(super) fn new(choice: LinkChoice, sender: LinkSender, ble: Option<Ble>) -> Self {
        let port = choice.port;
        let free = choice.casts.then(|| tcp::try_port(port));
        if let Some(Err(error)) = &free {
            tracing::warn!(target: "mezza", "no streams on port {port}: {error}");
        }
        Self {
            choice,
            sender,
            up: BTreeMap::new(),
            cast: CastPlaces::default(),
            told_of_waiting: false,
            hasher: RandomState::new(),
            heard: BTreeMap::new(),
            takes_streams: matches!(free, Some(Ok(()))),
            refused_streams: false,
            doors: BTreeMap::new(),
            incoming: tcp::incoming_places(),
            ble,
        }
    }

    /// Returns true if peers can open streams to this node.
    pub(super) fn takes_streams(&self) -> bool {
        self.takes_streams && !self.refused_streams
    }

    /// Returns true if another program of this machine has the port of streams. Large messages then
    /// travel only on streams that this node opens.
    pub(super) fn lacks_streams(&self) -> bool {
        self.choice.casts && !self.takes_streams()
    }

    /// Returns true if a link is up, or a Bluetooth controller may bring one up.
    pub(super) fn has_any(&self) -> bool {
        !self.up.is_empty() || self.ble.is_some()
    }

    /// Describes all links for the user.
    pub(super) fn describe_all(&self) -> Vec<String> {
        let radio = self.ble.iter().map(Ble::describe_state);
        self.up.values().map(|link| link.frames.describe_state()).chain(radio).collect()
    }

    /// Opens links on new interfaces and closes those of interfaces that are gone. Returns the
    /// inputs for the node.
    pub(super) fn refresh_interfaces(&mut self, now: Time) -> Vec<Input> {
        let found = if self.choice.casts {
            // Out of file descriptors: keep the known interfaces, rather than close all links.
            let known = |_| self.cast.interfaces().cloned().collect();
            udp::find_interfaces(&self.choice.interfaces).unwrap_or_else(known)
        } else {
            Vec::new()
        };
        let over = self.up.iter().filter(|(_, up)| up.frames.is_over());
        let over: Vec<_> = over.map(|(link, _)| *link).collect();
        let mut inputs: Vec<_> =
            over.into_iter().filter_map(|link| self.close_link(link)).collect();
        let PlaceChanges { close, open } = self.cast.choose_links(&found, now);
        inputs.extend(close.into_iter().filter_map(|link| self.close_link(link)));
        inputs.extend(open.into_iter().filter_map(|interface| self.cast_on(interface, now)));
        self.tell_of_waiting(&found);
        if self.choice.casts && !self.takes_streams {
            // Try the port again: the program that held it may have ended.
            self.takes_streams = tcp::try_port(self.choice.port).is_ok();
        }
        self.open_doors();
        inputs
    }

    /// Listens for streams on each cast link without a listener. A listener that the system refuses
    /// is tried again with the next refresh.
    fn open_doors(&mut self) {
        self.refused_streams = false;
        if !self.takes_streams {
            return;
        }
        for (link, interface) in self.cast.links() {
            for v6 in interface.families_v6() {
                let any = tcp::any_address(v6, self.choice.port);
                if self.doors.contains_key(&(link, v6)) {
                    continue;
                }
                match StreamDoor::open(&interface.name, any, &self.incoming, &self.sender) {
                    Ok(door) => drop(self.doors.insert((link, v6), door)),
                    Err(error) => {
                        self.refused_streams |= error.kind() == io::ErrorKind::AddrInUse;
                        let words = interface.display_name();
                        tracing::debug!(target: "mezza", "no streams on {words} yet: {error}");
                    }
                }
            }
        }
    }

    /// Logs once that there are more interfaces than slots, and how to choose among them (MESH-70).
    fn tell_of_waiting(&mut self, found: &[CastInterface]) {
        let wait = found.len() > CASTS_MAX;
        if wait && !self.told_of_waiting {
            tracing::warn!(
                target: "mezza",
                "{} interfaces for {CASTS_MAX} links: quiet ones take turns; name those of the mesh with \
                 `--if`",
                found.len()
            );
        }
        self.told_of_waiting = wait;
    }

    fn cast_on(&mut self, interface: CastInterface, now: Time) -> Option<Input> {
        let link = self.sender.next_number();
        let words = interface.display_name();
        match CastLink::open(interface.clone(), self.choice.port, link, &self.sender) {
            Ok(frames) => {
                self.cast.insert(link, interface, now);
                Some(self.bring_up(link, None, Box::new(frames)))
            }
            Err(error) => {
                tracing::warn!(target: "mezza", "{words}: {error}");
                None
            }
        }
    }

    fn bring_up(
        &mut self,
        link: LinkNumber,
        peer: Option<FramePeer>,
        frames: Box<dyn FrameLink>,
    ) -> Input {
        let kind = frames.kind();
        let delay_us = frames.delay_us();
        let room = frames.room();
        let casts = kind == LinkKind::Cast;
        let frame_bytes_max = if casts { CAST_BYTES_MAX } else { STREAM_BYTES_MAX };
        self.up.insert(link, UpLink { frames, peer, waiting: 0 });
        Input::LinkUp { link, kind, frame_bytes_max, delay_us, room }
    }

    /// Returns the input that the node gets for an event on a link.
    pub(super) fn handle_event(&mut self, event: MeshLinkEvent, now: Time) -> Option<Input> {
        match event {
            MeshLinkEvent::Frame { link, from, bytes } => {
                let source = self.source_number(from);
                self.up.contains_key(&link).then_some(Input::Frame { link, source, bytes })
            }
            MeshLinkEvent::Up { link, peer, frames } => {
                // A stream that is not accepted is dropped here, which closes it.
                self.may_come(peer, now).then(|| self.bring_up(link, Some(peer), frames))
            }
            MeshLinkEvent::Down { link } => self.close_link(link),
        }
    }

    /// Returns a number for each address without its port: a device that opens many ports counts
    /// once (MESH-60).
    fn source_number(&self, from: FramePeer) -> Source {
        match from {
            FramePeer::Ip(address) => self.hasher.hash_one(address.ip().to_canonical()),
            FramePeer::Ble(address) => self.hasher.hash_one(address),
        }
    }

    /// Returns true if a stream of `peer` is accepted: a beacon came from its address, and the
    /// limit per address is not reached.
    fn may_come(&self, peer: FramePeer, now: Time) -> bool {
        let FramePeer::Ip(peer) = peer else { return true };
        let streams = self.up.values().filter_map(|link| match link.peer {
            Some(FramePeer::Ip(address)) => Some(address.ip().to_canonical()),
            _ => None,
        });
        let streams: Vec<_> = streams.collect();
        let ip = peer.ip().to_canonical();
        let of_one = streams.iter().filter(|other| **other == ip).count();
        let fresh = |at: &Time| now.since_ms(*at) <= HEARD_MS;
        let same = |address: &SocketAddr| address.ip().to_canonical() == ip;
        let heard = self.heard.values().any(|(address, at)| same(address) && fresh(at));
        heard && self.is_neighbour(peer) && of_one < STREAMS_OF_ONE && streams.len() < STREAMS_MAX
    }

    /// A frame was accepted on a link.
    pub(super) fn on_accepted(&mut self, link: LinkNumber, now: Time) {
        self.cast.on_heard(link, now);
    }

    /// Remembers the address of a sender whose frame the node accepted.
    pub(super) fn remember_source(&mut self, source: Source, from: SocketAddr, now: Time) {
        if self.heard.len() >= HEARD_MAX && !self.heard.contains_key(&source) {
            self.heard.retain(|_, (_, at)| now.since_ms(*at) <= HEARD_MS);
        }
        if self.heard.len() < HEARD_MAX || self.heard.contains_key(&source) {
            self.heard.insert(source, (from, now));
        }
    }

    /// Opens a stream to the sender of a beacon.
    pub(super) fn dial_source(&self, source: Source) {
        let Some((address, _)) = self.heard.get(&source) else { return };
        // A beacon's source proves nothing, so it must not choose a host beyond the link, or a port
        // (MESH-67).
        if let Some(interface) = self.interface_of(*address) {
            let mut to = *address;
            to.set_port(self.choice.port);
            tcp::dial_stream(&interface.name, to, self.sender.clone());
        }
    }

    /// Returns the interface whose neighbour can have this address.
    fn interface_of(&self, address: SocketAddr) -> Option<&CastInterface> {
        self.cast.interfaces().find(|interface| interface.has_neighbour(address))
    }

    /// Returns true if an address can only be that of a device on one of the cast links.
    fn is_neighbour(&self, address: SocketAddr) -> bool {
        self.interface_of(address).is_some()
    }

    /// Closes a link.
    pub(super) fn close_link(&mut self, link: LinkNumber) -> Option<Input> {
        self.cast.remove(link);
        self.doors.retain(|(of, _), _| *of != link);
        self.up.remove(&link).map(|_| Input::LinkDown { link })
    }

    /// Sets a new name: streams are closed, and radios change their addresses.
    pub(super) fn change_identity(&mut self, identity: BleIdentity) -> Vec<Input> {
        if let Some(ble) = &self.ble {
            ble.change_identity(identity);
        }
        let streams = self.up.iter().filter(|(_, link)| link.frames.kind() != LinkKind::Cast);
        let streams: Vec<_> = streams.map(|(link, _)| *link).collect();
        streams.into_iter().filter_map(|link| self.close_link(link)).collect()
    }

    /// Sends a frame.
    pub(super) fn send_frame(&mut self, link: LinkNumber, frame: Vec<u8>) {
        if let Some(link) = self.up.get_mut(&link) {
            link.frames.send_frame(frame);
            link.waiting += 1;
        }
    }

    /// Returns one input per link for the frames that were sent: the node may send as many again.
    pub(super) fn collect_sent(&mut self) -> Vec<Input> {
        let mut inputs = Vec::new();
        for (number, link) in &mut self.up {
            let frames = link.frames.take_sent_count();
            link.waiting = link.waiting.saturating_sub(frames);
            if frames > 0 {
                inputs.push(Input::Room { link: *number, frames });
            }
        }
        inputs
    }

    /// Returns true if frames wait to leave.
    pub(super) fn are_waiting(&self) -> bool {
        self.up.values().any(|link| link.waiting > 0)
    }
}
