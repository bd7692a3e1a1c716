//! What an idle watcher costs a relay: `idle_watchers [COUNT]` (10,000 if none is given).
//!
//! The relay runs in this process, whose memory is measured; the watchers in another one.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::env;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use mezza::relay::client::{Connection, connect};
use mezza::relay::{Clock, Limits, RelayConfig, serve};
use mezza_core::Secret;
use mezza_messenger::relay_wire::{BoxKind, ClientFrame, Code, RelayFrame};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Watchers that connect at the same time.
const AT_ONCE: usize = 32;

#[tokio::main]
async fn main() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => relay(10_000).await,
        [count] => relay(count.parse()?).await,
        [port, key, count] => watchers(port.parse()?, key, count.parse()?).await,
        _ => bail!("one argument: how many watchers"),
    }
}

/// Runs the relay and has `count` watchers come.
async fn relay(count: u32) -> Result<()> {
    let dir = env::temp_dir().join(format!("idle-watchers-{}", std::process::id()));
    let config = RelayConfig {
        limits: Limits { idle_ms: 3_600_000, ..Limits::raised() },
        ..RelayConfig::new(&dir, "127.0.0.1:0".parse()?)
    };
    let (stop, stopped) = watch::channel(false);
    let relay = serve(config, stopped).await?;
    let before = resident_bytes()?;
    let mut child = Command::new(env::current_exe()?)
        .arg(relay.address().port().to_string())
        .arg(data_encoding::HEXLOWER.encode(relay.key()))
        .arg(count.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The main thread is no worker of the runtime: it may wait.
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("no output")?).read_line(&mut said)?;
    let each = (resident_bytes()? - before) / u64::from(count.max(1));
    println!("{} watch, {each} bytes each", said.trim());
    drop(child.stdin.take());
    child.wait()?;
    stop.send(true)?;
    relay.wait().await?;
    Ok(std::fs::remove_dir_all(dir)?)
}

/// Connects `count` times, each time watching a box of its own, and stays until the input ends.
async fn watchers(port: u16, key: &str, count: u32) -> Result<()> {
    let key = data_encoding::HEXLOWER.decode(key.as_bytes())?;
    let key: [u8; 32] = key.as_slice().try_into()?;
    let (mut coming, mut here, mut next) = (JoinSet::new(), Vec::new(), 0);
    while here.len() < count as usize {
        while next < count && coming.len() < AT_ONCE {
            coming.spawn(watcher(port, key, next));
            next += 1;
        }
        here.push(coming.join_next().await.context("nobody comes")???);
    }
    println!("{}", here.len());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

async fn watcher(port: u16, key: [u8; 32], number: u32) -> Result<Connection> {
    let mut connection = connect(&key, "127.0.0.1", port, &Clock::system(), None).await?;
    let token = || Secret::fill(|bytes| bytes[..4].copy_from_slice(&number.to_be_bytes()));
    let open = ClientFrame::Open { req: 1, token: token(), kind: BoxKind::Conversation };
    connection.send(&open).await?;
    connection.send(&ClientFrame::Watch { req: 2, number: 1, token: token() }).await?;
    for _ in 0..2 {
        match connection.recv().await? {
            RelayFrame::Done { code: Code::Done, .. } => (),
            other => bail!("{other:?} in place of DONE"),
        }
    }
    Ok(connection)
}

/// Memory of this process, bytes.
fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1_024)
}
