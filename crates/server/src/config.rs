//! What the operator decides at start.

use std::net::SocketAddr;
use std::path::PathBuf;

use base::{ByteCount, Nanos, VolumeNo};

use crate::analytic_pool::AnalyticRun;
use crate::console::{ConsoleExtension, IpNetwork};
use crate::data_dir::DEFAULT_VOLUME;
use crate::executor::TURN_MAX;

/// What the logs' volume is called.
pub const LOG_VOLUME: &str = "log";

/// The number of the data directory's volume, where temporary files are too.
pub(crate) const DATA_VOLUME: VolumeNo = VolumeNo(0);

/// Options of a server; [`ServerConfig::new`] gives the defaults of all but the data directory.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Catalogue, tenants' data files, and the logs unless `log_dir` is given.
    pub data_dir: PathBuf,
    /// Where the workers' logs are; `None` for `log` in the data directory.
    pub log_dir: Option<PathBuf>,
    /// Where clients connect; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the local socket `.s.PGSQL.PORT` is made, PORT being that of `listen`; `None` for none.
    pub socket_dir: Option<PathBuf>,
    /// Health, metrics and the console over HTTP, and HTTPS as `tls` says; `None` for none.
    pub admin_listen: Option<SocketAddr>,
    /// Proxies before the console: their `X-Forwarded-For` and `X-Forwarded-Proto` are believed, nobody else's.
    pub admin_proxies: Vec<IpNetwork>,
    /// Worker threads; `None` for one a core.
    pub workers: Option<usize>,
    /// Memory for pages of all tenants together; what is above it is evicted. Should be [`storage::MEMORY_MIN`] at least.
    pub memory: ByteCount,
    /// Memory for sorts, hashes and aggregates of all tenants' analytical queries together.
    pub work_memory: ByteCount,
    /// Pages that a scan reads at most along with one that is not in memory; 0 for none, at most
    /// [`storage::READ_AHEAD_MAX`].
    pub read_ahead: usize,
    /// Further directories for data files, by the name a tenant's `volume` option uses.
    pub volumes: Vec<(String, PathBuf)>,
    /// Where certificate and key for TLS come from; a self-signed pair unless said otherwise.
    pub tls: Tls,
    /// Sessions of all tenants together.
    pub connections_max: usize,
    /// Of those, kept for the administrator.
    pub connections_reserved: usize,
    /// Sessions of one tenant.
    pub tenant_connections_max: usize,
    /// From accept to the end of authentication.
    pub authentication_timeout: Nanos,
    /// A tenant without sessions closes after this long.
    pub tenant_close_after: Nanos,
    /// Redo log of all workers that is kept before the tenants that need its oldest part are checkpointed. A soft limit: the
    /// log grows past it while they are. A tenant that logged a quarter of it since its last checkpoint has one too.
    pub log_limit: ByteCount,
    /// Space set aside on each volume, so that a full one can be emptied; 0 for none.
    pub space_reserve: ByteCount,
    /// A tenant with changes is checkpointed at least this often.
    pub checkpoint_interval: Nanos,
    /// The first start's password of the administrator; `None` generates one into a file.
    pub admin_password: Option<String>,
    /// The engine of analytical queries; `None` refuses them with 0A000.
    pub analytic: Option<AnalyticRun>,
    /// What is added to the console.
    pub console: ConsoleExtension,
    /// Size of a log segment.
    pub log_segment_len: ByteCount,
    /// A tenant with as much in the logs of earlier starts is replayed while they are still being read. Default 16 MiB.
    pub head_start_min: ByteCount,
    /// A statement that has kept its worker for so long, and the others of the turn before it, is suspended for others to have their turns. Default 250 us;
    /// with 0 wherever it can be, for tests.
    pub turn_max: Nanos,
}

/// How clients may encrypt.
#[derive(Clone, Debug)]
pub enum Tls {
    /// With a pair made at the first start, in `DIR/tls`.
    SelfSigned,
    /// With the operator's.
    Files(TlsFiles),
    /// Not at all: what asks for TLS is told so.
    Off,
}

/// PEM files of certificate chain and key.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl ServerConfig {
    /// The defaults for a data directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> ServerConfig {
        ServerConfig {
            data_dir: data_dir.into(),
            log_dir: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 5433)),
            socket_dir: None,
            admin_listen: Some(SocketAddr::from(([127, 0, 0, 1], 8433))),
            admin_proxies: Vec::new(),
            workers: None,
            memory: ByteCount::from_mib(4096),
            work_memory: ByteCount::from_mib(2048),
            read_ahead: 32,
            volumes: Vec::new(),
            tls: Tls::SelfSigned,
            connections_max: 10_000,
            connections_reserved: 8,
            tenant_connections_max: 10_000,
            authentication_timeout: Nanos::from_secs(30),
            tenant_close_after: Nanos::from_secs(300),
            log_limit: ByteCount::from_mib(1024),
            space_reserve: ByteCount::from_mib(32),
            checkpoint_interval: Nanos::from_secs(300),
            admin_password: None,
            analytic: None,
            console: ConsoleExtension::default(),
            log_segment_len: base::limits::LOG_SEGMENT_LEN,
            head_start_min: ByteCount::from_mib(16),
            turn_max: TURN_MAX,
        }
    }

    /// The number of the volume that data files are on by this name; `None` if there is none.
    pub(crate) fn volume_no(&self, name: &str) -> Option<VolumeNo> {
        let number = if name == DEFAULT_VOLUME {
            0
        } else {
            1 + self.volumes.iter().position(|(volume, _)| volume == name)?
        };
        Some(VolumeNo(u32::try_from(number).expect("fewer than 2^32 volumes")))
    }

    /// The number of the logs' volume, the last one. The log is governed apart, on whatever device it is.
    pub(crate) fn log_volume(&self) -> VolumeNo {
        VolumeNo(u32::try_from(self.volumes.len() + 1).expect("fewer than 2^32 volumes"))
    }

    /// The volumes' names by number.
    pub(crate) fn volume_names(&self) -> impl Iterator<Item = &str> {
        let named = self.volumes.iter().map(|(name, _)| name.as_str());
        std::iter::once(DEFAULT_VOLUME).chain(named).chain(std::iter::once(LOG_VOLUME))
    }

    /// The logs' directory.
    pub fn log_dir(&self) -> PathBuf {
        self.log_dir.clone().unwrap_or_else(|| self.data_dir.join("log"))
    }
}
