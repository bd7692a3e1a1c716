//! The device owns components and nothing else: its own functions must be in one short file.

use super::shipped::shipped;
use super::{Diagnostic, Tree};

const FOLDER: &str = "crates/mezza-messenger/src/";
const FILE: &str = "crates/mezza-messenger/src/device.rs";
/// Maximum number of lines of that file.
const LINES_MAX: usize = 320;

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    for (path, code) in shipped(tree, FOLDER) {
        if path == FILE {
            let lines = code.lines().count();
            let text = || format!("{lines} lines of {LINES_MAX}; a flow has its own file");
            refused.extend((lines > LINES_MAX).then(|| Diagnostic::new(path, 0, text())));
            continue;
        }
        let own = code.lines().enumerate().filter(|(_, line)| is_of_device(line));
        let text = "functions of the device stand in `device.rs`; make it one of its components";
        refused.extend(own.map(|(i, _)| Diagnostic::new(path, i + 1, text)));
    }
    refused
}

/// Returns true if a block of the device's own functions, or of a trait for it, begins here.
fn is_of_device(line: &str) -> bool {
    let of = line.trim_start().strip_prefix("impl").map(|rest| rest.split(" for ").last());
    let words = of.flatten().unwrap_or_default().split(|c: char| !c.is_alphanumeric());
    words.into_iter().any(|word| word == "Device" || word == "DeviceOver")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    /// Returns the number of refusals of a tree planted under `name`, since tests run in parallel.
    fn refuses(name: &str, path: &str, text: &str) -> usize {
        let path = format!("{FOLDER}{path}");
        let lib = format!("{FOLDER}lib.rs");
        let root = plant(name, &[(&lib, "mod device;\nmod outbox;\n"), (&path, text)]);
        check(&Tree::read(&root).expect("the tree is readable")).len()
    }

    #[test]
    fn functions_of_the_device_outside_of_its_file() {
        for text in [
            "impl<P: Port> DeviceOver<P> {\n}\n",
            "    impl Device {}\n",
            "impl<P: Port> fmt::Debug for DeviceOver<P> {}\n",
        ] {
            assert_eq!(refuses("device", "device/leave.rs", text), 1, "{text}");
            assert_eq!(refuses("device", "device.rs", text), 0, "{text}");
        }
        for text in ["impl Outbox {}\n", "impl From<Device> for Outbox {}\n", "// impl Device {}\n"]
        {
            assert_eq!(refuses("device", "outbox.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn a_long_device() {
        assert_eq!(refuses("long-device", "device.rs", &"use a;\n".repeat(LINES_MAX)), 0);
        assert_eq!(refuses("long-device", "device.rs", &"use a;\n".repeat(LINES_MAX + 1)), 1);
    }
}
