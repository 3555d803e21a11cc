//! How large a store is.

use std::fmt;

/// The suite's three standard sizes, of nominally 10 MB, 1 GB and 100 GB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standard {
    Small,
    Medium,
    Large,
}

/// Cardinalities of a store.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Size {
    standard: Standard,
    factor: f64,
    pub customers: u32,
    pub orders_per_month: u32,
    pub products: u32,
}

/// Fewest customers and products; the statistics of smaller stores mean little.
const LEAST: u32 = 100;

impl Size {
    /// A standard size times `factor` (0 < factor ≤ 1) in customers, orders and products, which are 100 at least.
    ///
    /// # Errors
    /// When the factor is out of range.
    pub fn new(standard: Standard, factor: f64) -> Result<Size, String> {
        if !(factor > 0.0 && factor <= 1.0) {
            return Err(format!("the scale {factor} is not above 0 and at most 1"));
        }
        let (customers, orders_per_month, products) = match standard {
            Standard::Small => (20_000, 1_000, 10_000),
            Standard::Medium => (2_000_000, 100_000, 100_000),
            Standard::Large => (200_000_000, 10_000_000, 1_000_000),
        };
        let part = |full: u32, least: u32| ((f64::from(full) * factor).round() as u32).max(least);
        Ok(Size {
            standard,
            factor,
            customers: part(customers, LEAST),
            orders_per_month: part(orders_per_month, 1),
            products: part(products, LEAST),
        })
    }

    /// Orders at load: those of a year.
    pub fn orders(&self) -> u32 {
        self.orders_per_month * 12
    }

    /// One title in so many is on special offer.
    pub(super) fn special_one_in(&self) -> u32 {
        if self.products > 100_000 { 10_000 } else { 100 }
    }
}

/// Every 10,000th title sells ten times as often as others, and more of it is kept.
pub(super) fn is_popular(product: u32) -> bool {
    product.is_multiple_of(10_000)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.standard {
            Standard::Small => "small",
            Standard::Medium => "medium",
            Standard::Large => "large",
        };
        let Size { factor, customers, orders_per_month, products, .. } = self;
        write!(
            f,
            "{name} at scale {factor}: {customers} customers, {orders_per_month} orders a month, {products} titles"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_suites_and_parts_of_them() {
        let small = Size::new(Standard::Small, 1.0).expect("in range");
        assert_eq!((small.customers, small.orders(), small.products), (20_000, 12_000, 10_000));
        let tenth = Size::new(Standard::Medium, 0.1).expect("in range");
        assert_eq!((tenth.customers, tenth.orders(), tenth.products), (200_000, 120_000, 10_000));
        assert_eq!(Size::new(Standard::Small, 0.000_1).expect("in range").products, LEAST);
        for wrong in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(Size::new(Standard::Small, wrong).is_err(), "{wrong}");
        }
    }
}
