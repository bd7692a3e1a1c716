//! Counts for operators in the text form of Prometheus; off unless an address is set. The only
//! label is the name of the link (SEKA-62).

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

use super::TunnelEvent;
use super::control::{LinkAsk, LinkJson};
use mezza_host::api::{Exit, Fault};
use mezza_host::process::control::{ControlAnswer, ControlRequest};

/// Maximum number of simultaneous readers.
const CONNECTIONS_MAX: usize = 8;
/// Time limit of a reader for its request and the response.
const CONNECTION_TIME: Duration = Duration::from_secs(2);
/// The pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of a request in bytes.
const REQUEST_BYTES_MAX: usize = 8_192;
/// Maximum age of the counts.
const PAGE_AGE: Duration = Duration::from_secs(1);

/// A figure of a link: its name, its kind, and its value in the output of `show`.
type Figure = (&'static str, &'static str, fn(&LinkJson) -> f64);

const FIGURES: [Figure; 12] = [
    ("up", "gauge", |link| f64::from(u8::from(link.up))),
    ("aside", "gauge", |link| f64::from(u8::from(link.aside.is_some()))),
    ("delivered_ratio", "gauge", |link| {
        link.delivered_percent.map_or(f64::NAN, |percent| f64::from(percent) / 100.0)
    }),
    ("recognised", "gauge", |link| f64::from(u8::from(link.trouble != "not recognised"))),
    ("session_age_seconds", "gauge", |link| link.key_age_ms.map_or(f64::NAN, to_seconds)),
    ("exchange_seconds", "gauge", |link| link.exchange_ms.map_or(f64::NAN, to_seconds)),
    ("rekeys_total", "counter", |link| to_float(link.rekeys)),
    ("refused_total", "counter", |link| to_float(link.refused)),
    ("sent_frames_total", "counter", |link| to_float(link.traffic.tx_frames)),
    ("received_frames_total", "counter", |link| to_float(link.traffic.rx_frames)),
    ("sent_bytes_total", "counter", |link| to_float(link.traffic.tx_bytes)),
    ("received_bytes_total", "counter", |link| to_float(link.traffic.rx_bytes)),
];

/// Serves the counts until the program ends.
///
/// # Errors
/// Exit code 75 if the address is taken, 78 if this machine does not have it.
pub async fn serve_counts(
    address: SocketAddr,
    asks: mpsc::Sender<TunnelEvent>,
) -> Result<(), Fault> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let text = format!("counts cannot be served at {address}: {error}");
        Fault::new(Exit::Busy, text, "choose another --metrics")
    })?;
    let page = Arc::new(CountsPage { asks, last: Mutex::new(None) });
    tokio::spawn(accept_connections(listener, page));
    Ok(())
}

/// The text of the counts, shared by all readers.
struct CountsPage {
    asks: mpsc::Sender<TunnelEvent>,
    /// The time of the last request to the daemon, and the text made from its response.
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl CountsPage {
    /// Returns the text, at most a second old. One request at a time reaches the daemon, because
    /// its queue also carries exchange frames (SEKA-92).
    async fn read_text(&self) -> Arc<str> {
        let mut last = self.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < PAGE_AGE
        {
            return Arc::clone(text);
        }
        let text: Arc<str> = fetch_text(&self.asks).await.into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        text
    }
}

/// Accepts connections. While all slots are taken, further connections wait in the queue of the
/// system.
async fn accept_connections(listener: TcpListener, page: Arc<CountsPage>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors: try again after a pause.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let page = Arc::clone(&page);
        tokio::spawn(async move {
            // A reader that neither sends nor reads loses its slot.
            let _ = timeout(CONNECTION_TIME, answer_request(stream, &page)).await;
            drop(place);
        });
    }
}

/// Responds to one request (RFC 9112) and closes the connection.
async fn answer_request(mut stream: TcpStream, page: &CountsPage) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let is_ours = request.starts_with(b"GET /metrics ");
    let (status, text) =
        if is_ours { ("200 OK", page.read_text().await) } else { ("404 Not Found", Arc::from("")) };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

async fn fetch_text(asks: &mpsc::Sender<TunnelEvent>) -> String {
    let (answer, mut lines) = ControlAnswer::make_channel();
    let asked = LinkAsk::Show { name: None, follow: false };
    let _ = asks.send(TunnelEvent::Asked(ControlRequest { asked, answer })).await;
    let mut links = Vec::new();
    while let Some(line) = lines.recv().await {
        links.extend(serde_json::from_value::<LinkJson>(line));
    }
    render_counts(&links)
}

fn render_counts(links: &[LinkJson]) -> String {
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

fn to_seconds(ms: u64) -> f64 {
    to_float(ms) / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts for people and plots")]
fn to_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Time limit for a busy machine.
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Serves counts on a free port. Returns the address, and the counter of requests to the
    /// daemon.
    async fn served() -> (SocketAddr, Arc<AtomicU64>) {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let (asks, mut asked) = mpsc::channel(8);
        let count = Arc::new(AtomicU64::new(0));
        let counting = Arc::clone(&count);
        tokio::spawn(async move {
            while asked.recv().await.is_some() {
                counting.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert!(serve_counts(address, asks).await.is_ok());
        (address, count)
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut text = String::new();
        timeout(PATIENCE, stream.read_to_string(&mut text)).await.expect("in time").expect("read");
        text
    }

    #[tokio::test]
    async fn seka_92_requests_for_counts_are_answered_once_a_second_by_the_daemon() {
        let (address, count) = served().await;
        let begun = Instant::now();
        for _ in 0..200 {
            let text = get(address, "/metrics").await;
            assert!(text.starts_with("HTTP/1.1 200") && text.contains("mezza_link_up"), "{text}");
        }
        let most = 1 + begun.elapsed().as_secs();
        let asked = count.load(Ordering::Relaxed);
        assert!((1..=most).contains(&asked), "{asked} of {most}");
        assert!(get(address, "/other").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn seka_92_connections_that_say_nothing_end() {
        let (address, _) = served().await;
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(TcpStream::connect(address).await.expect("a connection"));
        }
        assert!(get(address, "/metrics").await.starts_with("HTTP/1.1 200"));
        let mut last = silent.swap_remove(0);
        let mut byte = [0];
        let ended = timeout(PATIENCE, last.read(&mut byte)).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
}
