//! The bytes of a block of rolled-up rows.
//!
//! | bytes | what |
//! | --- | --- |
//! | 1 | version: 2 if a row says something of its tenant's own limit, else 1 |
//! | n | number of ledger rows, then they, by tenant, resource and first minute |
//! | n | number of sample rows, then they, by tenant, kind and first minute |
//!
//! "n" is a number of seven bits a byte, the lowest first, the top bit set in all but the last byte; all numbers of a row are such. A
//! ledger row: tenant less the one before, resource (0 CPU, 1 memory, 2 working memory, 3 and the volume for I/O), first minute,
//! minutes, intervals, broken by cause, covered, active, promised, demanded, given, missed, over, owed, largest missed, 0 or 1 and the five
//! delays, rates given, 0 for the same or 1 and rates wanted; in version 2 then 0 or 1 and what the tenant's own limit held, its debt, what is
//! forgiven and what was awaited. A sample row: tenant less the one before, kind (0 statement time, 1 working memory), first minute, minutes,
//! histogram. A histogram: number of buckets, then of each its number less the one before and its count, then the largest amount. Example: a
//! minute of a tenant with little to do takes some 60 bytes, one with 60 intervals that are all different 300.
//!
//! There is no checksum: whoever stores a block seals it, as it does all it stores.

use base::{Nanos, TenantId};

use super::histogram::BUCKETS;
use super::{RollUpBlock, RollUpRow, SampleRow, Sampled, SparseHistogram, WallMinute};
use crate::meter::{Delays, OwnLimit, Resource};

/// The latest.
const VERSION: u8 = 2;
/// Without own limits: what most blocks are, and what servers before knew.
const VERSION_PLAIN: u8 = 1;

/// Why bytes are not a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RollUpError {
    /// Written by a later version of the server, or not a block at all.
    Version { found: u8 },
    /// What is at this offset cannot be there.
    Damaged { offset: usize },
}

impl std::fmt::Display for RollUpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RollUpError::Version { found } => {
                write!(f, "rolled-up rows of version {found}, this server knows {VERSION}")
            }
            RollUpError::Damaged { offset } => write!(f, "rolled-up rows are damaged at byte {offset}"),
        }
    }
}
impl std::error::Error for RollUpError {}

impl RollUpBlock {
    /// As bytes that [`RollUpBlock::decode`] reads. Blocks of equal rows have equal bytes.
    pub fn encode(&self) -> Vec<u8> {
        let has_limits = self.has_limits();
        let mut out = Writer(vec![if has_limits { VERSION } else { VERSION_PLAIN }]);
        out.number(self.rows.len() as u64);
        let mut before = TenantId(0);
        for row in &self.rows {
            out.number(row.tenant.0.checked_sub(before.0).expect("rows are in order"));
            before = row.tenant;
            out.row(row);
            if has_limits {
                out.own_limit(row.own_limit);
            }
        }
        out.number(self.samples.len() as u64);
        before = TenantId(0);
        for row in &self.samples {
            out.number(row.tenant.0.checked_sub(before.0).expect("rows are in order"));
            before = row.tenant;
            out.number(match row.sampled {
                Sampled::StatementTime => 0,
                Sampled::WorkMemory => 1,
            });
            out.numbers([row.from.0, row.minutes].map(u64::from));
            out.histogram(&row.amounts);
        }
        out.0
    }

    fn has_limits(&self) -> bool {
        self.rows.iter().any(|row| row.own_limit != OwnLimit::default())
    }

    /// The block that these bytes are, all of them. Whatever they are, takes memory in proportion to their number only.
    pub fn decode(bytes: &[u8]) -> Result<RollUpBlock, RollUpError> {
        let mut reader = Reader { bytes, at: 0 };
        let version = reader.byte()?;
        if ![VERSION_PLAIN, VERSION].contains(&version) {
            return Err(RollUpError::Version { found: version });
        }
        let mut block = RollUpBlock::default();
        let mut before = TenantId(0);
        for _ in 0..reader.number()? {
            before = reader.tenant(before)?;
            let mut row = reader.row(before)?;
            if version == VERSION {
                row.own_limit = reader.own_limit()?;
            }
            block.rows.push(row);
        }
        before = TenantId(0);
        for _ in 0..reader.number()? {
            before = reader.tenant(before)?;
            block.samples.push(reader.sample_row(before)?);
        }
        let is_one_form = block.has_limits() == (version == VERSION);
        if reader.at != bytes.len() || !block.is_ordered() || !is_one_form {
            return reader.damaged();
        }
        Ok(block)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn numbers(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn row(&mut self, row: &RollUpRow) {
        assert!(row.is_consistent(), "{row:?}");
        match row.resource {
            Resource::Cpu => self.number(0),
            Resource::Memory => self.number(1),
            Resource::WorkMemory => self.number(2),
            Resource::Io { volume } => {
                self.number(3);
                self.number(u64::from(volume));
            }
        }
        self.numbers([u64::from(row.from.0), u64::from(row.minutes), row.intervals]);
        self.numbers(row.broken);
        self.numbers([row.covered.0, row.active.0, row.promised, row.demanded, row.given]);
        self.numbers([row.missed, row.over, row.owed_micros, row.missed_max]);
        self.number(u64::from(row.delays_worst.is_some()));
        if let Some(delays) = row.delays_worst {
            let delays = [delays.mean, delays.p50, delays.p95, delays.p99, delays.max];
            self.numbers(delays.map(|delay| delay.0));
        }
        self.histogram(&row.given_rates);
        let differs = row.wanted_rates != row.given_rates;
        self.number(u64::from(differs));
        if differs {
            self.histogram(&row.wanted_rates);
        }
    }

    fn own_limit(&mut self, own_limit: OwnLimit) {
        let says_something = own_limit != OwnLimit::default();
        self.number(u64::from(says_something));
        if says_something {
            let OwnLimit { held, debt, forgiven, awaited } = own_limit;
            self.numbers([held, debt, forgiven, awaited]);
        }
    }

    fn histogram(&mut self, histogram: &SparseHistogram) {
        let (buckets, max) = histogram.parts();
        self.number(buckets.len() as u64);
        let mut before = 0;
        for (bucket, count) in buckets {
            self.number(u64::from(bucket - before));
            self.number(*count);
            before = *bucket;
        }
        self.number(max);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn damaged<T>(&self) -> Result<T, RollUpError> {
        Err(RollUpError::Damaged { offset: self.at })
    }

    fn byte(&mut self) -> Result<u8, RollUpError> {
        let Some(byte) = self.bytes.get(self.at) else { return self.damaged() };
        self.at += 1;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, RollUpError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // A number has one form: no bits beyond the 64th, no zeros at its end.
            if bits << shift >> shift != bits || (shift > 0 && byte == 0) {
                return self.damaged();
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        self.damaged()
    }

    fn number32(&mut self) -> Result<u32, RollUpError> {
        let number = self.number()?;
        u32::try_from(number).or_else(|_| self.damaged())
    }

    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], RollUpError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Ok(numbers)
    }

    fn tenant(&mut self, before: TenantId) -> Result<TenantId, RollUpError> {
        let further = self.number()?;
        before.0.checked_add(further).map(TenantId).map_or_else(|| self.damaged(), Ok)
    }

    fn flag(&mut self) -> Result<bool, RollUpError> {
        match self.number()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => self.damaged(),
        }
    }

    fn stretch(&mut self) -> Result<(WallMinute, u32), RollUpError> {
        let (from, minutes) = (self.number32()?, self.number32()?);
        if minutes == 0 { self.damaged() } else { Ok((WallMinute(from), minutes)) }
    }

    fn row(&mut self, tenant: TenantId) -> Result<RollUpRow, RollUpError> {
        let resource = match self.number()? {
            0 => Resource::Cpu,
            1 => Resource::Memory,
            2 => Resource::WorkMemory,
            3 => Resource::Io { volume: self.number32()? },
            _ => return self.damaged(),
        };
        let (from, minutes) = self.stretch()?;
        let intervals = self.number()?;
        let broken = self.numbers()?;
        let [covered, active, promised, demanded, given] = self.numbers()?;
        let [missed, over, owed_micros, missed_max] = self.numbers()?;
        let delays_worst = if self.flag()? { Some(self.delays()?) } else { None };
        let given_rates = self.histogram()?;
        let differs = self.flag()?;
        let wanted_rates = if differs { self.histogram()? } else { given_rates.clone() };
        let row = RollUpRow {
            tenant,
            resource,
            from,
            minutes,
            intervals,
            broken,
            covered: Nanos(covered),
            active: Nanos(active),
            promised,
            demanded,
            given,
            missed,
            over,
            own_limit: OwnLimit::default(),
            owed_micros,
            missed_max,
            delays_worst,
            given_rates,
            wanted_rates,
        };
        let is_one_form = differs == (row.wanted_rates != row.given_rates);
        if is_one_form && row.is_consistent() { Ok(row) } else { self.damaged() }
    }

    fn own_limit(&mut self) -> Result<OwnLimit, RollUpError> {
        if !self.flag()? {
            return Ok(OwnLimit::default());
        }
        let [held, debt, forgiven, awaited] = self.numbers()?;
        let own_limit = OwnLimit { held, debt, forgiven, awaited };
        if own_limit == OwnLimit::default() { self.damaged() } else { Ok(own_limit) }
    }

    fn delays(&mut self) -> Result<Delays, RollUpError> {
        let [mean, p50, p95, p99, max] = self.numbers()?.map(Nanos);
        Ok(Delays { mean, p50, p95, p99, max })
    }

    fn sample_row(&mut self, tenant: TenantId) -> Result<SampleRow, RollUpError> {
        let sampled = match self.number()? {
            0 => Sampled::StatementTime,
            1 => Sampled::WorkMemory,
            _ => return self.damaged(),
        };
        let (from, minutes) = self.stretch()?;
        Ok(SampleRow { tenant, sampled, from, minutes, amounts: self.histogram()? })
    }

    fn histogram(&mut self) -> Result<SparseHistogram, RollUpError> {
        let length = self.number()?;
        if length > u64::from(BUCKETS) {
            return self.damaged();
        }
        // Not reserved at once: what is said of the length may not be true.
        let (mut buckets, mut before) = (Vec::new(), 0u64);
        for _ in 0..length {
            let [further, count] = self.numbers()?;
            before = before.saturating_add(further);
            match u16::try_from(before) {
                Ok(bucket) if bucket < BUCKETS => buckets.push((bucket, count)),
                _ => return self.damaged(),
            }
        }
        let max = self.number()?;
        SparseHistogram::from_parts(buckets, max).map_or_else(|| self.damaged(), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form_and_64_bits() {
        let number = |bytes: &[u8]| Reader { bytes, at: 0 }.number().ok();
        for n in [0, 1, 127, 128, 1 << 32, u64::MAX] {
            let mut writer = Writer(Vec::new());
            writer.number(n);
            assert_eq!(number(&writer.0), Some(n));
        }
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(number(&largest), Some(u64::MAX));
        assert_eq!(number(&[&largest[..9], &[0x03]].concat()), None, "a 65th bit");
        assert_eq!(number(&[&largest[..9], &[0x81, 0x00]].concat()), None);
        assert_eq!(number(&[0x80, 0x00]), None, "zero in two bytes");
    }

    #[test]
    fn equal_rates_are_written_once() {
        let mut row = RollUpRow::empty(TenantId(1), Resource::Cpu, WallMinute(7));
        let mut writer = Writer(Vec::new());
        writer.row(&row);
        let read = |bytes: &[u8]| Reader { bytes, at: 0 }.row(TenantId(1));
        assert_eq!(read(&writer.0), Ok(row.clone()));
        // The same rates again instead of the 0 that stands for them.
        assert_eq!(writer.0.pop(), Some(0));
        writer.number(1);
        writer.histogram(&row.wanted_rates);
        assert!(read(&writer.0).is_err());
        row.intervals = 1;
        row.given_rates.record(1);
        row.wanted_rates.record(2);
        writer.0.clear();
        writer.row(&row);
        assert_eq!(read(&writer.0), Ok(row));
    }
}
