//! Cost of the tree's operations on resident pages of a live map: 500,000 rows of 300 bytes. Prints nanoseconds an
//! operation. Run with `cargo bench -p btree`.

#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock itself")]

use std::ops::Bound;
use std::time::Instant;

use btree::{Cursor, Seek, TreeRoot, Value, check, get, get_many, put, remove};
use storage::PageMap;

const ROWS: u64 = 500_000;
const ROW_LEN: usize = 300;

/// A key as a one-column integer key is encoded: a tag and eight bytes.
fn key(n: u64) -> [u8; 9] {
    let mut key = [1; 9];
    key[1..].copy_from_slice(&(n ^ (1 << 63)).to_be_bytes());
    key
}

/// A cheap sequence without visible order.
struct Shuffle(u64);

impl Shuffle {
    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn next(&mut self) -> u64 {
        self.draw() % ROWS
    }
}

/// Runs `each` so often and prints what one run takes, in the fastest and the median of twenty equal parts: other
/// programs on the machine disturb the fastest least.
fn measure(name: &str, count: u64, each: impl FnMut(u64)) {
    measure_many(name, count, 1, each);
}

/// As [`measure`], where a run does `operations` of `count`.
fn measure_many(name: &str, count: u64, operations: u64, mut each: impl FnMut(u64)) {
    let part = count / operations / 20;
    let mut costs: Vec<f64> = (0..20)
        .map(|n| {
            let start = Instant::now();
            (n * part..(n + 1) * part).for_each(&mut each);
            start.elapsed().as_nanos() as f64 / (part * operations) as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.1} {:>8.1} ns", costs[0], costs[10]);
}

/// What one load costs whose address is in the line loaded before, in as much memory as the rows take, in huge pages as they are.
/// A get of a row that no cache holds waits for two of these at least: the leaf says where the row is.
fn measure_memory() {
    const LINE: usize = 64;
    let lines = (ROWS as usize * ROW_LEN).next_multiple_of(env::HUGE_PAGE_LEN) / LINE;
    let memory = env::reserve_huge(lines * LINE).expect("address space").cast::<u64>();
    let word = |line: usize| {
        assert!(line < lines);
        // SAFETY: the line is within what was reserved, which nobody else knows of, and eight bytes at its start are aligned.
        unsafe { memory.add(line * (LINE / size_of::<u64>())) }
    };
    // One cycle through all lines (Sattolo), so that the way never falls into a short one.
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut shuffle = Shuffle(88_172_645_463_325_252);
    for i in (1..lines).rev() {
        order.swap(i, shuffle.draw() as usize % i);
    }
    // SAFETY: as above, for all of these.
    (0..lines).for_each(|i| unsafe { word(order[i] as usize).write(u64::from(order[(i + 1) % lines])) });
    let mut line = 0;
    measure("one load that waits for the one before", 1_000_000, |_| {
        // SAFETY: as above; every line was written.
        line = unsafe { word(line as usize).read() };
    });
    std::hint::black_box(line);
}

fn main() {
    println!("{:<44} {:>8} {:>8}", "", "fastest", "median");
    measure_memory();
    let row = [7u8; ROW_LEN];
    // The second time the frames are there already: the first one pays for the kernel's zeroing of fresh memory.
    let mut pages = PageMap::new_empty();
    let mut root = TreeRoot::default();
    for name in ["append, on fresh memory", "append"] {
        (pages, root) = (PageMap::new_empty(), TreeRoot::default());
        measure(name, ROWS, |i| {
            put(&mut pages, &mut root, &key(i), &row).expect("resident");
        });
    }
    let report = check(&pages, root).expect("sound");
    let fill = report.leaf_bytes_used as f64 / report.leaf_bytes_capacity() as f64;
    println!("{} pages, depth {}, leaves {:.1} % full", report.pages.len(), report.depth, 100.0 * fill);

    let mut shuffle = Shuffle(88_172_645_463_325_252);
    let mut sum = 0u64;
    for _ in 0..2 {
        measure("get, random", 1_000_000, |_| {
            let Some(Value::Inline(value)) = get(&pages, root, &key(shuffle.next())).expect("resident")
            else {
                panic!("a row is missing");
            };
            sum += u64::from(value[100]);
        });
    }
    measure("get, random, and read the row", 1_000_000, |_| {
        let Some(Value::Inline(value)) = get(&pages, root, &key(shuffle.next())).expect("resident") else {
            panic!("a row is missing");
        };
        sum += value.iter().step_by(8).map(|byte| u64::from(*byte)).sum::<u64>();
    });
    let mut values = Vec::new();
    let name = "get, random, 64 keys together: a key";
    measure_many(name, 1_000_000, 64, |_| {
        let keys: [[u8; 9]; 64] = std::array::from_fn(|_| key(shuffle.next()));
        values.clear();
        get_many(&pages, root, &keys, &mut values).expect("resident");
        for value in &values {
            let Some(Value::Inline(value)) = value else { panic!("a row is missing") };
            sum += u64::from(value[100]);
        }
    });
    measure("get, random, of 2,000 rows", 1_000_000, |_| {
        let Some(Value::Inline(value)) = get(&pages, root, &key(shuffle.next() % 2000)).expect("resident")
        else {
            panic!("a row is missing");
        };
        sum += u64::from(value[100]);
    });
    measure("update, random, of 2,000 rows", 1_000_000, |i| {
        put(&mut pages, &mut root, &key(shuffle.next() % 2000), &[i as u8; ROW_LEN]).expect("resident");
    });
    measure("get, random, each key from the value before", 1_000_000, |_| {
        let n = (shuffle.next() + sum % 3) % ROWS;
        let Some(Value::Inline(value)) = get(&pages, root, &key(n)).expect("resident") else {
            panic!("a row is missing");
        };
        sum += u64::from(value[100]);
    });
    let mut other = [8u8; ROW_LEN];
    for _ in 0..2 {
        measure("update, random, same length", 1_000_000, |i| {
            other[0] = i as u8;
            put(&mut pages, &mut root, &key(shuffle.next()), &other).expect("resident");
        });
    }
    measure("get and update, random", 1_000_000, |_| {
        let key = key(shuffle.next());
        let Some(Value::Inline(value)) = get(&pages, root, &key).expect("resident") else {
            panic!("a row is missing");
        };
        other[1] = value[0];
        put(&mut pages, &mut root, &key, &other).expect("resident");
    });
    let mut cursor = Cursor::new(root, Seek::Start);
    measure("cursor, next", ROWS, |_| {
        let entry = cursor.next(&pages).expect("resident").expect("one more");
        sum += u64::from(entry.key[8]);
    });
    measure("cursor, prev", ROWS, |_| {
        let entry = cursor.prev(&pages).expect("resident").expect("one more");
        sum += u64::from(entry.key[8]);
    });
    let start = Instant::now();
    let (mut cursor, mut scratch, mut rows) = (Cursor::new(root, Seek::Start), Vec::new(), 0u64);
    while let Some(run) = cursor.next_leaf(&pages, Bound::Unbounded).expect("resident") {
        run.for_each(&mut scratch, |key, value| {
            rows += 1;
            sum += u64::from(key[8]) + value.len() as u64;
        });
    }
    println!("{:<44} {:>8.1} ns", "leaf at a time, a row", start.elapsed().as_nanos() as f64 / rows as f64);
    measure("remove and insert, random", 500_000, |_| {
        let key = key(shuffle.next());
        remove(&mut pages, root, &key).expect("resident");
        put(&mut pages, &mut root, &key, &row).expect("resident");
    });
    let snapshot = pages.snapshot();
    measure("update after a snapshot, random", 200_000, |_| {
        put(&mut pages, &mut root, &key(shuffle.next()), &other).expect("resident");
    });
    drop(snapshot);

    // An index: small entries, random order.
    let (mut pages, mut root) = (PageMap::new_empty(), TreeRoot::default());
    measure("insert, random order, 9-byte keys, no value", ROWS, |i| {
        let scattered = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        put(&mut pages, &mut root, &key(scattered), &[]).expect("resident");
    });
    let report = check(&pages, root).expect("sound");
    let fill = report.leaf_bytes_used as f64 / report.leaf_bytes_capacity() as f64;
    println!("{} pages, depth {}, leaves {:.1} % full", report.pages.len(), report.depth, 100.0 * fill);
    std::hint::black_box(sum);
}
