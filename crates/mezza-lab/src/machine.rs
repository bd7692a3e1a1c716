//! The properties of this machine that affect figures. None of them names a user or a host.

use std::fs;

use mezza_core::labelled_hash;
use serde_json::{Value, json};

/// Processor flags that affect the speed of the measured operations.
const FLAGS: [&str; 9] =
    ["aes", "adx", "avx2", "avx512f", "avx512ifma", "bmi2", "neon", "sha_ni", "vaes"];

/// The properties in the fingerprint of a machine.
pub struct Hardware {
    /// The model name of the processor.
    pub cpu: String,
    /// The processor flags that affect the measured speed.
    pub flags: Vec<&'static str>,
    /// Processors that this program may use.
    pub cores: usize,
    /// Memory size in GiB.
    pub gib: u64,
    /// The kernel release.
    pub kernel: String,
}

impl Hardware {
    /// Reads the properties of this machine. Unknown properties stay empty.
    pub fn of_this_machine() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let known: Vec<&str> = find_field(&info, "flags").split(' ').collect();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib =
            find_field(&memory, "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: find_field(&info, "model name").to_owned(),
            flags: FLAGS.into_iter().filter(|flag| known.contains(flag)).collect(),
            cores: count_cores(),
            gib: (kib + (1 << 19)) >> 20,
            kernel: kernel.trim().to_owned(),
        }
    }

    /// Returns the first eight hexadecimal digits of BLAKE2b over all properties.
    pub fn id(&self) -> String {
        let Self { cpu, flags, cores, gib, kernel } = self;
        let text = format!("{cpu}|{}|{cores}|{gib}|{kernel}", flags.join(" "));
        data_encoding::HEXLOWER.encode(&labelled_hash::<4>("mezza/lab/machine", &[text.as_bytes()]))
    }

    /// Returns the JSON value for the head of a raw file.
    pub fn to_json(&self) -> Value {
        let virt = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        json!({
            "id": self.id(), "cpu": self.cpu, "flags": self.flags, "cores": self.cores,
            "gib": self.gib, "kernel": self.kernel, "governor": read_governor(), "load": read_load(),
            "virtual": find_field(&virt, "flags").split(' ').any(|flag| flag == "hypervisor"),
        })
    }
}

/// Returns the value of the first line `name : value`.
fn find_field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map_or("", |(_, value)| value.trim())
}

/// Returns the number of processors that this program may use.
pub fn count_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the load average of the last minute.
pub fn read_load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Returns the governor of the CPU frequency, or `None`.
pub fn read_governor() -> Option<String> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the resident memory of a process in bytes.
pub fn resident_bytes(pid: u32) -> Option<f64> {
    memory_field(pid, "VmRSS")
}

/// Returns the peak of the resident memory of a process in bytes.
pub fn peak_resident_bytes(pid: u32) -> Option<f64> {
    memory_field(pid, "VmHWM")
}

fn memory_field(pid: u32, name: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib: u32 = find_field(&status, name).trim_end_matches(" kB").parse().ok()?;
    Some(f64::from(kib) * 1_024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(cores: usize) -> Hardware {
        let cpu = "Some CPU".to_owned();
        let kernel = "6.1".to_owned();
        Hardware { cpu, flags: vec!["aes"], cores, gib: 8, kernel }
    }

    #[test]
    fn the_id_depends_on_what_it_is_made_of_and_on_nothing_else() {
        assert_eq!(planted(2).id(), planted(2).id());
        assert_ne!(planted(2).id(), planted(3).id());
        assert_eq!(planted(2).id().len(), 8);
    }

    #[test]
    fn fields_of_proc() {
        let text = "model name\t: A B: C\nflags\t\t: aes sha_ni\nVmRSS:\t  12 kB\n";
        assert_eq!(find_field(text, "model name"), "A B: C");
        assert_eq!(find_field(text, "VmRSS"), "12 kB");
        assert_eq!(find_field(text, "none"), "");
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000.0);
    }
}
