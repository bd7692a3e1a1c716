//! The matrix as a table: the rates of each road compared with the bare path, and the output of
//! `show`.

use serde_json::Value;

/// Smallest share of the bare path's rate that a link must carry on a road (a tested kind of path).
pub const SHARE_MIN: f64 = 0.5;
/// Share above which the bare path has stalled: a tunnel that repairs losses carries a few times as
/// much, and not ten times.
const SHARE_MAX: f64 = 10.0;

/// Two rates, Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// The rate of the bare path.
    pub bare: f64,
    /// The rate of the tunnel over the same path.
    pub tunnel: f64,
}

impl Rates {
    /// Returns the tunnel's share of the bare path's rate; 1 if the bare path carries nothing.
    pub fn tunnel_share(self) -> f64 {
        if self.bare > 0.0 { self.tunnel / self.bare } else { 1.0 }
    }

    /// Returns true if the tunnel carries so much more that the bare path did not work, and a share
    /// of it says nothing.
    fn is_bare_stalled(self) -> bool {
        self.tunnel_share() > SHARE_MAX || (self.bare <= 0.0 && self.tunnel > 0.0)
    }

    /// Returns true if the tunnel carries less than half.
    pub fn is_losing(self) -> bool {
        self.tunnel_share() < SHARE_MIN
    }

    /// Formats a cell of the table, bold if the tunnel loses.
    fn format_cell(self) -> String {
        if self.is_bare_stalled() {
            return format!(
                "no share: the bare path stalled ({:.0} / {:.0})",
                self.tunnel, self.bare
            );
        }
        let mark = if self.is_losing() { "**" } else { "" };
        format!("{mark}{:.2}{mark} ({:.0} / {:.0})", self.tunnel_share(), self.tunnel, self.bare)
    }
}

/// The head of the table.
pub const HEAD: [&str; 2] = [
    "| road | TCP A to B | TCP B to A | UDP at 300, A to B | UDP at 300, B to A | UDP, all that A sends | UDP, all that B sends | wireguard-go, TCP A to B; B to A | `show` at A; at B |",
    "|---|---|---|---|---|---|---|---|---|",
];

/// Formats a line of the table. `rates` belong to the columns of [`HEAD`]; `peer` has the TCP rates
/// of wireguard-go in Mbit/s, A to B and B to A, if measured.
pub fn format_line(name: &str, rates: &[Rates], peer: Option<[f64; 2]>, shown: &[Value]) -> String {
    let cells: Vec<String> = rates.iter().map(|rates| rates.format_cell()).collect();
    let peer = peer.map_or_else(String::new, |[to, back]| format!("{to:.0}; {back:.0}"));
    let mut said: Vec<String> = shown.iter().map(describe_verdict).collect();
    said.dedup();
    format!("| {name} | {} | {peer} | {} |", cells.join(" | "), said.join("; "))
}

/// Formats the line of a road that this machine cannot build.
pub fn absent_line(name: &str, reason: &str) -> String {
    let reason = reason.replace('|', "/").replace('\n', " ");
    format!("| {name} | not made: {reason} | | | | | | | |")
}

/// Formats the line of a road whose link did not come up or did not stay up.
pub fn broken_line(name: &str, reason: &str) -> String {
    let reason = reason.replace('|', "/").replace('\n', " ");
    format!("| {name} | **fails**: {reason} | | | | | | | |")
}

/// Returns true if `show` reports a link that is up, and no trouble.
pub fn is_well(shown: &Value) -> bool {
    shown["up"] == true && shown["trouble"] == "none"
}

/// Summarises the output of `show`.
fn describe_verdict(shown: &Value) -> String {
    let up = if shown["up"] == true { "up" } else { "not up" };
    let trouble = shown["trouble"].as_str().unwrap_or("?");
    let is_on = |way: &str| if shown["offload"][way] == true { "on" } else { "off" };
    let delivers = shown["delivered_percent"].as_u64();
    let dropped = shown["dropped"].as_object().into_iter().flatten();
    let dropped = dropped.filter(|(_, count)| count.as_u64() > Some(0));
    let parts = [
        Some(format!("{up}, {trouble}, MTU {}", shown["mtu"])),
        delivers.map(|percent| format!("delivers {percent} %")),
        Some(format!("offload {} / {}", is_on("send"), is_on("receive"))),
    ];
    let dropped = dropped.map(|(why, count)| format!("{why} {count}"));
    parts.into_iter().flatten().chain(dropped).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roads_that_carry_less_than_half_are_bold() {
        let half = Rates { bare: 1_000.0, tunnel: 500.0 };
        let less = Rates { bare: 1_000.0, tunnel: 499.0 };
        assert_eq!([half, less].map(Rates::is_losing), [false, true]);
        let shown = json!({ "up": true, "trouble": "none", "mtu": 1_409, "delivered_percent": 99,
            "offload": { "send": true, "receive": false }, "dropped": { "late": 3, "forged": 0 } });
        assert_eq!(
            format_line("x", &[half, less], Some([250.4, 1_600.0]), &[shown.clone(), shown]),
            "| x | 0.50 (500 / 1000) | **0.50** (499 / 1000) | 250; 1600 | up, none, MTU 1409, delivers 99 %, \
             offload on / off, late 3 |"
        );
    }

    #[test]
    fn a_bare_path_that_stalls_has_no_share() {
        let cell = |bare, tunnel| Rates { bare, tunnel }.format_cell();
        assert_eq!(cell(3.0, 1_456.0), "no share: the bare path stalled (1456 / 3)");
        assert_eq!(cell(0.0, 1_456.0), "no share: the bare path stalled (1456 / 0)");
        assert_eq!(cell(500.0, 1_456.0), "2.91 (1456 / 500)");
    }

    #[test]
    fn a_path_that_carries_nothing_loses_nothing() {
        assert!(!Rates::default().is_losing());
        assert!(Rates { bare: 1.0, tunnel: f64::NAN }.tunnel_share().is_nan());
    }

    #[test]
    fn a_table_has_as_many_cells_in_each_line() {
        let count = |line: &str| line.matches('|').count();
        let full = format_line("x", &[Rates::default(); 6], None, &[json!(null)]);
        for line in [HEAD[0], HEAD[1], &full, &absent_line("x", "a | b\nc"), &broken_line("x", "|")]
        {
            assert_eq!(count(line), 10, "{line}");
        }
    }
}
