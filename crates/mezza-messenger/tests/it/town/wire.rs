//! The cable of the town: connections of the link between two members.

use std::collections::BTreeMap;

use mezza_core::Time;
use mezza_messenger::carriers::link::{
    LinkConnection, LinkReport, PairRequest, PairingStep, StreamDeframer,
};
use mezza_messenger::{ContactId, Input, LinkInput, LinkOutput};

use super::Town;
use crate::stage::START;

/// The boot time at which the town begins, ms.
const BOOT_MS: u64 = 50_000;

/// The part of a member at the cable.
#[derive(Default)]
pub struct Plug {
    /// True if the cable is plugged in here.
    pub is_in: bool,
    /// The steps of pairings, newest last.
    steps: Vec<PairingStep>,
    wake_at: Option<Time>,
    /// Dials whose result is not reported.
    dials: Vec<ContactId>,
    last: u32,
    /// The connection at the other end of each of ours.
    ends: BTreeMap<LinkConnection, LinkConnection>,
}

impl Town {
    /// Members 0 and 1 pair at a cable, in person.
    pub fn pair_at_cable(&mut self, contacts: [ContactId; 2]) {
        (0..2).for_each(|who| self.members[who].plug.is_in = true);
        let keys = [0, 1].map(|who| *self.card(who).ik());
        for who in [1, 0] {
            let address = (who == 0).then(|| "ben.example:4796".to_owned());
            let contact = contacts[who];
            let request = PairRequest { contact, own_ik: keys[who], ik: keys[1 - who], address };
            self.report_link(who, LinkReport::Pair(request));
        }
        self.pass(2 * Time::SECOND_MS);
        (0..2).for_each(|who| self.report_link(who, LinkReport::Confirm { equal: true }));
        self.pass(5 * Time::SECOND_MS);
        let last = [0, 1].map(|who| self.members[who].plug.steps.last().cloned());
        assert_eq!(last, [const { Some(PairingStep::Paired) }; 2]);
    }

    /// The cable is plugged in at a member, or pulled there.
    pub fn set_plugged(&mut self, who: usize, is_in: bool) {
        self.members[who].plug.is_in = is_in;
        if !is_in {
            self.end_connections(who);
        }
        self.settle();
    }

    fn boot_ms(&self) -> u64 {
        BOOT_MS + self.now().since_ms(START)
    }

    fn report_link(&mut self, who: usize, event: LinkReport) {
        let input = LinkInput { boot_ms: self.boot_ms(), event };
        self.queue.push_back((who, Input::Carrier(input.into())));
    }

    pub(super) fn carry_out_link(&mut self, who: usize, output: LinkOutput) {
        let plug = &mut self.members[who].plug;
        match output {
            LinkOutput::Dial { contact, .. } => plug.dials.push(contact),
            LinkOutput::WakeAt { boot_ms } => {
                plug.wake_at = boot_ms.map(|at| START.plus_ms(at.saturating_sub(BOOT_MS)));
            }
            LinkOutput::Pairing { step, .. } => plug.steps.push(step),
            // No guard is joined here.
            LinkOutput::Gift { .. } | LinkOutput::GuardTrouble { .. } => {}
            LinkOutput::Send { connection, bytes } => {
                let Some(end) = plug.ends.get(&connection).copied() else { return };
                let mut input = &bytes[..];
                let frame = StreamDeframer::default().next_frame(&mut input);
                assert!(input.is_empty(), "one frame at a time");
                let bytes = frame.expect("sound").expect("whole");
                self.report_link(1 - who, LinkReport::Frame { connection: end, bytes });
            }
            LinkOutput::Close { connection } => {
                if let Some(end) = plug.ends.remove(&connection) {
                    self.close_end(1 - who, end);
                }
            }
        }
    }

    fn close_end(&mut self, who: usize, connection: LinkConnection) {
        if self.members[who].plug.ends.remove(&connection).is_some() {
            self.report_link(who, LinkReport::Closed { connection });
        }
    }

    /// Connects those who dialled, or tells them that nobody is there.
    pub(super) fn connect_dials(&mut self) {
        for who in 0..self.members.len() {
            for contact in std::mem::take(&mut self.members[who].plug.dials) {
                let others = self.members.iter().take(2);
                if who > 1 || !others.into_iter().all(|member| member.plug.is_in) {
                    self.report_link(who, LinkReport::DialFailed { contact });
                    continue;
                }
                let [own, end] = [who, 1 - who].map(|who| {
                    self.members[who].plug.last += 1;
                    LinkConnection(self.members[who].plug.last)
                });
                self.members[who].plug.ends.insert(own, end);
                self.members[1 - who].plug.ends.insert(end, own);
                self.report_link(1 - who, LinkReport::Opened { connection: end, dialled: None });
                let opened = LinkReport::Opened { connection: own, dialled: Some(contact) };
                self.report_link(who, opened);
            }
        }
    }

    /// When a link wakes next.
    pub(super) fn next_of_links(&self) -> Option<Time> {
        self.members.iter().filter_map(|member| member.plug.wake_at).min()
    }

    /// Wakes each link whose time has come.
    pub(super) fn wake_links(&mut self) {
        let now = self.now();
        for who in 0..self.members.len() {
            if self.members[who].plug.wake_at.take_if(|at| *at <= now).is_some() {
                self.report_link(who, LinkReport::Due);
            }
        }
    }

    /// All connections of a member end, and both ends hear of it.
    fn end_connections(&mut self, who: usize) {
        for (own, end) in std::mem::take(&mut self.members[who].plug.ends) {
            self.report_link(who, LinkReport::Closed { connection: own });
            self.close_end(1 - who, end);
        }
    }

    /// The process of a member ended. The other end hears of it, and the next process wakes at once.
    pub(super) fn forget_link(&mut self, who: usize) {
        for end in std::mem::take(&mut self.members[who].plug.ends).into_values() {
            self.close_end(1 - who, end);
        }
        let now = self.now();
        let plug = &mut self.members[who].plug;
        plug.dials.clear();
        plug.wake_at = Some(now);
    }
}
