//! TCP streams and UDP datagrams between two namespaces, counted at the receiver.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and rates of seconds, far below 2^52 and never negative"
)]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;

use crate::goals::seka::net::Namespaces;

/// Time limit for a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);
/// Time limit for a system call.
const CALL: Duration = Duration::from_millis(100);
/// Receive buffer in bytes, large enough that a loaded machine does not lose datagrams that the
/// path carried.
const BUFFER_BYTES: usize = 4 << 20;
/// Pause between the bursts of a sender with a rate.
const BURST: Duration = Duration::from_millis(1);

/// One direction of a path.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The sending side.
    pub from: usize,
    /// The receiver's address on this path.
    pub to: IpAddr,
    /// Duration of the measurement.
    pub window: Duration,
}

/// The datagrams of a flow.
#[derive(Clone, Copy, Debug)]
pub struct DatagramLoad {
    /// Payload bytes of a datagram.
    pub bytes: usize,
    /// Mbit/s to send; `None` for as many as one thread can.
    pub mbit: Option<f64>,
}

/// Measures one TCP stream. Returns the received Mbit/s; 0 without a connection.
///
/// # Errors
/// A missing namespace, or an address that the namespace does not have.
pub fn tcp_mbit(net: &Namespaces, flow: Flow) -> Result<f64> {
    let listener = net.run_within(1 - flow.from, move || TcpListener::bind((flow.to, 0)))??;
    let to = listener.local_addr()?;
    let receiving = std::thread::spawn(move || receive_stream(&listener, flow.window));
    net.run_within(flow.from, move || send_stream(to, flow.window))?;
    let bytes = receiving.join().unwrap_or(Ok(0))?;
    Ok(to_mbit(bytes, flow.window))
}

/// Returns the first fifth of a window, which is for the start of the stream.
fn warm_up(window: Duration) -> Duration {
    window / 5
}

fn receive_stream(listener: &TcpListener, window: Duration) -> std::io::Result<usize> {
    let Some(mut stream) = accept_stream(listener)? else { return Ok(0) };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(CALL))?;
    let mut buffer = vec![0; 1 << 18];
    let begin = Instant::now() + warm_up(window);
    let end = begin + window;
    let mut bytes = 0;
    while Instant::now() < end {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) if Instant::now() >= begin => bytes += count,
            Err(error) if !is_late(&error) => break,
            _ => {}
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    Ok(bytes)
}

fn accept_stream(listener: &TcpListener) -> std::io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    let end = Instant::now() + CONNECT;
    while Instant::now() < end {
        match listener.accept() {
            Err(error) if is_late(&error) => std::thread::sleep(BURST),
            accepted => return accepted.map(|(stream, _)| Some(stream)),
        }
    }
    Ok(None)
}

/// Sends until the other side closes.
fn send_stream(to: SocketAddr, window: Duration) {
    let Ok(mut stream) = TcpStream::connect_timeout(&to, CONNECT) else { return };
    let _ = stream.set_write_timeout(Some(CALL));
    let part = vec![0x5a; 1 << 17];
    let end = Instant::now() + window * 2 + CONNECT;
    while Instant::now() < end {
        match stream.write(&part) {
            Err(error) if !is_late(&error) => return,
            _ => {}
        }
    }
}

fn is_late(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Measures datagrams. Returns the received Mbit/s.
///
/// # Errors
/// A missing namespace, or an address that the namespace does not have.
pub fn udp_mbit(net: &Namespaces, flow: Flow, load: DatagramLoad) -> Result<f64> {
    let socket = net.run_within(1 - flow.from, move || UdpSocket::bind((flow.to, 0)))??;
    // A smaller buffer would lose more, on the bare path as well.
    let _ = setsockopt(&socket, RcvBufForce, &BUFFER_BYTES);
    socket.set_read_timeout(Some(CALL))?;
    let to = socket.local_addr()?;
    let ended = Arc::new(AtomicBool::new(false));
    let sent = Arc::clone(&ended);
    let receiving = std::thread::spawn(move || receive_datagrams(&socket, &sent));
    let took = net.run_within(flow.from, move || send_datagrams(to, flow.window, load));
    ended.store(true, Ordering::Relaxed);
    let bytes = receiving.join().unwrap_or(0);
    Ok(to_mbit(bytes, took??))
}

fn receive_datagrams(socket: &UdpSocket, ended: &AtomicBool) -> usize {
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(count) => bytes += count,
            // No datagram arrived for a while after the last was sent.
            Err(_) if ended.load(Ordering::Relaxed) => return bytes,
            Err(_) => {}
        }
    }
}

/// Sends datagrams. Returns the duration of sending.
fn send_datagrams(
    to: SocketAddr,
    window: Duration,
    load: DatagramLoad,
) -> std::io::Result<Duration> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let datagram = vec![0x5a; load.bytes];
    let begun = Instant::now();
    let mut sent = 0_u64;
    while begun.elapsed() < window {
        let due = load.mbit.map_or(sent + 64, |mbit| {
            (begun.elapsed().as_secs_f64() * mbit * 1e6 / 8.0 / load.bytes as f64) as u64
        });
        for _ in sent..due {
            // If the system's queue is full, the datagram is lost, as on the path.
            let _ = socket.send(&datagram);
        }
        sent = due.max(sent);
        if load.mbit.is_some() {
            std::thread::sleep(BURST);
        }
    }
    Ok(begun.elapsed())
}

fn to_mbit(bytes: usize, window: Duration) -> f64 {
    bytes as f64 * 8.0 / 1e6 / window.as_secs_f64()
}

/// Returns true if a datagram from a side comes back from the other one.
///
/// # Errors
/// A missing namespace.
pub fn is_echoed(net: &Namespaces, from: usize, to: IpAddr) -> Result<bool> {
    let Ok(echo) = net.run_within(1 - from, move || UdpSocket::bind((to, 0)))? else {
        return Ok(false);
    };
    echo.set_read_timeout(Some(CALL * 5))?;
    let at = echo.local_addr()?;
    let echoing = std::thread::spawn(move || {
        let mut buffer = [0; 64];
        if let Ok((bytes, from)) = echo.recv_from(&mut buffer) {
            let _ = echo.send_to(&buffer[..bytes], from);
        }
    });
    let came = net.run_within(from, move || {
        let any = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.set_read_timeout(Some(CALL * 5))?;
        socket.send_to(b"echo", at)?;
        socket.recv(&mut [0; 64])
    })?;
    let _ = echoing.join();
    Ok(came.is_ok())
}
