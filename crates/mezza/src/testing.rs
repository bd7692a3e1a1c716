//! The parts of the program that the lab, the fuzz targets and the tests of this crate use,
//! re-exported under their internal names. These names are not stable.

#![expect(missing_docs, reason = "each module stands for the one of its name")]

pub mod puts {
    pub use mezza_servers::relay::puts::{durable_puts, puts_into, single_puts};
}

pub mod api {
    pub use mezza_host::api::{Exit, Fault};

    pub mod json {
        pub use mezza_host::api::json::{
            AddRequest, CardText, ContactJson, EventJson, EventKind, Health, LeakBeginJson,
            LeakLineJson, LeakReadingJson, LeakResultJson, NodeStateJson, NoteJson, NoteStateJson,
            Notes, OutboxJson, SendRequest, StatusJson,
        };
    }

    pub mod network_uri {
        pub use mezza_host::api::network_uri::NetworkUri;
    }

    pub mod uri {
        pub use mezza_host::api::uri::relay_of;
    }
}

pub mod backend {
    pub use mezza_host::backend::{AwsLc, hmac_sha256};

    pub mod kernel {
        pub use mezza_host::backend::kernel::{aws_lc, choose_kernel, runnable_kernels};
    }
}

pub mod backup {
    pub use mezza_host::backup::{
        BackupContent, BackupKey, BackupReader, Identity, Recipient, WorkProgress, write_backup,
    };
}

pub mod carriers {
    pub use crate::carriers::{Dialer, LinkListen, MeshPlace};
}

pub mod clock {
    pub use mezza_host::clock::{Clock, Moment, now};
}

pub mod connection {
    pub mod link {
        pub use mezza_host::connection::link::{
            CLIENT, CONTROL, DATA, FrameBytes, FrameSender, FrameSizeClass, SERVER_FRAMES_MAX,
            STORE, carry_frames, dial, make_parcel,
        };
    }

    pub mod relay {
        pub use mezza_host::connection::relay::{
            ConnectError, Connection, ConnectionError, connect_relay,
        };
    }

    pub mod tap {
        pub use mezza_host::connection::tap::{Direction, Side, Tap, TapEvent};
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
            pub use crate::faces::cli::cpu::apply_kernel_choice;
        }

        pub mod follow {
            pub use crate::faces::cli::follow::Follower;
        }

        pub mod serve {
            pub use crate::faces::cli::serve::watched_files;
        }
    }

    pub mod config {
        pub use crate::faces::config::{LoadedSettings, Settings, store_settings};
    }

    pub mod passphrase {
        pub use crate::faces::passphrase::{ask, ask_new};
    }

    pub mod qr {
        pub use crate::faces::qr::{Medium, QrImage};
    }

    pub mod served {
        pub use crate::faces::served::{ApiEndpoint, ServedNode, lock_home};
    }

    pub mod web {
        pub use crate::faces::web::describe_interface;
    }
}

pub mod node {
    pub mod plan {
        pub use crate::node::plan::drain_device;
    }
    pub use crate::node::{NodeHandle, NodeOptions, start_node};

    pub mod observer {
        pub use crate::node::observer::Observer;
    }
}

pub mod process {
    pub mod busy {
        pub use mezza_host::process::busy::{Busy, Phase};
    }

    pub mod home {
        pub use mezza_host::process::home::Home;

        pub mod private {
            pub use mezza_host::process::home::private::{
                make_folder, read, replace, sweep_leftover,
            };
        }
    }

    pub mod slots {
        pub use mezza_host::process::slots::content_of;
    }

    pub mod memory {
        pub use mezza_host::process::memory::{protect_memory, require_closed};
    }

    pub mod metrics {
        pub use mezza_host::process::metrics::Metric;
    }

    pub mod rate {
        pub use mezza_host::process::rate::RateLimit;
    }

    pub mod rng {
        pub use mezza_host::process::rng::OsRng;
    }
}

pub mod servers {
    pub mod mesh {
        pub mod crowd {
            pub use mezza_servers::mesh::crowd::{
                CrowdRng, HostedCrew, Moves, START, crew_settings, draw_clocks,
            };
        }
    }

    pub mod mixnet {
        pub mod client {
            pub use mezza_servers::mixnet::client::{EntryClient, join_network};
        }

        pub mod demo {
            pub use mezza_servers::mixnet::demo::{
                DemoFiles, Times, free_ports, make_policy, start_from_files,
            };
        }

        pub mod entry {
            pub use mezza_servers::mixnet::entry::{EntryServerOptions, start};
        }

        pub mod key {
            pub use mezza_servers::mixnet::key::ServerKey;
        }

        pub mod mix {
            pub use mezza_servers::mixnet::mix::{MixServerOptions, start_with};
        }

        pub mod network {
            pub use mezza_servers::mixnet::network::{ConfigArchive, read_config};
        }

        pub mod server {
            pub use mezza_servers::mixnet::server::ServerHandle;
        }

        pub mod signed {
            pub use mezza_servers::mixnet::signed::Signed;
        }

        pub mod written {
            pub use mezza_servers::mixnet::written::EXAMPLE;
        }
    }

    pub mod tunnel {
        pub use crate::faces::cli::link::up_with as up;
        pub use mezza_servers::tunnel::daemon::FrameThreads;
    }

    pub mod relay {
        pub use mezza_servers::relay::{
            Limits, RelayConfig, RelayError, RelayHandle, StoreSpec, Totals, init, read_key,
            read_status, running_address, start_relay,
        };

        pub mod store {
            pub use mezza_servers::relay::store::{
                Durability, Mail, MailStore, NewMail, RelayStore, Removed, SqliteStore, Totals,
                open,
            };
        }
    }
}

pub mod store {
    pub use mezza_host::store::{Argon2Params, MasterKey, Record, Vault};

    pub mod aead {
        pub use mezza_core::xchacha::NONCE_BYTES;
    }

    pub mod bucket {
        pub use mezza_host::store::bucket::RetentionCode;
    }

    pub mod head {
        pub use mezza_host::store::head::{HEAD_BYTES, MasterKey, VaultHeader, unlock_master};
    }

    pub mod keyring {
        pub use mezza_host::store::keyring::Keyring;
    }

    pub mod record {
        pub use mezza_host::store::record::{
            RecordHeader, TEXT_BYTES_MAX, open, padded_size, seal,
        };
    }
}

pub mod tls {
    pub use mezza_host::tls::{
        Pin, TlsIdentity, client_config, fingerprint, link_client_config, link_server_config,
    };
}
