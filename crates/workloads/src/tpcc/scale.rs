//! How large a TPC-C database is.

use std::fmt;

/// Cardinalities of a warehouse; the specification's with factor 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scale {
    pub warehouses: u32,
    /// 10 always: the mix and the keys depend on it.
    pub districts: u32,
    pub customers: u32,
    pub items: u32,
    factor: f64,
}

impl Scale {
    /// `warehouses` of the specification's population times `factor` (0 < factor ≤ 1) in customers, orders, items, stock.
    ///
    /// # Errors
    /// When the factor is out of range or there is no warehouse.
    pub fn new(warehouses: u32, factor: f64) -> Result<Scale, String> {
        if warehouses == 0 {
            return Err("a TPC-C database has at least 1 warehouse".into());
        }
        if !(factor > 0.0 && factor <= 1.0) {
            return Err(format!("the scale {factor} is not above 0 and at most 1"));
        }
        // Below 30 customers a district's undelivered third of its orders would vanish.
        let part = |full: f64, least: u32| ((full * factor).round() as u32).max(least);
        Ok(Scale {
            warehouses,
            districts: 10,
            customers: part(3000.0, 30),
            items: part(100_000.0, 100),
            factor,
        })
    }

    /// Orders of a district at load; one for each customer.
    pub fn orders(&self) -> u32 {
        self.customers
    }

    /// What the customers of a district have paid at load: 10.00 each, the specification's 30,000.
    pub fn paid_at_load(&self) -> u32 {
        self.customers * 10
    }

    /// The first order of a district that is not delivered yet: the specification's 2,101 of 3,000.
    pub fn first_undelivered(&self) -> u32 {
        self.orders() * 7 / 10 + 1
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scale { warehouses, factor, items, customers, .. } = self;
        write!(
            f,
            "{warehouses} warehouse(s) at scale {factor}: {items} items, 10 districts x {customers} customers and orders each"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_told_whatever_it_is() {
        let told = |factor| Scale::new(2, factor).expect("in range").to_string();
        let full = "2 warehouse(s) at scale 1: 100000 items, 10 districts x 3000 customers and orders each";
        assert_eq!(told(1.0), full);
        let part = "2 warehouse(s) at scale 0.05: 5000 items, 10 districts x 150 customers and orders each";
        assert_eq!(told(0.05), part);
    }
}
