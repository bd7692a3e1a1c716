//! Counts for operators, on loopback alone, in the text form of Prometheus: no key, no drop, no
//! client, and no count of a batch (MIX-32).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use super::busy::Busy;

/// The port of the first mix; the others follow.
pub const MIX_PORT: u16 = 7_110;
/// The port of the entry.
pub const ENTRY_PORT: u16 = 7_118;
/// The port of the bucket store.
pub const BUCKET_PORT: u16 = 7_119;

/// A counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Rounds that ended well.
    Returned,
    /// Rounds that ended before their time.
    Aborted,
    /// Frames that a machine refused.
    Refused,
    /// Links that were closed over what is no frame.
    Malformed,
    /// Alarms of traps.
    Alarms,
    /// Connections turned away: too many from one place, or in all.
    TurnedAway,
    /// Links that are up.
    Links,
    /// Clients that were welcomed.
    Clients,
}

impl Metric {
    const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::Returned, "rounds_returned_total", "counter"),
        (Self::Aborted, "rounds_aborted_total", "counter"),
        (Self::Refused, "frames_refused_total", "counter"),
        (Self::Malformed, "links_malformed_total", "counter"),
        (Self::Alarms, "alarms_total", "counter"),
        (Self::TurnedAway, "connections_turned_away_total", "counter"),
        (Self::Links, "links", "gauge"),
        (Self::Clients, "clients", "gauge"),
    ];
}

/// The counts of one server, and what it spends its time on, which is not served.
#[derive(Debug, Default)]
pub struct Metrics {
    counts: [AtomicU64; Metric::ALL.len()],
    /// CPU time by phase.
    pub busy: Busy,
}

impl Metrics {
    /// One more.
    pub fn count(&self, what: Metric) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, what: Metric, number: usize) {
        self.counts[what as usize].store(number as u64, Ordering::Relaxed);
    }

    /// How many.
    pub fn read_count(&self, what: Metric) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// All of them as text.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        for (what, name, kind) in Metric::ALL {
            let value = self.read_count(what);
            let _ = writeln!(text, "# TYPE mezza_mixnet_{name} {kind}");
            let _ = writeln!(text, "mezza_mixnet_{name} {value}");
        }
        text
    }
}

/// Fresh counts, served on a port of loopback until the program ends; 0 serves nothing. If the port
/// is taken, the server runs without serving them.
pub async fn serve_metrics(port: u16) -> Arc<Metrics> {
    let metrics = Arc::<Metrics>::default();
    if port == 0 {
        return metrics;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let Ok(listener) = TcpListener::bind(address).await else {
        tracing::warn!(port, "the port of the metrics is taken; they are not served");
        return metrics;
    };
    let served = Arc::clone(&metrics);
    let router = Router::new().route(
        "/metrics",
        get(move || {
            let text = served.render_text();
            async move { text }
        }),
    );
    tokio::spawn(async move { axum::serve(listener, router).await });
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_its_own_line() {
        let metrics = Metrics::default();
        for (n, (what, ..)) in Metric::ALL.into_iter().enumerate() {
            metrics.set(what, n);
        }
        metrics.count(Metric::Clients);
        let text = metrics.render_text();
        for (n, (_, name, _)) in Metric::ALL.into_iter().enumerate() {
            let value = if name == "clients" { n + 1 } else { n };
            assert!(text.contains(&format!("\nmezza_mixnet_{name} {value}\n")), "{text}");
        }
    }
}
