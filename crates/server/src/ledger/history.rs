//! The ledger by the minute, on disk: one file a day in `DIR/ledger`, kept for 62 days.
//!
//! | bytes | what, of each block |
//! | --- | --- |
//! | 4 | length of what follows the checksum, little-endian |
//! | 4 | CRC-32C of it |
//! | n | a [`RollUpBlock`], as it encodes itself |
//!
//! A file is named for its day since 1970, `020778.rollup`. Blocks are appended, one a minute at most, and are durable then; a crash loses
//! the minute that was not over, and a block cut short by it ends its file. The thread of the ledger writes; analytical threads read,
//! without a lock: what is being appended meanwhile is not whole yet and is left out.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{ByteCount, TenantId};
use env::{Disk, File, OpenMode};
use governor::{Retention, RollUpBlock, RollUpSegment, RollUpStep, WallMinute};

/// Name of the directory.
const DIR: &str = "ledger";
const SUFFIX: &str = ".rollup";
const HEAD_LEN: usize = 8;
const MINUTES_A_DAY: u32 = 24 * 60;
const MS_PER_DAY: i64 = MINUTES_A_DAY as i64 * 60_000;

/// Where the files are. Cheap to clone.
#[derive(Clone)]
pub(crate) struct History {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
}

/// For the one that writes.
pub(super) struct HistoryWriter {
    history: History,
    retention: Retention,
    /// Resolution of each file that was merged since the start; others are taken for 1.
    segments: Vec<Segment>,
    /// The day being written, its file, and where the next block goes.
    open: Option<(u32, File, u64)>,
}

struct Segment {
    day: u32,
    resolution: u32,
    bytes: ByteCount,
}

impl History {
    pub(crate) fn new(disk: Arc<dyn Disk>, data_dir: &Path) -> History {
        History { disk, dir: data_dir.join(DIR).into() }
    }

    fn path(&self, day: u32) -> PathBuf {
        self.dir.join(format!("{day:06}{SUFFIX}"))
    }

    /// The days there are, in order.
    fn days(&self) -> io::Result<Vec<u32>> {
        if !self.disk.exists(&self.dir) {
            return Ok(Vec::new());
        }
        let day = |name: &str| name.strip_suffix(SUFFIX)?.parse().ok();
        let mut days: Vec<u32> =
            self.disk.list(&self.dir)?.iter().filter_map(|entry| day(&entry.name)).collect();
        days.sort_unstable();
        Ok(days)
    }

    /// The days there are whose files may have minutes of a range, in milliseconds since 1970; in order. They have others too.
    pub(super) fn days_within(&self, range_ms: &Range<i64>) -> io::Result<Vec<u32>> {
        let mut days = self.days()?;
        // A minute is written when it is over, so the last of a day is in the next file.
        let ms = |day: u32| i64::from(day) * MS_PER_DAY;
        let end_ms = range_ms.end.saturating_add(MS_PER_DAY);
        days.retain(|day| ms(*day) < end_ms && ms(day + 1) > range_ms.start);
        Ok(days)
    }

    /// What a day has of a tenant, or of all for `None`. Blocks.
    ///
    /// # Errors
    /// The file cannot be read. One that was dropped meanwhile has nothing.
    pub(super) fn read_day(&self, day: u32, of: Option<TenantId>) -> io::Result<RollUpBlock> {
        match self.blocks(day, of) {
            Ok((blocks, _)) => Ok(RollUpBlock::merged(blocks, 1)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(RollUpBlock::default()),
            Err(error) => Err(error),
        }
    }

    /// The blocks of a day that are whole, what they have of the tenant (`None`: of all), and the bytes they take. What is damaged ends the file.
    fn blocks(&self, day: u32, of: Option<TenantId>) -> io::Result<(Vec<RollUpBlock>, u64)> {
        let bytes = self.disk.read_small(&self.path(day))?;
        let (mut blocks, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((mut block, after)) = split_block(rest) {
            if let Some(tenant) = of {
                block.keep_only(tenant);
            }
            blocks.push(block);
            rest = after;
        }
        Ok((blocks, (bytes.len() - rest.len()) as u64))
    }

    /// Everything of a tenant, or of all for `None`, by tenant, resource and minute. Reads every file, and keeps of it in memory what it answers and one file more. Blocks.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn read(&self, of: Option<TenantId>) -> io::Result<RollUpBlock> {
        let mut all = Vec::new();
        for day in self.days()? {
            all.extend(self.blocks(day, of)?.0);
        }
        Ok(RollUpBlock::merged(all, 1))
    }
}

fn split_block(bytes: &[u8]) -> Option<(RollUpBlock, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    let (block, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    if crc32c::crc32c(block) != u32::from_le_bytes(*checksum) {
        return None;
    }
    Some((RollUpBlock::decode(block).ok()?, rest))
}

fn sealed(block: &RollUpBlock) -> Vec<u8> {
    let encoded = block.encode();
    let len = u32::try_from(encoded.len()).expect("a day's block is below 4 GiB");
    let mut bytes = Vec::with_capacity(HEAD_LEN + encoded.len());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&encoded).to_le_bytes());
    bytes.extend_from_slice(&encoded);
    bytes
}

impl HistoryWriter {
    /// For the files of `history`, whose directory is made if it is not there.
    pub(super) fn open(history: History, retention: Retention) -> io::Result<HistoryWriter> {
        history.disk.create_dir_all(&history.dir)?;
        let mut segments = Vec::new();
        for day in history.days()? {
            let (blocks, bytes) = history.blocks(day, None)?;
            let resolution = blocks.iter().flat_map(|block| &block.rows).map(|row| row.minutes).max();
            segments.push(Segment { day, resolution: resolution.unwrap_or(1), bytes: ByteCount(bytes) });
        }
        Ok(HistoryWriter { history, retention, segments, open: None })
    }

    /// Appends what ended by `now`, durably, and drops or merges what is beyond the retention. Blocks.
    pub(super) fn append(&mut self, block: &RollUpBlock, now: WallMinute) -> io::Result<()> {
        if block.is_empty() {
            return Ok(());
        }
        let day = now.0 / MINUTES_A_DAY;
        let (file, at) = match self.open.take() {
            Some((of, file, at)) if of == day => (file, at),
            _ => self.open_day(day)?,
        };
        let bytes = sealed(block);
        file.write_at(&bytes, at)?;
        file.sync_data_blocking()?;
        let end = at + bytes.len() as u64;
        self.segment(day).bytes = ByteCount(end);
        self.open = Some((day, file, end));
        self.keep_within(now)
    }

    fn segment(&mut self, day: u32) -> &mut Segment {
        let at = self.segments.iter().position(|segment| segment.day == day).unwrap_or_else(|| {
            self.segments.push(Segment { day, resolution: 1, bytes: ByteCount(0) });
            self.segments.len() - 1
        });
        &mut self.segments[at]
    }

    fn open_day(&mut self, day: u32) -> io::Result<(File, u64)> {
        let path = self.history.path(day);
        let is_new = !self.history.disk.exists(&path);
        let file = self.history.disk.open(&path, OpenMode::Create, false)?;
        if is_new {
            self.history.disk.sync_dir(&self.history.dir)?;
            return Ok((file, 0));
        }
        let end = self.history.blocks(day, None)?.1;
        file.set_len(end)?;
        Ok((file, end))
    }

    fn keep_within(&mut self, now: WallMinute) -> io::Result<()> {
        loop {
            let of = |segment: &Segment| RollUpSegment {
                last: WallMinute((segment.day + 1) * MINUTES_A_DAY - 1),
                resolution: segment.resolution,
                bytes: segment.bytes,
                is_open: self.open.as_ref().is_some_and(|(day, ..)| *day == segment.day),
            };
            let segments: Vec<RollUpSegment> = self.segments.iter().map(of).collect();
            match self.retention.next_step(&segments, now) {
                None => return Ok(()),
                Some(RollUpStep::Drop { segment }) => {
                    self.history.disk.remove(&self.history.path(self.segments[segment].day))?;
                    self.segments.remove(segment);
                }
                Some(RollUpStep::Merge { segment, minutes }) => {
                    let day = self.segments[segment].day;
                    let bytes = sealed(&RollUpBlock::merged(self.history.blocks(day, None)?.0, minutes));
                    self.history.disk.write_small_atomic(&self.history.path(day), &bytes, 0o600)?;
                    self.segments[segment] =
                        Segment { day, resolution: minutes, bytes: ByteCount(bytes.len() as u64) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Nanos;
    use env::sim::{PowerCut, World};
    use governor::{LedgerRow, Resource, RollUp};

    use super::*;

    const DAY: u32 = 20_000;

    fn block(minute: u32, given: u64) -> RollUpBlock {
        block_of(TenantId(16), minute, given)
    }

    fn block_of(tenant: TenantId, minute: u32, given: u64) -> RollUpBlock {
        let row = LedgerRow {
            tenant,
            resource: Resource::Cpu,
            from: Nanos(0),
            to: Nanos::from_secs(1),
            promised: 10,
            demanded: 10,
            given,
            missed: 0,
            over: 0,
            active: Nanos(5),
            cause: None,
            delays: None,
            owed_micros: 0,
        };
        let mut rollup = RollUp::default();
        rollup.add(&row, WallMinute(minute));
        rollup.take_all()
    }

    fn given(history: &History) -> Vec<(u32, u64)> {
        history.read(None).unwrap().rows.iter().map(|row| (row.from.0, row.given)).collect()
    }

    #[test]
    fn what_was_appended_survives_a_power_cut_and_a_torn_end_is_left_out() {
        let world = World::new(1);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        env.disk.create_dir_all(Path::new("/data")).unwrap();
        env.disk.sync_dir(Path::new("/data")).unwrap();
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        env.disk.sync_dir(Path::new("/data")).unwrap();
        let first = DAY * MINUTES_A_DAY;
        for (minute, amount) in [(first, 3), (first + 1, 4)] {
            writer.append(&block(minute, amount), WallMinute(minute)).unwrap();
        }
        world.power_cut(PowerCut::DropUnsynced);
        assert_eq!(given(&history), [(first, 3), (first + 1, 4)]);
        // Half a block at the end, as a crash leaves it.
        let path = history.path(DAY);
        let mut bytes = env.disk.read_small(&path).unwrap();
        let whole = bytes.len();
        bytes.extend_from_slice(&sealed(&block(first + 2, 5))[..20]);
        env.disk.write_small_atomic(&path, &bytes, 0o600).unwrap();
        assert_eq!(given(&history).len(), 2);
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        writer.append(&block(first + 3, 6), WallMinute(first + 3)).unwrap();
        assert_eq!(given(&history), [(first, 3), (first + 1, 4), (first + 3, 6)]);
        // A byte that rotted ends its file, and no more.
        let mut bytes = env.disk.read_small(&path).unwrap();
        bytes[whole + 9] ^= 1;
        env.disk.write_small_atomic(&path, &bytes, 0o600).unwrap();
        assert_eq!(given(&history).len(), 2);
    }

    #[test]
    fn the_last_minute_of_a_day_is_found_in_the_file_of_the_next() {
        let world = World::new(4);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let next_day = (DAY + 1) * MINUTES_A_DAY;
        for minute in [next_day - 2, next_day - 1, next_day] {
            // When it is over.
            writer.append(&block(minute, 1), WallMinute(minute + 1)).unwrap();
        }
        let ms = |day: u32| i64::from(day) * MS_PER_DAY;
        let days = history.days_within(&(ms(DAY)..ms(DAY + 1))).unwrap();
        let rows = days.iter().flat_map(|day| history.read_day(*day, None).unwrap().rows);
        let of_day = rows.filter(|row| row.from.0 < next_day).count();
        assert_eq!(of_day, 2, "{days:?}");
    }

    #[test]
    fn one_tenants_rows_are_read_apart() {
        let world = World::new(3);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let first = DAY * MINUTES_A_DAY;
        for (minute, tenant) in [(0, 16), (0, 17), (1, 17)] {
            let block = block_of(TenantId(tenant), first + minute, tenant);
            writer.append(&block, WallMinute(first + minute)).unwrap();
        }
        let of = |tenant| history.read(tenant).unwrap().rows.iter().map(|row| row.given).collect::<Vec<_>>();
        assert_eq!(of(Some(TenantId(17))), [17, 17]);
        assert_eq!(of(Some(TenantId(18))), [0u64; 0]);
        assert_eq!(of(None), [16, 17, 17]);
    }

    #[test]
    fn old_days_go_and_days_over_the_bound_become_hours() {
        let world = World::new(2);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let bytes_max = ByteCount(8 * sealed(&block(DAY * MINUTES_A_DAY, 1)).len() as u64);
        let retention = Retention { minutes: 3 * MINUTES_A_DAY, bytes_max };
        let mut writer = HistoryWriter::open(history.clone(), retention).unwrap();
        for day in DAY..DAY + 6 {
            for minute in 0..4 {
                let minute = day * MINUTES_A_DAY + minute;
                writer.append(&block(minute, 1), WallMinute(minute)).unwrap();
            }
        }
        let kept = given(&history);
        assert!(kept.iter().all(|(minute, _)| *minute >= (DAY + 2) * MINUTES_A_DAY), "{kept:?}");
        assert!(kept.iter().any(|(_, given)| *given == 4), "an hour of four minutes: {kept:?}");
        assert_eq!(
            kept.iter().filter(|(_, given)| *given == 1).count(),
            4,
            "the day being written: {kept:?}"
        );
        let again = HistoryWriter::open(history.clone(), retention).unwrap();
        assert!(again.segments.iter().any(|segment| segment.resolution == 60));
    }
}
