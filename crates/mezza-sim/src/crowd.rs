//! Thousands of devices with radios: their ranges, times and rates.
//!
//! A crowd knows no protocol. It requests the next frame of a device from its [`Swarm`] when the
//! device's radio is free and the swarm has something to send. The frame takes as long as its bytes
//! take at the rate of the radio, and then arrives at every device in range. One seed decides
//! everything, and time moves only by events.

pub mod movement;
mod queue;
mod space;

use crate::SimRng;
pub use queue::Queue;
pub use space::{Place, Space};

/// A device of a crowd, by its index.
pub type DeviceId = u32;

/// The behaviour of the devices of a crowd.
pub trait Swarm {
    /// The frames that radios send.
    type Frame;

    /// Returns the latest time at which the device must act, µs.
    fn due_time(&self, device: DeviceId) -> u64;

    /// Returns the next frame of the device and its size in bytes, or `None` if it has none now.
    /// Then [`due_time`](Self::due_time) must be later than `now`, or the device is not queried
    /// before its next event.
    fn next_frame(&mut self, device: DeviceId, now: u64) -> Option<(Self::Frame, usize)>;

    /// Delivers a frame from the contact that the device calls `contact`. Returns true if the
    /// device must act earlier than before.
    fn receive_frame(
        &mut self,
        device: DeviceId,
        contact: u16,
        frame: &Self::Frame,
        now: u64,
    ) -> bool;

    /// Brings two devices into range. Returns the number that `a` uses for `b`, and the one that
    /// `b` uses for `a`.
    fn begin_contact(&mut self, a: DeviceId, b: DeviceId, now: u64) -> [u16; 2];

    /// Takes the contact that the device calls `contact` out of range.
    fn end_contact(&mut self, device: DeviceId, contact: u16, now: u64);
}

/// The behaviour of radios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioModel {
    /// Bits a second of one device.
    pub rate: u64,
    /// Receptions lost, per million.
    pub loss_ppm: u32,
    /// True if a device waits while another one in range sends. FoSAM assumes that devices do not
    /// wait.
    pub shared: bool,
}

impl Default for RadioModel {
    /// The model of FoSAM: 1.4 Mbit/s per device, no loss, no interference.
    fn default() -> Self {
        Self { rate: 1_400_000, loss_ppm: 0, shared: false }
    }
}

/// A device in range.
#[derive(Clone, Copy, Debug)]
struct Contact {
    peer: DeviceId,
    /// The number of the peer at this device.
    ours: u16,
    /// The number of this device at the peer.
    theirs: u16,
}

/// The next wake-up of a device.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    /// The time of the wake-up; the highest time while the device sends.
    at: u64,
    /// Times of queued events for this device, so that no event is pushed twice. Other events are
    /// ignored.
    queued: [u64; 3],
}

impl Alarm {
    const NONE: Self = Self { at: u64::MAX, queued: [u64::MAX; 3] };

    /// Sets the alarm. Returns true if an event must be pushed.
    #[inline]
    fn set_alarm(&mut self, at: u64) -> bool {
        self.at = at;
        if self.queued.contains(&at) {
            return false;
        }
        // The latest event is dropped; if it is needed again it is pushed again.
        let [a, b, c] = self.queued;
        let latest = if a >= b && a >= c {
            0
        } else if b >= c {
            1
        } else {
            2
        };
        self.queued[latest] = at;
        true
    }

    /// Handles an event. Returns true if it is the awaited one.
    #[inline]
    fn take_event(&mut self, at: u64) -> bool {
        for queued in &mut self.queued {
            if *queued == at {
                *queued = u64::MAX;
            }
        }
        let rings = self.at == at;
        if rings {
            self.at = u64::MAX;
        }
        rings
    }
}

/// An event at a point in time.
#[derive(Clone, Copy, Debug)]
enum Event {
    Wake,
    Sent,
}

/// Counters of a crowd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrowdCounts {
    /// Frames that were sent.
    pub frames: u64,
    /// Frames that were received.
    pub receptions: u64,
    /// Events of the queue.
    pub events: u64,
}

/// A crowd: its devices, its radios and its clock.
pub struct Crowd<S: Swarm> {
    swarm: S,
    model: RadioModel,
    queue: Queue,
    alarms: Vec<Alarm>,
    /// The frame that each device is sending now.
    sending: Vec<Option<S::Frame>>,
    contacts: Vec<Vec<Contact>>,
    /// Devices that may have to act after a received frame.
    stirred: Vec<DeviceId>,
    /// Time until which a device in range sends.
    heard_until: Vec<u64>,
    dice: SimRng,
    now: u64,
    counts: CrowdCounts,
}

impl<S: Swarm> Crowd<S> {
    /// Makes a crowd of `devices` devices out of range of each other, at time `now` µs.
    pub fn new(swarm: S, devices: usize, model: RadioModel, seed: u64, now: u64) -> Self {
        let mut crowd = Self {
            swarm,
            model,
            queue: Queue::new(now),
            alarms: vec![Alarm::NONE; devices],
            sending: (0..devices).map(|_| None).collect(),
            contacts: vec![Vec::new(); devices],
            stirred: Vec::new(),
            heard_until: vec![0; devices],
            dice: SimRng::new(seed, u64::MAX),
            now,
            counts: CrowdCounts::default(),
        };
        for device in 0..devices as DeviceId {
            crowd.check_device(device);
        }
        crowd
    }

    /// Returns the time, µs.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the devices.
    pub fn swarm(&self) -> &S {
        &self.swarm
    }

    /// Returns the devices for changes. Call [`check_device`](Self::check_device) for those that
    /// have something to send now.
    pub fn swarm_mut(&mut self) -> &mut S {
        &mut self.swarm
    }

    /// Returns the counters.
    pub fn counts(&self) -> CrowdCounts {
        self.counts
    }

    /// Returns the devices in range of `device`.
    pub fn contacts(&self, device: DeviceId) -> impl Iterator<Item = DeviceId> + '_ {
        self.contacts[device as usize].iter().map(|contact| contact.peer)
    }

    /// Returns all pairs in range of each other, the lower number first, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (DeviceId, DeviceId)> + '_ {
        (0..).zip(&self.contacts).flat_map(|(device, contacts)| {
            let mut above: Vec<_> =
                contacts.iter().map(|contact| contact.peer).filter(|peer| *peer > device).collect();
            above.sort_unstable();
            above.into_iter().map(move |peer| (device, peer))
        })
    }

    /// Brings two devices into range of each other, unless they are already.
    pub fn begin_contact(&mut self, a: DeviceId, b: DeviceId) {
        if a == b || self.contacts(a).any(|peer| peer == b) {
            return;
        }
        let [ours, theirs] = self.swarm.begin_contact(a, b, self.now);
        self.contacts[a as usize].push(Contact { peer: b, ours, theirs });
        self.contacts[b as usize].push(Contact { peer: a, ours: theirs, theirs: ours });
        self.check_device(a);
        self.check_device(b);
    }

    /// Takes two devices out of range of each other.
    pub fn end_contact(&mut self, a: DeviceId, b: DeviceId) {
        for (device, other) in [(a, b), (b, a)] {
            let contacts = &mut self.contacts[device as usize];
            if let Some(at) = contacts.iter().position(|contact| contact.peer == other) {
                let contact = contacts.remove(at);
                self.swarm.end_contact(device, contact.ours, self.now);
            }
        }
    }

    /// Runs all events up to and including `end`, µs.
    pub fn run_until(&mut self, end: u64) {
        while let Some((at, event, device)) = self.queue.pop_until(end) {
            self.now = at;
            self.counts.events += 1;
            match event {
                Event::Wake => {
                    if self.alarms[device as usize].take_event(at) {
                        self.check_device(device);
                    }
                }
                Event::Sent => self.deliver_frame(device),
            }
        }
        self.now = self.now.max(end);
    }

    /// Starts the next frame of a device, or sets the time of the next check.
    #[inline]
    pub fn check_device(&mut self, device: DeviceId) {
        let at = device as usize;
        if self.sending[at].is_some() {
            return;
        }
        let mut due = self.swarm.due_time(device);
        if due <= self.now {
            if self.model.shared && self.heard_until[at] > self.now {
                due = self.heard_until[at] + self.dice.between(20, 500);
            } else if let Some((frame, bytes)) = self.swarm.next_frame(device, self.now) {
                self.send_frame(device, frame, bytes);
                return;
            } else {
                due = self.swarm.due_time(device).max(self.now + 1);
            }
        }
        let alarm = &mut self.alarms[at];
        if due < alarm.at && alarm.set_alarm(due) {
            self.queue.push_event(due, Event::Wake, device);
        }
    }

    fn send_frame(&mut self, device: DeviceId, frame: S::Frame, bytes: usize) {
        let takes = (8_000_000 * bytes as u64).div_ceil(self.model.rate).max(1);
        let ends = self.now + takes;
        self.counts.frames += 1;
        if self.model.shared {
            for at in 0..self.contacts[device as usize].len() {
                let peer = self.contacts[device as usize][at].peer;
                let heard = &mut self.heard_until[peer as usize];
                *heard = (*heard).max(ends);
            }
        }
        self.sending[device as usize] = Some(frame);
        self.alarms[device as usize].at = u64::MAX;
        self.queue.push_event(ends, Event::Sent, device);
    }

    /// Delivers the frame of `device` to all devices in range.
    fn deliver_frame(&mut self, device: DeviceId) {
        let Self { swarm, sending, contacts, stirred, dice, counts, .. } = self;
        let Some(frame) = &sending[device as usize] else { return };
        for contact in &contacts[device as usize] {
            let loss = u64::from(self.model.loss_ppm);
            if loss > 0 && dice.between(0, 999_999) < loss {
                continue;
            }
            counts.receptions += 1;
            if swarm.receive_frame(contact.peer, contact.theirs, frame, self.now) {
                stirred.push(contact.peer);
            }
        }
        sending[device as usize] = None;
        self.check_device(device);
        while let Some(stirred) = self.stirred.pop() {
            self.check_device(stirred);
        }
    }
}
