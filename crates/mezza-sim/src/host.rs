//! The interface to a test: it supplies a [`Host`] and sees each [`WorldStep`].

use core::fmt;
use mezza_core::{CryptoRng, Time};

/// The number of a host in its world: 0, 1, 2, ... in the order of [`World::add_host`](crate::World::add_host).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A machine and what it would keep on a disk.
///
/// The world calls one of `order`, `deliver`, `lost`, `stored` or `wake`, and then
/// [`next_effect`](Host::next_effect) until it answers `None`; each effect is executed before the next one
/// is asked for. `now` is the host's own clock, which a test may set wrong; `rng` is the host's own
/// seeded source. Worlds of unlike parties (a device, a server) use an enum for `Self`, `Disk`,
/// `Write`, `Packet` and so on.
pub trait Host: Sized {
    /// The state that survives a crash.
    type Disk;
    /// One atomic change of the disk.
    type Write;
    /// The packets of links. A link may repeat one.
    type Packet: Clone;
    /// A request of the user of this host.
    type Order;
    /// An event that the host shows, for the judge of the test.
    type News;

    /// Starts from what the disk holds: an empty disk at the first start, later whatever was
    /// written before the crash.
    fn boot(disk: &Self::Disk, now: Time, rng: &mut dyn CryptoRng) -> Self;

    /// The person at this host asks for something.
    fn apply_order(&mut self, order: Self::Order, now: Time, rng: &mut dyn CryptoRng);

    /// A packet arrives.
    fn deliver_packet(
        &mut self,
        from: HostId,
        packet: Self::Packet,
        now: Time,
        rng: &mut dyn CryptoRng,
    );

    /// The stream to `peer` broke: the peer crashed or hung up, the link was cut, or nobody
    /// answered. Packets on their way in either direction are gone; the next send opens a new
    /// stream. Datagram links never say this.
    fn stream_lost(&mut self, peer: HostId, now: Time, rng: &mut dyn CryptoRng) {
        let _ = (peer, now, rng);
    }

    /// The oldest [`Effect::Write`] not yet reported is now on the disk.
    fn write_durable(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let _ = (now, rng);
    }

    /// The deadline has come.
    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng);

    /// When [`wake`](Host::wake) is wanted next, by the host's own clock.
    fn deadline(&self) -> Option<Time>;

    /// The next thing to do, in order, until `None`.
    fn next_effect(&mut self) -> Option<Effect<Self>>;

    /// Carries out one change of the disk.
    fn apply_write(disk: &mut Self::Disk, write: Self::Write);
}

/// An effect that a host requests. A crash drops every effect that was not executed yet.
pub enum Effect<H: Host> {
    /// Change the disk; durable once executed, or with a cache before the next effect of another
    /// kind.
    Write(H::Write),
    /// Put a packet on the link to `to`.
    Send {
        /// The receiver.
        to: HostId,
        /// The packet to deliver.
        packet: H::Packet,
    },
    /// Break the stream to this peer; the peer is told by [`Host::stream_lost`], this host is not.
    HangUp(HostId),
    /// Show something to the judge.
    Tell(H::News),
}

/// The newest step, one at a time; the whole state of the world can be looked at in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorldStep<N> {
    /// An order reached its host.
    Ordered(HostId),
    /// An order found its host down and is forgotten.
    CommandDropped(HostId),
    /// A packet reached its host.
    Delivered {
        /// The sender.
        from: HostId,
        /// The receiver.
        to: HostId,
    },
    /// A packet found no receiver: host down, link cut or stream broken meanwhile.
    PacketLost {
        /// The sender.
        from: HostId,
        /// The receiver it was meant for.
        to: HostId,
    },
    /// A host learnt that its stream to `peer` broke.
    Lost {
        /// The host that was told.
        at: HostId,
        /// The other end.
        peer: HostId,
    },
    /// A deadline came.
    Woke(HostId),
    /// A host started from its disk.
    Booted(HostId),
    /// A host crashed; the effects it had not executed are gone.
    Crashed(HostId),
    /// A write waits in the cache of its disk ([`World::cache_writes`](crate::World::cache_writes)).
    Cached(HostId),
    /// A write became durable.
    Stored(HostId),
    /// A packet was put on a link (which may lose it).
    Sent {
        /// The sender.
        from: HostId,
        /// The receiver.
        to: HostId,
    },
    /// A host broke the stream to a peer.
    HungUp {
        /// The host that broke it.
        at: HostId,
        /// The other end.
        peer: HostId,
    },
    /// A host showed something.
    Told {
        /// The host that showed it.
        at: HostId,
        /// The event shown.
        news: N,
    },
}
