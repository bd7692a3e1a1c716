//! The health of the node, line by line.

use mezza_messenger::view::{ContactState, ContactView, NetworkTrouble};
use mezza_messenger::{CarrierId, DeviceOver};

use super::{NodeShell, UnlockedVault};
use mezza_host::api::json::{HealthLine, NodeStateJson};
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::process::files;

/// A commit that takes longer is reported, in milliseconds.
const COMMIT_SLOW_MS: u64 = 250;
/// A disk with fewer free bytes counts as full.
const FREE_BYTES_MIN: u64 = 16 << 20;

impl NodeShell {
    /// Returns one line per check.
    pub fn health_lines(&self) -> Vec<HealthLine> {
        let mut lines = vec![self.vault_line()];
        lines.extend(self.clock_line());
        if self.state() == NodeStateJson::Open {
            // The line of the disk follows those of the first carrier.
            let mut carriers =
                self.adapters.health_lines(|carrier| self.facts_of(carrier)).into_iter();
            lines.extend(carriers.next().into_iter().flatten());
            lines.push(self.disk_line());
            lines.extend(carriers.flatten());
            let aside = self.open.iter().flat_map(|open| open.device.set_aside());
            lines.extend(aside.map(|aside| words::aside_line(&aside)));
            lines.extend(
                self.own_identity().ok().and_then(|me| Some(words::stock_line(me.one_time_stock?))),
            );
            lines.extend(self.backup_line());
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
                    words::format_count(self.days_ahead().into(), "day", "days")
                ),
                "set the clock if it is wrong now; else nothing is to be done but to wait",
            ),
            NodeStateJson::Open if self.open.as_ref().is_some_and(UnlockedVault::is_doubted) => {
                HealthLine::good(
                    "vault",
                    "unlocked; it was restored from a copy, or came without its state folder: \
                     message numbers and prekeys began anew",
                )
            }
            NodeStateJson::Open => HealthLine::good("vault", "unlocked"),
            NodeStateJson::Locked => {
                HealthLine::bad("vault", "locked", "unlock it with `mezza unlock`")
            }
            NodeStateJson::Empty => {
                HealthLine::bad("vault", "none yet", "make one with `mezza init`")
            }
        }
    }

    /// Returns how many days the vault is ahead of the clock.
    fn days_ahead(&self) -> u32 {
        self.open.as_ref().map_or(0, |open| open.vault.days_ahead(self.date()))
    }

    /// Returns the facts that the health of a carrier depends on.
    fn facts_of(&self, carrier: CarrierId) -> CarrierFacts {
        let connections = self.connections(carrier);
        let mut in_use = connections.iter().filter(|connection| connection.left.is_none());
        let are_up = in_use.all(|connection| connection.up);
        CarrierFacts {
            alone: if are_up { 0 } else { self.depend_on(carrier) },
            connections,
            date: self.date(),
            network: self.network_trouble(),
            doubted: self.open.as_ref().is_some_and(UnlockedVault::is_doubted),
        }
    }

    /// Returns why no round of the joined network returns.
    fn network_trouble(&self) -> Option<NetworkTrouble> {
        self.unlocked_device().ok()?.carriers().network_view(self.date())?.trouble
    }

    /// Returns the number of conversations that may use only this carrier.
    fn depend_on(&self, carrier: CarrierId) -> usize {
        let contacts = self.unlocked_device().map(DeviceOver::contacts).unwrap_or_default();
        let depends = |contact: &&ContactView| contact.policy.candidates() == [carrier];
        let open = contacts.iter().filter(|contact| contact.standing != ContactState::Blocked);
        open.filter(depends).count()
    }

    fn disk_line(&self) -> HealthLine {
        disk_line(self.commit_ms, files::free_bytes(&self.options.vault))
    }

    fn lock_line(&self) -> HealthLine {
        match self.options.idle_lock_s {
            0 => HealthLine::good("idle lock", "never locks itself"),
            s => HealthLine::good("idle lock", &format!("after {} min", s.div_ceil(60))),
        }
    }
}

/// Returns the line about the vault's disk: duration of the last commit, and free space.
fn disk_line(commit_ms: u64, free_bytes: Option<u64>) -> HealthLine {
    if let Some(free) = free_bytes.filter(|free| *free < FREE_BYTES_MIN) {
        let text = format!(
            "{} KiB are free where the vault lies",
            words::group_digits(usize::try_from(free / 1_024).unwrap_or(usize::MAX))
        );
        let next = "make room there: without it no note can be written or received";
        return HealthLine::bad("disk", &text, next);
    }
    let text = format!("last commit took {commit_ms} ms");
    if commit_ms > COMMIT_SLOW_MS {
        return HealthLine::bad("disk", &text, "something else keeps the disk busy");
    }
    HealthLine::good("disk", &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_23_a_disk_without_room_is_no_good_health() {
        let full = disk_line(1, Some(FREE_BYTES_MIN - 1));
        assert!(!full.ok && full.text.starts_with("16,383 KiB are free"), "{}", full.text);
        assert!(!disk_line(COMMIT_SLOW_MS + 1, Some(FREE_BYTES_MIN)).ok);
        assert!(disk_line(1, Some(FREE_BYTES_MIN)).ok && disk_line(1, None).ok);
    }
}
