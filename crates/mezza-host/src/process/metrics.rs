//! Counters for operators, on loopback only, in the text form of Prometheus. They reveal no key, no
//! drop, no client, and no count of a batch (MIX-32).

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
    /// Rounds that ended normally.
    Returned,
    /// Rounds that ended early.
    Aborted,
    /// Frames that a machine refused.
    Refused,
    /// Links closed for a malformed frame.
    Malformed,
    /// Alarms raised by traps.
    Alarms,
    /// Connections refused: too many from one source, or in all.
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

/// The counters of one server, and its CPU time, which is not exported.
#[derive(Debug, Default)]
pub struct Metrics {
    counts: [AtomicU64; Metric::ALL.len()],
    /// CPU time by phase.
    pub busy: Busy,
}

impl Metrics {
    /// Increments a counter.
    pub fn count(&self, what: Metric) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, what: Metric, number: usize) {
        self.counts[what as usize].store(number as u64, Ordering::Relaxed);
    }

    /// Returns the value of a counter or gauge.
    pub fn read_count(&self, what: Metric) -> u64 {
        self.counts[what as usize].load(Ordering::Relaxed)
    }

    /// Returns all counters as text.
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

/// Makes counters and serves them on a loopback port until the program ends; 0 serves nothing. If
/// the port is taken, the server runs without serving them.
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
