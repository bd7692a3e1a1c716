//! The implementations that the ratchet is tested against, with versions and hashes.

/// An implementation by another project.
pub struct InteropPeer {
    /// The name of the peer, and of the module `interop::NAME` with its tests.
    pub name: &'static str,
    /// The suite of the peer.
    pub suite: &'static str,
    /// The files of the peer.
    pub files: PeerFiles,
    /// True if its native code, if any, runs on this machine.
    pub runs_here: bool,
}

/// The source of a peer's files.
pub enum PeerFiles {
    /// Archives from Maven's repository, run by a JDK.
    Jars(&'static [Jar]),
    /// Python packages, in one environment for all.
    Python,
}

/// An archive as Maven names it, with its SHA-256.
pub struct Jar {
    pub group: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    pub sha256: &'static str,
}

/// All peers.
pub const PEERS: [InteropPeer; 4] = [
    InteropPeer {
        name: "java",
        suite: "signal-v3",
        files: PeerFiles::Jars(&JAVA),
        runs_here: true,
    },
    InteropPeer { name: "axolotl", suite: "signal-v3", files: PeerFiles::Python, runs_here: true },
    InteropPeer { name: "xeddsa", suite: "signal-v3", files: PeerFiles::Python, runs_here: true },
    InteropPeer {
        name: "native",
        suite: "pqxdh",
        files: PeerFiles::Jars(&NATIVE),
        runs_here: HAS_NATIVE,
    },
];

/// The platforms for which libsignal-client contains native code.
const HAS_NATIVE: bool = cfg!(target_os = "macos")
    || cfg!(all(target_arch = "x86_64", any(target_os = "linux", target_os = "windows")));

const JAVA: [Jar; 3] = [
    Jar {
        group: "org.whispersystems",
        name: "signal-protocol-java",
        version: "2.8.1",
        sha256: "b19db36839ab008fdccefc7f8c005f2ea43dc7c7298a209bc424e6f9b6d5617b",
    },
    Jar {
        group: "org.whispersystems",
        name: "curve25519-java",
        version: "0.5.0",
        sha256: "0aadd43cf01d11e9b58f867b3c4f25c3194e8b0623d1953d32dfbfbee009e38d",
    },
    Jar {
        group: "com.google.protobuf",
        name: "protobuf-javalite",
        version: "3.10.0",
        sha256: "215a94dbe100130295906b531bb72a26965c7ac8fcd9a75bf8054a8ac2abf4b4",
    },
];

const NATIVE: [Jar; 2] = [
    Jar {
        group: "org.signal",
        name: "libsignal-client",
        version: "0.86.5",
        sha256: "d300c272dae155b21ae8988f51b6b493001cd2d83f5d2f9ae15e743c7ff971bd",
    },
    Jar {
        group: "org.jetbrains.kotlin",
        name: "kotlin-stdlib",
        version: "2.1.0",
        sha256: "d6f91b7b0f306cca299fec74fb7c34e4874d6f5ec5b925a0b4de21901e119c3f",
    },
];

impl InteropPeer {
    /// Returns the common prefix of the names of the peer's tests.
    pub fn filter(&self) -> String {
        format!("interop::{}::", self.name)
    }
}

impl Jar {
    /// Returns the file name of the jar.
    pub fn file(&self) -> String {
        format!("{}-{}.jar", self.name, self.version)
    }

    /// Returns the jar's coordinates for Maven.
    pub fn artifact(&self) -> String {
        format!("{}:{}:{}", self.group, self.name, self.version)
    }
}
