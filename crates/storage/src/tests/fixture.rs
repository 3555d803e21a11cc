//! A tenant's storage with a model beside it: every page's content is one number.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{CommitNo, PageNo, TenantId};
use env::{Env, block_on};

use super::journal_disk::JournalFile;
use crate::{
    Checkpoint, DataFile, FileError, MEMORY_MIN, MemoryBudget, PageBytes, PageFault, PageMap, ReadPages,
    Root, Settling, Snapshot, VerifyReport, WritePages, verify_file,
};

pub(super) const TENANT: TenantId = TenantId(16);
pub(super) const PATH: &str = "data/16.rowhouse";

/// Each page's number, by page number.
pub(super) type Model = BTreeMap<PageNo, u64>;

pub(super) struct Store {
    pub(super) disk: JournalFile,
    pub(super) env: Env,
    pub(super) map: PageMap,
    pub(super) file: DataFile,
    /// What the map is charged to.
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) model: Model,
    /// What the branch holds, where there is one.
    pub(super) branch: Option<Model>,
    pub(super) commit: CommitNo,
    /// The model of each durable root.
    pub(super) durable: BTreeMap<CommitNo, Model>,
}

pub(super) fn stamp(bytes: &mut PageBytes, value: u64) {
    for (i, word) in bytes.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&value.wrapping_mul(i as u64 + 1).to_le_bytes());
    }
}

/// The number of a page, or `None` if its bytes are no page of ours.
pub(super) fn stamp_of(bytes: &PageBytes) -> Option<u64> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let value = word(0);
    (0..bytes.len() / 8).all(|i| word(i * 8) == value.wrapping_mul(i as u64 + 1)).then_some(value)
}

/// The root that goes with a commit number.
pub(super) fn root_of(commit: CommitNo) -> Root {
    Root { commit, payload: commit.0.to_le_bytes().repeat(1 + commit.0 as usize % 200) }
}

/// Reads a page, from the file if it must.
pub(super) fn fetch(env: &Env, map: &mut PageMap, file: &DataFile, no: PageNo) -> Result<u64, FileError> {
    if let Err(PageFault::Miss(missed)) = map.page(no) {
        assert_eq!(missed, no);
        let from = map.locate(no).expect("a known page").expect("not in memory");
        let loaded = {
            let run = map.run_from(from, 0);
            block_on(env, file.reader().read_run(run, None))?
        };
        map.load(loaded);
    }
    match map.page(no) {
        Ok(bytes) => Ok(stamp_of(bytes).expect("a checked page is whole")),
        Err(PageFault::Unreadable(what)) => panic!("the disk works: {what:?}"),
        Err(PageFault::Corrupt(corrupt)) => Err(FileError::Corrupt(*corrupt)),
        Err(PageFault::Miss(_)) => panic!("{no:?} was just read"),
    }
}

impl Store {
    pub(super) fn create() -> Store {
        let disk = JournalFile::default();
        Store::create_in(disk.env(), disk)
    }

    /// In an environment; `disk` is unused unless the environment is its own.
    pub(super) fn create_in(env: Env, disk: JournalFile) -> Store {
        let made = block_on(&env, DataFile::create(&env, Path::new(PATH), TENANT));
        let (file, mut map) = made.expect("created");
        let memory = MemoryBudget::new(MEMORY_MIN, 8, 1);
        map.charge_to(&memory);
        let durable = BTreeMap::from([(CommitNo(0), Model::new())]);
        Store {
            disk,
            env,
            map,
            file,
            memory,
            model: Model::new(),
            branch: None,
            commit: CommitNo(0),
            durable,
        }
    }

    /// Opens the bytes of `disk`; `durable` says what each root may hold.
    pub(super) fn open(disk: JournalFile, durable: BTreeMap<CommitNo, Model>) -> Result<Store, FileError> {
        Store::open_in(disk.env(), disk, durable)
    }

    pub(super) fn open_in(
        env: Env,
        disk: JournalFile,
        durable: BTreeMap<CommitNo, Model>,
    ) -> Result<Store, FileError> {
        let (file, mut map, root) = block_on(&env, DataFile::open(&env, Path::new(PATH), TENANT))?;
        if root.commit != CommitNo(0) {
            assert_eq!(root, root_of(root.commit));
        }
        let memory = MemoryBudget::new(MEMORY_MIN, 8, 1);
        map.charge_to(&memory);
        let model = durable.get(&root.commit).expect("a root that was written").clone();
        Ok(Store { disk, env, map, file, memory, model, branch: None, commit: root.commit, durable })
    }

    pub(super) fn reopen(self) -> Store {
        Store::open_in(self.env, self.disk, self.durable).expect("opens again")
    }

    pub(super) fn allocate(&mut self, value: u64) -> PageNo {
        let no = self.map.allocate(None);
        stamp(self.map.page_mut(no).expect("just allocated"), value);
        assert!(self.model.insert(no, value).is_none(), "{no:?} was in use");
        no
    }

    pub(super) fn write(&mut self, no: PageNo, value: u64) {
        fetch(&self.env, &mut self.map, &self.file, no).expect("readable");
        stamp(self.map.page_mut(no).expect("in memory"), value);
        self.model.insert(no, value);
    }

    pub(super) fn release(&mut self, no: PageNo) {
        self.map.release(no);
        self.model.remove(&no);
    }

    pub(super) fn fork(&mut self) {
        self.map.fork();
        self.branch = Some(self.model.clone());
    }

    /// Has `change` work on the branch.
    pub(super) fn in_branch<T>(&mut self, change: impl FnOnce(&mut Store) -> T) -> T {
        let model = self.branch.take().expect("there is a branch");
        let live = std::mem::replace(&mut self.model, model);
        self.map.turn(true);
        let result = change(self);
        self.map.turn(false);
        self.branch = Some(std::mem::replace(&mut self.model, live));
        result
    }

    pub(super) fn adopt(&mut self) {
        self.map.adopt_branch();
        self.model = self.branch.take().expect("there is a branch");
    }

    /// Lets go of what branches replaced; whether there was any.
    pub(super) fn settle(&mut self) -> bool {
        let settling = Settling::begin(&mut self.map, &mut self.file);
        let begun = settling.map(|mut settling| {
            block_on(&self.env, settling.run());
            settling.finish(&mut self.map, &mut self.file);
        });
        begun.is_some()
    }

    pub(super) fn drop_branch(&mut self) {
        self.map.drop_branch();
        self.branch = None;
    }

    /// The page in the model at `index`, counted around.
    pub(super) fn pick(&self, index: usize) -> Option<PageNo> {
        self.model.keys().nth(index % self.model.len().max(1)).copied()
    }

    pub(super) fn begin(&mut self) -> Checkpoint {
        self.commit = self.commit.next();
        Checkpoint::begin(&mut self.map, &mut self.file, root_of(self.commit)).expect("no other runs")
    }

    pub(super) fn checkpoint(&mut self) {
        let mut checkpoint = self.begin();
        block_on(&self.env, checkpoint.run()).expect("the disk works");
        self.durable.insert(self.commit, self.model.clone());
        assert!(checkpoint.finish(&mut self.map, &mut self.file));
    }

    /// Every page of the model, and no other, reads as it should.
    pub(super) fn check(&mut self) {
        let mut pages = Vec::new();
        self.map.snapshot().for_each_page(|no| pages.push(no));
        assert_eq!(pages, self.model.keys().copied().collect::<Vec<_>>());
        for (no, value) in &self.model {
            assert_eq!(fetch(&self.env, &mut self.map, &self.file, *no).expect("readable"), *value, "{no:?}");
        }
    }

    /// The file is whole, and holds what the newest durable root should.
    pub(super) fn verify(&self) -> VerifyReport {
        let (report, found) = verify(&self.env).expect("can be checked");
        assert!(report.is_clean(), "{:#?}", report.defects);
        assert_eq!(found, self.durable[&report.root.commit]);
        report
    }
}

/// A snapshot has these pages.
pub(super) fn check_snapshot(snapshot: &Snapshot, model: &Model) {
    let mut pages = Model::new();
    snapshot.for_each_page(|no| {
        pages.insert(no, stamp_of(snapshot.pinned().read(no).expect("readable")).expect("whole"));
    });
    assert_eq!(pages, *model);
}

/// Checks the file and collects the pages it found intact.
pub(super) fn verify(env: &Env) -> Result<(VerifyReport, Model), FileError> {
    let mut found = Model::new();
    let mut progress = (0, 0);
    let report =
        verify_file(env, Path::new(PATH), &mut |done, total| progress = (done, total), &mut |no, bytes| {
            found.insert(no, stamp_of(bytes).expect("a checked page is whole"));
        })?;
    assert!(progress.0 <= progress.1);
    Ok((report, found))
}
