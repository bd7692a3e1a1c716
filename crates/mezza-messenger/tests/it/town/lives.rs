//! More than one life of a vault: copies of a disk that are put back, or that run beside the original.

use mezza_mixnet::client::FrameSchedule;

use super::{Town, entry_gone};
use crate::model::Tell;
use crate::stage::{Disk, connection, load};
use crate::town::member::Member;
use mezza_messenger::RelayInput;

impl Town {
    /// A device more, from this disk. Returns its number.
    pub fn begin_life(&mut self, disk: Disk) -> usize {
        let device = load(&disk, self.now(), &mut self.rng);
        self.members.push(Member::new(device));
        let who = self.members.len() - 1;
        self.members[who].disk = disk;
        self.drain(who);
        self.settle();
        who
    }

    /// The device of a member stops, for good.
    pub fn end_life(&mut self, who: usize) {
        self.leave_relay(who);
        self.queue.retain(|(to, _)| *to != who);
        let member = &mut self.members[who];
        (member.relay, member.net) = (false, false);
        (member.dial, member.line) = (None, FrameSchedule::default());
        member.stalled = Some(Vec::new());
        entry_gone(&mut self.city, member);
    }

    /// This disk takes the place of a member's, whose device starts from it.
    pub fn put_back(&mut self, who: usize, disk: Disk) {
        let device = load(&disk, self.clock(who), &mut self.rng);
        self.members[who].disk = disk;
        self.members[who].forget_life();
        self.start(who, device);
        self.settle();
    }

    /// The network of a member's machine goes, or comes back: relay and entry together.
    pub fn set_online(&mut self, who: usize, is_online: bool) {
        if self.members[who].relay == is_online {
            return;
        }
        self.members[who].net = is_online;
        if !is_online {
            self.queue.retain(|(to, _)| *to != who);
            self.hang_up(who);
        }
        self.set_relay(who, is_online);
    }

    /// The relay cannot be reached from a member's machine any more, or can again.
    pub fn set_relay(&mut self, who: usize, is_up: bool) {
        if std::mem::replace(&mut self.members[who].relay, is_up) == is_up {
            return;
        }
        if is_up {
            self.queue.push_back((who, Tell::Up.into_input(connection())));
        } else {
            self.leave_relay(who);
            let down = RelayInput::Down { connection: connection() };
            self.queue.push_back((who, down.into()));
        }
        self.settle();
    }

    /// The entry of the mixnet cannot be reached from a member's machine any more, or can again.
    pub fn set_net(&mut self, who: usize, is_up: bool) {
        self.members[who].net = is_up;
        if !is_up {
            self.hang_up(who);
        }
        self.settle();
    }
}
