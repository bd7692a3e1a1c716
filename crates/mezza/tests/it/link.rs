//! Tunnels as processes, in network namespaces:
//!
//! ```text
//!  namespace A                                                namespace B
//!  mezza link up --+                                   +-- mezza link up
//!  TAP cam1        |                                   |   TAP cam1
//!  10.7.0.1        a0 -------------- veth ------------ b0  10.7.0.2
//!
//!  namespace A        namespace M, an attacker         namespace B
//!                  a0 ------ ma      mb -------------- b0
//! ```

pub mod contacts;
mod net;
mod roads;

use std::time::Duration;

use net::{Net, Tunnel, pair_both};

/// Kill -9 at random moments, unless `MEZZA_TEST_KILLS` says how often.
const KILLS: u32 = 12;

#[test]
fn slow_two_machines_pair_come_up_and_carry_everything_both_ways() {
    let Some(net) = Net::joined("all") else { return };
    pair_both(&net, &[], &[]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    for from in 0..2 {
        assert!(net.udp_echo(from, 200, 1_300), "UDP from {from}");
        assert!(net.udp_echo(from, 20, 8_000), "UDP in fragments of IP from {from}");
        assert!(net.tcp_echo(from, 8 << 20), "TCP from {from}");
    }
    let shown = a.show();
    assert_eq!((shown["up"].as_bool(), shown["trouble"].as_str()), (Some(true), Some("none")));
    assert!(shown["traffic"]["tx_bytes"].as_u64().unwrap() > 8 << 20);
    // New keys while frames flow: none is lost.
    let before = a.show()["rekeys"].as_u64().unwrap();
    for _ in 0..5 {
        a.ok(&["rekey", "cam1"]);
        assert!(net.udp_echo(0, 300, 900));
    }
    assert!(a.show()["rekeys"].as_u64().unwrap() > before);
    assert_eq!(a.show()["dropped"]["forged"], 0);
    a.ok(&["forget", "cam1", "--yes"]);
    assert_eq!(a.run(&["show", "cam1"]).0, 66);
}

#[test]
fn slow_bare_ethernet_carries_a_link_as_well() {
    let Some(net) = Net::joined("ether") else { return };
    pair_both(&net, &["--carrier", "ether"], &[]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    assert!(net.tcp_echo(0, 1 << 20) && net.udp_echo(1, 50, 1_300));
    assert_eq!(a.show()["carrier"], "ether");
}

#[test]
fn slow_six_digits_pair_two_people_who_say_yes_and_nobody_else() {
    let Some(net) = Net::joined("digits") else { return };
    pair_both(&net, &["--sas"], b"y\n");
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    assert_eq!(a.show()["pairing"], "digits");
    drop((a, b));
    let Some(net) = Net::joined("no") else { return };
    let ends = net.pair([&["--sas"], &["--sas"]], [b"y\n", b"n\n"]);
    assert!(ends[1].0 == 1 && ends[1].1.contains("the digits differ"), "{ends:?}");
    assert_ne!(ends[0].0, 0);
}

/// A man in the middle of a pairing without digits is paired with both. The first exchange that he
/// misses fails on both sides, and nothing pairs again by itself.
#[test]
fn slow_a_man_in_the_middle_of_a_pairing_is_found_when_he_leaves() {
    let Some(net) = Net::split("mitm") else { return };
    // He has each side's name towards the other one.
    net.name(0, 1);
    net.name(1, 2);
    let him = [net.intruder(2), net.intruder(1)];
    for (side, intruder) in him.iter().enumerate() {
        let theirs = net.begin_pair(side, &[], b"");
        let his = intruder.begin_pair(&net, side);
        assert_eq!(net::end(his).0, 0);
        assert_eq!(net::end(theirs).0, 0);
    }
    net.join();
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    let found = net::until(Duration::from_secs(90), || {
        let troubles = [a.show(), b.show()].map(|shown| shown["trouble"].clone());
        troubles.iter().any(|trouble| trouble == "not recognised")
    });
    assert!(found, "{} {}", a.show(), b.show());
    assert!([a.show(), b.show()].iter().all(|shown| shown["up"] == false));
    let alarmed = [&a, &b].into_iter().find(|side| side.show()["trouble"] == "not recognised");
    assert_eq!(alarmed.unwrap().run(&["show", "cam1"]).0, 1);
}

/// Whichever side is killed, at whatever moment: the next exchange succeeds.
#[test]
fn slow_a_side_that_is_killed_comes_back_into_the_link() {
    let Some(net) = Net::joined("kill") else { return };
    pair_both(&net, &[], &[]);
    let asked = std::env::var("MEZZA_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
    let kills: u32 = asked.unwrap_or(KILLS);
    let mut sides = [Tunnel::up(&net, 0), Tunnel::up(&net, 1)];
    net.wait_echo(&sides[0], &sides[1]);
    let mut dice = 88_172_645_463_325_252_u64;
    for round in 0..kills {
        // xorshift: which side, and when after an exchange was asked for.
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        let side = (dice & 1) as usize;
        let asking = sides[0].begin(&["rekey", "cam1"]);
        std::thread::sleep(Duration::from_micros(dice >> 8 & 0x3fff));
        sides[side].kill();
        let _ = net::end(asking);
        sides[side] = Tunnel::up(&net, side);
        // Which side begins exchanges was drawn when they paired: either of them asks for one.
        let _ = sides[1 - side].run(&["rekey", "cam1"]);
        let is_up = |side: &Tunnel| side.show()["up"] == true;
        let healed = net::until(Duration::from_secs(30), || is_up(&sides[side]));
        assert!(healed, "round {round}: {} {}", sides[0].show(), sides[1].show());
    }
    net.wait_echo(&sides[0], &sides[1]);
    for side in &sides {
        assert_eq!(side.show()["trouble"], "none");
    }
}

/// With `state = "ram"` a pairing lives in the daemon: it is made through it, and ends with it.
#[test]
fn seka_75_slow_a_pairing_in_memory_ends_with_its_daemon() {
    let Some(net) = Net::joined("ram") else { return };
    net.keep_in_memory(0);
    let (code, text) = net.run(0, &["pair", "a0", "--name", "cam1", "--window", "5"]);
    assert!(code == 69 && text.contains("no daemon listens"), "{code} {text}");
    let a = Tunnel::up(&net, 0);
    assert_eq!(net.run(0, &["up", "--check"]).0, 75, "a second daemon at the same socket");
    pair_both(&net, &[], &[]);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    assert!(net.tcp_echo(0, 1 << 20));
    a.ok(&["rekey", "cam1"]);
    drop(a);
    let a = Tunnel::up(&net, 0);
    assert_eq!(a.run(&["show", "cam1"]).0, 66);
    // The other side remembers; both pair again, and the link is there.
    pair_both(&net, &["--replace"], &[]);
    net.wait_echo(&a, &b);
}

#[test]
fn seka_74_slow_a_daemon_keeps_two_capabilities_and_no_way_to_new_ones() {
    let Some(net) = Net::joined("rights") else { return };
    pair_both(&net, &[], &[]);
    let a = Tunnel::up(&net, 0);
    let b = Tunnel::up(&net, 1);
    net.wait_echo(&a, &b);
    // Bits 12 and 13: NET_ADMIN and NET_RAW (capabilities(7)).
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert!(a.status(set).iter().all(|bits| bits == "0000000000003000"), "{:?}", a.status(set));
    }
    assert!(a.status("NoNewPrivs:").iter().all(|on| on == "1"));
}

/// The unit has a user of its own, to whom the state folder belongs. Root pairs and forgets while it is stopped.
#[test]
fn seka_93_root_works_on_a_state_folder_as_its_owner() {
    const OWNER: u32 = 12_345;
    let Some(net) = Net::joined("owner") else { return };
    pair_both(&net, &[], &[]);
    net.give_state(0, OWNER);
    let (code, text) = net.run(0, &["pair", "a0", "--name", "cam2", "--window", "5"]);
    assert!(code == 75 && text.contains("nobody answered"), "{code} {text}");
    // A second pairing of the same two devices replaces the first one.
    pair_both(&net, &["--replace"], &[]);
    let owners = net.owners(0);
    assert!(owners.len() >= 4 && owners.iter().all(|owner| *owner == OWNER), "{owners:?}");
    let record = net.record(0);
    let (code, text) = net.run(0, &["forget", "cam1", "--yes"]);
    assert!(code == 0 && !record.exists(), "{code} {text}");
}

#[test]
fn seka_51_two_daemons_on_one_state_folder_are_one_too_many() {
    let Some(net) = Net::joined("two") else { return };
    pair_both(&net, &[], &[]);
    let _a = Tunnel::up(&net, 0);
    let (code, text) = net.run(0, &["up", "--check"]);
    assert_eq!(code, 75, "{text}");
    assert!(text.contains("in use"), "{text}");
}

#[test]
fn what_cannot_be_gets_its_text_and_its_code() {
    let Some(net) = Net::joined("texts") else { return };
    for (args, code, said) in [
        (&["pair", "nosuch0"][..], 78, "there is no interface nosuch0"),
        (&["pair", "a0", "--to", "192.0.2.7"], 2, "pairing across a network needs --sas"),
        (&["pair", "a0", "--peer", "x"], 2, "no name of a device"),
        (&["pair", "a0", "--name", "9"], 2, "a name has 1 to 15"),
        (&["pair", "a0", "--window", "5"], 75, "nobody answered on a0 within 5 s"),
        (&["up", "cam9"], 66, "there is no link cam9"),
        (&["show"], 69, "no daemon listens"),
        (&["rekey", "cam1"], 69, "no daemon listens"),
        (&["forget", "cam9", "--yes"], 66, "there is no link cam9"),
    ] {
        let (ended, text) = net.run(0, args);
        assert_eq!(ended, code, "{args:?}: {text}");
        assert!(text.contains(said), "{args:?}: {text}");
    }
}

/// A record that is damaged in both slots is quarantined with the next step; the other links go on.
#[test]
fn slow_a_damaged_record_is_set_aside() {
    let Some(net) = Net::joined("damaged") else { return };
    pair_both(&net, &[], &[]);
    let file = net.record(0);
    std::fs::write(&file, vec![0x55; 8_192]).unwrap();
    let (code, text) = net.run(0, &["up", "--check"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("both slots are damaged, it is quarantined"), "{text}");
    // It is not paired again by itself, nor reset, until it is forgotten.
    assert_eq!(std::fs::read(&file).unwrap(), vec![0x55; 8_192]);
    let (code, text) = net.run(0, &["forget", "cam1", "--yes"]);
    assert!(code == 0 && !file.exists(), "{text}");
}
