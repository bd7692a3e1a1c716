//! A device and its guard as two network namespaces on one cable.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Two namespaces: `device` has 10.9.0.3/31, `guard` 10.9.0.2/31.
pub struct Cable {
    device: String,
    guard: String,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

fn ip(args: &[&str]) -> bool {
    let done = Command::new("ip").args(args).stdin(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

impl Cable {
    /// Makes the namespaces; `None` without the rights for it.
    pub fn new() -> Option<Self> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |side: char| format!("mzg{}{number}{side}", std::process::id());
        let cable = Self { device: name('d'), guard: name('g') };
        let made =
            [&cable.device, &cable.guard].into_iter().all(|name| ip(&["netns", "add", name]));
        if !nix::unistd::geteuid().is_root() || !made {
            println!(
                "SKIPPED guard cable: no network namespaces; apt install iproute2, run as root"
            );
            return None;
        }
        let peer = ["type", "veth", "peer", "name", "g0", "netns", &cable.guard];
        assert!(ip(&[&["link", "add", "d0", "netns", &cable.device], &peer[..]].concat()));
        for (space, device, address) in
            [(&cable.device, "d0", "10.9.0.3/31"), (&cable.guard, "g0", "10.9.0.2/31")]
        {
            Self::set(space, &format!("net.ipv6.conf.{device}.disable_ipv6=1"));
            assert!(ip(&["-n", space, "address", "add", address, "dev", device]));
            assert!(ip(&["-n", space, "link", "set", "lo", "up"]));
            assert!(ip(&["-n", space, "link", "set", device, "up"]));
        }
        Some(cable)
    }

    fn set(space: &str, setting: &str) {
        let mut command = Self::within(space, "sysctl");
        command.args(["-q", "-w", setting]).stderr(Stdio::null());
        // A kernel without IPv6 has no such setting.
        let _ = command.status();
    }

    fn within(space: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, program]).stdin(Stdio::null());
        command
    }

    /// Switches IPv6 of the device's cable on.
    pub fn allow_ipv6(&self) {
        Self::set(&self.device, "net.ipv6.conf.d0.disable_ipv6=0");
    }

    /// Changes the routes of the device.
    pub fn route(&self, words: &[&str]) -> bool {
        ip(&[&["-n", &self.device, "route"], words].concat())
    }

    /// Runs the check on the device. Returns its exit code and its output.
    pub fn check(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Self::within(&self.device, env!("CARGO_BIN_EXE_mezza"));
        command.args(["--home", "/nonexistent", "guard", "check", "10.9.0.2"]).args(words);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for space in [&self.device, &self.guard] {
            ip(&["netns", "del", space]);
        }
    }
}
