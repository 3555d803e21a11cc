//! Tenants that are made of others while those are at work, by a template or a backup, and dropped again.
//!
//! A copy is a state of its original at some moment between the statement's beginning and its end. So reading all of it is a
//! transaction of the original's history, which is judged with the others: a copy that is torn, that is older than what was
//! told before, or newer than what the original has after a power cut, is an anomaly. What is written to a copy later counts as
//! aborted there. A copy that was acknowledged is there after each start, as it was; one that was dropped is not; of one whose
//! making was cut short there is nothing or all; and no file is left that is nobody's.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use base::{SqlState, TenantId};
use env::OpenMode;
use env::sim::World;
use storage::ImageReader;

use super::client::WireClient;
use super::{DATA_DIR, Run, name};
use crate::campaign::file_defects;
use crate::client::{Connection, Fate, Values};
use crate::histories::object::{Object, READ_RANGE, found_in};
use crate::histories::record::KEYS;
use crate::isolation::Key;
use crate::{Dice, Stop, require};

/// Copies kept at a time.
const COPIES_MAX: usize = 2;

/// What the administrator knows of the copies.
#[derive(Default)]
pub(super) struct Copies {
    list: Vec<Copy>,
    made: u64,
    /// The tenants that there were after the last start that could be asked.
    seen: BTreeSet<TenantId>,
}

impl Copies {
    fn of(&mut self, copy_name: &str) -> &mut Copy {
        self.list
            .iter_mut()
            .find(|copy| copy.name == copy_name)
            .expect("it is in the list until it is dropped")
    }
}

struct Copy {
    name: String,
    /// The place of the tenant it was made of.
    original: usize,
    /// The transaction in the original's history that reading it is.
    read: usize,
    /// Keys up to here are read.
    last: Key,
    state: State,
    /// What is in it, once that is known.
    rows: Option<Vec<Values>>,
    /// Whether it may be something else than what was copied.
    is_changed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Its making was not acknowledged yet.
    Making,
    Made,
    /// Its end was not acknowledged yet.
    Dropping,
}

/// A refusal that other sessions or copies explain.
fn is_in_use(fate: &Fate) -> bool {
    matches!(fate, Fate::Refused(error) if error.state() == SqlState::OBJECT_IN_USE)
}

impl<O: Object> Run<O> {
    fn copies(&self) -> &RefCell<Copies> {
        &self.copies
    }

    /// Makes, reads, changes and drops copies until the power goes.
    pub(super) async fn keep_copies(&self) -> Result<(), Stop> {
        let dice = Dice::of(&self.world);
        self.settle_copies().await?;
        let interval = [20_000, 200_000, 2_000_000][dice.below(3) as usize];
        let mut admin = self.administrator();
        loop {
            dice.pause(interval).await;
            if let Err(fate) = self.change_copies(&mut admin, &dice).await
                && !is_in_use(&fate)
            {
                admin.recover(fate).await?;
            }
        }
    }

    async fn change_copies(&self, admin: &mut WireClient, dice: &Dice) -> Result<(), Fate> {
        let (count, made) = {
            let copies = self.copies().borrow();
            let made = copies.list.iter().filter(|copy| copy.state == State::Made);
            (copies.list.len(), made.map(|copy| copy.name.clone()).collect::<Vec<_>>())
        };
        if count < COPIES_MAX && (made.is_empty() || dice.percent(50)) {
            return self.make_copy(admin, dice).await;
        }
        // What became of the others is found out by the next start.
        if made.is_empty() {
            return Ok(());
        }
        let chosen = &made[dice.below(made.len() as u64) as usize];
        match dice.below(3) {
            0 => self.drop_copy(admin, chosen).await,
            1 => self.change_copy(chosen, dice).await,
            _ => self.read_copy(chosen).await,
        }
    }

    /// Whether the file of this tenant may be no data file: it is being made, or was nobody's, and the power went before its removal was durable.
    pub(super) fn may_be_no_tenant(&self, id: TenantId) -> bool {
        let copies = self.copies().borrow();
        let is_making = copies.list.iter().any(|copy| copy.state == State::Making);
        is_making || !(copies.seen.is_empty() || copies.seen.contains(&id))
    }

    async fn make_copy(&self, admin: &mut WireClient, dice: &Dice) -> Result<(), Fate> {
        let original = dice.below(self.records.len() as u64) as usize;
        let (copy_name, read) = {
            let mut copies = self.copies().borrow_mut();
            copies.made += 1;
            (format!("c{}", copies.made), self.records[original].borrow_mut().begin())
        };
        let from_backup = dice.percent(50);
        let backup = match from_backup {
            true => Some(self.back_up(admin, original).await?),
            false => None,
        };
        if from_backup {
            // It is of a moment before the backup's end, whenever it becomes a tenant.
            self.records[original].borrow_mut().committed(read);
        }
        let last = self.records[original].borrow().first_key() + KEYS;
        let (state, rows, is_changed) = (State::Making, None, false);
        let copy = Copy { name: copy_name.clone(), original, read, last, state, rows, is_changed };
        self.copies().borrow_mut().list.push(copy);
        let made = match &backup {
            Some(backup) => {
                admin.script(&format!("restore tenant {copy_name} from stdin"), backup).await.map(drop)
            }
            None => {
                let template = name(original);
                let statement = format!("create tenant {copy_name} from template {template}");
                admin.script(&statement, &[]).await.map(drop)
            }
        };
        match made {
            Ok(()) => {
                if !from_backup {
                    self.records[original].borrow_mut().committed(read);
                }
                self.copies().borrow_mut().of(&copy_name).state = State::Made;
                self.read_copy(&copy_name).await
            }
            Err(fate @ Fate::Refused(_)) => {
                // Nothing is left of it, which the next start sees too, unless the log failed meanwhile.
                if self.world.faults_struck() == 0 {
                    self.copies().borrow_mut().list.retain(|copy| copy.name != copy_name);
                }
                Err(fate)
            }
            Err(fate) => Err(fate),
        }
    }

    /// A backup, which verifies.
    async fn back_up(&self, admin: &mut WireClient, original: usize) -> Result<Vec<u8>, Fate> {
        let backup = admin.script(&format!("backup tenant {} to stdout", name(original)), &[]).await?.copied;
        // Of another machine, where nothing fails.
        let shelf = World::new(self.whole.seed);
        let path = Path::new("/backup");
        let file = shelf.env().disk.open(path, OpenMode::CreateNew, false).expect("an empty disk");
        file.write_at(&backup, 0).expect("a disk without faults");
        let image = ImageReader::begin(path, &backup, None);
        let id = image.map_err(|error| Stop::violation(format!("no backup: {error}")))?.tenant();
        let defects = file_defects(&shelf, path, id)?;
        match defects.is_empty() {
            true => Ok(backup),
            false => Err(Stop::violation(format!("a backup: {}", defects.join("; "))).into()),
        }
    }

    /// Reads a copy by both of its access paths. The first time this is what the original was; later it is as it was left.
    async fn read_copy(&self, copy_name: &str) -> Result<(), Fate> {
        let last = self.copies().borrow_mut().of(copy_name).last;
        let mut client = self.client(copy_name.to_owned(), "owner", "pw");
        let keys = ["1".to_owned(), last.to_string()];
        let rows = client.run(READ_RANGE[0], &keys).await?;
        let by_index = client.run(READ_RANGE[1], &keys).await?;
        let mut copies = self.copies().borrow_mut();
        let copy = copies.of(copy_name);
        if rows != by_index {
            let what = format!("copy {copy_name}: its table has {rows:?}, its index {by_index:?}");
            return Err(Stop::violation(what).into());
        }
        match &copy.rows {
            Some(known) if *known != rows => {
                let what = format!("copy {copy_name} was {known:?} and is {rows:?}");
                return Err(Stop::violation(what).into());
            }
            None if !copy.is_changed => {
                let operations = found_in::<O>(1..=last, &rows).map_err(Stop::violation)?;
                self.records[copy.original].borrow_mut().history[copy.read].operations = operations;
            }
            _ => {}
        }
        copy.rows = Some(rows);
        Ok(())
    }

    /// Writes to a copy that was read, which its original must never show.
    async fn change_copy(&self, copy_name: &str, dice: &Dice) -> Result<(), Fate> {
        let (key, value) = {
            let mut copies = self.copies().borrow_mut();
            let copy = copies.of(copy_name);
            if copy.rows.take().is_none() {
                drop(copies);
                return self.read_copy(copy_name).await;
            }
            copy.is_changed = true;
            let key = 1 + dice.below(copy.last.unsigned_abs()).cast_signed();
            let mut record = self.records[copy.original].borrow_mut();
            let (place, value) = (record.begin(), record.value());
            record.history[place].operations.push(O::written(key, value));
            (key, value)
        };
        let mut client = self.client(copy_name.to_owned(), "owner", "pw");
        client.run(O::WRITE, &[key.to_string(), value.to_string()]).await?;
        self.read_copy(copy_name).await?;
        let mut copies = self.copies().borrow_mut();
        let rows = copies.of(copy_name).rows.as_ref().expect("just read");
        let written = rows.iter().any(|row| {
            let text = row[1].as_deref().unwrap_or_default();
            row[0].as_deref() == Some(&key.to_string()) && text.rsplit(',').next() == Some(&value.to_string())
        });
        match written {
            true => Ok(()),
            false => Err(Stop::violation(format!("a copy lost value {value} of key {key}: {rows:?}")).into()),
        }
    }

    async fn drop_copy(&self, admin: &mut WireClient, copy_name: &str) -> Result<(), Fate> {
        self.copies().borrow_mut().of(copy_name).state = State::Dropping;
        match admin.script(&format!("drop tenant {copy_name}"), &[]).await {
            Ok(_) => {
                self.copies().borrow_mut().list.retain(|copy| copy.name != copy_name);
                Ok(())
            }
            Err(fate) => {
                if is_in_use(&fate) {
                    self.copies().borrow_mut().of(copy_name).state = State::Made;
                }
                Err(fate)
            }
        }
    }

    /// After a start: what was acknowledged is there, and what was not is there or gone; all that is there is read.
    pub(super) async fn settle_copies(&self) -> Result<(), Stop> {
        let mut admin = self.administrator();
        let tenants = loop {
            match admin.script("show tenants", &[]).await {
                Ok(answer) => break answer.rows,
                Err(fate) => admin.recover(fate).await?,
            }
            Dice::of(&self.world).pause(50_000).await;
        };
        let names: Vec<&str> = tenants.iter().filter_map(|row| row[0].as_deref()).collect();
        {
            let mut copies = self.copies().borrow_mut();
            let ids = tenants.iter().filter_map(|row| row[1].as_deref()?.parse().ok());
            copies.seen = ids.map(TenantId).collect();
            let lost = copies.list.iter().find(|c| c.state == State::Made && !names.contains(&&*c.name));
            require!(lost.is_none(), "a copy is gone: {:?}", lost.map(|copy| &copy.name));
            copies.list.retain(|copy| names.contains(&&*copy.name));
            for copy in &mut copies.list {
                if copy.state == State::Making {
                    // Nobody was told of it: now somebody is.
                    self.records[copy.original].borrow_mut().committed(copy.read);
                }
                copy.state = State::Made;
            }
            let known = |found: &&&str| {
                found.starts_with('t') || **found == "system" || copies.list.iter().any(|c| c.name == **found)
            };
            let strange = names.iter().find(|found| !known(found));
            require!(strange.is_none(), "tenant {strange:?} should not be there");
        }
        self.look_for_files(&tenants)?;
        let there: Vec<String> = self.copies().borrow().list.iter().map(|copy| copy.name.clone()).collect();
        for copy_name in there {
            while let Err(fate) = self.read_copy(&copy_name).await {
                admin.recover(fate).await?;
                Dice::of(&self.world).pause(50_000).await;
            }
        }
        Ok(())
    }

    /// No file is left of a tenant that is not there, unless the disk refused to remove it.
    fn look_for_files(&self, tenants: &[Values]) -> Result<(), Stop> {
        let dir = Path::new(DATA_DIR).join("tenants");
        let Ok(files) = self.world.env().disk.list(&dir) else { return Ok(()) };
        for file in files {
            let id = file.name.strip_suffix(".rowhouse").and_then(|id| id.parse().ok()).map(TenantId);
            let is_known = id.is_some_and(|id| {
                id == TenantId::SYSTEM || tenants.iter().any(|row| row[1] == Some(id.to_string()))
            });
            let failed = self.world.faults_struck() > 0 || self.world.is_powered_off();
            require!(is_known || failed, "{} is nobody's", file.name);
        }
        Ok(())
    }
}
