//! The parts of the program that the lab, the fuzz targets and the tests of this crate use, under
//! their names inside. It is no interface: it changes with what it measures.

#![expect(missing_docs, reason = "each module stands for the one of its name")]

pub mod puts;

pub mod api {
    pub use crate::api::{Exit, Fault};

    pub mod json {
        pub use crate::api::json::{
            AddRequest, CardText, ContactJson, EventJson, EventKind, Health, NodeStateJson,
            NoteJson, NoteStateJson, Notes, OutboxJson, SendRequest, StatusJson,
        };
    }

    pub mod network_uri {
        pub use crate::api::network_uri::NetworkUri;
    }

    pub mod uri {
        pub use crate::api::uri::relay_of;
    }
}

pub mod backend {
    pub use crate::backend::AwsLc;

    pub mod kernel {
        pub use crate::backend::kernel::{all, aws_lc, kernel};
    }
}

pub mod carriers {
    pub use crate::carriers::Dialer;
}

pub mod clock {
    pub use crate::clock::{Clock, Moment, now};
}

pub mod connection {
    pub mod link {
        pub use crate::connection::link::{
            CLIENT, CONTROL, DATA, FrameBytes, FrameSender, FrameSizeClass, SERVER_FRAMES_MAX,
            STORE, carry, dial, parcel,
        };
    }

    pub mod relay {
        pub use crate::connection::relay::{ConnectError, Connection, ConnectionError, connect};
    }

    pub mod tap {
        pub use crate::connection::tap::{Direction, Side, Tap, TapEvent};
    }
}

pub mod faces {
    pub mod cli {
        pub mod args {
            pub use crate::faces::cli::args::{Cli, KernelName};
        }

        pub mod client {
            pub use crate::faces::cli::client::ApiClient;
        }

        pub mod cpu {
            pub use crate::faces::cli::cpu::choose;
        }

        pub mod follow {
            pub use crate::faces::cli::follow::Follower;
        }

        pub mod serve {
            pub use crate::faces::cli::serve::files;
        }
    }

    pub mod config {
        pub use crate::faces::config::{LoadedSettings, Settings, keep};
    }

    pub mod passphrase {
        pub use crate::faces::passphrase::{ask, ask_new};
    }

    pub mod qr {
        pub use crate::faces::qr::{Medium, QrImage};
    }

    pub mod served {
        pub use crate::faces::served::{ApiEndpoint, ServedNode, lock};
    }

    pub mod web {
        pub use crate::faces::web::description;
    }
}

pub mod node {
    pub mod plan {
        pub use crate::node::plan::drain;
    }
    pub use crate::node::{NodeHandle, NodeOptions, start};

    pub mod observer {
        pub use crate::node::observer::Observer;
    }
}

pub mod process {
    pub mod busy {
        pub use crate::process::busy::{Busy, Phase};
    }

    pub mod home {
        pub use crate::process::home::Home;

        pub mod private {
            pub use crate::process::home::private::{folder, read, replace, sweep};
        }
    }

    pub mod memory {
        pub use crate::process::memory::{keep, require_closed};
    }

    pub mod metrics {
        pub use crate::process::metrics::Metric;
    }

    pub mod rate {
        pub use crate::process::rate::RateLimit;
    }

    pub mod rng {
        pub use crate::process::rng::OsRng;
    }
}

pub mod servers {
    pub mod mesh {
        pub mod crowd {
            pub use crate::servers::mesh::crowd::{
                CrowdRng, HostedCrew, Moves, START, clocks, settings,
            };
        }
    }

    pub mod mixnet {
        pub mod client {
            pub use crate::servers::mixnet::client::{EntryClient, join};
        }

        pub mod demo {
            pub use crate::servers::mixnet::demo::{DemoFiles, Times, free_ports, policy, run};
        }

        pub mod entry {
            pub use crate::servers::mixnet::entry::{EntryServerOptions, start};
        }

        pub mod key {
            pub use crate::servers::mixnet::key::ServerKey;
        }

        pub mod mix {
            pub use crate::servers::mixnet::mix::{MixServerOptions, start_with};
        }

        pub mod network {
            pub use crate::servers::mixnet::network::{ConfigArchive, read};
        }

        pub mod server {
            pub use crate::servers::mixnet::server::ServerHandle;
        }

        pub mod signed {
            pub use crate::servers::mixnet::signed::Signed;
        }

        pub mod written {
            pub use crate::servers::mixnet::written::EXAMPLE;
        }
    }

    pub mod tunnel {
        pub use crate::faces::cli::link::up_with as up;
        pub use crate::servers::tunnel::daemon::FrameThreads;
    }

    pub mod relay {
        pub use crate::servers::relay::{
            Limits, RelayConfig, RelayError, RelayHandle, StoreSpec, Totals, address, init, key,
            serve, status,
        };

        pub mod store {
            pub use crate::servers::relay::store::{
                Durability, Mail, MailStore, NewMail, RelayStore, Removed, SqliteStore, Totals,
                open,
            };
        }
    }
}

pub mod store {
    pub use crate::store::{Argon2Params, MasterKey, Record, Vault};

    pub mod aead {
        pub use mezza_core::xchacha::NONCE_BYTES;
    }

    pub mod bucket {
        pub use crate::store::bucket::RetentionCode;
    }

    pub mod head {
        pub use crate::store::head::{HEAD_BYTES, MasterKey, VaultHeader, unlock};
    }

    pub mod keyring {
        pub use crate::store::keyring::Keyring;
    }

    pub mod record {
        pub use crate::store::record::{RecordHeader, TEXT_BYTES_MAX, open, padded, seal};
    }
}

pub mod tls {
    pub use crate::tls::{
        Pin, TlsIdentity, client_config, fingerprint, link_client_config, link_server_config,
    };
}
