//! The ledger by the minute, on disk: one file a day in `DIR/ledger`, kept for 62 days.
//!
//! | bytes | what, of each block |
//! | --- | --- |
//! | 4 | length of what follows the checksum, little-endian |
//! | 4 | CRC-32C of it |
//! | n | a [`RollUpBlock`], as it encodes itself |
//!
//! A file is named for its day since 1970, `020778.rollup`. Blocks are appended, one a minute at most, and are durable then; a crash loses
//! the minute that was not over, and a block cut short by it ends its file; one that rotted is left out alone. The thread of the ledger writes; analytical threads read,
//! without a lock: what is being appended meanwhile is not whole yet and is left out. A file is read in pieces, block by block: with thousands of tenants that are never idle a day has
//! more than there is memory for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{ByteCount, TenantId};
use env::{Disk, Env, File, IoAccount, OpenMode};
use governor::{Resource, Retention, RollUpBlock, RollUpRow, RollUpSegment, RollUpStep, WallMinute};

use super::volume_numbers::VolumeNumbers;

/// Name of the directory.
const DIR: &str = "ledger";
const SUFFIX: &str = ".rollup";
const HEAD_LEN: usize = 8;
const MINUTES_A_DAY: u32 = 24 * 60;
const MS_PER_DAY: i64 = MINUTES_A_DAY as i64 * 60_000;
/// Bytes that are read at once, at least.
const PIECE_LEN: u64 = 256 << 10;
/// What a restart, or a worker that was late, left of a minute for a later block comes within so many minutes.
const MINUTE_SPREAD_MAX: u32 = 60;

/// Where the files are. Cheap to clone.
#[derive(Clone)]
pub(crate) struct History {
    disk: Arc<dyn Disk>,
    dir: Arc<Path>,
    /// Or why it is not known which volumes rows are of.
    volumes: Arc<io::Result<VolumeNumbers>>,
}

/// For the one that writes.
pub(super) struct HistoryWriter {
    history: History,
    retention: Retention,
    /// Resolution of each file that was merged since the start; others are taken for 1.
    segments: Vec<Segment>,
    /// The day being written, its file, and where the next block goes.
    open: Option<(u32, File, u64)>,
    /// The day, and where in its file a block begins that could not be appended: it goes, or it would count twice once it is appended again.
    failed: Option<(u32, u64)>,
    /// Whether the wall's clock says how old what is kept is.
    is_clock_steady: bool,
    /// The files' list of volumes has those of this start.
    are_volumes_stored: bool,
}

struct Segment {
    day: u32,
    resolution: u32,
    bytes: ByteCount,
}

impl History {
    pub(crate) fn new(disk: Arc<dyn Disk>, data_dir: &Path) -> History {
        let volumes = Arc::new(Ok(VolumeNumbers::default()));
        History { disk, dir: data_dir.join(DIR).into(), volumes }
    }

    /// For a start with these volumes, by number. Blocks for a small read.
    pub(crate) fn with_volumes<'n>(self, names: impl Iterator<Item = &'n str>) -> History {
        let volumes = VolumeNumbers::load(&*self.disk, &self.dir, names.map(str::to_owned).collect());
        if let Err(error) = &volumes {
            tracing::error!(%error, "the ledger's history can be neither read nor written");
        }
        History { volumes: Arc::new(volumes), ..self }
    }

    fn volumes(&self) -> io::Result<&VolumeNumbers> {
        match &*self.volumes {
            Ok(volumes) => Ok(volumes),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// The names of the volumes in rows, by number: those of this start, then those of earlier ones.
    pub(super) fn volume_names(&self) -> &[String] {
        self.volumes().map_or(&[], VolumeNumbers::names)
    }

    /// The same files, their reading charged to somebody else.
    pub(super) fn charged_to(&self, env: &Env, account: &Arc<IoAccount>) -> History {
        History { disk: env.charging(account).disk, ..self.clone() }
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
        self.merged([day], of, 1)
    }

    /// Everything of a tenant, by resource and minute. Reads every file, and keeps of it in memory what it answers and one block more. Blocks.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn read(&self, of: TenantId) -> io::Result<RollUpBlock> {
        self.merged(self.days()?, Some(of), 1)
    }

    /// Calls `each` for the rows of a tenant, or of all for `None`, the oldest first, until it says to stop. Has an hour of them in memory. Blocks.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn each_row(
        &self,
        of: Option<TenantId>,
        each: &mut dyn FnMut(&RollUpRow) -> bool,
    ) -> io::Result<()> {
        // Those that a later block may have more of.
        let mut kept: BTreeMap<(WallMinute, TenantId, Resource), RollUpRow> = BTreeMap::new();
        for block in self.blocks_of(self.days()?, of) {
            let rows = block?.rows;
            let Some(newest) = rows.iter().map(|row| row.from.0).max() else { continue };
            for row in rows {
                match kept.entry((row.from, row.tenant, row.resource)) {
                    Entry::Vacant(place) => drop(place.insert(row)),
                    Entry::Occupied(mut place) => place.get_mut().merge(&row),
                }
            }
            let from = WallMinute(newest.saturating_sub(MINUTE_SPREAD_MAX));
            let later = kept.split_off(&(from, TenantId(0), Resource::Cpu));
            if !std::mem::replace(&mut kept, later).values().all(&mut *each) {
                return Ok(());
            }
        }
        kept.values().all(each);
        Ok(())
    }

    /// Calls `each` with what a day has of all tenants, in parts of so many rows or of one minute or block, the newest minutes first, until it says to stop; whether it never did.
    /// A minute is in one part. Reads the file twice, and has a part in memory at a time. Blocks.
    ///
    /// # Errors
    /// The file cannot be read. One that was dropped meanwhile has nothing.
    pub(super) fn each_part_of_day(
        &self,
        day: u32,
        rows_max: usize,
        each: &mut dyn FnMut(RollUpBlock) -> bool,
    ) -> io::Result<bool> {
        let Some(mut blocks) = self.blocks(day)? else { return Ok(true) };
        for part in blocks.parts(rows_max)?.into_iter().rev() {
            blocks.go_to(part.bytes);
            let of_rows = blocks.by_ref().map(|block| block.map(without_samples));
            if !each(merged(of_rows, 1)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What these days have of a tenant, or of all, rows of the same `minutes` merged into one.
    fn merged(
        &self,
        days: impl IntoIterator<Item = u32>,
        of: Option<TenantId>,
        minutes: u32,
    ) -> io::Result<RollUpBlock> {
        merged(self.blocks_of(days, of), minutes)
    }

    /// The blocks of these days, with what they have of the tenant (`None`: of all).
    fn blocks_of(
        &self,
        days: impl IntoIterator<Item = u32>,
        of: Option<TenantId>,
    ) -> impl Iterator<Item = io::Result<RollUpBlock>> {
        let of_day = move |day| match self.blocks(day) {
            Ok(blocks) => (blocks, None),
            Err(error) => (None, Some(Err(error))),
        };
        let blocks = days.into_iter().map(of_day);
        let blocks = blocks.flat_map(|(blocks, failed)| blocks.into_iter().flatten().chain(failed));
        blocks.map(move |block| {
            let mut block = block?;
            if let Some(tenant) = of {
                block.keep_only(tenant);
            }
            Ok(block)
        })
    }

    /// The blocks of a day that are whole; what is damaged ends the file, unless a whole block follows. `None` if there is none: it was dropped meanwhile.
    fn blocks(&self, day: u32) -> io::Result<Option<Blocks>> {
        self.volumes()?;
        let file = match self.disk.open(&self.path(day), OpenMode::Read, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let len = file.len()?;
        let volumes = self.volumes.clone();
        let pieces = Vec::new();
        Ok(Some(Blocks { file, len, read: 0, pieces, begin: 0, whole_len: 0, rotten: 0, volumes }))
    }
}

/// All of some blocks, rows of the same `minutes` merged into one.
fn merged(blocks: impl Iterator<Item = io::Result<RollUpBlock>>, minutes: u32) -> io::Result<RollUpBlock> {
    let mut failed = None;
    let whole = |block: io::Result<RollUpBlock>| block.map_err(|error| failed = Some(error)).ok();
    let merged = RollUpBlock::merged(blocks.map_while(whole), minutes);
    failed.map_or(Ok(merged), Err)
}

fn without_samples(block: RollUpBlock) -> RollUpBlock {
    RollUpBlock { samples: Vec::new(), ..block }
}

/// Blocks that follow each other, of no minute of which there is more before or behind them.
struct Part {
    bytes: Range<u64>,
    /// The first and the last minute that a row begins in.
    first: u32,
    last: u32,
    rows: usize,
}

impl Part {
    /// Both together, `next` behind this one.
    fn with(self, next: Part) -> Part {
        Part {
            bytes: self.bytes.start..next.bytes.end,
            first: self.first.min(next.first),
            last: self.last.max(next.last),
            rows: self.rows + next.rows,
        }
    }
}

/// The whole blocks of a file, one after the other.
struct Blocks {
    file: File,
    /// As it was when the file was opened.
    len: u64,
    read: u64,
    /// What was read; before `begin` it is done with.
    pieces: Vec<u8>,
    begin: usize,
    /// Bytes of the blocks so far.
    whole_len: u64,
    /// Blocks among them that are damaged and were left out.
    rotten: u64,
    volumes: Arc<io::Result<VolumeNumbers>>,
}

impl Blocks {
    /// Reads on until there are so many bytes; whether there are.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        let (there, left) = (self.pieces.len() - self.begin, self.len - self.read);
        if there >= wanted {
            return Ok(true);
        }
        let missing = (wanted - there) as u64;
        if missing > left {
            return Ok(false);
        }
        self.pieces.drain(..self.begin);
        self.begin = 0;
        let more = missing.max(PIECE_LEN).min(left);
        self.pieces.resize(there + more as usize, 0);
        match self.file.read_at(&mut self.pieces[there..], self.read) {
            // Half a block was cut off meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            other => other?,
        }
        self.read += more;
        Ok(true)
    }

    /// Reads all blocks there are; of which parts of so many rows they are, unless what belongs together is more. In the order of their minutes.
    fn parts(&mut self, rows_max: usize) -> io::Result<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        let mut from = self.whole_len;
        while let Some(block) = self.next_block()? {
            let bytes = std::mem::replace(&mut from, self.whole_len)..self.whole_len;
            let minutes = || block.rows.iter().map(|row| row.from.0);
            let (Some(first), Some(last)) = (minutes().min(), minutes().max()) else { continue };
            let mut part = Part { bytes, first, last, rows: block.rows.len() };
            let belongs =
                |before: &Part, part: &Part| before.last >= part.first || before.rows + part.rows <= rows_max;
            while parts.last().is_some_and(|before| belongs(before, &part)) {
                part = parts.pop().expect("there is a last one").with(part);
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// Goes to where a block begins, and no further than where one ends.
    fn go_to(&mut self, bytes: Range<u64>) {
        (self.read, self.len) = (bytes.start, bytes.end);
        self.pieces.clear();
        self.begin = 0;
    }

    fn next_block(&mut self) -> io::Result<Option<RollUpBlock>> {
        if !self.fill(HEAD_LEN)? {
            return Ok(None);
        }
        let number = |at: usize| {
            let bytes = &self.pieces[self.begin + at..][..4];
            u32::from_le_bytes(bytes.try_into().expect("four bytes"))
        };
        let (len, checksum) = (number(0) as usize, number(4));
        if !self.fill(HEAD_LEN + len)? {
            return Ok(None);
        }
        let encoded = &self.pieces[self.begin + HEAD_LEN..][..len];
        if crc32c::crc32c(encoded) != checksum {
            // A crash leaves nothing behind what it cut short.
            if !self.is_whole_behind(HEAD_LEN + len)? {
                return Ok(None);
            }
            self.begin += HEAD_LEN + len;
            self.whole_len += (HEAD_LEN + len) as u64;
            self.rotten += 1;
            return self.next_block();
        }
        let Ok(block) = RollUpBlock::decode(encoded) else { return Ok(None) };
        self.begin += HEAD_LEN + len;
        self.whole_len += (HEAD_LEN + len) as u64;
        Ok(Some(match &*self.volumes {
            Ok(volumes) => volumes.of_files(block),
            Err(_) => block,
        }))
    }

    /// Whether a block begins so many bytes further on that is whole. Of nothing but zeros there is none.
    fn is_whole_behind(&mut self, bytes: usize) -> io::Result<bool> {
        if !self.fill(bytes + HEAD_LEN)? {
            return Ok(false);
        }
        let number = |at: usize| {
            let bytes = &self.pieces[self.begin + bytes + at..][..4];
            u32::from_le_bytes(bytes.try_into().expect("four bytes"))
        };
        let (len, checksum) = (number(0) as usize, number(4));
        if len == 0 || !self.fill(bytes + HEAD_LEN + len)? {
            return Ok(false);
        }
        let encoded = &self.pieces[self.begin + bytes + HEAD_LEN..][..len];
        Ok(crc32c::crc32c(encoded) == checksum)
    }
}

impl Iterator for Blocks {
    type Item = io::Result<RollUpBlock>;

    fn next(&mut self) -> Option<io::Result<RollUpBlock>> {
        self.next_block().transpose()
    }
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
            let Some(mut blocks) = history.blocks(day)? else { continue };
            let mut resolution = 1;
            for block in blocks.by_ref() {
                resolution = block?.rows.iter().map(|row| row.minutes).fold(resolution, u32::max);
            }
            if blocks.rotten > 0 {
                let (file, blocks) = (history.path(day), blocks.rotten);
                tracing::warn!(file = %file.display(), blocks, "damaged minutes of the ledger are left out");
            }
            segments.push(Segment { day, resolution, bytes: ByteCount(blocks.whole_len) });
        }
        let (is_clock_steady, are_volumes_stored) = (true, false);
        Ok(HistoryWriter {
            history,
            retention,
            segments,
            open: None,
            failed: None,
            is_clock_steady,
            are_volumes_stored,
        })
    }

    /// Whether the wall's clock is to be believed for how old what is kept is: while it is not, nothing is dropped for its age.
    pub(super) fn set_clock_steady(&mut self, is_steady: bool) {
        self.is_clock_steady = is_steady;
    }

    /// Appends what ended by `now`, durably, and drops or merges what is beyond the retention. Blocks.
    ///
    /// # Errors
    /// It is not appended: it may be tried again.
    pub(super) fn append(&mut self, block: &RollUpBlock, now: WallMinute) -> io::Result<()> {
        if block.is_empty() {
            return Ok(());
        }
        self.cut_failed()?;
        let bytes = self.as_stored(block.clone())?;
        let day = now.0 / MINUTES_A_DAY;
        let (file, at) = match self.open.take() {
            Some((of, file, at)) if of == day => (file, at),
            _ => self.open_day(day)?,
        };
        self.failed = Some((day, at));
        file.write_at(&bytes, at)?;
        file.sync_data_blocking()?;
        self.failed = None;
        let end = at + bytes.len() as u64;
        self.segment(day).bytes = ByteCount(end);
        self.open = Some((day, file, end));
        if let Err(error) = self.keep_within(now) {
            tracing::warn!(%error, "the ledger's history has more than is kept of it");
        }
        Ok(())
    }

    /// The bytes of a block. After `Ok` the files have the names of the volumes in it.
    fn as_stored(&mut self, block: RollUpBlock) -> io::Result<Vec<u8>> {
        let volumes = self.history.volumes()?;
        if !self.are_volumes_stored {
            volumes.store(&*self.history.disk, &self.history.dir)?;
            self.are_volumes_stored = true;
        }
        Ok(sealed(&volumes.to_files(block)))
    }

    fn cut_failed(&mut self) -> io::Result<()> {
        if let Some((day, at)) = self.failed {
            let file = self.history.disk.open(&self.history.path(day), OpenMode::Create, false)?;
            if file.len()? > at {
                file.set_len(at)?;
                file.sync_data_blocking()?;
            }
            self.failed = None;
        }
        Ok(())
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
        let end = match self.history.blocks(day)? {
            None => 0,
            Some(mut blocks) => {
                blocks.try_for_each(|block| block.map(drop))?;
                blocks.whole_len
            }
        };
        file.set_len(end)?;
        Ok((file, end))
    }

    fn keep_within(&mut self, now: WallMinute) -> io::Result<()> {
        let now = if self.is_clock_steady { now } else { WallMinute(0) };
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
                    let merged = self.history.merged([day], None, minutes)?;
                    let bytes = self.as_stored(merged)?;
                    self.history.disk.write_small_atomic(&self.history.path(day), &bytes, 0o600)?;
                    self.segments[segment] =
                        Segment { day, resolution: minutes, bytes: ByteCount(bytes.len() as u64) };
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use base::Nanos;
    use env::sim::{PowerCut, World};
    use governor::{LedgerRow, OwnLimit, RollUp};

    use super::*;

    const DAY: u32 = 20_000;

    /// A row of one tenant in this minute.
    pub(in crate::ledger) fn block(minute: u32, given: u64) -> RollUpBlock {
        block_of(TenantId(16), minute, given)
    }

    pub(in crate::ledger) fn block_of(tenant: TenantId, minute: u32, given: u64) -> RollUpBlock {
        block_about(Resource::Cpu, tenant, minute, given)
    }

    /// The same of I/O.
    pub(in crate::ledger) fn io_block_of(
        tenant: TenantId,
        volume: u32,
        minute: u32,
        given: u64,
    ) -> RollUpBlock {
        block_about(Resource::Io { volume }, tenant, minute, given)
    }

    fn block_about(resource: Resource, tenant: TenantId, minute: u32, given: u64) -> RollUpBlock {
        let row = LedgerRow {
            tenant,
            resource,
            from: Nanos(0),
            to: Nanos::from_secs(1),
            promised: 10,
            demanded: 10,
            given,
            missed: 0,
            by_chance: 0,
            over: 0,
            own_limit: OwnLimit::default(),
            active: Nanos(5),
            cause: None,
            delays: None,
            owed_micros: 0,
        };
        let mut rollup = RollUp::default();
        rollup.add(&row, WallMinute(minute));
        rollup.take_all()
    }

    /// The minutes that were written, and what was given in each.
    pub(in crate::ledger) fn rows(history: &History, of: Option<TenantId>) -> Vec<(u32, u64)> {
        let mut rows = Vec::new();
        let mut note = |row: &RollUpRow| {
            rows.push((row.from.0, row.given));
            true
        };
        history.each_row(of, &mut note).unwrap();
        rows
    }

    fn given(history: &History) -> Vec<(u32, u64)> {
        rows(history, None)
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
    fn a_minute_that_rotted_takes_no_other_with_it() {
        let world = World::new(11);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let (first, path) = (DAY * MINUTES_A_DAY, history.path(DAY));
        let mut lens = vec![0];
        for minute in first..first + 4 {
            writer.append(&block(minute, 1), WallMinute(minute)).unwrap();
            lens.push(env.disk.read_small(&path).unwrap().len());
        }
        // A byte of the second one's rows.
        let mut bytes = env.disk.read_small(&path).unwrap();
        bytes[lens[1] + HEAD_LEN + 1] ^= 1;
        env.disk.write_small_atomic(&path, &bytes, 0o600).unwrap();
        let minutes = || given(&history).iter().map(|(minute, _)| minute - first).collect::<Vec<_>>();
        assert_eq!(minutes(), [0, 2, 3]);
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        writer.append(&block(first + 4, 1), WallMinute(first + 4)).unwrap();
        assert_eq!(minutes(), [0, 2, 3, 4], "a start cuts nothing off that is whole");
        // A crash that left zeros behind half a block.
        let mut bytes = env.disk.read_small(&path).unwrap();
        bytes[lens[3] + HEAD_LEN + 1..].fill(0);
        bytes.resize(bytes.len() + 100, 0);
        env.disk.write_small_atomic(&path, &bytes, 0o600).unwrap();
        assert_eq!(minutes(), [0, 2]);
    }

    #[test]
    fn nothing_goes_for_its_age_while_the_clock_is_not_steady() {
        let world = World::new(8);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let first = DAY * MINUTES_A_DAY;
        writer.append(&block(first, 1), WallMinute(first)).unwrap();
        writer.set_clock_steady(false);
        let ahead = first + 100 * MINUTES_A_DAY;
        writer.append(&block(ahead, 2), WallMinute(ahead)).unwrap();
        assert_eq!(given(&history), [(first, 1), (ahead, 2)]);
        writer.set_clock_steady(true);
        writer.append(&block(ahead + 1, 3), WallMinute(ahead + 1)).unwrap();
        assert_eq!(given(&history), [(ahead, 2), (ahead + 1, 3)]);
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
    fn a_day_is_told_in_parts_the_newest_first_and_no_minute_in_two() {
        let world = World::new(10);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let first = DAY * MINUTES_A_DAY;
        // Three tenants in each. Of the fourth there is more behind the fifth, as where the clock was set back.
        for minute in [0, 1, 2, 3, 4, 5, 4, 6, 7] {
            let of = (16..19).map(|tenant| block_of(TenantId(tenant), first + minute, 1));
            writer.append(&RollUpBlock::merged(of, 1), WallMinute(first + 8)).unwrap();
        }
        let told = |rows_max: usize, parts_max: usize| {
            let mut parts: Vec<Vec<(u32, u64)>> = Vec::new();
            let mut note = |part: RollUpBlock| {
                let of_one = part.rows.iter().filter(|row| row.tenant == TenantId(17));
                parts.push(of_one.map(|row| (row.from.0 - first, row.given)).collect());
                parts.len() < parts_max
            };
            let goes_on = history.each_part_of_day(DAY, rows_max, &mut note).unwrap();
            (parts, goes_on)
        };
        let parts =
            vec![vec![(6, 1), (7, 1)], vec![(4, 2), (5, 1)], vec![(2, 1), (3, 1)], vec![(0, 1), (1, 1)]];
        assert_eq!(told(6, 9), (parts.clone(), true));
        assert_eq!(told(6, 2), (parts[..2].to_vec(), false));
        assert_eq!(told(100, 9).0.concat().len(), 8);
        assert_eq!(told(1, 9).0.len(), 7, "what is of one minute stays together");
        assert!(history.each_part_of_day(DAY + 1, 6, &mut |_| false).unwrap(), "there is none");
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
        let of = |tenant| rows(&history, tenant).into_iter().map(|(_, given)| given).collect::<Vec<_>>();
        assert_eq!(of(Some(TenantId(17))), [17, 17]);
        assert_eq!(of(Some(TenantId(18))), [0u64; 0]);
        assert_eq!(of(None), [16, 17, 17]);
        let all = history.read(TenantId(17)).unwrap();
        assert_eq!(all.rows.iter().map(|row| row.given).collect::<Vec<_>>(), [17, 17]);
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

    #[test]
    fn rows_are_told_one_by_one_those_of_a_minute_from_several_files_once_and_no_more_than_are_wanted() {
        let world = World::new(5);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let next_day = (DAY + 1) * MINUTES_A_DAY;
        // The last minute of a day: as far as it was when the server ended, and the rest of it; then two hours.
        writer.append(&block(next_day - 1, 1), WallMinute(next_day - 1)).unwrap();
        writer.append(&block(next_day - 1, 2), WallMinute(next_day)).unwrap();
        for minute in next_day..next_day + 120 {
            writer.append(&block(minute, 5), WallMinute(minute + 1)).unwrap();
        }
        let all = rows(&history, None);
        assert_eq!((all.len(), all[0], all[120]), (121, (next_day - 1, 3), (next_day + 119, 5)));
        assert!(all.is_sorted());
        let mut told = 0;
        let mut two = |_: &RollUpRow| {
            told += 1;
            told < 2
        };
        history.each_row(None, &mut two).unwrap();
        assert_eq!(told, 2);
    }

    #[test]
    fn a_file_is_read_in_pieces_whatever_its_blocks_lengths_are() {
        let world = World::new(6);
        let env = world.env();
        let history = History::new(env.disk.clone(), Path::new("/data"));
        let mut writer = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        let first = DAY * MINUTES_A_DAY;
        // Some longer than a piece, some of which several end in one.
        let tenants = [1, 9_000, 2_000, 1, 7_000, 20_000, 3];
        for (minute, tenants) in (first..).zip(tenants) {
            let of = (16..16 + tenants).map(|tenant| block_of(TenantId(tenant), minute, tenant));
            writer.append(&RollUpBlock::merged(of, 1), WallMinute(minute)).unwrap();
        }
        let of_day = history.read_day(DAY, None).unwrap().rows;
        assert_eq!(of_day.len() as u64, tenants.iter().sum::<u64>());
        assert!(env.disk.read_small(&history.path(DAY)).unwrap().len() as u64 > 4 * PIECE_LEN);
        let again = HistoryWriter::open(history.clone(), Retention::default()).unwrap();
        assert_eq!(again.segments[0].bytes.0, writer.segments[0].bytes.0);
        assert_eq!(rows(&history, Some(TenantId(1_000))).len(), 4);
    }

    #[test]
    fn rows_stay_with_their_volumes_whatever_another_start_has() {
        let world = World::new(9);
        let env = world.env();
        let history = || History::new(env.disk.clone(), Path::new("/data"));
        let of = |names: &str| history().with_volumes(names.split(' '));
        let (tenant, first) = (TenantId(16), DAY * MINUTES_A_DAY);
        let append = |history: History, volume: u32, minute: u32| {
            let mut writer = HistoryWriter::open(history, Retention::default()).unwrap();
            let block = io_block_of(tenant, volume, first + minute, 1);
            writer.append(&block, WallMinute(first + minute))
        };
        // The first is of a release that had no names in its files.
        append(history(), 1, 0).unwrap();
        append(of("default log"), 1, 1).unwrap();
        append(of("default fast log"), 2, 2).unwrap();
        append(of("default fast log"), 1, 3).unwrap();
        append(of("default slow fast log"), 1, 4).unwrap();
        let told = |history: &History| {
            let mut told = Vec::new();
            let mut note = |row: &RollUpRow| {
                let Resource::Io { volume } = row.resource else { unreachable!("all are of I/O") };
                told.push(history.volume_names()[volume as usize].clone());
                true
            };
            history.each_row(None, &mut note).map(|()| told)
        };
        for names in ["default log", "default fast slow log", "default log fast slow", "default new log"] {
            assert_eq!(told(&of(names)).unwrap(), ["log", "log", "log", "fast", "slow"], "{names}");
        }
        // What an hour is merged of is written anew.
        let bytes_max = ByteCount(5 * sealed(&io_block_of(tenant, 1, first, 1)).len() as u64);
        let retention = Retention { minutes: 3 * MINUTES_A_DAY, bytes_max };
        let mut writer = HistoryWriter::open(of("default slow log"), retention).unwrap();
        let next_day = first + MINUTES_A_DAY;
        writer.append(&io_block_of(tenant, 0, next_day, 1), WallMinute(next_day)).unwrap();
        assert_eq!(told(&of("default log")).unwrap(), ["log", "fast", "slow", "default"]);
        // A list that cannot be read: nobody knows whose rows are.
        let list = Path::new("/data/ledger/volumes");
        env.disk.write_small_atomic(list, b"[", 0o600).unwrap();
        assert!(of("default log").each_row(None, &mut |_| true).is_err());
        assert!(HistoryWriter::open(of("default log"), Retention::default()).is_err());
        env.disk.remove(list).unwrap();
        append(of("default log"), 0, 5).unwrap();
    }
}
