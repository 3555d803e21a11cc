//! What a tenant was promised: every option, its text form, and what contradicts what.

mod given;

use std::fmt;
use std::num::NonZeroU32;

use base::{ByteCount, Nanos};

pub use self::given::PromiseOptions;
use crate::option::{OptionError, Value, decimal_text, duration_text, option_keys};

/// Processor time a second, in thousandths of a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct MilliCores(pub u32);

impl MilliCores {
    /// The most that can be promised: 4,096 cores.
    pub const MAX: MilliCores = MilliCores(4_096_000);
}

impl fmt::Display for MilliCores {
    /// In cores with up to three decimals: `0.5`, `2`, `0.125`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let decimals = format!("{rest:03}");
        write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
    }
}

/// Processor time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuPromise {
    /// Reserved; 0 reserves nothing.
    pub reserved: MilliCores,
    /// Never more than this; `None`: no limit.
    pub max: Option<MilliCores>,
    /// Share of spare time against other tenants' weights. Example: weights 100 and 300 share spare time 1 : 3.
    pub weight: NonZeroU32,
    /// Unused reservation kept as credit, as time; 0 keeps none.
    pub burst: Nanos,
}

/// Which of two measures decides that an I/O promise was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IoPromiseKind {
    /// Each request is issued by its own deadline.
    #[default]
    Each,
    /// The rate over the metering interval is kept.
    Average,
}

/// I/O on each volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoPromise {
    /// Requests a second reserved; 0 reserves nothing.
    pub iops: u64,
    /// Requests a second at most; `None`: no limit.
    pub iops_max: Option<u64>,
    /// Share of the rest against other tenants' weights.
    pub weight: NonZeroU32,
    /// Bytes a second reserved; 0 reserves nothing.
    pub bandwidth: ByteCount,
    /// Bytes a second at most; `None`: no limit.
    pub bandwidth_max: Option<ByteCount>,
    pub kind: IoPromiseKind,
}

/// Buffer memory and working memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryPromise {
    /// Buffer memory as if it were the tenant's alone; 0 reserves nothing.
    pub memory: ByteCount,
    /// Buffer memory at most; `None`: no limit.
    pub memory_max: Option<ByteCount>,
    /// For sorts, hashes and overlays before they spill; 0 reserves nothing.
    pub work_memory: ByteCount,
    /// Working memory at most, of all statements together: beyond it rows are put aside, or the statement fails (53200); `None`: no limit.
    pub work_memory_max: Option<ByteCount>,
}

/// All that `CREATE TENANT … WITH (…)` and `ALTER TENANT … SET (…)` can say. The default reserves and limits nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    pub cpu: CpuPromise,
    pub io: IoPromise,
    pub memory: MemoryPromise,
    /// Sessions at a time; `None`: the server's limit only.
    pub connections_max: Option<u32>,
    /// Bytes in the tenant's files; `None`: no limit.
    pub storage_max: Option<ByteCount>,
    /// Bytes of temporary files; `None`: no limit.
    pub temp_max: Option<ByteCount>,
    /// Longest statement; `None`: no limit.
    pub statement_timeout: Option<Nanos>,
    /// Price of each missed unit in millionths, for the ledger's `owed`.
    pub penalty_micros: u64,
}

impl Default for CpuPromise {
    fn default() -> CpuPromise {
        CpuPromise { reserved: MilliCores(0), max: None, weight: WEIGHT_DEFAULT, burst: Nanos(0) }
    }
}

impl Default for IoPromise {
    fn default() -> IoPromise {
        IoPromise {
            iops: 0,
            iops_max: None,
            weight: WEIGHT_DEFAULT,
            bandwidth: ByteCount(0),
            bandwidth_max: None,
            kind: IoPromiseKind::Each,
        }
    }
}

const WEIGHT_DEFAULT: NonZeroU32 = NonZeroU32::new(100).expect("not zero");
pub(crate) const IOPS_MAX: u64 = 1_000_000_000;
const CONNECTIONS_MAX: u64 = 1_000_000;

option_keys! {
    /// The name of an option of a promise.
    PromiseKey {
    Cpu = "cpu",
    CpuMax = "cpu_max",
    CpuWeight = "cpu_weight",
    CpuBurst = "cpu_burst",
    Iops = "iops",
    IopsMax = "iops_max",
    IoWeight = "io_weight",
    IoBandwidth = "io_bandwidth",
    IoBandwidthMax = "io_bandwidth_max",
    IoPromise = "io_promise",
    Memory = "memory",
    MemoryMax = "memory_max",
    WorkMemory = "work_memory",
    WorkMemoryMax = "work_memory_max",
    ConnectionsMax = "connections_max",
    StorageMax = "storage_max",
    TempMax = "temp_max",
    StatementTimeout = "statement_timeout",
    Penalty = "penalty",
    }
}

impl Promise {
    /// Sets one option from its text. An unchanged promise and an error if the name is unknown, the value malformed or
    /// out of range. Contradictions between options are found by [`Promise::validate`], so that options can be set in
    /// any order. `none` (or `unlimited`) lifts a limit.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let known = PromiseKey::from_name(key)?;
        let value = Value { key: known.as_str(), text: value.trim() };
        match known {
            PromiseKey::Cpu => self.cpu.reserved = value.cores()?,
            PromiseKey::CpuMax => self.cpu.max = value.limit(Value::cores_above_zero)?,
            PromiseKey::CpuWeight => self.cpu.weight = value.weight()?,
            PromiseKey::CpuBurst => self.cpu.burst = value.duration()?,
            PromiseKey::Iops => self.io.iops = value.whole(0, IOPS_MAX)?,
            PromiseKey::IopsMax => self.io.iops_max = value.limit(|value| value.whole(1, IOPS_MAX))?,
            PromiseKey::IoWeight => self.io.weight = value.weight()?,
            PromiseKey::IoBandwidth => self.io.bandwidth = value.bytes(0)?,
            PromiseKey::IoBandwidthMax => self.io.bandwidth_max = value.limit(|value| value.bytes(1))?,
            PromiseKey::IoPromise => self.io.kind = io_kind(value)?,
            PromiseKey::Memory => self.memory.memory = value.bytes(0)?,
            PromiseKey::MemoryMax => self.memory.memory_max = value.limit(|value| value.bytes(1))?,
            PromiseKey::WorkMemory => self.memory.work_memory = value.bytes(0)?,
            PromiseKey::WorkMemoryMax => self.memory.work_memory_max = value.limit(|value| value.bytes(1))?,
            PromiseKey::ConnectionsMax => {
                self.connections_max =
                    value.limit(|value| value.whole(0, CONNECTIONS_MAX))?.map(|n| n as u32);
            }
            PromiseKey::StorageMax => self.storage_max = value.limit(|value| value.bytes(1))?,
            PromiseKey::TempMax => self.temp_max = value.limit(|value| value.bytes(0))?,
            PromiseKey::StatementTimeout => {
                self.statement_timeout = value.limit(Value::duration)?.filter(|time| time.0 > 0);
            }
            PromiseKey::Penalty => {
                self.penalty_micros = value.decimal(6, 1_000_000_000_000_000, "a price of 0 or more")?
            }
        }
        Ok(())
    }

    /// Refuses reservations above their own limits.
    pub fn validate(&self) -> Result<(), OptionError> {
        let ordered = |key, key_max, over: bool| {
            if !over {
                return Ok(());
            }
            let text = |key: PromiseKey| self.get(key);
            Err(OptionError::AboveMax {
                key: PromiseKey::as_str(key),
                value: text(key),
                key_max: PromiseKey::as_str(key_max),
                value_max: text(key_max),
            })
        };
        use PromiseKey as Key;
        ordered(Key::Cpu, Key::CpuMax, self.cpu.max.is_some_and(|max| self.cpu.reserved > max))?;
        ordered(Key::Iops, Key::IopsMax, self.io.iops_max.is_some_and(|max| self.io.iops > max))?;
        let bandwidth_over = self.io.bandwidth_max.is_some_and(|max| self.io.bandwidth > max);
        ordered(Key::IoBandwidth, Key::IoBandwidthMax, bandwidth_over)?;
        let memory = &self.memory;
        ordered(Key::Memory, Key::MemoryMax, memory.memory_max.is_some_and(|max| memory.memory > max))?;
        let work_over = memory.work_memory_max.is_some_and(|max| memory.work_memory > max);
        ordered(Key::WorkMemory, Key::WorkMemoryMax, work_over)
    }

    /// The value of an option as text that [`Promise::set`] reads back.
    pub fn get(&self, key: PromiseKey) -> String {
        fn limit<T: fmt::Display>(value: Option<T>) -> String {
            value.map_or_else(|| "none".to_owned(), |value| value.to_string())
        }
        match key {
            PromiseKey::Cpu => self.cpu.reserved.to_string(),
            PromiseKey::CpuMax => limit(self.cpu.max),
            PromiseKey::CpuWeight => self.cpu.weight.to_string(),
            PromiseKey::CpuBurst => duration_text(self.cpu.burst),
            PromiseKey::Iops => self.io.iops.to_string(),
            PromiseKey::IopsMax => limit(self.io.iops_max),
            PromiseKey::IoWeight => self.io.weight.to_string(),
            PromiseKey::IoBandwidth => self.io.bandwidth.to_string(),
            PromiseKey::IoBandwidthMax => limit(self.io.bandwidth_max),
            PromiseKey::IoPromise => match self.io.kind {
                IoPromiseKind::Each => "each".to_owned(),
                IoPromiseKind::Average => "average".to_owned(),
            },
            PromiseKey::Memory => self.memory.memory.to_string(),
            PromiseKey::MemoryMax => limit(self.memory.memory_max),
            PromiseKey::WorkMemory => self.memory.work_memory.to_string(),
            PromiseKey::WorkMemoryMax => limit(self.memory.work_memory_max),
            PromiseKey::ConnectionsMax => limit(self.connections_max),
            PromiseKey::StorageMax => limit(self.storage_max),
            PromiseKey::TempMax => limit(self.temp_max),
            PromiseKey::StatementTimeout => {
                self.statement_timeout.map_or_else(|| "none".to_owned(), duration_text)
            }
            PromiseKey::Penalty => decimal_text(self.penalty_micros, 6),
        }
    }
}

impl fmt::Display for Promise {
    /// The options that differ from the default: `cpu = 0.5, memory = 2GiB`; empty if none does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = Promise::default();
        let mut separator = "";
        for key in PromiseKey::ALL {
            let value = self.get(*key);
            if value != default.get(*key) {
                write!(f, "{separator}{} = {value}", key.as_str())?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

fn io_kind(value: Value<'_>) -> Result<IoPromiseKind, OptionError> {
    match value.text.to_ascii_lowercase().as_str() {
        "each" => Ok(IoPromiseKind::Each),
        "average" => Ok(IoPromiseKind::Average),
        _ => Err(value.malformed("\"each\" or \"average\"")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::option::BYTES_MAX;

    fn refused(key: &str, value: &str) -> String {
        let mut promise = Promise::default();
        let error = promise.set(key, value).expect_err(value).to_string();
        assert_eq!(promise, Promise::default(), "a refused option changes nothing");
        error
    }

    #[test]
    fn options_are_read_and_shown() {
        let mut promise = Promise::default();
        assert_eq!(promise.to_string(), "");
        for (key, value) in
            [("cpu", "0.5"), ("CPU_MAX", "1"), ("iops", "200"), ("memory", "2GB"), ("penalty", "1.25")]
        {
            promise.set(key, value).unwrap();
        }
        promise.set("statement_timeout", "30s").unwrap();
        promise.validate().unwrap();
        assert_eq!(
            promise.to_string(),
            "cpu = 0.5, cpu_max = 1, iops = 200, memory = 2GiB, statement_timeout = 30s, penalty = 1.25"
        );
        promise.set("cpu_max", "none").unwrap();
        assert_eq!(promise.cpu.max, None);
        promise.set("statement_timeout", "0").unwrap();
        assert_eq!(promise.statement_timeout, None);
    }

    #[test]
    fn bad_values_are_refused_with_what_is_allowed() {
        assert_eq!(refused("gpu", "1"), "unrecognized option \"gpu\"");
        assert!(refused("cpu", "-1").contains("out of range"));
        assert!(refused("cpu", "5000").contains("0 to 4096"));
        assert!(refused("cpu", "0.0005").contains("3 decimals"));
        assert!(refused("cpu", "half").contains("not a number of cores"));
        assert!(refused("cpu_max", "0").contains("out of range"));
        assert!(refused("cpu_weight", "0").contains("1 to 1000000"));
        assert!(refused("iops", "1.5").contains("not a whole number"));
        assert!(refused("iops", "99999999999999999999").contains("out of range"));
        assert!(refused("memory", "-5MB").contains("not a size"));
        assert!(refused("memory", "9999TiB9").contains("not a size"));
        assert!(refused("memory", "3000000TiB").contains("out of range"));
        assert!(refused("statement_timeout", "soon").contains("not a duration"));
        assert!(refused("io_promise", "maybe").contains("each"));
    }

    #[test]
    fn each_option_is_on_the_page_with_its_default() {
        let page = include_str!("../../../docs/sql-compat.md");
        for key in PromiseKey::ALL {
            let row = format!("| `{}` | `{}` | ", key.as_str(), Promise::default().get(*key));
            assert!(page.contains(&row), "docs/sql-compat.md does not have {row}");
        }
    }

    #[test]
    fn reservation_above_its_limit_contradicts_itself() {
        for (key, key_max) in [
            ("cpu", "cpu_max"),
            ("iops", "iops_max"),
            ("io_bandwidth", "io_bandwidth_max"),
            ("memory", "memory_max"),
            ("work_memory", "work_memory_max"),
        ] {
            let mut promise = Promise::default();
            promise.set(key, "3").unwrap();
            promise.set(key_max, "2").unwrap();
            let error = promise.validate().expect_err(key).to_string();
            assert!(error.contains(key_max), "{error}");
            promise.set(key_max, "3").unwrap();
            promise.validate().unwrap();
        }
    }

    proptest! {
        #[test]
        fn shown_value_reads_back(cores in 0..=MilliCores::MAX.0, iops in 0..IOPS_MAX, bytes in 1..BYTES_MAX, ns in 0..1u64 << 50, price in 0..1_000_000_000u64) {
            let mut promise = Promise::default();
            promise.cpu.reserved = MilliCores(cores);
            promise.cpu.burst = Nanos(ns);
            promise.io.iops = iops;
            promise.io.bandwidth_max = Some(ByteCount(bytes));
            promise.io.kind = IoPromiseKind::Average;
            promise.memory.work_memory = ByteCount(bytes);
            promise.penalty_micros = price;
            let mut again = Promise::default();
            for key in PromiseKey::ALL {
                again.set(key.as_str(), &promise.get(*key)).unwrap();
            }
            prop_assert_eq!(again, promise);
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_change(value in ".{0,20}", key in 0..PromiseKey::ALL.len()) {
            let mut promise = Promise::default();
            if promise.set(PromiseKey::ALL[key].as_str(), &value).is_err() {
                prop_assert_eq!(promise, Promise::default());
            }
        }
    }
}
