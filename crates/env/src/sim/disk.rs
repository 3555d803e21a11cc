//! The simulated disk: what was written, what of it is durable, and what a power cut may leave.
//!
//! Legal images after a power cut, by [`PowerCut::Random`] and [`PowerCut::Writes`] (with [`PowerCut::DropUnsynced`] always the oldest):
//! * each 512-byte sector written since its last sync holds its durable content or that of any write since, each sector
//!   by itself: so writes are lost, reordered and torn at sectors, never within one;
//! * a file's length is the durable one or any it had since; bytes between are what their sectors say, else zeros;
//! * in each directory the changes of names since its last `sync_dir` are kept up to some point and lost after it; a
//!   rename within a directory is one change. A file whose name is lost is gone, synced or not.
//!
//! Durable are: a file's bytes and length after its sync; the bytes of one durable write, and a length it extended;
//! names after `sync_dir`; everything `create_dir_all` and `write_small_atomic` promise. After a failed sync the bytes
//! it was to make durable stay in doubt for ever, until written again: a later sync does not save them. A write, durable
//! or not, at which the power goes off fails, and its sectors count as written and not synced.
//!
//! Injected: EIO, ENOSPC, short transfers ([`DiskFault`]), a limited capacity, rot, the power going off at the n-th
//! change. Of a write that fails any sectors may have arrived; of those that did, a file that is not opened for direct
//! I/O does not say later whether they are durable: they are in doubt as after a failed sync. Blocking calls take no
//! virtual time.
//!
//! A file takes space while it has a name or is open. Its bytes are kept for as long as that, or a name that a power cut may
//! bring back, leads to them.

mod arrivals;
mod names;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::ByteCount;
use rand::Rng;
use rand::rngs::StdRng;

use super::{Machine, lock};
use crate::disk::{Device, DirEntry, DirLock, Disk, File, FileOps, OpenMode};
use arrivals::{Arrivals, Replaced};
use names::{Directory, InodeNo, NameChange, Node, file_of, normal, split};
pub use replay::{Image, Replay};

const SECTOR: usize = 512;
/// The size of a disk without a limit.
pub(super) const UNLIMITED: u64 = 1 << 40;
type Sector = [u8; SECTOR];

/// What a power cut leaves of what was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerCut {
    /// Nothing.
    DropUnsynced,
    /// A random legal image; see the module's description.
    Random,
    /// One of those in which most writes have arrived whole or not at all: what is checked by a sum over many sectors is nearly always torn by
    /// [`PowerCut::Random`], so that writes that came in another order than they were made hardly show.
    Writes,
}

/// A kind of disk operation, for [`DiskFault`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOp {
    Read,
    Write,
    Sync,
    /// `set_len` and `allocate`.
    Resize,
    /// Opening, creating, renaming, removing, `sync_dir`.
    Name,
}

/// One failure to come: of the operations of a kind on paths that contain a text, the first `after` succeed and the next
/// one fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskFault {
    pub op: DiskOp,
    pub path_contains: String,
    pub after: u64,
    /// The error; `None` makes a read or write transfer only a part, one sector at least.
    pub errno: Option<i32>,
}

impl DiskFault {
    /// The next operation of this kind fails with EIO.
    pub fn eio(op: DiskOp, path_contains: &str) -> DiskFault {
        DiskFault { op, path_contains: path_contains.to_owned(), after: 0, errno: Some(libc::EIO) }
    }
}

#[derive(Clone, Default)]
struct Inode {
    /// By sector number; an absent one is zeros.
    sectors: BTreeMap<u64, Box<Sector>>,
    len: u64,
    /// Bytes from the beginning for which space was reserved.
    allocated: u64,
    durable_len: u64,
    /// Lengths it had since `durable_len`, without the present one.
    lens_between: Vec<u64>,
    unsynced: BTreeMap<u64, Unsynced>,
    /// Writes so far.
    writes: u64,
}

/// A sector written and not yet durable.
#[derive(Clone)]
struct Unsynced {
    /// What it may also hold after a power cut: the durable content first (`None`: zeros), then what was written since,
    /// without the present content.
    may_hold: Vec<Replaced>,
    /// A sync of the present content has failed.
    in_doubt: bool,
}

/// The length and the number of contents kept for a sector written often, so that a busy one stays bounded.
const VERSIONS_MAX: usize = 4;

impl Inode {
    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let within = (at % SECTOR as u64) as usize;
            let piece = (SECTOR - within).min(n - done);
            let into = &mut buf[done..done + piece];
            match self.sectors.get(&(at / SECTOR as u64)) {
                Some(sector) => into.copy_from_slice(&sector[within..within + piece]),
                None => into.fill(0),
            }
            done += piece;
        }
        n
    }

    fn write(&mut self, buf: &[u8], offset: u64, durable: bool) {
        self.write_where(|_, _, _| true, buf, offset, durable);
    }

    /// Only those sectors change for which `is_wanted` holds, of their numbers and what is written to them.
    fn write_where(
        &mut self,
        is_wanted: impl Fn(&Inode, u64, &[u8]) -> bool,
        buf: &[u8],
        offset: u64,
        durable: bool,
    ) {
        self.writes += 1;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let within = (at % SECTOR as u64) as usize;
            let piece = (SECTOR - within).min(buf.len() - done);
            let (number, bytes) = (at / SECTOR as u64, &buf[done..done + piece]);
            if is_wanted(self, number, bytes) {
                let into = within..within + piece;
                self.change_sector(number, durable, |sector| sector[into].copy_from_slice(bytes));
            }
            done += piece;
        }
        let end = offset + buf.len() as u64;
        if end > self.len {
            self.change_len(end);
        }
        if durable && end > self.durable_len {
            self.durable_len = end;
            self.lens_between.retain(|len| *len > end);
        }
    }

    fn change_sector(&mut self, number: u64, durable: bool, change: impl FnOnce(&mut Sector)) {
        let before = self.sectors.get(&number).cloned();
        change(self.sectors.entry(number).or_insert_with(|| Box::new([0; SECTOR])));
        if durable {
            self.unsynced.remove(&number);
            return;
        }
        let entry = self.unsynced.entry(number).or_insert(Unsynced { may_hold: Vec::new(), in_doubt: false });
        if entry.may_hold.len() >= VERSIONS_MAX {
            // The durable one, at the front, must stay possible.
            entry.may_hold[0].by = entry.may_hold.remove(1).by;
        }
        entry.may_hold.push(Replaced { content: before, by: self.writes });
        entry.in_doubt = false;
    }

    fn change_len(&mut self, len: u64) {
        self.lens_between.push(self.len);
        self.len = len;
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.writes += 1;
            // What is cut off reads as zeros if the file grows again.
            let first_cut = len.div_ceil(SECTOR as u64);
            let cut: Vec<u64> = self.sectors.range(first_cut..).map(|(number, _)| *number).collect();
            for number in cut {
                self.change_sector(number, false, |sector| sector.fill(0));
            }
            let within = (len % SECTOR as u64) as usize;
            if within > 0 {
                self.change_sector(len / SECTOR as u64, false, |sector| sector[within..].fill(0));
            }
        }
        self.allocated = self.allocated.min(len);
        if len != self.len {
            self.change_len(len);
        }
    }

    fn sync(&mut self) {
        self.unsynced.retain(|_, unsynced| unsynced.in_doubt);
        self.durable_len = self.len;
        self.lens_between.clear();
    }

    fn fail_sync(&mut self) {
        self.unsynced.values_mut().for_each(|unsynced| unsynced.in_doubt = true);
    }

    fn power_cut(&mut self, policy: PowerCut, random: &mut StdRng) {
        let mut arrivals = Arrivals::default();
        for (number, mut unsynced) in std::mem::take(&mut self.unsynced) {
            let kept = match policy {
                PowerCut::DropUnsynced => 0,
                PowerCut::Random => random.random_range(0..=unsynced.may_hold.len()),
                PowerCut::Writes => arrivals.kept(&unsynced.may_hold, random),
            };
            if kept == unsynced.may_hold.len() {
                continue;
            }
            match unsynced.may_hold.swap_remove(kept).content {
                Some(sector) => drop(self.sectors.insert(number, sector)),
                None => drop(self.sectors.remove(&number)),
            }
        }
        let lens = std::mem::take(&mut self.lens_between);
        self.len = match policy {
            PowerCut::DropUnsynced => self.durable_len,
            PowerCut::Random | PowerCut::Writes => match random.random_range(0..lens.len() + 2) {
                0 => self.durable_len,
                1 => self.len,
                between => lens[between - 2],
            },
        };
        self.durable_len = self.len;
        // A length that was lost takes its bytes with it.
        let within = (self.len % SECTOR as u64) as usize;
        self.sectors.split_off(&self.len.div_ceil(SECTOR as u64));
        if within > 0
            && let Some(last) = self.sectors.get_mut(&(self.len / SECTOR as u64))
        {
            last[within..].fill(0);
        }
    }

    /// Some sectors of a write that failed.
    fn write_in_part(&mut self, buf: &[u8], offset: u64, in_doubt: bool, random: &mut StdRng) {
        if !offset.is_multiple_of(SECTOR as u64) {
            return;
        }
        for (sector, bytes) in (offset / SECTOR as u64..).zip(buf.chunks(SECTOR)) {
            if random.random() {
                self.write(bytes, sector * SECTOR as u64, false);
                self.unsynced.get_mut(&sector).expect("just written").in_doubt = in_doubt;
            }
        }
    }

    /// Space that a write needs beyond what the file has.
    fn wants(&self, len: usize, offset: u64) -> u64 {
        let end = offset + len as u64;
        if end <= self.allocated {
            return 0;
        }
        let touched = offset / SECTOR as u64..end.div_ceil(SECTOR as u64);
        let present = self.sectors.range(touched.clone()).count() as u64;
        (touched.end - touched.start - present) * SECTOR as u64
    }

    fn stored(&self) -> u64 {
        self.allocated.max((self.sectors.len() * SECTOR) as u64)
    }
}

#[derive(Clone)]
pub(super) struct DiskState {
    dirs: BTreeMap<PathBuf, Directory>,
    inodes: BTreeMap<InodeNo, Inode>,
    inodes_made: InodeNo,
    /// How often each file is open, by the process of this generation.
    open: BTreeMap<InodeNo, u32>,
    locks: BTreeSet<PathBuf>,
    /// Power cuts so far: what was opened before the last one fails.
    generation: u64,
    pub(super) faults: Vec<DiskFault>,
    pub(super) capacity: u64,
    /// Whether there was a limit of that since it was last mended.
    pub(super) was_limited: bool,
    pub(super) cut_after: Option<u64>,
    pub(super) powered_off: bool,
    pub(super) changes: u64,
    /// Faults that struck: injected errors, writes that found no room, flipped bits.
    pub(super) struck: u64,
    /// Whether every operation is printed.
    pub(super) traced: bool,
    pub(super) lies_about: Option<String>,
    /// Whether files are opened without direct I/O, whatever was asked for.
    pub(super) refuses_direct: bool,
}

impl Default for DiskState {
    fn default() -> DiskState {
        DiskState {
            dirs: BTreeMap::from([(PathBuf::from("/"), Directory::default())]),
            inodes: BTreeMap::new(),
            inodes_made: 0,
            open: BTreeMap::new(),
            locks: BTreeSet::new(),
            generation: 0,
            faults: Vec::new(),
            capacity: UNLIMITED,
            was_limited: false,
            cut_after: None,
            powered_off: false,
            changes: 0,
            struck: 0,
            traced: false,
            lies_about: None,
            refuses_direct: false,
        }
    }
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl DiskState {
    /// Checks power and faults before an operation. `Ok(true)` asks for a short transfer.
    fn admit(&mut self, op: DiskOp, path: &Path) -> io::Result<bool> {
        if self.powered_off {
            return Err(errno(libc::EIO));
        }
        if op != DiskOp::Read {
            self.changes += 1;
            if let Some(left) = &mut self.cut_after {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.cut_after = None;
                    self.powered_off = true;
                    return Err(errno(libc::EIO));
                }
            }
        }
        let text = path.to_string_lossy();
        let matching =
            self.faults.iter().position(|fault| fault.op == op && text.contains(&fault.path_contains));
        let Some(position) = matching else { return Ok(false) };
        if self.faults[position].after > 0 {
            self.faults[position].after -= 1;
            return Ok(false);
        }
        match self.faults.remove(position).errno {
            Some(code) => {
                self.struck += 1;
                Err(errno(code))
            }
            None => Ok(true),
        }
    }

    fn lies(&self, path: &Path) -> bool {
        self.lies_about.as_ref().is_some_and(|text| path.to_string_lossy().contains(text))
    }

    pub(super) fn used(&self) -> u64 {
        let named: BTreeSet<InodeNo> =
            self.dirs.values().flat_map(|dir| dir.names.values()).filter_map(file_of).collect();
        let takes_space = |number: &InodeNo| named.contains(number) || self.open.contains_key(number);
        let taking = self.inodes.iter().filter(|(number, _)| takes_space(number));
        taking.map(|(_, inode)| inode.stored()).sum()
    }

    /// Drops the files that nothing leads to any more.
    fn forget_unreachable(&mut self) {
        let named: BTreeSet<InodeNo> = self.dirs.values().flat_map(Directory::may_name).collect();
        let open = &self.open;
        self.inodes.retain(|number, _| named.contains(number) || open.contains_key(number));
    }

    fn close(&mut self, number: InodeNo) {
        let count = self.open.get_mut(&number).expect("an open file is counted");
        *count -= 1;
        if *count == 0 {
            self.open.remove(&number);
            self.forget_unreachable();
        }
    }

    fn check_room(&mut self, more: u64) -> io::Result<()> {
        if more > 0 && self.capacity < UNLIMITED && self.used() + more > self.capacity {
            self.struck += 1;
            return Err(errno(libc::ENOSPC));
        }
        Ok(())
    }

    fn dir(&mut self, path: &Path) -> io::Result<&mut Directory> {
        self.dirs.get_mut(path).ok_or_else(|| errno(libc::ENOENT))
    }

    fn node(&self, path: &Path) -> Option<Node> {
        let path = normal(path);
        if path == Path::new("/") {
            return Some(Node::Dir);
        }
        let (dir, name) = split(&path).ok()?;
        self.dirs.get(&dir)?.names.get(&name).cloned()
    }

    fn inode(&mut self, number: InodeNo, generation: u64) -> io::Result<&mut Inode> {
        if generation != self.generation || self.powered_off {
            return Err(errno(libc::EIO));
        }
        self.inodes.get_mut(&number).ok_or_else(|| errno(libc::EIO))
    }

    fn make_inode(&mut self) -> InodeNo {
        self.inodes_made += 1;
        self.inodes.insert(self.inodes_made, Inode::default());
        self.inodes_made
    }

    /// Ends the process that used the disk: what it had open fails, what it wrote stays as it is.
    pub(super) fn kill(&mut self) {
        self.generation += 1;
        self.powered_off = false;
        self.cut_after = None;
        self.locks.clear();
        self.open.clear();
        self.forget_unreachable();
    }

    /// The files as they are, all of it durable, on a disk without faults.
    pub(super) fn copy(&self) -> DiskState {
        let mut copy = DiskState {
            dirs: self.dirs.clone(),
            inodes: self.inodes.clone(),
            inodes_made: self.inodes_made,
            ..DiskState::default()
        };
        copy.dirs.values_mut().for_each(Directory::sync);
        for inode in copy.inodes.values_mut() {
            inode.unsynced.clear();
            inode.sync();
        }
        copy
    }

    pub(super) fn power_cut(&mut self, policy: PowerCut, random: &mut StdRng) {
        self.kill();
        for dir in self.dirs.values_mut() {
            let kept = match policy {
                PowerCut::DropUnsynced => 0,
                PowerCut::Random | PowerCut::Writes => random.random_range(0..=dir.changes.len()),
            };
            let mut names = dir.durable.clone();
            dir.changes.drain(..).take(kept).for_each(|change| change.apply(&mut names));
            dir.durable.clone_from(&names);
            dir.names = names;
        }
        // A directory whose name is lost is gone with all it held.
        let mut alive = BTreeSet::from([PathBuf::from("/")]);
        for path in self.dirs.keys() {
            if let Ok((parent, name)) = split(path)
                && alive.contains(&parent)
                && self.dirs[&parent].names.get(&name) == Some(&Node::Dir)
            {
                alive.insert(path.clone());
            }
        }
        self.dirs.retain(|path, _| alive.contains(path));
        for (path, dir) in &mut self.dirs {
            // The name of a directory that was removed and came back stands for an empty one no more.
            dir.names.retain(|name, node| *node != Node::Dir || alive.contains(&path.join(name)));
            dir.durable.clone_from(&dir.names);
        }
        let held: BTreeSet<InodeNo> =
            self.dirs.values().flat_map(|dir| dir.names.values()).filter_map(file_of).collect();
        self.inodes.retain(|number, _| held.contains(number));
        self.inodes.values_mut().for_each(|inode| inode.power_cut(policy, random));
    }

    /// Mixes every name, length and byte, read as a program would, into one number.
    pub(super) fn hash(&self) -> u64 {
        let mut mixed = 0u64;
        let mut mix = |bytes: &[u8]| {
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                mixed = (mixed.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
            }
        };
        for (path, dir) in &self.dirs {
            mix(path.as_os_str().as_encoded_bytes());
            for (name, node) in &dir.names {
                mix(name.as_bytes());
                let Node::File(number) = node else { continue };
                let inode = &self.inodes[number];
                mix(&inode.len.to_le_bytes());
                for (number, sector) in &inode.sectors {
                    // A sector of zeros reads as one never written.
                    if sector.iter().any(|byte| *byte != 0) {
                        mix(&number.to_le_bytes());
                        mix(&sector[..]);
                    }
                }
            }
        }
        mixed
    }

    pub(super) fn flip_bit(&mut self, path: &Path, offset: u64, bit: u8) {
        let Some(Node::File(number)) = self.node(path) else { panic!("{} does not exist", path.display()) };
        let inode = self.inodes.get_mut(&number).expect("a named file has its inode");
        assert!(offset < inode.len, "the file ends before the bit");
        let sector = inode.sectors.entry(offset / SECTOR as u64).or_insert_with(|| Box::new([0; SECTOR]));
        sector[(offset % SECTOR as u64) as usize] ^= 1 << (bit % 8);
        self.struck += 1;
    }
}

pub(super) struct SimDisk(pub(super) Arc<Machine>);

struct SimFile {
    machine: Arc<Machine>,
    path: PathBuf,
    inode: InodeNo,
    generation: u64,
    writable: bool,
    direct: bool,
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode, direct: bool) -> io::Result<File> {
        let mut disk = lock(&self.0.disk);
        let (dir, name) = split(path)?;
        let existing = disk.node(path);
        let inode = match (existing, mode) {
            (Some(Node::Dir), _) => return Err(errno(libc::EISDIR)),
            (Some(Node::File(_)), OpenMode::CreateNew) => return Err(errno(libc::EEXIST)),
            (None, OpenMode::Read | OpenMode::ReadWrite) => return Err(errno(libc::ENOENT)),
            (Some(Node::File(number)), _) => number,
            (None, OpenMode::Create | OpenMode::CreateNew) => {
                disk.dir(&dir)?;
                disk.admit(DiskOp::Name, path)?;
                let number = disk.make_inode();
                disk.dir(&dir)?.change(NameChange::Set(name, Node::File(number)));
                number
            }
        };
        if disk.powered_off {
            return Err(errno(libc::EIO));
        }
        let generation = disk.generation;
        let direct = direct && !disk.refuses_direct;
        *disk.open.entry(inode).or_default() += 1;
        drop(disk);
        let writable = mode != OpenMode::Read;
        let path = path.to_path_buf();
        Ok(File::new(Arc::new(SimFile {
            machine: self.0.clone(),
            path,
            inode,
            generation,
            writable,
            direct,
        })))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let disk = lock(&self.0.disk);
        let directory = disk.dirs.get(&normal(dir)).ok_or_else(|| errno(libc::ENOENT))?;
        let entries = directory.names.iter().map(|(name, node)| DirEntry {
            name: name.clone(),
            is_dir: *node == Node::Dir,
            len: match node {
                Node::Dir => ByteCount(0),
                Node::File(number) => ByteCount(disk.inodes[number].len),
            },
        });
        Ok(entries.collect())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0.disk);
        let (dir, name) = split(path)?;
        match disk.node(path) {
            None => Err(errno(libc::ENOENT)),
            Some(Node::Dir) => Err(errno(libc::EISDIR)),
            Some(Node::File(_)) => {
                disk.admit(DiskOp::Name, path)?;
                // The bytes stay: the file may be open, and a power cut may bring the name back.
                disk.dir(&dir)?.change(NameChange::Unset(name));
                Ok(())
            }
        }
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0.disk);
        let (dir, name) = split(path)?;
        if disk.node(path) != Some(Node::Dir) {
            return Err(errno(libc::ENOENT));
        }
        disk.admit(DiskOp::Name, path)?;
        disk.dir(&dir)?.change(NameChange::Unset(name));
        let path = normal(path);
        // Below the removed name nothing can be reached again, so nothing of it need be kept for a power cut except
        // that the name itself may come back; it is then found empty.
        let below: Vec<PathBuf> = disk.dirs.keys().filter(|dir| dir.starts_with(&path)).cloned().collect();
        for dir in below {
            disk.dirs.remove(&dir);
        }
        disk.forget_unreachable();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0.disk);
        let ((dir_from, name_from), (dir_to, name_to)) = (split(from)?, split(to)?);
        let node = disk.node(from).ok_or_else(|| errno(libc::ENOENT))?;
        disk.dir(&dir_to)?;
        disk.admit(DiskOp::Name, from)?;
        if dir_from == dir_to {
            disk.dir(&dir_to)?.change(NameChange::Rename(name_from, name_to));
        } else {
            disk.dir(&dir_to)?.change(NameChange::Set(name_to, node.clone()));
            disk.dir(&dir_from)?.change(NameChange::Unset(name_from));
        }
        if node == Node::Dir {
            let (from, to) = (normal(from), normal(to));
            let moved: Vec<PathBuf> =
                disk.dirs.keys().filter(|dir| dir.starts_with(&from)).cloned().collect();
            for old in moved {
                let directory = disk.dirs.remove(&old).expect("just listed");
                let rest = old.strip_prefix(&from).expect("just filtered");
                let new = if rest == Path::new("") { to.clone() } else { to.join(rest) };
                disk.dirs.insert(new, directory);
            }
        }
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0.disk);
        let mut at = PathBuf::from("/");
        for component in normal(path).components().skip(1) {
            let name = component.as_os_str().to_str().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
            let child = at.join(&name);
            match disk.node(&child) {
                Some(Node::Dir) => {}
                Some(Node::File(_)) => return Err(errno(libc::EEXIST)),
                None => {
                    disk.admit(DiskOp::Name, &child)?;
                    let above = disk.dir(&at)?;
                    above.change(NameChange::Set(name, Node::Dir));
                    above.sync();
                    disk.dirs.insert(child.clone(), Directory::default());
                }
            }
            at = child;
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut disk = lock(&self.0.disk);
        disk.admit(DiskOp::Name, dir)?;
        disk.dir(&normal(dir))?.sync();
        disk.forget_unreachable();
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        lock(&self.0.disk).node(path).is_some()
    }

    fn free_space(&self, _path: &Path) -> io::Result<ByteCount> {
        let disk = lock(&self.0.disk);
        Ok(ByteCount(disk.capacity.saturating_sub(disk.used())))
    }

    fn device_of(&self, path: &Path) -> io::Result<Device> {
        let disk = lock(&self.0.disk);
        disk.node(path).ok_or_else(|| errno(libc::ENOENT))?;
        Ok(Device {
            number: "0:1".to_owned(),
            file_system: "simulated".to_owned(),
            file_system_id: 1,
            len: ByteCount(disk.capacity),
        })
    }

    fn lock_exclusive(&self, path: &Path) -> io::Result<DirLock> {
        let mut disk = lock(&self.0.disk);
        let path = normal(path);
        if !disk.locks.insert(path.clone()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let generation = disk.generation;
        Ok(DirLock::new(Box::new(HeldLock { machine: self.0.clone(), path, generation })))
    }

    fn write_small_atomic(&self, path: &Path, bytes: &[u8], _unix_mode: u32) -> io::Result<()> {
        let mut disk = lock(&self.0.disk);
        let (dir, name) = split(path)?;
        disk.dir(&dir)?;
        disk.check_room(bytes.len() as u64)?;
        for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Name] {
            disk.admit(op, path)?;
        }
        let number = disk.make_inode();
        disk.inodes.get_mut(&number).expect("just made").write(bytes, 0, true);
        let directory = disk.dir(&dir)?;
        directory.change(NameChange::Set(name, Node::File(number)));
        directory.sync();
        disk.forget_unreachable();
        Ok(())
    }
}

struct HeldLock {
    machine: Arc<Machine>,
    path: PathBuf,
    generation: u64,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut disk = lock(&self.machine.disk);
        if disk.generation == self.generation {
            disk.locks.remove(&self.path);
        }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut disk = lock(&self.machine.disk);
        if disk.generation == self.generation {
            disk.close(self.inode);
        }
    }
}

impl SimFile {
    fn check_direct(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let unit = crate::IO_ALIGN as u64;
        let numbers = [offset, buf.len() as u64, buf.as_ptr().addr() as u64];
        let aligned = numbers.iter().all(|number| number.is_multiple_of(unit));
        if self.direct && !aligned { Err(errno(libc::EINVAL)) } else { Ok(()) }
    }

    fn write(&self, buf: &[u8], offset: u64, durable: bool) -> io::Result<usize> {
        let written = self.write_some(buf, offset, durable);
        let how = if durable { "durable write" } else { "write" };
        self.trace(how, &format!("{} at {offset}: {written:?}", buf.len()));
        written
    }

    fn trace(&self, operation: &str, what: &str) {
        if lock(&self.machine.disk).traced {
            eprintln!("{} {operation} {} {what}", self.machine.now().0, self.path.display());
        }
    }

    fn write_some(&self, buf: &[u8], offset: u64, durable: bool) -> io::Result<usize> {
        self.check_direct(buf, offset)?;
        if !self.writable {
            return Err(errno(libc::EBADF));
        }
        let mut disk = lock(&self.machine.disk);
        disk.inode(self.inode, self.generation)?;
        let short = match disk.admit(DiskOp::Write, &self.path) {
            Err(error) if disk.powered_off => {
                // It was under way: the power cut decides which of its sectors arrived.
                disk.inodes.get_mut(&self.inode).expect("found above").write(buf, offset, false);
                return Err(error);
            }
            Err(error) => {
                let inode = disk.inodes.get_mut(&self.inode).expect("found above");
                self.machine.draw(|random| inode.write_in_part(buf, offset, !self.direct, random));
                return Err(error);
            }
            Ok(short) => short,
        };
        let wanted = disk.inode(self.inode, self.generation)?.wants(buf.len(), offset);
        disk.check_room(wanted)?;
        let len = if short { self.shorten(buf.len()) } else { buf.len() };
        let durable = durable && len == buf.len() && !disk.lies(&self.path);
        disk.inode(self.inode, self.generation)?.write(&buf[..len], offset, durable);
        Ok(len)
    }
}

impl SimFile {
    fn sync(&self) -> io::Result<()> {
        let mut disk = lock(&self.machine.disk);
        let admitted = disk.admit(DiskOp::Sync, &self.path);
        let lies = disk.lies(&self.path);
        let inode = disk.inode(self.inode, self.generation)?;
        match admitted {
            Ok(_) if lies => Ok(()),
            Ok(_) => {
                inode.sync();
                Ok(())
            }
            Err(error) => {
                inode.fail_sync();
                Err(error)
            }
        }
    }

    /// What a short transfer moves: about half, in the units that the file is written in.
    fn shorten(&self, len: usize) -> usize {
        let unit = if self.direct { crate::IO_ALIGN } else { SECTOR };
        (len / 2 / unit * unit).max(unit.min(len))
    }
}

impl FileOps for SimFile {
    fn raw_fd(&self) -> Option<RawFd> {
        None
    }
    fn read_some_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check_direct(buf, offset)?;
        let mut disk = lock(&self.machine.disk);
        let short = disk.admit(DiskOp::Read, &self.path)?;
        let len = if short { self.shorten(buf.len()) } else { buf.len() };
        Ok(disk.inode(self.inode, self.generation)?.read(&mut buf[..len], offset))
    }
    fn write_some_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.write(buf, offset, false)
    }
    fn write_durable_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut written = self.write(buf, offset, true)?;
        if written == buf.len() {
            return Ok(());
        }
        // A short durable write is continued, and its parts are made durable together by the sync at the end.
        while written < buf.len() {
            written += self.write(&buf[written..], offset + written as u64, false)?;
        }
        self.sync_data()
    }
    fn sync_data(&self) -> io::Result<()> {
        let synced = self.sync();
        self.trace("sync", &format!("{synced:?}"));
        synced
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = lock(&self.machine.disk);
        disk.admit(DiskOp::Resize, &self.path)?;
        disk.inode(self.inode, self.generation)?.set_len(len);
        Ok(())
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut disk = lock(&self.machine.disk);
        disk.admit(DiskOp::Resize, &self.path)?;
        let end = offset + len;
        let inode = disk.inode(self.inode, self.generation)?;
        let more = end.saturating_sub(inode.stored());
        disk.check_room(more)?;
        let inode = disk.inode(self.inode, self.generation)?;
        inode.allocated = inode.allocated.max(end);
        if end > inode.len {
            inode.set_len(end);
        }
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.machine.disk).inode(self.inode, self.generation)?.len)
    }
    fn is_direct(&self) -> bool {
        self.direct
    }
}
