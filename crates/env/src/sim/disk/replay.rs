//! Power cuts of a real program: its files up to a place of its recording ([`crate::recording`]), and what the simulated disk may leave of them.
//!
//! A sync makes durable what had ended when it began, and so it takes effect there, if its end is before the cut. A write is made where it ended;
//! those under way at the cut are made there, and may be lost as any other. What images there may be is listed at the head of [`super`].
//!
//! All files are held in memory, but for zeros where nothing else was ever written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::names::{InodeNo, NameChange, Node, normal, split};
use super::{DiskState, Inode, SECTOR, Sector, SimDisk};
use crate::disk::Disk;
use crate::recording::{Event, Recording};
use crate::sim::{PowerCut, World, lock};

/// Pieces in which files are read and written.
const PIECE: usize = 1 << 20;
const _: () = assert!(PIECE.is_multiple_of(SECTOR));

/// A recording that is followed from cut to cut.
pub struct Replay {
    track: Track,
    life: Life,
}

/// What is followed, and how.
struct Track {
    recording: Recording,
    /// Of each sync that ended well: where it begins, and the place behind its end.
    syncs: BTreeMap<u64, u64>,
    /// What is elsewhere is left out.
    root: PathBuf,
    ignores_flushes: bool,
}

/// The files at one place of the recording.
struct Life {
    world: World,
    at: u64,
    /// By descriptor; `None` for a file outside of the root.
    open: BTreeMap<u32, Option<InodeNo>>,
    /// By tag.
    under_way: BTreeMap<u64, Write>,
}

#[derive(Clone)]
struct Write {
    file: InodeNo,
    offset: u64,
    durable: bool,
    bytes: Vec<u8>,
}

/// What a power cut left.
pub struct Image {
    world: World,
    root: PathBuf,
    undecided: usize,
}

impl Replay {
    /// Follows what a recording did below the directory `root`, where it found what `base` holds, all of it durable; `None`: nothing.
    ///
    /// # Errors
    /// A file cannot be read, or is no recording.
    pub fn open(recording: &Path, root: &Path, base: Option<&Path>) -> io::Result<Replay> {
        let recording = Recording::open(recording)?;
        let root = normal(&std::path::absolute(root)?);
        let world = World::new(0);
        disk_of(&world).create_dir_all(&root)?;
        if let Some(base) = base {
            take_in(&world, base, &root)?;
        }
        let life = Life { world, at: 0, open: BTreeMap::new(), under_way: BTreeMap::new() };
        let syncs = recording.syncs()?;
        Ok(Replay { track: Track { recording, syncs, root, ignores_flushes: false }, life })
    }

    /// The same on a disk that lies: no sync and no durable write of a file makes anything durable. For a canary.
    #[must_use]
    pub fn ignoring_flushes(mut self) -> Replay {
        self.track.ignores_flushes = true;
        self
    }

    /// The power goes off when the recording is `at` bytes long; `seed` draws what is left.
    ///
    /// # Errors
    /// The recording cannot be read, or does not fit the base.
    ///
    /// # Panics
    /// An earlier cut was at a later place.
    pub fn cut(&mut self, at: u64, policy: PowerCut, seed: u64) -> io::Result<Image> {
        let (track, life) = (&self.track, &mut self.life);
        assert!(life.at <= at, "cuts come in the recording's order");
        // Later cuts find that this sync has ended: what is common to them and this one ends where it begins.
        let open = track.syncs.range(life.at..at).find(|(_, end)| **end > at);
        track.follow(life, open.map_or(at, |(begin, _)| *begin), at)?;
        let mut last = life.fork(seed);
        track.follow(&mut last, at, at)?;
        for write in std::mem::take(&mut last.under_way).into_values() {
            last.make(&write, write.bytes.len(), false);
        }
        let undecided = lock(&last.world.0.disk).inodes.values().map(|inode| inode.unsynced.len()).sum();
        last.world.power_cut(policy);
        Ok(Image { world: last.world, root: track.root.clone(), undecided })
    }
}

impl Track {
    /// Takes a life on, over all events that end at `to` or before. Of syncs those count that have ended at `cut`.
    fn follow(&self, life: &mut Life, to: u64, cut: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        while life.at < to {
            let Some((event, next)) = self.recording.event(life.at, &mut bytes)? else { return Ok(()) };
            if next > to {
                return Ok(());
            }
            let has_ended = self.syncs.get(&life.at).is_some_and(|end| *end <= cut);
            self.take(life, &event, has_ended).map_err(|error| {
                io::Error::new(error.kind(), format!("at offset {} of the recording: {error}", life.at))
            })?;
            life.at = next;
        }
        Ok(())
    }

    /// `has_ended`: of a sync, that it has, and well.
    fn take(&self, life: &mut Life, event: &Event<'_>, has_ended: bool) -> io::Result<()> {
        let disk = disk_of(&life.world);
        match *event {
            Event::Opened { fd, made, path } => {
                let file = if self.has(path) { Some(life.open_file(path, made)?) } else { None };
                life.open.insert(fd, file);
            }
            Event::Closed { fd } => {
                if let Some(file) = life.open.remove(&fd).ok_or_else(not_open)? {
                    lock(&life.world.0.disk).close(file);
                }
            }
            Event::WriteBegun { tag, fd, offset, durable, bytes } => {
                if let Some(file) = life.file(fd)? {
                    let durable = durable && !self.ignores_flushes;
                    life.under_way.insert(tag, Write { file, offset, durable, bytes: bytes.to_vec() });
                }
            }
            Event::Ended { tag, done } => {
                if let Some(write) = life.under_way.remove(&tag) {
                    // Of one that failed anything may have arrived.
                    let len = done.map_or(write.bytes.len(), |done| done as usize);
                    life.make(&write, len, write.durable && done.is_some());
                }
            }
            Event::SyncBegun { fd, .. } => {
                if has_ended && !self.ignores_flushes {
                    life.change(fd, Inode::sync)?;
                }
            }
            Event::LenSet { fd, len } => life.change(fd, |inode| inode.set_len(len))?,
            Event::Allocated { fd, end } => life.change(fd, |inode| inode.set_len(inode.len.max(end)))?,
            // What was made past the recorder is not known here.
            Event::Removed { path } if self.has(path) && disk.exists(path) => disk.remove(path)?,
            Event::DirRemoved { path } if self.has(path) && disk.exists(path) => disk.remove_dir_all(path)?,
            Event::DirsMade { path } if self.has(path) => disk.create_dir_all(path)?,
            Event::DirSynced { path } if self.has(path) => disk.sync_dir(path)?,
            Event::Renamed { from, to } if self.has(from) && self.has(to) => disk.rename(from, to)?,
            Event::Renamed { from, to } if self.has(from) || self.has(to) => {
                let what = format!("{} to {}: one of them is outside", from.display(), to.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            Event::Removed { .. }
            | Event::DirRemoved { .. }
            | Event::DirsMade { .. }
            | Event::DirSynced { .. }
            | Event::Renamed { .. } => {}
        }
        Ok(())
    }

    fn has(&self, path: &Path) -> bool {
        normal(path).starts_with(&self.root)
    }
}

impl Life {
    /// The same files in a world of their own, by whose seed what a power cut leaves is drawn.
    fn fork(&self, seed: u64) -> Life {
        let world = World::new(seed);
        *lock(&world.0.disk) = lock(&self.world.0.disk).clone();
        Life { world, at: self.at, open: self.open.clone(), under_way: self.under_way.clone() }
    }

    fn open_file(&mut self, path: &Path, made: bool) -> io::Result<InodeNo> {
        let mut disk = lock(&self.world.0.disk);
        let file = match disk.node(path) {
            Some(Node::File(file)) if !made => file,
            _ => {
                let (dir, name) = split(path)?;
                let file = disk.make_inode();
                disk.dir(&dir)?.change(NameChange::Set(name, Node::File(file)));
                file
            }
        };
        *disk.open.entry(file).or_default() += 1;
        Ok(file)
    }

    fn file(&self, fd: u32) -> io::Result<Option<InodeNo>> {
        self.open.get(&fd).copied().ok_or_else(not_open)
    }

    fn change(&self, fd: u32, change: impl FnOnce(&mut Inode)) -> io::Result<()> {
        if let Some(file) = self.file(fd)? {
            change(lock(&self.world.0.disk).inodes.get_mut(&file).expect("an open file is kept"));
        }
        Ok(())
    }

    /// Writes the first `len` bytes of what was to be written. The file may have been closed since.
    fn make(&self, write: &Write, len: usize, durable: bool) {
        if let Some(inode) = lock(&self.world.0.disk).inodes.get_mut(&write.file) {
            // New segments of a log are filled with zeros, where there is nothing else to be lost.
            let changes = |inode: &Inode, sector: u64, bytes: &[u8]| {
                inode.sectors.contains_key(&sector) || bytes.iter().any(|byte| *byte != 0)
            };
            inode.write_where(changes, &write.bytes[..len], write.offset, durable);
        }
    }
}

fn disk_of(world: &World) -> SimDisk {
    SimDisk(world.0.clone())
}

fn not_open() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the file is not open")
}

/// Takes what the real directory `from` holds into `to`, durably.
fn take_in(world: &World, from: &Path, to: &Path) -> io::Result<()> {
    disk_of(world).create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            take_in(world, &entry.path(), &to.join(name))?;
        } else if kind.is_file() {
            let inode = read_inode(&entry.path())?;
            let mut disk = lock(&world.0.disk);
            let file = disk.make_inode();
            disk.inodes.insert(file, inode);
            disk.dir(to)?.change(NameChange::Set(name, Node::File(file)));
        }
    }
    disk_of(world).sync_dir(to)
}

fn read_inode(path: &Path) -> io::Result<Inode> {
    let mut file = fs::File::open(path)?;
    let len = file.metadata()?.len();
    let mut inode = Inode { len, durable_len: len, ..Inode::default() };
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    while at < len {
        let bytes = &mut piece[..(len - at).min(PIECE as u64) as usize];
        file.read_exact(bytes)?;
        for (number, bytes) in (at / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            if bytes.iter().any(|byte| *byte != 0) {
                let mut sector: Box<Sector> = Box::new([0; SECTOR]);
                sector[..bytes.len()].copy_from_slice(bytes);
                inode.sectors.insert(number, sector);
            }
        }
        at += bytes.len() as u64;
    }
    Ok(inode)
}

impl Image {
    /// Sectors of which the power cut decided what they hold.
    pub fn undecided(&self) -> usize {
        self.undecided
    }

    /// Puts the files into the real directory `to`, which is made now, with holes where nothing but zeros was written.
    pub fn write_to(&self, to: &Path) -> io::Result<()> {
        let disk = lock(&self.world.0.disk);
        write_dir(&disk, &self.root, to)
    }
}

fn write_dir(disk: &DiskState, from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for (name, node) in &disk.dirs[from].names {
        match node {
            Node::Dir => write_dir(disk, &from.join(name), &to.join(name))?,
            Node::File(file) => write_inode(&disk.inodes[file], &to.join(name))?,
        }
    }
    Ok(())
}

fn write_inode(inode: &Inode, to: &Path) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let (mut piece, mut first) = (Vec::with_capacity(PIECE), 0);
    for (number, sector) in &inode.sectors {
        let is_next = first + (piece.len() / SECTOR) as u64 == *number;
        if !is_next || piece.len() == PIECE {
            file.write_all_at(&piece, first * SECTOR as u64)?;
            piece.clear();
            first = *number;
        }
        piece.extend_from_slice(&sector[..]);
    }
    file.write_all_at(&piece, first * SECTOR as u64)?;
    file.set_len(inode.len)
}

#[cfg(test)]
mod tests;
