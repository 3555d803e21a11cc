//! Random operations against a `BTreeMap`: short and long keys and values, ascending runs, snapshots that must not
//! change, and pages that are missing at any step, after which nothing may have changed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use base::PageNo;
use base::limits::{INLINE_VALUE_LEN_MAX, KEY_LEN_MAX, PAGE_SIZE};
use proptest::prelude::*;
use storage::{Beside, PageBytes, PageFault, ReadPages, WritePages};

use crate::node::{Node, SLOT_LEN};
use crate::{
    Applied, Cleared, Cursor, Put, Seek, TreeRoot, Value, apply_sorted, check, clear, get, get_many,
    get_near, insert_new, put, remove,
};

/// Pages of which some are not in memory.
#[derive(Clone, Default)]
struct TestPages {
    pages: BTreeMap<PageNo, Box<PageBytes>>,
    absent: BTreeSet<PageNo>,
    next: u32,
}

impl TestPages {
    fn fault(&self, no: PageNo) -> Result<(), PageFault> {
        if self.absent.contains(&no) {
            return Err(PageFault::Miss(no));
        }
        if self.pages.contains_key(&no) { Ok(()) } else { Err(PageFault::corrupt(no, "no such page", 0, 1)) }
    }
}

impl ReadPages for TestPages {
    fn page(&self, no: PageNo) -> Result<&PageBytes, PageFault> {
        self.fault(no)?;
        Ok(&self.pages[&no])
    }
}

impl WritePages for TestPages {
    fn page_mut(&mut self, no: PageNo) -> Result<&mut PageBytes, PageFault> {
        self.fault(no)?;
        Ok(self.pages.get_mut(&no).expect("looked at above"))
    }
    fn allocate(&mut self, _: Option<Beside>) -> PageNo {
        self.next += 1;
        self.pages.insert(PageNo(self.next), Box::new([0; PAGE_SIZE]));
        PageNo(self.next)
    }
    fn release(&mut self, no: PageNo) {
        assert!(self.pages.remove(&no).is_some(), "{no:?} released twice");
        self.absent.remove(&no);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put(Vec<u8>, Vec<u8>),
    InsertNew(Vec<u8>, Vec<u8>),
    /// So many ascending keys behind a given one.
    Ascend(Vec<u8>, u16, usize),
    Remove(Vec<u8>),
    RemoveFrom(Vec<u8>, usize),
    /// Changes in key order, one in so many of them a removal.
    ApplySorted(BTreeMap<Vec<u8>, Vec<u8>>, usize),
    Get(Vec<u8>),
    GetMany(Vec<Vec<u8>>),
    Walk(Vec<u8>, bool, usize),
    Leaves(Vec<u8>, Vec<u8>),
    /// Puts so many pages out of memory; every following operation finds them missing, one by one.
    Evict(u64),
    Snapshot,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0u8..4, any::<u16>()).prop_map(|(table, n)| [&[table][..], &n.to_be_bytes()].concat()),
        3 => prop::collection::vec(prop_oneof![Just(0u8), Just(255), any::<u8>()], 0..12),
        1 => (any::<u8>(), 0..KEY_LEN_MAX - 2, any::<u16>())
            .prop_map(|(byte, len, n)| [&vec![byte % 3; len][..], &n.to_be_bytes()].concat()),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        6 => 0usize..300,
        2 => 300..=INLINE_VALUE_LEN_MAX,
        1 => INLINE_VALUE_LEN_MAX + 1..40_000,
    ];
    (len, any::<u8>()).prop_map(|(len, byte)| (0..len).map(|i| byte.wrapping_add(i as u8)).collect())
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (key(), value()).prop_map(|(k, v)| Op::Put(k, v)),
        2 => (key(), value()).prop_map(|(k, v)| Op::InsertNew(k, v)),
        2 => (key(), 1u16..300, 0usize..400).prop_map(|(k, n, len)| Op::Ascend(k, n, len)),
        5 => key().prop_map(Op::Remove),
        3 => (key(), 1usize..200).prop_map(|(k, n)| Op::RemoveFrom(k, n)),
        3 => (prop::collection::btree_map(key(), value(), 0..150), 2usize..9)
            .prop_map(|(changes, removal)| Op::ApplySorted(changes, removal)),
        4 => key().prop_map(Op::Get),
        2 => prop::collection::vec(key(), 0..40).prop_map(Op::GetMany),
        3 => (key(), any::<bool>(), 0usize..80).prop_map(|(k, forward, n)| Op::Walk(k, forward, n)),
        1 => (key(), key()).prop_map(|(a, b)| Op::Leaves(a, b)),
        2 => any::<u64>().prop_map(Op::Evict),
        1 => Just(Op::Snapshot),
    ]
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Test {
    pages: TestPages,
    root: TreeRoot,
    model: Model,
    snapshot: Option<(TestPages, TreeRoot, Model)>,
}

impl Test {
    /// Runs `op`, bringing in each page it misses, and checks that a miss changed nothing.
    fn retry<R>(&mut self, mut op: impl FnMut(&mut TestPages, &mut TreeRoot) -> Result<R, PageFault>) -> R {
        loop {
            let before = (!self.pages.absent.is_empty()).then(|| (self.pages.clone(), self.root));
            match op(&mut self.pages, &mut self.root) {
                Ok(done) => return done,
                Err(PageFault::Miss(no)) => {
                    let (pages, root) = before.expect("a miss needs an absent page");
                    assert!(self.pages.pages == pages.pages && self.root == root, "a miss changed the tree");
                    assert!(self.pages.absent.remove(&no));
                }
                Err(fault) => panic!("{fault}"),
            }
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Put(key, value) => self.put(key, value),
            Op::InsertNew(key, value) => {
                let inserted = self.retry(|pages, root| insert_new(pages, root, &key, &value));
                assert_eq!(inserted, !self.model.contains_key(&key));
                self.model.entry(key).or_insert(value);
            }
            Op::Ascend(key, n, len) => {
                for i in 0..n {
                    let key = [&key[..key.len().min(KEY_LEN_MAX - 2)], &i.to_be_bytes()].concat();
                    self.put(key, vec![i as u8; len]);
                }
            }
            Op::Remove(key) => self.remove(&key),
            Op::RemoveFrom(key, n) => {
                let keys: Vec<_> = self.model.range(key..).take(n).map(|(k, _)| k.clone()).collect();
                keys.iter().for_each(|key| self.remove(key));
            }
            Op::ApplySorted(changes, removal) => self.apply_sorted(changes, removal),
            Op::Get(key) => {
                let found = self.retry(|pages, root| {
                    let Some(value) = get(pages, *root, &key)? else { return Ok(None) };
                    value.read(pages).map(|bytes| Some(bytes.into_owned()))
                });
                assert!(found.as_ref() == self.model.get(&key), "value of {key:?}");
            }
            Op::GetMany(mut keys) => {
                // Keys that are there, too, and one of them twice.
                keys.extend(self.model.keys().step_by(7).take(30).cloned());
                keys.extend(keys.last().cloned());
                let found = self.retry(|pages, root| {
                    let mut values = Vec::new();
                    get_many(pages, *root, &keys, &mut values)?;
                    let read = |value: Option<Value<'_>>| {
                        value.map(|value| value.read(pages).map(Cow::into_owned)).transpose()
                    };
                    values.into_iter().map(read).collect::<Result<Vec<_>, _>>()
                });
                let expected: Vec<_> = keys.iter().map(|key| self.model.get(key).cloned()).collect();
                assert!(found == expected, "values of {keys:?}");
            }
            Op::Walk(key, forward, n) => self.walk(&key, forward, n),
            Op::Leaves(a, b) => self.leaves(&a, &b),
            Op::Evict(seed) => {
                let mut numbers: Vec<_> = self.pages.pages.keys().copied().collect();
                numbers.sort();
                self.pages.absent = numbers.into_iter().filter(|no| (seed >> (no.0 % 64)) & 1 == 1).collect();
            }
            Op::Snapshot => {
                self.check_snapshot();
                let mut pages = self.pages.clone();
                pages.absent.clear();
                self.snapshot = Some((pages, self.root, self.model.clone()));
            }
        }
    }

    fn apply_sorted(&mut self, mut changes: BTreeMap<Vec<u8>, Vec<u8>>, removal: usize) {
        // Neighbours of keys that are there, too, with values a little shorter and longer.
        for (i, (key, value)) in self.model.iter().step_by(3).take(100).enumerate() {
            changes
                .entry(key.clone())
                .or_insert_with(|| vec![i as u8; value.len() + 1 - i % 3 % (value.len() + 1)]);
        }
        let changes: Vec<(&[u8], Option<&[u8]>)> = changes
            .iter()
            .enumerate()
            .map(|(i, (key, value))| (&key[..], (i % removal > 0).then_some(&value[..])))
            .collect();
        let (mut applied, before) = (Applied::default(), self.model.len());
        while let Err(fault) = apply_sorted(&mut self.pages, &mut self.root, &changes, &mut applied) {
            let PageFault::Miss(no) = fault else { panic!("{fault}") };
            assert!(self.pages.absent.remove(&no));
        }
        for (key, value) in changes {
            match value {
                Some(value) => drop(self.model.insert(key.to_vec(), value.to_vec())),
                None => drop(self.model.remove(key)),
            }
        }
        assert_eq!(before as u64 + applied.inserted - applied.removed, self.model.len() as u64);
    }

    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        let put = self.retry(|pages, root| put(pages, root, &key, &value));
        let old = self.model.insert(key, value);
        assert_eq!(put, if old.is_some() { Put::Replaced } else { Put::Inserted });
    }

    fn remove(&mut self, key: &[u8]) {
        let removed = self.retry(|pages, root| remove(pages, *root, key));
        assert_eq!(removed, self.model.remove(key).is_some());
    }

    /// Walks from `key`, turning round in the middle and removing what is under way now and then.
    fn walk(&mut self, key: &[u8], forward: bool, n: usize) {
        let mut cursor = Cursor::new(self.root, Seek::Before(key));
        let mut place = Bound::Excluded(key.to_vec());
        let mut before_key = true;
        for i in 0..n {
            let forward = forward != (i > n / 2);
            let found = self.retry(|pages, _| {
                // The cursor has moved when a chain's page turns out to be missing.
                let mut ahead = cursor.clone();
                let entry = if forward { ahead.next(pages)? } else { ahead.prev(pages)? };
                let Some(entry) = entry else { return Ok(None) };
                let found = (entry.key.to_vec(), entry.value.read(pages)?.into_owned());
                cursor = ahead;
                Ok(Some(found))
            });
            let (Bound::Excluded(at) | Bound::Included(at)) = &place else { unreachable!() };
            let expected = if forward {
                let low = if before_key { Bound::Included(at.clone()) } else { Bound::Excluded(at.clone()) };
                self.model.range((low, Bound::Unbounded)).next()
            } else {
                let high = if before_key { Bound::Excluded(at.clone()) } else { Bound::Included(at.clone()) };
                self.model.range((Bound::Unbounded, high)).next_back()
            };
            let expected = expected.map(|(k, v)| (k.clone(), v.clone()));
            assert!(found == expected, "step {i} from {place:?}");
            let Some((key, _)) = found else { continue };
            if i % 7 == 3 {
                self.remove(&key);
            }
            place = Bound::Excluded(key);
            before_key = !forward;
        }
    }

    fn leaves(&mut self, from: &[u8], to: &[u8]) {
        let mut cursor = Cursor::new(self.root, Seek::After(from));
        let mut found = Vec::new();
        let mut scratch = Vec::new();
        loop {
            let more = self.retry(|pages, _| {
                let before = cursor.clone();
                let Some(run) = cursor.next_leaf(pages, Bound::Included(to))? else { return Ok(false) };
                let mut entries = Vec::new();
                let mut fault = None;
                run.for_each(&mut scratch, |key, value| match value.read(pages) {
                    Ok(value) => entries.push((key.to_vec(), value.into_owned())),
                    Err(miss) => fault = Some(miss),
                });
                if let Some(miss) = fault {
                    cursor = before;
                    return Err(miss);
                }
                found.append(&mut entries);
                Ok(true)
            });
            if !more {
                break;
            }
        }
        let expected: Vec<_> = self
            .model
            .iter()
            .filter(|(key, _)| key.as_slice() > from && key.as_slice() <= to)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        assert!(found == expected, "entries within {from:?} and {to:?}");
    }

    fn check_snapshot(&self) {
        if let Some((pages, root, model)) = &self.snapshot {
            check_against(pages, *root, model);
        }
    }
}

fn check_against(pages: &TestPages, root: TreeRoot, model: &Model) {
    let report = check(pages, root).expect("the tree is sound");
    assert_eq!(report.entries, model.len() as u64);
    let owned: BTreeSet<_> = report.pages.iter().copied().collect();
    assert_eq!(owned.len(), report.pages.len(), "a page is there twice");
    assert_eq!(owned, pages.pages.keys().copied().collect(), "pages are leaked");
    let mut cursor = Cursor::new(root, Seek::Start);
    for (key, value) in model {
        let entry = cursor.next(pages).expect("all pages are there").expect("as many as the model's");
        assert_eq!(entry.key, key);
        assert_eq!(&*entry.value.read(pages).expect("all pages are there"), value);
    }
    assert!(cursor.next(pages).expect("all pages are there").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn tree_does_what_a_map_does(ops in prop::collection::vec(op(), 1..120)) {
        let mut test = Test::default();
        for (i, op) in ops.into_iter().enumerate() {
            test.apply(op);
            if i % 16 == 15 {
                let mut pages = test.pages.clone();
                pages.absent.clear();
                check_against(&pages, test.root, &test.model);
            }
        }
        test.check_snapshot();
        test.pages.absent.clear();
        check_against(&test.pages, test.root, &test.model);
        while clear(&mut test.pages, &mut test.root, 3).expect("all pages are there") == Cleared::Part {
            check(&test.pages, test.root).expect("a half-cleared tree is sound");
        }
        prop_assert!(test.pages.pages.is_empty() && test.root == TreeRoot(None));
    }
}

#[test]
fn long_values_are_given_up_with_few_of_their_pages_in_memory() {
    let mut test = Test::default();
    for key in 0u8..3 {
        test.put(vec![key], vec![key; 20_000]);
    }
    let (mut pages, mut root) = (test.pages, test.root);
    let (mut misses, mut present) = (0, Vec::new());
    pages.absent = pages.pages.keys().copied().collect();
    loop {
        let before = pages.pages.len();
        let outcome = clear(&mut pages, &mut root, 2);
        assert!(before - pages.pages.len() <= 3, "one call released {}", before - pages.pages.len());
        let mut whole = pages.clone();
        whole.absent.clear();
        check(&whole, root).expect("a half-cleared tree is sound");
        match outcome {
            Ok(Cleared::All) => break,
            Ok(Cleared::Part) => {}
            Err(PageFault::Miss(no)) => {
                misses += 1;
                present.retain(|other| pages.pages.contains_key(other));
                if present.len() == 3 {
                    pages.absent.insert(present.remove(0));
                }
                present.push(no);
                assert!(pages.absent.remove(&no) && misses < 100, "it comes to an end");
            }
            Err(fault) => panic!("{fault}"),
        }
    }
    assert!(pages.pages.is_empty() && root == TreeRoot(None));
}

#[test]
fn emptied_tree_keeps_its_root_page_and_nothing_else() {
    let mut test = Test::default();
    for i in 0u32..5000 {
        test.put(i.to_be_bytes().to_vec(), vec![7; 100]);
    }
    let root = test.root;
    for i in (0u32..5000).rev() {
        test.remove(&i.to_be_bytes());
    }
    assert_eq!(test.root, root);
    assert_eq!(test.pages.pages.len(), 1);
    check_against(&test.pages, root, &Model::new());
}

#[test]
fn ascending_inserts_fill_their_leaves() {
    let mut pages = TestPages::default();
    let mut root = TreeRoot::default();
    for i in 0u64..20_000 {
        put(&mut pages, &mut root, &i.to_be_bytes(), &[1; 100]).expect("all pages are there");
    }
    let report = check(&pages, root).expect("sound");
    assert!(report.leaf_bytes_used * 100 > report.leaf_bytes_capacity() * 97, "{}", report.leaves);

    // The same within each of several groups, as order lines within their districts.
    let (mut pages, mut root) = (TestPages::default(), TreeRoot::default());
    for i in 0u64..4_000 {
        for district in 0u8..10 {
            let key = [&[district][..], &i.to_be_bytes()].concat();
            put(&mut pages, &mut root, &key, &[1; 100]).expect("all pages are there");
        }
    }
    let report = check(&pages, root).expect("sound");
    assert!(report.leaf_bytes_used * 100 > report.leaf_bytes_capacity() * 90, "{}", report.leaves);
}

#[test]
fn deletion_behind_a_queue_leaves_no_pages_behind() {
    let mut test = Test::default();
    for i in 0u64..30_000 {
        put(&mut test.pages, &mut test.root, &i.to_be_bytes(), &[1; 60]).expect("all pages are there");
        if i >= 500 {
            assert!(
                remove(&mut test.pages, test.root, &(i - 500).to_be_bytes()).expect("all pages are there")
            );
        }
    }
    assert!(test.pages.pages.len() < 20, "{} pages for 500 entries", test.pages.pages.len());
}

#[test]
fn a_full_node_keeps_its_prefix_where_a_longer_one_has_no_room() {
    let mut test = Test::default();
    // Until it is gone no key has its prefix; its heads are all of the others' keys.
    test.put(vec![9], Vec::new());
    let full = (PAGE_SIZE - 32) / 16 - 12;
    for last in 0u8..16 {
        if last == 6 {
            test.remove(&[9]);
        }
        test.put(vec![1, 2, last], vec![last; full]);
    }
    assert_eq!(test.pages.pages.len(), 1, "sixteen entries take all of a page");
    check_against(&test.pages, test.root, &test.model);
}

#[test]
fn damaged_pages_are_reported() {
    let mut test = Test::default();
    for i in 0u32..2000 {
        test.put(i.to_be_bytes().to_vec(), vec![7; if i == 999 { 20_000 } else { 50 }]);
    }
    let numbers: Vec<_> = test.pages.pages.keys().copied().collect();
    for no in numbers {
        let sound = test.pages.pages[&no].clone();
        test.pages.pages.get_mut(&no).expect("listed")[12] ^= 1;
        assert!(matches!(check(&test.pages, test.root), Err(PageFault::Corrupt(_))), "{no:?}");
        *test.pages.pages.get_mut(&no).expect("listed") = sound;
    }
    assert!(check(&test.pages, test.root).is_ok());
}

/// What the check says of the tree with page `no` changed so, and of which page it says it.
fn defect_of(test: &Test, no: PageNo, change: impl FnOnce(&mut PageBytes)) -> (&'static str, Option<PageNo>) {
    let mut pages = test.pages.clone();
    let page: &mut PageBytes = pages.pages.get_mut(&no).expect("a page of the tree");
    change(page);
    match check(&pages, test.root) {
        Err(PageFault::Corrupt(corrupt)) => (corrupt.what, corrupt.page),
        other => panic!("{no:?}: {other:?}"),
    }
}

#[test]
fn keys_in_the_wrong_order_or_node_are_reported() {
    let mut test = Test::default();
    for i in 0u32..2000 {
        test.put(i.to_be_bytes().to_vec(), vec![7; 50]);
    }
    let root = test.root.0.expect("a tree with entries");
    let top = Node(&test.pages.pages[&root]);
    let children: Vec<PageNo> = (0..=top.count()).map(|i| top.child(i)).collect();
    assert!(top.level() == 1 && children.len() > 3, "{} children", children.len());

    // Two keys exchanged, in a leaf and in the root.
    let mut exchanged = 0;
    for (no, bytes) in &test.pages.pages {
        let node = Node(bytes);
        if node.count() > 1 {
            let (first, second) = (node.slot_at(0), node.slot_at(1));
            let exchange =
                |page: &mut PageBytes| (0..SLOT_LEN).for_each(|i| page.swap(first + i, second + i));
            assert_eq!(defect_of(&test, *no, exchange), ("order of keys in the node", Some(*no)));
            exchanged += 1;
        }
    }
    assert!(exchanged >= children.len(), "the root and all leaves but perhaps the last");

    // A leaf in the place of its neighbour: its keys are ordered, and all of them behind or before what belongs there.
    for (place, other) in [(0, 1), (1, 0), (2, 1), (1, 2)] {
        let other = &test.pages.pages[&children[other]];
        let defect = defect_of(&test, children[place], |page| *page = **other);
        assert_eq!(defect, ("keys outside the node's range", Some(children[place])));
    }
    // The root in the place of a leaf, which it would lead to for ever.
    let defect = defect_of(&test, children[0], |page| *page = *test.pages.pages[&root]);
    assert_eq!(defect, ("level of a tree node", Some(children[0])));
    assert!(check(&test.pages, test.root).is_ok());
}

#[test]
fn long_value_is_named_before_it_is_read() {
    let mut test = Test::default();
    test.put(b"k".to_vec(), vec![3; 100_000]);
    let value = get(&test.pages, test.root, b"k").expect("present").expect("there");
    assert!(matches!(value, Value::Chain(_)));
    assert_eq!(value.len(), 100_000);
    test.put(b"k".to_vec(), vec![4; 10]);
    assert_eq!(test.pages.pages.len(), 1, "the chain is released");
}

#[test]
fn an_entry_is_found_again_whatever_became_of_the_tree() {
    let (mut pages, mut root, mut near) = (TestPages::default(), TreeRoot::default(), None);
    let key = |n: u32| [&[7; 3][..], &n.to_be_bytes()].concat();
    for round in 0..4u32 {
        for n in (0..2000u32).map(|n| n * 7 % 2000) {
            if (n + round).is_multiple_of(3) {
                remove(&mut pages, root, &key(n)).unwrap();
            } else {
                put(&mut pages, &mut root, &key(n), &[round as u8; 40]).unwrap();
            }
            for asked in [n, n, n + 1, n + 2, n / 2] {
                let found = get_near(&pages, root, &key(asked), &mut near).unwrap();
                assert_eq!(found, get(&pages, root, &key(asked)).unwrap(), "{asked}");
            }
        }
    }
}
