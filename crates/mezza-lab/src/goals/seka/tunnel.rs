//! Tunnels in the same namespaces: TCP by iperf3, latency by sockperf, in rounds that alternate
//! between all tunnels.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::net::{Namespaces, run_checked};
use super::rekeys;
use crate::bench::Bench;
use crate::clock::median;
use crate::limit::Limit;
use crate::peer;
use crate::place;
use crate::profile::Profile;
use crate::row::Row;

const RAW: Limit = Limit::at_least("S6", "tunnel, TCP / raw veth", 0.40, "x").stretching(0.55);
const WIREGUARD: Limit =
    Limit::at_least("S6", "tunnel, TCP / wireguard-go of 2026", 2.0, "x").stretching(3.0);
const BORINGTUN: Limit = Limit::at_least("S6", "tunnel, TCP / boringtun", 4.0, "x").stretching(8.0);
const OPENVPN: Limit = Limit::at_least("S6", "tunnel, TCP / OpenVPN", 4.0, "x").stretching(6.0);
const ETHER: Limit = Limit::none("S7", "bare Ethernet, TCP / wireguard-go", "x");
const PLAIN: Limit =
    Limit::at_least("S8", "tunnel, TCP, encrypted / plain", 0.75, "x").stretching(1.0);
const LATENCY: Limit = Limit::at_most("S9", "added latency, median / wireguard-go's", 0.25, "x");
const FLOOD: Limit = Limit::at_most("S11", "throughput lost to 2,000 junk KE1 a second", 10.0, "%");

/// The limits of the tunnel rows.
pub const LIMITS: [Limit; 9] =
    [RAW, WIREGUARD, BORINGTUN, OPENVPN, ETHER, PLAIN, LATENCY, rekeys::LIMIT, FLOOD];

/// A path between the namespaces: its name and the address of B.
struct Way {
    name: &'static str,
    to: String,
}

/// Measures all tunnels, or returns rows with the reason why not.
///
/// # Errors
/// If our tunnel does not come up.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    if bench.profile == Profile::Smoke {
        return Ok(LIMITS.iter().map(|limit| limit.not_here("too slow for a smoke run")).collect());
    }
    if !nix::unistd::geteuid().is_root() {
        return Ok(LIMITS
            .iter()
            .map(|limit| limit.not_here("network namespaces need root"))
            .collect());
    }
    let missing = peer::find_peer("tunnels", &["true"])?.err();
    if let Some(reason) = missing {
        return Ok(LIMITS.iter().map(|limit| limit.no_peer(reason.as_str())).collect());
    }
    let mut net = Namespaces::new(bench.folder.path())?;
    let mut serve = net.make_command(1, "iperf3");
    serve.arg("-s");
    net.spawn_child(serve)?;
    net.start_link("lk0", "udp", "10.7.0", "")?;
    net.start_link("lke", "ether", "10.6.0", "")?;
    net.start_special("lkp", "none", "10.3.0", 4_799)?;
    net.start_special("lkr", "usual", "10.2.0", 4_798)?;
    let mut ways = vec![
        Way { name: "raw", to: "10.9.0.2".into() },
        Way { name: "mezza", to: "10.7.0.2".into() },
        Way { name: "ether", to: "10.6.0.2".into() },
        Way { name: "plain", to: "10.3.0.2".into() },
    ];
    let mut absent = Vec::new();
    for (name, start) in PEERS {
        match start(&mut net) {
            Ok(to) => ways.push(Way { name, to }),
            Err(error) => absent.push((*name, format!("{error:#}"))),
        }
    }
    let throughput = measure_throughput(bench, &net, &ways)?;
    let of =
        |name: &str| throughput.iter().find(|(way, _)| *way == name).map(|(_, v)| v.as_slice());
    let ratio = |limit: &Limit, one: &str, two: &str| -> Row {
        if let (Some(one), Some(two)) = (of(one), of(two)) {
            return limit.make_row(mean_of_best(one) / mean_of_best(two)).with_detail(format!(
                "{:.2} and {:.2} Gbit/s, the best two of {} rounds each",
                mean_of_best(one),
                mean_of_best(two),
                one.len()
            ));
        }
        let reason = absent.iter().find(|(name, _)| *name == two);
        limit.no_peer(reason.map_or("not measured", |(_, reason)| reason.as_str()))
    };
    let mut rows = vec![
        ratio(&RAW, "mezza", "raw"),
        ratio(&WIREGUARD, "mezza", "wireguard-go"),
        ratio(&BORINGTUN, "mezza", "boringtun"),
        ratio(&OPENVPN, "mezza", "openvpn"),
        ratio(&ETHER, "ether", "wireguard-go"),
        ratio(&PLAIN, "mezza", "plain"),
    ];
    rows.push(measure_latency(bench, &net, &ways)?);
    rows.push(rekeys::measure_row(bench, &net, of("mezza").map_or(1.0, mean_of_best))?);
    rows.push(measure_flood(bench, &net)?);
    Ok(rows)
}

/// Returns the mean of the two largest values, since other programs only reduce values.
pub fn mean_of_best(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let best: Vec<f64> = sorted.iter().rev().take(2).copied().collect();
    best.iter().sum::<f64>() / f64::from(u32::try_from(best.len()).unwrap_or(1))
}

/// Measures TCP in Gbit/s over each path, in rounds.
fn measure_throughput(
    bench: &mut Bench,
    net: &Namespaces,
    ways: &[Way],
) -> Result<Vec<(&'static str, Vec<f64>)>> {
    let mut all: Vec<(&'static str, Vec<f64>)> =
        ways.iter().map(|way| (way.name, Vec::new())).collect();
    for _ in 0..bench.profile.pick(1, 5, 9) {
        for (way, (_, values)) in ways.iter().zip(&mut all) {
            let gbit = measure_tcp(net, &way.to, &["-t", "2"])?;
            values.push(gbit);
            bench.note_count(way.name, "tcp", "Gbit/s", gbit)?;
        }
    }
    Ok(all)
}

/// Number of iperf3 runs without a figure after which measuring stops.
const BROKEN_RUNS_MAX: usize = 3;

/// Measures TCP to `to`. Returns the received Gbit/s. On a busy machine iperf3 may end without a
/// figure; then it runs again.
///
/// # Errors
/// If iperf3 fails, or gives no figure three times in a row.
pub fn measure_tcp(net: &Namespaces, to: &str, args: &[&str]) -> Result<f64> {
    let mut last = Value::Null;
    for _ in 0..BROKEN_RUNS_MAX {
        last = run_iperf(net, to, args)?;
        if let Some(bits) = last["end"]["sum_received"]["bits_per_second"].as_f64() {
            return Ok(bits / 1e9);
        }
    }
    bail!("iperf3 gives no figure to {to}: {}", last["error"])
}

/// Runs iperf3 to `to`. Returns its report.
///
/// # Errors
/// If iperf3 fails.
pub fn run_iperf(net: &Namespaces, to: &str, args: &[&str]) -> Result<Value> {
    let mut command = net.make_command(0, "iperf3");
    command.args(["-c", to, "-J"]).args(args).stdout(Stdio::piped());
    Ok(serde_json::from_str(&run_checked(&mut command)?)?)
}

/// Measures the median one-way latency of 64 bytes in us: raw veth, ours, wireguard-go.
fn measure_latency(bench: &mut Bench, net: &Namespaces, ways: &[Way]) -> Result<Row> {
    let names = ["raw", "mezza", "wireguard-go"];
    let wanted: Vec<&Way> = ways.iter().filter(|way| names.contains(&way.name)).collect();
    if wanted.len() < names.len() {
        return Ok(LATENCY.no_peer("wireguard-go is not here"));
    }
    let mut medians = vec![Vec::new(); wanted.len()];
    for _ in 0..bench.profile.pick(1, 5, 9) {
        for (way, values) in wanted.iter().zip(&mut medians) {
            let mut serve = net.make_command(1, "sockperf");
            let mut server = serve.args(["server", "-i", &way.to, "-p", "11111"]).spawn()?;
            std::thread::sleep(Duration::from_millis(300));
            let mut ask = net.make_command(0, "sockperf");
            ask.args(["ping-pong", "-i", &way.to, "-p", "11111", "-m", "64", "-t", "2"]);
            let said = run_checked(ask.stdout(Stdio::piped()));
            let _ = server.kill();
            let _ = server.wait();
            let us =
                read_percentile(&said?, "percentile 50.000").context("sockperf gives no median")?;
            values.push(us);
            bench.note_count(way.name, "latency", "us", us)?;
        }
    }
    let [raw, ours, theirs] = [0, 1, 2].map(|at: usize| median(&medians[at]));
    Ok(LATENCY.make_row((ours - raw) / (theirs - raw)).with_detail(format!(
        "one way, 64 B: raw {raw:.1} us, mezza {ours:.1} us, wireguard-go {theirs:.1} us"
    )))
}

fn read_percentile(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.contains(name))?;
    line.rsplit('=').next()?.trim().parse().ok()
}

/// Returns the side of a link of ours that is the responder.
pub(super) fn find_responder(net: &Namespaces, name: &str) -> Result<usize> {
    Ok(usize::from(net.read_shown(1, name)?["role"] == "responder"))
}

/// Measures throughput with and without forged first messages. Half of them have the peer's name,
/// and the responder refuses them by their tags; the others have strangers' names.
fn measure_flood(bench: &mut Bench, net: &Namespaces) -> Result<Row> {
    let side = find_responder(net, "lk0")?;
    let record = net.read_shown(side, "lk0")?;
    let name = |key: &str| -> Result<Vec<u8>> {
        let text = record[key].as_str().context("no name")?;
        text.split(':').map(|byte| Ok(u8::from_str_radix(byte, 16)?)).collect()
    };
    let mut frame = [0x21; 88];
    frame[..8].copy_from_slice(&[1, 0x15, 2, 0, 0, 0, 1, 9]);
    frame[8..14].copy_from_slice(&name("peer")?);
    frame[14..20].copy_from_slice(&name("own")?);
    frame[36..40].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    let hex = data_encoding::HEXLOWER.encode(&frame);
    let mut quiet = Vec::new();
    let mut flooded = Vec::new();
    for _ in 0..bench.profile.pick(1, 4, 8) {
        quiet.push(measure_tcp(net, "10.7.0.2", &["-t", "2"])?);
        // A short program sends 2,000 messages per second, in bursts of 20.
        let program = format!(
            "import os,socket,time\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\nf=bytes.fromhex('{hex}')\n\
             g=lambda:f[:8]+b'\\x02'+os.urandom(5)+f[14:]\n\
             e=time.monotonic()+3\nwhile time.monotonic()<e:\n for n in range(20):\n  s.sendto(g() if n%2 else f,('10.9.0.{}',4795))\n time.sleep(0.01)\n",
            side + 1
        );
        let mut flood = net.make_command(1 - side, "python3");
        let mut flooding = flood.args(["-c", &program]).spawn()?;
        std::thread::sleep(Duration::from_millis(200));
        flooded.push(measure_tcp(net, "10.7.0.2", &["-t", "2"])?);
        let _ = flooding.wait();
    }
    let refused = net.read_shown(side, "lk0")?["refused"].as_f64().unwrap_or_default();
    let quiet = median(&quiet);
    let flooded = median(&flooded);
    Ok(FLOOD.make_row(100.0 * (1.0 - flooded / quiet)).with_detail(format!(
        "{quiet:.2} Gbit/s without, {flooded:.2} with; {refused} of them were refused by their tags"
    )))
}

/// A function that starts another implementation's tunnel, and returns the address of B in it.
type Start = fn(&mut Namespaces) -> Result<String>;

const PEERS: &[(&str, Start)] =
    &[("wireguard-go", wireguard_go), ("boringtun", start_boringtun), ("openvpn", start_openvpn)];

fn wireguard_go(net: &mut Namespaces) -> Result<String> {
    wireguard_go_over(net, WIREGUARD_MTU)
}

/// Starts wireguard-go over the cable of both namespaces, with interfaces of this MTU. Returns the
/// address of B in the tunnel; the address of A ends with 1.
///
/// # Errors
/// If wireguard-go was not fetched, or the tunnel does not come up.
pub fn wireguard_go_over(net: &mut Namespaces, mtu: u16) -> Result<String> {
    let program = find_binary("wireguard")?;
    let plan = WireGuardPlan { devices: ["wga", "wgb"], port: 5_900, subnet: "10.8.0", mtu };
    start_wireguard(net, &plan, |net, side, device| {
        let mut command = net.make_command(side, &program);
        command.env("WG_PROCESS_FOREGROUND", "1").env("LOG_LEVEL", "error").args(["-f", device]);
        command
    })
}

fn start_boringtun(net: &mut Namespaces) -> Result<String> {
    let program = find_binary("boringtun-cli")?;
    let devices = ["bta", "btb"];
    let plan = WireGuardPlan { devices, port: 5_950, subnet: "10.5.0", mtu: WIREGUARD_MTU };
    start_wireguard(net, &plan, |net, side, device| {
        let mut command = net.make_command(side, &program);
        command.args(["-f", "--disable-drop-privileges", "-t", "2", device]);
        command
    })
}

/// Returns the path of a program that `lab/peers/tunnels.sh fetch` installed.
fn find_binary(name: &str) -> Result<String> {
    let path = place::target_folder().join("peers/bin").join(name);
    let path = path.to_str().filter(|path| std::path::Path::new(path).exists());
    path.map(str::to_owned).with_context(|| format!("{name} is not built; fetch it with `--fetch`"))
}

/// The default MTU of `WireGuard`'s interfaces.
const WIREGUARD_MTU: u16 = 1_420;

/// A tunnel of `WireGuard` between both namespaces.
struct WireGuardPlan {
    /// The names of the interfaces, by side.
    devices: [&'static str; 2],
    /// The UDP port on both sides.
    port: u16,
    /// The first three numbers of the tunnel's addresses.
    subnet: &'static str,
    /// The MTU of the interfaces.
    mtu: u16,
}

fn start_wireguard(
    net: &mut Namespaces,
    plan: &WireGuardPlan,
    program: impl Fn(&Namespaces, usize, &str) -> Command,
) -> Result<String> {
    let WireGuardPlan { devices: [one, two], port, subnet, mtu } = *plan;
    let keys = [0, 1].map(|_| run_checked(Command::new("wg").arg("genkey")));
    let mut secrets = Vec::new();
    for key in keys {
        secrets.push(key?.trim().to_owned());
    }
    let mut publics = Vec::new();
    for (at, secret) in secrets.iter().enumerate() {
        let file = net.folder().join(format!("{one}{at}.key"));
        std::fs::write(&file, secret)?;
        let text = run_checked(&mut pipe_command(&file, "wg pubkey"))?;
        publics.push(text.trim().to_owned());
    }
    for (side, device) in [(0, one), (1, two)] {
        let command = program(net, side, device);
        net.spawn_child(command)?;
    }
    std::thread::sleep(Duration::from_secs(2));
    for (side, device) in [(0, one), (1, two)] {
        let file = net.folder().join(format!("{one}{side}.key"));
        let mut set = net.make_command(side, "wg");
        set.args(["set", device, "private-key"]).arg(file);
        set.args(["listen-port", &port.to_string(), "peer", &publics[1 - side]]);
        set.args(["allowed-ips", "0.0.0.0/0", "endpoint"])
            .arg(format!("10.9.0.{}:{port}", 2 - side));
        run_checked(&mut set)?;
        let mut up = net.make_command(side, "ip");
        run_checked(up.args(["link", "set", device, "mtu", &mtu.to_string(), "up"]))?;
    }
    net.address_tunnel(one, two, subnet)?;
    Ok(format!("{subnet}.2"))
}

/// Makes a shell command with a file as its input.
fn pipe_command(file: &std::path::Path, command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{command} < \"$0\"")).arg(file);
    shell
}

/// Starts a TAP of `OpenVPN` with a static peer by fingerprint, AES-128-GCM, and buffers as large
/// as ours.
fn start_openvpn(net: &mut Namespaces) -> Result<String> {
    let folder = net.folder().to_path_buf();
    let at = |name: &str| folder.join(name).to_str().unwrap_or_default().to_owned();
    for side in ["oa", "ob"] {
        let key = at(&format!("{side}.key"));
        let certificate = at(&format!("{side}.crt"));
        run_checked(Command::new("openssl").args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-keyout",
            &key,
            "-out",
            &certificate,
            "-days",
            "2",
            "-subj",
            &format!("/CN={side}"),
        ]))?;
    }
    for (side, (own, peer, role)) in
        [("oa", "ob", "client"), ("ob", "oa", "server")].into_iter().enumerate()
    {
        let certificate = at(&format!("{peer}.crt"));
        let print = run_checked(Command::new("openssl").args([
            "x509",
            "-in",
            &certificate,
            "-noout",
            "-fingerprint",
            "-sha256",
        ]))?;
        let print = print.trim().rsplit('=').next().unwrap_or_default().to_owned();
        let text = format!(
            "dev {own}\ndev-type tap\nproto udp\nlocal 10.9.0.{}\nremote 10.9.0.{}\nport 5990\ntls-{role}\n\
             {}cert {}\nkey {}\npeer-fingerprint {print}\ndata-ciphers AES-128-GCM\n\
             sndbuf 2097152\nrcvbuf 2097152\n",
            side + 1,
            2 - side,
            if role == "server" { "dh none\n" } else { "" },
            at(&format!("{own}.crt")),
            at(&format!("{own}.key")),
        );
        let file = at(&format!("{own}.conf"));
        std::fs::write(&file, text)?;
        let mut command = net.make_command(side, "openvpn");
        command.args(["--config", &file, "--disable-dco"]);
        net.spawn_child(command)?;
    }
    net.address_tunnel("oa", "ob", "10.4.0")?;
    Ok("10.4.0.2".into())
}
