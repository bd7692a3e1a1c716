//! Drops the privileges of a started server except the needed capabilities and files
//! (capabilities(7), landlock(7)).
//!
//! Both restrictions hold for the calling thread and what it starts, so they must be applied before
//! any other thread exists.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use caps::errors::CapsError;
use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::sys::prctl::{self, set_no_new_privs};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};

use crate::api::{Exit, Fault};

/// The version of the Landlock rules (Linux 6.12). An older kernel enforces those that it knows.
const RULES: ABI = ABI::V6;

/// The privileges to keep.
#[derive(Debug, Default)]
pub struct Allowed {
    /// The capabilities to keep, of those that the process has.
    pub capabilities: &'static [Capability],
    /// Folders in which files are read, written, made and removed.
    pub folders: Vec<PathBuf>,
    /// Files and folders that may be read.
    pub read: &'static [&'static str],
    /// Devices that may be opened.
    pub devices: &'static [&'static str],
    /// The TCP port to listen on.
    pub port: Option<u16>,
    /// True if outgoing TCP connections are allowed.
    pub connects: bool,
}

/// Drops all other privileges permanently.
///
/// # Errors
/// Exit code 78 if a privilege cannot be dropped. A kernel without Landlock is no error, and is
/// logged.
pub fn keep_only(allowed: &Allowed) -> Result<(), Fault> {
    // Children of this process must not get more rights than it has.
    set_no_new_privs().map_err(|error| cannot_give_up(&error))?;
    drop_capabilities(allowed.capabilities).map_err(|error| cannot_give_up(&error))?;
    match restrict_files(allowed).map_err(|error| cannot_give_up(&error))? {
        RulesetStatus::FullyEnforced => {}
        RulesetStatus::PartiallyEnforced => tracing::info!("an older Landlock: some rules are off"),
        RulesetStatus::NotEnforced => tracing::warn!(
            next = "take a kernel of 5.13 or later with Landlock",
            "the files of this machine are not closed to this process"
        ),
    }
    Ok(())
}

/// Becomes the owner of a folder if this process runs as root and the folder is another user's: the
/// owner could not read files that root creates there. Returns true if the user was changed. Call
/// this before any other thread exists.
///
/// The capabilities `kept` stay. So do those that [`keep_only`] needs, and the capability to read
/// the path to the folder, since systemd puts state folders inside one of root.
///
/// # Errors
/// Exit code 77 if the system refuses to change the user.
pub fn become_owner(folder: &Path, kept: &[Capability]) -> Result<bool, Fault> {
    let Ok(found) = std::fs::metadata(folder) else { return Ok(false) };
    if !geteuid().is_root() || found.uid() == 0 {
        return Ok(false);
    }
    let refused = |error: &dyn std::error::Error| {
        let text = format!("cannot work as the owner of {}: {error}", folder.display());
        Fault::new(Exit::Denied, text, "run the program as that user")
    };
    let user = Uid::from_raw(found.uid());
    let group = Gid::from_raw(found.gid());
    prctl::set_keepcaps(true)
        .and_then(|()| setgroups(&[]))
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user))
        .map_err(|error| refused(&error))?;
    let mut left: HashSet<Capability> = kept.iter().copied().collect();
    left.extend([Capability::CAP_SETPCAP, Capability::CAP_DAC_READ_SEARCH]);
    let held = caps::read(None, CapSet::Permitted).map_err(|error| refused(&error))?;
    left.retain(|capability| held.contains(capability));
    caps::set(None, CapSet::Effective, &left).map_err(|error| refused(&error))?;
    caps::set(None, CapSet::Permitted, &left).map_err(|error| refused(&error))?;
    Ok(true)
}

fn cannot_give_up(error: &dyn std::error::Error) -> Fault {
    let text = format!("the system does not take this process's rights back: {error}");
    Fault::new(Exit::Config, text, "allow prctl, capset and landlock_restrict_self to it")
}

fn drop_capabilities(kept: &[Capability]) -> Result<(), CapsError> {
    // Empty the bounding set first, since this needs a capability that is dropped with the others.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)? {
            if !kept.contains(&capability) {
                caps::drop(None, CapSet::Bounding, capability)?;
            }
        }
    }
    caps::clear(None, CapSet::Ambient)?;
    let held = caps::read(None, CapSet::Permitted)?;
    let left: HashSet<Capability> =
        held.into_iter().filter(|capability| kept.contains(capability)).collect();
    caps::set(None, CapSet::Inheritable, &HashSet::new())?;
    caps::set(None, CapSet::Effective, &left)?;
    caps::set(None, CapSet::Permitted, &left)
}

fn restrict_files(allowed: &Allowed) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(RULES);
    let read = AccessFs::from_read(RULES) & !AccessFs::Execute;
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    // An access that is not handled is not restricted.
    let net = if allowed.connects { AccessNet::BindTcp.into() } else { AccessNet::from_all(RULES) };
    let mut rules = Ruleset::default()
        .handle_access(all)?
        .handle_access(net)?
        .scope(Scope::from_all(RULES))?
        .create()?;
    for folder in &allowed.folders {
        rules = rules.add_rules(make_rule(folder, all & !AccessFs::Execute))?;
    }
    for path in allowed.read {
        rules = rules.add_rules(make_rule(Path::new(path), read))?;
    }
    for path in allowed.devices {
        rules = rules.add_rules(make_rule(Path::new(path), device))?;
    }
    if let Some(port) = allowed.port {
        rules = rules.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Returns the rule for an existing path; a missing one needs none.
fn make_rule(
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Option<Result<PathBeneath<PathFd>, RulesetError>> {
    PathFd::new(path).ok().map(|fd| Ok(PathBeneath::new(fd, access)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{self, ErrorKind};
    use std::net::TcpListener;

    /// Runs on a separate thread: other threads of this process keep their rights.
    #[test]
    fn what_is_not_allowed_is_closed_for_good() {
        let [open, closed] = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        let inside = open.path().join("file");
        let outside = closed.path().join("file");
        fs::write(&outside, "there").expect("written");
        let folders = vec![open.path().to_path_buf()];
        let kept: &[Capability] = &[Capability::CAP_NET_RAW];
        let restricted = std::thread::spawn(move || {
            let allowed = Allowed { capabilities: kept, folders, ..Allowed::default() };
            drop_capabilities(allowed.capabilities).expect("given up");
            let held = caps::read(None, CapSet::Permitted).expect("read");
            assert!(held.iter().all(|capability| kept.contains(capability)), "{held:?}");
            assert_eq!(caps::read(None, CapSet::Effective).expect("read"), held);
            assert!(caps::raise(None, CapSet::Effective, Capability::CAP_SYS_ADMIN).is_err());

            let status = restrict_files(&allowed).expect("restricted");
            fs::write(&inside, "here").expect("inside of the folder");
            let refused = |done: io::Result<()>| {
                done.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
            };
            let read = refused(fs::read(&outside).map(drop));
            let written = refused(fs::write(&outside, "changed"));
            let started = refused(std::process::Command::new("/bin/true").status().map(drop));
            let listens = refused(TcpListener::bind(("127.0.0.1", 0)).map(drop));
            ([read, written, started, listens], status)
        });
        let (refused, status) = restricted.join().expect("the thread ends");
        match status {
            RulesetStatus::NotEnforced => println!("SKIPPED landlock: this kernel has none"),
            RulesetStatus::PartiallyEnforced => assert_eq!(refused[..3], [true; 3]),
            RulesetStatus::FullyEnforced => assert_eq!(refused, [true; 4]),
        }
    }
}
