//! Networks that people have: routers, narrow paths, bridges, interfaces that come and go, and somebody
//! on the same network who sends what he likes.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::net::{self, Net, Tunnel, pair_both, until};

/// How long a transfer may take that the faults of old made last for minutes.
const TRANSFER: Duration = Duration::from_secs(60);
/// How long a link may take to come back on a loaded machine.
const BACK: Duration = Duration::from_secs(90);

/// The two names of a pairing, and the link-local address of a machine.
fn names(side: &Tunnel) -> [Vec<u8>; 2] {
    let shown = side.show();
    let bytes = |key: &str| {
        let text = shown[key].as_str().unwrap().replace(':', "");
        (0..6).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
    };
    [bytes("own"), bytes("peer")]
}

fn link_local(net: &Net, side: usize) -> Ipv6Addr {
    let on = ["a0", "b0"][side];
    let text = net.ip_text(side, &["-6", "-o", "addr", "show", "dev", on, "scope", "link"]);
    let address = text.split_whitespace().find_map(|word| word.split('/').next()?.parse().ok());
    address.unwrap_or_else(|| panic!("no address: {text}"))
}

/// A nudge and a KE1 made of two public names: whoever hears one exchange can make them.
fn junk(from: &[u8], to: &[u8]) -> [Vec<u8>; 2] {
    let begin = |kind: u8, bytes: usize| {
        let mut frame = vec![0x11; bytes];
        frame[..8].copy_from_slice(&[1, kind, 2, 0, 0, 0, 0, 0]);
        frame[8..14].copy_from_slice(from);
        frame[14..20].copy_from_slice(to);
        frame
    };
    let mut ke1 = begin(0x15, 88);
    ke1[36..40].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
    [begin(0x18, 40), ke1]
}

/// Two datagrams of anybody on the network used to end a link for good.
#[test]
fn seka_76_slow_forged_datagrams_of_a_third_machine_move_no_link() {
    let Some(net) = Net::switched("forged") else { return };
    pair_both(&net, &[], &[]);
    let sides = [Tunnel::up(&net, 0), Tunnel::up(&net, 1)];
    net.wait_echo(&sides[0], &sides[1]);
    let before = sides.each_ref().map(|side| side.show()["endpoint"].clone());
    let address = [0, 1].map(|side| link_local(&net, side));
    let [own, peer] = names(&sides[0]);
    for _ in 0..5 {
        for frame in junk(&peer, &own) {
            net.strike("sw0", address[0], frame);
        }
        for frame in junk(&own, &peer) {
            net.strike("sw0", address[1], frame);
        }
        // The next exchange goes to the peer, whichever side asks for it.
        let rekeys = || sides.each_ref().map(|side| side.show()["rekeys"].as_u64().unwrap());
        let known = rekeys();
        sides[0].ok(&["rekey", "cam1"]);
        let grown = || rekeys().iter().zip(known).all(|(now, before)| *now > before);
        assert!(until(BACK, grown), "{} {}", sides[0].show(), sides[1].show());
    }
    assert_eq!(sides.each_ref().map(|side| side.show()["endpoint"].clone()), before);
    assert!(net.udp_echo(0, 20, 500));
    // They arrived, and were counted.
    assert!(sides.iter().any(|side| side.show()["refused"].as_u64() > Some(0)));
}

/// Nobody but the pairing knows where the peer is, and no multicast crosses a router.
#[test]
fn seka_78_a_pairing_across_a_router_comes_up() {
    let Some(net) = Net::routed("router") else { return };
    let to = [&["--sas", "--to", "198.51.100.1"][..], &["--sas", "--to", "192.0.2.1"]];
    for (code, text) in net.pair(to, [b"y\n", b"y\n"]) {
        assert_eq!(code, 0, "{text}");
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    assert!(net.tcp_echo(0, 1 << 20));
}

#[test]
fn seka_89_mtu_1500_slow_and_a_narrow_path_carry_streams_and_datagrams() {
    let Some(net) = Net::joined("sizes") else { return };
    pair_both(&net, &[], &[]);
    for side in 0..2 {
        net.configure(side, "[link.cam1]\nmtu = 1500\n");
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    assert_eq!(a.show()["mtu"], 1_500);
    for from in 0..2 {
        assert!(
            net.tcp_echo_within(from, 4 << 20, TRANSFER),
            "TCP from {from}: {} {}",
            a.show(),
            b.show()
        );
        assert!(net.udp_echo(from, 50, 1_472), "UDP from {from}");
    }
    // The path narrows while the link is up: the route of one side, then the interface of the other.
    net.ip(0, &["-6", "route", "replace", "fe80::/64", "dev", "a0", "mtu", "1280"]);
    assert!(net.tcp_echo_within(0, 4 << 20, TRANSFER), "route: {} {}", a.show(), b.show());
    net.ip(1, &["link", "set", "b0", "mtu", "1300"]);
    net.ip(0, &["link", "set", "a0", "mtu", "1300"]);
    assert!(net.tcp_echo_within(1, 4 << 20, TRANSFER), "interface: {} {}", a.show(), b.show());
    assert!(net.udp_echo(0, 50, 1_472));
    assert_eq!(a.show()["dropped"]["too_long"].as_u64().unwrap() / 100, 0, "{}", a.show());
}

#[test]
fn seka_89_slow_the_mtu_of_the_interface_follows_its_path_both_ways() {
    let Some(net) = Net::joined("follow") else { return };
    pair_both(&net, &[], &[]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    a.wait("mtu", &json!(1_409));
    for (mtu, shown) in [("1400", 1_309), ("1500", 1_409)] {
        net.ip(0, &["link", "set", "a0", "mtu", mtu]);
        net.ip(1, &["link", "set", "b0", "mtu", mtu]);
        a.wait("mtu", &json!(shown));
        b.wait("mtu", &json!(shown));
        assert!(net.tcp_echo_within(0, 2 << 20, TRANSFER));
    }
}

#[test]
fn seka_89_long_frames_of_the_path_are_used() {
    let Some(net) = Net::joined("jumbo") else { return };
    pair_both(&net, &[], &[]);
    for (side, on) in [(0, "a0"), (1, "b0")] {
        net.ip(side, &["link", "set", on, "mtu", "9000"]);
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    a.wait("mtu", &json!(8_909));
    assert!(net.tcp_echo_within(0, 4 << 20, TRANSFER) && net.udp_echo(1, 20, 8_800));
}

#[test]
fn machines_without_addresses_of_ipv6_carry_a_link_over_ipv4() {
    let Some(net) = Net::routed("ip4") else { return };
    for side in 0..2 {
        let switch = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
        net.within(side, move || std::fs::write(switch, "1")).unwrap();
    }
    let to = [&["--sas", "--to", "198.51.100.1"][..], &["--sas", "--to", "192.0.2.1"]];
    for (code, text) in net.pair(to, [b"y\n", b"y\n"]) {
        assert_eq!(code, 0, "{text}");
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    assert!(net.tcp_echo(0, 1 << 20) && net.udp_echo(1, 20, 1_300));
}

/// The guide's own example: hosts behind two bridges, which the tunnel joins.
#[test]
fn seka_89_slow_a_bridge_keeps_its_mtu_and_carries_full_frames() {
    let Some(net) = Net::joined("bridge") else { return };
    pair_both(&net, &[], &[]);
    for side in 0..2 {
        net.ip(side, &["link", "add", "br0", "type", "bridge"]);
        net.ip(side, &["link", "set", "br0", "up"]);
        let address = format!("10.7.0.{}/24", side + 1);
        net.ip(side, &["addr", "add", &address, "dev", "br0"]);
        net.configure(side, "[link.cam1]\nbridge = \"br0\"\n");
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    assert!(until(BACK, || net.udp_echo(0, 1, 10)), "{} {}", a.show(), b.show());
    assert_eq!(a.show()["mtu"], 1_500);
    for from in 0..2 {
        assert!(net.udp_echo(from, 50, 1_472), "UDP from {from}");
        assert!(net.tcp_echo_within(from, 4 << 20, TRANSFER), "TCP from {from}: {}", a.show());
    }
}

/// A bridge hands over super-frames of its own size. The kernel cuts what is above the limit of a port.
#[test]
fn seka_97_the_interface_takes_super_frames_of_any_number_of_segments() {
    let Some(net) = Net::joined("segments") else { return };
    pair_both(&net, &[], &[]);
    let tunnel = Tunnel::up(&net, 0);
    let of = |name| net.ip_text(0, &["-details", "link", "show", "dev", name]);
    let segments = |text: &str| {
        let mut words = text.split_whitespace();
        words.find(|word| *word == "gso_max_segs");
        words.next().map(str::to_owned)
    };
    let usual = segments(&of("lo"));
    assert!(usual.is_some());
    assert_eq!(segments(&of("cam1")), usual, "{}", tunnel.show());
}

#[test]
fn seka_89_an_mtu_that_cannot_work_is_refused_with_the_largest_that_can() {
    let Some(net) = Net::joined("largest") else { return };
    pair_both(&net, &[], &[]);
    net.configure(0, "[link.cam1]\nmtu = 65000\n");
    let (code, text) = net.run(0, &["up", "--check"]);
    assert!(code == 0 && text.contains("the largest that can be is 5690"), "{code} {text}");
    net.configure(0, "[link.cam1]\nbridge = \"a0\"\n");
    let (code, text) = net.run(0, &["up", "--check"]);
    assert!(code == 0 && text.contains("a loop"), "{code} {text}");
}

/// One missing card used to stop all links of a daemon.
#[test]
fn seka_86_slow_a_link_that_cannot_run_stops_no_other_and_comes_up_when_it_can() {
    let Some(net) = Net::joined("aside") else { return };
    pair_both(&net, &[], &[]);
    let third = net.intruder(9);
    let peer = ["peer", "name", "m1", "netns", net.namespace(2)];
    net.ip(0, &[&["link", "add", "a1", "type", "veth"], &peer[..]].concat());
    net.ip(0, &["link", "set", "a1", "up"]);
    net.ip(2, &["link", "set", "m1", "up"]);
    let theirs = third.begin_pair_on(&net, "m1");
    let (code, text) = net.run(0, &["pair", "a1", "--name", "cam2", "--window", "30"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(net::end(theirs).0, 0);
    net.ip(0, &["link", "del", "a1"]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    let shown = a.show_named("cam2");
    assert_eq!((&shown["trouble"], &shown["up"]), (&json!("aside"), &json!(false)), "{shown}");
    assert_eq!(shown["aside"]["reason"], "there is no interface a1");
    let (code, text) = a.run(&["show", "cam2"]);
    assert!(code == 1 && text.contains("there is no interface a1"), "{text}");
    // The card comes: the link runs, without a restart.
    net.ip(0, &["link", "add", "a1", "type", "veth", "peer", "name", "a2"]);
    net.ip(0, &["link", "set", "a1", "up"]);
    assert!(until(BACK, || a.show_named("cam2")["aside"].is_null()), "{}", a.show_named("cam2"));
}

#[test]
fn seka_86_names_that_the_kernel_refuses_are_refused_before_the_window() {
    let Some(net) = Net::joined("names") else { return };
    for name in ["default", "all", "lo", "a0"] {
        let (code, text) = net.run(0, &["pair", "a0", "--name", name, "--window", "5"]);
        assert!(code == 2 && text.contains("choose another --name"), "{name}: {code} {text}");
    }
}

/// A network card that is pulled out and put back; an interface that is removed by hand.
#[test]
fn seka_86_slow_interfaces_that_go_and_come_take_the_link_with_them_and_bring_it_back() {
    let Some(net) = Net::joined("gone") else { return };
    pair_both(&net, &[], &[]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    let mac = |side| net.ip_text(side, &["-br", "link", "show", "dev", "cam1"]);
    let mac_of = |text: &str| text.split_whitespace().nth(2).map(str::to_owned);
    let before = mac_of(&mac(0));
    assert!(before.is_some());
    net.ip(0, &["link", "del", "a0"]);
    a.wait("trouble", &json!("aside"));
    net.cable();
    assert!(until(BACK, || net.udp_echo(0, 1, 10)), "{} {}", a.show(), b.show());
    assert_eq!((a.show()["trouble"].clone(), a.show()["up"].clone()), (json!("none"), json!(true)));
    // The tunnel's own interface: it is made again, with the same address.
    net.ip(0, &["link", "del", "cam1"]);
    let again = || net.try_ip(0, &["addr", "add", "10.7.0.1/24", "dev", "cam1"]);
    assert!(until(BACK, again), "{}", a.show());
    assert!(until(BACK, || net.udp_echo(0, 1, 10)), "{} {}", a.show(), b.show());
    assert_eq!(mac_of(&mac(0)), before);
}

/// A new address after each start would leave the tables of the other side wrong for a minute.
#[test]
fn seka_85_slow_the_interface_has_the_same_address_after_a_restart() {
    let Some(net) = Net::joined("mac") else { return };
    pair_both(&net, &[], &[]);
    let mut a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    let mac = |net: &Net| net.ip_text(0, &["-br", "link", "show", "dev", "cam1"]);
    let words = |text: String| text.split_whitespace().nth(2).map(str::to_owned);
    let before = words(mac(&net));
    let local = |net: &Net| {
        let text = net.ip_text(0, &["-6", "-o", "addr", "show", "dev", "cam1", "scope", "link"]);
        text.split_whitespace().find(|word| word.starts_with("fe80")).map(str::to_owned)
    };
    let local_before = local(&net);
    a.kill();
    let a = Tunnel::up(&net, 0);
    net.wait_echo(&a, &b);
    assert!(before.is_some() && words(mac(&net)) == before);
    assert!(local_before.is_some() && local(&net) == local_before);
}

/// Both ends have new hardware addresses, and so new link-local ones: each knows only the old one.
#[test]
fn seka_79_slow_both_ends_with_new_addresses_meet_again() {
    let Some(net) = Net::joined("moved") else { return };
    pair_both(&net, &[], &[]);
    let mut a = Tunnel::up(&net, 0);
    let mut b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    a.kill();
    b.kill();
    for (side, on) in [(0, "a0"), (1, "b0")] {
        net.ip(side, &["link", "set", on, "down"]);
        net.ip(side, &["link", "set", on, "address", &format!("02:00:00:00:77:0{side}")]);
        net.ip(side, &["link", "set", on, "up"]);
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
}

/// A peer that does not answer is asked for an exchange long before the next one is due: an exchange that gets
/// no answer goes to every device on the link (SEKA-79).
#[test]
fn seka_95_slow_silence_begins_an_exchange() {
    let Some(net) = Net::joined("silence") else { return };
    pair_both(&net, &[], &[]);
    let sides = [Tunnel::up(&net, 0), Tunnel::up(&net, 1)];
    net.wait_echo(&sides[0], &sides[1]);
    let asks = sides.iter().position(|side| side.show()["role"] == "initiator").unwrap();
    sides[asks].ok(&["rekey", "cam1"]);
    sides[1 - asks].stop(true);
    let is_asked = || {
        net.udp_echo(asks, 1, 10);
        sides[asks].show()["trouble"] == "no answer"
    };
    assert!(until(BACK, is_asked), "{}", sides[asks].show());
    sides[1 - asks].stop(false);
    assert!(until(BACK, || net.udp_echo(asks, 1, 10)), "{}", sides[asks].show());
}

/// An address translator on M: A reaches B through it, and B sees an address of M only.
struct Nat {
    /// The socket of the present mapping, towards B.
    outer: Arc<Mutex<UdpSocket>>,
    stopped: Arc<AtomicBool>,
}

/// The side of M that A sees, and the address of B.
const NAT_INNER: &str = "192.0.2.254:4795";
const BEHIND_NAT: &str = "198.51.100.1:4795";

impl Nat {
    fn begin(net: &Net) -> Self {
        let inner = net.within(2, || UdpSocket::bind(NAT_INNER)).unwrap();
        inner.set_nonblocking(true).unwrap();
        let nat = Self { outer: Arc::new(Mutex::new(mapping(net))), stopped: Arc::default() };
        let outer = Arc::clone(&nat.outer);
        let stopped = Arc::clone(&nat.stopped);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            let mut client: Option<SocketAddr> = None;
            while !stopped.load(Ordering::Relaxed) {
                let outer = outer.lock().unwrap();
                let out = inner.recv_from(&mut buffer).map(|(bytes, from)| {
                    client = Some(from);
                    outer.send_to(&buffer[..bytes], BEHIND_NAT)
                });
                let back = outer
                    .recv_from(&mut buffer)
                    .map(|(bytes, _)| client.map(|client| inner.send_to(&buffer[..bytes], client)));
                drop(outer);
                if out.is_err() && back.is_err() {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        nat
    }

    /// Forgets the mapping: the next datagram of A leaves from another port. Returns its number.
    fn rebind(&self, net: &Net) -> u16 {
        let fresh = mapping(net);
        let port = fresh.local_addr().unwrap().port();
        *self.outer.lock().unwrap() = fresh;
        port
    }
}

fn mapping(net: &Net) -> UdpSocket {
    let socket = net.within(2, || UdpSocket::bind("198.51.100.254:0")).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

impl Drop for Nat {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// B cannot reach A behind the translator until a keep-alive of A made the new mapping known.
#[test]
fn seka_81_a_mapping_that_a_translator_forgets_is_made_again_by_keep_alives() {
    let Some(net) = Net::routed("nat") else { return };
    let to = [&["--sas", "--to", "198.51.100.1"][..], &["--sas", "--to", "192.0.2.1"]];
    for (code, text) in net.pair(to, [b"y\n", b"y\n"]) {
        assert_eq!(code, 0, "{text}");
    }
    // From now on the translator is the one way.
    net.within(2, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "0")).unwrap();
    let nat = Nat::begin(&net);
    let settings = format!("[link.cam1]\nendpoint = \"{NAT_INNER}\"\nkeepalive = \"2s\"\n");
    net.configure(0, &settings);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    for _ in 0..3 {
        let port = nat.rebind(&net);
        let at = json!(format!("198.51.100.254:{port}"));
        b.wait("endpoint", &at);
        assert!(until(BACK, || net.udp_echo(1, 5, 500)), "{} {}", a.show(), b.show());
    }
    assert_eq!(b.show()["rekeys"], a.show()["rekeys"]);
}

#[test]
fn slow_rekey_says_what_happened() {
    let Some(net) = Net::joined("rekey") else { return };
    pair_both(&net, &[], &[]);
    let a = Tunnel::up(&net, 0);
    let mut b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    let (code, text) = a.run(&["rekey", "cam1"]);
    assert!(code == 0 && text.contains("cam1 has new keys"), "{text}");
    b.kill();
    let (code, text) = a.run(&["rekey", "cam1"]);
    assert!(code == 75 && text.contains("did not answer within 10 s"), "{code} {text}");
}

#[test]
fn slow_show_tells_silence_and_loss() {
    let Some(net) = Net::switched("silence") else { return };
    pair_both(&net, &[], &[]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    // What arrives is reported while it arrives.
    assert!(until(BACK, || {
        net.udp_echo(0, 50, 1_200);
        a.show()["delivered_percent"] == 100
    }));
    // The cable to B is cut: A goes on sending, and nothing comes back.
    net.ip(2, &["link", "set", "dev", "mb", "down"]);
    assert!(until(BACK, || {
        net.udp_echo(0, 1, 100);
        a.show()["trouble"] == "silent" || a.show()["trouble"] == "no answer"
    }));
    assert_eq!(a.show()["up"], false, "{}", a.show());
    net.ip(2, &["link", "set", "dev", "mb", "up"]);
    assert!(until(BACK, || net.udp_echo(0, 1, 100)));
    assert!(
        until(BACK, || a.show()["up"] == true && a.show()["trouble"] == "none"),
        "{}",
        a.show()
    );
}

/// A route of our own machine makes it refuse to send (EACCES). EPERM of a firewall means the same.
/// The link is there again when the route goes.
#[test]
fn seka_94_a_rule_of_the_own_machine_is_named() {
    let Some(net) = Net::routed("firewall") else { return };
    let to = [&["--sas", "--to", "198.51.100.1"][..], &["--sas", "--to", "192.0.2.1"]];
    for (code, text) in net.pair(to, [b"y\n", b"y\n"]) {
        assert_eq!(code, 0, "{text}");
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    // Sockets may not send to a broadcast address unless they ask for it. `prohibit` does not hold
    // for sockets that are bound to an interface.
    let route = ["broadcast", "198.51.100.1", "dev", "a0"];
    net.ip(0, &[&["route", "add"], &route[..]].concat());
    assert!(
        until(BACK, || {
            net.udp_echo(0, 1, 100);
            a.show()["trouble"] == "refused here"
        }),
        "{}",
        a.show()
    );
    assert!(a.show()["dropped"]["firewall"].as_u64() > Some(0), "{}", a.show());
    let (code, text) = a.run(&["show", "cam1"]);
    assert!(code == 1 && text.contains("this machine refuses to send"), "{code} {text}");
    net.ip(0, &[&["route", "del"], &route[..]].concat());
    assert!(until(BACK, || net.udp_echo(0, 1, 100)));
    a.wait("trouble", &json!("none"));
}

#[test]
fn seka_90_slow_offload_that_is_off_is_not_used() {
    let Some(net) = Net::joined("offload") else { return };
    pair_both(&net, &[], &[]);
    for side in 0..2 {
        net.configure(side, "[link.cam1]\noffload = \"off\"\n");
    }
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    for from in 0..2 {
        assert!(net.tcp_echo_within(from, 4 << 20, TRANSFER));
    }
    assert_eq!(a.show()["offload"], json!({ "send": false, "receive": false }));
}

/// A question that is still on the screen when another pairing shows other digits.
#[test]
fn seka_88_slow_a_yes_counts_for_the_digits_that_were_asked_about() {
    use std::io::{BufRead, BufReader, Write};
    let Some(net) = Net::joined("yes") else { return };
    let a = Tunnel::up(&net, 0);
    let mut both = [0, 1].map(|side| net.begin_pair(side, &["--sas"], b""));
    let digits = both.each_mut().map(|child| {
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| Some(line.unwrap().strip_prefix("digits ")?.to_owned()));
        (line.unwrap(), lines)
    });
    assert_eq!(digits[0].0, digits[1].0);
    let plain: String = digits[0].0.chars().filter(char::is_ascii_digit).collect();
    let other = if plain.starts_with('1') { "200000" } else { "100000" };
    let socket = net.state(0).join("link.sock");
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    writeln!(stream, "{}", json!({ "ask": "confirm", "digits": other, "equal": true })).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.contains("is over"), "{answer}");
    // The pairing waits for the answer to its own question, and ends well with it.
    for child in &mut both {
        child.stdin.as_mut().unwrap().write_all(b"y\n").unwrap();
    }
    for child in both {
        assert_eq!(net::end(child).0, 0);
    }
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    drop(digits);
}
