//! Names: what each directory says now, what of it is durable, and what changed in between.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

pub(super) type InodeNo = u64;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Dir,
    File(InodeNo),
}

/// A change of names in one directory.
#[derive(Clone)]
pub(super) enum NameChange {
    Set(String, Node),
    Unset(String),
    Rename(String, String),
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            NameChange::Set(name, node) => drop(names.insert(name.clone(), node.clone())),
            NameChange::Unset(name) => drop(names.remove(name)),
            NameChange::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Directory {
    pub(super) names: BTreeMap<String, Node>,
    pub(super) durable: BTreeMap<String, Node>,
    pub(super) changes: Vec<NameChange>,
}

impl Directory {
    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Files that have a name here, or may have one after a power cut.
    pub(super) fn may_name(&self) -> impl Iterator<Item = InodeNo> + '_ {
        let changed = self.changes.iter().filter_map(|change| match change {
            NameChange::Set(_, node) => Some(node),
            NameChange::Unset(_) | NameChange::Rename(..) => None,
        });
        self.names.values().chain(self.durable.values()).chain(changed).filter_map(file_of)
    }

    pub(super) fn sync(&mut self) {
        self.durable.clone_from(&self.names);
        self.changes.clear();
    }
}

pub(super) fn file_of(node: &Node) -> Option<InodeNo> {
    match node {
        Node::File(number) => Some(*number),
        Node::Dir => None,
    }
}

/// An absolute path without `.` and `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => drop(normal.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

pub(super) fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let path = normal(path);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok((path.parent().expect("a path with a name has a parent").to_path_buf(), name.to_owned()))
}
