//! All tables but orders and their lines (clause 4.2.3).

use std::fmt::Write as _;

use super::rows::{Source, address, container, money, part_type, phone, retail_price_cents};
use super::words::{COLORS, NATIONS, REGIONS, SEGMENTS};
use crate::Result;
use crate::copy::Loader;
use crate::random::Draw as _;

pub(super) async fn regions(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut rng = source.rng(1, 0);
    let mut copy = loader.copy("region", "").await?;
    for (key, name) in REGIONS.iter().enumerate() {
        write!(copy.text, "{key}\t{name}\t{}", source.pool.piece(&mut rng, 31, 115))?;
        copy.end_row().await?;
    }
    copy.finish().await
}

pub(super) async fn nations(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut rng = source.rng(2, 0);
    let mut copy = loader.copy("nation", "").await?;
    for (key, (name, region)) in NATIONS.iter().enumerate() {
        write!(copy.text, "{key}\t{name}\t{region}\t{}", source.pool.piece(&mut rng, 31, 114))?;
        copy.end_row().await?;
    }
    copy.finish().await
}

pub(super) async fn parts(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let colors: Vec<&str> = COLORS.split(' ').collect();
    let mut rng = source.rng(3, 0);
    let mut copy = loader.copy("part", "").await?;
    for key in 1..=source.scale.parts() {
        let r = &mut rng;
        let (maker, brand) = (r.uniform(1, 5), r.uniform(1, 5));
        let mut name: Vec<&str> = Vec::with_capacity(5);
        while name.len() < 5 {
            let color = r.one_of(&colors);
            if !name.contains(&color) {
                name.push(color);
            }
        }
        let (name, kind, size, container) = (name.join(" "), part_type(r), r.uniform(1, 50), container(r));
        let price = money(i64::try_from(retail_price_cents(key))?);
        write!(
            copy.text,
            "{key}\t{name}\tManufacturer#{maker}\tBrand#{maker}{brand}\t{kind}\t{size}\t{container}\t{price}\t{}",
            source.pool.piece(r, 5, 22)
        )?;
        copy.end_row().await?;
    }
    copy.finish().await
}

pub(super) async fn suppliers(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut rng = source.rng(4, 0);
    let mut copy = loader.copy("supplier", "").await?;
    for key in 1..=source.scale.suppliers() {
        let r = &mut rng;
        let (nation, address) = (r.uniform(0, NATIONS.len() - 1), address(r));
        let (phone, balance) = (phone(r, nation), money(r.uniform(-99_999, 999_999)));
        // Of 10,000 suppliers customers complain of five and recommend five.
        let comment = source.pool.piece(r, 25, 100);
        let comment = match r.uniform(1, 2_000) {
            1 => opinion(comment, "Complaints", r.uniform(0, 100)),
            2 => opinion(comment, "Recommends", r.uniform(0, 100)),
            _ => comment.to_owned(),
        };
        write!(copy.text, "{key}\tSupplier#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{comment}")?;
        copy.end_row().await?;
    }
    copy.finish().await
}

/// A comment of the same length with `Customer`, and what the customers think somewhere behind it.
fn opinion(comment: &str, word: &str, percent: usize) -> String {
    const CUSTOMER: &str = "Customer ";
    let spare = comment.len() - CUSTOMER.len() - word.len();
    let gap = spare * percent / 100;
    let (between, after) = (&comment[CUSTOMER.len()..][..gap], &comment[CUSTOMER.len() + gap + word.len()..]);
    format!("{CUSTOMER}{between}{word}{after}")
}

pub(super) async fn part_suppliers(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut rng = source.rng(5, 0);
    let mut copy = loader.copy("partsupp", "").await?;
    for part in 1..=source.scale.parts() {
        let mut suppliers = [0, 1, 2, 3].map(|number| source.scale.supplier_of(part, number));
        // In the order of the key, as the table is stored.
        suppliers.sort_unstable();
        for supplier in suppliers {
            let r = &mut rng;
            let (quantity, cost) = (r.uniform(1, 9_999), money(r.uniform(100, 100_000)));
            write!(copy.text, "{part}\t{supplier}\t{quantity}\t{cost}\t{}", source.pool.piece(r, 49, 198))?;
            copy.end_row().await?;
        }
    }
    copy.finish().await
}

pub(super) async fn customers(loader: &mut Loader<'_>, source: &Source) -> Result<()> {
    let mut rng = source.rng(6, 0);
    let mut copy = loader.copy("customer", "").await?;
    for key in 1..=source.scale.customers() {
        let r = &mut rng;
        let (nation, address) = (r.uniform(0, NATIONS.len() - 1), address(r));
        let (phone, balance, segment) =
            (phone(r, nation), money(r.uniform(-99_999, 999_999)), r.one_of(&SEGMENTS));
        write!(
            copy.text,
            "{key}\tCustomer#{key:09}\t{address}\t{nation}\t{phone}\t{balance}\t{segment}\t{}",
            source.pool.piece(r, 29, 116)
        )?;
        copy.end_row().await?;
    }
    copy.finish().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opinion_keeps_the_comments_length() {
        let comment = "0123456789012345678901234567890123456789";
        for percent in [0, 37, 100] {
            let opinion = opinion(comment, "Complaints", percent);
            assert_eq!(opinion.len(), comment.len(), "{opinion}");
            let (_, rest) = opinion.split_once("Customer").expect("the customer");
            assert!(rest.contains("Complaints"), "{opinion}");
        }
        assert!(opinion(&comment[..25], "Recommends", 100).ends_with("Recommends"));
    }

    #[test]
    fn there_are_92_colors() {
        assert_eq!(COLORS.split(' ').collect::<std::collections::BTreeSet<_>>().len(), 92);
    }
}
