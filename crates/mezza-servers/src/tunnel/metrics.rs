//! Counts for operators in the text form of Prometheus: off unless an address is given. The one label is
//! the name of the link (SEKA-62).

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::TunnelEvent;
use super::control::{LinkAsk, LinkJson};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest};

/// A figure of a link: its name, its kind, and where it stands in what `show` says.
type Figure = (&'static str, &'static str, fn(&LinkJson) -> f64);

const FIGURES: [Figure; 10] = [
    ("up", "gauge", |link| f64::from(u8::from(link.up))),
    ("recognised", "gauge", |link| f64::from(u8::from(link.trouble != "not recognised"))),
    ("session_age_seconds", "gauge", |link| link.key_age_ms.map_or(f64::NAN, seconds)),
    ("exchange_seconds", "gauge", |link| link.exchange_ms.map_or(f64::NAN, seconds)),
    ("rekeys_total", "counter", |link| float(link.rekeys)),
    ("refused_total", "counter", |link| float(link.refused)),
    ("sent_frames_total", "counter", |link| float(link.traffic.tx_frames)),
    ("received_frames_total", "counter", |link| float(link.traffic.rx_frames)),
    ("sent_bytes_total", "counter", |link| float(link.traffic.tx_bytes)),
    ("received_bytes_total", "counter", |link| float(link.traffic.rx_bytes)),
];

/// Serves the counts until the program ends.
///
/// # Errors
/// 75 if the address is taken, 78 if it is not ours.
pub async fn serve(address: SocketAddr, asks: mpsc::Sender<TunnelEvent>) -> Result<(), Fault> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let text = format!("counts cannot be served at {address}: {error}");
        Fault::new(Exit::Busy, text, "choose another --metrics")
    })?;
    let router = Router::new().route("/metrics", get(move || text(asks.clone())));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}

async fn text(asks: mpsc::Sender<TunnelEvent>) -> String {
    let (answer, mut lines) = ControlAnswer::within();
    let asked = LinkAsk::Show { name: None, follow: false };
    let _ = asks.send(TunnelEvent::Asked(ControlRequest { asked, answer })).await;
    let mut links = Vec::new();
    while let Some(line) = lines.recv().await {
        links.extend(serde_json::from_value::<LinkJson>(line));
    }
    render(&links)
}

fn render(links: &[LinkJson]) -> String {
    let mut text = String::new();
    for (name, kind, value) in FIGURES {
        let _ = writeln!(text, "# TYPE mezza_link_{name} {kind}");
        for link in links {
            let _ = writeln!(text, "mezza_link_{name}{{link=\"{}\"}} {}", link.name, value(link));
        }
    }
    let _ = writeln!(text, "# TYPE mezza_link_dropped_total counter");
    for link in links {
        for (reason, count) in &link.dropped {
            let labels = format!("link=\"{}\",reason=\"{reason}\"", link.name);
            let _ = writeln!(text, "mezza_link_dropped_total{{{labels}}} {count}");
        }
    }
    text
}

fn seconds(ms: u64) -> f64 {
    float(ms) / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts for people and plots")]
fn float(count: u64) -> f64 {
    count as f64
}
