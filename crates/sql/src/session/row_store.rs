//! Rows of a result that a session keeps: of cursors and row-limited portals, and those that a change or a new table takes its rows from.
//!
//! A few are in memory. Once they would take more than [`MEMORY_MAX`] all of them go to a temporary file of the tenant, in
//! blocks that are read one by one; in memory are then the index of the blocks and the block that was read last. The file
//! is written before there is a store, never changes, and goes with it. It counts towards the tenant's `temp_max` (53100
//! beyond); what is in memory is charged to nobody.

use std::sync::Arc;

use base::limits::IO_UNIT;
use base::{ByteCount, SqlError, SqlResult, SqlState};
use env::IO_ALIGN;
use types::{Datum, Row, read_datum, row_memory, write_datum};

use super::{TempFile, TempSpace};

/// Memory that rows may take, by estimate, before all of them go to a file.
const MEMORY_MAX: usize = 1 << 20;

/// Bytes of a block, unless a single row has more. Wherever it begins, the whole blocks of the disk that hold it are one I/O.
const BLOCK_LEN: usize = 60 << 10;
const _: () = assert!(BLOCK_LEN.next_multiple_of(IO_ALIGN) + IO_ALIGN <= IO_UNIT.0 as usize);

/// Rows of a result that are kept for later: in memory while they are few, else in a temporary file of the tenant.
#[derive(Debug)]
pub struct RowStore(Kept);

#[derive(Debug)]
enum Kept {
    InMemory(Vec<Row>),
    InFile(RowFile),
}

impl Default for RowStore {
    fn default() -> RowStore {
        RowStore::of_rows(Vec::new())
    }
}

impl RowStore {
    /// Keeps `rows` in memory, however many they are.
    pub fn of_rows(rows: Vec<Row>) -> RowStore {
        RowStore(Kept::InMemory(rows))
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kept::InMemory(rows) => rows.len(),
            Kept::InFile(file) => file.rows,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that all of the rows take by estimate, or would take.
    pub fn bytes(&self) -> ByteCount {
        let bytes: usize = match &self.0 {
            Kept::InMemory(rows) => rows.iter().map(|row| row_memory(row)).sum(),
            Kept::InFile(file) => file.memory,
        };
        ByteCount(bytes as u64)
    }

    /// Memory that what is not in a file takes, by estimate.
    pub(super) fn in_memory(&self) -> usize {
        match &self.0 {
            Kept::InMemory(rows) => rows.iter().map(|row| row_memory(row)).sum(),
            Kept::InFile(file) => BLOCK_LEN + size_of_val(&*file.blocks),
        }
    }

    /// The rows from number `from` (counted from 0) on that are in memory: one at least where there is such a row, none at the end.
    ///
    /// # Errors
    /// What has to be read first, then handed to [`RowStore::load`]. It takes the place of what is in memory, so that a caller who is to go on
    /// must have made use of the rows before it.
    pub fn rows_from(&mut self, from: usize) -> Result<&[Row], StoredRowsRead> {
        match &mut self.0 {
            Kept::InMemory(rows) => Ok(rows.get(from..).unwrap_or_default()),
            Kept::InFile(file) => file.rows_from(from),
        }
    }

    /// Has all rows in memory, and no file any more, so that [`RowStore::rows_from`] always answers. For who has room for
    /// [`RowStore::bytes`].
    ///
    /// # Errors
    /// What has to be read next, then handed to [`RowStore::load`]; call again.
    pub fn bring_all_in(&mut self) -> Result<(), StoredRowsRead> {
        if let Kept::InFile(file) = &mut self.0 {
            self.0 = Kept::InMemory(file.take_all()?);
        }
        Ok(())
    }

    /// Takes in what was read for this store. A block of another one is ignored.
    pub fn load(&mut self, loaded: LoadedRows) {
        if let Kept::InFile(file) = &mut self.0
            && Arc::ptr_eq(&file.file, &loaded.file)
        {
            file.loaded.add(loaded);
        }
    }

    /// All of the rows, in memory. Blocks.
    ///
    /// # Errors
    /// 58030, naming the file.
    pub fn into_rows_blocking(mut self) -> SqlResult<Vec<Row>> {
        while let Err(read) = self.bring_all_in() {
            self.load(read.read_blocking()?);
        }
        match self.0 {
            Kept::InMemory(rows) => Ok(rows),
            Kept::InFile(_) => unreachable!("all were brought in"),
        }
    }
}

/// Rows in a file.
#[derive(Debug)]
struct RowFile {
    file: Arc<TempFile>,
    blocks: Vec<Block>,
    rows: usize,
    /// Memory that all of the rows would take.
    memory: usize,
    loaded: LoadedPart,
}

/// Where a block of rows is.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// The number of its first row. Its last is before the first of the next block.
    first: usize,
    offset: u64,
    len: usize,
}

const _: () = assert!(size_of::<Block>() == 24);

/// The rows of a file that are in memory too.
#[derive(Debug, Default)]
struct LoadedPart {
    /// The number of the first.
    first: usize,
    rows: Vec<Row>,
    /// All are wanted: further blocks are added to those from the beginning on.
    grows: bool,
}

impl LoadedPart {
    fn add(&mut self, loaded: LoadedRows) {
        if !self.grows {
            (self.first, self.rows) = (loaded.first, loaded.rows);
        } else if loaded.first == self.rows.len() {
            self.rows.extend(loaded.rows);
        }
    }
}

impl RowFile {
    fn rows_from(&mut self, from: usize) -> Result<&[Row], StoredRowsRead> {
        if from >= self.rows {
            return Ok(&[]);
        }
        let first = self.loaded.first;
        if (first..first + self.loaded.rows.len()).contains(&from) {
            return Ok(&self.loaded.rows[from - first..]);
        }
        // Makes room for the block that is read now.
        self.loaded = LoadedPart::default();
        Err(self.read_of(from))
    }

    fn take_all(&mut self) -> Result<Vec<Row>, StoredRowsRead> {
        if !self.loaded.grows {
            self.loaded = LoadedPart { grows: true, ..LoadedPart::default() };
        }
        match self.loaded.rows.len() {
            loaded if loaded < self.rows => Err(self.read_of(loaded)),
            _ => Ok(std::mem::take(&mut self.loaded.rows)),
        }
    }

    /// What reads the block with row number `row`, which there is.
    fn read_of(&self, row: usize) -> StoredRowsRead {
        let next = self.blocks.partition_point(|block| block.first <= row);
        let block = self.blocks[next - 1];
        let end = self.blocks.get(next).map_or(self.rows, |next| next.first);
        StoredRowsRead { file: Arc::clone(&self.file), block, rows: end - block.first }
    }
}

/// A block of rows that has to be read before a [`RowStore`] can give them.
#[derive(Debug)]
pub struct StoredRowsRead {
    file: Arc<TempFile>,
    block: Block,
    /// How many it has.
    rows: usize,
}

impl StoredRowsRead {
    /// Reads the block through the calling thread's reactor; does not block. Hand it to [`RowStore::load`].
    ///
    /// # Errors
    /// 58030, naming the file.
    pub async fn read(self) -> SqlResult<LoadedRows> {
        let bytes = self.file.fetch(self.block.offset, self.block.len).await?;
        self.decoded(bytes.as_ref())
    }

    /// As [`StoredRowsRead::read`], blocking the thread.
    ///
    /// # Errors
    /// 58030, naming the file.
    pub fn read_blocking(self) -> SqlResult<LoadedRows> {
        let bytes = self.file.read(self.block.offset, self.block.len)?;
        self.decoded(bytes.as_ref())
    }

    fn decoded(self, mut bytes: &[u8]) -> SqlResult<LoadedRows> {
        let mut rows = Vec::with_capacity(self.rows);
        while rows.len() < self.rows {
            rows.push(read_row(&mut bytes).ok_or_else(|| self.file.malformed())?);
        }
        if !bytes.is_empty() {
            return Err(self.file.malformed());
        }
        Ok(LoadedRows { file: self.file, first: self.block.first, rows })
    }
}

/// A block of rows as read, for the [`RowStore`] it belongs to.
#[derive(Debug)]
pub struct LoadedRows {
    file: Arc<TempFile>,
    /// The number of the first row.
    first: usize,
    rows: Vec<Row>,
}

/// Takes the rows of a [`RowStore`] one by one. Nothing is kept of them if it is dropped.
pub struct RowStoreWriter {
    temp: Option<Arc<TempSpace>>,
    /// The rows, while they are in memory.
    rows: Vec<Row>,
    /// Memory that all of them take, or would.
    memory: usize,
    /// Where they are once there is more than may be in memory.
    file: Option<RowFileWriter>,
}

impl RowStoreWriter {
    /// Puts rows that are many aside in `temp`; with `None` they may not be.
    pub fn new(temp: Option<Arc<TempSpace>>) -> RowStoreWriter {
        RowStoreWriter { temp, rows: Vec::new(), memory: 0, file: None }
    }

    /// Adds a row behind the others. Blocks while it writes. After an error the rows so far are lost.
    ///
    /// # Errors
    /// 53100 over the tenant's limit of temporary files or on a full disk, 58030 where that fails otherwise; 53200 if rows
    /// would have to be put aside and cannot be.
    pub fn push(&mut self, row: Row) -> SqlResult<()> {
        self.memory += row_memory(&row);
        if let Some(file) = &mut self.file {
            return file.push(&row);
        }
        self.rows.push(row);
        if self.memory > MEMORY_MAX { self.put_aside() } else { Ok(()) }
    }

    /// Moves all rows from memory to a file.
    fn put_aside(&mut self) -> SqlResult<()> {
        let rows = std::mem::take(&mut self.rows);
        let Some(temp) = &self.temp else { return Err(no_space_aside()) };
        let mut file = temp.create()?;
        // A session drops it.
        file.remove_aside();
        let mut file = RowFileWriter::new(file);
        for row in rows {
            file.push(&row)?;
        }
        self.file = Some(file);
        Ok(())
    }

    /// The rows, all of which have come. Blocks while it writes.
    ///
    /// # Errors
    /// 53100 and 58030, as [`RowStoreWriter::push`].
    pub fn finish(self) -> SqlResult<RowStore> {
        Ok(RowStore(match self.file {
            None => Kept::InMemory(self.rows),
            Some(file) => Kept::InFile(file.finish(self.memory)?),
        }))
    }
}

#[cold]
fn no_space_aside() -> SqlError {
    let max = ByteCount(MEMORY_MAX as u64);
    SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for the rows of a result that is kept")
        .with_detail(format!("They take more than {max}, and there is no space for temporary files."))
}

/// A file that rows are written to.
struct RowFileWriter {
    file: TempFile,
    blocks: Vec<Block>,
    /// How many were taken.
    rows: usize,
    /// The number of the first row of the block that is being filled.
    first: usize,
    /// That block so far.
    bytes: Vec<u8>,
}

impl RowFileWriter {
    fn new(file: TempFile) -> RowFileWriter {
        RowFileWriter { file, blocks: Vec::new(), rows: 0, first: 0, bytes: Vec::new() }
    }

    fn push(&mut self, row: &[Datum]) -> SqlResult<()> {
        let before = self.bytes.len();
        write_row(row, &mut self.bytes);
        if before > 0 && self.bytes.len() > BLOCK_LEN {
            self.write(before)?;
        }
        self.rows += 1;
        if self.bytes.len() >= BLOCK_LEN {
            self.write(self.bytes.len())?;
        }
        Ok(())
    }

    /// Writes the first `len` bytes that are there, which have all rows counted so far, as a block.
    fn write(&mut self, len: usize) -> SqlResult<()> {
        assert!(self.first < self.rows, "a block has a row");
        let block = Block { first: self.first, offset: self.file.len(), len };
        self.file.append(&self.bytes[..len])?;
        self.blocks.push(block);
        self.first = self.rows;
        self.bytes.drain(..len);
        self.bytes.shrink_to(2 * BLOCK_LEN);
        Ok(())
    }

    fn finish(mut self, memory: usize) -> SqlResult<RowFile> {
        if !self.bytes.is_empty() {
            self.write(self.bytes.len())?;
        }
        self.file.seal()?;
        let (file, loaded) = (Arc::new(self.file), LoadedPart::default());
        Ok(RowFile { file, blocks: self.blocks, rows: self.rows, memory, loaded })
    }
}

/// Appends a row: the count of its values in four bytes, then those.
fn write_row(row: &[Datum], out: &mut Vec<u8>) {
    let count = u32::try_from(row.len()).expect("a row has few columns");
    out.extend_from_slice(&count.to_le_bytes());
    for value in row {
        write_datum(value, out);
    }
}

/// Takes what [`write_row`] wrote; `None` where there is no row.
fn read_row(bytes: &mut &[u8]) -> Option<Row> {
    let (count, values) = bytes.split_first_chunk::<4>()?;
    *bytes = values;
    let count = u32::from_le_bytes(*count) as usize;
    // A value has a byte at least.
    let mut row = Row::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        row.push(read_datum(bytes)?);
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use env::sim::{DiskFault, DiskOp, World};

    use super::*;

    /// More than may be in memory: some 2 MiB, in 30 blocks or more.
    const ROWS: usize = 6000;

    fn space(world: &World) -> Arc<TempSpace> {
        let env = world.env();
        env.disk.create_dir_all("/tmp".as_ref()).unwrap();
        Arc::new(TempSpace::new(env, "/tmp/7".into()))
    }

    fn row(number: usize) -> Row {
        vec![Datum::Int8(number as i64), Datum::text("x".repeat(number % 700)), Datum::Null]
    }

    fn stored(rows: usize, space: &Arc<TempSpace>) -> RowStore {
        let mut writer = RowStoreWriter::new(Some(Arc::clone(space)));
        for number in 0..rows {
            writer.push(row(number)).unwrap();
        }
        writer.finish().unwrap()
    }

    /// What has to be read for row number `from`, as read.
    fn loaded(store: &mut RowStore, from: usize, world: &World) -> SqlResult<LoadedRows> {
        match store.rows_from(from) {
            Ok(rows) => panic!("{} rows are in memory", rows.len()),
            Err(read) => env::block_on(&world.env(), read.read()),
        }
    }

    /// The rows from number `from` on that are in memory once what has to be was read.
    fn rows_from<'a>(store: &'a mut RowStore, from: usize, world: &World) -> &'a [Row] {
        if store.rows_from(from).is_err() {
            let loaded = loaded(store, from, world).unwrap();
            store.load(loaded);
        }
        store.rows_from(from).unwrap()
    }

    fn file_of(store: &RowStore) -> &RowFile {
        match &store.0 {
            Kept::InFile(file) => file,
            Kept::InMemory(rows) => panic!("{} rows are in memory", rows.len()),
        }
    }

    #[test]
    fn few_rows_stay_in_memory_and_make_no_file() {
        let world = World::new(1);
        let space = space(&world);
        let mut store = stored(100, &space);
        assert_eq!((store.len(), space.used()), (100, ByteCount(0)));
        assert!(world.env().disk.list("/tmp".as_ref()).unwrap().is_empty());
        assert_eq!(store.rows_from(97).unwrap(), [row(97), row(98), row(99)]);
        assert!(store.rows_from(100).unwrap().is_empty());
        assert!(store.rows_from(1000).unwrap().is_empty());
        assert!(store.bring_all_in().is_ok());
        assert_eq!(store.into_rows_blocking().unwrap().len(), 100);
        let mut none = RowStore::default();
        assert!(none.is_empty() && none.rows_from(0).unwrap().is_empty());
    }

    #[test]
    fn many_rows_are_put_aside_and_come_back_in_any_order() {
        let world = World::new(2);
        let space = space(&world);
        let mut store = stored(ROWS, &space);
        assert_eq!(store.len(), ROWS);
        assert!(space.used().0 > MEMORY_MAX as u64 && store.bytes().0 > space.used().0);
        let mut next = 0;
        while next < ROWS {
            let rows = rows_from(&mut store, next, &world);
            assert!(!rows.is_empty());
            for found in rows {
                assert_eq!(*found, row(next));
                next += 1;
            }
            let mut encoded = Vec::new();
            file_of(&store).loaded.rows.iter().for_each(|row| write_row(row, &mut encoded));
            assert!((1..=BLOCK_LEN).contains(&encoded.len()), "one block is in memory");
        }
        assert_eq!(next, ROWS);
        assert!(rows_from(&mut store, ROWS, &world).is_empty());
        let backwards = (0..ROWS).rev().step_by(50);
        let anyhow = (0..100).map(|i| i * 4001 % ROWS);
        for number in backwards.chain(anyhow) {
            assert_eq!(rows_from(&mut store, number, &world)[0], row(number));
        }
        drop(store);
        assert_eq!(space.used(), ByteCount(0));
        assert!(world.env().disk.list("/tmp".as_ref()).unwrap().is_empty());
    }

    #[test]
    fn all_rows_are_brought_in_block_by_block() {
        let world = World::new(3);
        let space = space(&world);
        let mut store = stored(ROWS, &space);
        rows_from(&mut store, ROWS / 2, &world);
        let early = env::block_on(&world.env(), file_of(&store).read_of(ROWS - 1).read()).unwrap();
        let blocks = file_of(&store).blocks.len();
        let mut reads = 0;
        let mut early = Some(early);
        while let Err(read) = store.bring_all_in() {
            let loaded = env::block_on(&world.env(), read.read()).unwrap();
            store.load(loaded);
            if let Some(early) = early.take() {
                // What is not the next block is of no use here.
                store.load(early);
            }
            reads += 1;
        }
        assert_eq!(reads, blocks);
        assert_eq!(space.used(), ByteCount(0), "the file is gone");
        let rows = store.rows_from(0).unwrap();
        assert_eq!(rows.len(), ROWS);
        assert!(rows.iter().enumerate().all(|(number, found)| *found == row(number)));
        assert_eq!(stored(ROWS, &space).into_rows_blocking().unwrap(), rows);
    }

    #[test]
    fn a_long_row_is_a_block_of_its_own() {
        let world = World::new(4);
        let space = space(&world);
        let mut writer = RowStoreWriter::new(Some(space));
        let long = vec![Datum::text("y".repeat(2 * MEMORY_MAX))];
        for row in [row(0), row(1), long.clone(), Row::new(), row(4)] {
            writer.push(row).unwrap();
        }
        let mut store = writer.finish().unwrap();
        let firsts: Vec<usize> = file_of(&store).blocks.iter().map(|block| block.first).collect();
        assert_eq!(firsts, [0, 2, 3]);
        assert_eq!(rows_from(&mut store, 2, &world), [long]);
        assert_eq!(rows_from(&mut store, 3, &world), [Row::new(), row(4)]);
        assert_eq!(rows_from(&mut store, 1, &world), [row(1)]);
    }

    #[test]
    fn rows_over_the_tenants_limit_are_refused_and_cost_nothing() {
        let world = World::new(5);
        let space = space(&world);
        space.set_max(Some(ByteCount(1 << 20)));
        let mut writer = RowStoreWriter::new(Some(Arc::clone(&space)));
        let error = (0..ROWS).find_map(|number| writer.push(row(number)).err()).expect("a limit");
        assert_eq!(error.state(), SqlState::DISK_FULL);
        drop(writer);
        assert_eq!(space.used(), ByteCount(0));
    }

    #[test]
    fn many_rows_without_temporary_space_are_refused() {
        let mut writer = RowStoreWriter::new(None);
        let error = (0..ROWS).find_map(|number| writer.push(row(number)).err()).expect("a limit");
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
        let mut few = RowStoreWriter::new(None);
        few.push(row(1)).unwrap();
        assert_eq!(few.finish().unwrap().rows_from(0).unwrap(), [row(1)]);
    }

    #[test]
    fn a_block_of_another_store_is_not_taken_in() {
        let world = World::new(6);
        let space = space(&world);
        let (mut one, mut other) = (stored(ROWS, &space), stored(ROWS, &space));
        let of_other = loaded(&mut other, 0, &world).unwrap();
        one.load(of_other);
        assert!(one.rows_from(0).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_that_names_it() {
        let world = World::new(7);
        let space = space(&world);
        let mut store = stored(ROWS, &space);
        world.inject(DiskFault::eio(DiskOp::Read, "/tmp/7.0"));
        let error = loaded(&mut store, 0, &world).unwrap_err();
        assert_eq!(error.state(), SqlState::IO_ERROR);
        assert!(error.message().contains("/tmp/7.0"), "{}", error.message());
        assert_eq!(rows_from(&mut store, 0, &world)[0], row(0), "the next attempt succeeds");
        // The first value's tag, behind the first row's count.
        world.flip_bit("/tmp/7.0".as_ref(), 4, 7);
        let last = file_of(&store).rows - 1;
        assert_eq!(rows_from(&mut store, last, &world), [row(last)]);
        let error = loaded(&mut store, 0, &world).unwrap_err();
        assert_eq!(error.state(), SqlState::IO_ERROR);
        assert!(error.message().contains("/tmp/7.0"), "{}", error.message());
    }
}
