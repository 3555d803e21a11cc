//! PostgreSQL's numeric: exact decimals of any precision with a display scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numeric(Box<u64>, u64);
impl Numeric { 
    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize { unimplemented!() } }
