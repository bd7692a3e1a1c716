//! How healthy the node is, line by line.

use mezza_messenger::io::Places;
use mezza_messenger::view::{ConnectionView, ContactState, ContactView};
use mezza_messenger::{CarrierId, DeviceOver};

use super::NodeShell;
use crate::api::json::{HealthLine, NodeStateJson};
use crate::api::words;

/// A commit that takes longer is worth a word, in milliseconds.
const COMMIT_SLOW_MS: u64 = 250;

impl NodeShell {
    /// One line per check.
    pub fn health(&self) -> Vec<HealthLine> {
        let mut lines = vec![self.vault_line()];
        lines.extend(self.clock_line());
        if self.state() == NodeStateJson::Open {
            lines.push(self.relay_line());
            lines.extend(self.mailbox_line());
            lines.push(self.disk_line());
            lines.extend(self.mixnet_line());
            lines.extend(self.aside_lines());
            lines.extend(self.stock_line());
            lines.push(self.lock_line());
        }
        lines
    }

    pub(super) fn vault_line(&self) -> HealthLine {
        match self.state() {
            NodeStateJson::Open if self.days_ahead() > 0 => HealthLine::bad(
                "vault",
                &format!(
                    "this clock was once {} ahead of now; until it gets there, keys of live state \
                     are not forgotten by day",
                    words::counted(self.days_ahead().into(), "day", "days")
                ),
                "set the clock if it is wrong now; else nothing is to be done but to wait",
            ),
            NodeStateJson::Open => HealthLine::good("vault", "unlocked"),
            NodeStateJson::Locked => {
                HealthLine::bad("vault", "locked", "unlock it with `mezza unlock`")
            }
            NodeStateJson::Empty => {
                HealthLine::bad("vault", "none yet", "make one with `mezza init`")
            }
        }
    }

    /// How many days the vault is ahead of the clock.
    fn days_ahead(&self) -> u32 {
        self.open.as_ref().map_or(0, |open| open.vault.days_ahead(self.date()))
    }

    /// What carriers of this kind keep open now.
    fn roads(&self, carrier: CarrierId) -> Vec<ConnectionView> {
        let all = self.device().map(|device| device.connections(self.date())).unwrap_or_default();
        all.into_iter().filter(|road| road.carrier == carrier).collect()
    }

    fn relay_line(&self) -> HealthLine {
        let relays = self.roads(CarrierId::RELAY);
        if let Some(trouble) = self.adapters.troubles().next() {
            // The text of the connection ends with the next step already.
            let (text, next) = trouble.rsplit_once("; ").unwrap_or((trouble, "try again later"));
            return HealthLine::bad("relay", text, next);
        }
        let up = relays.iter().filter(|relay| relay.up).count();
        match (up, relays.len()) {
            (_, 0) => HealthLine::bad(
                "relay",
                "your card names none",
                "`mezza relay uri` at a relay prints its address",
            ),
            (0, _) => HealthLine::bad(
                "relay",
                "not reachable",
                "check the network; notes wait until then",
            ),
            (up, all) => HealthLine::good("relay", &format!("{up} of {all} up")),
        }
    }

    /// The own mailboxes, by the answers of their relays.
    fn mailbox_line(&self) -> Option<HealthLine> {
        let own = self.roads(CarrierId::RELAY).into_iter().filter(|relay| relay.up && relay.own);
        let places = own.map(|relay| relay.places).reduce(|a, b| Places {
            all: a.all + b.all,
            here: a.here + b.here,
            elsewhere: a.elsewhere + b.elsewhere,
        })?;
        let Places { all, here, elsewhere } = places;
        let of_all = words::counted(all.into(), "mailbox", "mailboxes");
        Some(if elsewhere > 0 {
            HealthLine::bad(
                "mailbox",
                &format!("another device reads {elsewhere} of your {of_all}: notes go there"),
                "stop the other copy of this vault; they come here again once it is gone",
            )
        } else if here < all {
            HealthLine::bad(
                "mailbox",
                &format!("the relay brings the mail of {here} of your {of_all}"),
                "it is asked again within a minute; then restart the relay",
            )
        } else if self.is_reachable() {
            let text = format!("{here} of {all} watched at the relay, with keys for strangers");
            HealthLine::good("mailbox", &text)
        } else {
            HealthLine::bad("mailbox", "not confirmed by the relay yet", "look again in a moment")
        })
    }

    fn mixnet_line(&self) -> Option<HealthLine> {
        self.mixnet().ok()?;
        if let Some(text) = self.adapters.entry_trouble() {
            let next = "ask whoever runs your network where it is now";
            return Some(HealthLine::bad("mixnet", text, next));
        }
        if self.open.as_ref().is_some_and(super::UnlockedVault::is_doubted) {
            return Some(HealthLine::bad(
                "mixnet",
                "this vault is older than what this machine remembers, or came from another one: \
                 its budget lacks the rounds since",
                "put a newer copy back, or go on with `mezza mixnet resume --after-restore`",
            ));
        }
        if let Some(road) = self.roads(CarrierId::MIXNET).into_iter().find(|road| road.up) {
            let text = format!("rounds are taken part in, at level {}", road.caps.level);
            return Some(HealthLine::good("mixnet", &text));
        }
        Some(match self.depend_on(CarrierId::MIXNET) {
            0 => HealthLine::good("mixnet", "not reachable, and no conversation goes by it alone"),
            n => HealthLine::bad(
                "mixnet",
                &format!(
                    "not reachable, and by it alone {}",
                    words::counted(n as u64, "conversation goes", "conversations go")
                ),
                "check the network, or let them take the relay with `mezza set NAME --carriers`",
            ),
        })
    }

    /// Conversations that may take this carrier and no other one.
    fn depend_on(&self, carrier: CarrierId) -> usize {
        let contacts = self.device().map(DeviceOver::contacts).unwrap_or_default();
        let depends = |contact: &&ContactView| contact.policy.candidates() == [carrier];
        contacts
            .iter()
            .filter(|contact| contact.standing != ContactState::Blocked)
            .filter(depends)
            .count()
    }

    fn disk_line(&self) -> HealthLine {
        let text = format!("last commit took {} ms", self.commit_ms);
        if self.commit_ms > COMMIT_SLOW_MS {
            return HealthLine::bad("disk", &text, "something else keeps the disk busy");
        }
        HealthLine::good("disk", &text)
    }

    /// The stored parts that did not load, a line for each.
    fn aside_lines(&self) -> Vec<HealthLine> {
        let aside = self.open.iter().flat_map(|open| open.device.set_aside());
        aside.map(|aside| words::aside_line(&aside)).collect()
    }

    fn stock_line(&self) -> Option<HealthLine> {
        let stock = self.me().ok()?.one_time_stock?;
        let text = match stock {
            0 => "no one-time keys at the relay yet; first notes to you go without one".into(),
            n => words::counted(n.into(), "one-time key", "one-time keys") + " left at the relay",
        };
        Some(HealthLine::good("keys", &text))
    }

    fn lock_line(&self) -> HealthLine {
        match self.options.idle_lock_s {
            0 => HealthLine::good("idle lock", "never locks itself"),
            s => HealthLine::good("idle lock", &format!("after {} min", s.div_ceil(60))),
        }
    }
}
