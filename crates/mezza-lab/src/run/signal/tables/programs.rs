//! The programs that measure the primitives, and the providers in each.

use anyhow::Result;

use crate::peer::{self, Found, PeerProcess};
use crate::profile::Profile;

/// The setting that switches off the SHA instructions of aws-lc.
const NO_SHA: &str = ":~0x20000000";
/// The setting that switches off the AES, vector AES, carry-less product and SHA instructions of
/// aws-lc.
const NO_AES: &str = "~0x200000200000000:~0x60020000000";

/// A provider with the options of its run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Provider {
    /// The name for the user.
    pub name: &'static str,
    /// The prefix of its operations in the line protocol.
    pub prefix: &'static str,
    /// The program that contains the provider.
    program: Program,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Ours,
    OursNoSha,
    OursNoAes,
    Providers,
    Soft,
    Jvm,
    JvmPlain,
}

const fn make_provider(name: &'static str, prefix: &'static str, program: Program) -> Provider {
    Provider { name, prefix, program }
}

pub const RUSTCRYPTO: Provider = make_provider("RustCrypto", "rustcrypto", Program::Ours);
pub const OWN: Provider = make_provider("ours", "own", Program::Ours);
pub const AWS_LC: Provider = make_provider("aws-lc", "aws-lc", Program::Ours);
pub const AWS_LC_NO_SHA: Provider =
    make_provider("aws-lc, no SHA instructions", "aws-lc", Program::OursNoSha);
pub const AWS_LC_NO_AES: Provider =
    make_provider("aws-lc, no AES, no SHA instructions", "aws-lc", Program::OursNoAes);
pub const RING: Provider = make_provider("ring", "ring", Program::Providers);
pub const OPENSSL: Provider = make_provider("OpenSSL", "openssl", Program::Providers);
pub const SOFT: Provider =
    make_provider("RustCrypto, no instructions", "rustcrypto", Program::Soft);
pub const JDK: Provider = make_provider("JDK", "jdk", Program::Jvm);
pub const BC: Provider = make_provider("BouncyCastle", "bc", Program::Jvm);
pub const JDK_PLAIN: Provider = make_provider("JDK, intrinsics off", "jdk", Program::JvmPlain);
pub const BC_PLAIN: Provider =
    make_provider("BouncyCastle, intrinsics off", "bc", Program::JvmPlain);

/// All providers.
pub const ALL: [Provider; 12] = [
    RUSTCRYPTO,
    OWN,
    AWS_LC,
    RING,
    OPENSSL,
    AWS_LC_NO_SHA,
    AWS_LC_NO_AES,
    SOFT,
    JDK,
    BC,
    JDK_PLAIN,
    BC_PLAIN,
];

/// The running programs.
pub struct Programs {
    /// The processes, in the order of `which`.
    pub running: Vec<PeerProcess>,
    which: Vec<Program>,
    /// Absent programs: the reason and the next step for each.
    pub absent: Vec<String>,
}

impl Programs {
    /// Starts all programs; a smoke run starts no virtual machine.
    ///
    /// # Errors
    /// If this program does not start as a peer.
    pub fn start_all(profile: Profile) -> Result<Self> {
        use Program::{Jvm, JvmPlain, Ours, OursNoAes, OursNoSha, Providers, Soft};
        let mut all = Self { running: Vec::new(), which: Vec::new(), absent: Vec::new() };
        for program in [Ours, OursNoSha, OursNoAes, Providers, Soft, Jvm, JvmPlain] {
            let found = match program {
                Jvm => peer::find_for(profile, "jvm")?,
                JvmPlain if profile == Profile::Smoke => continue,
                JvmPlain | Ours | OursNoSha | OursNoAes | Providers | Soft => {
                    start_program(program)?
                }
            };
            match found {
                Ok(peer) => {
                    all.running.push(peer);
                    all.which.push(program);
                }
                Err(reason) => all.absent.push(reason),
            }
        }
        all.absent.dedup();
        Ok(all)
    }

    /// Returns the index of the program that contains a provider.
    pub fn find_program(&self, provider: Provider) -> Option<usize> {
        self.which.iter().position(|program| *program == provider.program)
    }
}

/// Starts a fresh process with a provider.
///
/// # Errors
/// If this program does not start as a peer.
pub fn start_fresh(provider: Provider) -> Result<Found> {
    start_program(provider.program)
}

fn start_program(program: Program) -> Result<Found> {
    Ok(match program {
        Program::Ours => Ok(PeerProcess::start_ours()?),
        Program::OursNoSha => Ok(PeerProcess::with_cpu_mask(NO_SHA)?),
        Program::OursNoAes => Ok(PeerProcess::with_cpu_mask(NO_AES)?),
        Program::Providers => peer::find_peer("providers", &[])?,
        Program::Soft => peer::find_peer("soft", &[])?,
        Program::Jvm => peer::find_peer("jvm", &[])?,
        Program::JvmPlain => peer::find_peer("jvm", &["--plain"])?,
    })
}
